//! Finished transfers leave for good.

use super::Decision;
use crate::Ledger;
use crate::event::Event;

impl Ledger {
    /// Recorded before the archive lets them go, so that every later fold of the journal knows from which record on
    /// their ids are unknown. What is reserved stays, and so does what was removed already.
    pub(super) fn decide_removal(&self, to_seq: u64, out: &mut Decision) {
        let to_seq = to_seq.min(self.last_seq);
        if to_seq > self.removed_to {
            out.events.push(Event::FinishedRemoved { to_seq });
        }
    }
}
