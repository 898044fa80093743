//! An operator ends a reservation before its deadline, by the rules of expiry.

use alloc::boxed::Box;

use upesi_types::{Timestamp, TransferId};

use super::put::{self, Ending};
use super::{AdminOutcome, AdminRefusal, ArchiveLookupNeeded, Decision, Reply};
use crate::Ledger;
use crate::facts::Facts;
use crate::transfer::{Transfer, TransferState};

/// An operator's wish that a reservation ends.
#[derive(Clone, Debug)]
pub struct Expire {
    /// The transfer.
    pub transfer: TransferId,
    /// Why, in the operator's words.
    pub reason: Box<str>,
}

impl Ledger {
    /// The payer gets its money back and both parties are told 3303, as when the deadline passes.
    pub(super) fn decide_expire(&self, expire: &Expire, facts: &Facts<'_>, out: &mut Decision) {
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
                let ending = Ending::expiry(Some(expire.reason.clone()));
                self.tell_parties(transfer, &ending, out);
                put::end(transfer, ending, None, false, now, out);
                return Ok(AdminOutcome::Done);
            }
            TransferState::Aborted { operator_reason: Some(_), .. } => return Ok(AdminOutcome::AlreadyDone),
            TransferState::Aborted { kind, .. } => kind.as_str(),
            TransferState::Committed { .. } => "COMMITTED",
        };
        Err(AdminRefusal::TransferFinal { state })
    }
}
