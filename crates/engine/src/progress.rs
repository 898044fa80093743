//! What engine and archivist tell each other, and when memory may forget what the archive holds.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard};

/// How long after a lack of room the archivist tries again.
const ROOM_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// What the archivist tells the engine, and the other way round.
pub(crate) struct ArchiveProgress {
    /// Counts the times that a watermark was published.
    epoch: AtomicU64,
    watermark: AtomicU64,
    fold_every_records: u64,
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Default)]
struct Wanted {
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

    /// The number of the present epoch, for look-ups that are about to be made.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The epoch, and a watermark that it or an earlier one published.
    pub(crate) fn epoch_and_watermark(&self) -> (u64, u64) {
        // The watermark is read first: it may be older than the epoch, never newer.
        let watermark = self.watermark();
        (self.epoch(), watermark)
    }

    pub(crate) fn watermark(&self) -> u64 {
        self.watermark.load(Ordering::Acquire)
    }

    /// Called by the archivist when all that finished up to `watermark` is in the archive.
    pub(crate) fn publish(&self, watermark: u64) {
        self.watermark.store(watermark, Ordering::Release);
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Called by the engine after each batch: wakes the archivist when enough has gathered.
    pub(crate) fn journal_reached(&self, seq: u64) {
        if seq >= self.watermark() + self.fold_every_records {
            let mut wanted = self.wanted();
            if seq >= wanted.seq + self.fold_every_records {
                wanted.seq = seq;
                self.changed.notify_one();
            }
        }
    }

    /// Wakes the archivist, however little has gathered.
    pub(crate) fn ask(&self, seq: u64) {
        let mut wanted = self.wanted();
        wanted.seq = wanted.seq.max(seq);
        self.changed.notify_one();
    }

    /// Ends the archivist after it has folded up to `seq`.
    pub(crate) fn close(&self, seq: u64) {
        let mut wanted = self.wanted();
        wanted.seq = wanted.seq.max(seq);
        wanted.is_closed = true;
        self.changed.notify_one();
    }

    /// Waits until there is more to fold than `seq`; gives the next goal and whether it is the last.
    pub(crate) fn wait_for_more(&self, seq: u64) -> (u64, bool) {
        let mut wanted = self.wanted();
        while wanted.seq <= seq && !wanted.is_closed {
            wanted = self.changed.wait(wanted).unwrap_or_else(PoisonError::into_inner);
        }
        (wanted.seq.max(seq), wanted.is_closed)
    }

    /// The next goal, where there is more to fold than `seq`, and whether it is the last; without waiting.
    pub(crate) fn more(&self, seq: u64) -> Option<(u64, bool)> {
        let wanted = self.wanted();
        (wanted.seq > seq || wanted.is_closed).then(|| (wanted.seq.max(seq), wanted.is_closed))
    }

    /// Waits for a time, or until closed; gives the same.
    pub(crate) fn wait_for_room(&self, seq: u64) -> (u64, bool) {
        let until = Instant::now() + ROOM_RETRY_INTERVAL;
        let mut wanted = self.wanted();
        while !wanted.is_closed && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            wanted = self.changed.wait_timeout(wanted, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        (wanted.seq.max(seq), wanted.is_closed)
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which finished transfers the engine's memory may forget: those that the archive has held for one epoch or longer, so
/// that every look-up made in the present or the last epoch finds them there.
#[derive(Debug, Default)]
pub(crate) struct Eviction {
    /// Look-ups of earlier epochs may have missed what memory has forgotten.
    epoch: u64,
    /// Held by the archive since that epoch: forgotten with the next.
    evictable_seq: u64,
}

impl Eviction {
    /// Everything up to this sequence may be forgotten now; and the watermark, of which the next call will say so.
    pub(crate) fn due(&mut self, progress: &ArchiveProgress) -> Option<Due> {
        let (epoch, watermark) = progress.epoch_and_watermark();
        if epoch <= self.epoch + 1 {
            return None;
        }
        self.epoch = epoch - 1;
        Some(Due { forget_to: std::mem::replace(&mut self.evictable_seq, watermark), watermark })
    }

    /// Whether a look-up in the archive, begun in this epoch, may have missed what memory has forgotten.
    pub(crate) const fn outdates(&self, look_up_epoch: u64) -> bool {
        look_up_epoch < self.epoch
    }
}

/// What came of looking at the archive's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// Transfers that finished up to this sequence may be forgotten.
    pub(crate) forget_to: u64,
    /// The archive holds all that finished up to this sequence.
    pub(crate) watermark: u64,
}
