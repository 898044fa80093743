//! A filter in memory that proves that an id is not archived.
//!
//! The filter is a Bloom filter of blocks, each 256 bits in which a key sets eight (the "split block" layout of
//! Parquet), so a check reads one cache line per segment. Checks take no lock: a worker thread must not wait while the
//! archivist writes. The number of transfers is not known in advance, so the filter grows by segments, each as large as
//! all before it.

use std::hash::BuildHasher;
use std::sync::atomic::Ordering;
use std::sync::{OnceLock, PoisonError};

use foldhash::quality::FixedState;
use upesi_types::TransferId;

use super::sync::{AtomicU32, AtomicUsize, Mutex, MutexGuard};

/// Two bytes per transfer: about one check in a thousand is a false positive, per segment.
const BITS_PER_KEY: usize = 16;
const BLOCK_WORDS: usize = 8;
const KEYS_PER_BLOCK: usize = BLOCK_WORDS * 32 / BITS_PER_KEY;
/// Number of keys of the first segment of a growing set, unless more are expected: 2 MB.
pub(crate) const SEGMENT_KEYS_MIN: usize = 1 << 20;
/// Doubling the smallest segment 31 times exceeds any disk.
const SEGMENTS_MAX: usize = 32;
/// Odd constants, one per word of a block, that spread a key's 32 bits (as in Parquet's specification).
const SALTS: [u32; BLOCK_WORDS] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];
pub(crate) const HASHER: FixedState = FixedState::with_seed(0);

/// A growing set of transfer ids without false negatives.
pub(crate) struct Filter {
    segments: [OnceLock<Segment>; SEGMENTS_MAX],
    /// Number of segments in use; the last of them receives new keys.
    segments_used: AtomicUsize,
    /// Number of keys that the last segment may still receive.
    room: Mutex<usize>,
    /// Minimum number of keys of a new segment.
    segment_keys_min: usize,
}

struct Segment {
    words: Box<[AtomicU32]>,
}

impl Filter {
    /// A filter for exactly `keys` ids.
    pub(crate) fn with_capacity(keys: usize) -> Self {
        Self::with_segments_of(1, keys)
    }

    /// A filter that expects `keys` ids at first, with segments of at least `segment_keys_min`.
    pub(crate) fn with_segments_of(segment_keys_min: usize, keys: usize) -> Self {
        let filter = Self::without_segments(segment_keys_min);
        filter.grow(&mut filter.room(), keys);
        filter
    }

    /// Adds ids. Every check after this call finds them.
    pub(crate) fn insert<'a>(&self, ids: impl IntoIterator<Item = &'a TransferId>) {
        // Only writers (the archivist, and the rebuild after a start) use this lock.
        let mut room = self.room();
        for id in ids {
            if *room == 0 {
                self.grow(&mut room, 0);
            }
            let last = self.segments_used.load(Ordering::Relaxed) - 1;
            if let Some(segment) = self.segments[last].get() {
                segment.insert(HASHER.hash_one(id));
            }
            // The very last segment receives all further keys: more false positives, but no false negatives.
            *room = room.saturating_sub(1);
        }
    }

    /// `false`: the id was never inserted.
    pub(crate) fn may_contain(&self, id: &TransferId) -> bool {
        let hash = HASHER.hash_one(id);
        let used = self.segments_used.load(Ordering::Acquire);
        self.segments[..used].iter().filter_map(OnceLock::get).any(|segment| segment.may_contain(hash))
    }

    /// Size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.segments.iter().filter_map(OnceLock::get).map(|segment| segment.words.len() * 4).sum()
    }

    /// The words of each segment, in order, for storing the filter in a file.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &[AtomicU32]> {
        self.segments.iter().filter_map(OnceLock::get).map(|segment| &*segment.words)
    }

    /// Number of ids that the last segment may still receive.
    pub(crate) fn room_left(&self) -> u64 {
        *self.room() as u64
    }

    /// A filter from the words of its segments, the last with space for `room` ids; `None` if they are not a valid
    /// filter.
    pub(crate) fn from_segments(segments: Vec<Vec<u32>>, room: u64) -> Option<Self> {
        let count = segments.len();
        let is_segment = |words: &Vec<u32>| !words.is_empty() && words.len().is_multiple_of(BLOCK_WORDS);
        if count > SEGMENTS_MAX || !segments.iter().all(is_segment) {
            return None;
        }
        let filter = Self::without_segments(SEGMENT_KEYS_MIN);
        for (slot, words) in filter.segments.iter().zip(segments) {
            let _ = slot.set(Segment { words: words.into_iter().map(AtomicU32::new).collect() });
        }
        filter.segments_used.store(count, Ordering::Release);
        *filter.room() = usize::try_from(room).ok()?;
        Some(filter)
    }

    #[cfg(test)]
    pub(crate) fn segments_used(&self) -> usize {
        self.segments_used.load(Ordering::Relaxed)
    }

    fn without_segments(segment_keys_min: usize) -> Self {
        Self {
            segments: [const { OnceLock::new() }; SEGMENTS_MAX],
            segments_used: AtomicUsize::new(0),
            room: Mutex::new(0),
            segment_keys_min,
        }
    }

    fn room(&self) -> MutexGuard<'_, usize> {
        // After a panic the count is at worst too high: a fuller segment, still without false negatives.
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn grow(&self, room: &mut usize, keys: usize) {
        let used = self.segments_used.load(Ordering::Relaxed);
        if used == SEGMENTS_MAX {
            return;
        }
        let keys = keys.max(self.bytes() * 8 / BITS_PER_KEY).max(self.segment_keys_min);
        self.segments[used].get_or_init(|| Segment::with_capacity(keys));
        self.segments_used.store(used + 1, Ordering::Release);
        *room = keys;
    }
}

impl Segment {
    fn with_capacity(keys: usize) -> Self {
        let blocks = keys.div_ceil(KEYS_PER_BLOCK);
        Self { words: (0..blocks * BLOCK_WORDS).map(|_| AtomicU32::new(0)).collect() }
    }

    /// The block is chosen by the upper half of the hash; the lower half chooses the bits.
    fn block(&self, hash: u64) -> &[AtomicU32] {
        let blocks = (self.words.len() / BLOCK_WORDS) as u64;
        let block = (((hash >> 32) * blocks) >> 32) as usize;
        &self.words[block * BLOCK_WORDS..(block + 1) * BLOCK_WORDS]
    }

    fn insert(&self, hash: u64) {
        for (word, salt) in self.block(hash).iter().zip(SALTS) {
            word.fetch_or(bit(hash, salt), Ordering::Relaxed);
        }
    }

    fn may_contain(&self, hash: u64) -> bool {
        self.block(hash)
            .iter()
            .zip(SALTS)
            .all(|(word, salt)| word.load(Ordering::Relaxed) & bit(hash, salt) != 0)
    }
}

fn bit(hash: u64, salt: u32) -> u32 {
    1 << ((hash as u32).wrapping_mul(salt) >> 27)
}
