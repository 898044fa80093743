//! One run in a report: the result, and the file's content, because other programs omit members.

use std::collections::BTreeMap;
use std::ops::Deref;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::plan::metric::Metric;
use crate::plan::parameters;
use crate::result::audit::AuditSummary;
use crate::result::schema::{ProcessRow, TimelineRow, Validity};
use crate::result::{BaselineResult, LabResult, SliceResult};
use crate::statistics::median;

#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    /// The result. A member that the file omits has its default: see [`Run::number`] for members that may be absent.
    pub result: LabResult,
    pub parameters: BTreeMap<String, Value>,
    pub environment: Map<String, Value>,
    pub options: Map<String, Value>,
    /// The file's content without null values.
    pub raw: Value,
    /// The text that distinguishes it from the other runs on the page.
    pub label: String,
    pub directory: String,
    /// The profile beside it, if there is one.
    pub shares: Option<Shares>,
    /// Its flame graph in base64, if it is small enough for a page.
    pub flame_graph: Option<String>,
}

impl Deref for Run {
    type Target = LabResult;

    fn deref(&self) -> &LabResult {
        &self.result
    }
}

/// Removes null values everywhere. The lab writes null for figures that were not measured.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

impl Run {
    /// Reads the content of a file.
    pub fn of(mut raw: Value) -> Result<Self, serde_json::Error> {
        without_nulls(&mut raw);
        let mut typed = raw.clone();
        // Other programs have other conditions, which are shown unchanged.
        let mut take =
            |name: &str| typed.as_object_mut().and_then(|members| members.remove(name)).unwrap_or_default();
        let map = |value: Value| if value.is_null() { Ok(Map::new()) } else { Map::deserialize(value) };
        let (environment, options) = (map(take("environment"))?, map(take("options"))?);
        let parameters = map(take("parameters"))?.into_iter().collect();
        let result = LabResult::deserialize(typed)?;
        Ok(Self { result, parameters, environment, options, raw, ..Self::default() })
    }

    pub fn name(&self) -> &str {
        if self.result.name.is_empty() { &self.result.scenario } else { &self.result.name }
    }

    /// The heading of the run.
    pub fn title(&self) -> &str {
        if self.result.title.is_empty() { self.name() } else { &self.result.title }
    }

    pub fn unit(&self) -> &str {
        if self.result.unit.is_empty() { "operation" } else { &self.result.unit }
    }

    pub fn units(&self) -> String {
        format!("{}s", self.unit())
    }

    /// The varied parameters, such as `batch 10, 4 DFSPs`.
    pub fn parameters_text(&self) -> String {
        let texts = self.parameters.iter().map(|(name, value)| parameters::text(name, value));
        texts.collect::<Vec<_>>().join(", ")
    }

    /// The hub's process, if it was measured.
    pub fn hub(&self) -> Option<&ProcessRow> {
        let hub = self.processes.iter().find(|process| process.name == "hub");
        // An isolated stage is the whole of its process.
        hub.or_else(|| self.processes.first().filter(|_| self.is_isolated() && self.processes.len() == 1))
    }

    pub fn baselines(&self) -> impl Iterator<Item = &BaselineResult> {
        self.baseline.iter().chain(&self.more_baselines)
    }

    pub fn is_isolated(&self) -> bool {
        self.raw.get("kind").is_some_and(|kind| kind == "isolated")
    }

    /// CPU of the hub per operation, in microseconds.
    pub fn hub_cpu_us(&self) -> Option<f64> {
        self.hub()?.cpu_us_per_operation
    }

    /// Counts by latency.
    pub fn buckets(&self) -> &[(u64, u64)] {
        self.histogram.as_ref().map(|histogram| histogram.buckets.as_slice()).unwrap_or_default()
    }

    /// Whether arrivals followed a schedule, so that the throughput was requested and not found.
    pub fn is_open_loop(&self) -> bool {
        self.schedule.is_some()
    }

    /// The baseline of the ratio.
    pub fn baseline_name(&self) -> Option<&str> {
        self.baseline.as_ref().map(|baseline| baseline.name.as_ref())
    }

    /// Whether the run's figures are valid, if that was judged.
    pub fn judged(&self) -> Option<&Validity> {
        self.raw.get("validity").map(|_| &self.validity)
    }

    /// The audit, if one was performed. Other programs, which always perform it, do not state so.
    pub fn audited(&self) -> Option<&AuditSummary> {
        let audit = self.raw.get("audit")?;
        audit.get("performed").is_none_or(|performed| performed == true).then_some(&self.audit)
    }

    /// First and last second of the steady window.
    pub fn steady_window(&self) -> Option<(f64, f64)> {
        let window = self.raw.get("window")?;
        let start = self.window.trimmed_start_s;
        let end = match self.rows().last() {
            Some(last) if window.get("trimmed_end_s").is_some() => last.t - self.window.trimmed_end_s,
            _ => start + self.window.seconds,
        };
        (end > start).then_some((start, end))
    }

    /// Rows of the timeline within the steady window.
    pub fn steady_rows(&self) -> Vec<TimelineRow> {
        let (start, end) = self.steady_window().unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        self.rows().iter().filter(|row| row.t > start && row.t <= end).copied().collect()
    }

    /// Length of a row of the timeline, in seconds.
    pub fn interval_s(&self) -> f64 {
        f64::from(self.timeline.as_ref().map_or(1, |timeline| timeline.interval_s.max(1)))
    }

    pub fn count(&self, path: &str) -> Option<u64> {
        self.value(path)?.as_u64()
    }

    /// A figure by name: a parameter, or a path of members such as `latency_ms.p99`. In a list, the element with that
    /// name: `processes.hub.cores`, `stages.journal_sync.mean_us`.
    pub fn value(&self, path: &str) -> Option<&Value> {
        let found = match path {
            "p50_ms" | "p99_ms" | "max_ms" => self.raw.get("latency_ms")?.get(path.trim_end_matches("_ms")),
            "hub_cpu_us" => self.raw.get("hub")?.get("cpu_us_per_operation"),
            _ => self.parameters.get(path).or_else(|| path.split('.').try_fold(&self.raw, member_of)),
        };
        found.filter(|value| !value.is_null())
    }

    /// A figure by name, if the file has it.
    pub fn number(&self, path: &str) -> Option<f64> {
        let number = match self.value(path)? {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        number.filter(|number| number.is_finite())
    }
}

/// A member of an object, or the element of a list with that name.
fn member_of<'value>(value: &'value Value, member: &str) -> Option<&'value Value> {
    let is_named = |element: &&Value| {
        ["name", "stage"].iter().any(|key| element.get(key).is_some_and(|name| name == member))
    };
    match value {
        Value::Array(elements) => elements.iter().find(is_named),
        other => other.get(member),
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Shares {
    pub samples: u64,
    /// The stages, the busiest first.
    pub stages: Vec<StageShare>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StageShare {
    pub stage: String,
    pub samples: u64,
    pub share: f64,
    pub error: f64,
    pub inside: Vec<UsagePart>,
}

/// A part of a stage's usage.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct UsagePart {
    pub what: String,
    pub share: f64,
}

/// Number of blocks into which a timeline is cut if a run was not repeated: enough for an interval, few enough that
/// neighbouring blocks are nearly independent.
const BLOCKS: usize = 10;
const BLOCK_ROWS_MIN: usize = 3;

/// Repeated measurements of one figure.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    pub values: Vec<f64>,
    /// Whether all of them are parts of one run. They show the noise within the run, and not the machine's variation
    /// between runs.
    pub are_within_run: bool,
}

impl Run {
    /// Repeated measurements of a figure, if the run has any: of its repetitions, or else of its slices, or else of its
    /// seconds.
    pub(crate) fn samples(&self, metric: Metric) -> Option<Samples> {
        let sources = [
            (false, self.of_repetitions(metric)),
            // This is also the case if they take turns with a baseline.
            (true, self.of_slices(metric)),
            (true, self.of_blocks(metric)),
        ];
        let found = sources.into_iter().find(|(_, values)| values.len() > 1);
        found.map(|(are_within_run, values)| Samples { values, are_within_run })
    }

    /// One value for each of several runs. A run that was not repeated lists its own slices as `repetitions`; these do
    /// not count.
    fn of_repetitions(&self, metric: Metric) -> Vec<f64> {
        match metric {
            Metric::Throughput if self.repetitions == self.of_slices(metric) => Vec::new(),
            Metric::Throughput => self.repetitions.clone(),
            _ => self.repeated.get(metric.member()).cloned().unwrap_or_default(),
        }
    }

    fn of_slices(&self, metric: Metric) -> Vec<f64> {
        let rates = |slices: &[SliceResult]| -> Vec<f64> {
            slices.iter().map(|slice| slice.throughput_per_s).collect()
        };
        let own = rates(&self.slices);
        let baseline = self.baseline.as_ref().map(|baseline| rates(&baseline.slices)).unwrap_or_default();
        match metric {
            Metric::Throughput => own,
            // Each slice was measured beside the baseline's slice of the same index.
            Metric::Ratio if own.len() == baseline.len() => {
                own.iter().zip(&baseline).map(|(own, baseline)| own / baseline).collect()
            }
            Metric::Ratio | Metric::Median | Metric::Tail | Metric::Cpu => Vec::new(),
        }
    }

    fn of_blocks(&self, metric: Metric) -> Vec<f64> {
        let rows = self.steady_rows();
        let seconds = self.interval_s();
        let length = (rows.len() / BLOCKS).max(BLOCK_ROWS_MIN);
        rows.chunks_exact(length).filter_map(|block| figure(metric, block, seconds)).collect()
    }

    /// The figure of the whole run; the median for several runs.
    pub(crate) fn figure(&self, metric: Metric) -> Option<f64> {
        let repeated = self.repeated.get(metric.member()).and_then(|values| median(values.iter().copied()));
        let value = repeated.or_else(|| match metric {
            Metric::Cpu => self.hub_cpu_us(),
            metric => self.number(metric.member()),
        });
        value.filter(|value| value.is_finite())
    }
}

fn figure(metric: Metric, block: &[TimelineRow], interval_s: f64) -> Option<f64> {
    let middle = |value: fn(&TimelineRow) -> Option<f64>| median(block.iter().filter_map(value));
    let sum = |value: fn(&TimelineRow) -> Option<f64>| block.iter().map(value).sum::<Option<f64>>();
    match metric {
        Metric::Throughput => {
            Some(sum(|row| Some(row.completed as f64))? / (block.len() as f64 * interval_s))
        }
        // The timeline covers the hub only.
        Metric::Ratio => None,
        Metric::Median => middle(|row| row.p50_ms),
        Metric::Tail => middle(|row| row.p99_ms),
        Metric::Cpu => {
            let completed = sum(|row| Some(row.completed as f64))?;
            let cores = sum(|row| row.hub_cpu_cores)?;
            (completed > 0.0).then(|| cores * interval_s * 1e6 / completed)
        }
    }
}
