//! The hub's metrics of its own stages, before and after: `GET /metrics` in the Prometheus text format.
#![expect(clippy::float_arithmetic, reason = "rates and means of a hub's counters; no money")]

use std::collections::BTreeMap;

use upesi_http::ClientTls;

use crate::admin_client::{AdminClient, AdminError};
use crate::plan::target::TargetHub;
use crate::result::schema::{Queues, StageResult};
use crate::statistics::{ratio, rounded};

/// Maximum number of samples that are read; a text with more is not from a known hub.
const SAMPLES_MAX: usize = 1_000_000;

/// Stages that are histograms of seconds: the stage's name, and the metric's name. If Mojaloop has a metric for a
/// stage, its name is used, so that the lab can measure either hub. If a stage has two names, the first one in the
/// hub's metrics is used.
const STAGES: [(&str, &str); 13] = [
    ("prepare", "moja_cl_transfer_prepare"),
    ("fulfil", "moja_cl_transfer_fulfil"),
    ("position", "upesi_engine_decide_seconds"),
    ("position", "moja_cl_transfer_position"),
    ("journal_write", "upesi_journal_write_seconds"),
    ("journal_sync", "upesi_journal_sync_seconds"),
    ("callback", "upesi_callback_attempt_seconds"),
    ("notification", "moja_ml_notification_event_delivery"),
    ("lookup", "moja_als_ing_getPartiesByTypeAndID"),
    ("lookup_answer", "moja_als_ing_putPartiesByTypeAndID"),
    ("quote", "moja_qs_quotes_post"),
    ("quote_answer", "moja_qs_quotes_id_put"),
    ("relay", "upesi_relay_delivery_seconds"),
];

/// The queues, and the gauges of their depths. If a queue has several gauges, or one for each lane, they are summed.
type Depth = fn(&mut Queues) -> &mut Option<f64>;
const QUEUES: [(&str, Depth); 5] = [
    ("upesi_admission_engine_waiting", |queues| &mut queues.ingress),
    ("upesi_engine_queue_depth", |queues| &mut queues.engine),
    ("upesi_lane_queued", |queues| &mut queues.callbacks),
    ("upesi_lane_retrying", |queues| &mut queues.callbacks),
    ("upesi_relay_in_flight", |queues| &mut queues.relay),
];

/// The samples of one moment, summed over all labels except `le`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Snapshot {
    sums: BTreeMap<String, f64>,
    /// Counts by upper bound in seconds, as texts that sort by their value.
    buckets: BTreeMap<String, Vec<(f64, f64)>>,
}

impl Snapshot {
    /// Reads the text. Unknown lines are skipped.
    pub fn read(text: &str) -> Self {
        let mut snapshot = Self::default();
        for line in text.lines().take(SAMPLES_MAX).filter(|line| !line.starts_with('#')) {
            let Some((name, labels, value)) = sample(line) else { continue };
            match name.strip_suffix("_bucket").zip(bound(labels)) {
                Some((family, bound)) => {
                    add(snapshot.buckets.entry(family.to_owned()).or_default(), bound, value);
                }
                None => *snapshot.sums.entry(name.to_owned()).or_default() += value,
            }
        }
        snapshot
    }

    /// Whether the text had no known sample.
    pub fn is_empty(&self) -> bool {
        self.sums.is_empty() && self.buckets.is_empty()
    }

    fn sum(&self, name: &str) -> f64 {
        self.sums.get(name).copied().unwrap_or(0.0)
    }

    /// Growth of a counter since an earlier snapshot. Some hubs omit the suffix `_total`.
    pub fn growth(&self, before: &Self, name: &str) -> f64 {
        (self.sum(name) - before.sum(name)).max(0.0)
    }
}

/// Adds to the count of an upper bound.
fn add(buckets: &mut Vec<(f64, f64)>, bound: f64, more: f64) {
    match buckets.iter_mut().find(|(known, _)| *known == bound) {
        Some((_, count)) => *count += more,
        None => buckets.push((bound, more)),
    }
}

/// Growth of a family's buckets in all spans together, by upper bound.
fn buckets_grown(spans: &[(Snapshot, Snapshot)], family: &str) -> Vec<(f64, f64)> {
    let mut grown: Vec<(f64, f64)> = Vec::new();
    for (before, after) in spans {
        let earlier = before.buckets.get(family).map(Vec::as_slice).unwrap_or_default();
        for (bound, count) in after.buckets.get(family).into_iter().flatten() {
            let known = earlier.iter().find(|(known, _)| known == bound).map_or(0.0, |(_, count)| *count);
            let more = (count - known).max(0.0);
            add(&mut grown, *bound, more);
        }
    }
    grown.sort_by(|one, other| one.0.total_cmp(&other.0));
    grown
}

/// A quantile over all spans together, in seconds.
fn quantile(spans: &[(Snapshot, Snapshot)], family: &str, quantile: f64) -> Option<f64> {
    let buckets = buckets_grown(spans, family);
    let wanted = buckets.last()?.1 * quantile;
    let (mut low, mut below) = (0.0, 0.0);
    for (bound, count) in buckets {
        if count >= wanted && wanted > 0.0 {
            if low <= 0.0 {
                // The value is only known to be below the first bound, which may be far off.
                return None;
            }
            // Beyond the last bound the value is only known to be larger.
            let high = if bound.is_finite() { bound } else { return Some(low) };
            return Some(low + (high - low) * ratio(wanted - below, count - below).unwrap_or(1.0));
        }
        (low, below) = (bound, count);
    }
    None
}

impl Queues {
    pub(crate) fn read(text: &str) -> Self {
        let mut queues = Self::default();
        for line in text.lines().take(SAMPLES_MAX) {
            let known = QUEUES.iter().find(|(name, _)| line.starts_with(name));
            let Some((known, depth)) = known else { continue };
            if let Some((name, _, value)) = sample(line)
                && name == *known
            {
                *depth(&mut queues).get_or_insert(0.0) += value;
            }
        }
        queues
    }

    fn of(&self, stage: &str) -> Option<f64> {
        let depth = match stage {
            "ingress" => self.ingress,
            "engine" => self.engine,
            "notification" => self.callbacks,
            "relay" => self.relay,
            _ => None,
        };
        depth.map(|depth| rounded(depth, 1))
    }
}

fn sample(line: &str) -> Option<(&str, &str, f64)> {
    let (name, rest) = match line.find('{') {
        Some(open) => {
            let close = line.rfind('}')?;
            (&line[..open], (line.get(open + 1..close)?, &line[close + 1..]))
        }
        None => {
            let blank = line.find(' ')?;
            (&line[..blank], ("", &line[blank..]))
        }
    };
    let value = rest.1.split_ascii_whitespace().next()?.parse().ok()?;
    Some((name, rest.0, value))
}

/// The value of the label `le`.
fn bound(labels: &str) -> Option<f64> {
    let start = labels.find("le=\"").filter(|at| *at == 0 || labels.as_bytes()[*at - 1] == b',')? + 4;
    let text = &labels[start..start + labels[start..].find('"')?];
    if text == "+Inf" { Some(f64::INFINITY) } else { text.parse().ok() }
}

/// The hub's stages over all measured times: pairs of snapshots at their starts and ends.
pub(crate) fn stages(spans: &[(Snapshot, Snapshot)], seconds: f64, queues: &Queues) -> Vec<StageResult> {
    let grown = |name: &str| spans.iter().map(|(before, after)| after.growth(before, name)).sum::<f64>();
    let stage_of = |stage: &str, operations: f64| StageResult {
        stage: stage.to_owned(),
        operations: operations as u64,
        per_s: rounded(ratio(operations, seconds).unwrap_or(0.0), 1),
        queue_depth: queues.of(stage),
        ..StageResult::default()
    };
    let mut stages = Vec::new();
    for (stage, family) in STAGES {
        let operations = grown(&format!("{family}_count"));
        if operations <= 0.0 || stages.iter().any(|told: &StageResult| told.stage == stage) {
            continue;
        }
        let p99 = quantile(spans, family, 0.99);
        stages.push(StageResult {
            mean_us: rounded(grown(&format!("{family}_sum")) * 1e6 / operations, 1),
            p99_us: p99.map(|seconds| rounded(seconds * 1e6, 1)),
            ..stage_of(stage, operations)
        });
    }
    let commands = grown("upesi_engine_commands_total");
    if commands > 0.0 {
        let batches = grown("upesi_engine_batch_commands_count");
        let deciding = grown("upesi_engine_decide_seconds_sum");
        stages.push(StageResult {
            mean_us: rounded(deciding * 1e6 / commands, 1),
            batch_mean: ratio(commands, batches).map(|mean| rounded(mean, 2)),
            ..stage_of("engine", commands)
        });
    }
    let taken = grown("upesi_admission_taken_total");
    if taken > 0.0 {
        stages.push(stage_of("ingress", taken));
    }
    stages
}

/// Path of the text below a base URL.
const PATH: &str = "/metrics";

/// A named place that has no metrics.
#[derive(Debug, thiserror::Error)]
#[error("no metrics at {url}: {reason}")]
pub struct NoMetrics {
    pub url: String,
    pub reason: String,
}

/// Reads the hub's metrics. The default has no place to read from.
#[derive(Debug, Default)]
pub(crate) struct Scraper {
    places: Vec<ScrapeTarget>,
}

#[derive(Debug)]
struct ScrapeTarget {
    url: String,
    client: AdminClient,
    path: &'static str,
}

impl NoMetrics {
    fn at(url: &str, error: AdminError) -> Self {
        let reason = match error {
            AdminError::Url(error) => error.to_string(),
            AdminError::Send { source, .. } | AdminError::Tls { source, .. } => source.to_string(),
            error @ AdminError::WrongPort { .. } => error.to_string(),
            AdminError::Refused { status, .. } => format!("it answers {status}"),
            AdminError::Waiting { .. } => "it waits for a second person".to_owned(),
            AdminError::Malformed { reason, .. } => reason,
        };
        Self { url: url.to_owned(), reason }
    }
}

impl ScrapeTarget {
    fn new(url: &str, tls: Option<&ClientTls>) -> Result<Self, NoMetrics> {
        let client = AdminClient::with_tls(url, tls).map_err(|error| NoMetrics::at(url, error))?;
        let path = if client.is_at_root() { PATH } else { "" };
        Ok(Self { url: url.to_owned(), client, path })
    }

    async fn text(&self) -> Result<String, NoMetrics> {
        let body = self.client.get(self.path).await.map_err(|error| NoMetrics::at(&self.url, error))?;
        String::from_utf8(body.to_vec())
            .map_err(|error| NoMetrics { url: self.url.clone(), reason: error.to_string() })
    }
}

impl Scraper {
    /// Creates the scraper of a hub. Fails if a URL is unusable.
    pub fn new(target: &TargetHub) -> Result<Self, NoMetrics> {
        let tls = target.admin_tls.as_ref();
        let places = if target.metrics_urls.is_empty() {
            // An admin API below a path has its metrics below that path, too.
            vec![ScrapeTarget { path: PATH, ..ScrapeTarget::new(&target.admin_url, tls)? }]
        } else {
            target.metrics_urls.iter().map(|url| ScrapeTarget::new(url, tls)).collect::<Result<_, _>>()?
        };
        Ok(Self { places })
    }

    /// Checks that every named place has metrics. Fails with the first that has none.
    pub async fn check(&self) -> Result<(), NoMetrics> {
        for place in &self.places {
            if Snapshot::read(&place.text().await?).is_empty() {
                let reason = "the response is not a metrics text".to_owned();
                return Err(NoMetrics { url: place.url.clone(), reason });
            }
        }
        Ok(())
    }

    /// The texts of all places combined. After the first place that does not answer, returns `None` from then on: the
    /// text of the other places cannot be compared with the text of all.
    pub async fn text(&mut self) -> Option<String> {
        let text = self.ask_all().await;
        if text.is_none() {
            self.places.clear();
        }
        text
    }

    async fn ask_all(&self) -> Option<String> {
        let mut all = String::new();
        for place in &self.places {
            match place.text().await {
                Ok(text) => all.push_str(&text),
                Err(error) => {
                    tracing::debug!(%error, "the hub's metrics are no longer read");
                    return None;
                }
            }
            all.push('\n');
        }
        (!self.places.is_empty()).then_some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "\
# TYPE upesi_engine_commands counter
upesi_engine_commands_total 10
upesi_engine_queue_depth 7
upesi_engine_queue_depth_limit 500
upesi_lane_queued{fsp=\"a\"} 3
upesi_lane_queued{fsp=\"b\"} 4
upesi_lane_retrying{fsp=\"a\"} 2
upesi_admission_engine_waiting 11
upesi_callback_attempt_seconds_bucket{dest=\"a,le=\\\"\",le=\"0.1\"} 1
upesi_callback_attempt_seconds_bucket{dest=\"a\",le=\"+Inf\"} 1
upesi_callback_attempt_seconds_sum{dest=\"a\"} 0.05
upesi_callback_attempt_seconds_count{dest=\"a\"} 1
nonsense
";
    const AFTER: &str = "\
upesi_engine_commands_total 110
upesi_admission_taken_total{class=\"new\"} 70
upesi_admission_taken_total{class=\"finishing\"} 30
moja_ml_notification_event_delivery_count{dest=\"a\"} 5
upesi_engine_batch_commands_count 25
upesi_engine_decide_seconds_sum 0.002
upesi_engine_decide_seconds_count 25
upesi_callback_attempt_seconds_bucket{dest=\"a\",le=\"0.1\"} 51
upesi_callback_attempt_seconds_bucket{dest=\"a\",le=\"0.2\"} 101
upesi_callback_attempt_seconds_bucket{dest=\"a\",le=\"+Inf\"} 101
upesi_callback_attempt_seconds_sum{dest=\"a\"} 5.05
upesi_callback_attempt_seconds_count{dest=\"a\"} 101
# EOF
";

    #[test]
    fn stages_are_the_growth_between_two_texts() {
        let spans = [(Snapshot::read(BEFORE), Snapshot::read(AFTER))];
        let queues =
            Queues { engine: Some(3.25), callbacks: Some(1.75), ingress: Some(8.0), ..Queues::default() };
        let stages = stages(&spans, 10.0, &queues);
        let of = |name: &str| stages.iter().find(|stage| stage.stage == name).unwrap();
        let callback = of("callback");
        assert_eq!((callback.operations, callback.per_s, callback.mean_us), (100, 10.0, 50_000.0));
        // 99 of 100 are in the second bucket, close to its end.
        assert!(callback.p99_us.is_some_and(|p99| (190_000.0..=200_000.0).contains(&p99)), "{callback:?}");
        let engine = of("engine");
        assert_eq!((engine.operations, engine.mean_us), (100, 20.0));
        assert_eq!((engine.batch_mean, engine.queue_depth), (Some(4.0), Some(3.3)));
        assert_eq!((of("notification").queue_depth, callback.queue_depth), (Some(1.8), None));
        assert_eq!((of("ingress").operations, of("ingress").queue_depth), (100, Some(8.0)));
        assert!(!stages.iter().any(|stage| stage.stage == "prepare"), "nothing was prepared");
    }

    #[test]
    fn position_stage_is_found_by_mojaloops_name_alone() {
        let position = |text: &str| {
            let stages = stages(&[(Snapshot::default(), Snapshot::read(text))], 10.0, &Queues::default());
            let of_positions = stages.iter().filter(|stage| stage.stage == "position");
            of_positions.map(|stage| (stage.operations, stage.mean_us)).collect::<Vec<_>>()
        };
        let theirs = "moja_cl_transfer_position_sum 1\nmoja_cl_transfer_position_count 50\n";
        assert_eq!(position(theirs), [(50, 20_000.0)]);
        let ours = "upesi_engine_decide_seconds_sum 0.002\nupesi_engine_decide_seconds_count 25\n";
        assert_eq!(position(&format!("{theirs}{ours}")), [(25, 80.0)]);
    }

    /// A text with these counts of `moja_cl_transfer_prepare`: within 10 ms, within 50 ms, and in total.
    fn prepares(within: [u32; 3]) -> Snapshot {
        let name = "moja_cl_transfer_prepare";
        let bounds = ["0.01", "0.05", "+Inf"].into_iter().zip(within);
        let buckets: String =
            bounds.map(|(bound, count)| format!("{name}_bucket{{le=\"{bound}\"}} {count}\n")).collect();
        Snapshot::read(&format!("{buckets}{name}_sum 1\n{name}_count {}\n", within[2]))
    }

    #[test]
    fn p99_covers_all_slices() {
        let p99 = |spans: &[(Snapshot, Snapshot)]| {
            let stages = stages(spans, 1.0, &Queues::default());
            stages.iter().find(|stage| stage.stage == "prepare").unwrap().p99_us
        };
        // Half of the first slice takes 10 to 50 ms, the second slice is fast. Counts from before a slice are in no
        // slice.
        let slow = (prepares([1_000, 1_000, 1_000]), prepares([1_500, 2_000, 2_000]));
        let fast = (prepares([7_500, 8_000, 8_000]), prepares([16_500, 17_000, 17_000]));
        assert_eq!(p99(std::slice::from_ref(&slow)), Some(49_200.0));
        assert_eq!(p99(std::slice::from_ref(&fast)), None, "below the first bound nothing is known");
        // 100 of the 10,000 may be slower, and 500 are between the bounds: 400 of these are faster.
        for spans in [[slow.clone(), fast.clone()], [fast, slow]] {
            assert_eq!(p99(&spans), Some(42_000.0));
        }
    }

    #[test]
    fn queue_depths_sum_all_lanes_and_may_be_unknown() {
        let queues =
            Queues { ingress: Some(11.0), engine: Some(7.0), callbacks: Some(9.0), ..Queues::default() };
        assert_eq!(Queues::read(BEFORE), queues);
        assert_eq!(Queues::read(AFTER), Queues::default());
    }

    #[test]
    fn other_texts_have_no_stages() {
        for text in ["", "<html></html>", "a{b 1", "}{ 1", "x{le=\"", "{}"] {
            assert_eq!(
                stages(&[(Snapshot::default(), Snapshot::read(text))], 1.0, &Queues::default()),
                Vec::new(),
                "{text}"
            );
        }
    }
}
