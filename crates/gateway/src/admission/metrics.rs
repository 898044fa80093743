//! Metrics of admission.
//!
//! | name | labels | what |
//! |---|---|---|
//! | `upesi_admission_taken_total` | `class` | accepted requests |
//! | `upesi_admission_refused_total` | `class`, `reason` | requests rejected by their head alone |
//! | `upesi_admission_refused_by_dfsp_total` | `fsp` | new requests rejected over a share or a rate limit, by sender |
//! | `upesi_admission_held_total` | | rejections that were delayed |
//! | `upesi_admission_limit` | | maximum of new requests per second; 0 without a limit |
//! | `upesi_admission_delay_seconds` | | shortest time that a ready task waits for a worker |
//! | `upesi_admission_engine_waiting` | | requests that wait for the engine |
//!
//! `class` is `new` or `finishing`; `reason` is `overload`, `rate`, `bytes`, `engine`, `lookups`, `misses`,
//! `registrations` or `blocked`.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use upesi_admission::{Class, rate_of_quota};
use upesi_types::FspId;

use super::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AcceptedLabels {
    class: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RejectedLabels {
    class: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SenderLabels {
    fsp: String,
}

#[derive(Debug)]
pub(super) struct AdmissionMetrics {
    taken: [Counter; 2],
    /// By [`Class`], then by [`Refusal`].
    refused: [[Counter; Refusal::ALL.len()]; 2],
    by_source: Family<SenderLabels, Counter>,
    held: Counter,
    limit: Gauge,
    delay_seconds: Gauge<f64, AtomicU64>,
    engine_waiting: Gauge,
}

const fn class_name(class: Class) -> &'static str {
    match class {
        Class::New => "new",
        Class::Finishing => "finishing",
    }
}

const fn reason_name(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Overload => "overload",
        Refusal::Rate => "rate",
        Refusal::Bytes => "bytes",
        Refusal::Engine => "engine",
        Refusal::Lookups => "lookups",
        Refusal::Misses => "misses",
        Refusal::Registrations => "registrations",
        Refusal::Blocked => "blocked",
    }
}

impl AdmissionMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let (taken, refused) =
            (Family::<AcceptedLabels, Counter>::default(), Family::<RejectedLabels, Counter>::default());
        let by_source = Family::<SenderLabels, Counter>::default();
        let (held, limit, engine_waiting) = (Counter::default(), Gauge::default(), Gauge::default());
        let delay_seconds = Gauge::<f64, AtomicU64>::default();
        registry.register("upesi_admission_taken", "Admitted requests", taken.clone());
        registry.register(
            "upesi_admission_refused",
            "Requests rejected before their body was read",
            refused.clone(),
        );
        registry.register(
            "upesi_admission_refused_by_dfsp",
            "New requests rejected because of a share or a rate limit",
            by_source.clone(),
        );
        registry.register("upesi_admission_held", "Rejections that were delayed", held.clone());
        registry.register(
            "upesi_admission_limit",
            "Current limit on new requests per second, 0 without a limit",
            limit.clone(),
        );
        registry.register(
            "upesi_admission_delay_seconds",
            "Shortest time that ready work waits for a worker",
            delay_seconds.clone(),
        );
        registry.register(
            "upesi_admission_engine_waiting",
            "Requests waiting for the engine",
            engine_waiting.clone(),
        );
        let taken =
            Class::ALL.map(|class| taken.get_or_create_owned(&AcceptedLabels { class: class_name(class) }));
        let refused = Class::ALL.map(|class| {
            Refusal::ALL.map(|refusal| {
                let labels = RejectedLabels { class: class_name(class), reason: reason_name(refusal) };
                refused.get_or_create_owned(&labels)
            })
        });
        Self { taken, refused, by_source, held, limit, delay_seconds, engine_waiting }
    }

    pub(super) fn take(&self, class: Class, count: u64) {
        self.taken[class as usize].inc_by(count);
    }

    pub(super) fn refuse(&self, class: Class, refusal: Refusal) {
        self.refused[class as usize][refusal as usize].inc();
    }

    /// Uses only the names of participants as labels, so that senders cannot create time series.
    pub(super) fn refuse_source(&self, name: Option<FspId>, count: u64) {
        let fsp = name.map_or_else(|| "other".to_owned(), |name| name.as_str().to_owned());
        self.by_source.get_or_create(&SenderLabels { fsp }).inc_by(count);
    }

    pub(super) fn delay_refusal(&self) {
        self.held.inc();
    }

    #[allow(clippy::cast_possible_wrap, reason = "far below the bound")]
    pub(super) fn show(&self, delay_us: Option<u32>, limit: Option<u64>, engine_waiting: usize) {
        if let Some(delay_us) = delay_us {
            self.delay_seconds.set(std::time::Duration::from_micros(delay_us.into()).as_secs_f64());
        }
        self.limit.set(limit.map_or(0, |limit| rate_of_quota(limit).max(1) as i64));
        self.engine_waiting.set(engine_waiting as i64);
    }
}
