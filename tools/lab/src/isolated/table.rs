//! The result of one stage as a table for a terminal.

use std::fmt::Write as _;

use crate::observe::cores::taken;
use crate::result::LabResult;
use crate::result::schema::{Parameter, ProcessRow, StageResult};

const NAME_WIDTH: usize = 22;

/// The figures as lines of text, ending with whether they count.
pub(crate) fn table(result: &LabResult) -> String {
    let mut text = format!("{} alone, in {}\n", result.scenario, result.target);
    let mut row = |name: &str, value: &str| {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "  {name:<NAME_WIDTH$}{value}");
    };
    let parameters: Vec<_> =
        result.parameters.iter().map(|(key, value)| format!("{key} {}", shown(value))).collect();
    row("with", &if parameters.is_empty() { "defaults".to_owned() } else { parameters.join(", ") });
    row(&result.unit, &format!("{} completed, {} failed", result.completed, result.failed));
    row(
        "throughput",
        &format!("{:.0}/s, the median of {} repetitions", result.throughput_per_s, result.repetitions.len()),
    );
    let latency = &result.latency_ms;
    row(
        "latency",
        &format!(
            "p50 {:.4} ms, p99 {:.4} ms, p99.9 {:.4} ms, max {:.4} ms",
            latency.p50, latency.p99, latency.p999, latency.max
        ),
    );
    for stage in &result.stages {
        row(&stage.stage, &stage_text(stage));
    }
    for process in &result.processes {
        row(&process.name, &process_text(process, &result.unit));
    }
    if let Some(share) = result.window.stolen_share {
        row("other machines", &taken(share));
    }
    if let Some(durable) = result.durable {
        row("durable", if durable { "yes" } else { "no" });
    }
    row("valid", if result.validity.valid { "yes" } else { "NO, the figures do not count" });
    for finding in &result.validity.findings {
        row("", finding);
    }
    text
}

fn shown(value: &Parameter) -> String {
    match value {
        Parameter::Number(number) => number.to_string(),
        Parameter::Text(text) => text.clone(),
    }
}

fn stage_text(stage: &StageResult) -> String {
    let mut text = format!("{:.0}/s, mean {:.2} µs", stage.per_s, stage.mean_us);
    if let Some(p99) = stage.p99_us {
        let _ = write!(text, ", p99 {p99:.2} µs");
    }
    if let Some(batch) = stage.batch_mean {
        let _ = write!(text, ", {batch:.1} at once");
    }
    if let Some(share) = stage.cpu_share {
        let _ = write!(text, ", CPU share {share:.2}");
    }
    text
}

fn process_text(process: &ProcessRow, unit: &str) -> String {
    let cpu = process.cpu_us_per_operation.map_or_else(|| "?".to_owned(), |cpu| format!("{cpu:.2}"));
    let memory = process.rss_mb.map_or_else(String::new, |rss_mb| format!(", {rss_mb:.0} MiB resident"));
    format!("{cpu} µs CPU per {unit}{memory}")
}
