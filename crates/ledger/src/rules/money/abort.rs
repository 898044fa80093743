//! Decides `PUT /transfers/{ID}/error`: the payee declines, and the payer's money is released.

use alloc::boxed::Box;

use upesi_types::{ErrorCode, FspId};

use crate::base::refusal::{AbortKind, Cause, Refusal};
use crate::core::callback::{CallbackContent, ResourceId};
use crate::core::decision::{Decision, Reply};
use crate::core::facts::{ArchiveLookupNeeded, DecisionInput};
use crate::core::state::Ledger;
use crate::money::transfer::Fingerprint;
use crate::rules::money::put::{self, AbortReason, Put, PutKind};

/// An abort as parsed by the gateway.
#[derive(Clone, Debug)]
pub struct Abort {
    /// The id in the path.
    pub transfer: ResourceId,
    /// `FSPIOP-Source`.
    pub source: FspId,
    /// `FSPIOP-Destination`.
    pub destination: Option<FspId>,
    /// `errorInformation.errorCode`; it need not be in the catalogue.
    pub code: ErrorCode,
    /// `errorInformation.errorDescription`.
    pub description: Box<str>,
    /// Fingerprint of the body.
    pub fingerprint: Fingerprint,
}

impl Ledger {
    pub(crate) fn decide_abort(&self, abort: &Abort, facts: &DecisionInput<'_>, out: &mut Decision) {
        let now = facts.now();
        let Some(sender) = self.participant_id_ignoring_case(&abort.source) else {
            return out.reply = Reply::UnknownSender(abort.source);
        };
        let put = Put {
            kind: PutKind::Abort,
            sender,
            destination: abort.destination,
            reserves: false,
            fingerprint: abort.fingerprint,
            now,
        };
        let transfer = match self.find(&abort.transfer, facts) {
            Err(ArchiveLookupNeeded) => return out.reply = Reply::NeedsArchive,
            Ok(Some(transfer)) => transfer,
            Ok(None) => return self.answer_unknown_transfer(put.sender, &abort.transfer, out),
        };
        if self.is_item_of_bulk(transfer.id) {
            return put::refuse(&put, transfer, Refusal::BulkItemAlone, out);
        }
        if !self.may_end(&put, transfer, out) {
            return;
        }
        if self.deadline(transfer) <= now {
            return self.expire(transfer, Some(&put), now, out);
        }
        if !abort.code.is_known_to_api() {
            return put::abort_invalid(&put, transfer, Refusal::ErrorCodeUndefined, out);
        }
        let (Some(payer), Some(payee)) = (transfer.payer, transfer.payee) else {
            unreachable!("a reserved transfer has both parties")
        };
        out.notify(payer, transfer.id, CallbackContent::ForwardAbort);
        if self.config().payee_confirmation && payer != payee {
            out.notify(payee, transfer.id, CallbackContent::ConfirmAbort);
        }
        let cause = Cause::Payee { code: abort.code, description: abort.description.clone() };
        let ending = AbortReason { kind: AbortKind::ByPayee, cause, operator_reason: None };
        put::end(transfer, ending, Some(abort.fingerprint), false, now, out);
    }
}
