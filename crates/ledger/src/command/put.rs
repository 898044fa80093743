//! What fulfils and aborts have in common: a PUT by which somebody wants to end a transfer.

use alloc::boxed::Box;

use upesi_types::{FspId, Timestamp};

use super::Decision;
use crate::Ledger;
use crate::callback::{CallbackContent, ResourceId, StateMethod, TransferView};
use crate::event::Event;
use crate::limits::UnknownTransfer;
use crate::participant::ParticipantId;
use crate::refusal::{Cause, Refusal};
use crate::transfer::{AbortKind, Aborted, Fingerprint, Transfer, TransferState};

/// A PUT that wants to end a transfer.
pub(super) struct Put {
    pub(super) kind: PutKind,
    /// Who sent it.
    pub(super) sender: ParticipantId,
    pub(super) destination: Option<FspId>,
    /// Whether the payee reserved and waits for a PATCH.
    pub(super) reserves: bool,
    pub(super) fingerprint: Fingerprint,
    pub(super) now: Timestamp,
}

/// Fulfils and aborts are compared with their own kind only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PutKind {
    Fulfil,
    Abort,
}

/// How a transfer is aborted.
pub(super) struct Ending {
    pub(super) kind: AbortKind,
    pub(super) cause: Cause,
    /// The reason of the operator who ends it, if one does.
    pub(super) operator_reason: Option<Box<str>>,
}

impl Ending {
    /// By the rules of expiry.
    pub(super) fn expiry(operator_reason: Option<Box<str>>) -> Self {
        Self { kind: AbortKind::Expired, cause: Refusal::Expired.into(), operator_reason }
    }
}

impl Ledger {
    /// Whether this PUT may end the transfer. If not, the answer is in `out`.
    ///
    /// Only the payee may, and only towards the payer. A stranger's PUT is refused and changes nothing; the payee's own
    /// PUT with a wrong destination aborts a reserved transfer. A final state never changes.
    pub(super) fn may_end(&self, put: &Put, transfer: &Transfer, out: &mut Decision) -> bool {
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
            Some(_) => tell_sender(put, transfer, Refusal::Modified, out),
            None if !is_reserved => refuse(put, transfer, Refusal::NotReserved, out),
            None => return true,
        }
        false
    }

    pub(super) fn answer_unknown_transfer(
        &self,
        sender: ParticipantId,
        transfer: &ResourceId,
        out: &mut Decision,
    ) {
        let refusal = match self.config().unknown_transfer {
            UnknownTransfer::InternalError => Refusal::TransferMissing,
            UnknownTransfer::NotFound => Refusal::TransferUnknown,
        };
        out.tell_error(sender, transfer.clone(), refusal);
    }

    /// Ends a reserved transfer whose deadline has passed; both parties are told.
    pub(super) fn expire(&self, transfer: &Transfer, late: Option<&Put>, now: Timestamp, out: &mut Decision) {
        let ending = Ending::expiry(None);
        self.tell_parties(transfer, &ending, out);
        let reserves = late.is_some_and(|put| put.reserves);
        // An expiry remembers the late fulfil only, as the kind of abort does not tell of which kind a PUT was.
        let late_fulfil = late.filter(|put| put.kind == PutKind::Fulfil);
        end(transfer, ending, late_fulfil.map(|put| put.fingerprint), reserves, now, out);
    }

    /// Tells both parties of a transfer why it ends. Of the items of a bulk its end tells.
    pub(super) fn tell_parties(&self, transfer: &Transfer, ending: &Ending, out: &mut Decision) {
        if self.is_item_of_bulk(transfer.id) {
            return;
        }
        for party in [transfer.payer, transfer.payee].into_iter().flatten() {
            out.tell(party, transfer.id, CallbackContent::Error(ending.cause.clone()));
        }
    }
}

/// Refuses a PUT and leaves the transfer as it is. A payee that reserved is told where the transfer really stands.
pub(super) fn refuse(put: &Put, transfer: &Transfer, refusal: Refusal, out: &mut Decision) {
    tell_sender(put, transfer, refusal, out);
    if put.reserves && transfer.state != TransferState::Reserved {
        out.tell(put.sender, transfer.id, CallbackContent::State(StateMethod::Patch, patch_view(transfer)));
    }
}

/// Ends a reserved transfer because the payee's PUT is invalid: the payer gets its money back and is told why.
pub(super) fn abort_invalid(put: &Put, transfer: &Transfer, refusal: Refusal, out: &mut Decision) {
    let cause = Cause::Hub(refusal);
    if let Some(payer) = transfer.payer {
        out.tell(payer, transfer.id, CallbackContent::Error(cause.clone()));
    }
    let kind = match put.kind {
        PutKind::Fulfil => AbortKind::InvalidFulfil,
        PutKind::Abort => AbortKind::InvalidAbort,
    };
    let ending = Ending { kind, cause, operator_reason: None };
    end(transfer, ending, Some(put.fingerprint), put.reserves, put.now, out);
}

/// Ends a reserved transfer. A payee that reserved is told by PATCH.
pub(super) fn end(
    transfer: &Transfer,
    ending: Ending,
    fingerprint: Option<Fingerprint>,
    reserves: bool,
    now: Timestamp,
    out: &mut Decision,
) {
    let Ending { kind, cause, operator_reason } = ending;
    if let (true, Some(payee)) = (reserves, transfer.payee) {
        let end = Aborted { kind, cause: cause.clone(), fingerprint, operator_reason: None, at: now };
        let ended = Transfer { state: end.into(), ..transfer.clone() };
        out.tell(payee, transfer.id, CallbackContent::State(StateMethod::Patch, ended.view()));
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
    out.tell(put.sender, transfer.id, content);
}

fn tell_sender(put: &Put, transfer: &Transfer, refusal: Refusal, out: &mut Decision) {
    out.tell_error(put.sender, transfer.id, refusal);
}

/// The fingerprint of the PUT that ended a transfer, if it was of this kind.
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

/// What a payee that reserved is told: never the fulfilment.
fn patch_view(transfer: &Transfer) -> TransferView {
    TransferView { fulfilment: None, ..transfer.view() }
}
