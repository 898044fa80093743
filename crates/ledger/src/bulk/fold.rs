//! How events change bulks, and questions about them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use upesi_types::{BulkId, Timestamp, TransferId};

use super::{Bulk, BulkAnswer, BulkState, ItemResult, ItemState};
use crate::Ledger;
use crate::bulk::table::BulkTotals;
use crate::refusal::Cause;
use crate::transfer::TransferState;

impl Ledger {
    /// A live one waits for its first step.
    pub(crate) fn apply_bulk_received(&mut self, seq: u64, bulk: Box<Bulk>) {
        let id = bulk.id;
        if bulk.is_live() {
            self.bulks.totals.taken += 1;
            self.bulks.totals.items += bulk.items.len() as u64;
            self.bulks.insert(seq, bulk);
            self.bulks.change(id, |_| ());
        } else {
            self.bulks.totals.refused += 1;
            self.bulks.insert(seq, bulk);
        }
    }

    /// The next item that was not decided is reserved, or refused.
    pub(crate) fn apply_bulk_item(&mut self, id: BulkId, place: u32, refused: Option<Cause>) {
        let mut released = None;
        self.bulks.change(id, |entry| {
            assert!(
                entry.next_waiting().is_some_and(|(next, _)| next == place),
                "item {place} of bulk {id} is decided out of order"
            );
            let item = &mut entry.bulk.items[place as usize];
            item.state = match refused {
                Some(cause) => {
                    released = Some(item.transfer);
                    ItemState::Refused(cause)
                }
                None => ItemState::Accepted,
            };
            entry.open += usize::from(released.is_none());
            entry.pass_decided();
        });
        if let Some(transfer) = released {
            self.bulks.release(transfer);
        }
    }

    /// The payee was asked for what is reserved.
    pub(crate) fn apply_bulk_accepted(&mut self, id: BulkId) {
        self.bulks.drop_asked(id);
        self.bulks.change(id, |entry| {
            assert!(entry.bulk.state == BulkState::Received, "bulk {id} is accepted twice");
            assert!(entry.next_waiting().is_none(), "bulk {id} is accepted before its items are decided");
            entry.bulk.state = BulkState::Accepted;
        });
    }

    /// The payee's PUT takes effect item by item.
    pub(crate) fn apply_bulk_answered(
        &mut self,
        id: BulkId,
        answer: BulkAnswer,
        results: BTreeMap<u32, ItemResult>,
    ) {
        self.bulks.change(id, |entry| {
            assert!(entry.bulk.state == BulkState::Accepted, "bulk {id} is answered twice");
            let is_open = |place: &u32| {
                entry.bulk.items.get(*place as usize).is_some_and(|item| item.state == ItemState::Accepted)
            };
            assert!(results.keys().all(is_open), "bulk {id} is answered for items that are not reserved");
            entry.bulk.state = BulkState::Processing;
            entry.bulk.answer = Some(answer);
            entry.bulk.results = results;
        });
    }

    /// Nothing is left to decide.
    pub(crate) fn apply_bulk_ended(&mut self, seq: u64, now: Timestamp, id: BulkId, cause: Option<Cause>) {
        let has_committed = self.bulks.get(id).is_some_and(Bulk::has_committed);
        let state = if has_committed {
            self.bulks.totals.completed += 1;
            BulkState::Completed { at: now }
        } else {
            self.bulks.totals.rejected += 1;
            BulkState::Rejected { cause, at: now }
        };
        self.bulks.finish(seq, id, state);
    }

    /// Brings the end of a transfer to the bulk that it is an item of.
    pub(crate) fn note_end_of_item(&mut self, transfer: TransferId) {
        let ended = self.bulks.holding(transfer).map(|(bulk, place)| (bulk.id, place));
        let Some(((id, place), transfer)) = ended.zip(self.transfers.get(transfer)) else { return };
        let mut is_committed = false;
        self.bulks.change(id, |entry| {
            let was_asked = entry.bulk.state != BulkState::Received;
            let item = &mut entry.bulk.items[place as usize];
            assert!(item.state == ItemState::Accepted, "item {place} of bulk {id} ends twice");
            item.state = match &transfer.state {
                TransferState::Committed { fulfilment, .. } => {
                    is_committed = true;
                    let extensions = transfer.extensions.clone();
                    ItemState::Committed { fulfilment: *fulfilment, extensions }
                }
                TransferState::Aborted { cause, .. } if was_asked => ItemState::Aborted(cause.clone()),
                TransferState::Aborted { cause, .. } => ItemState::Refused(cause.clone()),
                TransferState::Reserved => unreachable!("a transfer ends committed or aborted"),
            };
            entry.open -= 1;
            entry.bulk.results.remove(&place);
        });
        self.bulks.totals.items_committed += u64::from(is_committed);
        self.bulks.release(transfer.id);
    }

    /// A bulk in memory: live, or ended and not yet archived.
    pub fn bulk(&self, id: BulkId) -> Option<&Bulk> {
        self.bulks.get(id)
    }

    /// The live bulk that a transfer is an item of, and its place among the items, from 0.
    pub fn bulk_of(&self, transfer: TransferId) -> Option<(&Bulk, u32)> {
        self.bulks.holding(transfer)
    }

    /// The live bulks, oldest request first.
    pub fn live_bulks(&self) -> impl ExactSizeIterator<Item = &Bulk> {
        self.bulks.live_by_age().map(|entry| &*entry.bulk)
    }

    /// How many bulks are live.
    pub const fn live_bulks_len(&self) -> usize {
        self.bulks.live_len()
    }

    /// The ended bulks in memory, oldest first, with the record that ended each.
    pub fn finished_bulks(&self) -> impl ExactSizeIterator<Item = (u64, &Bulk)> {
        self.bulks.finished()
    }

    /// How many ended bulks wait in memory for the archive.
    pub fn finished_bulks_len(&self) -> usize {
        self.bulks.finished_len()
    }

    /// Takes the bulks that ended at or before `seq` out of memory, as [`Ledger::take_finished`] does transfers.
    pub fn take_finished_bulks(&mut self, seq: u64) -> impl Iterator<Item = (u64, Box<Bulk>)> {
        self.bulks.drain_finished(seq)
    }

    /// What live bulks hold in memory until their payees are asked, in bytes.
    pub const fn bulk_bytes_held(&self) -> usize {
        self.bulks.asked_bytes()
    }

    /// Bulks since the ledger began.
    pub const fn bulk_totals(&self) -> BulkTotals {
        self.bulks.totals()
    }
}
