//! Callbacks that the ledger owes: their way from the engine's outbox to the lanes, and their form on the wire.
//!
//! [`CourierEffects`] passes new ones to the lanes, [`OutboxBacklog`] lets lanes read the undelivered ones, and
//! [`CallbackRenderer`] renders the HTTP request of one.

mod effects;
mod followed;
mod outbox;
mod refusals;
mod reports;
mod share;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use upesi_engine::{Clock, DurableRecord, SharedParticipants};
use upesi_fspiop::headers::{Block, Forward, MessageSource, SpanId, TraceId};
use upesi_fspiop::render::{
    self as wire, Extensions, cause_text, write_bulk_request, write_bulk_state, write_error,
    write_fx_transfer_state, write_transfer_state,
};
use upesi_fspiop::uri::write_path;
use upesi_fspiop::{Method, Resource, Version};
use upesi_http::{Bytes, StatusCode};
use upesi_ledger::{
    AskedItem, BulkRequest, BulkView, Callback, CallbackContent, CallbackKey, ItemOutcome, ParticipantId,
    ResourceKind, StateMethod,
};
use upesi_types::TransferId;

pub use self::effects::{CourierEffects, to_asker};
pub use self::followed::FollowedCallbacks;
pub use self::outbox::OutboxBacklog;
pub use self::reports::{Report, ReportedOutcomes, Reports};
pub use self::share::Share;
use crate::lanes::{HopTiming, Refusal, Renderer};
use crate::render::{Message, Url};
use crate::{OutgoingRequest, Unroutable, rejection};

/// Initial capacity in bytes for the body of a state; enough for most.
const STATE_BYTES: usize = 192;

/// Renders the HTTP request of a callback.
pub struct CallbackRenderer {
    pub participants: SharedParticipants,
    /// The hub's time, which ignores jumps of the wall clock. It decides whether a prepare has expired meanwhile.
    pub clock: Arc<dyn Clock>,
    /// Version of messages that the hub creates.
    pub version: Version,
}

impl Renderer for CallbackRenderer {
    fn name(&self, target: ParticipantId) -> String {
        let participants = self.participants.get();
        participants
            .name(target)
            .map_or_else(|| format!("participant {}", target.number()), |name| name.to_string())
    }

    fn render(&self, key: CallbackKey, record: &DurableRecord) -> Result<OutgoingRequest, Unroutable> {
        let bad = |reason: &str| Unroutable::BadRecord { reason: reason.to_owned() };
        let Some(callback) = record.callbacks.get(usize::from(key.index)) else {
            return Err(bad(&format!("it has no callback {}", key.index)));
        };
        let participants = self.participants.get();
        let receiver = participants.get(key.target).ok_or_else(|| bad("its target is unknown"))?;
        let hub = participants.hub_name().ok_or_else(|| bad("the hub has no name"))?;
        let (id, endpoint) = (callback.subject.id.to_string(), callback.endpoint_type());
        let resource = resource_of(callback.subject.resource);
        let source = if callback.content.is_forwarded() {
            let name = Block(&record.payload.headers).find("fspiop-source");
            let name = name.and_then(|name| str::from_utf8(name).ok());
            MessageSource::Dfsp { name: name.ok_or_else(|| bad("its request names no source"))? }
        } else {
            // The instant of the decision, so that every repetition has the same bytes.
            let version = self.version.max(resource.since());
            MessageSource::Hub { name: hub.as_str(), version, now: record.time, trace_id: trace_id(callback) }
        };
        let is_post =
            matches!(callback.content, CallbackContent::ForwardPrepare | CallbackContent::BulkRequest(_));
        let path_id = (!is_post).then_some(&*id);
        let mut uri = String::with_capacity(64);
        write_path(resource, path_id, callback.is_error(), &mut uri);
        let forward = Forward {
            source,
            receiver: receiver.name.as_str(),
            resource,
            method: method(&callback.content),
            uri: &uri,
            span_id: span_id(key),
        };
        let message = Message {
            receiver,
            endpoint,
            url: Url::Id(&id),
            forward,
            caused_by: &record.payload.headers,
            additions: None,
            body: body(callback, record),
        };
        message.into_request()
    }

    fn refusal(&self, status: StatusCode, body: &[u8]) -> Refusal {
        refusals::refusal(status, body)
    }

    fn is_moot(&self, key: CallbackKey, record: &DurableRecord) -> Option<String> {
        refusals::moot(key, record, self.clock.now())
    }

    fn hop_timing(&self, key: CallbackKey, record: &DurableRecord) -> Option<HopTiming> {
        if record.callbacks.get(usize::from(key.index))?.subject.resource != ResourceKind::Transfer {
            return None;
        }
        // The time counts from the record's instant, so that it also covers callbacks from before a restart.
        let took = || self.clock.now().since(record.time);
        match &record.callbacks.get(usize::from(key.index))?.content {
            CallbackContent::ForwardPrepare => Some(HopTiming::Prepare(took())),
            CallbackContent::ForwardFulfil | CallbackContent::ForwardAbort => Some(fulfil(record, took())),
            // The payee has only reserved, and the hub commits: the record that ends the transfer owes the payer its
            // state. Answers to later queries differ only in that.
            CallbackContent::State(StateMethod::Put, view) if view.completed_at == Some(record.time) => {
                Some(fulfil(record, took()))
            }
            _ => None,
        }
    }
}

fn fulfil(record: &DurableRecord, took: Duration) -> HopTiming {
    HopTiming::Fulfil { took, in_all: record.prepared_before.map(|before| before.saturating_add(took)) }
}

fn method(content: &CallbackContent) -> Method {
    match content.method() {
        "POST" => Method::Post,
        "PATCH" => Method::Patch,
        _ => Method::Put,
    }
}

fn body(callback: &Callback, record: &DurableRecord) -> Bytes {
    let mut body = Vec::new();
    match &callback.content {
        CallbackContent::State(method, view) => {
            body.reserve(STATE_BYTES);
            let fulfilment = view.fulfilment.as_ref().filter(|_| *method == StateMethod::Put);
            let cause = view.cause.as_ref().map(rejection::cause);
            let cause = cause.map(|(code, text)| cause_text(code, &text));
            let extensions = Extensions { items: view.extensions.as_deref(), cause: cause.as_deref() };
            let write = match callback.subject.resource {
                ResourceKind::Transfer => write_transfer_state,
                ResourceKind::FxTransfer | ResourceKind::Bulk => write_fx_transfer_state,
            };
            write(&mut body, view.completed_at, view.state.as_str(), fulfilment, extensions);
        }
        CallbackContent::Error(cause) => {
            let (code, description) = rejection::cause(cause);
            write_error(&mut body, code, &description);
        }
        CallbackContent::BulkRequest(request) => {
            bulk_request(&mut body, &callback.subject.id.to_string(), request);
        }
        CallbackContent::BulkState(view) => bulk_state(&mut body, view),
        CallbackContent::ForwardPrepare
        | CallbackContent::ForwardFulfil
        | CallbackContent::ForwardAbort
        | CallbackContent::ConfirmFulfil
        | CallbackContent::ConfirmAbort => return record.payload.body.clone(),
    }
    body.into()
}

fn bulk_request(out: &mut Vec<u8>, id: &str, request: &BulkRequest) {
    let &BulkRequest { quote, payer, payee, expires_at, .. } = request;
    let extensions = request.extensions.as_deref();
    let head = wire::BulkRequest { id, quote, payer, payee, expires_at, extensions };
    write_bulk_request(out, &head, request.items.iter().map(|(id, item)| request_item(*id, item)));
}

fn request_item(id: TransferId, item: &AskedItem) -> wire::BulkRequestItem<'_> {
    wire::BulkRequestItem {
        id,
        amount: item.amount.as_ref().copied().map_err(|unfit| &*unfit.text),
        currency: item.currency,
        ilp_packet: &item.ilp_packet,
        condition: item.condition.unwrap_or_default(),
        extensions: item.extensions.as_deref(),
    }
}

fn bulk_state(out: &mut Vec<u8>, view: &BulkView) {
    let state = wire::BulkState {
        state: view.state.as_str(),
        completed_at: view.completed_at,
        extensions: view.extensions.as_deref(),
    };
    let outcomes = view.items.iter().map(|(id, outcome)| (*id, item_outcome(outcome)));
    write_bulk_state(out, &state, outcomes);
}

fn item_outcome(outcome: &ItemOutcome) -> wire::BulkItemOutcome<'_> {
    match outcome {
        ItemOutcome::Open => wire::BulkItemOutcome::Open,
        ItemOutcome::Fulfilled { fulfilment, extensions } => {
            wire::BulkItemOutcome::Fulfilled { fulfilment, extensions: extensions.as_deref() }
        }
        ItemOutcome::Failed(cause) => {
            let (code, description) = rejection::cause(cause);
            wire::BulkItemOutcome::Failed { code, description }
        }
    }
}

/// The family of the API that serves a kind of resource in the ledger.
pub const fn resource_of(kind: ResourceKind) -> Resource {
    match kind {
        ResourceKind::Transfer => Resource::Transfers,
        ResourceKind::FxTransfer => Resource::FxTransfers,
        ResourceKind::Bulk => Resource::BulkTransfers,
    }
}

/// The span id of the hop: the same at each repetition, and never zero.
fn span_id(key: CallbackKey) -> SpanId {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish().max(1).to_be_bytes()
}

/// The trace of the hub's messages about one transfer, FX transfer or bulk transfer, if no request has a trace. It is
/// the same for each message and each repetition, and never zero.
fn trace_id(callback: &Callback) -> TraceId {
    let half = |number: u8| {
        let mut hasher = DefaultHasher::new();
        (number, callback.subject.id.to_string()).hash(&mut hasher);
        hasher.finish().max(1).to_be_bytes()
    };
    let (high, low) = (half(0), half(1));
    core::array::from_fn(|at| if at < high.len() { high[at] } else { low[at - high.len()] })
}

#[cfg(test)]
mod tests {
    use upesi_engine::Payload;
    use upesi_ledger::{BulkRequest, PublicState, ResourceId, Subject, TransferView};
    use upesi_types::{FspId, Timestamp, TransferId};

    use super::*;

    struct Standing(Timestamp);

    impl Clock for Standing {
        fn now(&self) -> Timestamp {
            self.0
        }
    }

    const NOW: Timestamp = Timestamp::from_ms(1_893_456_000_000);

    fn record(callbacks: Vec<Callback>, time: Timestamp) -> DurableRecord {
        let payload = Payload::default();
        DurableRecord { seq: 7, time, callbacks, payload, prepared_before: None, asker: None }
    }

    fn renderer_at(now: Timestamp) -> CallbackRenderer {
        let clock = Arc::new(Standing(now));
        CallbackRenderer { participants: SharedParticipants::default(), clock, version: Version::V1_1 }
    }

    #[test]
    fn messages_between_parties_are_timed_and_messages_of_the_hub_are_not() {
        const AGO_MS: i64 = 3_600_000;
        let time = NOW.plus_ms(-AGO_MS);
        let state = |method, completed_at| {
            let state = PublicState::Committed;
            let view = TransferView { state, completed_at, fulfilment: None, extensions: None, cause: None };
            CallbackContent::State(method, view)
        };
        let (prepare, fulfil) = (Some("prepare"), Some("fulfil"));
        let cases = [
            (CallbackContent::ForwardPrepare, prepare),
            (CallbackContent::ForwardFulfil, fulfil),
            (CallbackContent::ForwardAbort, fulfil),
            (CallbackContent::ConfirmFulfil, None),
            (CallbackContent::ConfirmAbort, None),
            (state(StateMethod::Put, Some(time)), fulfil),
            (state(StateMethod::Patch, Some(time)), None),
            // Answers to a GET.
            (state(StateMethod::Put, Some(time.plus_ms(-1))), None),
            (state(StateMethod::Put, None), None),
        ];
        let callback = |content: &CallbackContent| Callback {
            target: ParticipantId::HUB,
            subject: Subject::transfer(ResourceId::Text("t".into())),
            content: content.clone(),
        };
        let callbacks = cases.iter().map(|(content, _)| callback(content)).collect();
        let prepared_before = Some(Duration::from_secs(100));
        let mut record = DurableRecord { prepared_before, ..record(callbacks, time) };
        let renderer = renderer_at(NOW);
        for (key, (content, expected)) in record.keys().zip(&cases) {
            let (found, took) = match renderer.hop_timing(key, &record) {
                None => (None, None),
                Some(HopTiming::Prepare(took)) => (prepare, Some(took)),
                Some(HopTiming::Fulfil { took, in_all }) => {
                    assert_eq!(in_all, Some(took + Duration::from_secs(100)), "{content:?}");
                    (fulfil, Some(took))
                }
            };
            assert_eq!(found, *expected, "{content:?}");
            assert!(took.is_none_or(|took| took.as_secs() == 3_600), "{content:?} took {took:?}");
        }
        // By a clock that was set back afterwards.
        record.time = NOW.plus_ms(AGO_MS);
        let key = CallbackKey { target: ParticipantId::HUB, seq: 7, index: 0 };
        assert_eq!(renderer.hop_timing(key, &record), Some(HopTiming::Prepare(Duration::ZERO)));
        assert_eq!(renderer.hop_timing(CallbackKey { index: 9, ..key }, &record), None);
    }

    #[test]
    fn prepare_expires_by_the_hubs_time() {
        let [green, blue] = ["green", "blue"].map(|name| FspId::parse(name).unwrap());
        let request = BulkRequest {
            quote: TransferId::parse("aaaaaaaa-5aba-49f1-994d-60d740240046").unwrap(),
            payer: green,
            payee: blue,
            expires_at: NOW,
            items: Vec::new(),
            extensions: None,
        };
        let callback = Callback {
            target: ParticipantId::HUB,
            subject: Subject { resource: ResourceKind::Bulk, id: ResourceId::Text("b".into()) },
            content: CallbackContent::BulkRequest(Box::new(request)),
        };
        let record = record(vec![callback], NOW);
        let key = record.keys().next().unwrap();
        assert_eq!(renderer_at(NOW).is_moot(key, &record), None);
        let why = "the bulk transfer has expired".to_owned();
        assert_eq!(renderer_at(NOW.plus_ms(1)).is_moot(key, &record), Some(why));
    }
}
