//! The transfers in memory: those in flight, and those finished but not yet archived.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use upesi_types::{Timestamp, TransferId};

use crate::transfer::{Transfer, TransferState};

/// Transfers by id, by deadline while reserved, and by age once finished.
///
/// Records stay in their slot for life; the index holds small entries only, so growing it moves little memory.
#[derive(Clone, Debug)]
pub(crate) struct TransferTable {
    slots: Vec<Option<Transfer>>,
    free: Vec<u32>,
    index: HashMap<TransferId, u32, FixedState>,
    deadlines: BTreeSet<(Timestamp, u32)>,
    finished: VecDeque<(u64, u32)>,
}

impl TransferTable {
    pub(crate) fn new(hash_seed: u64) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            index: HashMap::with_hasher(FixedState::with_seed(hash_seed)),
            deadlines: BTreeSet::new(),
            finished: VecDeque::new(),
        }
    }

    pub(crate) fn get(&self, id: TransferId) -> Option<&Transfer> {
        let slot = *self.index.get(&id)?;
        self.slots[slot as usize].as_ref()
    }

    /// Adds a transfer that `seq` prepared.
    pub(crate) fn insert(&mut self, seq: u64, transfer: Transfer) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        let previous = self.index.insert(transfer.id, slot);
        assert!(previous.is_none(), "transfer {} is prepared twice", transfer.id);
        match transfer.state {
            TransferState::Reserved => {
                self.deadlines.insert((transfer.expires_at, slot));
            }
            _ => self.finished.push_back((seq, slot)),
        }
        self.slots[slot as usize] = Some(transfer);
    }

    /// Ends a reserved transfer: `change` puts the final state in.
    pub(crate) fn finish(&mut self, seq: u64, id: TransferId, change: impl FnOnce(&mut Transfer)) {
        let slot = *self
            .index
            .get(&id)
            .unwrap_or_else(|| panic!("transfer {id} is finished but was never prepared"));
        let transfer =
            self.slots[slot as usize].as_mut().unwrap_or_else(|| unreachable!("an indexed slot is filled"));
        assert!(transfer.state == TransferState::Reserved, "transfer {id} is finished twice");
        change(transfer);
        let was_waiting = self.deadlines.remove(&(transfer.expires_at, slot));
        assert!(was_waiting, "transfer {id} had no deadline");
        self.finished.push_back((seq, slot));
    }

    /// Takes out the transfers that finished at or before `seq`, oldest first.
    pub(crate) fn drain_finished(&mut self, seq: u64) -> impl Iterator<Item = Transfer> {
        core::iter::from_fn(move || {
            let slot = self.finished.pop_front_if(|(finished_seq, _)| *finished_seq <= seq)?.1;
            let transfer = self.slots[slot as usize].take()?;
            self.index.remove(&transfer.id);
            self.free.push(slot);
            Some(transfer)
        })
    }

    /// The reserved transfers whose deadline is before `now`, oldest deadline first.
    pub(crate) fn due(&self, now: Timestamp) -> impl Iterator<Item = &Transfer> {
        let due = self.deadlines.iter().take_while(move |(deadline, _)| *deadline < now);
        due.filter_map(|(_, slot)| self.slots[*slot as usize].as_ref())
    }

    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub(crate) fn reserved_len(&self) -> usize {
        self.deadlines.len()
    }

    pub(crate) fn finished_len(&self) -> usize {
        self.finished.len()
    }

    /// The reserved transfers, oldest deadline first.
    pub(crate) fn reserved(&self) -> impl Iterator<Item = &Transfer> {
        self.deadlines.iter().filter_map(|(_, slot)| self.slots[*slot as usize].as_ref())
    }

    /// The finished transfers with the sequence that finished each, oldest first.
    pub(crate) fn finished(&self) -> impl Iterator<Item = (u64, &Transfer)> {
        self.finished.iter().filter_map(|(seq, slot)| Some((*seq, self.slots[*slot as usize].as_ref()?)))
    }
}
