//! Finished transfers leave for good.

use super::Decision;
use crate::Ledger;
use crate::event::Event;

impl Ledger {
    /// Recorded before the archive lets them go, so that every later fold of the journal knows from which record on
    /// their ids are unknown. What is reserved stays, and so does what was removed already. Whole divisions leave, and
    /// only those whose end is recorded: an archive may have others of its own, which another node's has not.
    pub(super) fn decide_removal(&self, to_seq: u64, out: &mut Decision) {
        if let Some(to_seq) = self.division_up_to(to_seq) {
            out.events.push(Event::FinishedRemoved { to_seq });
        }
    }
}
