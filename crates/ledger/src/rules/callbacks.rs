//! Decides reports of delivered and parked callbacks, and redelivery by operators.

use alloc::vec::Vec;

use crate::base::ids::CallbackKey;
use crate::core::decision::{Decision, Reply};
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;

impl Ledger {
    pub(crate) fn decide_delivered(&self, keys: &[CallbackKey], out: &mut Decision) {
        let mut owed: Vec<_> = keys.iter().copied().filter(|key| self.outbox().get(*key).is_some()).collect();
        // Each key once, because a report may contain a callback twice if it was sent twice.
        owed.sort_unstable();
        owed.dedup();
        if !owed.is_empty() {
            out.events.push(Event::CallbacksDelivered(owed));
        }
    }

    pub(crate) fn decide_park(&self, key: CallbackKey, attempts: u32, reason: &str, out: &mut Decision) {
        if self.outbox().get(key).is_some() {
            out.events.push(Event::CallbackParked { key, attempts, reason: reason.into() });
        }
    }

    pub(crate) fn decide_redeliver(&self, keys: &[CallbackKey], out: &mut Decision) {
        let is_parked =
            |key: &CallbackKey| self.outbox().get(*key).is_some_and(|entry| entry.parked.is_some());
        let parked: Vec<_> = keys.iter().copied().filter(is_parked).collect();
        out.reply = Reply::Admin(if parked.is_empty() {
            Err(AdminRefusal::NothingParked)
        } else {
            let count = parked.len();
            out.events.push(Event::CallbacksRedelivered(parked));
            Ok(AdminOutcome::Redelivered(count))
        });
    }
}
