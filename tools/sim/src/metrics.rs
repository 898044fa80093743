//! What `upesi sim` measures, under the names of Mojaloop's simulator, so that its dashboard reads them: how
//! long messages and their exchanges took, how long the simulator had to do with each, and its own calls. Beside
//! these, what every DFSP counted.
//!
//! A simulator measures only where it was told to: most share a machine with the hub that they load. What is measured
//! is looked up without a lock, and then takes the one that a histogram has.

use std::array;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::family::Family as Series;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use upesi_http::Method;
use upesi_types::{FspId, Timestamp};

use crate::dfsp::{Counters, Dfsp};
use crate::message::Family;
use crate::tracestate::{self, CALLBACK_START, END_TO_END_START};

/// Bounds in seconds: those that the hub has under Mojaloop's names, and finer ones.
const SECONDS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0];

/// What an arriving message is to the exchange that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leg {
    Request,
    Answer,
}

/// What is told of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    EndToEnd,
    Request,
    Response,
}

impl Part {
    const COUNT: usize = 3;

    /// The end of the operation's name.
    const fn name(self) -> &'static str {
        match self {
            Self::EndToEnd => "end2end",
            Self::Request => "request",
            Self::Response => "response",
        }
    }

    /// The key of the instant at which it begins.
    const fn start(self) -> &'static str {
        match self {
            Self::EndToEnd | Self::Request => END_TO_END_START,
            Self::Response => CALLBACK_START,
        }
    }
}

/// The methods of the messages between DFSPs, as operations name them.
const METHODS: [&str; 4] = ["get", "post", "put", "patch"];

/// The place of a method among [`METHODS`].
fn place(method: &Method) -> usize {
    match *method {
        Method::GET => 0,
        Method::POST => 1,
        Method::PUT => 2,
        _ => 3,
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation: String,
}

/// Histograms by family of messages and by something else about them. Each is made when it is first needed.
struct Histograms<const OTHERS: usize> {
    series: Series<Operation, Histogram, fn() -> Histogram>,
    made: [[OnceLock<Histogram>; OTHERS]; Family::COUNT],
}

impl<const OTHERS: usize> Histograms<OTHERS> {
    fn register(registry: &mut Registry, name: &'static str, help: &'static str) -> Self {
        let series = Series::<Operation, Histogram, fn() -> Histogram>::new_with_constructor(
            (|| Histogram::new(SECONDS)) as fn() -> Histogram,
        );
        registry.register(name, help, series.clone());
        Self { series, made: array::from_fn(|_| array::from_fn(|_| OnceLock::new())) }
    }

    fn of(&self, family: Family, other: usize, operation: impl FnOnce() -> String) -> &Histogram {
        self.made[family as usize][other]
            .get_or_init(|| self.series.get_or_create_owned(&Operation { operation: operation() }))
    }
}

/// The metrics of a simulator.
pub(crate) struct SimMetrics {
    registry: Registry,
    ways: Histograms<{ Part::COUNT }>,
    handling: Histograms<{ METHODS.len() }>,
    calls: Histograms<{ METHODS.len() }>,
}

impl SimMetrics {
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let (ways, handling, calls) = (
            "From a request to its arrival, from an answer to its arrival, from a request to its answer's arrival",
            "From the head of a message that arrived to its HTTP answer",
            "From a message that left to its HTTP answer, or to its failure",
        );
        Self {
            ways: Histograms::register(&mut registry, "cbs_tx_cb_perf", ways),
            handling: Histograms::register(&mut registry, "cbs_ing_callbackHandler", handling),
            calls: Histograms::register(&mut registry, "cbs_egress_callbackHandler", calls),
            registry,
        }
    }

    /// Counts how long a message that arrived at `at`, and the exchange that it ends, were under way, as far as the
    /// list of its `tracestate` tells when they began. Where clocks disagree so much that this would be later, they
    /// took no time.
    pub fn arrived(&self, family: Family, leg: Leg, list: &str, at: Timestamp) {
        let parts: &[Part] = match leg {
            Leg::Request => &[Part::Request],
            Leg::Answer => &[Part::EndToEnd, Part::Response],
        };
        for part in parts {
            let Some(start_ms) = tracestate::instant_ms(list, part.start()) else { continue };
            let took_ms = u64::try_from(at.as_ms().saturating_sub(start_ms)).unwrap_or(0);
            let operation = || format!("{}_{}", family.name(), part.name());
            let histogram = self.ways.of(family, *part as usize, operation);
            histogram.observe(Duration::from_millis(took_ms).as_secs_f64());
        }
    }

    /// Counts what the simulator had to do with a message that arrived.
    pub fn handled(&self, method: &Method, family: Family, took: Duration) {
        observe(&self.handling, method, family, took);
    }

    /// Counts a message that left, to whatever end.
    pub fn called(&self, method: &Method, family: Family, took: Duration) {
        observe(&self.calls, method, family, took);
    }

    /// All of it as OpenMetrics text, with the counters of the DFSPs as they are now.
    pub fn text(&self, dfsps: &[Dfsp]) -> String {
        let counted = dfsps.iter().map(|dfsp| (dfsp.name, dfsp.counters.snapshot())).collect();
        let mut counters = Registry::default();
        counters.register_collector(Box::new(Counted(counted)));
        let mut text = String::new();
        for registry in [&self.registry, &counters] {
            // Writing into a String cannot fail, here and below.
            let _ = encode_registry(&mut text, registry);
        }
        let _ = encode_eof(&mut text);
        text
    }
}

fn observe(histograms: &Histograms<{ METHODS.len() }>, method: &Method, family: Family, took: Duration) {
    let place = place(method);
    let operation = || format!("{}_{}", METHODS[place], family.name());
    histograms.of(family, place, operation).observe(took.as_secs_f64());
}

/// What DFSPs counted, by name. Read when it is asked for, so that counting costs no more than it did.
#[derive(Debug)]
struct Counted(Vec<(FspId, Counters)>);

impl Collector for Counted {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "What a DFSP counted, under the names of GET /_sim/dfsps.";
        let mut family = encoder.encode_descriptor("upesi_sim_counted", help, None, MetricType::Counter)?;
        for (name, counters) in &self.0 {
            // They are an object of numbers.
            let Ok(serde_json::Value::Object(counters)) = serde_json::to_value(counters) else { continue };
            for (counter, count) in &counters {
                let labels = [("dfsp", name.as_str()), ("counter", counter.as_str())];
                let count = count.as_u64().unwrap_or_default();
                family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dfsp::count;
    use crate::settings::DfspSettings;

    fn assert_has(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(text.lines().any(|found| found == *line), "{line} is not in\n{text}");
        }
    }

    /// A quarter of a second after the answer left, half a second after the request did.
    #[test]
    fn a_message_tells_how_long_it_and_its_exchange_took() {
        let metrics = SimMetrics::new();
        let at = Timestamp::from_ms(1_700_000_000_500);
        let asked = "tx_end2end_start_ts=1700000000000";
        let answered = "vendor=x,tx_end2end_start_ts=1700000000000,tx_callback_start_ts=1700000000250";
        metrics.arrived(Family::Transfers, Leg::Request, asked, at);
        metrics.arrived(Family::Transfers, Leg::Answer, answered, at);
        metrics.arrived(Family::Transfers, Leg::Answer, answered, at);
        // The hub answered, or a DFSP that does not measure.
        metrics.arrived(Family::FxQuotes, Leg::Answer, asked, at);
        // A script's clock that is ahead.
        metrics.arrived(Family::Parties, Leg::Request, "tx_end2end_start_ts=1700000000501", at);
        for nothing in ["", "vendor=x", "tx_end2end_start_ts=soon"] {
            metrics.arrived(Family::Quotes, Leg::Request, nothing, at);
            metrics.arrived(Family::Quotes, Leg::Answer, nothing, at);
        }
        let text = metrics.text(&[]);
        assert_has(
            &text,
            &[
                "# TYPE cbs_tx_cb_perf histogram",
                r#"cbs_tx_cb_perf_sum{operation="transfers_request"} 0.5"#,
                r#"cbs_tx_cb_perf_count{operation="transfers_request"} 1"#,
                r#"cbs_tx_cb_perf_bucket{le="0.2",operation="transfers_request"} 0"#,
                r#"cbs_tx_cb_perf_bucket{le="0.5",operation="transfers_request"} 1"#,
                r#"cbs_tx_cb_perf_bucket{le="+Inf",operation="transfers_request"} 1"#,
                r#"cbs_tx_cb_perf_sum{operation="transfers_end2end"} 1.0"#,
                r#"cbs_tx_cb_perf_count{operation="transfers_end2end"} 2"#,
                r#"cbs_tx_cb_perf_sum{operation="transfers_response"} 0.5"#,
                r#"cbs_tx_cb_perf_count{operation="transfers_response"} 2"#,
                r#"cbs_tx_cb_perf_sum{operation="fxQuotes_end2end"} 0.5"#,
                r#"cbs_tx_cb_perf_count{operation="fxQuotes_end2end"} 1"#,
                r#"cbs_tx_cb_perf_sum{operation="parties_request"} 0.0"#,
                r#"cbs_tx_cb_perf_count{operation="parties_request"} 1"#,
            ],
        );
        assert_eq!(text.matches("cbs_tx_cb_perf_count").count(), 5, "{text}");
        assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
    }

    #[test]
    fn handling_and_calls_are_told_by_method_and_family() {
        let metrics = SimMetrics::new();
        let took = Duration::from_millis(250);
        for (method, family) in [
            (Method::POST, Family::Transfers),
            (Method::PUT, Family::Transfers),
            (Method::PUT, Family::Transfers),
            (Method::PATCH, Family::Transfers),
            (Method::GET, Family::Authorizations),
        ] {
            metrics.handled(&method, family, took);
        }
        metrics.called(&Method::PUT, Family::BulkQuotes, took);
        let text = metrics.text(&[]);
        assert_has(
            &text,
            &[
                r#"cbs_ing_callbackHandler_count{operation="post_transfers"} 1"#,
                r#"cbs_ing_callbackHandler_count{operation="put_transfers"} 2"#,
                r#"cbs_ing_callbackHandler_sum{operation="put_transfers"} 0.5"#,
                r#"cbs_ing_callbackHandler_count{operation="patch_transfers"} 1"#,
                r#"cbs_ing_callbackHandler_count{operation="get_authorizations"} 1"#,
                r#"cbs_egress_callbackHandler_count{operation="put_bulkQuotes"} 1"#,
                r#"cbs_egress_callbackHandler_sum{operation="put_bulkQuotes"} 0.25"#,
            ],
        );
        assert_eq!(text.matches("_callbackHandler_count").count(), 5, "{text}");
    }

    #[test]
    fn what_dfsps_counted_is_told_by_name() {
        let dfsps = ["dfsp-1", "dfsp-2"]
            .map(|name| Dfsp::new(0, FspId::parse(name).unwrap(), DfspSettings::default()));
        count(&dfsps[1].counters.prepares_received);
        count(&dfsps[1].counters.prepares_received);
        let text = SimMetrics::new().text(&dfsps);
        assert_has(
            &text,
            &[
                "# TYPE upesi_sim_counted counter",
                r#"upesi_sim_counted_total{dfsp="dfsp-1",counter="prepares_received"} 0"#,
                r#"upesi_sim_counted_total{dfsp="dfsp-2",counter="prepares_received"} 2"#,
                r#"upesi_sim_counted_total{dfsp="dfsp-2",counter="unreadable"} 0"#,
            ],
        );
    }
}
