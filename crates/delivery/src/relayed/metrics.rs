//! Metrics of relayed messages.

use std::sync::{Arc, OnceLock};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use upesi_engine::{MOJALOOP_SECONDS, ResponseTimes};
use upesi_fspiop::Resource;

use crate::Unroutable;
use crate::relayed::{Author, Failure, Outgoing, TransportError};

/// Upper limits of delivery times, in seconds: 250 µs to 16 s, doubling.
const DELIVERY_SECONDS: [f64; 17] = [
    0.000_25, 0.000_5, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048,
    4.096, 8.192, 16.384,
];

/// Number of methods: GET, POST, PUT, PATCH, DELETE.
const METHODS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    resource: &'static str,
    method: &'static str,
    author: &'static str,
    result: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Success {
    success: &'static str,
}

/// Metrics of relayed messages. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RelayMetrics {
    messages: Family<Labels, Counter>,
    /// Counters of the most frequent case by resource and method: delivered messages of DFSPs.
    delivered: Arc<[[OnceLock<Counter>; METHODS]; Resource::ALL.len()]>,
    seconds: Histogram,
    /// Durations of lookup messages under Mojaloop's name: messages that were answered with success, and others that
    /// were sent.
    egress: [Histogram; 2],
    /// Number of accepted requests with messages that are not yet delivered or given up.
    pub(crate) in_flight: Gauge,
    /// Number of bytes of those requests.
    pub(crate) bytes: Gauge,
    pub(crate) response_times: ResponseTimes,
}

impl RelayMetrics {
    /// Creates and registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let egress = Family::<Success, Histogram, fn() -> Histogram>::new_with_constructor(
            (|| Histogram::new(MOJALOOP_SECONDS)) as fn() -> Histogram,
        );
        registry.register(
            "moja_als_egress_sendRequestToParticipant",
            "Time from sending a lookup message to a DFSP to its response",
            egress.clone(),
        );
        let metrics = Self {
            messages: Family::default(),
            delivered: Arc::new([const { [const { OnceLock::new() }; METHODS] }; Resource::ALL.len()]),
            seconds: Histogram::new(DELIVERY_SECONDS),
            egress: ["true", "false"].map(|success| egress.get_or_create_owned(&Success { success })),
            in_flight: Gauge::default(),
            bytes: Gauge::default(),
            response_times: ResponseTimes::default(),
        };
        registry.register(
            "upesi_relay_messages",
            "Messages relayed to DFSPs, by outcome",
            metrics.messages.clone(),
        );
        registry.register(
            "upesi_relay_delivery_seconds",
            "Time from accepting a request to the response of its receiver",
            metrics.seconds.clone(),
        );
        registry.register(
            "upesi_relay_in_flight",
            "Accepted lookups, quotes and requests that are still being forwarded",
            metrics.in_flight.clone(),
        );
        registry.register(
            "upesi_relay_bytes",
            "Size of accepted lookups, quotes and requests that are still being forwarded",
            metrics.bytes.clone(),
        );
        metrics
    }

    /// Counts the outcomes of requests in `response_times`.
    pub fn with_response_times(self, response_times: ResponseTimes) -> Self {
        Self { response_times, ..self }
    }

    pub(crate) fn count(&self, message: &Outgoing, result: Result<(), &Failure>, seconds: f64) {
        if result.is_ok() {
            self.seconds.observe(seconds);
        }
        if matches!(message.resource, Resource::Parties | Resource::Participants) {
            self.observe_egress(result, seconds);
        }
        let family = || self.messages.get_or_create_owned(&labels(message, result));
        match (message.author, result) {
            (Author::Sender(_), Ok(())) => {
                let of_family = &self.delivered[message.resource as usize];
                of_family[message.method as usize].get_or_init(family).inc();
            }
            _ => {
                family().inc();
            }
        }
    }

    fn observe_egress(&self, result: Result<(), &Failure>, seconds: f64) {
        let [succeeded, failed] = &self.egress;
        match result {
            Ok(()) => succeeded.observe(seconds),
            Err(
                Failure::Refused { .. }
                | Failure::Transport(TransportError::Unreachable(_) | TransportError::Stale),
            ) => failed.observe(seconds),
            // Nothing was sent.
            Err(
                Failure::Unroutable(_) | Failure::Transport(TransportError::Barred | TransportError::Busy),
            ) => {}
        }
    }
}

fn labels(message: &Outgoing, result: Result<(), &Failure>) -> Labels {
    Labels {
        resource: message.resource.as_str(),
        method: message.method.as_str(),
        author: match message.author {
            Author::Sender(_) => "dfsp",
            Author::Hub => "hub",
        },
        result: match result {
            Ok(()) => "delivered",
            Err(Failure::Unroutable(Unroutable::UnknownReceiver)) => "unknown_receiver",
            Err(Failure::Unroutable(_)) => "no_endpoint",
            Err(Failure::Transport(TransportError::Barred)) => "barred",
            Err(Failure::Transport(TransportError::Busy)) => "busy",
            Err(Failure::Transport(TransportError::Unreachable(_) | TransportError::Stale)) => "unreachable",
            Err(Failure::Refused { .. }) => "refused",
        },
    }
}
