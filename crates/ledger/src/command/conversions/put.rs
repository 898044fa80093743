//! `PUT /fxTransfers/{ID}` and `…/error`: the FXP fulfils a conversion or declines it.

use sha2::{Digest, Sha256};
use upesi_types::{ConversionId, ErrorCode, FspId, Timestamp};

use super::{AbortConversion, ArchiveLookupNeeded, FulfilConversion};
use crate::Ledger;
use crate::callback::{CallbackContent, ResourceId, StateMethod, TransferView};
use crate::command::{Decision, FulfilState, Fulfilment, Reply};
use crate::conversion::{Conversion, ConversionAnswer, ConversionState};
use crate::event::Event;
use crate::facts::Facts;
use crate::participant::ParticipantId;
use crate::refusal::{Cause, Refusal};
use crate::transfer::{AbortKind, PublicState};

/// A PUT of an FXP.
struct Put {
    /// Who sent it.
    sender: ParticipantId,
    destination: Option<FspId>,
    answer: ConversionAnswer,
    now: Timestamp,
}

impl Ledger {
    pub(super) fn decide_conversion_fulfil(
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

    pub(super) fn decide_conversion_abort(
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

    /// The sender and the conversion; nothing when the answer is in `out` already.
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

    /// Whether this PUT may change the conversion. If not, the answer is in `out`.
    ///
    /// Only the FXP may, only towards the initiator, and only while the conversion is reserved and not yet fulfilled.
    /// The FXP's own PUT with a wrong destination aborts such a conversion; anything else is only refused.
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

    /// The initiator gets the FXP's own message if that is an error callback, and else one of the hub's.
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

/// While it waits for its transfer, the FXP has its answer in the 200 alone; later, in the state.
fn answer_resent(put: &Put, conversion: &Conversion, out: &mut Decision) {
    if !conversion.is_live() {
        let state = CallbackContent::State(StateMethod::Put, conversion.view());
        out.tell_of_conversion(put.sender, conversion.id.id(), state);
    }
}

/// Ends a reserved conversion because the FXP's PUT is invalid. An FXP that meant to fulfil it is told by PATCH.
fn abort_invalid(put: &Put, conversion: &Conversion, refusal: Refusal, out: &mut Decision) {
    let (id, cause) = (conversion.id.id(), Cause::Hub(refusal));
    out.tell_of_conversion(initiator(conversion), id, CallbackContent::Error(cause.clone()));
    if !put.answer.is_error {
        out.tell_of_conversion(put.sender, id, aborted_patch(&cause, put.now));
    }
    let kind = if put.answer.is_error { AbortKind::InvalidAbort } else { AbortKind::InvalidFulfil };
    end(conversion, kind, cause, Some(put.answer), out);
}

/// Ends a conversion whose deadline has passed; both parties are told.
pub(super) fn expire_conversion(conversion: &Conversion, late: Option<ConversionAnswer>, out: &mut Decision) {
    let cause = Cause::Hub(Refusal::Expired);
    for party in [conversion.initiator, conversion.fxp].into_iter().flatten() {
        out.tell_of_conversion(party, conversion.id.id(), CallbackContent::Error(cause.clone()));
    }
    end(conversion, AbortKind::Expired, cause, late, out);
}

/// Records the end; the callbacks are in `out` already.
pub(super) fn end(
    conversion: &Conversion,
    kind: AbortKind,
    cause: Cause,
    answer: Option<ConversionAnswer>,
    out: &mut Decision,
) {
    out.events.push(Event::ConversionAborted { id: conversion.id, kind, cause, answer });
}

/// What an FXP that fulfilled is told when it was for nothing.
pub(super) fn aborted_patch(cause: &Cause, now: Timestamp) -> CallbackContent {
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
