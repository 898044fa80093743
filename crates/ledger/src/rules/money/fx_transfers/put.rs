//! Decides `PUT /fxTransfers/{ID}` and `…/error`: the FXP fulfils or declines an FX transfer.

use sha2::{Digest, Sha256};
use upesi_types::{ErrorCode, FspId, FxTransferId, Timestamp};

use crate::base::ids::ParticipantId;
use crate::base::refusal::{AbortKind, Cause, Refusal};
use crate::core::callback::{CallbackContent, StateMethod};
use crate::core::decision::{Decision, Reply};
use crate::core::event::Event;
use crate::core::facts::{ArchiveLookupNeeded, DecisionInput};
use crate::core::state::Ledger;
use crate::money::fx_transfer::{FxTransfer, FxTransferAnswer, FxTransferState};
use crate::money::transfer::{PublicState, TransferView};
use crate::rules::money::fulfil::{FulfilState, Fulfilment};
use crate::rules::money::fx_transfers::{AbortFxTransfer, FulfilFxTransfer};
use crate::rules::money::put::PutHead;

/// An FXP's PUT.
struct Put {
    /// The participant that sent it.
    sender: ParticipantId,
    destination: Option<FspId>,
    answer: FxTransferAnswer,
    now: Timestamp,
}

impl Ledger {
    pub(crate) fn decide_fx_transfer_fulfil(
        &self,
        fulfil: &FulfilFxTransfer,
        facts: &DecisionInput<'_>,
        out: &mut Decision,
    ) {
        let answer = FxTransferAnswer { is_error: false, fingerprint: fulfil.fingerprint };
        let head =
            PutHead { id: &fulfil.fx_transfer, source: fulfil.source, destination: fulfil.destination };
        let Some((put, fx_transfer)) = self.begin_put(head, answer, facts, out) else { return };
        if fulfil.state == FulfilState::Received {
            return out.notify_fx_transfer_error(
                put.sender,
                fx_transfer.id.id(),
                Refusal::FxTransferReceived,
            );
        }
        if !self.may_answer(&put, fx_transfer, out) {
            return;
        }
        if fulfil.state == FulfilState::Aborted {
            let code = ErrorCode::PAYEE;
            let cause = Cause::Payee { code, description: code.describe("").into() };
            return self.abort_by_fxp(&put, fx_transfer, cause, false, out);
        }
        match fulfil.fulfilment {
            Fulfilment::Preimage(preimage)
                if Sha256::digest(preimage).as_slice() == fx_transfer.condition =>
            {
                if fx_transfer.expires_at <= put.now {
                    return expire_fx_transfer(fx_transfer, Some(answer), out);
                }
                let id = fx_transfer.id;
                out.events.push(Event::FxTransferFulfilled { id, fulfilment: preimage, answer });
                out.notify_of_fx_transfer(initiator(fx_transfer), id.id(), CallbackContent::ForwardFulfil);
            }
            _ => abort_invalid(&put, fx_transfer, Refusal::FulfilmentInvalid, out),
        }
    }

    pub(crate) fn decide_fx_transfer_abort(
        &self,
        abort: &AbortFxTransfer,
        facts: &DecisionInput<'_>,
        out: &mut Decision,
    ) {
        let answer = FxTransferAnswer { is_error: true, fingerprint: abort.fingerprint };
        let head = PutHead { id: &abort.fx_transfer, source: abort.source, destination: abort.destination };
        let Some((put, fx_transfer)) = self.begin_put(head, answer, facts, out) else { return };
        if !self.may_answer(&put, fx_transfer, out) {
            return;
        }
        if fx_transfer.expires_at <= put.now {
            return expire_fx_transfer(fx_transfer, Some(answer), out);
        }
        if !abort.code.is_known_to_api() {
            return abort_invalid(&put, fx_transfer, Refusal::ErrorCodeUndefined, out);
        }
        let cause = Cause::Payee { code: abort.code, description: abort.description.clone() };
        self.abort_by_fxp(&put, fx_transfer, cause, true, out);
    }

    /// Returns the sender and the FX transfer, or nothing if `out` already contains the answer.
    fn begin_put<'a>(
        &'a self,
        head: PutHead<'_>,
        answer: FxTransferAnswer,
        facts: &DecisionInput<'a>,
        out: &mut Decision,
    ) -> Option<(Put, &'a FxTransfer)> {
        let PutHead { id, source, destination } = head;
        let Some(sender) = self.participant_id_ignoring_case(&source) else {
            out.reply = Reply::UnknownSender(source);
            return None;
        };
        match self.find_fx_transfer(id.id().map(FxTransferId::new), facts) {
            Err(ArchiveLookupNeeded) => {
                out.reply = Reply::NeedsArchive;
                None
            }
            Ok(None) => {
                out.notify_fx_transfer_error(sender, id.clone(), Refusal::FxTransferMissing);
                None
            }
            Ok(Some(fx_transfer)) => {
                Some((Put { sender, destination, answer, now: facts.now() }, fx_transfer))
            }
        }
    }

    /// Whether this PUT may change the FX transfer. If not, `out` contains the answer.
    ///
    /// Only the FXP may change it, only with the initiator as destination, and only while it is reserved and not yet
    /// fulfilled. If the FXP's own PUT has a wrong destination, it aborts such an FX transfer. Any other PUT is only
    /// rejected.
    fn may_answer(&self, put: &Put, fx_transfer: &FxTransfer, out: &mut Decision) -> bool {
        let is_open = fx_transfer.state == FxTransferState::Reserved;
        let refuse = |refusal, out: &mut Decision| {
            out.notify_fx_transfer_error(put.sender, fx_transfer.id.id(), refusal);
        };
        if Some(put.sender) != fx_transfer.fxp {
            refuse(Refusal::SourceNotFxp, out);
            return false;
        }
        let initiator = fx_transfer.initiator.map(|initiator| self.participant(initiator).name);
        if !put.destination.zip(initiator).is_some_and(|(named, initiator)| named.eq_ignore_case(&initiator))
        {
            if is_open {
                abort_invalid(put, fx_transfer, Refusal::DestinationNotInitiator, out);
            } else {
                refuse(Refusal::DestinationNotInitiator, out);
            }
            return false;
        }
        match fx_transfer.answer.filter(|seen| seen.is_error == put.answer.is_error) {
            Some(seen) if seen == put.answer => answer_resent(put, fx_transfer, out),
            Some(_) => refuse(Refusal::Modified, out),
            None if !is_open => refuse(Refusal::FxTransferNotReserved, out),
            None => return true,
        }
        false
    }

    /// Aborts the FX transfer at the FXP's request. The initiator receives the FXP's own message if it is an error
    /// callback, otherwise a message from the hub.
    fn abort_by_fxp(
        &self,
        put: &Put,
        fx_transfer: &FxTransfer,
        cause: Cause,
        is_error: bool,
        out: &mut Decision,
    ) {
        let (id, initiator) = (fx_transfer.id.id(), initiator(fx_transfer));
        if is_error {
            out.notify_of_fx_transfer(initiator, id, CallbackContent::ForwardAbort);
            if self.config().payee_confirmation && initiator != put.sender {
                out.notify_of_fx_transfer(put.sender, id, CallbackContent::ConfirmAbort);
            }
        } else {
            out.notify_of_fx_transfer(initiator, id, CallbackContent::Error(cause.clone()));
        }
        end(fx_transfer, AbortKind::ByPayee, cause, Some(put.answer), out);
    }
}

/// Answers a resent PUT. While the FX transfer waits for its transfer, the 200 response is the only answer. After its
/// end the FXP also receives the state.
fn answer_resent(put: &Put, fx_transfer: &FxTransfer, out: &mut Decision) {
    if !fx_transfer.is_live() {
        let state = CallbackContent::State(StateMethod::Put, fx_transfer.view());
        out.notify_of_fx_transfer(put.sender, fx_transfer.id.id(), state);
    }
}

/// Ends a reserved FX transfer because the FXP's PUT is invalid. If the PUT was a fulfil, the FXP is informed by PATCH.
fn abort_invalid(put: &Put, fx_transfer: &FxTransfer, refusal: Refusal, out: &mut Decision) {
    let (id, cause) = (fx_transfer.id.id(), Cause::Hub(refusal));
    out.notify_of_fx_transfer(initiator(fx_transfer), id, CallbackContent::Error(cause.clone()));
    if !put.answer.is_error {
        out.notify_of_fx_transfer(put.sender, id, aborted_patch(&cause, put.now));
    }
    let kind = if put.answer.is_error { AbortKind::InvalidAbort } else { AbortKind::InvalidFulfil };
    end(fx_transfer, kind, cause, Some(put.answer), out);
}

/// Ends an FX transfer whose deadline has passed and informs both parties.
pub(crate) fn expire_fx_transfer(
    fx_transfer: &FxTransfer,
    late: Option<FxTransferAnswer>,
    out: &mut Decision,
) {
    let cause = Cause::Hub(Refusal::Expired);
    for party in [fx_transfer.initiator, fx_transfer.fxp].into_iter().flatten() {
        out.notify_of_fx_transfer(party, fx_transfer.id.id(), CallbackContent::Error(cause.clone()));
    }
    end(fx_transfer, AbortKind::Expired, cause, late, out);
}

/// Records the end. `out` already contains the callbacks.
pub(crate) fn end(
    fx_transfer: &FxTransfer,
    kind: AbortKind,
    cause: Cause,
    answer: Option<FxTransferAnswer>,
    out: &mut Decision,
) {
    out.events.push(Event::FxTransferAborted { id: fx_transfer.id, kind, cause, answer });
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

fn initiator(fx_transfer: &FxTransfer) -> ParticipantId {
    fx_transfer.initiator.unwrap_or_else(|| unreachable!("a reserved FX transfer has both parties"))
}
