//! The transfers in memory: transfers in flight, and finished ones that are not archived yet.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::hint::black_box;
use core::ops::{Bound, RangeBounds as _};

use foldhash::fast::FixedState;
use upesi_types::{Timestamp, TransferId};

use crate::base::index::Index;
use crate::money::transfer::{ChargedFee, Transfer, TransferState};

/// Transfers by id, reserved ones also by deadline, finished ones by age.
///
/// A transfer stays in its slot until it is removed. The index does not repeat the ids, so it is small. A prepare looks
/// for an id that does not exist, and its main cost is fetching the index from memory.
#[derive(Clone, Debug)]
pub(crate) struct TransferTable {
    slots: Slots<Transfer>,
    index: Index,
    hash: FixedState,
    deadlines: Deadlines,
    finished: VecDeque<(u64, u32)>,
}

impl TransferTable {
    pub(crate) fn new(hash_seed: u64) -> Self {
        Self {
            slots: Slots::new(),
            index: Index::new(),
            hash: FixedState::with_seed(hash_seed),
            deadlines: Deadlines::Kept(BTreeSet::new()),
            finished: VecDeque::new(),
        }
    }

    /// Stops keeping the deadlines in order. Queries return the same results, but queries in that order are slower.
    pub(crate) fn count_deadlines(&mut self) {
        self.deadlines = Deadlines::Counted(self.deadlines.len());
    }

    /// The hash of an id in the index.
    fn hash_of(&self, id: TransferId) -> u32 {
        self.hash.hash_one(id) as u32
    }

    fn slot_of(&self, id: TransferId) -> Option<u32> {
        self.index.find(self.hash_of(id), |slot| holds(&self.slots, slot, id))
    }

    /// Loads the index entries of these ids from memory into the processor's caches at once.
    pub(crate) fn fetch(&self, ids: impl Iterator<Item = TransferId>) {
        black_box(ids.fold(0, |seen, id| seen ^ self.index.peek(self.hash_of(id))));
    }

    pub(crate) fn get(&self, id: TransferId) -> Option<&Transfer> {
        self.slots.get(self.slot_of(id)?)
    }

    /// Adds a transfer that the record `seq` prepared.
    pub(crate) fn insert(&mut self, seq: u64, transfer: Transfer) {
        let (id, expires_at) = (transfer.id, transfer.expires_at);
        let is_reserved = transfer.state == TransferState::Reserved;
        let slot = self.slots.fill(transfer);
        let hash = self.hash_of(id);
        let is_new = self.index.insert(hash, slot, |found| holds(&self.slots, found, id));
        assert!(is_new, "transfer {id} is prepared twice");
        if is_reserved {
            self.deadlines.insert((expires_at, slot));
        } else {
            self.finished.push_back((seq, slot));
        }
    }

    /// Ends a reserved transfer. `change` sets the final state.
    pub(crate) fn finish(&mut self, seq: u64, id: TransferId, change: impl FnOnce(&mut Transfer)) {
        let slot =
            self.slot_of(id).unwrap_or_else(|| panic!("transfer {id} is finished but was never prepared"));
        let transfer = self.slots.get_mut(slot).unwrap_or_else(|| unreachable!("an indexed slot is filled"));
        assert!(transfer.state == TransferState::Reserved, "transfer {id} is finished twice");
        change(transfer);
        let was_waiting = self.deadlines.remove(&(transfer.expires_at, slot));
        assert!(was_waiting, "transfer {id} had no deadline");
        self.finished.push_back((seq, slot));
    }

    /// Adds a fee to the transfer whose commit charged it.
    pub(crate) fn note_fee(&mut self, id: TransferId, fee: ChargedFee) {
        let transfer = self.slot_of(id).and_then(|slot| self.slots.get_mut(slot));
        if let Some(TransferState::Committed(end)) = transfer.map(|transfer| &mut transfer.state) {
            end.fees.push(fee);
        }
    }

    /// Removes the transfers that finished at or before `seq`, oldest first, with the sequence number that finished
    /// each.
    pub(crate) fn drain_finished(&mut self, seq: u64) -> impl Iterator<Item = (u64, Transfer)> {
        core::iter::from_fn(move || {
            let (finished_seq, slot) = self.finished.pop_front_if(|(finished, _)| *finished <= seq)?;
            let transfer = self.slots.take(slot)?;
            self.index.remove(self.hash_of(transfer.id), slot);
            Some((finished_seq, transfer))
        })
    }

    /// The reserved transfers whose deadline is before `now`, oldest deadline first.
    pub(crate) fn due(&self, now: Timestamp) -> impl Iterator<Item = &Transfer> {
        let due = self.deadlines_from(Bound::Unbounded).take_while(move |(deadline, _)| *deadline < now);
        due.filter_map(|(_, slot)| self.slots.get(slot))
    }

    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines_from(Bound::Unbounded).next().map(|(deadline, _)| deadline)
    }

    pub(crate) fn reserved_len(&self) -> usize {
        self.deadlines.len()
    }

    /// Whether a transfer finished with this record, which must be the last one.
    pub(crate) fn is_finished_by(&self, seq: u64, id: TransferId) -> bool {
        let of_record = self.finished.iter().rev().take_while(|(finished, _)| *finished == seq);
        of_record.into_iter().any(|(_, slot)| holds(&self.slots, *slot, id))
    }

    pub(crate) fn finished_len(&self) -> usize {
        self.finished.len()
    }

    pub(crate) fn finished_seq(&self, index: usize) -> u64 {
        self.finished.get(index).map_or(0, |(seq, _)| *seq)
    }

    /// The reserved transfers, oldest deadline first.
    pub(crate) fn reserved(&self) -> impl Iterator<Item = &Transfer> {
        self.deadlines_from(Bound::Unbounded).filter_map(|(_, slot)| self.slots.get(slot))
    }

    fn deadlines_from(&self, lower: Bound<Place>) -> impl Iterator<Item = Place> {
        self.deadlines.from(lower, || self.in_memory_order().map(|(slot, found)| (found.expires_at, slot)))
    }

    /// The reserved transfers in memory order, with their slots.
    fn in_memory_order(&self) -> impl Iterator<Item = (u32, &Transfer)> {
        self.slots.iter().filter(|(_, transfer)| transfer.state == TransferState::Reserved)
    }

    /// The reserved transfers, oldest prepare first.
    pub(crate) fn reserved_by_age(&self) -> impl ExactSizeIterator<Item = &Transfer> {
        // They are already nearly in this order in memory, and the keys are copied first, so sorting costs little.
        let mut reserved = Vec::with_capacity(self.reserved_len());
        reserved.extend(self.in_memory_order().map(|(_, transfer)| (transfer.prepare_seq, transfer)));
        reserved.sort_unstable_by_key(|(seq, _)| *seq);
        reserved.into_iter().map(|(_, transfer)| transfer)
    }

    /// The sequence number of the record that prepared the oldest reserved transfer.
    pub(crate) fn oldest_reserved_seq(&self) -> Option<u64> {
        self.in_memory_order().map(|(_, transfer)| transfer.prepare_seq).min()
    }

    /// The reserved transfers after a position, oldest deadline first, with the position of each.
    pub(crate) fn reserved_behind(&self, place: Option<Place>) -> impl Iterator<Item = (Place, &Transfer)> {
        let lower = place.map_or(Bound::Unbounded, Bound::Excluded);
        self.deadlines_from(lower).filter_map(|place| Some((place, self.slots.get(place.1)?)))
    }

    /// The finished transfers from a position on, oldest first, with the position after each. A position is the
    /// sequence number that finished the transfer, and how many transfers with that number were passed.
    pub(crate) fn finished_behind(
        &self,
        (seq, passed): (u64, u32),
    ) -> impl Iterator<Item = ((u64, u32), &Transfer)> {
        let first = self.finished.partition_point(|(finished, _)| *finished < seq);
        let mut last = (seq, 0);
        let counted = self.finished.range(first..).map(move |(seq, slot)| {
            last = (*seq, if last.0 == *seq { last.1 + 1 } else { 1 });
            (last, *slot)
        });
        let behind = counted.filter(move |(place, _)| *place > (seq, passed));
        behind.filter_map(|(place, slot)| Some((place, self.slots.get(slot)?)))
    }

    /// The finished transfers with the sequence number that finished each, oldest first.
    pub(crate) fn finished(&self) -> impl Iterator<Item = (u64, &Transfer)> {
        self.finished.iter().filter_map(|(seq, slot)| Some((*seq, self.slots.get(*slot)?)))
    }
}

fn holds(slots: &Slots<Transfer>, slot: u32, id: TransferId) -> bool {
    slots.get(slot).is_some_and(|transfer| transfer.id == id)
}

// Deadlines of the reserved transfers.

/// A reserved transfer: its deadline and its slot.
type Place = (Timestamp, u32);

/// The reserved transfers by deadline, then slot.
#[derive(Clone, Debug)]
enum Deadlines {
    /// In order, for a ledger that decides.
    Kept(BTreeSet<Place>),
    /// Only their number, for a ledger that only applies records. Queries that need the order sort the deadlines.
    Counted(usize),
}

impl Deadlines {
    fn insert(&mut self, place: Place) {
        match self {
            Self::Kept(places) => {
                places.insert(place);
            }
            Self::Counted(count) => *count += 1,
        }
    }

    /// Removes the deadline of a reserved transfer. Returns false if there is none.
    fn remove(&mut self, place: &Place) -> bool {
        match self {
            Self::Kept(places) => places.remove(place),
            Self::Counted(count) => match count.checked_sub(1) {
                Some(fewer) => {
                    *count = fewer;
                    true
                }
                None => false,
            },
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Kept(places) => places.len(),
            Self::Counted(count) => *count,
        }
    }

    /// The deadlines from a bound on, in order. If the order is not kept, `reserved` returns them in any order.
    fn from<I: Iterator<Item = Place>>(
        &self,
        lower: Bound<Place>,
        reserved: impl FnOnce() -> I,
    ) -> impl Iterator<Item = Place> {
        let range = (lower, Bound::Unbounded);
        let (kept, sorted) = match self {
            Self::Kept(places) => (Some(places.range(range).copied()), BTreeSet::new()),
            Self::Counted(_) => {
                let is_behind = |place: &Place| range.contains(place);
                (None, reserved().filter(is_behind).collect())
            }
        };
        kept.into_iter().flatten().chain(sorted)
    }
}

// Storage of transfers: numbered slots that never move.

/// Slots of one block, which has a few hundred kilobytes.
const BLOCK_SLOTS: usize = 2_048;

/// Numbered slots, allocated in blocks. Adding slots never moves existing ones. Moving them would block a ledger with
/// millions of transfers in flight while it copies them all.
#[derive(Clone, Debug)]
struct Slots<T> {
    blocks: Vec<Vec<Option<T>>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    const fn new() -> Self {
        Self { blocks: Vec::new(), free: Vec::new() }
    }

    /// Fills an empty slot, preferably one that was used before, and returns its number.
    fn fill(&mut self, value: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            let (block, place) = place(slot);
            self.blocks[block][place] = Some(value);
            return slot;
        }
        if self.blocks.last().is_none_or(|block| block.len() == BLOCK_SLOTS) {
            self.blocks.push(Vec::with_capacity(BLOCK_SLOTS));
        }
        let last = self.blocks.len() - 1;
        self.blocks[last].push(Some(value));
        (last * BLOCK_SLOTS + self.blocks[last].len() - 1) as u32
    }

    /// Empties a slot.
    fn take(&mut self, slot: u32) -> Option<T> {
        let (block, place) = place(slot);
        let value = self.blocks[block][place].take()?;
        self.free.push(slot);
        Some(value)
    }

    fn get(&self, slot: u32) -> Option<&T> {
        let (block, place) = place(slot);
        self.blocks[block][place].as_ref()
    }

    /// The filled slots, in order.
    fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(self.blocks.iter().flatten()).filter_map(|(slot, value)| Some((slot, value.as_ref()?)))
    }

    fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        let (block, place) = place(slot);
        self.blocks[block][place].as_mut()
    }
}

const fn place(slot: u32) -> (usize, usize) {
    (slot as usize / BLOCK_SLOTS, slot as usize % BLOCK_SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_a_slot_stays_where_it_is() {
        let mut slots = Slots::new();
        let count = 3 * BLOCK_SLOTS as u32 + 1;
        let first = slots.fill(0);
        let address = core::ptr::from_ref(slots.get(first).unwrap());
        for number in 1..count {
            assert_eq!(slots.fill(number), number);
        }
        assert_eq!(core::ptr::from_ref(slots.get(first).unwrap()), address);
        assert!((0..count).all(|number| slots.get(number) == Some(&number)));
    }

    #[test]
    fn an_emptied_slot_is_filled_again_before_a_new_one() {
        let mut slots: Slots<u32> = Slots::new();
        let (a, b) = (slots.fill(1), slots.fill(2));
        assert_eq!((slots.take(a), slots.take(a)), (Some(1), None), "once");
        assert_eq!(slots.get(a), None);
        assert_eq!(slots.fill(3), a);
        assert_eq!(slots.fill(4), b + 1);
        *slots.get_mut(a).unwrap() += 10;
        assert_eq!([a, b, b + 1].map(|slot| slots.get(slot).copied()), [Some(13), Some(2), Some(4)]);
    }
}
