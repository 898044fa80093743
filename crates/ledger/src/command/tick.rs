//! The passing of time: transfers and withdrawals whose deadline is behind us end.

use upesi_types::Timestamp;

use super::Decision;
use crate::Ledger;
use crate::event::Event;
use crate::funds::{FundsState, REASON_LATE};

/// Most transfers that one tick expires, so that a flood of deadlines cannot hold up the queue: the engine ticks again
/// as long as something is due.
pub const EXPIRIES_PER_TICK_MAX: usize = 64;

impl Ledger {
    pub(super) fn decide_tick(&self, now: Timestamp, out: &mut Decision) {
        for transfer in self.due_transfers(now).take(EXPIRIES_PER_TICK_MAX) {
            self.expire(transfer, None, now, out);
        }
        let room = EXPIRIES_PER_TICK_MAX - out.events.len();
        for funds in self.due_funds(now).take(room) {
            let reason = REASON_LATE.into();
            out.events.push(Event::FundsEnded { id: funds.id, state: FundsState::Aborted, reason });
        }
    }
}
