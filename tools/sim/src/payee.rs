//! The payee's side, and that of an FXP: taking transfers and conversions in and answering them, well or with a fault.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use upesi_http::{HeaderMap, StatusCode};
use upesi_types::{Amount, Currency, TransferId};

use super::conversion::{Sale, compare_ends};
use crate::books::{IncomingEvent, IncomingState, OutgoingEvent};
use crate::bulk::bulk_id;
use crate::condition::{Text, wrong_fulfilment};
use crate::dfsp::{Dfsp, count};
use crate::message::{self, Family, IdText};
use crate::payer::{Settled, settle_outgoing};
use crate::quoting::{amount_of, currency_of, id};
use crate::settings::{DfspSettings, Fault, Flavour, hits};
use crate::simulator::Shared;
use crate::table::Incoming;
use crate::upstream::Resource;
use crate::{reply, scan};

enum Plan {
    Fulfil { fulfilment: Text, right: bool, copies: u32 },
    Abort,
}

struct Answering {
    shared: Arc<Shared>,
    payee: u32,
    family: Family,
    id: TransferId,
    headers: HeaderMap,
    settings: DfspSettings,
    /// What it sells before it fulfils.
    sale: Option<Sale>,
}

/// The id of a prepare, of a conversion or of a bulk, if it can be read.
pub(crate) fn prepared_id(family: Family, body: &Bytes) -> Option<TransferId> {
    if family == Family::BulkTransfers { bulk_id(body) } else { Some(read(family, body)?.id) }
}

/// Takes a prepare in, or the question for a conversion, and starts to answer it; the status is that of the POST.
pub(crate) fn take_prepare(
    shared: &Arc<Shared>,
    payee: u32,
    family: Family,
    headers: &HeaderMap,
    body: &Bytes,
) -> StatusCode {
    let dfsp = shared.dfsp(payee);
    let Some(Read { id, received: (amount, currency), sold, condition }) = read(family, body) else {
        count(&dfsp.counters.unreadable);
        return StatusCode::BAD_REQUEST;
    };
    let incoming =
        Incoming { payee, amount, currency, state: IncomingState::Received, sold, conversion: None };
    if !shared.table.enter_incoming(id, incoming) {
        count(&dfsp.counters.prepares_repeated);
        return StatusCode::ACCEPTED;
    }
    count(match sold {
        None => &dfsp.counters.prepares_received,
        Some(_) => &dfsp.counters.conversions_received,
    });
    enter(dfsp, (amount, currency), sold, None, IncomingState::Received);

    let settings = dfsp.settings();
    let key = fault_key(&id);
    let hit = |fault, per_mille| hits(fault, per_mille, shared.seed, key);
    if hit(Fault::Drop, settings.drop_per_mille) {
        count(&dfsp.counters.dropped);
        return StatusCode::ACCEPTED;
    }
    let by_packet = || shared.secret.answer_packet(scan::text_member(body, b"\"ilpPacket\"")?, condition);
    let plan = match shared.secret.answer(&id, condition).or_else(by_packet) {
        None => {
            count(&dfsp.counters.conditions_unknown);
            Plan::Abort
        }
        Some(_) if hit(Fault::Abort, settings.abort_per_mille) => Plan::Abort,
        Some(right) if hit(Fault::WrongFulfilment, settings.wrong_fulfilment_per_mille) => {
            count(&dfsp.counters.wrong_fulfilments_sent);
            Plan::Fulfil { fulfilment: wrong_fulfilment(&right), right: false, copies: 1 }
        }
        Some(fulfilment) => {
            let twice = hit(Fault::Duplicate, settings.duplicate_per_mille);
            if twice {
                count(&dfsp.counters.duplicated);
            }
            Plan::Fulfil { fulfilment, right: true, copies: 1 + u32::from(twice) }
        }
    };
    let sale = match family {
        Family::Transfers => Sale::of(shared, id, (amount, currency), body),
        _ => None,
    };
    let headers = reply::headers(shared, payee, family, headers);
    let answering = Answering { shared: shared.clone(), payee, family, id, headers, settings, sale };
    tokio::spawn(answering.run(plan));
    StatusCode::ACCEPTED
}

/// The half of an id that does not depend on the run.
pub(crate) fn fault_key(id: &TransferId) -> u64 {
    let bytes = id.to_bytes();
    let mut low = [0; 8];
    low.copy_from_slice(&bytes[9..]);
    u64::from_be_bytes(low)
}

/// What books need of a prepare or of a conversion.
struct Read<'body> {
    id: TransferId,
    received: (Amount, Currency),
    /// What a conversion gives for it.
    sold: Option<(Amount, Currency)>,
    condition: &'body [u8],
}

fn read(family: Family, body: &Bytes) -> Option<Read<'_>> {
    if family == Family::FxTransfers {
        let money = |name: &[u8]| {
            let money = scan::member(body, name)?;
            Some((amount_of(money)?, currency_of(money)?))
        };
        return Some(Read {
            id: id(scan::member(body, b"commitRequestId")?)?,
            received: money(b"sourceAmount")?,
            sold: Some(money(b"targetAmount")?),
            condition: scan::text(scan::member(body, b"condition")?)?,
        });
    }
    let found = scan::prepare(body)?;
    let id = TransferId::parse(std::str::from_utf8(found.transfer_id).ok()?)?;
    let currency = Currency::parse(std::str::from_utf8(found.currency).ok()?)?;
    let amount = Amount::parse_wire(std::str::from_utf8(found.amount).ok()?).ok()?;
    Some(Read { id, received: (amount, currency), sold: None, condition: found.condition })
}

/// Moves a transfer or both sides of a conversion in the books of who receives it.
pub(crate) fn enter(
    dfsp: &Dfsp,
    (amount, currency): (Amount, Currency),
    sold: Option<(Amount, Currency)>,
    from: Option<IncomingState>,
    to: IncomingState,
) {
    let mut book = dfsp.book();
    book.move_incoming(currency, amount, from, to);
    if let Some((amount, currency)) = sold {
        book.move_sold(currency, amount, from, to);
    }
}

impl Answering {
    async fn run(self, plan: Plan) {
        if self.settings.delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(self.settings.delay_ms.into())).await;
        }
        let counters = &self.shared.dfsp(self.payee).counters;
        let plan = match (plan, &self.sale) {
            (Plan::Fulfil { .. }, Some(sale))
                if !sale.make(&self.shared, self.payee, &self.headers).await =>
            {
                Plan::Abort
            }
            (plan, _) => plan,
        };
        match plan {
            Plan::Abort => {
                count(&counters.aborts_sent);
                settle_incoming(&self.shared, &self.id, IncomingEvent::GivenUp);
                self.put(true, Bytes::from_static(message::ABORT_BODY)).await;
            }
            Plan::Fulfil { fulfilment, right, copies } => {
                count(&counters.fulfilments_sent);
                let flavour = match self.family {
                    // The transfer decides.
                    Family::FxTransfers => Flavour::Reserved,
                    // The hub's PATCH tells that what is sold has moved as well.
                    _ if self.sale.is_some() => Flavour::Reserved,
                    _ => self.settings.flavour,
                };
                let ahead = self.shared.signing.as_ref().and_then(|signing| signing.ahead.get());
                let completed_at = ahead.map_or_else(message::now, |ahead| ahead.completed_at);
                let body = message::fulfil_body(self.family, &fulfilment, completed_at, flavour);
                let before = if right { IncomingEvent::Answered } else { IncomingEvent::GivenUp };
                settle_incoming(&self.shared, &self.id, before);
                for _ in 0..copies {
                    match self.put(false, body.clone()).await {
                        Some(status) if status.is_success() && right => {
                            let event = match flavour {
                                Flavour::Committed => IncomingEvent::AcceptedAsCommitted,
                                Flavour::Reserved => IncomingEvent::AcceptedAsReserved,
                            };
                            settle_incoming(&self.shared, &self.id, event);
                        }
                        Some(status) if status.is_success() => {}
                        Some(_) => {
                            count(&counters.fulfilments_refused);
                            settle_incoming(&self.shared, &self.id, IncomingEvent::GivenUp);
                        }
                        None => count(&counters.fulfilments_unanswered),
                    }
                }
            }
        }
    }

    /// Sends the answer until the hub takes or refuses it; `None` when it did neither.
    async fn put(&self, error: bool, body: Bytes) -> Option<StatusCode> {
        let id_text = IdText::new(&self.id);
        let path;
        let resource = match (self.family, error) {
            (Family::FxTransfers, _) => {
                path = format!("fxTransfers/{}{}", self.id, if error { "/error" } else { "" });
                Resource::Other(&path)
            }
            (_, true) => Resource::Error(&id_text),
            (_, false) => Resource::Transfer(&id_text),
        };
        reply::put(&self.shared, self.payee, resource, &self.headers, &body).await
    }
}

/// Applies an event to an incoming transfer and its payee's book.
pub(crate) fn settle_incoming(shared: &Shared, id: &TransferId, event: IncomingEvent) -> Settled {
    let changed = shared.table.with_incoming(id, |transfer| {
        let from = transfer.state;
        let (to, delivery) = from.after(event);
        transfer.state = to;
        let moved = (transfer.payee, (transfer.amount, transfer.currency), transfer.sold);
        (moved, (from, to, delivery), transfer.conversion)
    });
    let Some(((payee, received, sold), (from, to, delivery), sale)) = changed else {
        return Settled::Unknown;
    };
    if from != to {
        enter(shared.dfsp(payee), received, sold, Some(from), to);
        let ending = match to {
            IncomingState::Confirmed => Some(OutgoingEvent::Committed),
            IncomingState::Aborted => Some(OutgoingEvent::Aborted),
            _ => None,
        };
        if let Some((sale, ending)) = sale.zip(ending) {
            settle_outgoing(shared, &sale, ending, None);
        }
        if sold.is_some() {
            compare_ends(shared, id);
        }
    }
    Settled::Known(delivery)
}
