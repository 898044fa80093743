//! The passing of time: transfers, conversions, withdrawals and proposals whose deadline is behind us end.

use upesi_types::Timestamp;

use super::Decision;
use crate::Ledger;
use crate::approval::ProposalState;
use crate::event::Event;
use crate::funds::{FundsState, REASON_LATE};
use crate::transfer::Transfer;

impl Ledger {
    pub(super) fn decide_tick(&self, now: Timestamp, out: &mut Decision) {
        let limits = &self.config.limits;
        let max = if self.conversions.are_none_live() {
            limits.expiries_per_tick
        } else {
            limits.converted_expiries_per_tick()
        };
        // What the payee of a bulk has fulfilled is not expired any more.
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
            out.events.push(Event::ProposalEnded { id, state, by: None, comment: None, result: None });
        }
    }
}
