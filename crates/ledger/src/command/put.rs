//! What fulfils and aborts have in common: a PUT by which somebody wants to end a transfer.

use alloc::boxed::Box;

use upesi_types::{ErrorCode, FspId, Timestamp};

use super::Decision;
use super::get::NOT_FOUND_DETAIL;
use crate::Ledger;
use crate::callback::{CallbackContent, StateMethod, TransferRef, TransferView};
use crate::config::UnknownTransfer;
use crate::event::Event;
use crate::participant::ParticipantId;
use crate::transfer::{AbortKind, Fingerprint, Transfer, TransferState};

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

/// How an abort comes about.
pub(super) struct Cause {
    pub(super) kind: AbortKind,
    pub(super) code: ErrorCode,
    pub(super) description: Box<str>,
    /// Why an operator ends it; absent when none does.
    pub(super) operator_reason: Option<Box<str>>,
}

impl Cause {
    /// That of a transfer whose time is over.
    pub(super) fn expiry(operator_reason: Option<Box<str>>) -> Self {
        let code = ErrorCode::TRANSFER_EXPIRED;
        let description = code.describe("").into_boxed_str();
        Self { kind: AbortKind::Expired, code, description, operator_reason }
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
            let reason = "fspiop-source does not match payee fsp on the Fulfil callback response";
            refuse(&Put { reserves: false, ..*put }, transfer, reason, out);
            return false;
        }
        let payer = transfer.payer.map(|payer| self.participant(payer).name);
        if !put.destination.zip(payer).is_some_and(|(named, payer)| named.eq_ignore_case(&payer)) {
            let reason = "fspiop-destination does not match payer fsp on the Fulfil callback response";
            if is_reserved {
                abort_invalid(put, transfer, reason, out);
            } else {
                refuse(put, transfer, reason, out);
            }
            return false;
        }
        match fingerprint_that_ended(transfer, put.kind) {
            Some(seen) if *seen == put.fingerprint => answer_resent(put, transfer, out),
            Some(_) => tell_sender(put, transfer, ErrorCode::MODIFIED_REQUEST, "", out),
            None if !is_reserved => refuse(put, transfer, "non-RESERVED transfer state", out),
            None => return true,
        }
        false
    }

    pub(super) fn answer_unknown_transfer(
        &self,
        sender: ParticipantId,
        transfer: &TransferRef,
        out: &mut Decision,
    ) {
        let (code, detail) = match self.config().unknown_transfer {
            UnknownTransfer::InternalError => (ErrorCode::INTERNAL, "transfer not found"),
            UnknownTransfer::NotFound => (ErrorCode::TRANSFER_NOT_FOUND, NOT_FOUND_DETAIL),
        };
        out.tell_error(sender, transfer.clone(), code, detail);
    }

    /// Ends a reserved transfer whose deadline has passed; both parties are told.
    pub(super) fn expire(&self, transfer: &Transfer, late: Option<&Put>, now: Timestamp, out: &mut Decision) {
        let cause = Cause::expiry(None);
        tell_parties(transfer, &cause, out);
        let reserves = late.is_some_and(|put| put.reserves);
        // An expiry remembers the late fulfil only, as the kind of abort does not tell of which kind a PUT was.
        let late_fulfil = late.filter(|put| put.kind == PutKind::Fulfil);
        end(transfer, cause, late_fulfil.map(|put| put.fingerprint), reserves, now, out);
    }
}

/// Tells both parties of a transfer why it ends.
pub(super) fn tell_parties(transfer: &Transfer, cause: &Cause, out: &mut Decision) {
    for party in [transfer.payer, transfer.payee].into_iter().flatten() {
        out.tell(party, transfer.id, CallbackContent::Error(cause.code, cause.description.clone()));
    }
}

/// Refuses a PUT and leaves the transfer as it is. A payee that reserved is told where the transfer really stands.
pub(super) fn refuse(put: &Put, transfer: &Transfer, reason: &str, out: &mut Decision) {
    tell_sender(put, transfer, ErrorCode::VALIDATION, reason, out);
    if put.reserves && transfer.state != TransferState::Reserved {
        out.tell(put.sender, transfer.id, CallbackContent::State(StateMethod::Patch, patch_view(transfer)));
    }
}

/// Ends a reserved transfer because the payee's PUT is invalid: the payer gets its money back and is told why.
pub(super) fn abort_invalid(put: &Put, transfer: &Transfer, reason: &str, out: &mut Decision) {
    let code = ErrorCode::VALIDATION;
    let description = code.describe(reason).into_boxed_str();
    if let Some(payer) = transfer.payer {
        out.tell(payer, transfer.id, CallbackContent::Error(code, description.clone()));
    }
    let kind = match put.kind {
        PutKind::Fulfil => AbortKind::InvalidFulfil,
        PutKind::Abort => AbortKind::InvalidAbort,
    };
    let cause = Cause { kind, code, description, operator_reason: None };
    end(transfer, cause, Some(put.fingerprint), put.reserves, put.now, out);
}

/// Ends a reserved transfer. A payee that reserved is told by PATCH.
pub(super) fn end(
    transfer: &Transfer,
    cause: Cause,
    fingerprint: Option<Fingerprint>,
    reserves: bool,
    now: Timestamp,
    out: &mut Decision,
) {
    let Cause { kind, code, description, operator_reason } = cause;
    if let (true, Some(payee)) = (reserves, transfer.payee) {
        let state = TransferState::Aborted {
            kind,
            code,
            description: description.clone(),
            fingerprint,
            operator_reason: None,
            at: now,
        };
        let ended = Transfer { state, ..transfer.clone() };
        out.tell(payee, transfer.id, CallbackContent::State(StateMethod::Patch, ended.view()));
    }
    let id = transfer.id;
    out.events.push(Event::TransferAborted { id, kind, code, description, fingerprint, operator_reason });
}

fn answer_resent(put: &Put, transfer: &Transfer, out: &mut Decision) {
    let content = if put.reserves {
        CallbackContent::State(StateMethod::Patch, patch_view(transfer))
    } else {
        CallbackContent::State(StateMethod::Put, transfer.view())
    };
    out.tell(put.sender, transfer.id, content);
}

fn tell_sender(put: &Put, transfer: &Transfer, code: ErrorCode, detail: &str, out: &mut Decision) {
    out.tell_error(put.sender, transfer.id, code, detail);
}

/// The fingerprint of the PUT that ended a transfer, if it was of this kind.
fn fingerprint_that_ended(transfer: &Transfer, kind: PutKind) -> Option<&Fingerprint> {
    match (&transfer.state, kind) {
        (TransferState::Committed { fingerprint, .. }, PutKind::Fulfil) => Some(fingerprint),
        (TransferState::Aborted { kind: ended, fingerprint, .. }, kind) => {
            let by_abort = matches!(ended, AbortKind::ByPayee | AbortKind::InvalidAbort);
            fingerprint.as_ref().filter(|_| by_abort == (kind == PutKind::Abort))
        }
        _ => None,
    }
}

/// What a payee that reserved is told: never the fulfilment.
fn patch_view(transfer: &Transfer) -> TransferView {
    TransferView { fulfilment: None, ..transfer.view() }
}
