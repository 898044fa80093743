//! The steps of bulk transfers: reserve, commit or abort one item, send the request to the payee, or end the bulk
//! transfer.

use alloc::boxed::Box;

use sha2::{Digest, Sha256};
use upesi_types::{Present, Timestamp};

use crate::base::ids::ParticipantId;
use crate::base::refusal::{AbortKind, Cause, Refusal};
use crate::core::callback::CallbackContent;
use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::money::bulk::{
    Bulk, BulkItem, BulkRequest, BulkState, BulkView, ItemResult, ItemState, PublicBulkState,
};
use crate::money::fx_transfer::FxTransferSide;
use crate::money::transfer::Transfer;
use crate::rules::money::fulfil::Commit;
use crate::rules::money::prepare::Prepare;
use crate::rules::money::put::{self, AbortReason};

/// Bytes that a step adds to a record, excluding texts from DFSPs.
const STEP_BYTES: usize = 2_048;
/// Bytes of an item in a message about a bulk transfer, excluding such texts: ids, a fulfilment, or an error with its
/// description.
const OUTCOME_BYTES: usize = 768;

impl Ledger {
    /// Approximate maximum of bytes that the next step adds to the journal; `None` if no bulk transfer has a step to
    /// take.
    pub fn next_bulk_step_bytes(&self) -> Option<usize> {
        let entry = self.bulks.due()?;
        let bulk = &entry.bulk;
        if let Some((_, item)) = entry.next_waiting() {
            return Some(STEP_BYTES + asked_bytes(item));
        }
        if let Some((_, result)) = bulk.results.first_key_value() {
            return Some(STEP_BYTES + result_bytes(result));
        }
        let message: usize = bulk.items.iter().map(item_bytes).sum();
        let extensions = bulk.answer.as_ref().and_then(|answer| answer.extensions.as_ref());
        let texts = [bulk.extensions.as_ref(), extensions].into_iter().flatten().map(|text| text.len());
        // The message is sent to both payer and payee.
        Some(STEP_BYTES + 2 * (message + texts.sum::<usize>()))
    }

    pub(crate) fn decide_bulk_step(&self, present: Present, out: &mut Decision) {
        let Some(entry) = self.bulks.due() else { return };
        let bulk = &entry.bulk;
        if let Some((place, item)) = entry.next_waiting() {
            return self.decide_item(bulk, place, item, present, out);
        }
        if let Some((place, result)) = bulk.results.first_key_value() {
            return self.apply_result(bulk, *place, result, present.at, out);
        }
        if entry.has_open() {
            self.ask_payee(bulk, out);
        } else {
            end_bulk(bulk, present.at, out);
        }
    }

    /// Reserves an item as an ordinary transfer, or rejects it.
    fn decide_item(&self, bulk: &Bulk, place: u32, item: &BulkItem, present: Present, out: &mut Decision) {
        let ((payer, payee), Some(asked)) = (parties(bulk), &item.asked) else {
            unreachable!("the payer's request for an item is retained until the payee receives it")
        };
        let (payer, payee) = (self.participant(payer), self.participant(payee));
        let refused =
            if self.fx_transfers.linked(item.transfer, FxTransferSide::Payer, Some(payer.id)).is_some() {
                Some(Cause::Hub(Refusal::BulkItemConverted))
            } else {
                let prepare = Prepare {
                    id: item.transfer,
                    source: payer.name,
                    destination: None,
                    payer: payer.name,
                    payee: payee.name,
                    amount: asked.amount.clone(),
                    currency: asked.currency,
                    condition: asked.condition,
                    expires_at: bulk.expires_at,
                    fingerprint: bulk.prepare_fingerprint,
                    extensions: asked.extensions.clone(),
                };
                self.reserve(&prepare, Some(payer), Some(payee), None, present, out).err()
            };
        out.events.push(Event::BulkItemDecided { id: bulk.id, place, refused });
    }

    /// Sends the reserved items to the payee, in the payer's order. The hub is the source of the message, because the
    /// hub creates its content.
    fn ask_payee(&self, bulk: &Bulk, out: &mut Decision) {
        let (payer, payee) = parties(bulk);
        let asked = |item: &BulkItem| match (&item.state, &item.asked) {
            (ItemState::Accepted, Some(asked)) => Some((item.transfer, (**asked).clone())),
            _ => None,
        };
        let request = BulkRequest {
            quote: bulk.quote,
            payer: self.participant(payer).name,
            payee: self.participant(payee).name,
            expires_at: bulk.expires_at,
            items: bulk.items.iter().filter_map(asked).collect(),
            extensions: bulk.extensions.clone(),
        };
        out.events.push(Event::BulkAccepted { id: bulk.id });
        out.notify_of_bulk(payee, bulk.id.id(), CallbackContent::BulkRequest(Box::new(request)));
    }

    /// Commits or aborts an item according to the payee's result.
    fn apply_result(&self, bulk: &Bulk, place: u32, result: &ItemResult, now: Timestamp, out: &mut Decision) {
        let item = &bulk.items[place as usize];
        let (Some(transfer), Some(answer)) = (self.transfer(item.transfer), &bulk.answer) else {
            unreachable!("an open item has a reserved transfer, and its bulk transfer is answered")
        };
        match result {
            ItemResult::Fulfil { fulfilment, extensions }
                if Sha256::digest(fulfilment).as_slice() == transfer.condition =>
            {
                let commit = Commit {
                    fulfilment: *fulfilment,
                    fingerprint: answer.fingerprint,
                    extensions: extensions.clone(),
                };
                self.record_commit(transfer, commit, now, out);
            }
            ItemResult::Fulfil { .. } => {
                abort_item(transfer, Refusal::FulfilmentInvalid.into(), bulk, now, out);
            }
            ItemResult::Abort(cause) => abort_item(transfer, cause.clone(), bulk, now, out),
        }
    }
}

fn abort_item(transfer: &Transfer, cause: Cause, bulk: &Bulk, now: Timestamp, out: &mut Decision) {
    let kind = match &cause {
        Cause::Payee { .. } => AbortKind::ByPayee,
        Cause::Hub(Refusal::ErrorCodeUndefined) => AbortKind::InvalidAbort,
        Cause::Hub(_) => AbortKind::InvalidFulfil,
    };
    let fingerprint = bulk.answer.as_ref().map(|answer| answer.fingerprint);
    put::end(transfer, AbortReason { kind, cause, operator_reason: None }, fingerprint, false, now, out);
}

/// Ends the bulk transfer and sends the outcomes of all items to both parties. The payer does not receive them if the
/// payee's error already informed it. The payee does not receive them if it never received the request.
fn end_bulk(bulk: &Bulk, now: Timestamp, out: &mut Decision) {
    let cause = bulk.answer.as_ref().and_then(|answer| answer.cause.clone());
    out.events.push(Event::BulkEnded { id: bulk.id, cause });
    if bulk.answer.as_ref().is_some_and(|answer| answer.is_error) {
        return;
    }
    let (payer, payee) = parties(bulk);
    let payee = (bulk.state != BulkState::Received).then_some(payee);
    let state = if bulk.has_committed() { PublicBulkState::Completed } else { PublicBulkState::Rejected };
    for reader in [Some(payer), payee].into_iter().flatten() {
        let view = BulkView { state, completed_at: Some(now), ..bulk.view(reader) };
        out.notify_of_bulk(reader, bulk.id.id(), CallbackContent::BulkState(Box::new(view)));
    }
}

fn parties(bulk: &Bulk) -> (ParticipantId, ParticipantId) {
    match (bulk.payer, bulk.payee) {
        (Some(payer), Some(payee)) => (payer, payee),
        _ => unreachable!("a live bulk transfer has both parties"),
    }
}

fn asked_bytes(item: &BulkItem) -> usize {
    item.asked.as_ref().map_or(0, |asked| asked.bytes())
}

fn result_bytes(result: &ItemResult) -> usize {
    match result {
        ItemResult::Fulfil { extensions, .. } => extensions.as_ref().map_or(0, |text| text.len()),
        ItemResult::Abort(_) => OUTCOME_BYTES,
    }
}

fn item_bytes(item: &BulkItem) -> usize {
    let extensions = match &item.state {
        ItemState::Committed { extensions, .. } => extensions.as_ref().map_or(0, |text| text.len()),
        _ => 0,
    };
    OUTCOME_BYTES + asked_bytes(item) + extensions
}
