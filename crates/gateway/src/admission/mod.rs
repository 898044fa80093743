//! Admission: decides by the head alone whether a request is accepted.
//!
//! While new work is not limited, a request costs a few loads and stores in its worker's own memory. A request with a
//! body also updates its sender's share of bytes. Everything else is done once per interval by the first request in it,
//! and only under a limit.

mod byte_shares;
mod delay_probe;
mod engine_backlog;
mod metrics;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use upesi_admission::{
    Admission, AdmissionConfig, AdmissionInterval, Class, INTERVAL_MS, ORDINARY_BODY_BYTES_MAX, SourceId,
    quota_of_rate,
};
use upesi_engine::{Participants, SharedParticipants};
use upesi_fspiop::SyncError;
use upesi_ledger::ParticipantId;
use upesi_types::{ErrorCode, FspId};

use self::byte_shares::ByteShares;
use self::delay_probe::DelayProbes;
use self::engine_backlog::{EngineBacklog, InFlight};
use self::metrics::AdmissionMetrics;
pub use self::settings::AdmissionSettings;
use crate::caller::Caller;

/// Number of DFSPs that are remembered under a limit. A scheme has far fewer that are busy at the same time.
const SOURCES_MAX: usize = 4_096;
const INTERVAL_NS: u64 = INTERVAL_MS * 1_000_000;

/// Reason why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The hub is overloaded, and the sender has used its share.
    Overload,
    /// The sender exceeds the rate limit of each DFSP.
    Rate,
    /// The sender exceeds the byte rate limit of each DFSP.
    Bytes,
    /// A command would wait too long for the engine.
    Engine,
    /// The sender exceeds its rate limit for lookups.
    Lookups,
    /// The sender has looked up too many parties that no DFSP serves.
    Misses,
    /// The sender exceeds its rate limit for changes of the directory.
    Registrations,
    /// The sender is blocked temporarily, because it sent too many wrong signatures.
    Blocked,
}

impl Refusal {
    pub(crate) const ALL: [Self; 8] = [
        Self::Overload,
        Self::Rate,
        Self::Bytes,
        Self::Engine,
        Self::Lookups,
        Self::Misses,
        Self::Registrations,
        Self::Blocked,
    ];

    const fn detail(self) -> &'static str {
        match self {
            Self::Overload | Self::Engine => "try again later",
            Self::Rate => "more requests per second than this scheme allows a DFSP",
            Self::Bytes => "more bytes per second than this scheme allows a DFSP",
            Self::Lookups => "more lookups per second than this scheme allows a DFSP",
            Self::Misses => "more lookups of unknown parties per second than this scheme allows a DFSP",
            Self::Registrations => "more registrations per second than this scheme allows a DFSP",
            Self::Blocked => "too many invalid signatures",
        }
    }

    fn error(self) -> SyncError {
        SyncError::new(ErrorCode::SERVER_BUSY, self.detail())
    }
}

impl From<upesi_admission::Refusal> for Refusal {
    fn from(refusal: upesi_admission::Refusal) -> Self {
        match refusal {
            upesi_admission::Refusal::Overload => Self::Overload,
            upesi_admission::Refusal::Rate => Self::Rate,
        }
    }
}

/// Class of requests with this method.
pub(crate) fn class_of(method: &Method) -> Class {
    if matches!(*method, Method::PUT | Method::PATCH) { Class::Finishing } else { Class::New }
}

#[derive(Debug)]
pub(crate) struct AdmissionGate {
    settings: AdmissionSettings,
    started: Instant,
    participants: SharedParticipants,
    probes: DelayProbes,
    bytes: ByteShares,
    engine: EngineBacklog,
    next_interval_ns: AtomicU64,
    /// By [`Class`].
    is_open: [AtomicBool; 2],
    core: Mutex<AdmissionState>,
    metrics: AdmissionMetrics,
    /// Prepared answers by [`Refusal`], so that a rejection costs as little as possible.
    bodies: [Bytes; Refusal::ALL.len()],
}

#[derive(Debug)]
struct AdmissionState {
    admission: Admission,
    last_interval_ns: u64,
}

/// The participant's number in rate limits and shares; all other names have the same number.
pub(crate) fn source_of(participants: &Participants, name: Option<FspId>) -> SourceId {
    let known = name.and_then(|name| participants.named(&name));
    known.map_or(SourceId::OTHERS, |participant| SourceId(participant.id.number()))
}

impl AdmissionGate {
    /// Creates the admission. All unknown senders together get the share of one participant.
    pub(crate) fn new(
        settings: AdmissionSettings,
        participants: SharedParticipants,
        registry: &mut Registry,
    ) -> Self {
        let quota = |rate: u64| (rate > 0).then(|| quota_of_rate(rate));
        let admission = Admission::new(AdmissionConfig {
            delay_target_us: u32::try_from(settings.delay_target.as_micros()).unwrap_or(u32::MAX),
            quota: quota(settings.rate_max),
            quota_per_source: quota(settings.rate_per_dfsp),
            sources_max: SOURCES_MAX,
        });
        Self {
            started: Instant::now(),
            participants,
            probes: DelayProbes::default(),
            bytes: ByteShares::new(settings.bytes_per_dfsp),
            engine: EngineBacklog::new(&settings),
            next_interval_ns: AtomicU64::new(INTERVAL_NS),
            is_open: Class::ALL.map(|class| AtomicBool::new(admission.is_open(class))),
            core: Mutex::new(AdmissionState { admission, last_interval_ns: 0 }),
            metrics: AdmissionMetrics::register(registry),
            bodies: Refusal::ALL.map(|refusal| Bytes::from(refusal.error().to_body())),
            settings,
        }
    }

    /// Decides whether to accept a request whose body announces `body_bytes`; a body of unknown length counts as one
    /// byte. Must be called on a worker's runtime.
    pub(crate) fn ask(
        &self,
        class: Class,
        caller: Caller<'_>,
        body_bytes: u64,
        received: Instant,
    ) -> Result<(), Refusal> {
        let now_ns = self.ns(received);
        let probe = self.probes.of_this_worker();
        probe.probe(now_ns);
        if now_ns >= self.next_interval_ns.load(Ordering::Relaxed) {
            self.end_interval(now_ns);
        }
        let is_counted = body_bytes > 0 && self.bytes.are_bounded();
        if is_counted && !self.bytes.take(class, self.source(caller), body_bytes, now_ns) {
            self.note(class, Refusal::Bytes, caller);
            return Err(Refusal::Bytes);
        }
        if self.is_open[class as usize].load(Ordering::Relaxed) && body_bytes <= ORDINARY_BODY_BYTES_MAX {
            probe.take(class);
            return Ok(());
        }
        let source = self.source(caller);
        let answer = self.core().admission.ask_for(class, source, body_bytes).map_err(Refusal::from);
        match answer {
            Ok(()) => self.metrics.take(class, 1),
            Err(refusal) => self.metrics.refuse(class, refusal),
        }
        answer
    }

    /// Charges an accepted request for bytes of its body that it had not announced.
    pub(crate) fn charge(&self, class: Class, caller: Caller<'_>, body_bytes: u64, received: Instant) {
        let source = self.source(caller);
        self.bytes.charge(class, source, body_bytes, self.ns(received));
        if body_bytes > ORDINARY_BODY_BYTES_MAX {
            self.core().admission.charge(class, source, body_bytes);
        }
    }

    /// Whether the engine can process a new command soon.
    pub(crate) fn ask_engine(&self, class: Class, received: Instant) -> Result<(), Refusal> {
        if class == Class::Finishing || !self.engine.is_behind(self.ns(received)) {
            return Ok(());
        }
        self.metrics.refuse(class, Refusal::Engine);
        Err(Refusal::Engine)
    }

    /// Starts to count a command as waiting for the engine.
    pub(crate) fn enter_engine(&self) -> InFlight<'_> {
        self.engine.enter(self.started)
    }

    /// Counts a rejection over the sender's rate limit.
    pub(crate) fn note(&self, class: Class, refusal: Refusal, caller: Caller<'_>) {
        self.metrics.refuse(class, refusal);
        self.metrics.refuse_source(self.name(self.source(caller)), 1);
    }

    /// The error and its prepared body.
    pub(crate) fn body(&self, refusal: Refusal) -> (SyncError, Bytes) {
        (refusal.error(), self.bodies[refusal as usize].clone())
    }

    /// Delay before a rejection is sent. Usually there is none. If there are very many rejections, the delay keeps
    /// senders that retry immediately from using the time of finishing requests.
    pub(crate) fn refusal_delay(&self) -> Option<Duration> {
        let must_wait = self.probes.of_this_worker().refuse() && !self.settings.refusal_hold.is_zero();
        must_wait.then(|| {
            self.metrics.delay_refusal();
            self.settings.refusal_hold
        })
    }

    fn ns(&self, instant: Instant) -> u64 {
        u64::try_from(instant.saturating_duration_since(self.started).as_nanos()).unwrap_or(u64::MAX)
    }

    fn core(&self) -> MutexGuard<'_, AdmissionState> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the sender is a participant.
    pub(crate) fn knows(&self, caller: Caller<'_>) -> bool {
        self.source(caller) != SourceId::OTHERS
    }

    /// The sender's number in rate limits and shares.
    pub(crate) fn source(&self, caller: Caller<'_>) -> SourceId {
        if let Some(identity) = caller.identity() {
            return SourceId(identity.number);
        }
        source_of(&self.participants.get(), caller.source())
    }

    /// Ends the intervals that are over, unless another worker is doing so.
    fn end_interval(&self, now_ns: u64) {
        let Ok(mut core) = self.core.try_lock() else { return };
        let intervals = now_ns.saturating_sub(core.last_interval_ns) / INTERVAL_NS;
        if intervals == 0 {
            return;
        }
        self.next_interval_ns.store(now_ns + INTERVAL_NS, Ordering::Relaxed);
        core.last_interval_ns = now_ns;
        let seen = self.probes.end_interval();
        self.engine.end_interval(intervals);
        for (source, count) in core.admission.refused() {
            self.metrics.refuse_source(self.name(source), count);
        }
        core.admission.end_interval(AdmissionInterval {
            delay_us: seen.delay_us,
            taken: seen.taken,
            intervals,
        });
        for class in Class::ALL {
            self.is_open[class as usize].store(core.admission.is_open(class), Ordering::Relaxed);
            self.metrics.take(class, seen.taken[class as usize]);
        }
        self.metrics.show(seen.delay_us, core.admission.limit(), self.engine.waiting());
    }

    fn name(&self, source: SourceId) -> Option<FspId> {
        self.participants.get().name(ParticipantId::new(source.0)?)
    }
}
