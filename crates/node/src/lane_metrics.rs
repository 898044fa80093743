//! Metrics of callback lanes, on a leader and on a follower.

use std::fmt::Write as _;

use upesi_delivery::lanes::{Courier, Histogram, LaneMetrics, LaneStatus};
use upesi_engine::Participants;
use upesi_http::BreakerState;
use upesi_process::exposition::{escape, head};

/// Labels of deliveries, as Mojaloop's dashboards select them.
const DELIVERED_LABELS: &str = "serviceName=\"ml-handler-notification\",success=\"true\",";
/// Labels of failed attempts, as Mojaloop's dashboards select them.
const FAILED_LABELS: &str = "serviceName=\"ml-handler-notification\",success=\"false\",";

/// A histogram of each lane, with its labels.
type Series<'a> = (&'a str, &'a dyn Fn(&LaneMetrics) -> &Histogram);

/// A metric of every lane: name without `_total`, kind, help, value.
type LaneFamily = (&'static str, &'static str, &'static str, fn(&LaneStatus) -> u64);

const LANE_FAMILIES: [LaneFamily; 15] = [
    ("upesi_lane_queued", "gauge", "Callbacks waiting for their first attempt", |lane| lane.queued as u64),
    ("upesi_lane_retrying", "gauge", "Callbacks waiting for a retry", |lane| lane.retrying as u64),
    (
        "upesi_lane_retrying_on_disk",
        "gauge",
        "Callbacks waiting for a retry that are stored on disk only",
        |lane| lane.retrying_on_disk as u64,
    ),
    (
        "upesi_lane_refused",
        "gauge",
        "Callbacks that the DFSP has rejected for at least ten seconds",
        |lane| lane.refused as u64,
    ),
    ("upesi_lane_in_flight", "gauge", "Callbacks in flight", |lane| lane.in_flight as u64),
    ("upesi_lane_bytes", "gauge", "Memory used by callbacks", |lane| lane.bytes as u64),
    ("upesi_lane_paused", "gauge", "1 while the DFSP cannot be reached", |lane| {
        u64::from(lane.breaker != BreakerState::Closed)
    }),
    ("upesi_lane_delivered", "counter", "Callbacks delivered", |lane| lane.delivered),
    ("upesi_lane_failed", "counter", "Failed attempts", |lane| lane.failed),
    ("upesi_lane_parked", "counter", "Parked callbacks", |lane| lane.parked),
    ("upesi_lane_paused_times", "counter", "Pauses of the lane after too many failures", |lane| {
        lane.breaker_opened
    }),
    (
        "upesi_lane_catch_ups",
        "counter",
        "Reads of the outbox for callbacks that did not fit into memory",
        |lane| lane.catch_ups,
    ),
    ("upesi_lane_backlog_failures", "counter", "Failed reads of the outbox", |lane| lane.backlog_failures),
    (
        "upesi_lane_relayed",
        "counter",
        "Forwarded lookups, quotes and other relayed messages that the DFSP answered",
        |lane| lane.relayed,
    ),
    (
        "upesi_lane_relay_failures",
        "counter",
        "Forwarded lookups, quotes and other relayed messages that the DFSP did not answer",
        |lane| lane.relay_failures,
    ),
];

/// Writes the metrics of a courier's lanes.
pub(super) fn write(text: &mut String, courier: &Courier, participants: &Participants) {
    let lanes = courier.lanes();
    let name_of = |target| participants.name(target).map_or_else(String::new, |name| escape(name.as_str()));
    for (name, kind, help, value) in LANE_FAMILIES {
        let suffix = if kind == "counter" { "_total" } else { "" };
        head(text, name, kind, help);
        for lane in &lanes {
            let _ = writeln!(text, "{name}{suffix}{{fsp=\"{}\"}} {}", name_of(lane.target), value(lane));
        }
    }
    write_delivery_histogram(
        (text, courier, participants),
        "upesi_callback_attempt_seconds",
        "Time from sending a callback to its response",
        &[("", &|m| &m.attempt_duration)],
    );
    for name in ["moja_ml_notification_event", "moja_ml_notification_event_delivery"] {
        write_delivery_histogram(
            (text, courier, participants),
            name,
            "Time from a callback's arrival in its lane to its delivery, or to the end of a failed attempt",
            &[(DELIVERED_LABELS, &|m| &m.delivery_duration), (FAILED_LABELS, &|m| &m.failure_duration)],
        );
    }
    write_transfers(text, courier);
}

/// Writes the waiting times between the parties of transfers, over all lanes.
fn write_transfers(text: &mut String, courier: &Courier) {
    let lanes = courier.lanes();
    for (name, help, of) in [
        (
            "moja_ml_tx_transfer_prepare",
            "Time from the decision on a prepare to its delivery to the payee",
            (|m| &m.prepare_duration) as fn(&LaneMetrics) -> &Histogram,
        ),
        (
            "moja_ml_tx_transfer_fulfil",
            "Time from the decision on a fulfil or abort to its delivery to the payer",
            |m| &m.fulfil_duration,
        ),
        (
            "moja_ml_tx_transfer",
            "Time from the decision on a prepare to the delivery of its fulfil or abort to the payer",
            |m| &m.transfer_duration,
        ),
    ] {
        let all = Histogram::default();
        for metrics in lanes.iter().filter_map(|lane| courier.metrics(lane.target)) {
            all.absorb(of(&metrics));
        }
        head(text, name, "histogram", help);
        write_histogram(text, name, DELIVERED_LABELS.trim_end_matches(','), &all);
    }
}

fn write_delivery_histogram(
    (text, courier, participants): (&mut String, &Courier, &Participants),
    name: &str,
    help: &str,
    series: &[Series<'_>],
) {
    head(text, name, "histogram", help);
    for lane in courier.lanes() {
        let Some(metrics) = courier.metrics(lane.target) else { continue };
        let dest = participants.name(lane.target).map_or_else(String::new, |name| escape(name.as_str()));
        for (labels, of) in series {
            write_histogram(text, name, &format!("{labels}dest=\"{dest}\""), of(&metrics));
        }
    }
}

fn write_histogram(text: &mut String, name: &str, labels: &str, histogram: &Histogram) {
    let mut count = 0;
    for (index, bucket) in histogram.counts().into_iter().enumerate() {
        count += bucket;
        let bound = Histogram::BOUNDS_US.get(index).map_or_else(|| "+Inf".to_owned(), |us| upper_bound(*us));
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
    }
    let _ = writeln!(text, "{name}_sum{{{labels}}} {}", seconds(histogram.sum_us()));
    let _ = writeln!(text, "{name}_count{{{labels}}} {count}");
}

/// A bucket's limit in seconds, in the form of all other histograms, because dashboards select by this text: `0.0005`,
/// `1.0`.
fn upper_bound(us: u64) -> String {
    let seconds = seconds(us);
    let significant = seconds.trim_end_matches('0');
    if significant.ends_with('.') { format!("{significant}0") } else { significant.to_owned() }
}

/// Microseconds as a decimal number of seconds.
pub(super) fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_bounds_have_the_format_that_dashboards_select() {
        let bounds = Histogram::BOUNDS_US.map(upper_bound);
        let expected = [
            "0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1",
            "0.25", "0.5", "1.0", "2.5", "5.0", "10.0",
        ];
        assert_eq!(bounds, expected);
        let mut text = String::new();
        write_histogram(&mut text, "h", r#"success="true""#, &Histogram::default());
        assert!(text.starts_with("h_bucket{success=\"true\",le=\"0.0001\"} 0\n"), "{text}");
        assert!(text.ends_with("h_sum{success=\"true\"} 0.000000\nh_count{success=\"true\"} 0\n"), "{text}");
    }
}
