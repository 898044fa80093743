//! The auditor's books of bulk transfers: the requested items, their outcomes, and whether the parties receive exactly
//! these.

use std::collections::{BTreeMap, HashMap};

use upesi_ledger::{
    Bulk, BulkRequest, BulkState, BulkView, CallbackContent, Event, ItemOutcome, ItemResult, ItemState,
    Ledger, ParticipantId, PublicBulkState, Transfer, TransferState,
};
use upesi_types::{BulkId, Timestamp, TransferId};

use super::entry::CheckResult;
use super::judge::RecordContext;
use super::scheme::SchemeBooks;

/// The bulk transfers that are not final.
#[derive(Debug, Default)]
pub(super) struct BulkBooks {
    live: HashMap<BulkId, LiveBulk>,
    /// The items whose transfers are in flight.
    items: HashMap<TransferId, (BulkId, usize)>,
}

#[derive(Debug)]
struct LiveBulk {
    payer: ParticipantId,
    payee: ParticipantId,
    expires_at: Timestamp,
    items: Vec<Item>,
    was_asked: bool,
    /// Absent until the payee has answered; results that have taken effect are removed.
    results: Option<BTreeMap<u32, ItemResult>>,
    is_refused: bool,
}

/// An item, and its request if that is known.
#[derive(Debug)]
struct Item {
    transfer: TransferId,
    units: Option<i128>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Refused,
    Accepted,
    Committed([u8; 32]),
    Aborted,
}

impl LiveBulk {
    fn of(bulk: &Bulk) -> Option<Self> {
        let item = |item: &upesi_ledger::BulkItem| {
            let amount = item.asked.as_ref().and_then(|asked| asked.amount.as_ref().ok());
            Item {
                transfer: item.transfer,
                units: amount.map(|amount| i128::from(amount.units())),
                state: match &item.state {
                    ItemState::Waiting => State::Waiting,
                    ItemState::Refused(_) => State::Refused,
                    ItemState::Accepted => State::Accepted,
                    ItemState::Committed { fulfilment, .. } => State::Committed(*fulfilment),
                    ItemState::Aborted(_) => State::Aborted,
                },
            }
        };
        Some(Self {
            payer: bulk.payer?,
            payee: bulk.payee?,
            expires_at: bulk.expires_at,
            items: bulk.items.iter().map(item).collect(),
            was_asked: bulk.state != BulkState::Received,
            results: (bulk.state == BulkState::Processing).then(|| bulk.results.clone()),
            is_refused: bulk.answer.as_ref().is_some_and(|answer| answer.is_error),
        })
    }

    fn has(&self, is_sought: impl Fn(State) -> bool) -> bool {
        self.items.iter().any(|item| is_sought(item.state))
    }

    /// Whether a list of outcomes is correct for a party at the end.
    fn is_told(&self, reader: ParticipantId, told: &[(TransferId, ItemOutcome)]) -> bool {
        let is_known = |item: &&Item| reader == self.payer || item.state != State::Refused;
        let known: Vec<_> = self.items.iter().filter(is_known).collect();
        let is_right = |(item, (id, outcome)): (&&Item, &(TransferId, ItemOutcome))| {
            let is_outcome = match (item.state, outcome) {
                (State::Committed(mine), ItemOutcome::Fulfilled { fulfilment, .. }) => mine == *fulfilment,
                (State::Refused | State::Aborted, ItemOutcome::Failed(_)) => true,
                _ => false,
            };
            item.transfer == *id && is_outcome
        };
        known.len() == told.len() && known.iter().zip(told).all(is_right)
    }
}

impl BulkBooks {
    /// Takes the live bulk transfers of a trusted state.
    pub(super) fn of(ledger: &Ledger) -> Self {
        let mut books = Self::default();
        for bulk in ledger.live_bulks() {
            if let Some(live) = LiveBulk::of(bulk) {
                books.insert(bulk.id, live);
            }
        }
        books
    }

    fn insert(&mut self, id: BulkId, live: LiveBulk) {
        for (index, item) in live.items.iter().enumerate() {
            if item.state == State::Accepted {
                self.items.insert(item.transfer, (id, index));
            }
        }
        self.live.insert(id, live);
    }

    pub(super) fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether a transfer in flight is an item of a bulk transfer.
    pub(super) fn has_item(&self, transfer: TransferId) -> bool {
        self.items.contains_key(&transfer)
    }

    /// The payee of a live bulk transfer.
    pub(super) fn payee(&self, id: BulkId) -> Option<ParticipantId> {
        self.live.get(&id).map(|live| live.payee)
    }

    fn get_mut(&mut self, id: BulkId) -> Result<&mut LiveBulk, String> {
        self.live.get_mut(&id).ok_or_else(|| format!("bulk transfer {id} changes, but is not in flight"))
    }

    /// Records the end of a transfer, if it is an item of a bulk transfer; returns a fault, if there is one.
    pub(super) fn note_end(
        &mut self,
        transfer: TransferId,
        fulfilment: Option<&[u8; 32]>,
        is_expiry: bool,
    ) -> Option<Result<(), &'static str>> {
        let (id, index) = self.items.remove(&transfer)?;
        let live = self.live.get_mut(&id)?;
        let result = live.results.as_mut().and_then(|results| results.remove(&(index as u32)));
        let was_asked = live.was_asked;
        live.items[index].state = match fulfilment {
            Some(fulfilment) => State::Committed(*fulfilment),
            None if was_asked => State::Aborted,
            None => State::Refused,
        };
        Some(match (fulfilment, &result) {
            (Some(mine), Some(ItemResult::Fulfil { fulfilment, .. })) if mine == fulfilment => Ok(()),
            (Some(_), _) => Err("is committed without a committing result of its payee"),
            (None, Some(_)) if is_expiry => Err("expires although its payee has answered for it"),
            (None, None) if !is_expiry => Err("is aborted without a result of its payee"),
            _ => Ok(()),
        })
    }

    /// Enters an event about a bulk transfer; ignores others.
    pub(super) fn enter(
        &mut self,
        place: RecordContext<'_>,
        event: &Event,
        scheme: &SchemeBooks,
        findings: &mut Vec<String>,
    ) -> CheckResult {
        let mut faults = Vec::new();
        let id = match event {
            Event::BulkReceived(bulk) => {
                self.received(place, bulk, scheme, &mut faults)?;
                bulk.id
            }
            Event::BulkItemDecided { id, place: item, refused } => {
                self.item_decided(place, *id, *item, refused.is_some(), &mut faults)?;
                *id
            }
            Event::BulkAccepted { id } => {
                bulk_accepted(place, *id, self.get_mut(*id)?, &mut faults)?;
                *id
            }
            Event::BulkAnswered { id, answer, results, .. } => {
                let live = self.get_mut(*id)?;
                live.is_refused = answer.is_error;
                bulk_answered(place, *id, live, results, &mut faults)?;
                *id
            }
            Event::BulkEnded { id, .. } => {
                let live = self.live.remove(id);
                let live = live.ok_or_else(|| format!("bulk transfer {id} ends, but is not in flight"))?;
                bulk_ended(place, *id, &live, &mut faults)?;
                *id
            }
            _ => return Ok(()),
        };
        findings.extend(faults.iter().map(|text| format!("record {}: bulk transfer {id} {text}", place.seq)));
        Ok(())
    }

    fn received(
        &mut self,
        place: RecordContext<'_>,
        bulk: &Bulk,
        scheme: &SchemeBooks,
        faults: &mut Vec<&'static str>,
    ) -> CheckResult {
        if self.live.contains_key(&bulk.id) {
            return Err(format!("bulk transfer {} is received again while it is in flight", bulk.id));
        }
        if bulk.prepare_seq != place.seq {
            faults.push("claims to be of another record");
        }
        if !bulk.is_live() {
            if about(place, bulk.id, |content| matches!(content, CallbackContent::Error(_))).count() != 1 {
                faults.push("is rejected, but its sender is not notified exactly once");
            }
            return Ok(());
        }
        let live = LiveBulk::of(bulk)
            .ok_or_else(|| format!("bulk transfer {} is received without parties", bulk.id))?;
        if live.payer == live.payee {
            faults.push("is from a DFSP to itself");
        }
        if bulk.expires_at < place.time {
            faults.push("is accepted although it expired");
        }
        // The items' checks include whether a proxy is active.
        if ![live.payer, live.payee].iter().all(|party| scheme.is_active_itself(*party)) {
            faults.push("is accepted although a party is not active");
        }
        self.insert(bulk.id, live);
        Ok(())
    }

    /// Checks that the reserved items match the request, in its order.
    fn item_decided(
        &mut self,
        place: RecordContext<'_>,
        id: BulkId,
        item: u32,
        is_refused: bool,
        faults: &mut Vec<&'static str>,
    ) -> CheckResult {
        let live = self.get_mut(id)?;
        let next = live.items.iter().position(|item| item.state == State::Waiting);
        let (Some(next), true) = (next, next == Some(item as usize)) else {
            return Err(format!("item {item} of bulk transfer {id} is decided out of order"));
        };
        let (payer, payee, expires_at) = (live.payer, live.payee, live.expires_at);
        let asked = &mut live.items[next];
        let prepared = place.events.iter().find_map(|event| match event {
            Event::TransferPrepared(transfer) if transfer.id == asked.transfer => Some(transfer),
            _ => None,
        });
        let is_as_asked = |transfer: &Transfer| {
            (transfer.payer, transfer.payee) == (Some(payer), Some(payee))
                && Some(i128::from(transfer.amount.units())) == asked.units
                && transfer.expires_at == expires_at
        };
        let is_reserved = prepared.is_some_and(|transfer| transfer.state == TransferState::Reserved);
        if is_reserved == is_refused {
            faults.push("has an item that contradicts its transfer");
        } else if is_reserved && !prepared.is_some_and(is_as_asked) {
            faults.push("has an item whose reservation differs from the request");
        }
        asked.state = if is_refused { State::Refused } else { State::Accepted };
        let transfer = asked.transfer;
        if !is_refused {
            self.items.insert(transfer, (id, next));
        }
        Ok(())
    }
}

/// Checks that the payee receives one request, with exactly the reserved items.
fn bulk_accepted(
    place: RecordContext<'_>,
    id: BulkId,
    live: &mut LiveBulk,
    faults: &mut Vec<&'static str>,
) -> CheckResult {
    if std::mem::replace(&mut live.was_asked, true) {
        return Err(format!("bulk transfer {id} is accepted twice"));
    }
    if live.has(|state| state == State::Waiting) {
        return Err(format!("bulk transfer {id} is accepted before all its items are decided"));
    }
    let open = live.items.iter().filter(|item| item.state == State::Accepted);
    let expected: Vec<_> = open.map(|item| (item.transfer, item.units)).collect();
    let is_right = |request: &BulkRequest| {
        let units = |item: &upesi_ledger::AskedItem| {
            item.amount.as_ref().ok().map(|amount| i128::from(amount.units()))
        };
        let asked = request.items.iter().map(|(transfer, item)| (*transfer, units(item)));
        asked.eq(expected.iter().copied())
    };
    let told = about(place, id, |content| matches!(content, CallbackContent::BulkRequest(_)));
    let told: Vec<_> = told.collect();
    match &told[..] {
        [(target, CallbackContent::BulkRequest(request))] if *target == live.payee && is_right(request) => {}
        _ => faults.push("is accepted, but its payee does not receive the reserved items exactly once"),
    }
    Ok(())
}

fn bulk_answered(
    place: RecordContext<'_>,
    id: BulkId,
    live: &mut LiveBulk,
    results: &BTreeMap<u32, ItemResult>,
    faults: &mut Vec<&'static str>,
) -> CheckResult {
    if !live.was_asked || live.results.is_some() {
        return Err(format!("bulk transfer {id} is answered, but does not wait for an answer"));
    }
    if live.expires_at <= place.time {
        faults.push("is answered although it expired");
    }
    let is_open =
        |index: &u32| live.items.get(*index as usize).is_some_and(|item| item.state == State::Accepted);
    if !results.keys().all(is_open) {
        return Err(format!("bulk transfer {id} is answered for items that are not reserved"));
    }
    let is_refusal = |content: &CallbackContent| {
        matches!(content, CallbackContent::ForwardAbort | CallbackContent::Error(_))
    };
    let told = about(place, id, is_refusal).filter(|(target, _)| *target == live.payer).count();
    if told != usize::from(live.is_refused) {
        faults.push("is answered, but its payer is not notified of an error exactly once");
    }
    live.results = Some(results.clone());
    Ok(())
}

/// Checks that no item is open, and that the parties receive the outcomes: the payer of all items, the payee of the
/// items that it was sent.
fn bulk_ended(
    place: RecordContext<'_>,
    id: BulkId,
    live: &LiveBulk,
    faults: &mut Vec<&'static str>,
) -> CheckResult {
    if live.has(|state| matches!(state, State::Waiting | State::Accepted)) {
        return Err(format!("bulk transfer {id} ends with items that are open"));
    }
    let is_completed = live.has(|state| matches!(state, State::Committed(_)));
    let state = if is_completed { PublicBulkState::Completed } else { PublicBulkState::Rejected };
    let is_right = |reader: ParticipantId, view: &BulkView| {
        view.state == state && view.completed_at == Some(place.time) && live.is_told(reader, &view.items)
    };
    for reader in [live.payer, live.payee] {
        let is_due = !live.is_refused && (reader == live.payer || live.was_asked);
        let told: Vec<_> = about(place, id, |_| true).filter(|(target, _)| *target == reader).collect();
        let is_told = match &told[..] {
            [] => !is_due,
            [(_, CallbackContent::BulkState(view))] => is_due && is_right(reader, view),
            _ => false,
        };
        if !is_told {
            faults.push("ends, but a party is not notified of the results exactly once");
        }
    }
    Ok(())
}

/// The callbacks about a bulk transfer, with their targets.
fn about<'a>(
    place: RecordContext<'a>,
    id: BulkId,
    is_sought: impl Fn(&CallbackContent) -> bool + 'a,
) -> impl Iterator<Item = (ParticipantId, &'a CallbackContent)> + 'a {
    let about = place.callbacks.iter().filter(move |callback| {
        callback.subject.resource == upesi_ledger::ResourceKind::Bulk
            && callback.subject.id.id() == Some(id.id())
            && is_sought(&callback.content)
    });
    about.map(|callback| (callback.target, &callback.content))
}
