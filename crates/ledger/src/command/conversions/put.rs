//! Decides `PUT /fxTransfers/{ID}` and `…/error`, with which the FXP fulfils or declines an FX transfer, and links FX
//! transfers to their transfers.

use alloc::vec::Vec;

use sha2::{Digest, Sha256};
use upesi_types::{Amount, ConversionId, Currency, ErrorCode, FspId, Timestamp, TransferId};

use crate::account::Account;
use crate::actor::Actor;
use crate::callback::{CallbackContent, ResourceId, StateMethod};
use crate::command::conversions::{AbortConversion, FulfilConversion};
use crate::command::fulfil::{FulfilState, Fulfilment};
use crate::command::prepare::{Prepare, active};
use crate::conversion::{Conversion, ConversionAnswer, ConversionLeg, ConversionSide, ConversionState};
use crate::decision::{Decision, Reply};
use crate::event::Event;
use crate::facts::{ArchiveLookupNeeded, Facts};
use crate::ids::ParticipantId;
use crate::participant::Participant;
use crate::refusal::{AbortKind, Cause, Refusal};
use crate::state::Ledger;
use crate::transfer::{PublicState, Settled, Transfer, TransferState, TransferView};

/// An FXP's PUT.
struct Put {
    /// The participant that sent it.
    sender: ParticipantId,
    destination: Option<FspId>,
    answer: ConversionAnswer,
    now: Timestamp,
}

impl Ledger {
    pub(crate) fn decide_conversion_fulfil(
        &self,
        fulfil: &FulfilConversion,
        facts: &Facts<'_>,
        out: &mut Decision,
    ) {
        let answer = ConversionAnswer { is_error: false, fingerprint: fulfil.fingerprint };
        let Some((put, conversion)) =
            self.begin_put((&fulfil.conversion, fulfil.source, fulfil.destination), answer, facts, out)
        else {
            return;
        };
        if fulfil.state == FulfilState::Received {
            return out.tell_conversion_error(put.sender, conversion.id.id(), Refusal::ConversionReceived);
        }
        if !self.may_answer(&put, conversion, out) {
            return;
        }
        if fulfil.state == FulfilState::Aborted {
            let code = ErrorCode::PAYEE;
            let cause = Cause::Payee { code, description: code.describe("").into() };
            return self.abort_by_fxp(&put, conversion, cause, false, out);
        }
        match fulfil.fulfilment {
            Fulfilment::Preimage(preimage) if Sha256::digest(preimage).as_slice() == conversion.condition => {
                if conversion.expires_at <= put.now {
                    return expire_conversion(conversion, Some(answer), out);
                }
                let id = conversion.id;
                out.events.push(Event::ConversionFulfilled { id, fulfilment: preimage, answer });
                out.tell_of_conversion(initiator(conversion), id.id(), CallbackContent::ForwardFulfil);
            }
            _ => abort_invalid(&put, conversion, Refusal::FulfilmentInvalid, out),
        }
    }

    pub(crate) fn decide_conversion_abort(
        &self,
        abort: &AbortConversion,
        facts: &Facts<'_>,
        out: &mut Decision,
    ) {
        let answer = ConversionAnswer { is_error: true, fingerprint: abort.fingerprint };
        let Some((put, conversion)) =
            self.begin_put((&abort.conversion, abort.source, abort.destination), answer, facts, out)
        else {
            return;
        };
        if !self.may_answer(&put, conversion, out) {
            return;
        }
        if conversion.expires_at <= put.now {
            return expire_conversion(conversion, Some(answer), out);
        }
        if !abort.code.is_known_to_api() {
            return abort_invalid(&put, conversion, Refusal::ErrorCodeUndefined, out);
        }
        let cause = Cause::Payee { code: abort.code, description: abort.description.clone() };
        self.abort_by_fxp(&put, conversion, cause, true, out);
    }

    /// Returns the sender and the FX transfer, or nothing if `out` already contains the answer.
    fn begin_put<'a>(
        &'a self,
        (id, source, destination): (&ResourceId, FspId, Option<FspId>),
        answer: ConversionAnswer,
        facts: &Facts<'a>,
        out: &mut Decision,
    ) -> Option<(Put, &'a Conversion)> {
        let Some(sender) = self.participant_id_ignoring_case(&source) else {
            out.reply = Reply::UnknownSender(source);
            return None;
        };
        match self.find_conversion(id.id().map(ConversionId::new), facts) {
            Err(ArchiveLookupNeeded) => {
                out.reply = Reply::NeedsArchive;
                None
            }
            Ok(None) => {
                out.tell_conversion_error(sender, id.clone(), Refusal::ConversionMissing);
                None
            }
            Ok(Some(conversion)) => Some((Put { sender, destination, answer, now: facts.now() }, conversion)),
        }
    }

    /// Whether this PUT may change the FX transfer. If not, `out` contains the answer.
    ///
    /// Only the FXP may change it, only with the initiator as destination, and only while it is reserved and not yet
    /// fulfilled. If the FXP's own PUT has a wrong destination, it aborts such an FX transfer. Any other PUT is only
    /// rejected.
    fn may_answer(&self, put: &Put, conversion: &Conversion, out: &mut Decision) -> bool {
        let is_open = conversion.state == ConversionState::Reserved;
        let refuse = |refusal, out: &mut Decision| {
            out.tell_conversion_error(put.sender, conversion.id.id(), refusal);
        };
        if Some(put.sender) != conversion.fxp {
            refuse(Refusal::SourceNotFxp, out);
            return false;
        }
        let initiator = conversion.initiator.map(|initiator| self.participant(initiator).name);
        if !put.destination.zip(initiator).is_some_and(|(named, initiator)| named.eq_ignore_case(&initiator))
        {
            if is_open {
                abort_invalid(put, conversion, Refusal::DestinationNotInitiator, out);
            } else {
                refuse(Refusal::DestinationNotInitiator, out);
            }
            return false;
        }
        match conversion.answer.filter(|seen| seen.is_error == put.answer.is_error) {
            Some(seen) if seen == put.answer => answer_resent(put, conversion, out),
            Some(_) => refuse(Refusal::Modified, out),
            None if !is_open => refuse(Refusal::ConversionNotReserved, out),
            None => return true,
        }
        false
    }

    /// Aborts the FX transfer at the FXP's request. The initiator receives the FXP's own message if it is an error
    /// callback, otherwise a message from the hub.
    fn abort_by_fxp(
        &self,
        put: &Put,
        conversion: &Conversion,
        cause: Cause,
        is_error: bool,
        out: &mut Decision,
    ) {
        let (id, initiator) = (conversion.id.id(), initiator(conversion));
        if is_error {
            out.tell_of_conversion(initiator, id, CallbackContent::ForwardAbort);
            if self.config().payee_confirmation && initiator != put.sender {
                out.tell_of_conversion(put.sender, id, CallbackContent::ConfirmAbort);
            }
        } else {
            out.tell_of_conversion(initiator, id, CallbackContent::Error(cause.clone()));
        }
        end(conversion, AbortKind::ByPayee, cause, Some(put.answer), out);
    }
}

/// Answers a resent PUT. While the FX transfer waits for its transfer, the 200 response is the only answer. After its
/// end the FXP also receives the state.
fn answer_resent(put: &Put, conversion: &Conversion, out: &mut Decision) {
    if !conversion.is_live() {
        let state = CallbackContent::State(StateMethod::Put, conversion.view());
        out.tell_of_conversion(put.sender, conversion.id.id(), state);
    }
}

/// Ends a reserved FX transfer because the FXP's PUT is invalid. If the PUT was a fulfil, the FXP is informed by PATCH.
fn abort_invalid(put: &Put, conversion: &Conversion, refusal: Refusal, out: &mut Decision) {
    let (id, cause) = (conversion.id.id(), Cause::Hub(refusal));
    out.tell_of_conversion(initiator(conversion), id, CallbackContent::Error(cause.clone()));
    if !put.answer.is_error {
        out.tell_of_conversion(put.sender, id, aborted_patch(&cause, put.now));
    }
    let kind = if put.answer.is_error { AbortKind::InvalidAbort } else { AbortKind::InvalidFulfil };
    end(conversion, kind, cause, Some(put.answer), out);
}

/// Ends an FX transfer whose deadline has passed and informs both parties.
pub(crate) fn expire_conversion(conversion: &Conversion, late: Option<ConversionAnswer>, out: &mut Decision) {
    let cause = Cause::Hub(Refusal::Expired);
    for party in [conversion.initiator, conversion.fxp].into_iter().flatten() {
        out.tell_of_conversion(party, conversion.id.id(), CallbackContent::Error(cause.clone()));
    }
    end(conversion, AbortKind::Expired, cause, late, out);
}

/// Records the end. `out` already contains the callbacks.
pub(crate) fn end(
    conversion: &Conversion,
    kind: AbortKind,
    cause: Cause,
    answer: Option<ConversionAnswer>,
    out: &mut Decision,
) {
    out.events.push(Event::ConversionAborted { id: conversion.id, kind, cause, answer });
}

/// The message to an FXP that fulfilled an FX transfer which was aborted afterwards.
pub(crate) fn aborted_patch(cause: &Cause, now: Timestamp) -> CallbackContent {
    let view = TransferView {
        state: PublicState::Aborted,
        completed_at: Some(now),
        fulfilment: None,
        extensions: None,
        cause: Some(cause.clone()),
    };
    CallbackContent::State(StateMethod::Patch, view)
}

fn initiator(conversion: &Conversion) -> ParticipantId {
    conversion.initiator.unwrap_or_else(|| unreachable!("a reserved conversion has both parties"))
}

// The link between FX transfers and their transfers: a transfer needs its FX transfers, and they end with it, in one
// record.

impl Ledger {
    /// The FX transfer with which the payer funds a new transfer. FX transfers of other initiators and ended ones are
    /// ignored.
    pub(crate) fn payers_conversion(
        &self,
        prepare: &Prepare,
        payer: Option<&Participant>,
    ) -> Option<&Conversion> {
        let payer = payer.filter(|_| prepare.source == prepare.payer)?;
        self.conversions.linked(prepare.id, ConversionSide::Payer, Some(payer.id))
    }

    /// Returns the FXP and its account that pay a transfer after conversion.
    pub(crate) fn check_converted(
        &self,
        conversion: &Conversion,
        (amount, currency): (Amount, Currency),
        now: Timestamp,
    ) -> Result<(&Participant, &Account), Refusal> {
        if !is_fulfilled(conversion, now) {
            return Err(Refusal::ConversionUnfulfilled);
        }
        if (conversion.target.amount, conversion.target.currency) != (amount, currency) {
            return Err(Refusal::ConversionDiffers);
        }
        let fxp = conversion.fxp.map(|fxp| self.participant(fxp));
        let Some(fxp) = fxp else { unreachable!("a live conversion has an FXP") };
        let fxp = active(Some(fxp), &fxp.name)?;
        Ok((fxp, self.active_position_account(fxp, currency)?))
    }

    /// The deadline for fulfilling a reserved transfer. The payer's FX transfer may expire before the transfer itself.
    pub(crate) fn deadline(&self, transfer: &Transfer) -> Timestamp {
        let payers = self.conversions.linked(transfer.id, ConversionSide::Payer, transfer.payer);
        payers.map_or(transfer.expires_at, |conversion| conversion.expires_at.min(transfer.expires_at))
    }

    /// Whether a transfer cannot be committed yet because its payee has requested an FX transfer that is not fulfilled.
    pub(crate) fn awaits_conversion(&self, transfer: &Transfer, now: Timestamp) -> bool {
        let payees = self.conversions.linked(transfer.id, ConversionSide::Payee, transfer.payee);
        payees.is_some_and(|conversion| !is_fulfilled(conversion, now))
    }

    /// Ends the FX transfers of every transfer that the decision ends. They are committed with it, or aborted for the
    /// same cause. The rejection of a new transfer also ends its payer's FX transfer.
    pub(crate) fn cascade(&self, now: Timestamp, out: &mut Decision) {
        let ended: Vec<_> = out.events.iter().flat_map(|event| self.ended_by(event, out)).collect();
        for (conversion, abort) in ended {
            match abort {
                None => self.commit_conversion(conversion, now, out),
                Some((AbortKind::Expired, _)) => expire_conversion(conversion, None, out),
                Some((kind, cause)) => abort_with_transfer(conversion, kind, cause, now, out),
            }
        }
    }

    /// The FX transfers that an event of a transfer ends, with kind and cause if the transfer is aborted.
    fn ended_by(
        &self,
        event: &Event,
        out: &Decision,
    ) -> impl Iterator<Item = (&Conversion, Option<(AbortKind, Cause)>)> {
        let (id, abort, (payer, payee)) = match event {
            Event::TransferCommitted { id, .. } => (*id, None, self.parties_of(*id)),
            Event::TransferAborted { id, kind, cause, .. } => {
                (*id, Some((*kind, cause.clone())), self.parties_of(*id))
            }
            Event::TransferPrepared(transfer) => match &transfer.state {
                TransferState::Aborted(end) => {
                    let payer = transfer.payer.filter(|payer| {
                        matches!(out.actor, Actor::Dfsp(source) if self.participant(*payer).name == source)
                    });
                    (transfer.id, Some((end.kind, end.cause.clone())), (payer, None))
                }
                _ => (transfer.id, None, (None, None)),
            },
            _ => return None.into_iter().flatten(),
        };
        let linked = [(ConversionSide::Payer, payer), (ConversionSide::Payee, payee)]
            .map(|(side, party)| self.conversions.linked(id, side, party));
        let is_live = |conversion: &&Conversion| !is_aborted_by(&out.events, conversion.id);
        let ended: Vec<_> = linked.into_iter().flatten().filter(is_live).collect();
        Some(ended.into_iter().map(move |conversion| (conversion, abort.clone()))).into_iter().flatten()
    }

    /// Commits an FX transfer and informs the FXP. The initiator is informed by the transfer's own callback.
    fn commit_conversion(&self, conversion: &Conversion, now: Timestamp, out: &mut Decision) {
        let Some((reserved, passed_on)) = conversion.legs() else { unreachable!("a live one has accounts") };
        let settled_behind = |leg: ConversionLeg, events: &[Event]| {
            self.settled_by_commit((leg.debtor, leg.creditor), leg.money.amount, events)
        };
        let id = conversion.id;
        let settled = settled_behind(reserved, &out.events);
        out.events.push(Event::ConversionCommitted { id, settled, further: None });
        let further = passed_on.map(|leg| settled_behind(leg, &out.events));
        if let Some(Event::ConversionCommitted { further: recorded, .. }) = out.events.last_mut() {
            *recorded = further;
        }
        if let Some((leg, Settled::InWindow)) = passed_on.zip(further) {
            self.make_room_for(leg, conversion.determining_transfer, &mut out.events);
        }
        let view = TransferView {
            state: PublicState::Committed,
            completed_at: Some(now),
            fulfilment: None,
            extensions: None,
            cause: None,
        };
        tell_fxp(conversion, CallbackContent::State(StateMethod::Patch, view), out);
    }

    /// Makes sure that the payee's position can hold the amount that the payee passes on. If the transfer was settled
    /// immediately, it did not lower the position first. In that case the transfer is added to the open window instead.
    fn make_room_for(&self, leg: ConversionLeg, transfer: Option<TransferId>, events: &mut [Event]) {
        if self.account_ref(leg.debtor).balance.checked_add(leg.money.amount).is_some() {
            return;
        }
        for event in events {
            match event {
                Event::TransferCommitted { id, settled, .. } if Some(*id) == transfer => {
                    *settled = Settled::InWindow;
                }
                _ => {}
            }
        }
    }

    fn parties_of(&self, id: TransferId) -> (Option<ParticipantId>, Option<ParticipantId>) {
        self.transfer(id).map_or((None, None), |transfer| (transfer.payer, transfer.payee))
    }

    /// Expires FX transfers whose deadline has passed. The payer's FX transfer also ends its reserved transfer. The
    /// payee's FX transfer does not, because the payee may convert elsewhere.
    pub(crate) fn expire_conversions(&self, now: Timestamp, max: usize, out: &mut Decision) {
        for conversion in self.conversions.due(now).take(max) {
            let transfer = conversion.determining_transfer.and_then(|id| self.transfer(id));
            let transfer = transfer.filter(|transfer| {
                let party = match conversion.side {
                    ConversionSide::Payer => transfer.payer,
                    ConversionSide::Payee => transfer.payee,
                };
                transfer.state == TransferState::Reserved && party == conversion.initiator
            });
            match transfer {
                // The cascade ends it.
                Some(transfer) if is_ended_by(&out.events, transfer.id) => {}
                Some(transfer) if conversion.side == ConversionSide::Payer => {
                    self.expire(transfer, None, now, out);
                }
                _ => expire_conversion(conversion, None, out),
            }
        }
    }
}

fn is_fulfilled(conversion: &Conversion, now: Timestamp) -> bool {
    conversion.state == ConversionState::Fulfilled && conversion.expires_at > now
}

fn is_ended_by(events: &[Event], transfer: TransferId) -> bool {
    events.iter().any(|event| matches!(event, Event::TransferAborted { id, .. } if *id == transfer))
}

fn is_aborted_by(events: &[Event], conversion: ConversionId) -> bool {
    events.iter().any(|event| matches!(event, Event::ConversionAborted { id, .. } if *id == conversion))
}

/// Aborts an FX transfer together with its transfer and informs the FXP, by PATCH if it has fulfilled. The initiator is
/// informed by the transfer's own callback.
fn abort_with_transfer(
    conversion: &Conversion,
    kind: AbortKind,
    cause: Cause,
    now: Timestamp,
    out: &mut Decision,
) {
    let content = match conversion.state {
        ConversionState::Fulfilled => aborted_patch(&cause, now),
        _ => CallbackContent::Error(cause.clone()),
    };
    tell_fxp(conversion, content, out);
    end(conversion, kind, cause, None, out);
}

fn tell_fxp(conversion: &Conversion, content: CallbackContent, out: &mut Decision) {
    if let Some(fxp) = conversion.fxp {
        out.tell_of_conversion(fxp, conversion.id.id(), content);
    }
}
