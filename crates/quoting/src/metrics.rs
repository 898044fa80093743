//! Metrics of quoting.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use upesi_delivery::Request;
use upesi_delivery::relayed::ErrorInformation;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MessageLabels {
    resource: &'static str,
    method: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DuplicateLabels {
    resource: &'static str,
    method: &'static str,
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    code: u16,
}

/// Counters of quoting. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct QuotingMetrics {
    messages: Family<MessageLabels, Counter>,
    duplicates: Family<DuplicateLabels, Counter>,
    refusals: Family<RefusalLabels, Counter>,
    pub(crate) remembered: Gauge,
    pub(crate) kept: Gauge,
    pub(crate) dropped: Counter,
}

/// Outcome of an accepted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Forwarded,
    Refused,
    Undelivered,
}

impl QuotingMetrics {
    /// Creates and registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "upesi_quoting_messages",
            "Accepted messages of quotes and payment requests, by outcome",
            metrics.messages.clone(),
        );
        registry.register(
            "upesi_quoting_duplicates",
            "Repeated messages of quotes under the same id: identical or modified",
            metrics.duplicates.clone(),
        );
        registry.register(
            "upesi_quoting_refusals",
            "Error callbacks that the hub sent in quoting, by error code",
            metrics.refusals.clone(),
        );
        registry.register(
            "upesi_quoting_remembered",
            "Quotes that the duplicate check remembers in memory",
            metrics.remembered.clone(),
        );
        registry.register("upesi_quoting_kept", "Quotes in the store", metrics.kept.clone());
        registry.register(
            "upesi_quoting_dropped",
            "Stored quotes that were deleted because of their age or number",
            metrics.dropped.clone(),
        );
        metrics
    }

    pub(crate) fn count(&self, request: &Request, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Forwarded => "forwarded",
            Outcome::Refused => "refused",
            Outcome::Undelivered => "undelivered",
        };
        let (resource, method) = (request.resource().as_str(), request.operation.method().as_str());
        self.messages.get_or_create(&MessageLabels { resource, method, outcome }).inc();
    }

    pub(crate) fn count_duplicate(&self, request: &Request, is_modified: bool) {
        let kind = if is_modified { "modified" } else { "resend" };
        let (resource, method) = (request.resource().as_str(), request.operation.method().as_str());
        self.duplicates.get_or_create(&DuplicateLabels { resource, method, kind }).inc();
    }

    pub(crate) fn count_refusal(&self, error: &ErrorInformation) {
        self.refusals.get_or_create(&RefusalLabels { code: error.code.number() }).inc();
    }
}
