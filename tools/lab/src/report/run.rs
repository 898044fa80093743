//! One run as it is read: every member that may be absent is optional, so that results of older and newer labs and of other
//! programs can be read.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

pub(crate) use crate::report::members::*;
use crate::report::parameters;
use crate::report::shares::Shares;

/// A run.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Run {
    #[serde(default, deserialize_with = "lenient")]
    pub scenario: String,
    pub name: Option<String>,
    pub title: Option<String>,
    pub description: Option<String>,
    pub kind: Option<String>,
    pub unit: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub parameters: BTreeMap<String, Value>,
    #[serde(default, deserialize_with = "lenient")]
    pub environment: Map<String, Value>,
    #[serde(default, deserialize_with = "lenient")]
    pub options: Map<String, Value>,
    pub seed: Option<u64>,
    pub target: Option<String>,
    pub failed: Option<u64>,
    pub lost: Option<u64>,
    pub late: Option<u64>,
    pub throughput_per_s: Option<f64>,
    #[serde(default, deserialize_with = "lenient")]
    pub latency_ms: Latency,
    #[serde(default, deserialize_with = "lenient")]
    pub phases: BTreeMap<String, Phase>,
    pub schedule: Option<Schedule>,
    pub hub: Option<Process>,
    pub lab: Option<Process>,
    pub durable: Option<bool>,
    pub baseline: Option<Baseline>,
    /// The hub's throughput divided by that of `baseline`.
    pub ratio: Option<f64>,
    #[serde(default, deserialize_with = "lenient")]
    pub more_baselines: Vec<Baseline>,
    #[serde(default, deserialize_with = "lenient")]
    pub slices: Vec<Slice>,
    pub audit: Option<Audit>,
    #[serde(default, deserialize_with = "lenient")]
    pub timeline: Timeline,
    #[serde(default, deserialize_with = "lenient")]
    pub histogram: Histogram,
    #[serde(default, deserialize_with = "lenient")]
    pub stages: Vec<Stage>,
    #[serde(default, deserialize_with = "lenient")]
    pub processes: Vec<Process>,
    pub validity: Option<Validity>,
    pub thresholds: Option<Thresholds>,
    pub machine: Option<Machine>,
    pub window: Option<Window>,
    #[serde(default, deserialize_with = "lenient")]
    pub targets: Vec<Target>,
    pub breakpoint: Option<Breakpoint>,
    pub drift: Option<Drift>,
    #[serde(default, deserialize_with = "lenient")]
    pub repetitions: Vec<f64>,
    /// Of each run of several, where they are told as one: other figures, by their member.
    #[serde(default, deserialize_with = "lenient")]
    pub repeated: BTreeMap<String, Vec<f64>>,
    /// Each of the loads, where there were several in parallel.
    #[serde(default, deserialize_with = "lenient")]
    pub loads: Vec<LoadPart>,
    /// The load generators, where results of several were merged.
    #[serde(default, deserialize_with = "lenient")]
    pub generators: Vec<Generator>,
    /// The whole file, for figures that a suite's plot names by their path.
    #[serde(skip)]
    pub raw: Value,
    /// What tells it from the other runs on the page.
    #[serde(skip)]
    pub label: String,
    /// The name of its directory.
    #[serde(skip)]
    pub directory: String,
    /// The profile beside it, where there is one.
    #[serde(skip)]
    pub shares: Option<Shares>,
    /// Its flame graph in base64, where it is small enough for a page.
    #[serde(skip)]
    pub flame_graph: Option<String>,
}

impl Run {
    /// The scenario's short name.
    pub fn name(&self) -> &str {
        self.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&self.scenario)
    }

    /// The heading of the run.
    pub fn title(&self) -> &str {
        self.title.as_deref().filter(|title| !title.is_empty()).unwrap_or_else(|| self.name())
    }

    /// What is counted, in the singular.
    pub fn unit(&self) -> &str {
        if let Some(unit) = self.unit.as_deref().filter(|unit| !unit.is_empty()) {
            return unit;
        }
        // Layout 1 names the scenario in the plural of what it counts.
        self.scenario.strip_suffix('s').filter(|unit| !unit.is_empty()).unwrap_or("operation")
    }

    /// What is counted, in the plural.
    pub fn units(&self) -> String {
        format!("{}s", self.unit())
    }

    /// What a sweep varied, as `batch 10, 4 DFSPs`.
    pub fn parameters_text(&self) -> String {
        let texts = self.parameters.iter().map(|(name, value)| parameters::text(name, value));
        texts.collect::<Vec<_>>().join(", ")
    }

    /// The processes: those of layout 2, or else hub, lab and forwarder of layout 1.
    pub fn processes(&self) -> Vec<Process> {
        if !self.processes.is_empty() {
            return self.processes.clone();
        }
        let named = |name: &str, process: &Option<Process>| {
            Some(Process { name: name.to_owned(), ..process.clone()? })
        };
        named("hub", &self.hub).into_iter().chain(named("lab", &self.lab)).collect()
    }

    /// The hub's process.
    pub fn hub(&self) -> Option<Process> {
        let mut processes = self.processes();
        let hub = processes.iter().position(|process| process.name == "hub");
        // A stage that is measured alone is all of its process.
        let place = hub.or_else(|| (self.is_isolated() && processes.len() == 1).then_some(0));
        place.map(|place| processes.swap_remove(place)).or_else(|| self.hub.clone())
    }

    /// Whether one stage ran alone.
    pub fn is_isolated(&self) -> bool {
        self.kind.as_deref() == Some("isolated")
    }

    /// CPU of the hub per operation, in microseconds.
    pub fn hub_cpu_us(&self) -> Option<f64> {
        self.hub()?.cpu_us_per_operation
    }

    /// Whether arrivals followed a schedule, so that throughput is what was asked for and not what was found.
    pub fn is_open_loop(&self) -> bool {
        self.schedule.is_some()
            || self
                .options
                .get("load")
                .and_then(Value::as_object)
                .is_some_and(|load| load.contains_key("open"))
    }

    /// What the ratio is to.
    pub fn baseline_name(&self) -> Option<&str> {
        self.baseline.as_ref().map(|baseline| baseline.name.as_str())
    }

    /// Whether the run's figures count, and what speaks against them.
    pub fn validity(&self) -> (Option<bool>, Vec<String>) {
        match (&self.validity, &self.schedule) {
            (Some(validity), _) => (validity.valid, validity.findings.clone()),
            (None, Some(schedule)) if schedule.valid == Some(false) => {
                let finding = format!(
                    "the generator lagged its schedule: p99 {} late, {} arrivals skipped",
                    schedule.lag_ms_p99.map_or_else(|| "?".to_owned(), crate::report::figures::milliseconds),
                    schedule.skipped.unwrap_or(0)
                );
                (Some(false), vec![finding])
            }
            (None, Some(schedule)) => (schedule.valid, Vec::new()),
            (None, None) => (None, Vec::new()),
        }
    }

    /// The audit, where one was performed.
    pub fn audited(&self) -> Option<&Audit> {
        self.audit.as_ref().filter(|audit| audit.performed != Some(false))
    }

    /// First and last second that the figures are of.
    pub fn steady_window(&self) -> Option<(f64, f64)> {
        let window = self.window.as_ref()?;
        let start = window.trimmed_start_s.unwrap_or(0.0);
        let end = window.trimmed_end_s.zip(self.timeline.rows.last()).map(|(trimmed, last)| last.t - trimmed);
        let end = end.or_else(|| Some(start + window.seconds?))?;
        (end > start).then_some((start, end))
    }

    /// Rows of the timeline within the steady window.
    pub fn steady_rows(&self) -> Vec<Row> {
        let (start, end) = self.steady_window().unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        self.timeline.rows.iter().filter(|row| row.t > start && row.t <= end).copied().collect()
    }

    /// Seconds that a row of the timeline is of.
    pub fn interval_s(&self) -> f64 {
        self.timeline.interval_s.filter(|seconds| *seconds > 0.0).unwrap_or(1.0)
    }

    /// A figure by name: a parameter, or a path of members such as `latency_ms.p99`. Of a list the member of that name:
    /// `processes.hub.cores`, `stages.journal_sync.mean_us`.
    pub fn value(&self, path: &str) -> Option<&Value> {
        let found = match path {
            "p50_ms" | "p99_ms" | "max_ms" => self.raw.get("latency_ms")?.get(path.trim_end_matches("_ms")),
            "hub_cpu_us" => self.raw.get("hub")?.get("cpu_us_per_operation"),
            _ => self.parameters.get(path).or_else(|| path.split('.').try_fold(&self.raw, member_of)),
        };
        found.filter(|value| !value.is_null())
    }

    /// The same as a number.
    pub fn number(&self, path: &str) -> Option<f64> {
        let number = match self.value(path)? {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        number.filter(|number| number.is_finite())
    }
}

/// A member, or the element of a list whose name it is.
fn member_of<'value>(value: &'value Value, member: &str) -> Option<&'value Value> {
    let is_named = |element: &&Value| {
        ["name", "stage"].iter().any(|key| element.get(key).is_some_and(|name| name == member))
    };
    match value {
        Value::Array(elements) => elements.iter().find(is_named),
        other => other.get(member),
    }
}

/// A value of JSON as people write it: no quotes, members as `name value`.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(members) => {
            let one = |(name, value): (&String, &Value)| format!("{name} {}", plain(value));
            members.iter().filter(|(_, value)| !value.is_null()).map(one).collect::<Vec<_>>().join(", ")
        }
    }
}
