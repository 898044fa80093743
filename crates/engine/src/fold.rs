//! The one fold of the journal: the engine's replay at a start, the archivist, the rebuild of a lost archive, and the tools.

use std::sync::Arc;

use upesi_journal::{Disk, END, Reader};
use upesi_ledger::{Ledger, Record};

use crate::error::StartError;

/// Folds the records of a journal into a ledger, one after the other.
///
/// What a finished transfer's id means depends on whether retention has removed it, and retention goes by its own time. So
/// a removal is a record of its own, before which no id that it frees comes again, and the ledger forgets at that record what
/// a fold still holds. A fold that begins anew also skips what the archive holds already: it is neither kept in memory nor
/// archived once more.
pub struct Fold {
    /// The state after the last record that was folded.
    pub ledger: Ledger,
    reader: Reader,
    archived_to: u64,
}

impl Fold {
    /// Goes on behind what `ledger` has folded. The archive holds, or has removed, all that finished up to `archived_to`.
    pub fn new(disk: Arc<dyn Disk>, ledger: Ledger, archived_to: u64) -> Self {
        Self { reader: Reader::new(disk, ledger.last_seq() + 1), ledger, archived_to }
    }

    /// The same, for the last one that reads those records: it leaves the page cache to others.
    pub fn once(disk: Arc<dyn Disk>, ledger: Ledger, archived_to: u64) -> Self {
        Self { reader: Reader::once(disk, ledger.last_seq() + 1), ledger, archived_to }
    }

    /// Folds the next record up to `goal`; false when there is none.
    ///
    /// # Errors
    /// The journal cannot be read, or one of its records is not understood.
    pub fn next(&mut self, goal: u64) -> Result<bool, StartError> {
        let Some(record) = self.reader.next_record(goal)? else { return Ok(false) };
        let seq = record.seq;
        let Record { events, callbacks, .. } =
            Record::decode(record.bytes).map_err(|source| StartError::Record { seq, source })?;
        self.ledger.evolve(seq, record.time, events, &callbacks);
        if seq <= self.archived_to {
            self.ledger.drain_finished(seq).for_each(drop);
        }
        Ok(true)
    }

    /// Folds all there is.
    ///
    /// # Errors
    /// As [`Fold::next`].
    pub fn finish(mut self) -> Result<Ledger, StartError> {
        while self.next(END)? {}
        Ok(self.ledger)
    }
}

impl std::fmt::Debug for Fold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fold").field("seq", &self.ledger.last_seq()).finish_non_exhaustive()
    }
}
