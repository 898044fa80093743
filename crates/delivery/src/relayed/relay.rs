//! Sends messages, and error callbacks to the senders of messages that are not delivered.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout_at};
use upesi_engine::{Clock, Participants, RequestKind, SharedParticipants};
use upesi_fspiop::headers::{Forward, MessageSource, SpanId, TraceId};
use upesi_fspiop::{SyncError, Versions};
use upesi_ledger::ParticipantId;
use upesi_types::{ErrorCode, FspId, Timestamp};

use crate::relayed::{
    Address, Author, ErrorInformation, Failure, Outgoing, RelayMetrics, ResponseCounters, Transport,
    TransportError,
};
use crate::render::{Message, Url};
use crate::{OutgoingRequest, Request, Shares, Unroutable, share_of};

/// Limits of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayConfig {
    /// Maximum number of accepted requests with messages that are not yet delivered or given up; further requests are
    /// rejected with 2005.
    pub in_flight_max: usize,
    /// Maximum number of bytes of those requests; further ones are rejected in the same way. A single request may
    /// exceed it.
    pub bytes_max: usize,
    /// Maximum number of bytes of the requests of one sender.
    pub sender_bytes_max: usize,
    /// Share of `in_flight_max` for the requests of one sender, in percent.
    pub sender_share_percent: usize,
    /// Whether answers are forwarded from DFSPs that received no request.
    pub unasked_answers: bool,
    /// Versions of the messages that the hub creates, by resource.
    pub versions: Versions,
}

impl Default for RelayConfig {
    fn default() -> Self {
        Self {
            in_flight_max: 16_384,
            bytes_max: 64 * 1024 * 1024,
            sender_bytes_max: 32 * 1024 * 1024,
            sender_share_percent: 25,
            unasked_answers: false,
            versions: Versions::default(),
        }
    }
}

/// Forwards messages. Cheap to clone.
#[derive(Clone)]
pub struct Relay {
    inner: Arc<Inner>,
}

struct Inner {
    config: RelayConfig,
    participants: SharedParticipants,
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
    metrics: RelayMetrics,
    room: Arc<Semaphore>,
    /// Bytes of the admitted requests.
    bytes: AtomicUsize,
    /// The share of each sender, by the number of the liable participant.
    shares: Shares<u32>,
    spans: AtomicU64,
    span_hasher: RandomState,
}

impl Inner {
    /// The number of the participant that is liable for a sender; all names that are not participants share 0.
    fn sender(&self, name: &FspId) -> u32 {
        let participants = self.participants.get();
        participants.named(name).map_or(0, |sender| participants.liable(sender).id.number())
    }
}

/// Capacity for one accepted request, returned on drop.
pub struct Permit {
    _permit: OwnedSemaphorePermit,
    bytes: usize,
    /// The sender whose share is used.
    sender: u32,
    inner: Arc<Inner>,
}

impl Permit {
    /// Returns capacity: the request now holds only this number of bytes.
    pub fn shrink_to(&mut self, bytes: usize) {
        let freed = self.bytes.saturating_sub(bytes);
        self.inner.shares.shrink(self.sender, freed);
        self.release(freed);
    }

    fn release(&mut self, freed: usize) {
        self.bytes -= freed;
        self.inner.bytes.fetch_sub(freed, Ordering::Relaxed);
        self.inner.metrics.bytes.dec_by(as_gauge(freed));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.inner.shares.give_back(self.sender, self.bytes);
        self.release(self.bytes);
        self.inner.metrics.in_flight.dec();
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Permit").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

fn as_gauge(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Relay {
    /// Creates a relay over a transport.
    pub fn new(
        config: RelayConfig,
        participants: SharedParticipants,
        transport: Arc<dyn Transport>,
        clock: Arc<dyn Clock>,
        metrics: RelayMetrics,
    ) -> Self {
        let room = Arc::new(Semaphore::new(config.in_flight_max));
        let share = share_of(config.in_flight_max, config.sender_share_percent);
        let shares = Shares::new(share, config.sender_bytes_max);
        let (spans, span_hasher) = (AtomicU64::new(0), RandomState::new());
        let inner = Inner {
            config,
            participants,
            transport,
            clock,
            metrics,
            room,
            bytes: AtomicUsize::new(0),
            shares,
            spans,
            span_hasher,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The current participants.
    pub fn participants(&self) -> Arc<Participants> {
        self.inner.participants.get()
    }

    /// The participant that is liable for a name: its proxy, if it is behind one. `None` if the name is not a
    /// participant.
    pub fn liable(&self, name: &FspId) -> Option<ParticipantId> {
        let participants = self.participants();
        participants.named(name).map(|participant| participants.liable(participant).id)
    }

    /// Whether answers are forwarded from DFSPs that received no request.
    pub fn takes_unasked_answers(&self) -> bool {
        self.inner.config.unasked_answers
    }

    /// The counters for the outcomes of requests of one kind.
    pub fn timed(&self, kind: RequestKind) -> ResponseCounters {
        let responses = self.inner.metrics.response_times.clone();
        ResponseCounters { kind, responses, clock: Arc::clone(&self.inner.clock) }
    }

    /// The present instant.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// Reserves capacity for a sender's request of this number of bytes, until all messages that it causes are
    /// delivered or given up.
    ///
    /// Errors: 503 with 2005 if the capacity is used up, in total or for this sender; nothing was accepted.
    pub fn admit(&self, sender: &FspId, bytes: usize) -> Result<Permit, SyncError> {
        let busy = || SyncError::new(ErrorCode::SERVER_BUSY, "Try again later");
        let inner = &self.inner;
        let permit = Arc::clone(&inner.room).try_acquire_owned().map_err(|_| busy())?;
        let sender = inner.sender(sender);
        if !inner.shares.take(sender, bytes) {
            return Err(busy());
        }
        // Counted before the comparison, so that two requests cannot take the last slot; dropping the permit releases
        // it.
        let before = inner.bytes.fetch_add(bytes, Ordering::Relaxed);
        inner.metrics.bytes.inc_by(as_gauge(bytes));
        inner.metrics.in_flight.inc();
        let permit = Permit { _permit: permit, bytes, sender, inner: Arc::clone(inner) };
        let has_room = before == 0 || before.saturating_add(bytes) <= inner.config.bytes_max;
        if has_room { Ok(permit) } else { Err(busy()) }
    }

    /// Waits until no accepted request is being forwarded, or until the deadline; returns the number that is left.
    pub async fn drain(&self, deadline: Instant) -> usize {
        let max = self.inner.config.in_flight_max;
        let all = u32::try_from(max).unwrap_or(u32::MAX);
        let _ = timeout_at(deadline, self.inner.room.acquire_many(all)).await;
        max - self.inner.room.available_permits()
    }

    /// Sends a message and waits for its receiver's answer, which must be 2xx.
    pub async fn send(&self, message: &Outgoing) -> Result<(), Failure> {
        if !message.waits.is_zero() {
            sleep(message.waits).await;
        }
        let started = Instant::now();
        let mut result = self.attempt(message).await;
        if let Err(Failure::Transport(TransportError::Stale)) = result {
            // Receivers recognise a repetition.
            result = self.attempt(message).await;
        }
        self.inner.metrics.count(message, result.as_ref().copied(), started.elapsed().as_secs_f64());
        result
    }

    async fn attempt(&self, message: &Outgoing) -> Result<(), Failure> {
        let (receiver, request) = self.render(message)?;
        let answer = self.inner.transport.send(receiver, request).await?;
        if answer.status.is_success() {
            return Ok(());
        }
        Err(Failure::Refused { status: answer.status.as_u16(), error: ErrorInformation::read(&answer.body) })
    }

    /// Finds the receiver of a message and renders its request.
    pub(crate) fn render(&self, message: &Outgoing) -> Result<(ParticipantId, OutgoingRequest), Unroutable> {
        let participants = self.participants();
        let receiver = participants.named(&message.receiver).ok_or(Unroutable::UnknownReceiver)?;
        let hub = participants.hub_name();
        let source = match &message.author {
            Author::Sender(name) => MessageSource::Dfsp { name: name.as_str() },
            Author::Hub => MessageSource::Hub {
                name: hub.as_ref().map_or("Hub", FspId::as_str),
                version: self.inner.config.versions.hub_made_of(message.resource),
                now: self.now(),
                trace_id: self.trace_id(),
            },
        };
        let query = message.query.as_deref();
        let rendered = Message {
            receiver,
            endpoint: message.address.endpoint(),
            url: match message.address {
                Address::Template(_) => Url::Path(query),
                Address::Base(_) => Url::Base(query),
            },
            forward: Forward {
                source,
                receiver: message.receiver.as_str(),
                resource: message.resource,
                method: message.method,
                uri: &message.path,
                span_id: self.span_id(),
            },
            caused_by: &message.headers,
            additions: message.additions.as_deref(),
            body: message.body.clone(),
        };
        let sender = self.liable(&message.sender);
        Ok((receiver.id, OutgoingRequest { sender, ..rendered.into_request()? }))
    }

    /// Sends an error callback of the hub because of `request`. If that is not delivered either, it is counted and
    /// logged.
    pub async fn send_error<I>(
        &self,
        request: &Request<I>,
        receiver: FspId,
        address: Address,
        path: Box<str>,
        error: &ErrorInformation,
    ) {
        let message = request.answer(receiver, address, path, error.to_body());
        if let Err(failure) = self.send(&message).await {
            tracing::warn!(
                receiver = receiver.as_str(),
                path = &*message.path,
                %error,
                %failure,
                "cannot deliver an error callback"
            );
        }
    }

    fn span_id(&self) -> SpanId {
        let drawn = self.inner.spans.fetch_add(1, Ordering::Relaxed);
        // A span id must not be zero.
        self.inner.span_hasher.hash_one(drawn).max(1).to_be_bytes()
    }

    fn trace_id(&self) -> TraceId {
        let (high, low) = (self.span_id(), self.span_id());
        std::array::from_fn(|at| if at < high.len() { high[at] } else { low[at - high.len()] })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use prometheus_client::registry::Registry;
    use upesi_engine::{ReplyTo, SystemClock};
    use upesi_fspiop::headers::Parties;
    use upesi_fspiop::{Method, Route};
    use upesi_http::{Answer, Bytes, HeaderMap, StatusCode};
    use upesi_ledger::Participant;

    use super::*;
    use crate::relayed::TransportFuture;

    /// Answers from the end of a list.
    struct Scripted(Mutex<Vec<Result<u16, TransportError>>>);

    impl Transport for Scripted {
        fn send(&self, _receiver: ParticipantId, _request: OutgoingRequest) -> TransportFuture<'_> {
            let next = self.0.lock().unwrap().pop().expect("one message too many");
            let answer = |status| Answer {
                status: StatusCode::from_u16(status).unwrap(),
                headers: HeaderMap::new(),
                body: Bytes::new(),
            };
            Box::pin(async move { next.map(answer) })
        }
    }

    fn relay(answers: &[Result<u16, TransportError>], in_flight_max: usize) -> (Relay, Arc<Scripted>) {
        relay_in(&mut Registry::default(), answers, in_flight_max)
    }

    fn relay_in(
        registry: &mut Registry,
        answers: &[Result<u16, TransportError>],
        in_flight_max: usize,
    ) -> (Relay, Arc<Scripted>) {
        let participant = |number, name: &str| Participant {
            endpoints: vec![(upesi_ledger::EndpointType::QUOTES, "http://greenbank".into())],
            ..Participant::new(
                ParticipantId::new(number).unwrap(),
                FspId::parse(name).unwrap(),
                Timestamp::from_ns(0),
            )
        };
        let participants = SharedParticipants::default();
        let all = vec![participant(1, "Hub"), participant(2, "greenbank"), participant(3, "bluebank")];
        participants.set(Arc::new(Participants::new(all, &[])));
        let script = Arc::new(Scripted(Mutex::new(answers.iter().rev().cloned().collect())));
        let metrics = RelayMetrics::register(registry);
        let config = RelayConfig { in_flight_max, sender_share_percent: 100, ..RelayConfig::default() };
        (Relay::new(config, participants, script.clone(), Arc::new(SystemClock), metrics), script)
    }

    fn named(name: &str) -> FspId {
        FspId::parse(name).unwrap()
    }

    fn message() -> Outgoing {
        Outgoing {
            receiver: FspId::parse("greenbank").unwrap(),
            address: Address::Base(upesi_ledger::EndpointType::QUOTES),
            method: upesi_fspiop::Method::Put,
            resource: upesi_fspiop::Resource::Quotes,
            path: "/quotes/x".into(),
            query: None,
            author: crate::relayed::Author::Sender(FspId::parse("bluebank").unwrap()),
            sender: FspId::parse("bluebank").unwrap(),
            headers: Bytes::new(),
            additions: None,
            body: Bytes::new(),
            waits: Duration::ZERO,
        }
    }

    #[tokio::test]
    async fn message_is_repeated_only_after_a_closed_idle_connection() {
        let refused = |status| Err(Failure::Refused { status, error: None });
        let stale = Err(TransportError::Stale);
        let dead = || TransportError::Unreachable("refused".to_owned());
        for (answers, expected) in [
            (&[Ok(202)][..], Ok(())),
            (&[stale.clone(), Ok(200)], Ok(())),
            (&[stale.clone(), Err(dead())], Err(dead().into())),
            (&[stale.clone(), stale.clone()], Err(TransportError::Stale.into())),
            (&[Err(dead())], Err(dead().into())),
            (&[Ok(503)], refused(503)),
        ] {
            let (relay, script) = relay(answers, 1);
            assert_eq!(relay.send(&message()).await, expected, "{answers:?}");
            assert!(script.0.lock().unwrap().is_empty(), "{answers:?}");
        }
    }

    #[tokio::test]
    async fn sent_lookup_messages_are_counted_with_mojaloops_label() {
        let dead = Err(TransportError::Unreachable("refused".to_owned()));
        let answers = [Ok(202), Ok(202), Ok(200), Ok(503), dead, Err(TransportError::Barred)];
        let mut registry = Registry::default();
        let (relay, script) = relay_in(&mut registry, &answers, 1);
        relay.send(&message()).await.unwrap();
        let of = |resource| Outgoing { resource, path: "/parties/MSISDN/1".into(), ..message() };
        relay.send(&of(upesi_fspiop::Resource::Participants)).await.unwrap();
        let lookup = of(upesi_fspiop::Resource::Parties);
        relay.send(&lookup).await.unwrap();
        for _ in 0..3 {
            relay.send(&lookup).await.unwrap_err();
        }
        let nobody = Outgoing { receiver: FspId::parse("nobody").unwrap(), ..lookup };
        assert_eq!(relay.send(&nobody).await, Err(Failure::Unroutable(Unroutable::UnknownReceiver)));
        assert!(script.0.lock().unwrap().is_empty());
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for expected in [r#"_count{success="true"} 2"#, r#"_count{success="false"} 2"#] {
            let line = format!("moja_als_egress_sendRequestToParticipant{expected}");
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn undelivered_error_is_sent_only_once() {
        let Route { operation, segments } =
            Route::resolve(Method::parse("GET"), "/parties/MSISDN/1").unwrap();
        let mut request = Request {
            operation,
            ids: segments.check(operation.resource(), false).unwrap(),
            query: None,
            parties: Parties { source: named("greenbank"), destination: None, proxied: false },
            version: None,
            message: upesi_fspiop::Message::Other,
            headers: Bytes::new(),
            body: Bytes::new(),
            reply_to: ReplyTo::Dfsp,
        };
        let address = Address::Base(upesi_ledger::EndpointType::QUOTES);
        let error = ErrorInformation::new(ErrorCode::CLIENT, "");
        for answer in [202, 503] {
            let (relay, script) = relay(&[Ok(answer)], 1);
            let begun = Instant::now();
            relay.send_error(&request, named("greenbank"), address, request.error_path(), &error).await;
            assert!(script.0.lock().unwrap().is_empty());
            assert!(relay.participants().named(&named("greenbank")).is_some());
            assert_eq!(
                begun.elapsed(),
                request.reply_to.takes(),
                "it waits for the answer, which another node passes on"
            );
            request.reply_to = ReplyTo::Node;
        }
    }

    #[tokio::test]
    async fn places_are_limited_and_a_drain_waits_for_their_return() {
        let (relay, _script) = relay(&[], 2);
        let permits =
            (relay.admit(&named("greenbank"), 1).unwrap(), relay.admit(&named("greenbank"), 1).unwrap());
        assert_eq!(relay.admit(&named("greenbank"), 1).unwrap_err().code, ErrorCode::SERVER_BUSY);
        drop(permits.0);
        let third = relay.admit(&named("greenbank"), 1).unwrap();
        assert_eq!(relay.drain(Instant::now()).await, 2);
        drop((permits.1, third));
        assert_eq!(relay.drain(Instant::now()).await, 0);
    }

    #[test]
    fn bytes_in_flight_are_limited_and_returned() {
        let (relay, _script) = relay(&[], 100);
        let max = relay.inner.config.bytes_max;
        let [greenbank, other] = ["greenbank", "nobody"].map(named);
        let held = || relay.inner.bytes.load(Ordering::Relaxed);
        drop(relay.admit(&greenbank, max + 1).unwrap());
        let mut first = relay.admit(&greenbank, max - 10).unwrap();
        let second = relay.admit(&other, 10).unwrap();
        assert_eq!(relay.admit(&other, 1).unwrap_err().code, ErrorCode::SERVER_BUSY);
        assert_eq!(held(), max, "a rejected request holds no capacity");
        drop(second);
        first.shrink_to(30);
        first.shrink_to(40);
        assert_eq!((held(), relay.inner.metrics.bytes.get()), (30, 30));
        let third = relay.admit(&other, max - 30).unwrap();
        assert!(relay.admit(&other, 1).is_err());
        drop((first, third));
        assert_eq!((held(), relay.inner.metrics.bytes.get(), relay.inner.metrics.in_flight.get()), (0, 0, 0));
    }

    #[test]
    fn one_sender_leaves_room_for_the_others() {
        let (relay, _script) = relay(&[], 100);
        let (max, share) = (relay.inner.config.bytes_max, relay.inner.config.sender_bytes_max);
        assert!(share <= max / 2, "half of the room at most");
        let [greenbank, bluebank, stranger] = ["greenbank", "bluebank", "nobody"].map(named);
        let mut first = relay.admit(&greenbank, share - 10).unwrap();
        assert_eq!(relay.admit(&greenbank, 11).unwrap_err().code, ErrorCode::SERVER_BUSY);
        let second = relay.admit(&greenbank, 10).unwrap();
        assert!(relay.admit(&greenbank, 1).is_err(), "a rejected request holds no capacity");
        let others = (relay.admit(&bluebank, share - 7).unwrap(), relay.admit(&stranger, 7).unwrap());
        first.shrink_to(3);
        let third = relay.admit(&greenbank, share - 13).unwrap();
        assert!(relay.admit(&greenbank, 1).is_err());
        drop((second, third, others));
        // A single message may be larger than the share.
        drop(first);
        drop(relay.admit(&greenbank, share + 1).unwrap());
    }

    #[test]
    fn one_sender_leaves_places_for_the_others() {
        let (relay, _script) = relay(&[], 8);
        let config = RelayConfig { in_flight_max: 8, ..RelayConfig::default() };
        let relay = Relay::new(
            config,
            relay.inner.participants.clone(),
            relay.inner.transport.clone(),
            relay.inner.clock.clone(),
            relay.inner.metrics.clone(),
        );
        let [greenbank, bluebank, stranger] = ["greenbank", "bluebank", "nobody"].map(named);
        let two = |name: &FspId| [(); 2].map(|()| relay.admit(name, 1).unwrap());
        let held = [two(&greenbank), two(&bluebank), two(&stranger)];
        for name in ["greenbank", "bluebank", "nobody", "somebody"] {
            let refusal = relay.admit(&named(name), 1).unwrap_err();
            assert_eq!((refusal.status, refusal.code), (503, ErrorCode::SERVER_BUSY), "{name}");
        }
        drop(held);
        two(&greenbank);
    }
}
