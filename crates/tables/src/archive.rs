//! Finished transfers on disk: an embedded LSM store behind the small [`Archive`] trait.
//!
//! The archive is *derived data*: everything in it comes from the journal. A lost or damaged archive is rebuilt by
//! deleting its directory and folding the journal again. It is never on the commit path. One thread writes
//! ([`Archive::apply`]); any number of threads look up.
//!
#![doc = include_str!("archive/README.md")]

mod division;
mod filter;
mod filter_file;
#[cfg(test)]
mod filter_tests;
mod fjall_archive;
mod keyspace;
mod layout;
mod memory;
mod merged;
mod options;
mod settling;
mod sync;

use std::ops::ControlFlow;

pub use fjall_archive::FjallArchive;
pub use keyspace::OPEN_FILES_MAX;
pub use layout::first_seq_of;
pub use memory::MemoryArchive;
pub use options::ArchiveOptions;
use upesi_types::{Timestamp, TransferId};

use crate::{DatabaseKind, TablesError};

/// One finished transfer: its id and its encoded outcome, which this crate does not interpret.
pub type ArchiveEntry = (TransferId, Vec<u8>);

/// Maximum size of a value, in bytes. A finished transfer needs 150 to 250, a bulk transfer of a thousand items with
/// the longest results 16 million. The limit detects a caller that archives something else.
pub const VALUE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The store of finished transfers that left memory.
///
/// # Watermarks
/// A watermark is a journal sequence number: every transfer that finished at or before it is in the archive. There are
/// two, because an applied batch is readable at once but survives a crash of the machine only after a sync.
/// [`Archive::watermark_applied`] determines which transfers the hot state may drop; [`Archive::watermark`] determines
/// which are retained after any crash. A snapshot of the hot state, and the removal of journal segments, may rely only
/// on the latter.
pub trait Archive: Send + Sync {
    /// The value stored for `id`. May read from disk.
    fn get(&self, id: &TransferId) -> Result<Option<Vec<u8>>, TablesError>;

    /// `false`: `id` is not archived. `true`: call [`Archive::get`]. Answers from memory, without locks.
    fn may_contain(&self, id: &TransferId) -> bool;

    /// Stores `entries` and advances the applied watermark to `watermark`. The durable watermark follows at once or
    /// later, but never before all the entries. Called by one thread. Applying a range again is harmless; a watermark
    /// below the current one has no effect. May wait for the store's housekeeping.
    fn apply(&self, entries: &[ArchiveEntry], watermark: u64) -> Result<(), TablesError>;

    /// Like [`Archive::apply`], with the time of the record `watermark`. Retention uses this time as the age of a
    /// division.
    fn apply_at(&self, entries: &[ArchiveEntry], watermark: u64, time: Timestamp) -> Result<(), TablesError> {
        let _ = time;
        self.apply(entries, watermark)
    }

    /// Makes everything applied so far survive a crash and returns the durable watermark.
    fn sync(&self) -> Result<u64, TablesError>;

    /// The durable watermark: the sequence number of a journal record. All transfers finished by then survive a crash;
    /// 0 if nothing was archived. After opening, folding of the journal continues there. A store whose directory files
    /// were lost may open as an empty one. So the owner of a snapshot or of removed segments compares watermarks: an
    /// archive that is behind is damaged and must be rebuilt.
    fn watermark(&self) -> u64;

    /// The sequence number of a journal record. All transfers finished by then can be looked up. Never below the
    /// durable watermark.
    fn watermark_applied(&self) -> u64;

    /// Sizes and counts for metrics; cheap enough to read every few seconds.
    fn stats(&self) -> ArchiveStats;

    /// Visits every entry in the order of [`TransferId::to_bytes`], until `visit` breaks. Sees the state at the time of
    /// the call, even while there are writes.
    fn for_each(
        &self,
        visit: &mut dyn FnMut(TransferId, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TablesError>;

    /// Visits the transfers after a position, division by division, and within each in the order of
    /// [`TransferId::to_bytes`], until `visit` breaks. Skips divisions that only have transfers finished before
    /// `since`. Transfers that are applied after a visit from the very beginning may be missing from visits that
    /// continue it.
    fn visit_behind(
        &self,
        place: ArchivePosition,
        since: Timestamp,
        order: DivisionOrder,
        visit: &mut dyn FnMut(ArchivePosition, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TablesError> {
        let _ = (since, order);
        let after = place.after.map(TransferId::to_bytes);
        self.for_each(&mut |id, value| match after {
            Some(after) if id.to_bytes() <= after => ControlFlow::Continue(()),
            _ => visit(ArchivePosition { division: 1, after: Some(id) }, value),
        })
    }

    /// The divisions, the oldest first; empty for an archive without divisions.
    fn divisions(&self) -> Vec<Division> {
        Vec::new()
    }

    /// The first journal sequence number whose finished transfers are here; 1 unless divisions were removed.
    fn first_seq(&self) -> u64 {
        self.divisions().first().map_or(1, |division| division.first_seq)
    }

    /// Closes the growing division, unless it is empty, and begins the next. Any thread may call this.
    fn divide(&self) -> Result<(), TablesError> {
        Ok(())
    }

    /// Visits the transfers of one division in the order of [`TransferId::to_bytes`], until `visit` breaks; `false` if
    /// no division begins with `first_seq`.
    fn for_each_in(
        &self,
        first_seq: u64,
        visit: &mut dyn FnMut(TransferId, &[u8]) -> ControlFlow<()>,
    ) -> Result<bool, TablesError> {
        let _ = (first_seq, visit);
        Ok(false)
    }

    /// Finishes the housekeeping: afterwards filters are loaded and closed divisions are sorted. It takes one pass over
    /// each closed division. Transfers that are applied meanwhile may cause more of it.
    fn finish_upkeep(&self) -> Result<(), TablesError> {
        Ok(())
    }

    /// Removes the divisions whose transfers finished at or before the record `seq`, and returns their number. The
    /// removal is durable when this returns: they do not reappear after any crash, and the archive then begins after
    /// `seq`, even if nothing was ever archived. A division that extends beyond `seq` is retained as a whole. A reader
    /// of a removed division can continue; its files are deleted afterwards. Any thread may call this.
    fn remove_to(&self, seq: u64) -> Result<u64, TablesError>;
}

/// Order of the divisions in a visit of an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DivisionOrder {
    #[default]
    OldestFirst,
    YoungestFirst,
}

/// Position of a visit of an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchivePosition {
    /// The division, by its first journal sequence number; 0 before the first.
    pub division: u64,
    /// The transfer that was visited last there; `None` before the first.
    pub after: Option<TransferId>,
}

/// A part of an archive: the transfers that finished within a range of the journal. Transfers leave the archive by
/// divisions, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// The first journal sequence number of the range.
    pub first_seq: u64,
    /// The last one so far; 0 while the division is empty.
    pub watermark: u64,
    /// The time of that record; `None` if it is not known.
    pub last_time: Option<Timestamp>,
    /// Number of its transfers; transfers that were applied twice make it too high.
    pub transfers_estimate: u64,
    /// Whether there is a younger division.
    pub is_closed: bool,
}

/// Sizes and counts of an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveStats {
    /// Number of stored transfers; transfers that were applied twice and not yet merged make it too high.
    pub transfers_estimate: u64,
    pub disk_bytes: u64,
    /// Tables that are not yet merged into the sorted levels. A growing number means that housekeeping is too slow for
    /// the writes.
    pub unmerged_tables: u64,
    /// Memory of the filter behind [`Archive::may_contain`], in bytes.
    pub filter_bytes: u64,
    /// Whether the filter behind [`Archive::may_contain`] is ready; `false` while it is rebuilt after a start.
    pub filter_ready: bool,
}

fn check_values(entries: &[ArchiveEntry]) -> Result<(), TablesError> {
    match entries.iter().map(|(_, value)| value.len()).find(|&bytes| bytes > VALUE_BYTES_MAX) {
        Some(bytes) => Err(TablesError::TooLarge {
            part: DatabaseKind::Archive,
            what: "value",
            bytes,
            bytes_max: VALUE_BYTES_MAX,
        }),
        None => Ok(()),
    }
}
