//! The payee's and the FXP's side: accepting transfers and FX transfers and answering them, correctly or with a fault.

use std::sync::Arc;

use bytes::Bytes;
use upesi_http::{HeaderMap, Method, StatusCode};
use upesi_types::{Amount, Currency, Money, TransferId};

use crate::books::{IncomingEvent, IncomingState};
use crate::bulk::bulk_id;
use crate::condition::{Text, wrong_fulfilment};
use crate::counters::{AtomicCounters, count};
use crate::fx_transfer::PayeeFxTransfer;
use crate::ids::{fault_key, id};
use crate::message::{self, Family};
use crate::money::{amount_of, currency_of};
use crate::reply::{self, Draw};
use crate::scan;
use crate::settings::{DfspSettings, Flavour};
use crate::settling::settle_incoming;
use crate::shared::SimulatorState;
use crate::table::Incoming;

/// A payee's answer to a transfer: the right fulfilment, a wrong one, or an error.
pub(crate) enum Plan {
    Right(Text),
    Wrong(Text),
    Abort,
}

impl Plan {
    /// Draws the answer to a transfer from its id and its condition, and from its packet if these do not determine the
    /// fulfilment.
    pub fn draw<'body>(
        shared: &SimulatorState,
        draw: &Draw<'_>,
        id: &TransferId,
        condition: &[u8],
        packet: impl FnOnce() -> Option<&'body [u8]>,
    ) -> Self {
        let by_packet = || shared.secret.answer_packet(packet()?, condition);
        match shared.secret.answer(id, condition).or_else(by_packet) {
            None => {
                count(&draw.dfsp.counters.conditions_unknown);
                Self::Abort
            }
            Some(_) if draw.is_aborted() => Self::Abort,
            Some(right) if draw.is_falsified() => {
                count(&draw.dfsp.counters.wrong_fulfilments_sent);
                Self::Wrong(wrong_fulfilment(&right))
            }
            Some(right) => Self::Right(right),
        }
    }
}

struct Answering {
    shared: Arc<SimulatorState>,
    payee: u32,
    family: Family,
    id: TransferId,
    headers: HeaderMap,
    settings: DfspSettings,
    /// The FX transfer that the payee requests before it fulfils.
    sale: Option<PayeeFxTransfer>,
}

/// The id of a prepare, an FX transfer or a bulk transfer, if it can be read.
pub(crate) fn prepared_id(family: Family, body: &Bytes) -> Option<TransferId> {
    if family == Family::BulkTransfers { bulk_id(body) } else { Some(read(family, body)?.id) }
}

/// Accepts a prepare, or the request for an FX transfer, and starts to answer it. Returns the status for the POST.
pub(crate) fn take_prepare(
    shared: &Arc<SimulatorState>,
    payee: u32,
    family: Family,
    headers: &HeaderMap,
    body: &Bytes,
) -> StatusCode {
    let dfsp = shared.dfsp(payee);
    let Some(PrepareData { id, received, sold, condition }) = read(family, body) else {
        count(&dfsp.counters.unreadable);
        return StatusCode::BAD_REQUEST;
    };
    let incoming = Incoming { payee, received, state: IncomingState::Received, sold, fx_transfer: None };
    if !shared.table.enter_incoming(id, incoming) {
        count(&dfsp.counters.prepares_repeated);
        return StatusCode::ACCEPTED;
    }
    count(match sold {
        None => &dfsp.counters.prepares_received,
        Some(_) => &dfsp.counters.conversions_received,
    });
    dfsp.book().move_incoming(received, sold, None, IncomingState::Received);

    let draw = Draw::new(shared, payee, fault_key(&id));
    if draw.is_dropped() {
        return StatusCode::ACCEPTED;
    }
    let packet = || scan::text_member(body, b"\"ilpPacket\"");
    let plan = Plan::draw(shared, &draw, &id, condition, packet);
    let copies = if let Plan::Right(_) = plan { draw.copies() } else { 1 };
    let sale = match family {
        Family::Transfers => PayeeFxTransfer::of(shared, id, received, body),
        _ => None,
    };
    let headers = reply::headers(shared, payee, family, headers);
    let (shared, settings) = (shared.clone(), draw.settings);
    let answering = Answering { shared, payee, family, id, headers, settings, sale };
    tokio::spawn(answering.run(plan, copies));
    StatusCode::ACCEPTED
}

/// The data of a prepare or FX transfer that the books need.
struct PrepareData<'body> {
    id: TransferId,
    received: Money,
    /// The amount that an FX transfer sells for it.
    sold: Option<Money>,
    condition: &'body [u8],
}

fn read(family: Family, body: &Bytes) -> Option<PrepareData<'_>> {
    if family == Family::FxTransfers {
        let money = |name: &[u8]| {
            let money = scan::member(body, name)?;
            Some(Money { amount: amount_of(money)?, currency: currency_of(money)? })
        };
        return Some(PrepareData {
            id: id(scan::member(body, b"commitRequestId")?)?,
            received: money(b"sourceAmount")?,
            sold: Some(money(b"targetAmount")?),
            condition: scan::text(scan::member(body, b"condition")?)?,
        });
    }
    let text = |name: &[u8]| std::str::from_utf8(scan::text_member(body, name)?).ok();
    let currency = Currency::parse(text(b"\"currency\"")?)?;
    Some(PrepareData {
        id: TransferId::parse(text(b"\"transferId\"")?)?,
        received: Money { amount: Amount::parse_wire(text(b"\"amount\"")?).ok()?, currency },
        sold: None,
        condition: scan::text_member(body, b"\"condition\"")?,
    })
}

impl Answering {
    async fn run(self, plan: Plan, copies: u32) {
        reply::wait_ms(self.settings.delay_ms).await;
        let counters = &self.shared.dfsp(self.payee).counters;
        let is_sold = match (&plan, &self.sale) {
            (Plan::Right(_) | Plan::Wrong(_), Some(sale)) => {
                sale.make(&self.shared, self.payee, &self.headers).await
            }
            _ => true,
        };
        let (fulfilment, is_right) = match plan {
            Plan::Right(fulfilment) if is_sold => (fulfilment, true),
            Plan::Wrong(fulfilment) if is_sold => (fulfilment, false),
            _ => {
                count(&counters.aborts_sent);
                settle_incoming(&self.shared, &self.id, IncomingEvent::GivenUp);
                self.put(true, Bytes::from_static(message::ABORT_BODY)).await;
                return;
            }
        };
        count(&counters.fulfilments_sent);
        let flavour = match self.family {
            // The transfer determines the outcome.
            Family::FxTransfers => Flavour::Reserved,
            // The hub's PATCH also confirms that the sold amount has moved.
            _ if self.sale.is_some() => Flavour::Reserved,
            _ => self.settings.flavour,
        };
        let ahead = self.shared.signing.as_ref().and_then(|signing| signing.ahead.get());
        let completed_at = ahead.map_or_else(message::now, |ahead| ahead.completed_at);
        let body = message::fulfil_body(self.family, &fulfilment, completed_at, flavour);
        let before = if is_right { IncomingEvent::Answered } else { IncomingEvent::GivenUp };
        settle_incoming(&self.shared, &self.id, before);
        for _ in 0..copies {
            let event = match (is_taken(self.put(false, body.clone()).await, counters), flavour) {
                (Some(true), _) if !is_right => continue,
                (Some(true), Flavour::Committed) => IncomingEvent::AcceptedAsCommitted,
                (Some(true), Flavour::Reserved) => IncomingEvent::AcceptedAsReserved,
                (Some(false), _) => IncomingEvent::GivenUp,
                (None, _) => continue,
            };
            settle_incoming(&self.shared, &self.id, event);
        }
    }

    /// Sends the answer until the hub accepts or rejects it; `None` if it did neither.
    async fn put(&self, error: bool, body: Bytes) -> Option<StatusCode> {
        let path = format!("{}/{}{}", self.family.as_str(), self.id, if error { "/error" } else { "" });
        reply::send(&self.shared, self.payee, Method::PUT, &path, &self.headers, &body).await
    }
}

/// Whether the hub accepted a fulfilment; counts it if not. `None` if the hub did not answer.
pub(crate) fn is_taken(answer: Option<StatusCode>, counters: &AtomicCounters) -> Option<bool> {
    let is_taken = answer.map(|status| status.is_success());
    match is_taken {
        Some(true) => {}
        Some(false) => count(&counters.fulfilments_refused),
        None => count(&counters.fulfilments_unanswered),
    }
    is_taken
}
