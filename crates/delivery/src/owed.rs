//! From the outbox to the wire: what a callback looks like, and where the undelivered ones are (L4).
//!
//! Between the engine, which owes notices, and the courier, which delivers them: neither knows the other.

mod refusals;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::lanes::{
    Backlog, BacklogError, BacklogFuture, Delivery, Leg, OutgoingRequest, Outlet, Page, Position, Refusal,
    Renderer, Room, Unroutable,
};
use upesi_engine::{
    Answered, Clock, DurableRecord, Effects, EngineHandle, Participants, PendingCallback, SharedParticipants,
    SystemClock,
};
use upesi_fspiop::headers::{Block, Forward, MessageSource, SpanId, rewrite_for_forward};
use upesi_fspiop::render::{Extensions, write_error, write_transfer_state};
use upesi_fspiop::uri::{fill_template, write_path};
use upesi_fspiop::{Resource, Version};
use upesi_http::{Bytes, Method, StatusCode, Target, header_block};
use upesi_ledger::{Callback, CallbackContent, CallbackKey, Command, ParticipantId, StateMethod};

/// Makes the HTTP request of a notice.
#[derive(Debug)]
pub struct CallbackRenderer {
    /// Where the callbacks go.
    pub participants: SharedParticipants,
    /// Version of messages that the hub makes itself.
    pub version: Version,
}

impl Renderer<DurableRecord> for CallbackRenderer {
    fn name(&self, target: ParticipantId) -> String {
        let participants = self.participants.get();
        participants
            .name(target)
            .map_or_else(|| format!("participant {}", target.number()), |name| name.to_string())
    }

    fn render(&self, key: CallbackKey, record: &DurableRecord) -> Result<OutgoingRequest, Unroutable> {
        let Some(notice) = record.callbacks.get(usize::from(key.index)) else {
            return Err(Unroutable::BadRecord { reason: format!("it has no notice {}", key.index) });
        };
        let participants = self.participants.get();
        let id = notice.transfer.to_string();
        Ok(OutgoingRequest {
            target: endpoint(&participants, notice, &id)?,
            method: match notice.content.method() {
                "POST" => Method::POST,
                "PATCH" => Method::PATCH,
                _ => Method::PUT,
            },
            headers: self.headers(&participants, key, notice, &id, record)?,
            body: body(notice, record),
        })
    }

    fn refusal(&self, status: StatusCode, body: &[u8]) -> Refusal {
        refusals::refusal(status, body)
    }

    fn is_moot(&self, key: CallbackKey, record: &DurableRecord) -> Option<String> {
        refusals::moot(key, record)
    }

    fn leg(&self, key: CallbackKey, record: &DurableRecord) -> Option<Leg> {
        // From the record's instant, so that it holds for callbacks that an earlier life of the hub owed.
        let took = || SystemClock.now().since(record.time);
        match &record.callbacks.get(usize::from(key.index))?.content {
            CallbackContent::ForwardPrepare => Some(Leg::Prepare(took())),
            CallbackContent::ForwardFulfil | CallbackContent::ForwardAbort => Some(fulfil(record, took())),
            // To a payee that reserved the hub gives its word, and tells the payer itself, by the very record that ends the
            // transfer. Answers to later questions look the same but for that.
            CallbackContent::State(StateMethod::Put, view) if view.completed_at == Some(record.time) => {
                Some(fulfil(record, took()))
            }
            _ => None,
        }
    }
}

fn fulfil(record: &DurableRecord, took: Duration) -> Leg {
    Leg::Fulfil { took, in_all: record.prepared_before.map(|before| before.saturating_add(took)) }
}

impl CallbackRenderer {
    fn headers(
        &self,
        participants: &Participants,
        key: CallbackKey,
        notice: &Callback,
        id: &str,
        record: &DurableRecord,
    ) -> Result<upesi_http::HeaderMap, Unroutable> {
        let bad = |reason: &str| Unroutable::BadRecord { reason: reason.to_owned() };
        let receiver = participants.name(key.target).ok_or_else(|| bad("its target is unknown"))?;
        let hub = participants.hub_name().ok_or_else(|| bad("the hub has no name"))?;
        let request = &record.payload.headers;
        let forwards = matches!(
            notice.content,
            CallbackContent::ForwardPrepare | CallbackContent::ForwardFulfil | CallbackContent::ForwardAbort
        );
        let source = if forwards {
            let name = Block(request).find("fspiop-source").and_then(|name| str::from_utf8(name).ok());
            MessageSource::Dfsp { name: name.ok_or_else(|| bad("its request names no source"))? }
        } else {
            // The instant of the decision, so that every repetition has the same bytes.
            MessageSource::Hub { name: hub.as_str(), version: self.version, now: record.time }
        };
        let method = match notice.content.method() {
            "POST" => upesi_fspiop::Method::Post,
            "PATCH" => upesi_fspiop::Method::Patch,
            _ => upesi_fspiop::Method::Put,
        };
        let is_error = notice.content.endpoint_type() == upesi_ledger::EndpointType::TRANSFER_ERROR;
        let mut uri = String::with_capacity(64);
        let path_id = (notice.content != CallbackContent::ForwardPrepare).then_some(id);
        write_path(Resource::Transfers, path_id, is_error, &mut uri);
        let message = Forward {
            source,
            receiver: receiver.as_str(),
            resource: Resource::Transfers,
            method,
            uri: &uri,
            span_id: span_id(key),
        };
        let mut block = Vec::with_capacity(request.len() + 256);
        rewrite_for_forward(request, &message, &mut block);
        header_block::from_block(&Bytes::from(block)).map_err(|error| bad(&error.to_string()))
    }
}

fn endpoint(participants: &Participants, notice: &Callback, id: &str) -> Result<Target, Unroutable> {
    let kind = notice.content.endpoint_type();
    let endpoint_type = kind.name();
    let Some(template) = participants.endpoint(notice.target, kind) else {
        return Err(Unroutable::NoEndpoint { endpoint_type });
    };
    let bad = |reason: String| Unroutable::BadEndpoint { endpoint_type, reason };
    let mut url = String::with_capacity(template.len() + id.len());
    fill_template(template, id, &mut url).map_err(|error| bad(error.to_string()))?;
    Target::parse(&url).map_err(|error| bad(error.to_string()))
}

fn body(notice: &Callback, record: &DurableRecord) -> Bytes {
    let mut body = Vec::new();
    match &notice.content {
        CallbackContent::State(method, view) => {
            let fulfilment = view.fulfilment.as_ref().filter(|_| *method == StateMethod::Put);
            let extensions = Extensions { items: view.extensions.as_deref(), cause: None };
            write_transfer_state(&mut body, view.completed_at, view.state.as_str(), fulfilment, extensions);
        }
        CallbackContent::Error(code, description) => write_error(&mut body, *code, description),
        CallbackContent::ForwardPrepare
        | CallbackContent::ForwardFulfil
        | CallbackContent::ForwardAbort
        | CallbackContent::ConfirmFulfil
        | CallbackContent::ConfirmAbort => return record.payload.body.clone(),
    }
    body.into()
}

/// The hop's span id: the same at each repetition, never zero.
fn span_id(key: CallbackKey) -> SpanId {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    (hasher.finish() | 1).to_be_bytes()
}

/// A notice of a durable record, as a lane takes it.
pub fn delivery(key: CallbackKey, record: &Arc<DurableRecord>) -> Delivery<DurableRecord> {
    let mut hasher = DefaultHasher::new();
    record.callbacks[usize::from(key.index)].transfer.hash(&mut hasher);
    let bytes = record.payload.headers.len() + record.payload.body.len();
    let awaits_answer = record.asker == Some(key.target);
    Delivery { key, order: hasher.finish(), bytes, awaits_answer, record: Arc::clone(record) }
}

/// Brings what the engine lets go to the lanes.
pub struct CourierEffects {
    /// Takes what operators want sent again.
    pub courier: crate::lanes::Courier<DurableRecord>,
    /// Takes what has become durable.
    pub outlet: Outlet<DurableRecord>,
    /// Told of changes of participants.
    pub participants: SharedParticipants,
}

impl Effects for CourierEffects {
    fn publish(&mut self, record: &Arc<DurableRecord>) {
        for key in record.keys() {
            self.outlet.offer(delivery(key, record));
        }
    }

    fn redeliver(&mut self, keys: &[CallbackKey]) {
        self.courier.redeliver(keys);
    }

    fn flush(&mut self) {
        self.outlet.flush();
    }

    fn participants(&mut self, participants: Arc<Participants>) {
        self.participants.set(participants);
    }

    fn answers(&self) -> Option<Arc<dyn Answered>> {
        Some(Arc::new(Answers(self.courier.clone())))
    }
}

/// Lets callbacks go whose targets have their answers.
struct Answers(crate::lanes::Courier<DurableRecord>);

impl Answered for Answers {
    fn answered(&self, records: &[Arc<DurableRecord>]) {
        self.0.answered(records.iter().flat_map(|record| to_asker(record)));
    }
}

/// The callbacks of a record that wait for the answer to it.
pub fn to_asker(record: &DurableRecord) -> impl Iterator<Item = CallbackKey> {
    record.keys().filter(|key| record.asker == Some(key.target))
}

/// The engine's outbox as the courier needs it. The engine is put in once it runs.
#[derive(Clone, Default)]
pub struct OutboxBacklog(pub Arc<OnceLock<EngineHandle>>);

impl OutboxBacklog {
    fn engine(&self) -> Result<&EngineHandle, BacklogError> {
        self.0.get().ok_or_else(|| BacklogError { reason: "the engine is not running yet".to_owned() })
    }

    async fn page(
        &self,
        target: ParticipantId,
        after: Option<Position>,
        room: Room,
    ) -> Result<Page<DurableRecord>, BacklogError> {
        let failed = |error: upesi_engine::SubmitError| BacklogError { reason: error.to_string() };
        let items_max = room.items.max(1);
        let found = self.engine()?.pending_callbacks(target, after, items_max + 1).await.map_err(failed)?;
        let mut page = Page { more: found.len() > items_max, items: Vec::with_capacity(found.len()) };
        let mut bytes = 0;
        for PendingCallback { key, record } in found.into_iter().take(items_max) {
            if bytes >= room.bytes && !page.items.is_empty() {
                page.more = true;
                break;
            }
            let item = delivery(key, &record);
            bytes += item.bytes;
            page.items.push(item);
        }
        Ok(page)
    }

    fn report(&self, command: Command) {
        let reported = self.0.get().map(|engine| engine.submit_quietly(command));
        if let Some(Err(error)) = reported {
            // The callback stays in the outbox and is repeated after a restart.
            tracing::warn!(%error, "a delivery report was lost");
        }
    }
}

impl Backlog<DurableRecord> for OutboxBacklog {
    fn pending(
        &self,
        target: ParticipantId,
        after: Option<Position>,
        room: Room,
    ) -> BacklogFuture<'_, Page<DurableRecord>> {
        Box::pin(self.page(target, after, room))
    }

    fn keys(
        &self,
        target: ParticipantId,
        after: Option<Position>,
        limit: usize,
    ) -> BacklogFuture<'_, Vec<CallbackKey>> {
        Box::pin(async move {
            let found = self.engine()?.pending_keys(target, after, limit).await;
            found.map_err(|error| BacklogError { reason: error.to_string() })
        })
    }

    fn load(&self, keys: Vec<CallbackKey>) -> BacklogFuture<'_, Vec<Delivery<DurableRecord>>> {
        Box::pin(async move {
            let failed = |error: upesi_engine::SubmitError| BacklogError { reason: error.to_string() };
            let engine = self.engine()?;
            let still_owed = move |ledger: &upesi_ledger::Ledger| {
                let is_owed =
                    |key: &CallbackKey| ledger.outbox().get(*key).is_some_and(|entry| entry.parked.is_none());
                keys.into_iter().filter(is_owed).collect()
            };
            let keys = engine.read(still_owed).await.map_err(failed)?;
            let found = engine.callbacks(keys).await.map_err(failed)?;
            Ok(found.into_iter().map(|pending| delivery(pending.key, &pending.record)).collect())
        })
    }

    fn delivered(&self, keys: Vec<CallbackKey>) {
        self.report(Command::Delivered(keys));
    }

    fn parked(&self, key: CallbackKey, reason: String, attempts: u32) {
        self.report(Command::Park { key, attempts, reason: reason.into_boxed_str() });
    }
}

#[cfg(test)]
mod tests {
    use upesi_engine::Payload;
    use upesi_ledger::{PublicState, TransferRef, TransferView};

    use super::*;

    #[test]
    fn what_one_party_tells_the_other_is_timed_and_what_the_hub_says_is_not() {
        const AGO_MS: i64 = 3_600_000;
        let time = SystemClock.now().plus_ms(-AGO_MS);
        let state = |method, completed_at| {
            let state = PublicState::Committed;
            let view = TransferView { state, completed_at, fulfilment: None, extensions: None };
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
            // Answers to somebody who asks.
            (state(StateMethod::Put, Some(time.plus_ms(-1))), None),
            (state(StateMethod::Put, None), None),
        ];
        let notice = |content: &CallbackContent| Callback {
            target: ParticipantId::HUB,
            transfer: TransferRef::Text("t".into()),
            content: content.clone(),
        };
        let notices = cases.iter().map(|(content, _)| notice(content)).collect();
        let prepared_before = Some(Duration::from_secs(100));
        let mut record = DurableRecord {
            seq: 7,
            time,
            callbacks: notices,
            payload: Payload::default(),
            prepared_before,
            asker: None,
        };
        let renderer =
            CallbackRenderer { participants: SharedParticipants::default(), version: Version::V1_1 };
        for (key, (content, expected)) in record.keys().zip(&cases) {
            let (found, took) = match renderer.leg(key, &record) {
                None => (None, None),
                Some(Leg::Prepare(took)) => (prepare, Some(took)),
                Some(Leg::Fulfil { took, in_all }) => {
                    assert_eq!(in_all, Some(took + Duration::from_secs(100)), "{content:?}");
                    (fulfil, Some(took))
                }
            };
            assert_eq!(found, *expected, "{content:?}");
            let took_s = took.map_or(3_600, |took| took.as_secs());
            assert!((3_600..3_660).contains(&took_s), "{content:?} took {took_s} s");
        }
        // By a clock that was put back since.
        record.time = SystemClock.now().plus_ms(AGO_MS);
        let key = CallbackKey { target: ParticipantId::HUB, seq: 7, index: 0 };
        assert_eq!(renderer.leg(key, &record), Some(Leg::Prepare(Duration::ZERO)));
        assert_eq!(renderer.leg(CallbackKey { index: 9, ..key }, &record), None);
    }
}
