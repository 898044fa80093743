//! Applies the events of bulk transfers to the state.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use upesi_types::{BulkId, Timestamp, TransferId};

use crate::base::refusal::Cause;
use crate::core::state::Ledger;
use crate::money::bulk::{Bulk, BulkAnswer, BulkState, ItemResult, ItemState};
use crate::money::transfer::TransferState;

impl Ledger {
    /// Adds a bulk transfer. A live one waits for its first step.
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

    /// Marks the next undecided item as reserved or rejected.
    pub(crate) fn apply_bulk_item(&mut self, id: BulkId, place: u32, refused: Option<Cause>) {
        let mut released = None;
        self.bulks.change(id, |entry| {
            assert!(
                entry.next_waiting().is_some_and(|(next, _)| next == place),
                "item {place} of bulk transfer {id} is decided out of order"
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

    /// Records that the request with the reserved items was sent to the payee.
    pub(crate) fn apply_bulk_accepted(&mut self, id: BulkId) {
        self.bulks.drop_asked(id);
        self.bulks.change(id, |entry| {
            assert!(entry.bulk.state == BulkState::Received, "bulk transfer {id} is accepted twice");
            assert!(
                entry.next_waiting().is_none(),
                "bulk transfer {id} is accepted before its items are decided"
            );
            entry.bulk.state = BulkState::Accepted;
        });
    }

    /// Records the payee's PUT, which takes effect item by item.
    pub(crate) fn apply_bulk_answered(
        &mut self,
        id: BulkId,
        answer: BulkAnswer,
        results: BTreeMap<u32, ItemResult>,
    ) {
        self.bulks.change(id, |entry| {
            assert!(entry.bulk.state == BulkState::Accepted, "bulk transfer {id} is answered twice");
            let is_open = |place: &u32| {
                entry.bulk.items.get(*place as usize).is_some_and(|item| item.state == ItemState::Accepted)
            };
            assert!(
                results.keys().all(is_open),
                "bulk transfer {id} is answered for items that are not reserved"
            );
            entry.bulk.state = BulkState::Processing;
            entry.bulk.answer = Some(answer);
            entry.bulk.results = results;
        });
    }

    /// Ends a bulk transfer that has nothing left to decide.
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

    /// Passes the end of a transfer to the bulk transfer that contains it.
    pub(crate) fn note_end_of_item(&mut self, transfer: TransferId) {
        let ended = self.bulks.holding(transfer).map(|(bulk, place)| (bulk.id, place));
        let Some(((id, place), transfer)) = ended.zip(self.transfers.get(transfer)) else { return };
        let mut is_committed = false;
        self.bulks.change(id, |entry| {
            let was_asked = entry.bulk.state != BulkState::Received;
            let item = &mut entry.bulk.items[place as usize];
            assert!(item.state == ItemState::Accepted, "item {place} of bulk transfer {id} ends twice");
            item.state = match &transfer.state {
                TransferState::Committed(end) => {
                    is_committed = true;
                    let extensions = transfer.extensions.clone();
                    ItemState::Committed { fulfilment: end.fulfilment, extensions }
                }
                TransferState::Aborted(end) if was_asked => ItemState::Aborted(end.cause.clone()),
                TransferState::Aborted(end) => ItemState::Refused(end.cause.clone()),
                TransferState::Reserved => unreachable!("a transfer ends committed or aborted"),
            };
            entry.open -= 1;
            entry.bulk.results.remove(&place);
        });
        self.bulks.totals.items_committed += u64::from(is_committed);
        self.bulks.release(transfer.id);
    }
}
