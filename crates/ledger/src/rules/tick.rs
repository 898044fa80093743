//! Expires transfers, FX transfers, withdrawals and proposals whose deadline has passed.

use upesi_types::Timestamp;

use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::money::funds::{FundsState, REASON_LATE};
use crate::money::transfer::Transfer;
use crate::operators::proposal_state::ProposalState;

impl Ledger {
    pub(crate) fn decide_tick(&self, now: Timestamp, out: &mut Decision) {
        let limits = &self.config.limits;
        let max = if self.fx_transfers.has_no_live() {
            limits.expiries_per_tick
        } else {
            limits.converted_expiries_per_tick()
        };
        // An item that the payee of a bulk transfer has fulfilled no longer expires.
        let is_open = |transfer: &&Transfer| !self.is_answered_item(transfer.id);
        for transfer in self.due_transfers(now).filter(is_open).take(max) {
            self.expire(transfer, None, now, out);
        }
        self.expire_fx_transfers(now, max, out);
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
