//! Metrics of the gateway.
//!
//! | name | labels | what |
//! |---|---|---|
//! | `upesi_http_requests_total` | `method`, `resource`, `status` | answers |
//! | `upesi_http_request_duration_seconds` | `method`, `resource` | from the end of the head to the answer |
//! | `upesi_fspiop_refusals_total` | `code` | errors in the HTTP response, by FSPIOP code |
//! | `moja_ml_transfer_…`, `moja_als_ing_…`, `moja_qs_quotes_…` | `success` | the same durations for Mojaloop's
//! dashboards |
//!
//! [`MOJALOOP_CALLS`] lists the last group; the metrics of transfers also have the label `serviceName`.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use upesi_fspiop::{Operation, SyncError};

/// Upper bounds in seconds of the buckets that Mojaloop's dashboards use.
const MOJALOOP_BUCKETS: [f64; 7] = [0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0];
/// Upper bounds in seconds, fine in the range of a hub with a good disk.
const BUCKETS: [f64; 14] =
    [0.0002, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    method: &'static str,
    resource: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    resource: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RejectionLabels {
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Success {
    success: &'static str,
}

type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

/// Labels of a request; never derived from free input of a sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labels {
    pub(crate) method: &'static str,
    pub(crate) resource: &'static str,
}

impl Labels {
    pub(crate) fn new(method: &Method, resource: &'static str) -> Self {
        let known = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD];
        let names = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"];
        let position = known.iter().position(|known| known == method);
        Self { method: position.map_or("other", |position| names[position]), resource }
    }
}

impl From<Operation> for Labels {
    fn from(operation: Operation) -> Self {
        Self { method: operation.method().as_str(), resource: operation.label() }
    }
}

/// Operations that Mojaloop's dashboards show, and their names there. Paths with a sub-id count with the paths without.
const MOJALOOP_CALLS: [(&str, &str, &str); 11] = [
    ("POST", "transfers", "moja_ml_transfer_prepare"),
    ("PUT", "transfers/{ID}", "moja_ml_transfer_fulfil"),
    ("PUT", "transfers/{ID}/error", "moja_ml_transfer_fulfil_error"),
    ("GET", "transfers/{ID}", "moja_ml_transfer_get"),
    ("GET", "parties/{Type}/{ID}", "moja_als_ing_getPartiesByTypeAndID"),
    ("PUT", "parties/{Type}/{ID}", "moja_als_ing_putPartiesByTypeAndID"),
    ("PUT", "parties/{Type}/{ID}/error", "moja_als_ing_putPartiesErrorByTypeAndID"),
    ("POST", "quotes", "moja_qs_quotes_post"),
    ("GET", "quotes/{ID}", "moja_qs_quotes_id_get"),
    ("PUT", "quotes/{ID}", "moja_qs_quotes_id_put"),
    ("PUT", "quotes/{ID}/error", "moja_qs_quotes_id_put_error"),
];

/// Name of Mojaloop's process that accepts transfers; its dashboards select by it.
const TRANSFERS_SERVICE: (Cow<'static, str>, Cow<'static, str>) =
    (Cow::Borrowed("serviceName"), Cow::Borrowed("ml-service"));

/// Metric handles of one operation, looked up once.
#[derive(Debug)]
struct CallMetrics {
    succeeded: Counter,
    duration: Histogram,
    /// Mojaloop's metrics, for successes and for errors.
    mojaloop: Option<[Histogram; 2]>,
}

/// All metrics of the gateway.
#[derive(Debug)]
pub(crate) struct GatewayMetrics {
    /// Whether requests are counted and timed. Errors are always counted.
    records: bool,
    requests: Family<AnswerLabels, Counter>,
    durations: Durations<RequestLabels>,
    refusals: Family<RejectionLabels, Counter>,
    /// In the order of [`MOJALOOP_CALLS`].
    mojaloop: [[Histogram; 2]; MOJALOOP_CALLS.len()],
    /// By [`Operation::number`]. Transfers exist from the start; other operations are looked up at their first use, so
    /// that operations that are never called are not shown.
    calls: [OnceLock<CallMetrics>; Operation::COUNT],
}

impl GatewayMetrics {
    pub(crate) fn register(registry: &mut Registry, records: bool) -> Self {
        let requests = Family::<AnswerLabels, Counter>::default();
        let durations = Durations::<RequestLabels>::new_with_constructor(
            (|| Histogram::new(BUCKETS)) as fn() -> Histogram,
        );
        let refusals = Family::<RejectionLabels, Counter>::default();
        registry.register("upesi_http_requests", "Answered HTTP requests", requests.clone());
        registry.register(
            "upesi_http_request_duration_seconds",
            "Time from the end of a request's head to its response",
            durations.clone(),
        );
        registry.register(
            "upesi_fspiop_refusals",
            "Requests answered with an FSPIOP error in the HTTP response, by code",
            refusals.clone(),
        );
        let mojaloop = MOJALOOP_CALLS.map(|(method, path, name)| {
            let help = format!("Duration of {method} /{path}");
            match path.split('/').next() {
                Some("transfers") => {
                    let services = registry.sub_registry_with_label(TRANSFERS_SERVICE);
                    register_mojaloop(services, name, help)
                }
                _ => register_mojaloop(registry, name, help),
            }
        });
        let calls = [const { OnceLock::new() }; Operation::COUNT];
        let metrics = Self { records, requests, durations, refusals, mojaloop, calls };
        for operation in Operation::all().filter(|operation| operation.resource().moves_money()) {
            metrics.call(operation);
        }
        metrics
    }

    /// Counts an answer of the FSPIOP API.
    pub(crate) fn count_call(
        &self,
        operation: Operation,
        outcome: Result<(), &SyncError>,
        duration: Duration,
    ) {
        if !self.records {
            return;
        }
        let metrics = self.call(operation);
        let seconds = duration.as_secs_f64();
        metrics.duration.observe(seconds);
        if let Some([succeeded, refused]) = &metrics.mojaloop {
            if outcome.is_ok() { succeeded } else { refused }.observe(seconds);
        }
        match outcome {
            Ok(()) => {
                metrics.succeeded.inc();
            }
            Err(error) => {
                self.count_status(operation.into(), error.status);
                self.count_refusal(error);
            }
        }
    }

    fn call(&self, operation: Operation) -> &CallMetrics {
        self.calls[operation.number()].get_or_init(|| {
            let Labels { method, resource } = operation.into();
            let status = operation.success_status();
            let is_same = |(known, path, _): &(&str, &str, &str)| (*known, *path) == (method, resource);
            CallMetrics {
                succeeded: self.requests.get_or_create_owned(&AnswerLabels { method, resource, status }),
                duration: self.durations.get_or_create_owned(&RequestLabels { method, resource }),
                mojaloop: MOJALOOP_CALLS.iter().position(is_same).map(|index| self.mojaloop[index].clone()),
            }
        })
    }

    /// Counts any other answer.
    pub(crate) fn count_other(&self, labels: Labels, status: StatusCode, duration: Duration) {
        let Labels { method, resource } = labels;
        self.count_status(labels, status.as_u16());
        self.durations.get_or_create(&RequestLabels { method, resource }).observe(duration.as_secs_f64());
    }

    /// Counts a request that was rejected by its head. It is not in the durations, which cover accepted requests only.
    pub(crate) fn count_turned_away(&self, labels: Labels, error: &SyncError) {
        self.count_status(labels, error.status);
        self.count_refusal(error);
    }

    pub(crate) fn count_refusal(&self, error: &SyncError) {
        self.refusals.get_or_create(&RejectionLabels { code: error.code.number() }).inc();
    }

    fn count_status(&self, Labels { method, resource }: Labels, status: u16) {
        self.requests.get_or_create(&AnswerLabels { method, resource, status }).inc();
    }
}

fn register_mojaloop(registry: &mut Registry, name: &str, help: String) -> [Histogram; 2] {
    let family = Durations::<Success>::new_with_constructor(
        (|| Histogram::new(MOJALOOP_BUCKETS)) as fn() -> Histogram,
    );
    registry.register(name, help, family.clone());
    ["true", "false"].map(|success| family.get_or_create_owned(&Success { success }))
}
