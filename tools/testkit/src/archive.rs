//! Archive of the simulated hub: in memory, with failures on demand.

use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use upesi_tables::archive::{Archive, ArchiveEntry, ArchiveStats, Division, MemoryArchive};
use upesi_tables::{DatabaseKind, TablesError};
use upesi_types::{Timestamp, TransferId};

const SOUND: u8 = 0;
const FULL: u8 = 1;
const BROKEN: u8 = 2;

/// An archive in memory. Like the archive on disk, it loses unsynced data in a crash.
#[derive(Debug, Default)]
pub(crate) struct SimArchive {
    inner: MemoryArchive,
    condition: AtomicU8,
    befallen: AtomicU64,
    /// Failures of writes and syncs that were injected; a full archive does not count.
    broken: AtomicU64,
    /// Planted bug: the archive never finds a transfer.
    forgets: AtomicBool,
}

impl SimArchive {
    pub(crate) fn forgetting(forgets: bool) -> Self {
        Self { forgets: AtomicBool::new(forgets), ..Self::default() }
    }

    /// Fills the archive, or frees space in it again.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.condition.store(if is_full { FULL } else { SOUND }, Ordering::Relaxed);
    }

    /// Ends all injected faults.
    pub(crate) fn heal(&self) {
        self.condition.store(SOUND, Ordering::Relaxed);
    }

    /// Makes the next write fail; the writes after it succeed.
    pub(crate) fn break_once(&self) {
        self.condition.store(BROKEN, Ordering::Relaxed);
    }

    /// Number of writes and syncs that have failed.
    pub(crate) fn befallen(&self) -> u64 {
        self.befallen.load(Ordering::Relaxed)
    }

    /// Number of writes and syncs that failed because of an injected fault, not because the archive was full.
    pub(crate) fn broken(&self) -> u64 {
        self.broken.load(Ordering::Relaxed)
    }

    /// The content and the condition, as a line of text.
    pub(crate) fn describe(&self) -> String {
        let condition = match self.condition.load(Ordering::Relaxed) {
            SOUND => "sound",
            FULL => "no room",
            _ => "the next write fails",
        };
        format!(
            "applied to record {}, synced to {}, {} transfers, {condition}",
            self.inner.watermark_applied(),
            self.inner.watermark(),
            self.inner.stats().transfers_estimate,
        )
    }

    pub(crate) fn crash(&self) {
        self.inner.crash();
    }

    /// Simulates a killed process: everything that it had written survives.
    pub(crate) fn survive(&self) {
        self.inner.open_again();
    }

    /// Simulates the loss of the archive's directory.
    pub(crate) fn lose(&self) {
        self.inner.lose();
    }

    fn write(&self) -> Result<(), TablesError> {
        let kind = match self.condition.load(Ordering::Relaxed) {
            SOUND => return Ok(()),
            FULL => ErrorKind::StorageFull,
            _ => {
                self.condition.store(SOUND, Ordering::Relaxed);
                self.broken.fetch_add(1, Ordering::Relaxed);
                ErrorKind::Other
            }
        };
        self.befallen.fetch_add(1, Ordering::Relaxed);
        let source = io::Error::new(kind, "simulated failure of the archive");
        Err(TablesError::io(DatabaseKind::Archive, "archive", source))
    }
}

impl Archive for SimArchive {
    fn get(&self, id: &TransferId) -> Result<Option<Vec<u8>>, TablesError> {
        if self.forgets.load(Ordering::Relaxed) { Ok(None) } else { self.inner.get(id) }
    }

    fn may_contain(&self, id: &TransferId) -> bool {
        self.inner.may_contain(id)
    }

    fn apply(&self, entries: &[ArchiveEntry], watermark: u64) -> Result<(), TablesError> {
        self.apply_at(entries, watermark, Timestamp::EPOCH)
    }

    fn apply_at(&self, entries: &[ArchiveEntry], watermark: u64, time: Timestamp) -> Result<(), TablesError> {
        self.write()?;
        self.inner.apply_at(entries, watermark, time)
    }

    fn sync(&self) -> Result<u64, TablesError> {
        self.write()?;
        self.inner.sync()
    }

    fn watermark(&self) -> u64 {
        self.inner.watermark()
    }

    fn watermark_applied(&self) -> u64 {
        self.inner.watermark_applied()
    }

    fn stats(&self) -> ArchiveStats {
        self.inner.stats()
    }

    fn for_each(
        &self,
        visit: &mut dyn FnMut(TransferId, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TablesError> {
        self.inner.for_each(visit)
    }
    fn divisions(&self) -> Vec<Division> {
        self.inner.divisions()
    }

    fn divide(&self) -> Result<(), TablesError> {
        self.write()?;
        self.inner.divide()
    }

    fn for_each_in(
        &self,
        first_seq: u64,
        visit: &mut dyn FnMut(TransferId, &[u8]) -> ControlFlow<()>,
    ) -> Result<bool, TablesError> {
        self.inner.for_each_in(first_seq, visit)
    }

    fn remove_to(&self, seq: u64) -> Result<u64, TablesError> {
        if self.inner.first_seq() <= seq {
            self.write()?;
        }
        self.inner.remove_to(seq)
    }
}
