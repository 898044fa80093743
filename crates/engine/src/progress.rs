//! Coordinates engine and archivist, and decides when memory may drop transfers that the archive contains.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard};

/// Interval after which the archivist tries again when the disk was full.
const ROOM_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The state that archivist and engine share.
pub(crate) struct ArchiveProgress {
    /// Number of published watermarks.
    epoch: AtomicU64,
    watermark: AtomicU64,
    fold_every_records: u64,
    wanted: Mutex<ProgressTarget>,
    changed: Condvar,
}

#[derive(Default)]
struct ProgressTarget {
    seq: u64,
    is_closed: bool,
}

impl ArchiveProgress {
    pub(crate) fn new(fold_every_records: u64, watermark: u64) -> Self {
        Self {
            epoch: AtomicU64::new(0),
            watermark: AtomicU64::new(watermark),
            fold_every_records,
            wanted: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// The current epoch, for look-ups that are about to start.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The epoch, and a watermark that was published in it or in an earlier one.
    pub(crate) fn epoch_and_watermark(&self) -> (u64, u64) {
        // The watermark is read first, so it may be older than the epoch but never newer.
        let watermark = self.watermark();
        (self.epoch(), watermark)
    }

    pub(crate) fn watermark(&self) -> u64 {
        self.watermark.load(Ordering::Acquire)
    }

    /// Called by the archivist when everything that finished up to `watermark` is in the archive.
    pub(crate) fn publish(&self, watermark: u64) {
        self.watermark.store(watermark, Ordering::Release);
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Called by the engine after each batch. Wakes the archivist when enough records have accumulated.
    pub(crate) fn journal_reached(&self, seq: u64) {
        if seq >= self.watermark() + self.fold_every_records {
            let mut wanted = self.wanted();
            if seq >= wanted.seq + self.fold_every_records {
                wanted.seq = seq;
                self.changed.notify_one();
            }
        }
    }

    /// Wakes the archivist, even if few records have accumulated.
    pub(crate) fn ask(&self, seq: u64) {
        let mut wanted = self.wanted();
        wanted.seq = wanted.seq.max(seq);
        self.changed.notify_one();
    }

    /// Ends the archivist after it has applied records up to `seq`.
    pub(crate) fn close(&self, seq: u64) {
        let mut wanted = self.wanted();
        wanted.seq = wanted.seq.max(seq);
        wanted.is_closed = true;
        self.changed.notify_one();
    }

    /// Waits until there are records after `seq`. Returns the next goal and whether it is the last.
    pub(crate) fn wait_for_more(&self, seq: u64) -> (u64, bool) {
        let mut wanted = self.wanted();
        while wanted.seq <= seq && !wanted.is_closed {
            wanted = self.changed.wait(wanted).unwrap_or_else(PoisonError::into_inner);
        }
        (wanted.seq.max(seq), wanted.is_closed)
    }

    /// The next goal and whether it is the last, if there are records after `seq`. Does not wait.
    pub(crate) fn more(&self, seq: u64) -> Option<(u64, bool)> {
        let wanted = self.wanted();
        (wanted.seq > seq || wanted.is_closed).then(|| (wanted.seq.max(seq), wanted.is_closed))
    }

    /// Waits for the retry interval, or until closed. Returns the next goal and whether it is the last.
    pub(crate) fn wait_for_room(&self, seq: u64) -> (u64, bool) {
        let until = Instant::now() + ROOM_RETRY_INTERVAL;
        let mut wanted = self.wanted();
        while !wanted.is_closed && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            wanted = self.changed.wait_timeout(wanted, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        (wanted.seq.max(seq), wanted.is_closed)
    }

    fn wanted(&self) -> MutexGuard<'_, ProgressTarget> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Determines which finished transfers the engine's memory may drop: transfers that the archive has contained for at
/// least one epoch. Every look-up that was made in the current or previous epoch finds them there.
#[derive(Debug, Default)]
pub(crate) struct Eviction {
    /// Look-ups of earlier epochs may have missed transfers that memory has dropped.
    epoch: u64,
    /// The archive contains these transfers since that epoch. They are dropped with the next one.
    evictable_seq: u64,
}

impl Eviction {
    /// The last sequence number whose transfers may be dropped now, and the current watermark, which the next call will
    /// return as droppable.
    pub(crate) fn due(&mut self, progress: &ArchiveProgress) -> Option<EvictionStep> {
        let (epoch, watermark) = progress.epoch_and_watermark();
        if epoch <= self.epoch + 1 {
            return None;
        }
        self.epoch = epoch - 1;
        Some(EvictionStep { forget_to: std::mem::replace(&mut self.evictable_seq, watermark), watermark })
    }

    /// Whether a look-up in the archive that began in this epoch may have missed transfers that memory has dropped.
    pub(crate) const fn outdates(&self, look_up_epoch: u64) -> bool {
        look_up_epoch < self.epoch
    }
}

/// The result of checking the archive's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EvictionStep {
    /// Transfers that finished up to this sequence number may be dropped.
    pub(crate) forget_to: u64,
    /// The archive contains everything that finished up to this sequence number.
    pub(crate) watermark: u64,
}
