//! Rate limits of participants: lookups, lookups of parties that no DFSP serves, registrations, and wrong signatures.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use upesi_admission::{RateEvent, SourceId};
use upesi_engine::{Participants, SharedParticipants};
use upesi_fspiop::{Method, Operation, Resource};
use upesi_ledger::ParticipantId;
use upesi_types::FspId;

use crate::admission::Refusal;
use crate::caller::Caller;

/// Number of remembered participants; a scheme has fewer.
const SOURCES_MAX: usize = 10_000;

/// Limits of a participant per second; 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Lookups of parties.
    pub lookups: u64,
    /// Lookups of parties that no DFSP serves. The limit prevents enumeration of the directory.
    pub misses: u64,
    /// Changes of the directory.
    pub registrations: u64,
    /// Messages whose signature is not valid for their sender.
    pub signature_faults: u64,
}

impl RateLimits {
    const fn of(self, counted: RateEvent) -> u64 {
        match counted {
            RateEvent::Lookup => self.lookups,
            RateEvent::Miss => self.misses,
            RateEvent::Registration => self.registrations,
            RateEvent::SignatureFault => self.signature_faults,
        }
    }
}

/// The rate limits of a scheme.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateSettings {
    /// Limits of every participant without an exception.
    pub limits: RateLimits,
    /// Limits of single participants, by their names in lower case.
    pub exceptions: HashMap<String, RateLimits>,
    /// How long a participant is blocked after too many wrong signatures.
    pub block: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Blocked {
    fsp: String,
}

/// Counts the actions of each participant, by the participant that authenticated.
#[derive(Debug)]
pub struct Rates {
    settings: RateSettings,
    participants: SharedParticipants,
    started: Instant,
    /// By [`RateEvent`]: whether there is a limit, so that unlimited actions cost nothing.
    is_bounded: [bool; RateEvent::ALL.len()],
    core: Mutex<upesi_admission::Rates>,
    /// Time until which any participant is blocked, so that no lock is needed while none is blocked.
    blocked_until_ms: AtomicU64,
    blocks: Family<Blocked, Counter>,
    blocked: Gauge,
}

/// The rejection of a request, with the time after which it can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateRejection {
    pub(crate) refusal: Refusal,
    /// The value of `Retry-After`, in seconds.
    pub(crate) retry_after_s: u64,
}

impl Rates {
    /// Applies these limits to the participants.
    pub fn new(settings: RateSettings, participants: SharedParticipants) -> Self {
        let is_bounded = RateEvent::ALL.map(|counted| {
            settings.exceptions.values().chain([&settings.limits]).any(|limits| limits.of(counted) > 0)
        });
        Self {
            settings,
            participants,
            started: Instant::now(),
            is_bounded,
            core: Mutex::new(upesi_admission::Rates::new(SOURCES_MAX)),
            blocked_until_ms: AtomicU64::new(0),
            blocks: Family::default(),
            blocked: Gauge::default(),
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "upesi_dfsp_blocks",
            "Temporary blocks of a DFSP after too many wrong signatures",
            self.blocks.clone(),
        );
        registry.register(
            "upesi_dfsps_blocked",
            "DFSPs that are temporarily blocked after wrong signatures; reset once none is blocked",
            self.blocked.clone(),
        );
    }

    /// Whether a request is within its sender's rate limits; if so, it is counted.
    pub(crate) fn ask(
        &self,
        operation: Operation,
        caller: Caller<'_>,
        received: Instant,
    ) -> Result<(), RateRejection> {
        let now_ms = self.ms(received);
        if let Some(left_ms) = self.blocked_ms(caller, now_ms) {
            return Err(RateRejection { refusal: Refusal::Blocked, retry_after_s: seconds(left_ms) });
        }
        let taken = match counted(operation) {
            None => Ok(()),
            Some(RateEvent::Lookup) => match self.check(RateEvent::Miss, caller, now_ms) {
                Err(wait_ms) => Err((Refusal::Misses, wait_ms)),
                Ok(()) => self
                    .take(RateEvent::Lookup, caller, now_ms)
                    .map_err(|wait_ms| (Refusal::Lookups, wait_ms)),
            },
            Some(counted) => {
                self.take(counted, caller, now_ms).map_err(|wait_ms| (Refusal::Registrations, wait_ms))
            }
        };
        taken.map_err(|(refusal, wait_ms)| RateRejection { refusal, retry_after_s: seconds(wait_ms) })
    }

    /// Counts a lookup of a party that no DFSP serves.
    pub fn missed(&self, source: &FspId) {
        self.missed_at(source, Instant::now());
    }

    fn missed_at(&self, source: &FspId, at: Instant) {
        if !self.is_bounded[RateEvent::Miss as usize] {
            return;
        }
        let participants = self.participants.get();
        let (source, name) = liable(&participants, source);
        let per_s = self.limit(RateEvent::Miss, name.as_ref());
        if per_s > 0 {
            self.core().charge(RateEvent::Miss, source, per_s, self.ms(at));
        }
    }

    /// Counts a wrong signature. Only a participant with a bound certificate is blocked. Otherwise, any client could
    /// get a participant blocked by naming it in a header.
    pub(crate) fn signature_failed(&self, caller: Caller<'_>, received: Instant) {
        let Some(identity) = caller.identity() else { return };
        let name = FspId::parse(&identity.name);
        let per_s = self.limit(RateEvent::SignatureFault, name.as_ref());
        if per_s == 0 {
            return;
        }
        let (now_ms, block_ms) = (self.ms(received), milliseconds(self.settings.block));
        let mut core = self.core();
        if core.fault(SourceId(identity.number), per_s, block_ms, now_ms) {
            self.blocked_until_ms.fetch_max(now_ms.saturating_add(block_ms), Ordering::Relaxed);
            self.blocked.set(i64::try_from(core.blocked(now_ms)).unwrap_or(i64::MAX));
            drop(core);
            self.blocks.get_or_create(&Blocked { fsp: identity.name.to_string() }).inc();
            tracing::error!(
                fsp = %identity.name, signature_faults_per_s = per_s, block_s = self.settings.block.as_secs(),
                "a DFSP sent too many wrong signatures and is temporarily blocked"
            );
        }
    }

    /// The remaining time of a caller's block.
    fn blocked_ms(&self, caller: Caller<'_>, now_ms: u64) -> Option<u64> {
        let until_ms = self.blocked_until_ms.load(Ordering::Relaxed);
        if until_ms == 0 {
            return None;
        }
        if until_ms <= now_ms {
            // No participant is blocked any longer. A thread that blocks one at this moment sets the value again.
            let order = Ordering::Relaxed;
            if self.blocked_until_ms.compare_exchange(until_ms, 0, order, order).is_ok() {
                self.blocked.set(0);
            }
            return None;
        }
        self.core().blocked_ms(SourceId(caller.identity()?.number), now_ms)
    }

    fn take(&self, counted: RateEvent, caller: Caller<'_>, now_ms: u64) -> Result<(), u64> {
        match self.bound(counted, caller) {
            None => Ok(()),
            Some((source, per_s)) => self.core().take(counted, source, per_s, now_ms),
        }
    }

    fn check(&self, counted: RateEvent, caller: Caller<'_>, now_ms: u64) -> Result<(), u64> {
        match self.bound(counted, caller) {
            None => Ok(()),
            Some((source, per_s)) => self.core().check(counted, source, per_s, now_ms),
        }
    }

    /// The rate limit of a caller, if it has one.
    fn bound(&self, counted: RateEvent, caller: Caller<'_>) -> Option<(SourceId, u64)> {
        if !self.is_bounded[counted as usize] {
            return None;
        }
        let (source, name) = match caller.identity() {
            Some(identity) => (SourceId(identity.number), FspId::parse(&identity.name)),
            None => match caller.source() {
                Some(source) => liable(&self.participants.get(), &source),
                None => (SourceId::OTHERS, None),
            },
        };
        let per_s = self.limit(counted, name.as_ref());
        (per_s > 0).then_some((source, per_s))
    }

    fn limit(&self, counted: RateEvent, name: Option<&FspId>) -> u64 {
        let exceptions = &self.settings.exceptions;
        let exception = match name {
            Some(name) if !exceptions.is_empty() => exceptions.get(&name.as_str().to_ascii_lowercase()),
            _ => None,
        };
        exception.unwrap_or(&self.settings.limits).of(counted)
    }

    fn core(&self) -> MutexGuard<'_, upesi_admission::Rates> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ms(&self, instant: Instant) -> u64 {
        milliseconds(instant.saturating_duration_since(self.started))
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Whole seconds, at least one.
const fn seconds(ms: u64) -> u64 {
    match ms.div_ceil(1_000) {
        0 => 1,
        seconds => seconds,
    }
}

/// The limit that applies to a request.
fn counted(operation: Operation) -> Option<RateEvent> {
    match (operation.resource(), operation.method()) {
        (Resource::Parties | Resource::Participants, Method::Get) => Some(RateEvent::Lookup),
        (Resource::Participants, _) => Some(RateEvent::Registration),
        _ => None,
    }
}

/// The participant that is liable for a sender: its proxy, if it is behind one. All names that are not participants
/// share one number.
fn liable(participants: &Participants, source: &FspId) -> (SourceId, Option<FspId>) {
    let Some(participant) = participants.named_in_any_case(source) else { return (SourceId::OTHERS, None) };
    let liable = participants.proxy_of(participant.id).unwrap_or(participant);
    let number = |id: ParticipantId| SourceId(id.number());
    (number(liable.id), Some(liable.name))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{HeaderMap, HeaderValue};
    use upesi_fspiop::Route;
    use upesi_http::PeerIdentity;
    use upesi_ledger::Participant;

    use super::*;

    /// Hub, greenbank, bluewallet, a proxy, and farbank behind it.
    fn participants() -> SharedParticipants {
        let participant = |number, name: &str| Participant {
            is_proxy: name == "bridge",
            ..Participant::new(
                ParticipantId::new(number).unwrap(),
                FspId::parse(name).unwrap(),
                upesi_types::Timestamp::EPOCH,
            )
        };
        let names = ["Hub", "greenbank", "bluewallet", "bridge", "farbank"];
        let all = (1..).zip(names).map(|(number, name)| participant(number, name)).collect();
        let behind = [5, 4].map(|number| ParticipantId::new(number).unwrap());
        let shared = SharedParticipants::default();
        shared.set(Arc::new(Participants::new(all, &[]).behind([behind.into()].into())));
        shared
    }

    struct Trial {
        rates: Rates,
        started: Instant,
    }

    impl Trial {
        fn new(limits: RateLimits, exceptions: &[(&str, RateLimits)]) -> Self {
            let exceptions = exceptions.iter().map(|(name, limits)| ((*name).to_owned(), *limits)).collect();
            let settings = RateSettings { limits, exceptions, block: Duration::from_secs(60) };
            let rates = Rates::new(settings, participants());
            Self { started: rates.started, rates }
        }

        fn at(&self, ms: u64) -> Instant {
            self.started + Duration::from_millis(ms)
        }

        /// A request of the sender that the header names.
        fn ask(&self, line: &str, source: &str, ms: u64) -> Result<(), RateRejection> {
            let mut headers = HeaderMap::new();
            headers.insert("fspiop-source", HeaderValue::from_str(source).unwrap());
            self.rates.ask(operation(line), Caller::named(&headers), self.at(ms))
        }

        /// A request of a client that is known by its certificate.
        fn ask_bound(&self, line: &str, identity: &PeerIdentity, ms: u64) -> Result<(), RateRejection> {
            let headers = HeaderMap::new();
            self.rates.ask(operation(line), Caller::new(&headers, Some(identity)), self.at(ms))
        }

        fn miss(&self, source: &str, ms: u64) {
            self.rates.missed_at(&FspId::parse(source).unwrap(), self.at(ms));
        }

        fn fail(&self, identity: Option<&PeerIdentity>, ms: u64) {
            let mut headers = HeaderMap::new();
            headers.insert("fspiop-source", HeaderValue::from_static("greenbank"));
            self.rates.signature_failed(Caller::new(&headers, identity), self.at(ms));
        }
    }

    fn operation(line: &str) -> Operation {
        let (method, path) = line.split_once(' ').unwrap();
        Route::resolve(Method::parse(method), path).unwrap().operation
    }

    fn identity(number: u32, name: &str) -> PeerIdentity {
        PeerIdentity { number, name: name.into() }
    }

    const LOOKUP: &str = "GET /parties/MSISDN/26097";
    const QUESTION: &str = "GET /participants/MSISDN/26097";
    const TRANSFER: &str = "POST /transfers";

    #[test]
    fn rates_without_limits_accept_everything() {
        let trial = Trial::new(RateLimits::default(), &[]);
        for _ in 0..1_000 {
            trial.miss("greenbank", 0);
            trial.fail(Some(&identity(2, "greenbank")), 0);
            assert_eq!(trial.ask(LOOKUP, "greenbank", 0), Ok(()));
            assert_eq!(trial.ask_bound(TRANSFER, &identity(2, "greenbank"), 0), Ok(()));
        }
    }

    #[test]
    fn lookups_and_registrations_have_separate_rates() {
        let limits = RateLimits { lookups: 2, registrations: 1, ..RateLimits::default() };
        let trial = Trial::new(limits, &[("bluewallet", RateLimits { lookups: 5, ..limits })]);
        assert_eq!([LOOKUP, QUESTION].map(|line| trial.ask(line, "greenbank", 0)), [Ok(()), Ok(())]);
        assert_eq!(
            trial.ask(LOOKUP, "greenbank", 0),
            Err(RateRejection { refusal: Refusal::Lookups, retry_after_s: 1 })
        );
        for line in ["POST /participants/MSISDN/1", "DELETE /participants/MSISDN/1", "POST /participants"] {
            let trial = Trial::new(limits, &[]);
            assert_eq!(trial.ask(line, "greenbank", 0), Ok(()), "{line}");
            assert_eq!(
                trial.ask(line, "greenbank", 0),
                Err(RateRejection { refusal: Refusal::Registrations, retry_after_s: 1 }),
                "{line}"
            );
            assert_eq!(trial.ask(line, "greenbank", 1_000), Ok(()), "{line}");
        }
        // Messages that finish a lookup, and all other messages, are not counted.
        for line in ["PUT /parties/MSISDN/26097", "POST /quotes", TRANSFER] {
            assert!((0..100).all(|_| trial.ask(line, "greenbank", 0).is_ok()), "{line}");
        }
        assert_eq!(
            (0..10).filter(|_| trial.ask(LOOKUP, "BlueWallet", 0).is_ok()).count(),
            5,
            "its exception"
        );
        // All unknown senders share one count.
        assert_eq!((0..10).filter(|n| trial.ask(LOOKUP, &format!("nobody{n}"), 0).is_ok()).count(), 2);
    }

    #[test]
    fn rate_limit_is_that_of_the_certificates_participant() {
        let limits = RateLimits { lookups: 1, ..RateLimits::default() };
        let trial = Trial::new(limits, &[]);
        let (green, bridge) = (identity(2, "greenbank"), identity(4, "bridge"));
        assert_eq!(trial.ask_bound(LOOKUP, &green, 0), Ok(()));
        assert!(trial.ask_bound(LOOKUP, &green, 0).is_err());
        assert_eq!(trial.ask_bound(LOOKUP, &bridge, 0), Ok(()));
        // A DFSP behind a proxy uses the proxy's limit.
        assert!(trial.ask(LOOKUP, "farbank", 0).is_err());
    }

    #[test]
    fn too_many_misses_reject_all_lookups_for_a_while() {
        let trial = Trial::new(RateLimits { misses: 2, ..RateLimits::default() }, &[]);
        assert!((0..100).all(|_| trial.ask(LOOKUP, "greenbank", 0).is_ok()), "successful lookups are free");
        trial.miss("greenbank", 0);
        assert_eq!(trial.ask(LOOKUP, "greenbank", 0), Ok(()));
        trial.miss("greenbank", 0);
        assert_eq!(
            trial.ask(QUESTION, "greenbank", 499),
            Err(RateRejection { refusal: Refusal::Misses, retry_after_s: 1 })
        );
        assert_eq!(trial.ask(QUESTION, "greenbank", 500), Ok(()), "a query is free, a miss is not");
        trial.miss("greenbank", 500);
        assert_eq!(trial.ask(LOOKUP, "bluewallet", 500), Ok(()), "other DFSPs are not affected");
        assert!(trial.ask(LOOKUP, "greenbank", 500).is_err());
        assert_eq!(trial.ask("POST /participants/MSISDN/1", "greenbank", 500), Ok(()));
        assert_eq!(trial.ask(LOOKUP, "greenbank", 60_000), Ok(()));
        for _ in 0..100 {
            trial.miss("farbank", 0);
        }
        // Two are owed, and one must be available: a second and a half.
        assert_eq!(
            trial.ask(LOOKUP, "farbank", 0),
            Err(RateRejection { refusal: Refusal::Misses, retry_after_s: 2 })
        );
        assert!(trial.ask_bound(LOOKUP, &identity(4, "bridge"), 100).is_err(), "a proxy answers for it");
    }

    #[test]
    fn wrong_signatures_block_only_the_participant_of_the_certificate() {
        let trial = Trial::new(RateLimits { signature_faults: 3, ..RateLimits::default() }, &[]);
        let (green, blue) = (identity(2, "greenbank"), identity(3, "bluewallet"));
        for _ in 0..1_000 {
            trial.fail(None, 0);
        }
        assert_eq!(
            trial.ask_bound(TRANSFER, &green, 0),
            Ok(()),
            "a name in a header does not lead to a block"
        );
        for _ in 0..3 {
            trial.fail(Some(&green), 0);
            assert_eq!(trial.ask_bound(TRANSFER, &green, 0), Ok(()));
        }
        trial.fail(Some(&green), 0);
        for line in [TRANSFER, LOOKUP, "PUT /transfers/1bf1ef8b-e1a4-4b1a-8f3a-0d1c2a3b4c5d"] {
            assert_eq!(
                trial.ask_bound(line, &green, 500),
                Err(RateRejection { refusal: Refusal::Blocked, retry_after_s: 60 }),
                "{line}"
            );
        }
        assert_eq!(
            trial.ask(TRANSFER, "greenbank", 500),
            Ok(()),
            "without its certificate it is another client"
        );
        assert_eq!(trial.ask_bound(TRANSFER, &blue, 500), Ok(()));
        assert_eq!(
            trial.ask_bound(TRANSFER, &green, 59_999),
            Err(RateRejection { refusal: Refusal::Blocked, retry_after_s: 1 })
        );
        assert_eq!(trial.ask_bound(TRANSFER, &green, 60_000), Ok(()));
        assert_eq!(trial.rates.blocked.get(), 0);
        assert_eq!(trial.rates.blocks.get_or_create(&Blocked { fsp: "greenbank".into() }).get(), 1);
    }
}
