//! Finds the slot of a transfer by the hash of its id.
//!
//! The index is an extendible hash table. A directory maps the upper bits of a hash to a segment, and a full segment is
//! split in two. Adding an entry therefore takes microseconds at most, whatever the size of the table. A lookup costs a
//! single fetch from memory: an entry has 8 bytes, and entries with near hashes are adjacent.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroU32;

/// Number of entries (32 KiB) from which a full segment is split instead of enlarged.
const SEGMENT_ENTRIES: usize = 4_096;
/// Entries of the very first segment.
const FIRST_ENTRIES: usize = 64;
/// Maximum number of hash bits that select a segment. The remaining bits select the place in it.
const DEPTH_MAX: u32 = u32::BITS - SEGMENT_ENTRIES.ilog2();

/// Slots by the hashes of their contents. Several slots may have the same hash.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    /// The segment number for each value of the upper `depth` bits of a hash.
    directory: Vec<u32>,
    depth: u32,
    segments: Vec<Segment>,
}

/// Entries whose hashes agree in the upper `depth` bits. Each entry is at the place that its hash selects, or after it
/// without a gap.
#[derive(Clone, Debug)]
struct Segment {
    depth: u32,
    len: usize,
    places: Box<[Option<Entry>]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    hash: u32,
    /// The slot number plus 1, so that an empty place needs no extra space.
    numbered: NonZeroU32,
}

const _: () = assert!(size_of::<Option<Entry>>() == 8);

impl Entry {
    fn new(hash: u32, slot: u32) -> Self {
        let numbered = NonZeroU32::MIN.saturating_add(slot);
        Self { hash, numbered }
    }

    const fn slot(self) -> u32 {
        self.numbered.get() - 1
    }
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { directory: vec![0], depth: 0, segments: vec![Segment::new(0, FIRST_ENTRIES)] }
    }

    /// The slot with this hash that `is_it` accepts.
    pub(crate) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let segment = &self.segments[self.segment_of(hash)];
        let place = segment.place_of(hash, is_it).ok()?;
        segment.places[place].map(Entry::slot)
    }

    /// Adds a slot under a hash. Returns false if a slot that `is_it` accepts already exists.
    pub(crate) fn insert(&mut self, hash: u32, slot: u32, is_it: impl Fn(u32) -> bool) -> bool {
        let number = self.segment_of(hash);
        let segment = &mut self.segments[number];
        let Err(place) = segment.place_of(hash, is_it) else { return false };
        segment.fill(place, Entry::new(hash, slot));
        if segment.is_full() {
            self.grow(number, hash);
        }
        true
    }

    /// Removes an existing slot.
    pub(crate) fn remove(&mut self, hash: u32, slot: u32) {
        let number = self.segment_of(hash);
        let segment = &mut self.segments[number];
        if let Ok(place) = segment.place_of(hash, |found| found == slot) {
            segment.empty(place);
        }
    }

    /// Reads the place where a search for a hash begins, to prefetch it. The result depends on the content, so the read
    /// is not optimised away.
    pub(crate) fn peek(&self, hash: u32) -> u32 {
        let segment = &self.segments[self.segment_of(hash)];
        segment.places[segment.home(hash)].map_or(0, |entry| entry.hash)
    }

    fn segment_of(&self, hash: u32) -> usize {
        self.directory[upper_bits(hash, self.depth)] as usize
    }

    /// Makes space in the full segment of a hash: the segment is enlarged or split in two.
    fn grow(&mut self, number: usize, hash: u32) {
        let full = &mut self.segments[number];
        let (depth, places) = (full.depth + 1, full.places.len());
        if places < SEGMENT_ENTRIES || depth > DEPTH_MAX {
            let mut larger = Segment::new(full.depth, 2 * places);
            full.entries().for_each(|entry| larger.add(entry));
            *full = larger;
            return;
        }
        let mut halves = [Segment::new(depth, places), Segment::new(depth, places)];
        full.entries().for_each(|entry| halves[upper_bits(entry.hash, depth) & 1].add(entry));
        let [lower, upper] = halves;
        *full = lower;
        self.segments.push(upper);
        if depth > self.depth {
            self.directory = self.directory.iter().flat_map(|segment| [*segment; 2]).collect();
            self.depth = depth;
        }
        // The upper half of the directory entries of the full segment now refers to the new segment.
        let half = 1 << (self.depth - depth);
        let first = (upper_bits(hash, depth) | 1) * half;
        self.directory[first..first + half].fill(self.segments.len() as u32 - 1);
    }
}

const fn upper_bits(hash: u32, count: u32) -> usize {
    ((hash as u64) << count >> u32::BITS) as usize
}

impl Segment {
    fn new(depth: u32, places: usize) -> Self {
        Self { depth, len: 0, places: vec![None; places].into_boxed_slice() }
    }

    /// A quarter of the places stays empty, so that a search soon reaches an empty place.
    const fn is_full(&self) -> bool {
        self.len * 4 > self.places.len() * 3
    }

    fn entries(&self) -> impl Iterator<Item = Entry> {
        self.places.iter().filter_map(|place| *place)
    }

    /// The place of the slot that `is_it` accepts, or else the free place for it.
    fn place_of(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Result<usize, usize> {
        let mut place = self.home(hash);
        while let Some(entry) = self.places[place] {
            if entry.hash == hash && is_it(entry.slot()) {
                return Ok(place);
            }
            place = self.behind(place);
        }
        Err(place)
    }

    /// The place where a search for a hash begins.
    const fn home(&self, hash: u32) -> usize {
        hash as usize & (self.places.len() - 1)
    }

    const fn behind(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    fn fill(&mut self, place: usize, entry: Entry) {
        self.places[place] = Some(entry);
        self.len += 1;
    }

    fn add(&mut self, entry: Entry) {
        if let Err(place) = self.place_of(entry.hash, |_| false) {
            self.fill(place, entry);
        }
    }

    /// Empties a place and closes the gap. An entry after the gap moves into it, unless its search begins after the
    /// gap.
    fn empty(&mut self, mut gap: usize) {
        let mut place = gap;
        self.len -= 1;
        loop {
            self.places[gap] = None;
            loop {
                place = self.behind(place);
                let Some(entry) = self.places[place] else { return };
                let from_home = |to: usize| to.wrapping_sub(self.home(entry.hash)) & (self.places.len() - 1);
                if from_home(gap) < from_home(place) {
                    self.places[gap] = Some(entry);
                    gap = place;
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::random;
    use alloc::collections::BTreeMap;

    /// Slots are added and removed. Each is found under its own hash and no other.
    fn compare(index: &Index, hashes: &BTreeMap<u32, u32>) {
        let len: usize = index.segments.iter().map(|segment| segment.len).sum();
        assert_eq!(len, hashes.len());
        for (slot, hash) in hashes {
            assert_eq!(index.find(*hash, |found| found == *slot), Some(*slot));
            assert_eq!(index.find(*hash, |_| false), None);
            let neighbour = hash.wrapping_add(1);
            assert_eq!(index.find(neighbour, |found| found == *slot), None, "under another hash");
        }
        for segment in &index.segments {
            assert!(!segment.is_full() && segment.entries().count() == segment.len);
        }
    }

    #[test]
    fn added_slot_is_found_until_it_is_removed() {
        // All hashes; few hashes for many slots; hashes that differ in their lowest or in their highest bits.
        for (mask, count) in [(u32::MAX, 20_000), (0xff, 2_000), (0x1fff, 6_000), (0xfff0_0000, 6_000)] {
            let (state, mut index, mut hashes) = (&mut 0x5eed_u64, Index::new(), BTreeMap::new());
            for slot in 0..count {
                let hash = random(state, 1 << 32) as u32 & mask;
                assert!(index.insert(hash, slot, |found| found == slot));
                assert!(!index.insert(hash, slot, |found| found == slot), "the slot exists already");
                hashes.insert(slot, hash);
                if random(state, 3) == 0 {
                    let slot = random(state, u64::from(slot + 1)) as u32;
                    if let Some(hash) = hashes.remove(&slot) {
                        index.remove(hash, slot);
                        assert_eq!(index.find(hash, |found| found == slot), None);
                    }
                }
                if slot % 2_000 == 1_999 || slot == 300 {
                    compare(&index, &hashes);
                }
            }
            for (slot, hash) in hashes {
                index.remove(hash, slot);
            }
            compare(&index, &BTreeMap::new());
        }
    }

    #[test]
    fn segments_are_split_and_stay_small() {
        let (state, mut index) = (&mut 0x5eed_u64, Index::new());
        for slot in 0..100_000 {
            index.insert(random(state, 1 << 32) as u32, slot, |_| false);
        }
        assert!(index.segments.iter().all(|segment| segment.places.len() == SEGMENT_ENTRIES));
        // At most three quarters of the places are used, and about half on average.
        assert!((33..=64).contains(&index.segments.len()), "{}", index.segments.len());
        assert_eq!(index.directory.len(), 1 << index.depth);
        for (value, segment) in index.directory.iter().enumerate() {
            let (segment, shift) = (&index.segments[*segment as usize], index.depth);
            let bits = |entry: Entry| upper_bits(entry.hash, segment.depth);
            assert!(segment.entries().all(|entry| bits(entry) == value >> (shift - segment.depth)));
        }
    }

    #[test]
    fn equal_hashes_enlarge_one_segment() {
        let mut index = Index::new();
        for slot in 0..2 * SEGMENT_ENTRIES as u32 {
            index.insert(u32::MAX, slot, |_| false);
        }
        assert_eq!(index.depth, DEPTH_MAX);
        let last = index.segments.last().map(|segment| (segment.len, segment.places.len()));
        assert_eq!(last, Some((2 * SEGMENT_ENTRIES, 4 * SEGMENT_ENTRIES)));
        assert_eq!(index.find(u32::MAX, |found| found == 5_000), Some(5_000));
    }
}
