//! What the courier and operators report of notices.

use alloc::vec::Vec;

use upesi_types::ErrorCode;

use super::{AdminOutcome, Decision, Refusal, Reply};
use crate::Ledger;
use crate::event::Event;
use crate::notice::NoticeKey;

impl Ledger {
    pub(super) fn decide_delivered(&self, keys: &[NoticeKey], out: &mut Decision) {
        let mut owed: Vec<_> = keys.iter().copied().filter(|key| self.outbox().get(*key).is_some()).collect();
        // Once each, though a report may name one twice that was sent twice.
        owed.sort_unstable();
        owed.dedup();
        if !owed.is_empty() {
            out.events.push(Event::NoticesDelivered(owed));
        }
    }

    pub(super) fn decide_park(&self, key: NoticeKey, attempts: u32, reason: &str, out: &mut Decision) {
        if self.outbox().get(key).is_some() {
            out.events.push(Event::NoticeParked { key, attempts, reason: reason.into() });
        }
    }

    pub(super) fn decide_redeliver(&self, keys: &[NoticeKey], out: &mut Decision) {
        let is_parked = |key: &NoticeKey| self.outbox().get(*key).is_some_and(|entry| entry.parked.is_some());
        let parked: Vec<_> = keys.iter().copied().filter(is_parked).collect();
        out.reply = Reply::Admin(if parked.is_empty() {
            Err(Refusal::new(ErrorCode::ID_NOT_FOUND, "None of these callbacks is parked"))
        } else {
            let count = parked.len();
            out.events.push(Event::NoticesRedelivered(parked));
            Ok(AdminOutcome::Redelivered(count))
        });
    }
}
