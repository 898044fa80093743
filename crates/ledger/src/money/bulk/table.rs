//! The bulk transfers in memory: the live ones, and ended ones that are not archived yet.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use upesi_types::{BulkId, TransferId};

use crate::money::bulk::{Bulk, BulkItem, BulkState, ItemState};

/// Totals of bulk transfers since the ledger began, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BulkTotals {
    /// Requests that were accepted.
    pub taken: u64,
    /// Requests that were rejected as a whole.
    pub refused: u64,
    /// Accepted bulk transfers with at least one committed item.
    pub completed: u64,
    /// Accepted bulk transfers without a committed item.
    pub rejected: u64,
    /// Items of accepted bulk transfers.
    pub items: u64,
    /// Items that were committed.
    pub items_committed: u64,
    /// Results in payees' answers that named no open item of their bulk transfer.
    pub results_ignored: u64,
}

/// A bulk transfer with the data that determines its next step.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) bulk: Box<Bulk>,
    /// Number of leading items that are decided.
    pub(crate) decided: usize,
    /// Number of items whose transfers are reserved.
    pub(crate) open: usize,
    is_due: bool,
}

impl Entry {
    fn new(bulk: Box<Bulk>) -> Self {
        let is_open = |item: &&BulkItem| item.state == ItemState::Accepted;
        let open = bulk.items.iter().filter(is_open).count();
        let mut entry = Self { bulk, decided: 0, open, is_due: false };
        entry.pass_decided();
        entry
    }

    /// The first item that is not decided, with its position.
    pub(crate) fn next_waiting(&self) -> Option<(u32, &BulkItem)> {
        self.bulk.items.get(self.decided).map(|item| (self.decided as u32, item))
    }

    pub(crate) fn pass_decided(&mut self) {
        let rest = self.bulk.items.iter().skip(self.decided);
        self.decided += rest.take_while(|item| item.state != ItemState::Waiting).count();
    }

    pub(crate) fn has_open(&self) -> bool {
        self.open > 0
    }

    pub(crate) const fn open_len(&self) -> usize {
        self.open
    }

    /// Whether the hub itself must take the next step.
    fn needs_step(&self) -> bool {
        match self.bulk.state {
            BulkState::Received => true,
            BulkState::Accepted => self.open == 0,
            BulkState::Processing => self.open == 0 || !self.bulk.results.is_empty(),
            BulkState::Completed { .. } | BulkState::Rejected { .. } => false,
        }
    }

    /// Bytes of the payer's item requests that are still retained.
    fn asked_bytes(&self) -> usize {
        self.bulk.items.iter().filter_map(|item| item.asked.as_ref()).map(|asked| asked.bytes()).sum()
    }
}

/// Bulk transfers by id, a queue of live ones with a pending step, and ended ones by age.
#[derive(Clone, Debug)]
pub(crate) struct Bulks {
    all: HashMap<BulkId, Entry, FixedState>,
    /// The items that are not final, by their transfer.
    items: HashMap<TransferId, (BulkId, u32), FixedState>,
    /// Queue of bulk transfers with a pending step. Each takes one step in turn.
    due: VecDeque<BulkId>,
    finished: VecDeque<(u64, BulkId)>,
    live: usize,
    asked_bytes: usize,
    pub(crate) totals: BulkTotals,
}

impl Bulks {
    pub(crate) fn new(hash_seed: u64) -> Self {
        Self {
            all: HashMap::with_hasher(FixedState::with_seed(hash_seed)),
            items: HashMap::with_hasher(FixedState::with_seed(hash_seed)),
            due: VecDeque::new(),
            finished: VecDeque::new(),
            live: 0,
            asked_bytes: 0,
            totals: BulkTotals::default(),
        }
    }

    pub(crate) const fn totals(&self) -> BulkTotals {
        self.totals
    }

    /// Whether no bulk transfer is live. Checked for each transfer, so it must be fast.
    pub(crate) const fn has_no_live(&self) -> bool {
        self.live == 0
    }

    pub(crate) const fn live_len(&self) -> usize {
        self.live
    }

    /// Bytes that live bulk transfers hold until their requests are sent to the payees.
    pub(crate) const fn asked_bytes(&self) -> usize {
        self.asked_bytes
    }

    pub(crate) fn get(&self, id: BulkId) -> Option<&Bulk> {
        self.all.get(&id).map(|entry| &*entry.bulk)
    }

    /// The live bulk transfer that contains a transfer, and the position of the item. The transfer may not exist yet.
    pub(crate) fn holding(&self, transfer: TransferId) -> Option<(&Bulk, u32)> {
        if self.has_no_live() {
            return None;
        }
        let (bulk, place) = self.items.get(&transfer)?;
        Some((self.get(*bulk)?, *place))
    }

    /// The bulk transfer whose turn is next.
    pub(crate) fn due(&self) -> Option<&Entry> {
        self.all.get(self.due.front()?)
    }

    pub(crate) fn due_ids(&self) -> impl ExactSizeIterator<Item = &BulkId> {
        self.due.iter()
    }

    /// Adds a bulk transfer that the record `seq` received or ended.
    pub(crate) fn insert(&mut self, seq: u64, bulk: Box<Bulk>) {
        let id = bulk.id;
        let entry = Entry::new(bulk);
        let is_live = entry.bulk.is_live();
        if is_live {
            self.live += 1;
            self.asked_bytes += entry.asked_bytes();
            for (place, item) in (0..).zip(&entry.bulk.items) {
                if matches!(item.state, ItemState::Waiting | ItemState::Accepted) {
                    let previous = self.items.insert(item.transfer, (id, place));
                    assert!(
                        previous.is_none(),
                        "transfer {} is an item of two bulk transfers",
                        item.transfer
                    );
                }
            }
        } else {
            self.finished.push_back((seq, id));
        }
        let previous = self.all.insert(id, entry);
        assert!(previous.is_none(), "bulk transfer {id} is received twice");
    }

    /// Restores the order of the queue from a snapshot.
    pub(crate) fn restore_due(&mut self, ids: Vec<BulkId>) -> bool {
        for id in ids {
            match self.all.get_mut(&id).filter(|entry| entry.needs_step() && !entry.is_due) {
                Some(entry) => entry.is_due = true,
                None => return false,
            }
            self.due.push_back(id);
        }
        self.all.values().all(|entry| entry.is_due == entry.needs_step())
    }

    /// Changes a live bulk transfer. If it still has a step to take, it moves to the end of the queue.
    pub(crate) fn change(&mut self, id: BulkId, change: impl FnOnce(&mut Entry)) {
        let found = self.all.get_mut(&id).filter(|entry| entry.bulk.is_live());
        let entry = found.unwrap_or_else(|| panic!("bulk transfer {id} changes, but is not live"));
        change(entry);
        self.take_turn(id);
    }

    /// Moves a bulk transfer to the end of the queue.
    fn take_turn(&mut self, id: BulkId) {
        let Some(entry) = self.all.get_mut(&id) else { return };
        if entry.is_due
            && let Some(at) = self.due.iter().position(|due| *due == id)
        {
            self.due.remove(at);
        }
        entry.is_due = entry.needs_step();
        if entry.is_due {
            self.due.push_back(id);
        }
    }

    /// Forgets an item that is final: its transfer no longer belongs to a live bulk transfer.
    pub(crate) fn release(&mut self, transfer: TransferId) {
        self.items.remove(&transfer);
    }

    /// Drops the payer's item requests after they were sent to the payee, or if they never will be.
    pub(crate) fn drop_asked(&mut self, id: BulkId) {
        let Some(entry) = self.all.get_mut(&id) else { return };
        self.asked_bytes -= entry.asked_bytes();
        entry.bulk.items.iter_mut().for_each(|item| item.asked = None);
        entry.bulk.extensions = None;
    }

    /// Ends a live bulk transfer that has no open item.
    pub(crate) fn finish(&mut self, seq: u64, id: BulkId, state: BulkState) {
        self.drop_asked(id);
        self.change(id, |entry| {
            assert!(entry.open == 0, "bulk transfer {id} ends with items that are reserved");
            assert!(
                entry.next_waiting().is_none(),
                "bulk transfer {id} ends with items that are not decided"
            );
            entry.bulk.state = state;
        });
        self.live -= 1;
        self.finished.push_back((seq, id));
    }

    /// The live bulk transfers, oldest request first.
    pub(crate) fn live_by_age(&self) -> impl ExactSizeIterator<Item = &Entry> {
        let mut live: Vec<_> = self.all.values().filter(|entry| entry.bulk.is_live()).collect();
        live.sort_unstable_by_key(|entry| (entry.bulk.prepare_seq, entry.bulk.id));
        live.into_iter()
    }

    pub(crate) fn finished_len(&self) -> usize {
        self.finished.len()
    }

    /// The ended bulk transfers, oldest first, with the sequence number that ended each.
    pub(crate) fn finished(&self) -> impl ExactSizeIterator<Item = (u64, &Bulk)> {
        self.finished.iter().map(|(seq, id)| {
            let found = self.get(*id);
            (*seq, found.unwrap_or_else(|| unreachable!("a listed bulk transfer is kept")))
        })
    }

    /// Removes the bulk transfers that ended at or before `seq`, oldest first, with the sequence number that ended
    /// each.
    pub(crate) fn drain_finished(&mut self, seq: u64) -> impl Iterator<Item = (u64, Box<Bulk>)> {
        core::iter::from_fn(move || {
            let (finished, id) = self.finished.pop_front_if(|(finished, _)| *finished <= seq)?;
            Some((finished, self.all.remove(&id)?.bulk))
        })
    }
}
