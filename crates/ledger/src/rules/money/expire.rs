//! Expires a reservation for an operator before its deadline, under the rules of expiry.

use alloc::boxed::Box;

use upesi_types::{Timestamp, TransferId};

use crate::core::decision::{Decision, Reply};
use crate::core::facts::{ArchiveLookupNeeded, DecisionInput};
use crate::core::state::Ledger;
use crate::money::transfer::{Transfer, TransferState};
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::rules::money::put::{self, AbortReason};

/// An operator's request to expire a reservation.
#[derive(Clone, Debug)]
pub struct Expire {
    pub transfer: TransferId,
    pub reason: Box<str>,
}

impl Ledger {
    /// Expires the reservation. The payer's money is released and both parties receive error 3303, as when the deadline
    /// passes.
    pub(crate) fn decide_expire(&self, expire: &Expire, facts: &DecisionInput<'_>, out: &mut Decision) {
        out.reply = match self.find(&expire.transfer.into(), facts) {
            Err(ArchiveLookupNeeded) => Reply::NeedsArchive,
            Ok(None) => Reply::Admin(Err(AdminRefusal::TransferUnknown)),
            Ok(Some(transfer)) => Reply::Admin(self.expire_known(transfer, expire, facts.now(), out)),
        };
    }

    fn expire_known(
        &self,
        transfer: &Transfer,
        expire: &Expire,
        now: Timestamp,
        out: &mut Decision,
    ) -> Result<AdminOutcome, AdminRefusal> {
        let state = match &transfer.state {
            TransferState::Reserved if self.is_answered_item(transfer.id) => "PROCESSING",
            TransferState::Reserved => {
                let ending = AbortReason::expiry(Some(expire.reason.clone()));
                self.notify_parties(transfer, &ending, out);
                put::end(transfer, ending, None, false, now, out);
                return Ok(AdminOutcome::Done);
            }
            TransferState::Aborted(end) if end.operator_reason.is_some() => {
                return Ok(AdminOutcome::AlreadyDone);
            }
            TransferState::Aborted(end) => end.kind.as_str(),
            TransferState::Committed(_) => "COMMITTED",
        };
        Err(AdminRefusal::TransferFinal { state })
    }
}
