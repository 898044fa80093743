//! The transfers in memory: those in flight, and those finished but not yet archived.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::ops::Bound;

use foldhash::fast::FixedState;
use hashbrown::hash_table::{Entry, HashTable};
use upesi_types::{Timestamp, TransferId};

use crate::transfer::{Transfer, TransferState};
use deadlines::{Deadlines, Place};
use slots::Slots;

mod deadlines;
mod slots;

/// Transfers by id, by deadline while reserved, and by age once finished.
///
/// Transfers stay in their slot for life. The index does not repeat their ids, so it is small: a prepare looks for an
/// id that is not there, and what that costs is fetching the index from memory.
#[derive(Clone, Debug)]
pub(crate) struct TransferTable {
    slots: Slots<Transfer>,
    index: HashTable<Indexed>,
    hash: FixedState,
    deadlines: Deadlines,
    finished: VecDeque<(u64, u32)>,
}

/// An entry of the index.
#[derive(Clone, Copy, Debug)]
struct Indexed {
    /// The lower half of the id's hash.
    hash: u32,
    slot: u32,
}

impl Indexed {
    /// The hash under which the index keeps this entry. It takes the place from one end and a tag from the other.
    fn spread(&self) -> u64 {
        u64::from(self.hash) << 32 | u64::from(self.hash)
    }
}

impl TransferTable {
    pub(crate) fn new(hash_seed: u64) -> Self {
        Self {
            slots: Slots::new(),
            index: HashTable::new(),
            hash: FixedState::with_seed(hash_seed),
            deadlines: Deadlines::Kept(BTreeSet::new()),
            finished: VecDeque::new(),
        }
    }

    /// Stops keeping the deadlines in order. Every question is answered as before, those for the order more slowly.
    pub(crate) fn count_deadlines(&mut self) {
        self.deadlines = Deadlines::Counted(self.deadlines.len());
    }

    /// The index's entry for an id that is in `slot`.
    fn indexed(&self, id: TransferId, slot: u32) -> Indexed {
        Indexed { hash: self.hash.hash_one(id) as u32, slot }
    }

    fn slot_of(&self, id: TransferId) -> Option<u32> {
        let sought = self.indexed(id, 0);
        let is_it = |entry: &Indexed| entry.hash == sought.hash && holds(&self.slots, entry.slot, id);
        self.index.find(sought.spread(), is_it).map(|entry| entry.slot)
    }

    pub(crate) fn get(&self, id: TransferId) -> Option<&Transfer> {
        self.slots.get(self.slot_of(id)?)
    }

    /// Adds a transfer that `seq` prepared.
    pub(crate) fn insert(&mut self, seq: u64, transfer: Transfer) {
        let (id, expires_at) = (transfer.id, transfer.expires_at);
        let is_reserved = transfer.state == TransferState::Reserved;
        let slot = self.slots.fill(transfer);
        let entry = self.indexed(id, slot);
        let is_it = |found: &Indexed| found.hash == entry.hash && holds(&self.slots, found.slot, id);
        match self.index.entry(entry.spread(), is_it, Indexed::spread) {
            Entry::Vacant(place) => place.insert(entry),
            Entry::Occupied(_) => panic!("transfer {id} is prepared twice"),
        };
        if is_reserved {
            self.deadlines.insert((expires_at, slot));
        } else {
            self.finished.push_back((seq, slot));
        }
    }

    /// Ends a reserved transfer: `change` puts the final state in.
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

    /// Takes out the transfers that finished at or before `seq`, oldest first, with the sequence that finished each.
    pub(crate) fn drain_finished(&mut self, seq: u64) -> impl Iterator<Item = (u64, Transfer)> {
        core::iter::from_fn(move || {
            let (finished_seq, slot) = self.finished.pop_front_if(|(finished, _)| *finished <= seq)?;
            let transfer = self.slots.take(slot)?;
            let entry = self.indexed(transfer.id, slot);
            if let Ok(found) = self.index.find_entry(entry.spread(), |found| found.slot == slot) {
                found.remove();
            }
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

    /// The reserved transfers in the order in which they lie in memory, and their slots.
    fn in_memory_order(&self) -> impl Iterator<Item = (u32, &Transfer)> {
        self.slots.iter().filter(|(_, transfer)| transfer.state == TransferState::Reserved)
    }

    /// The reserved transfers, oldest prepare first.
    pub(crate) fn reserved_by_age(&self) -> impl ExactSizeIterator<Item = &Transfer> {
        // They lie in memory nearly in this order, and the keys are at hand, so that sorting costs little.
        let mut reserved = Vec::with_capacity(self.reserved_len());
        reserved.extend(self.in_memory_order().map(|(_, transfer)| (transfer.prepare_seq, transfer)));
        reserved.sort_unstable_by_key(|(seq, _)| *seq);
        reserved.into_iter().map(|(_, transfer)| transfer)
    }

    /// The record that prepared the oldest of the reserved transfers.
    pub(crate) fn oldest_reserved_seq(&self) -> Option<u64> {
        self.in_memory_order().map(|(_, transfer)| transfer.prepare_seq).min()
    }

    /// The reserved transfers behind a place, oldest deadline first, and the place of each.
    pub(crate) fn reserved_behind(&self, place: Option<Place>) -> impl Iterator<Item = (Place, &Transfer)> {
        let lower = place.map_or(Bound::Unbounded, Bound::Excluded);
        self.deadlines_from(lower).filter_map(|place| Some((place, self.slots.get(place.1)?)))
    }

    /// The finished transfers from a place on, oldest first, and the place behind each: the sequence that finished it,
    /// and how many of that sequence were passed.
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

    /// The finished transfers with the sequence that finished each, oldest first.
    pub(crate) fn finished(&self) -> impl Iterator<Item = (u64, &Transfer)> {
        self.finished.iter().filter_map(|(seq, slot)| Some((*seq, self.slots.get(*slot)?)))
    }
}

fn holds(slots: &Slots<Transfer>, slot: u32, id: TransferId) -> bool {
    slots.get(slot).is_some_and(|transfer| transfer.id == id)
}
