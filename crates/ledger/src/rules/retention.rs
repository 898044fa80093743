//! Decides the removal of finished transfers from the archive.

use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;

impl Ledger {
    /// Records the removal before the archive deletes the transfers. Every later fold of the journal then knows up to
    /// which record ids are unknown. Reserved transfers stay.
    pub(crate) fn decide_removal(&self, to_seq: u64, out: &mut Decision) {
        let to_seq = to_seq.min(self.last_seq);
        if to_seq > self.removed_to {
            out.events.push(Event::FinishedRemoved { to_seq });
        }
    }
}
