//! The metrics of `upesi sim`, under the names of Mojaloop's simulator so that its dashboard can read them: durations
//! of messages and their exchanges, of the simulator's work on each message, and of its own calls. In addition, the
//! counters of every DFSP.
//!
//! A simulator measures only if it is configured to, because most simulators share a machine with the hub under load.
//! Histograms are found without a lock; an observation takes the histogram's own lock.

use std::array;
use std::fmt::{self, Write as _};
use std::sync::OnceLock;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::family::Family as Series;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use upesi_http::{HeaderMap, HeaderValue, Method};
use upesi_types::{FspId, Timestamp};

use crate::counters::Counters;
use crate::dfsp::Dfsp;
use crate::message::{Family, TRACESTATE};

/// Bounds in seconds: the hub's bounds under Mojaloop's names, and finer ones.
const SECONDS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0];

/// The role of an arriving message in its exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leg {
    Request,
    Answer,
}

/// Number of histograms about exchanges for each family.
const WAYS: usize = 3;

/// The methods of the messages between DFSPs, as operations name them.
const METHODS: [&str; 4] = ["get", "post", "put", "patch"];

/// The index of a method in [`METHODS`].
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

/// Histograms by family of messages and one further property. Each is created when it is first needed.
struct Histograms<const OTHERS: usize> {
    series: Series<Operation, Histogram, fn() -> Histogram>,
    made: [[OnceLock<Histogram>; OTHERS]; Family::ALL.len()],
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

pub(crate) struct SimMetrics {
    registry: Registry,
    ways: Histograms<WAYS>,
    handling: Histograms<{ METHODS.len() }>,
    calls: Histograms<{ METHODS.len() }>,
}

impl SimMetrics {
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let (ways, handling, calls) = (
            "Time from sending a request or an answer to its arrival, and from sending a request to the \
             arrival of its answer",
            "Time from the head of a received message to the HTTP response",
            "Time from sending a message to the HTTP response, or to its failure",
        );
        Self {
            ways: Histograms::register(&mut registry, "cbs_tx_cb_perf", ways),
            handling: Histograms::register(&mut registry, "cbs_ing_callbackHandler", handling),
            calls: Histograms::register(&mut registry, "cbs_egress_callbackHandler", calls),
            registry,
        }
    }

    /// Observes the transit time of a message that arrived at `at`, and the duration of the exchange that it ends, if
    /// the list of its `tracestate` contains their starts. If a start is later than `at` because clocks differ, the
    /// duration is 0.
    pub fn arrived(&self, family: Family, leg: Leg, list: &str, at: Timestamp) {
        // Each with the end of the operation's name, and the key of its start time.
        let ways: &[(usize, &str, &str)] = match leg {
            Leg::Request => &[(0, "request", END_TO_END_START)],
            Leg::Answer => &[(1, "end2end", END_TO_END_START), (2, "response", CALLBACK_START)],
        };
        for &(place, name, start) in ways {
            let Some(start_ms) = instant_ms(list, start) else { continue };
            let took_ms = u64::try_from(at.as_ms().saturating_sub(start_ms)).unwrap_or(0);
            let operation = || format!("{}_{name}", family.as_str());
            let histogram = self.ways.of(family, place, operation);
            histogram.observe(Duration::from_millis(took_ms).as_secs_f64());
        }
    }

    /// Observes the duration of the simulator's work on a message that arrived.
    pub fn handled(&self, method: &Method, family: Family, took: Duration) {
        observe(&self.handling, method, family, took);
    }

    /// Observes the duration of a sent message, whatever its outcome.
    pub fn called(&self, method: &Method, family: Family, took: Duration) {
        observe(&self.calls, method, family, took);
    }

    /// All metrics as OpenMetrics text, with the current counters of the DFSPs.
    pub fn text(&self, dfsps: &[Dfsp]) -> String {
        let counted = dfsps.iter().map(|dfsp| (dfsp.name, dfsp.counters.snapshot())).collect();
        let mut counters = Registry::default();
        counters.register_collector(Box::new(DfspCounters(counted)));
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
    let operation = || format!("{}_{}", METHODS[place], family.as_str());
    histograms.of(family, place, operation).observe(took.as_secs_f64());
}

/// The counters of the DFSPs, by name. They are read on demand, so that counting has no extra cost.
#[derive(Debug)]
struct DfspCounters(Vec<(FspId, Counters)>);

impl Collector for DfspCounters {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Counters of a DFSP, under the names of GET /_sim/dfsps.";
        let mut family = encoder.encode_descriptor("upesi_sim_counted", help, None, MetricType::Counter)?;
        for (name, counters) in &self.0 {
            // The counters are an object of numbers.
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

/// Key for the sending time of an exchange's request, in milliseconds since 1970.
const END_TO_END_START: &str = "tx_end2end_start_ts";
/// Key for the sending time of the answer to an exchange's request, in milliseconds since 1970.
const CALLBACK_START: &str = "tx_callback_start_ts";

/// Maximum number of members in a list (W3C Trace Context §3.3.1.1).
const MEMBERS_MAX: usize = 32;
/// Length of a list that all systems must forward (W3C Trace Context §3.3.1.5).
const BYTES_MAX: usize = 512;

/// The list that a message carries, if it has one.
pub(crate) fn left_in(headers: &HeaderMap) -> Option<&str> {
    headers.get(TRACESTATE)?.to_str().ok()
}

/// The instant under a key, in milliseconds since 1970; `None` if the list has none, or another value there.
pub(crate) fn instant_ms(list: &str, key: &str) -> Option<i64> {
    let value = list.split(',').take(MEMBERS_MAX).find_map(|member| value_of(member, key))?;
    if value.bytes().all(|byte| byte.is_ascii_digit()) { value.parse().ok() } else { None }
}

/// The headers of an answer that leaves now; `None` if they do not change, because the request has no start time or the
/// list has no space.
pub(crate) fn leaving(headers: &HeaderMap, now: impl FnOnce() -> Timestamp) -> Option<HeaderMap> {
    let list = with_callback_start(left_in(headers)?, now().as_ms())?;
    let mut headers = headers.clone();
    headers.insert(TRACESTATE, HeaderValue::try_from(list).ok()?);
    Some(headers)
}

/// The list with the sending time of the answer; `None` if it contains no start of the exchange, or has no space. The
/// new member is the last one, although the standard puts it first: readers may expect the script's member at its old
/// place.
fn with_callback_start(list: &str, ms: i64) -> Option<String> {
    instant_ms(list, END_TO_END_START)?;
    let mut longer = String::with_capacity(list.len() + CALLBACK_START.len() + 24);
    let mut members = 1;
    for member in list.split(',').filter(|member| value_of(member, CALLBACK_START).is_none()) {
        longer.push_str(member);
        longer.push(',');
        members += 1;
    }
    // Writing into a String cannot fail.
    let _ = write!(longer, "{CALLBACK_START}={ms}");
    (members <= MEMBERS_MAX && longer.len() <= BYTES_MAX).then_some(longer)
}

/// The value of a member, if it has that key.
fn value_of<'list>(member: &'list str, key: &str) -> Option<&'list str> {
    member.trim().strip_prefix(key)?.strip_prefix('=')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::count;
    use crate::settings::DfspSettings;

    fn assert_has(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(text.lines().any(|found| found == *line), "{line} is not in\n{text}");
        }
    }

    /// The message arrives a quarter of a second after the answer was sent, and half a second after the request was
    /// sent.
    #[test]
    fn message_is_observed_with_transit_and_exchange_times() {
        let metrics = SimMetrics::new();
        let at = Timestamp::from_ms(1_700_000_000_500);
        let asked = "tx_end2end_start_ts=1700000000000";
        let answered = "vendor=x,tx_end2end_start_ts=1700000000000,tx_callback_start_ts=1700000000250";
        metrics.arrived(Family::Transfers, Leg::Request, asked, at);
        metrics.arrived(Family::Transfers, Leg::Answer, answered, at);
        metrics.arrived(Family::Transfers, Leg::Answer, answered, at);
        // The answer came from the hub, or from a DFSP that does not measure.
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
    fn handling_and_calls_are_observed_by_method_and_family() {
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
    fn counters_of_dfsps_are_exported_by_name() {
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

    #[test]
    fn tracestate_instant_is_found_among_other_members() {
        let far = format!("{}tx_end2end_start_ts=7", "v=1,".repeat(MEMBERS_MAX));
        for (list, expected) in [
            ("tx_end2end_start_ts=1700000000000", Some(1_700_000_000_000)),
            ("vendor=x, tx_end2end_start_ts=17\t,tx_callback_start_ts=18", Some(17)),
            ("tx_end2end_start_ts=9223372036854775807", Some(i64::MAX)),
            // Absent.
            ("", None),
            (",,", None),
            ("vendor=x,tx_callback_start_ts=18", None),
            ("own_tx_end2end_start_ts=17", None),
            ("tx_end2end_start_ts_own=17", None),
            ("tx_end2end_start_ts", None),
            // Malformed.
            ("tx_end2end_start_ts=", None),
            ("tx_end2end_start_ts=soon", None),
            ("tx_end2end_start_ts=17.5", None),
            ("tx_end2end_start_ts=-17", None),
            ("tx_end2end_start_ts=+17", None),
            ("tx_end2end_start_ts =17", None),
            ("tx_end2end_start_ts=soon,tx_end2end_start_ts=17", None),
            // Too long: the number, and the list.
            ("tx_end2end_start_ts=9223372036854775808", None),
            (far.as_str(), None),
            (&far["v=1,".len()..], Some(7)),
        ] {
            assert_eq!(instant_ms(list, END_TO_END_START), expected, "{list}");
        }
    }

    #[test]
    fn answer_keeps_the_members_of_the_tracestate() {
        for (list, expected) in [
            ("tx_end2end_start_ts=17", Some("tx_end2end_start_ts=17,tx_callback_start_ts=18")),
            (
                "a=b, tx_end2end_start_ts=17 ,,c=d",
                Some("a=b, tx_end2end_start_ts=17 ,,c=d,tx_callback_start_ts=18"),
            ),
            (
                "tx_callback_start_ts=5,tx_end2end_start_ts=17",
                Some("tx_end2end_start_ts=17,tx_callback_start_ts=18"),
            ),
            ("", None),
            ("a=b", None),
            ("tx_end2end_start_ts=soon", None),
        ] {
            assert_eq!(with_callback_start(list, 18).as_deref(), expected, "{list}");
        }
    }

    #[test]
    fn tracestate_without_space_is_unchanged() {
        let added = ",tx_callback_start_ts=18".len();
        let start = "tx_end2end_start_ts=17,v=";
        for (bytes, expected) in [(BYTES_MAX, Some(BYTES_MAX)), (BYTES_MAX + 1, None)] {
            let list = format!("{start}{}", "x".repeat(bytes - added - start.len()));
            assert_eq!(with_callback_start(&list, 18).map(|longer| longer.len()), expected);
        }
        for (members, expected) in [(MEMBERS_MAX, Some(MEMBERS_MAX)), (MEMBERS_MAX + 1, None)] {
            let list = format!("tx_end2end_start_ts=17{}", ",v=1".repeat(members - 2));
            let longer = with_callback_start(&list, 18);
            assert_eq!(longer.map(|longer| longer.split(',').count()), expected);
        }
    }

    #[test]
    fn headers_change_only_if_a_script_measures() {
        let at = Timestamp::from_ms(1_700_000_000_250);
        let mut headers = HeaderMap::new();
        assert_eq!(leaving(&headers, || at), None);
        headers.insert("fspiop-source", HeaderValue::from_static("dfsp-2"));
        headers.insert(TRACESTATE, HeaderValue::from_static("a=b"));
        assert_eq!(leaving(&headers, || at), None);
        let unreadable = HeaderValue::from_bytes(b"tx_end2end_start_ts=17,a=\xff").unwrap();
        headers.insert(TRACESTATE, unreadable);
        assert_eq!(leaving(&headers, || at), None);
        headers.insert(TRACESTATE, HeaderValue::from_static("tx_end2end_start_ts=1700000000000"));
        let left = leaving(&headers, || at).unwrap();
        assert_eq!(left["fspiop-source"], "dfsp-2");
        assert_eq!(
            left["tracestate"],
            "tx_end2end_start_ts=1700000000000,tx_callback_start_ts=1700000000250"
        );
        assert_eq!((left.len(), left_in(&headers)), (2, Some("tx_end2end_start_ts=1700000000000")));
    }
}
