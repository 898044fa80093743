//! `upesi lab metrics`: results of runs as metrics, for dashboards that also show the hub's metrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use upesi_process::exit::{Outcome, write_out};

use crate::result::file::read;

/// Arguments of `upesi lab metrics`.
#[derive(Args, Clone, Debug)]
pub struct LabMetricsArguments {
    /// Directories with a result.json, or paths of such files. May be repeated.
    #[arg(value_name = "DIR", required = true)]
    pub results: Vec<PathBuf>,
}

/// Name, help text, and location in `result.json`.
const METRICS: [(&str, &str, &str); 8] = [
    ("upesi_lab_run_valid", "1 if the run is a valid measurement of the hub", "/validity/valid"),
    ("upesi_lab_audit_holds", "1 if the hub's books equal the DFSPs' books", "/audit/ok"),
    ("upesi_lab_throughput_per_second", "Operations per second", "/throughput_per_s"),
    ("upesi_lab_completed", "Successful operations", "/completed"),
    ("upesi_lab_failed", "Operations that ended with an error", "/failed"),
    ("upesi_lab_lost", "Accepted requests without outcome", "/lost"),
    ("upesi_lab_hub_cpu_microseconds", "CPU time of the hub per operation", "/hub/cpu_us_per_operation"),
    ("upesi_lab_latency_seconds", "Time from the intended start of an operation to its end", "/latency_ms"),
];
const QUANTILES: [(&str, &str); 6] = [
    ("p50", "0.5"),
    ("p90", "0.9"),
    ("p95", "0.95"),
    ("p99", "0.99"),
    ("p999", "0.999"),
    ("p9999", "0.9999"),
];

/// Prints the results in Prometheus' text format.
pub fn run(arguments: &LabMetricsArguments) -> Outcome {
    let file = |path: &PathBuf| if path.is_dir() { path.join("result.json") } else { path.clone() };
    let results = arguments.results.iter().map(|path| read(&file(path)));
    let results = results.collect::<Result<Vec<_>, _>>()?;
    write_out(&exposition(&results))
}

/// If several results have the same scenario, commit and parameters, only the last one is shown.
fn exposition(results: &[Value]) -> String {
    let by_labels: BTreeMap<String, &Value> = results.iter().map(|result| (labels(result), result)).collect();
    let mut text = String::new();
    for (name, help, pointer) in &METRICS {
        upesi_process::exposition::head(&mut text, name, "gauge", help);
        for (labels, result) in &by_labels {
            for (more, value) in samples(result.pointer(pointer)) {
                let _ = writeln!(text, "{name}{{{labels}{more}}} {value}");
            }
        }
    }
    text
}

/// The samples of a member, with the labels that tell them apart.
fn samples(member: Option<&Value>) -> Vec<(String, String)> {
    match member {
        Some(Value::Bool(flag)) => vec![(String::new(), u8::from(*flag).to_string())],
        Some(Value::Number(number)) => vec![(String::new(), number.to_string())],
        // Latencies are stored in milliseconds and shown in seconds, one for each quantile.
        Some(Value::Object(latency)) => {
            let sample = |(member, quantile): &(&str, &str)| {
                let milliseconds = latency.get(*member).filter(|value| value.is_number())?;
                // The exponent converts milliseconds into seconds without arithmetic on floats.
                Some((format!(",quantile=\"{quantile}\""), format!("{milliseconds}e-3")))
            };
            QUANTILES.iter().filter_map(sample).collect()
        }
        _ => Vec::new(),
    }
}

fn labels(result: &Value) -> String {
    let text =
        |pointer: &str| result.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let scenario = text("/name").or_else(|| text("/scenario")).unwrap_or("");
    let commit = text("/environment/commit").unwrap_or("");
    let parameters = result.get("parameters").and_then(Value::as_object);
    let parameters: Vec<String> = parameters
        .into_iter()
        .flatten()
        .map(|(name, value)| {
            format!("{name}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        })
        .collect();
    format!(
        "scenario=\"{}\",commit=\"{}\",parameters=\"{}\"",
        escape(scenario),
        escape(commit),
        escape(&parameters.join(", "))
    )
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn metrics_of_a_result_leave_out_absent_members() {
        let result = json!({
            "name": "position \"alone\"", "scenario": "prepare", "completed": 12, "throughput_per_s": 1589.4,
            "parameters": { "batch": 10, "ablation": "fsync off" }, "environment": { "commit": "abc1234" },
            "latency_ms": { "p50": 18.287, "p99": 37.98 }, "audit": { "ok": true }, "validity": { "valid": false },
        });
        let labels =
            r#"scenario="position \"alone\"",commit="abc1234",parameters="ablation=fsync off, batch=10""#;
        let text = exposition(&[result]);
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            format!("upesi_lab_run_valid{{{labels}}} 0"),
            format!("upesi_lab_audit_holds{{{labels}}} 1"),
            format!("upesi_lab_throughput_per_second{{{labels}}} 1589.4"),
            format!("upesi_lab_completed{{{labels}}} 12"),
            format!("upesi_lab_latency_seconds{{{labels},quantile=\"0.5\"}} 18.287e-3"),
            format!("upesi_lab_latency_seconds{{{labels},quantile=\"0.99\"}} 37.98e-3"),
        ];
        assert_eq!(samples, expected);
    }

    #[test]
    fn metrics_of_equal_runs_show_the_last_one() {
        let run = |completed: u64| json!({ "scenario": "transfers", "completed": completed });
        let text = exposition(&[run(1), run(2)]);
        assert!(
            text.contains("upesi_lab_completed{scenario=\"transfers\",commit=\"\",parameters=\"\"} 2\n"),
            "{text}"
        );
        assert_eq!(text.matches("upesi_lab_completed{").count(), 1);
    }
}
