//! Sends messages, and tells their senders where it cannot.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use upesi_engine::{Clock, Participants, SharedParticipants};
use upesi_fspiop::headers::SpanId;
use upesi_fspiop::{SyncError, Versions};
use upesi_types::{ErrorCode, FspId, Timestamp};

use crate::render::Context;
use crate::{Address, ErrorInformation, Failure, Outgoing, Received, RelayMetrics, Transport};

/// The bounds of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayConfig {
    /// Accepted requests whose messages are not all delivered or given up; above it requests are refused with 2005.
    pub in_flight_max: usize,
    /// Which version the messages that the hub makes have, by family.
    pub versions: Versions,
}

impl Default for RelayConfig {
    fn default() -> Self {
        Self { in_flight_max: 16_384, versions: Versions::default() }
    }
}

/// Passes messages on. Cheap to clone.
#[derive(Clone)]
pub struct Relay {
    shared: Arc<Shared>,
}

struct Shared {
    config: RelayConfig,
    participants: SharedParticipants,
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
    metrics: RelayMetrics,
    room: Arc<Semaphore>,
    spans: AtomicU64,
    span_hasher: RandomState,
}

/// Room for one accepted request, given back when it is dropped.
#[derive(Debug)]
pub struct Ticket {
    _permit: OwnedSemaphorePermit,
    in_flight: prometheus_client::metrics::gauge::Gauge,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.in_flight.dec();
    }
}

impl Relay {
    /// A relay over a transport.
    pub fn new(
        config: RelayConfig,
        participants: SharedParticipants,
        transport: Arc<dyn Transport>,
        clock: Arc<dyn Clock>,
        metrics: RelayMetrics,
    ) -> Self {
        let room = Arc::new(Semaphore::new(config.in_flight_max));
        let (spans, span_hasher) = (AtomicU64::new(0), RandomState::new());
        let shared = Shared { config, participants, transport, clock, metrics, room, spans, span_hasher };
        Self { shared: Arc::new(shared) }
    }

    /// The participants of this moment.
    pub fn participants(&self) -> Arc<Participants> {
        self.shared.participants.get()
    }

    /// The present instant.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Takes room for a request, to be held until all messages it causes are delivered or given up.
    ///
    /// Errors: 503 with 2005 where there is none; nothing was accepted.
    pub fn admit(&self) -> Result<Ticket, SyncError> {
        let permit = Arc::clone(&self.shared.room).try_acquire_owned();
        let permit = permit.map_err(|_| SyncError::new(ErrorCode::SERVER_BUSY, "Try again later"))?;
        let in_flight = self.shared.metrics.in_flight.clone();
        in_flight.inc();
        Ok(Ticket { _permit: permit, in_flight })
    }

    /// Waits until no accepted request is being passed on, or until the deadline; gives how many are left.
    pub async fn drain(&self, deadline: Instant) -> usize {
        let max = self.shared.config.in_flight_max;
        let all = u32::try_from(max).unwrap_or(u32::MAX);
        let _ = timeout_at(deadline, self.shared.room.acquire_many(all)).await;
        max - self.shared.room.available_permits()
    }

    /// Sends a message and waits for its receiver's answer, which must be 2xx.
    pub async fn send(&self, message: &Outgoing) -> Result<(), Failure> {
        let started = Instant::now();
        let result = self.attempt(message).await;
        self.shared.metrics.count(message, result.as_ref().copied(), started.elapsed().as_secs_f64());
        result
    }

    async fn attempt(&self, message: &Outgoing) -> Result<(), Failure> {
        let (receiver, request) = {
            let participants = self.participants();
            let context = Context {
                participants: &participants,
                versions: &self.shared.config.versions,
                now: self.now(),
                span_id: self.span_id(),
            };
            context.request(message)?
        };
        let answer = self.shared.transport.send(receiver, request).await?;
        if answer.status.is_success() {
            return Ok(());
        }
        Err(Failure::Refused { status: answer.status.as_u16(), error: ErrorInformation::read(&answer.body) })
    }

    /// Sends an error callback of the hub's because of `request`. Where that does not arrive either, it is counted and
    /// logged; there is nobody left to tell.
    pub async fn tell(
        &self,
        request: &Received,
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
                "an error callback could not be delivered"
            );
        }
    }

    fn span_id(&self) -> SpanId {
        let drawn = self.shared.spans.fetch_add(1, Ordering::Relaxed);
        // Zero is not allowed.
        (self.shared.span_hasher.hash_one(drawn) | 1).to_be_bytes()
    }
}
