//! What ties conversions to their transfers: a transfer needs its conversions, and its end is theirs, in one record.

use alloc::vec::Vec;

use upesi_types::{Amount, ConversionId, Currency, Timestamp, TransferId};

use super::put::{aborted_patch, end, expire_conversion};
use crate::Ledger;
use crate::account::Account;
use crate::actor::Actor;
use crate::callback::{CallbackContent, StateMethod, TransferView};
use crate::command::prepare::active;
use crate::command::{Decision, Prepare};
use crate::conversion::{Conversion, ConversionLeg, ConversionSide, ConversionState};
use crate::event::Event;
use crate::participant::{Participant, ParticipantId};
use crate::refusal::{Cause, Refusal};
use crate::transfer::{AbortKind, PublicState, Transfer, TransferState};

/// Most live conversions of one transfer: the payer's and the payee's.
pub(crate) const CONVERSIONS_PER_TRANSFER_MAX: usize = 2;

impl Ledger {
    /// The conversion by which the payer pays a new transfer. Those of others do not count, nor do those that ended.
    pub(in crate::command) fn payers_conversion(
        &self,
        prepare: &Prepare,
        payer: Option<&Participant>,
    ) -> Option<&Conversion> {
        let payer = payer.filter(|_| prepare.source == prepare.payer)?;
        self.conversions.linked(prepare.id, ConversionSide::Payer, Some(payer.id))
    }

    /// The FXP and its account, which pay a converted transfer.
    pub(in crate::command) fn check_converted(
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

    /// Until when a reserved transfer can be fulfilled: its payer's conversion may lapse before itself.
    pub(in crate::command) fn deadline(&self, transfer: &Transfer) -> Timestamp {
        let payers = self.conversions.linked(transfer.id, ConversionSide::Payer, transfer.payer);
        payers.map_or(transfer.expires_at, |conversion| conversion.expires_at.min(transfer.expires_at))
    }

    /// Whether a transfer cannot be committed yet, because its payee has asked for a conversion that is not fulfilled.
    pub(in crate::command) fn awaits_conversion(&self, transfer: &Transfer, now: Timestamp) -> bool {
        let payees = self.conversions.linked(transfer.id, ConversionSide::Payee, transfer.payee);
        payees.is_some_and(|conversion| !is_fulfilled(conversion, now))
    }

    /// Ends the conversions of every transfer that the decision ends: committed with it, or aborted for its cause. A
    /// transfer that is refused takes its payer's conversion along.
    pub(in crate::command) fn cascade(&self, now: Timestamp, out: &mut Decision) {
        let ended: Vec<_> = out.events.iter().flat_map(|event| self.ended_by(event, out)).collect();
        for (conversion, abort) in ended {
            match abort {
                None => self.commit_conversion(conversion, now, out),
                Some((AbortKind::Expired, _)) => expire_conversion(conversion, None, out),
                Some((kind, cause)) => abort_with_transfer(conversion, kind, cause, now, out),
            }
        }
    }

    /// The conversions that end by an event of a transfer; with kind and cause if it is aborted.
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
                TransferState::Aborted { kind, cause, .. } => {
                    let payer = transfer.payer.filter(|payer| {
                        matches!(out.actor, Actor::Dfsp(source) if self.participant(*payer).name == source)
                    });
                    (transfer.id, Some((*kind, cause.clone())), (payer, None))
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

    /// The FXP is told; to the initiator the transfer's own callback says it.
    fn commit_conversion(&self, conversion: &Conversion, now: Timestamp, out: &mut Decision) {
        let Some((reserved, further)) = conversion.legs() else { unreachable!("a live one has accounts") };
        let settled =
            |leg: ConversionLeg| self.settled_by_commit((leg.debtor, leg.creditor), leg.money.amount);
        let (id, settled, further) = (conversion.id, settled(reserved), further.map(settled));
        out.events.push(Event::ConversionCommitted { id, settled, further });
        let view = TransferView {
            state: PublicState::Committed,
            completed_at: Some(now),
            fulfilment: None,
            extensions: None,
            cause: None,
        };
        tell_fxp(conversion, CallbackContent::State(StateMethod::Patch, view), out);
    }

    fn parties_of(&self, id: TransferId) -> (Option<ParticipantId>, Option<ParticipantId>) {
        self.transfer(id).map_or((None, None), |transfer| (transfer.payer, transfer.payee))
    }

    /// Expires conversions whose deadline has passed. The payer's takes its reserved transfer along; the payee's leaves
    /// the transfer to its payee, which may convert it elsewhere.
    pub(in crate::command) fn expire_conversions(&self, now: Timestamp, max: usize, out: &mut Decision) {
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

/// The FXP is told: by PATCH if it has fulfilled. To the initiator the transfer's own callback says it.
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
