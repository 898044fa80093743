//! Bulk transfers in the auditor's books: the outcome of each item, whether it agrees with the payee's answer, and
//! whether each party is notified of exactly that outcome, once.

use std::ops::Range;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use upesi_ledger::{
    AbortKind, Bulk, BulkRequest, BulkView, Callback, CallbackContent, Cause, Event, ItemOutcome, ItemState,
    Ledger, ParticipantId, PublicBulkState, Refusal, ResourceKind, Transfer,
};
use upesi_types::{BulkId, Timestamp, TransferId};

use super::{Books, Entry, RecordHead, TransferStage};
use crate::auditor::outside::{SentAnswer, SentBulk, money_of};
use crate::auditor::{Findings, ObservedMessages};
use crate::message::{PutContent, Spec};

/// Age of an answer, at the time of its record, that the hub certainly accepts, in milliseconds. The hub's clock may be
/// behind the payee's at the request, and the record follows a little later.
const COMPLETED_AGE_MS: Range<i64> = 5_000..300_000;
/// Minimum number of items of a bulk transfer that takes several slices.
const SLICE_ITEMS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Refused,
    Reserved,
    Committed([u8; 32]),
    Aborted,
}

/// A bulk transfer that was accepted, or rejected as a whole.
#[derive(Clone, Debug)]
pub(super) struct BulkEntry {
    sent: Arc<SentBulk>,
    payer: u32,
    payee: u32,
    stages: Vec<Stage>,
    was_asked: bool,
    answer: Option<Arc<SentAnswer>>,
    /// Whether the hub rejected the answer because of its time.
    is_mistimed: bool,
    /// Sequence number of the record that ended it; 0 while it is live.
    ended_seq: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BulkCounts {
    pub(crate) completed: u64,
    pub(crate) rejected: u64,
    pub(crate) in_part: u64,
    pub(crate) in_slices: u64,
    pub(crate) items_committed: u64,
    pub(crate) items_expired: u64,
}

impl BulkEntry {
    fn items(&self) -> impl Iterator<Item = (&Spec, Stage)> {
        self.sent.spec.items.iter().zip(self.stages.iter().copied())
    }

    fn has(&self, is_it: impl Fn(Stage) -> bool) -> bool {
        self.stages.iter().any(|stage| is_it(*stage))
    }

    fn has_committed(&self) -> bool {
        self.has(|stage| matches!(stage, Stage::Committed(_)))
    }

    /// Whether the message to the payee contains the reserved items and no others.
    fn is_request(&self, request: &BulkRequest) -> bool {
        let money = |item: &upesi_ledger::AskedItem| {
            let amount = item.amount.as_ref().ok().map(|amount| i128::from(amount.units()));
            Some((amount?, super::currency_of(item.currency)))
        };
        let reserved = self.items().filter(|(_, stage)| *stage == Stage::Reserved);
        let expected = reserved.map(|(item, _)| (item.id, Some(money_of(item))));
        request.items.iter().map(|(id, item)| (*id, money(item))).eq(expected)
    }

    /// Whether the final message to a party contains the outcome of each item that the party knows.
    fn is_end(&self, reader: u32, view: &BulkView, time: Timestamp) -> bool {
        let known = self.items().filter(|(_, stage)| reader == self.payer || *stage != Stage::Refused);
        let known: Vec<_> = known.collect();
        let is_told = |((item, stage), (id, told)): (&(&Spec, Stage), &(TransferId, ItemOutcome))| {
            let is_outcome = match (stage, told) {
                (Stage::Committed(mine), ItemOutcome::Fulfilled { fulfilment, .. }) => mine == fulfilment,
                (Stage::Refused | Stage::Aborted, ItemOutcome::Failed(_)) => true,
                _ => false,
            };
            item.id == *id && is_outcome
        };
        let is_completed = view.state == PublicBulkState::Completed;
        let is_final = is_completed || view.state == PublicBulkState::Rejected;
        is_final
            && is_completed == self.has_committed()
            && view.completed_at == Some(time)
            && known.len() == view.items.len()
            && known.iter().zip(&view.items).all(is_told)
    }
}

fn about(callbacks: &[Callback], id: BulkId) -> Vec<(u32, &CallbackContent)> {
    let about = callbacks.iter().filter(|callback| {
        callback.subject.resource == ResourceKind::Bulk && callback.subject.id.id() == Some(id.id())
    });
    about.map(|callback| (callback.target.number(), &callback.content)).collect()
}

/// An item of a bulk transfer, as its payer sent it.
#[derive(Clone, Debug)]
pub(super) struct SentItem {
    pub(super) bulk: Arc<SentBulk>,
    /// Index of the item.
    pub(super) place: usize,
}

impl SentItem {
    pub(super) fn item(&self) -> &Spec {
        &self.bulk.spec.items[self.place]
    }
}

/// The end of an item: its fulfilment, or the kind of its abort.
#[derive(Clone, Copy)]
pub(super) enum ItemEnd<'a> {
    Committed(&'a [u8; 32]),
    Aborted(AbortKind),
}

impl Books {
    pub(in crate::auditor) const fn bulks(&self) -> BulkCounts {
        self.bulk_counts
    }

    pub(in crate::auditor) fn live_bulks(&self) -> usize {
        self.rolls.values().filter(|roll| roll.ended_seq == 0).count()
    }

    pub(in crate::auditor) fn knows_bulk(&self, id: TransferId) -> bool {
        self.rolls.contains_key(&id.to_bytes()) || self.has_left_bulk(id)
    }

    pub(in crate::auditor) fn has_left_bulk(&self, id: TransferId) -> bool {
        self.left_rolls.contains(&id.to_bytes())
    }

    pub(in crate::auditor) fn is_waiting_for_answer(&self, id: TransferId, payee: usize) -> bool {
        let roll = self.rolls.get(&id.to_bytes()).filter(|roll| roll.ended_seq == 0);
        roll.is_some_and(|roll| {
            let is_in_time = self.last_time.is_none_or(|last| last < roll.sent.spec.expires_at);
            let waits = roll.was_asked && roll.answer.is_none() && is_in_time;
            waits && self.number_of(roll.payee) == Some(payee)
        })
    }

    /// Whether a live bulk transfer contains an undecided item with this transfer's id.
    pub(in crate::auditor) fn is_claimed(&self, id: TransferId) -> bool {
        let mut live = self.rolls.values().filter(|roll| roll.ended_seq == 0);
        live.any(|roll| roll.items().any(|(item, stage)| item.id == id && stage == Stage::Waiting))
    }

    pub(super) fn bulks_have_expired(&self, to_seq: u64) -> bool {
        let mut ended = self.rolls.values().filter(|roll| (1..=to_seq).contains(&roll.ended_seq));
        ended.all(|roll| self.last_time.is_some_and(|last| roll.sent.spec.expires_at < last))
    }

    pub(super) fn bulks_removed(&mut self, to_seq: u64) {
        let left = &mut self.left_rolls;
        self.rolls.retain(|key, roll| {
            let stays = roll.ended_seq == 0 || roll.ended_seq > to_seq;
            if !stays {
                left.insert(*key);
            }
            stays
        });
    }

    /// The item that a record decides, as its payer sent it.
    pub(super) fn item_decided_by(&self, events: &[Event]) -> Option<SentItem> {
        let (id, place) = events.iter().find_map(|event| match event {
            Event::BulkItemDecided { id, place, .. } => Some((*id, *place as usize)),
            _ => None,
        })?;
        let roll = self.rolls.get(&id.id().to_bytes())?;
        (place < roll.stages.len()).then(|| SentItem { bulk: Arc::clone(&roll.sent), place })
    }

    /// Whether the reservation for an item is what its payer requested.
    pub(super) fn is_item_as_sent(&self, sent: &SentItem, transfer: &Transfer, entry: &Entry) -> bool {
        let (spec, item) = (&sent.bulk.spec, sent.item());
        item.id == transfer.id
            && Some(spec.payer) == self.number_of(entry.payer)
            && Some(spec.payee) == self.number_of(entry.payee)
            && money_of(item) == (entry.amount, entry.currency)
            && Sha256::digest(item.preimage())[..] == entry.condition
            && entry.expires_at == spec.expires_at
    }

    pub(super) fn enter_bulk(
        &mut self,
        head: RecordHead<'_>,
        event: &Event,
        outside: &ObservedMessages,
        findings: &mut Findings,
    ) {
        let RecordHead { seq, callbacks, .. } = head;
        let (id, fault) = match event {
            Event::BulkReceived(bulk) => (bulk.id, self.bulk_received(seq, bulk, callbacks, outside)),
            Event::BulkItemDecided { id, place, refused } => {
                (*id, self.item_decided(seq, *id, *place as usize, refused.is_some()))
            }
            Event::BulkAccepted { id } => (*id, self.bulk_accepted(*id, callbacks)),
            Event::BulkAnswered { id, answer, .. } => {
                let time_faults = [Refusal::CompletedInFuture, Refusal::CompletedLongAgo].map(Cause::Hub);
                let is_mistimed = answer.cause.as_ref().is_some_and(|cause| time_faults.contains(cause));
                (*id, self.bulk_answered(head, *id, &answer.fingerprint, is_mistimed, outside))
            }
            Event::BulkEnded { id, .. } => (*id, self.bulk_ended(head, *id)),
            _ => return,
        };
        if let Err(fault) = fault {
            findings.add(format!("record {seq}: bulk transfer {id} {fault}"));
        }
    }

    fn bulk_received(
        &mut self,
        seq: u64,
        bulk: &Bulk,
        callbacks: &[Callback],
        outside: &ObservedMessages,
    ) -> Result<(), &'static str> {
        let sent = outside.bulk(bulk.id.id(), &bulk.prepare_fingerprint);
        let sent = Arc::clone(sent.ok_or("is received, but no DFSP sent it (I3)")?);
        let number = |party: Option<ParticipantId>| party.map_or(0, |party| party.number());
        let (payer, payee) = (number(bulk.payer), number(bulk.payee));
        let mut roll = BulkEntry {
            sent: Arc::clone(&sent),
            payer,
            payee,
            stages: Vec::new(),
            was_asked: false,
            answer: None,
            is_mistimed: false,
            ended_seq: 0,
        };
        let told = about(callbacks, bulk.id);
        if !bulk.is_live() {
            roll.ended_seq = seq;
            if self.rolls.insert(bulk.id.id().to_bytes(), roll).is_some() {
                return Err("is received twice (I3)");
            }
            return match told[..] {
                [(_, CallbackContent::Error(_))] => Ok(()),
                _ => Err("is rejected, but its sender is not notified exactly once (I6)"),
            };
        }
        let parties = (self.number_of(payer), self.number_of(payee));
        let is_sender = self.source == Some(sent.source) && sent.source == sent.spec.payer;
        let is_as_sent = parties == (Some(sent.spec.payer), Some(sent.spec.payee))
            && bulk.expires_at == sent.spec.expires_at
            && bulk.items.iter().map(|item| item.transfer).eq(sent.spec.items.iter().map(|item| item.id));
        for item in &bulk.items {
            let is_known = self.knows(item.transfer) || self.is_claimed(item.transfer);
            roll.stages.push(match item.state {
                ItemState::Waiting if !is_known => Stage::Waiting,
                ItemState::Refused(_) if is_known || self.has_left(item.transfer) => Stage::Refused,
                _ => {
                    return Err(
                        "uses an id that was used before, or is rejected although its id was not (I3)",
                    );
                }
            });
        }
        self.bulk_counts.in_slices += u64::from(roll.stages.len() > SLICE_ITEMS);
        let is_new = self.rolls.insert(bulk.id.id().to_bytes(), roll).is_none();
        match (is_sender && is_as_sent && is_new, &told[..]) {
            (true, []) => Ok(()),
            (true, _) => Err("is accepted, but a party is already notified (I6)"),
            (false, _) => Err("differs from the payer's request, or is received twice (I3)"),
        }
    }

    fn live(&mut self, id: BulkId) -> Result<&mut BulkEntry, &'static str> {
        let roll = self.rolls.get_mut(&id.id().to_bytes()).filter(|roll| roll.ended_seq == 0);
        roll.ok_or("changes, but it is not live (I5)")
    }

    fn item_decided(
        &mut self,
        seq: u64,
        id: BulkId,
        place: usize,
        is_refused: bool,
    ) -> Result<(), &'static str> {
        let roll = self.live(id)?;
        if roll.stages.iter().position(|stage| *stage == Stage::Waiting) != Some(place) {
            return Err("has an item that is decided out of order");
        }
        roll.stages[place] = if is_refused { Stage::Refused } else { Stage::Reserved };
        let item = roll.sent.spec.items[place].id;
        let entry = self.transfers.get(&item.to_bytes()).filter(|entry| entry.prepare_seq == seq);
        let is_reserved = entry.is_some_and(|entry| entry.standing == TransferStage::Reserved);
        if is_reserved == is_refused {
            return Err("has an item with another outcome than its transfer");
        }
        if is_reserved {
            self.items.insert(item.to_bytes(), id.id());
        }
        Ok(())
    }

    fn bulk_accepted(&mut self, id: BulkId, callbacks: &[Callback]) -> Result<(), &'static str> {
        let roll = self.live(id)?;
        if std::mem::replace(&mut roll.was_asked, true) || roll.has(|stage| stage == Stage::Waiting) {
            return Err("is accepted twice, or before its items are decided (I5)");
        }
        match &about(callbacks, id)[..] {
            [(target, CallbackContent::BulkRequest(request))]
                if *target == roll.payee && roll.is_request(request) =>
            {
                Ok(())
            }
            _ => Err("is accepted, but its payee does not receive exactly the reserved items once (I6)"),
        }
    }

    fn bulk_answered(
        &mut self,
        head: RecordHead<'_>,
        id: BulkId,
        fingerprint: &[u8; 16],
        is_mistimed: bool,
        outside: &ObservedMessages,
    ) -> Result<(), &'static str> {
        let RecordHead { time, callbacks, .. } = head;
        let payee = self.live(id)?.payee;
        let payee = self.number_of(payee).ok_or("has no payee")?;
        let answer = outside.bulk_answer(id.id(), payee, fingerprint);
        let answer = answer.ok_or("is answered, but its payee never sent this answer")?;
        let roll = self.live(id)?;
        if !roll.was_asked || roll.answer.is_some() || time >= roll.sent.spec.expires_at {
            return Err("is answered twice, too early or too late (I5)");
        }
        let age_ms = time.ms_since(answer.at);
        if is_mistimed && (answer.answer.error.is_some() || COMPLETED_AGE_MS.contains(&age_ms)) {
            return Err("is rejected for the time of its answer, which is correct");
        }
        roll.is_mistimed = is_mistimed;
        roll.answer = Some(Arc::clone(answer));
        let is_error = |content: &CallbackContent| {
            matches!(content, CallbackContent::ForwardAbort | CallbackContent::Error(_))
        };
        let told = about(callbacks, id)
            .iter()
            .filter(|(to, content)| *to == roll.payer && is_error(content))
            .count();
        match told == usize::from(answer.answer.error.is_some()) {
            true => Ok(()),
            false => Err("is answered with an error, but its payer is not notified exactly once (I6)"),
        }
    }

    fn bulk_ended(&mut self, head: RecordHead<'_>, id: BulkId) -> Result<(), &'static str> {
        let RecordHead { seq, time, callbacks } = head;
        let roll = self.live(id)?;
        roll.ended_seq = seq;
        if roll.has(|stage| matches!(stage, Stage::Waiting | Stage::Reserved)) {
            return Err("ends with an open item (I5)");
        }
        let is_completed = roll.has_committed();
        let is_whole = !roll.has(|stage| !matches!(stage, Stage::Committed(_)));
        let has_been_told = roll.answer.as_ref().is_some_and(|answer| answer.answer.error.is_some());
        let told = about(callbacks, id);
        for (reader, is_due) in [(roll.payer, true), (roll.payee, roll.was_asked)] {
            let to_it: Vec<_> = told.iter().filter(|(target, _)| *target == reader).collect();
            match to_it[..] {
                [] if !is_due || has_been_told => {}
                [(_, CallbackContent::BulkState(view))]
                    if is_due && !has_been_told && roll.is_end(reader, view, time) => {}
                _ => {
                    return Err(
                        "ends, but a party does not receive the outcomes of its items exactly once (I6)",
                    );
                }
            }
        }
        let counts = &mut self.bulk_counts;
        counts.completed += u64::from(is_completed);
        counts.rejected += u64::from(!is_completed);
        counts.in_part += u64::from(is_completed && !is_whole);
        Ok(())
    }

    /// Whether a transfer is an item of a bulk transfer that has not ended.
    pub(super) fn is_item(&self, id: TransferId) -> bool {
        self.items.contains_key(&id.to_bytes())
    }

    /// Checks that the end of an item agrees with its payee's answer, or that it expired without an answer.
    pub(super) fn item_ends(
        &mut self,
        id: TransferId,
        end: ItemEnd<'_>,
        callbacks: &[Callback],
        findings: &mut Findings,
    ) {
        let (fulfilment, kind) = match end {
            ItemEnd::Committed(fulfilment) => (Some(fulfilment), None),
            ItemEnd::Aborted(kind) => (None, Some(kind)),
        };
        let Some(bulk) = self.items.remove(&id.to_bytes()) else { return };
        let Some(roll) = self.rolls.get_mut(&bulk.to_bytes()) else { return };
        let said = roll.answer.as_ref().and_then(|answer| answer.says(id));
        let is_rejected = roll.is_mistimed && (fulfilment, kind) == (None, Some(AbortKind::InvalidFulfil));
        let is_justified = is_rejected
            || matches!(
                (fulfilment, kind, said),
                (Some(_), None, Some((PutContent::Fulfil { .. }, true)))
                    | (None, Some(AbortKind::Expired), None)
                    | (None, Some(AbortKind::ByPayee), Some((PutContent::Abort(_), true)))
                    | (None, Some(AbortKind::InvalidFulfil), Some((PutContent::Fulfil { .. }, false)))
                    | (None, Some(AbortKind::InvalidAbort), Some((PutContent::Abort(_), false)))
            );
        if !is_justified {
            findings.add(format!(
                "{id} ends ({kind:?}), but the payee of bulk transfer {bulk} answered {said:?} for it"
            ));
        }
        let place = roll.sent.spec.items.iter().position(|item| item.id == id).unwrap_or_default();
        roll.stages[place] = match fulfilment {
            Some(fulfilment) => Stage::Committed(*fulfilment),
            None if roll.was_asked => Stage::Aborted,
            None => Stage::Refused,
        };
        self.bulk_counts.items_committed += u64::from(fulfilment.is_some());
        self.bulk_counts.items_expired += u64::from(kind == Some(AbortKind::Expired));
        if !callbacks.is_empty()
            && callbacks.iter().any(|callback| callback.subject.transfer_id() == Some(id))
        {
            findings.add(format!("I6: item {id} ends, and has a callback of its own"));
        }
    }

    pub(super) fn compare_bulks(&self, ledger: &Ledger, findings: &mut Findings) {
        let live = self.rolls.iter().filter(|(_, roll)| roll.ended_seq == 0);
        let mut theirs: Vec<_> = ledger.live_bulks().map(|bulk| bulk.id.id().to_bytes()).collect();
        theirs.sort_unstable();
        if !theirs.iter().eq(live.map(|(id, _)| id)) {
            findings.add(format!("I5: {} bulk transfers are live, not {}", theirs.len(), self.live_bulks()));
        }
    }
}
