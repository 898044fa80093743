//! Decides `PUT /fxTransfers/{ID}` and `…/error`: the FXP fulfils or declines an FX transfer.

use sha2::{Digest, Sha256};
use upesi_types::{ConversionId, ErrorCode, FspId, Timestamp};

use crate::base::ids::ParticipantId;
use crate::base::refusal::{AbortKind, Cause, Refusal};
use crate::core::callback::{CallbackContent, StateMethod};
use crate::core::decision::{Decision, Reply};
use crate::core::event::Event;
use crate::core::facts::{ArchiveLookupNeeded, Facts};
use crate::core::state::Ledger;
use crate::money::conversion::{Conversion, ConversionAnswer, ConversionState};
use crate::money::transfer::{PublicState, TransferView};
use crate::rules::money::conversions::{AbortConversion, FulfilConversion};
use crate::rules::money::fulfil::{FulfilState, Fulfilment};
use crate::rules::money::put::PutHead;

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
        let head = PutHead { id: &fulfil.conversion, source: fulfil.source, destination: fulfil.destination };
        let Some((put, conversion)) = self.begin_put(head, answer, facts, out) else { return };
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
        let head = PutHead { id: &abort.conversion, source: abort.source, destination: abort.destination };
        let Some((put, conversion)) = self.begin_put(head, answer, facts, out) else { return };
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
        head: PutHead<'_>,
        answer: ConversionAnswer,
        facts: &Facts<'a>,
        out: &mut Decision,
    ) -> Option<(Put, &'a Conversion)> {
        let PutHead { id, source, destination } = head;
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
    conversion.initiator.unwrap_or_else(|| unreachable!("a reserved FX transfer has both parties"))
}
