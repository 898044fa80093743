//! Metrics of lookups and of calls to oracles.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use upesi_http::BreakerState;

use crate::oracle::{Operation, OracleFailure};

/// Upper limits of durations of calls to oracles, in seconds: 500 µs to 16 s, doubling.
const ORACLE_SECONDS: [f64; 16] = [
    0.000_5, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096,
    8.192, 16.384,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LookupLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OracleLabels {
    oracle: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QuestionLabels {
    oracle: String,
    operation: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CacheLabels {
    oracle: String,
    result: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LookupOutcome {
    /// A DFSP answered with the party.
    Answered,
    /// A DFSP answered with an error.
    AnsweredError,
    /// No DFSP serves the party.
    NotFound,
    /// The type has no oracle.
    NoOracle,
    OracleFailed,
    /// No DFSP that serves the party could be reached.
    NotDelivered,
    /// The request was not understood.
    Malformed,
    /// No answer arrived in time.
    Expired,
    /// The capacity was used up.
    Refused,
}

impl LookupOutcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::AnsweredError => "answered_error",
            Self::NotFound => "not_found",
            Self::NoOracle => "no_oracle",
            Self::OracleFailed => "oracle_failed",
            Self::NotDelivered => "not_delivered",
            Self::Malformed => "malformed",
            Self::Expired => "expired",
            Self::Refused => "refused",
        }
    }
}

/// Counters of lookups and oracles. Cheap to clone. Labels identify oracles by number, and the number of oracles is
/// limited.
#[derive(Clone, Debug)]
pub struct DirectoryMetrics {
    lookups: Family<LookupLabels, Counter>,
    pub(crate) pending: Gauge,
    questions: Family<QuestionLabels, Counter>,
    seconds: Family<OracleLabels, Histogram, fn() -> Histogram>,
    cache: Family<CacheLabels, Counter>,
    breakers: Family<OracleLabels, Gauge>,
}

impl DirectoryMetrics {
    /// Creates and registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            lookups: Family::default(),
            pending: Gauge::default(),
            questions: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(ORACLE_SECONDS)),
            cache: Family::default(),
            breakers: Family::default(),
        };
        registry.register("upesi_lookups", "Lookups of parties, by outcome", metrics.lookups.clone());
        registry.register(
            "upesi_lookups_pending",
            "Lookups waiting for the answer of a DFSP",
            metrics.pending.clone(),
        );
        registry.register(
            "upesi_oracle_requests",
            "Requests to external oracles, by outcome",
            metrics.questions.clone(),
        );
        registry.register(
            "upesi_oracle_request_seconds",
            "Time from a request to an external oracle to its answer",
            metrics.seconds.clone(),
        );
        registry.register(
            "upesi_oracle_cache",
            "Lookups in the cache of oracles' answers: found (hit) or not (miss)",
            metrics.cache.clone(),
        );
        registry.register(
            "upesi_oracle_breaker",
            "State of an oracle's breaker: 0 closed, 1 probing, 2 open",
            metrics.breakers.clone(),
        );
        metrics
    }

    pub(crate) fn count_lookup(&self, outcome: LookupOutcome) {
        self.count_lookups(outcome, 1);
    }

    pub(crate) fn count_lookups(&self, outcome: LookupOutcome, count: u64) {
        self.lookups.get_or_create(&LookupLabels { outcome: outcome.as_str() }).inc_by(count);
    }

    pub(crate) fn count_oracle(
        &self,
        oracle: &str,
        operation: Operation,
        outcome: &'static str,
        took: Duration,
    ) {
        let labels = QuestionLabels { oracle: oracle.to_owned(), operation: operation.as_str(), outcome };
        self.questions.get_or_create(&labels).inc();
        self.seconds.get_or_create(&OracleLabels { oracle: oracle.to_owned() }).observe(took.as_secs_f64());
    }

    pub(crate) fn count_cache(&self, oracle: &str, is_hit: bool) {
        let result = if is_hit { "hit" } else { "miss" };
        self.cache.get_or_create(&CacheLabels { oracle: oracle.to_owned(), result }).inc();
    }

    /// Ends the time series of an oracle that was removed.
    pub(crate) fn forget_oracle(&self, oracle: &str) {
        let name = || oracle.to_owned();
        for operation in Operation::ALL {
            for outcome in OracleFailure::OUTCOMES.into_iter().chain(["answered"]) {
                let labels = QuestionLabels { oracle: name(), operation: operation.as_str(), outcome };
                self.questions.remove(&labels);
            }
        }
        for result in ["hit", "miss"] {
            self.cache.remove(&CacheLabels { oracle: name(), result });
        }
        self.seconds.remove(&OracleLabels { oracle: name() });
        self.breakers.remove(&OracleLabels { oracle: name() });
    }

    pub(crate) fn show_breaker(&self, oracle: &str, state: BreakerState) {
        let value = match state {
            BreakerState::Closed => 0,
            BreakerState::Probing => 1,
            BreakerState::Open => 2,
        };
        self.breakers.get_or_create(&OracleLabels { oracle: oracle.to_owned() }).set(value);
    }
}

#[cfg(test)]
impl DirectoryMetrics {
    pub(crate) fn lookups(&self, outcome: LookupOutcome) -> u64 {
        self.lookups.get_or_create(&LookupLabels { outcome: outcome.as_str() }).get()
    }

    pub(crate) fn cache_hits(&self, oracle: &str) -> u64 {
        self.cache.get_or_create(&CacheLabels { oracle: oracle.to_owned(), result: "hit" }).get()
    }
}
