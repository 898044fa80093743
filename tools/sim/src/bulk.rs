//! Bulk transfers: many transfers from one DFSP to another, requested and answered together. In the books each item is
//! a separate transfer.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::oneshot;
use upesi_http::{HeaderMap, Method, StatusCode};
use upesi_types::{ErrorCode, Money, TransferId};

use super::table::{Bulk, BulkSide};
use crate::awaited::error_code;
use crate::books::{Delivery, IncomingEvent, IncomingState, OutgoingEvent, OutgoingState};
use crate::callback::{MODIFIED_REQUEST, Role};
use crate::counters::count;
use crate::ids::{fault_key, id, transfer_id};
use crate::message::{self, BulkText, Family};
use crate::money::{amount_of, currency_of};
use crate::originating::Bulking;
use crate::payee::{Plan, is_taken};
use crate::payer::{OriginateError, Originator, PendingTransfer, packet};
use crate::reply::{self, Draw};
use crate::scan;
use crate::settings::mix;
use crate::settling::{settle_incoming, settle_outgoing};
use crate::shared::SimulatorState;
use crate::table::{Finished, Incoming, Outgoing, TransferOutcome};

/// Maximum number of items of one bulk transfer (FSPIOP API v1.1 §6.10.3.1).
pub const BULK_ITEMS_MAX: usize = 1_000;

/// Separates the ids of bulk transfers and their items from other ids.
const BULKS: u64 = 0x6275_6c6b_0000;
const ITEMS: u64 = 0x6974_656d_7300;

impl Originator {
    /// Sets the number of items in each bulk transfer: 1 to [`BULK_ITEMS_MAX`].
    #[must_use]
    pub fn with_bulks(mut self, items: usize) -> Self {
        let moved = self.options.money();
        let terms = message::terms("transferAmount", moved, &packet(moved, 0));
        self.bulking = Some(Bulking { items: items.clamp(1, BULK_ITEMS_MAX), terms });
        self
    }

    /// Number of items in each bulk transfer; 0 without [`Originator::with_bulks`].
    pub fn bulk_items(&self) -> usize {
        self.bulking.as_ref().map_or(0, |bulking| bulking.items)
    }

    /// Sends bulk transfer `number` from one DFSP to another (by index) and waits for the 202. The bulk transfer is
    /// finished when its payer has the outcomes of all items, and committed if all of them are. Fails if the hub
    /// rejects or does not answer the POST. Panics without [`Originator::with_bulks`].
    pub async fn send_bulk(
        &self,
        number: u64,
        payer: usize,
        payee: usize,
    ) -> Result<PendingTransfer, OriginateError> {
        let Bulking { items, terms } = self.bulking.as_ref().expect("an originator of bulk transfers");
        let (payer_dfsp, payee_dfsp) = (&self.shared.dfsps[payer], &self.shared.dfsps[payee]);
        let (id, now) = (self.bulk_id(number), message::now());
        let items: Box<[TransferId]> =
            (0..*items as u64).map(|place| self.bulk_item_id(number, place)).collect();
        let (waiter, finished) = oneshot::channel();
        let bulk = Bulk { dfsp: payer as u32, items: items.clone(), waiter: Some(waiter) };
        if !self.shared.bulks.enter(BulkSide::Outgoing, id, bulk) {
            return Err(OriginateError::Repeated(number));
        }
        let moved = self.options.money();
        let mut body = BulkText::request(&id, &payer_dfsp.name, &payee_dfsp.name, self.expiration(now));
        for item in &items {
            self.shared.table.enter_outgoing(*item, Outgoing::new(payer as u32, moved));
            payer_dfsp.book().move_outgoing(moved, None, None, OutgoingState::Sent);
            body.item(item, terms, &self.shared.secret.condition(item));
        }
        let headers =
            self.headers(Family::BulkTransfers, number, payer_dfsp, Some(&payee_dfsp.name_value), now);
        let path = Family::BulkTransfers.as_str();
        let receiver = payee_dfsp.name.as_str();
        let sent = self.deliver(payer_dfsp, Method::POST, receiver, path, headers, body.end()).await;
        let event = match &sent {
            Ok(()) => Some(OutgoingEvent::Accepted),
            Err(OriginateError::Refused { .. }) => Some(OutgoingEvent::Refused),
            Err(_) => None,
        };
        for (item, event) in items.iter().filter_map(|item| Some((item, event?))) {
            settle_outgoing(&self.shared, item, event, None);
        }
        sent.map(|()| PendingTransfer { id, finished })
    }

    pub fn bulk_id(&self, number: u64) -> TransferId {
        transfer_id(mix(self.options.seed ^ BULKS), mix(self.options.nonce ^ BULKS), number)
    }

    /// The id of an item of a bulk transfer.
    pub fn bulk_item_id(&self, number: u64, place: u64) -> TransferId {
        let number = number.wrapping_mul(BULK_ITEMS_MAX as u64).wrapping_add(place);
        transfer_id(mix(self.options.seed ^ ITEMS), mix(self.options.nonce ^ ITEMS), number)
    }
}

/// The data of an item that a payee's books need.
struct Item<'body> {
    id: TransferId,
    received: Money,
    condition: &'body [u8],
    packet: &'body [u8],
}

fn item(value: &[u8]) -> Option<Item<'_>> {
    let money = scan::member(value, b"transferAmount")?;
    Some(Item {
        id: id(scan::member(value, b"transferId")?)?,
        received: Money { amount: amount_of(money)?, currency: currency_of(money)? },
        condition: scan::text(scan::member(value, b"condition")?)?,
        packet: scan::text(scan::member(value, b"ilpPacket")?)?,
    })
}

pub(crate) fn bulk_id(body: &[u8]) -> Option<TransferId> {
    id(scan::member(body, b"bulkTransferId")?)
}

/// Accepts a `POST /bulkTransfers` and starts to answer it.
pub(crate) fn take(
    shared: &Arc<SimulatorState>,
    payee: u32,
    headers: &HeaderMap,
    body: &Bytes,
) -> StatusCode {
    let dfsp = shared.dfsp(payee);
    let list = scan::member(body, b"individualTransfers").unwrap_or_default();
    let items: Option<Vec<_>> = scan::elements(list).map(item).collect();
    let (Some(id), Some(items)) = (bulk_id(body), items.filter(|items| !items.is_empty())) else {
        count(&dfsp.counters.unreadable);
        return StatusCode::BAD_REQUEST;
    };
    let bulk = Bulk { dfsp: payee, items: items.iter().map(|item| item.id).collect(), waiter: None };
    if !shared.bulks.enter(BulkSide::Incoming, id, bulk) {
        count(&dfsp.counters.prepares_repeated);
        return StatusCode::ACCEPTED;
    }
    for &Item { id, received, .. } in &items {
        let state = IncomingState::Received;
        let incoming = Incoming { payee, received, state, sold: None, fx_transfer: None };
        if !shared.table.enter_incoming(id, incoming) {
            tracing::warn!(transfer = %id, dfsp = %dfsp.name, "an item of a bulk transfer was received before");
            count(&dfsp.counters.contradictions);
            continue;
        }
        count(&dfsp.counters.prepares_received);
        dfsp.book().move_incoming(received, None, None, state);
    }
    let draw = Draw::new(shared, payee, fault_key(&id));
    if draw.is_dropped() {
        return StatusCode::ACCEPTED;
    }
    let plan = |item: &Item<'_>| {
        let draw = Draw { key: fault_key(&item.id), ..draw };
        (item.id, Plan::draw(shared, &draw, &item.id, item.condition, || Some(item.packet)))
    };
    let plans = items.iter().map(plan).collect();
    let headers = reply::headers(shared, payee, Family::BulkTransfers, headers);
    let delay_ms = draw.settings.delay_ms;
    let answering = Answering { shared: shared.clone(), payee, id, headers, delay_ms, plans };
    tokio::spawn(answering.run(draw.copies()));
    StatusCode::ACCEPTED
}

struct Answering {
    shared: Arc<SimulatorState>,
    payee: u32,
    id: TransferId,
    headers: HeaderMap,
    delay_ms: u32,
    plans: Vec<(TransferId, Plan)>,
}

impl Answering {
    async fn run(self, copies: u32) {
        reply::wait_ms(self.delay_ms).await;
        let counters = &self.shared.dfsp(self.payee).counters;
        let mut body = BulkText::answer(message::now());
        for (id, plan) in &self.plans {
            match plan {
                Plan::Right(fulfilment) | Plan::Wrong(fulfilment) => body.fulfilled(id, fulfilment),
                Plan::Abort => {
                    count(&counters.aborts_sent);
                    body.aborted(id);
                }
            }
            let is_right = matches!(plan, Plan::Right(_));
            let event = if is_right { IncomingEvent::Answered } else { IncomingEvent::GivenUp };
            count(&counters.fulfilments_sent);
            settle_incoming(&self.shared, id, event);
        }
        let (body, path) = (body.end(), format!("bulkTransfers/{}", self.id));
        for _ in 0..copies {
            let sent = reply::send(&self.shared, self.payee, Method::PUT, &path, &self.headers, &body).await;
            let event = match is_taken(sent, counters) {
                Some(true) => IncomingEvent::AcceptedAsReserved,
                Some(false) => IncomingEvent::GivenUp,
                None => continue,
            };
            for (id, plan) in &self.plans {
                if matches!(plan, Plan::Right(_)) {
                    settle_incoming(&self.shared, id, event);
                }
            }
        }
    }
}

/// A message's statement about one item.
enum ItemSaying<'body> {
    Committed { fulfilment: &'body [u8] },
    Aborted(Option<ErrorCode>),
    NothingFinal,
}

fn result(value: &[u8]) -> Option<(TransferId, ItemSaying<'_>)> {
    let id = id(scan::member(value, b"transferId")?)?;
    let fulfilment = scan::member(value, b"fulfilment").and_then(scan::text);
    let saying = match (fulfilment, scan::member(value, b"errorInformation")) {
        (Some(fulfilment), None) => ItemSaying::Committed { fulfilment },
        (None, Some(_)) => ItemSaying::Aborted(error_code(value)),
        (None, None) => ItemSaying::NothingFinal,
        (Some(_), Some(_)) => return None,
    };
    Some((id, saying))
}

/// The outcomes of the items in one message, combined.
#[derive(Default)]
struct ItemOutcomes {
    first: bool,
    contradiction: bool,
    committed: usize,
    aborted: usize,
    error_code: Option<ErrorCode>,
}

impl ItemOutcomes {
    /// Enters the end of an item on one side.
    fn end(
        &mut self,
        shared: &SimulatorState,
        side: BulkSide,
        id: &TransferId,
        ended: Result<(), Option<ErrorCode>>,
    ) {
        let settled = match (side, ended) {
            (BulkSide::Outgoing, Ok(())) => settle_outgoing(shared, id, OutgoingEvent::Committed, None),
            (BulkSide::Outgoing, Err(code)) => settle_outgoing(shared, id, OutgoingEvent::Aborted, code),
            (BulkSide::Incoming, Ok(())) => settle_incoming(shared, id, IncomingEvent::HubCommitted),
            (BulkSide::Incoming, Err(_)) => settle_incoming(shared, id, IncomingEvent::HubAborted),
        };
        match settled {
            Some(Delivery::First) => self.first = true,
            Some(Delivery::Repeated) => {}
            Some(Delivery::Contradiction) | None => self.contradiction = true,
        }
        match ended {
            Ok(()) => self.committed += 1,
            Err(code) => {
                self.aborted += 1;
                self.error_code = self.error_code.or(code);
            }
        }
    }
}

/// Accepts a callback about a bulk transfer. Returns the receiver's role in it, if the receiver knows it.
pub(crate) fn take_callback(
    shared: &SimulatorState,
    receiver: u32,
    id: &TransferId,
    is_error: bool,
    body: &Bytes,
) -> Option<Role> {
    let (side, items) = shared.bulks.of(receiver, id)?;
    let role = if side == BulkSide::Outgoing { Role::Payer } else { Role::Payee };
    let counters = &shared.dfsp(receiver).counters;
    let mut taken = ItemOutcomes::default();
    if is_error {
        // An error about a payee's own answer ends nothing; only the list of results does.
        let code = scan::text_member(body, b"\"errorCode\"");
        if side == BulkSide::Incoming || code == Some(MODIFIED_REQUEST) {
            count(&counters.callbacks_informative);
            return Some(role);
        }
        items.iter().for_each(|item| taken.end(shared, side, item, Err(error_code(body))));
    } else {
        take_results(shared, receiver, side, &items, body, &mut taken);
    }
    let is_over = taken.committed + taken.aborted == items.len();
    if is_over && let Some(waiter) = shared.bulks.finish(side, id) {
        let outcome = if taken.aborted == 0 { TransferOutcome::Committed } else { TransferOutcome::Aborted };
        // The load generator may have stopped waiting; the books are updated regardless.
        let _ = waiter.send(Finished { outcome, at: Instant::now(), error_code: taken.error_code });
    }
    if taken.contradiction {
        let dfsp = &shared.dfsp(receiver).name;
        tracing::warn!(bulk = %id, %dfsp, "a callback about a bulk transfer contradicts its outcome");
    }
    count(match (taken.contradiction, taken.first, is_over) {
        (true, _, _) => &counters.contradictions,
        (false, true, _) => &counters.callbacks,
        (false, false, true) => &counters.callbacks_repeated,
        (false, false, false) => &counters.callbacks_informative,
    });
    Some(role)
}

/// Checks and enters the list of results: each item once, no other items, and a state that agrees with the items.
fn take_results(
    shared: &SimulatorState,
    receiver: u32,
    side: BulkSide,
    items: &[TransferId],
    body: &Bytes,
    taken: &mut ItemOutcomes,
) {
    let counters = &shared.dfsp(receiver).counters;
    let list = scan::member(body, b"individualTransferResults").unwrap_or_default();
    let known: HashSet<&TransferId> = items.iter().collect();
    let mut told = HashSet::new();
    for value in scan::elements(list) {
        let Some((id, saying)) = result(value).filter(|(id, _)| known.contains(id) && told.insert(*id))
        else {
            taken.contradiction = true;
            continue;
        };
        match saying {
            ItemSaying::Committed { fulfilment } => {
                if side == BulkSide::Outgoing && fulfilment != &shared.secret.fulfilment(&id)[..] {
                    count(&counters.wrong_fulfilments_received);
                }
                taken.end(shared, side, &id, Ok(()));
            }
            ItemSaying::Aborted(code) => taken.end(shared, side, &id, Err(code)),
            ItemSaying::NothingFinal => {}
        }
    }
    taken.contradiction |= match scan::member(body, b"bulkTransferState").and_then(scan::text) {
        Some(b"COMPLETED") => taken.committed == 0 || told.len() != items.len(),
        Some(b"REJECTED") => taken.committed > 0 || told.len() != items.len(),
        _ => false,
    };
}
