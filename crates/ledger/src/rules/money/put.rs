//! The common rules of fulfils and aborts: PUT requests that end a transfer.

use alloc::boxed::Box;

use upesi_types::{FspId, Timestamp};

use crate::base::ids::ParticipantId;
use crate::base::refusal::{AbortKind, Cause, Refusal};
use crate::core::callback::{CallbackContent, ResourceId, StateMethod};
use crate::core::config::UnknownTransfer;
use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::money::transfer::{Aborted, Fingerprint, Transfer, TransferState, TransferView};

/// The subject and the parties of a PUT request about a bulk transfer or an FX transfer.
pub(crate) struct PutHead<'a> {
    /// The id in the path.
    pub(crate) id: &'a ResourceId,
    /// `FSPIOP-Source`.
    pub(crate) source: FspId,
    /// `FSPIOP-Destination`.
    pub(crate) destination: Option<FspId>,
}

/// A PUT request to end a transfer.
pub(crate) struct Put {
    pub(crate) kind: PutKind,
    pub(crate) sender: ParticipantId,
    pub(crate) destination: Option<FspId>,
    /// Whether the payee reserved and waits for a PATCH.
    pub(crate) reserves: bool,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) now: Timestamp,
}

/// Fulfils and aborts are compared only with requests of the same kind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PutKind {
    Fulfil,
    Abort,
}

/// The abort of a transfer: its kind, cause and reason.
pub(crate) struct AbortReason {
    pub(crate) kind: AbortKind,
    pub(crate) cause: Cause,
    /// The reason of the operator who ends it, if an operator does.
    pub(crate) operator_reason: Option<Box<str>>,
}

impl AbortReason {
    /// The ending of a transfer whose deadline passed, or that an operator expires.
    pub(crate) fn expiry(operator_reason: Option<Box<str>>) -> Self {
        Self { kind: AbortKind::Expired, cause: Refusal::Expired.into(), operator_reason }
    }
}

impl Ledger {
    /// Whether this PUT may end the transfer. If not, `out` contains the answer.
    ///
    /// Only the payee may end it, and only with the payer as destination. Another participant's PUT is rejected and
    /// changes nothing. The payee's own PUT with a wrong destination aborts a reserved transfer. A final state never
    /// changes.
    pub(crate) fn may_end(&self, put: &Put, transfer: &Transfer, out: &mut Decision) -> bool {
        let is_reserved = transfer.state == TransferState::Reserved;
        if Some(put.sender) != transfer.payee {
            refuse(&Put { reserves: false, ..*put }, transfer, Refusal::SourceNotPayee, out);
            return false;
        }
        let payer = transfer.payer.map(|payer| self.participant(payer).name);
        if !put.destination.zip(payer).is_some_and(|(named, payer)| named.eq_ignore_case(&payer)) {
            if is_reserved {
                abort_invalid(put, transfer, Refusal::DestinationNotPayer, out);
            } else {
                refuse(put, transfer, Refusal::DestinationNotPayer, out);
            }
            return false;
        }
        match fingerprint_that_ended(transfer, put.kind) {
            Some(seen) if *seen == put.fingerprint => answer_resent(put, transfer, out),
            Some(_) => notify_sender(put, transfer, Refusal::Modified, out),
            None if !is_reserved => refuse(put, transfer, Refusal::NotReserved, out),
            None => return true,
        }
        false
    }

    pub(crate) fn answer_unknown_transfer(
        &self,
        sender: ParticipantId,
        transfer: &ResourceId,
        out: &mut Decision,
    ) {
        let refusal = match self.config().unknown_transfer {
            UnknownTransfer::InternalError => Refusal::TransferMissing,
            UnknownTransfer::NotFound => Refusal::TransferUnknown,
        };
        out.notify_error(sender, transfer.clone(), refusal);
    }

    /// Ends a reserved transfer whose deadline has passed and informs both parties.
    pub(crate) fn expire(&self, transfer: &Transfer, late: Option<&Put>, now: Timestamp, out: &mut Decision) {
        let ending = AbortReason::expiry(None);
        self.notify_parties(transfer, &ending, out);
        let reserves = late.is_some_and(|put| put.reserves);
        // An expiry stores only the fingerprint of a late fulfil, because the kind of the abort does not show which
        // kind of PUT it was.
        let late_fulfil = late.filter(|put| put.kind == PutKind::Fulfil);
        end(transfer, ending, late_fulfil.map(|put| put.fingerprint), reserves, now, out);
    }

    /// Informs both parties why a transfer ends. For an item of a bulk transfer, the end of the bulk transfer informs
    /// them instead.
    pub(crate) fn notify_parties(&self, transfer: &Transfer, ending: &AbortReason, out: &mut Decision) {
        if self.is_item_of_bulk(transfer.id) {
            return;
        }
        for party in [transfer.payer, transfer.payee].into_iter().flatten() {
            out.notify(party, transfer.id, CallbackContent::Error(ending.cause.clone()));
        }
    }
}

/// Rejects a PUT and leaves the transfer unchanged. A payee that reserved receives the transfer's actual state.
pub(crate) fn refuse(put: &Put, transfer: &Transfer, refusal: Refusal, out: &mut Decision) {
    notify_sender(put, transfer, refusal, out);
    if put.reserves && transfer.state != TransferState::Reserved {
        out.notify(put.sender, transfer.id, CallbackContent::State(StateMethod::Patch, patch_view(transfer)));
    }
}

/// Ends a reserved transfer because the payee's PUT is invalid. The payer's money is released, and the payer is
/// informed of the reason.
pub(crate) fn abort_invalid(put: &Put, transfer: &Transfer, refusal: Refusal, out: &mut Decision) {
    let cause = Cause::Hub(refusal);
    if let Some(payer) = transfer.payer {
        out.notify(payer, transfer.id, CallbackContent::Error(cause.clone()));
    }
    let kind = match put.kind {
        PutKind::Fulfil => AbortKind::InvalidFulfil,
        PutKind::Abort => AbortKind::InvalidAbort,
    };
    let ending = AbortReason { kind, cause, operator_reason: None };
    end(transfer, ending, Some(put.fingerprint), put.reserves, put.now, out);
}

/// Ends a reserved transfer. A payee that reserved is informed by PATCH.
pub(crate) fn end(
    transfer: &Transfer,
    ending: AbortReason,
    fingerprint: Option<Fingerprint>,
    reserves: bool,
    now: Timestamp,
    out: &mut Decision,
) {
    let AbortReason { kind, cause, operator_reason } = ending;
    if let (true, Some(payee)) = (reserves, transfer.payee) {
        let end = Aborted { kind, cause: cause.clone(), fingerprint, operator_reason: None, at: now };
        let ended = Transfer { state: end.into(), ..transfer.clone() };
        out.notify(payee, transfer.id, CallbackContent::State(StateMethod::Patch, ended.view()));
    }
    let id = transfer.id;
    out.events.push(Event::TransferAborted { id, kind, cause, fingerprint, operator_reason });
}

fn answer_resent(put: &Put, transfer: &Transfer, out: &mut Decision) {
    let content = if put.reserves {
        CallbackContent::State(StateMethod::Patch, patch_view(transfer))
    } else {
        CallbackContent::State(StateMethod::Put, transfer.view())
    };
    out.notify(put.sender, transfer.id, content);
}

fn notify_sender(put: &Put, transfer: &Transfer, refusal: Refusal, out: &mut Decision) {
    out.notify_error(put.sender, transfer.id, refusal);
}

/// The fingerprint of the PUT that ended a transfer, if that PUT was of this kind.
fn fingerprint_that_ended(transfer: &Transfer, kind: PutKind) -> Option<&Fingerprint> {
    match (&transfer.state, kind) {
        (TransferState::Committed(end), PutKind::Fulfil) => Some(&end.fingerprint),
        (TransferState::Aborted(end), kind) => {
            let by_abort = matches!(end.kind, AbortKind::ByPayee | AbortKind::InvalidAbort);
            end.fingerprint.as_ref().filter(|_| by_abort == (kind == PutKind::Abort))
        }
        _ => None,
    }
}

/// The view for a payee that reserved. It never contains the fulfilment.
fn patch_view(transfer: &Transfer) -> TransferView {
    TransferView { fulfilment: None, ..transfer.view() }
}
