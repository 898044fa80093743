//! Expires transfers, FX transfers, withdrawals and proposals whose deadline has passed.

use alloc::boxed::Box;

use upesi_types::{Timestamp, TransferId};

use crate::admin_outcome::AdminOutcome;
use crate::admin_refusal::AdminRefusal;
use crate::command::put::{self, Ending};
use crate::decision::{Decision, Reply};
use crate::event::Event;
use crate::facts::{ArchiveLookupNeeded, Facts};
use crate::funds::{FundsState, REASON_LATE};
use crate::proposal_state::ProposalState;
use crate::state::Ledger;
use crate::transfer::{Transfer, TransferState};

impl Ledger {
    pub(crate) fn decide_tick(&self, now: Timestamp, out: &mut Decision) {
        let limits = &self.config.limits;
        let max = if self.conversions.are_none_live() {
            limits.expiries_per_tick
        } else {
            limits.converted_expiries_per_tick()
        };
        // An item that the payee of a bulk transfer has fulfilled no longer expires.
        let is_open = |transfer: &&Transfer| !self.is_answered_item(transfer.id);
        for transfer in self.due_transfers(now).filter(is_open).take(max) {
            self.expire(transfer, None, now, out);
        }
        self.expire_conversions(now, max, out);
        let room = limits.expiries_per_tick - out.events.len();
        for funds in self.due_funds(now).take(room) {
            let reason = REASON_LATE.into();
            out.events.push(Event::FundsEnded { id: funds.id, state: FundsState::Aborted, reason });
        }
        let room = limits.expiries_per_tick.saturating_sub(out.events.len());
        for id in self.approvals.due(now).take(room) {
            let state = ProposalState::Expired;
            let result = self.approvals.get(id).and_then(|proposal| self.result_of_stopped(proposal));
            out.events.push(Event::ProposalEnded { id, state, by: None, comment: None, result });
        }
    }
}

// Expiry of a reservation by an operator before its deadline, under the rules of expiry.

/// An operator's request to expire a reservation.
#[derive(Clone, Debug)]
pub struct Expire {
    /// The transfer.
    pub transfer: TransferId,
    /// The operator's reason.
    pub reason: Box<str>,
}

impl Ledger {
    /// Expires the reservation. The payer's money is released and both parties receive error 3303, as when the deadline
    /// passes.
    pub(crate) fn decide_expire(&self, expire: &Expire, facts: &Facts<'_>, out: &mut Decision) {
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
            TransferState::Aborted(end) if end.operator_reason.is_some() => {
                return Ok(AdminOutcome::AlreadyDone);
            }
            TransferState::Aborted(end) => end.kind.as_str(),
            TransferState::Committed(_) => "COMMITTED",
        };
        Err(AdminRefusal::TransferFinal { state })
    }
}
