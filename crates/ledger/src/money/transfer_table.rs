//! The transfers in memory: transfers in flight, and finished ones that are not archived yet.

mod deadlines;
mod slots;

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::hint::black_box;
use core::ops::Bound;

use foldhash::fast::FixedState;
use upesi_types::{Timestamp, TransferId};

use self::deadlines::{DeadlineKey, Deadlines};
use self::slots::Slots;
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

    fn deadlines_from(&self, lower: Bound<DeadlineKey>) -> impl Iterator<Item = DeadlineKey> {
        self.deadlines.from(lower, || self.in_memory_order().map(|(slot, found)| (found.expires_at, slot)))
    }

    /// The reserved transfers in memory order, with their slots.
    fn in_memory_order(&self) -> impl Iterator<Item = (u32, &Transfer)> {
        self.slots.iter().filter(|(_, transfer)| transfer.state == TransferState::Reserved)
    }

    /// The reserved transfers, oldest prepare first.
    pub(crate) fn reserved_by_age(&self) -> impl ExactSizeIterator<Item = &Transfer> {
        // Transfers are already nearly in this order in memory, and the keys are copied first, so sorting costs little.
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
    pub(crate) fn reserved_behind(
        &self,
        place: Option<DeadlineKey>,
    ) -> impl Iterator<Item = (DeadlineKey, &Transfer)> {
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
