//! One result from those of several load generators that drove the same hub at the same time.
#![expect(clippy::float_arithmetic, reason = "times of measurements; no money")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use serde::Deserialize as _;
use serde_json::{Value, json};
use upesi_types::Timestamp;

use crate::distribution::read_histogram;
use crate::latency::LatencyMs;
use crate::measured::{HistogramResult, Thresholds};
use crate::result::SCHEMA_VERSION;
use crate::statistics::rounded;
use crate::thresholds::together;

/// Largest result that is read, in bytes.
const RESULT_BYTES_MAX: u64 = 64 << 20;
/// Counts that add up.
const SUMS: [&str; 9] = [
    "/completed",
    "/failed",
    "/lost",
    "/late",
    "/originated/sent",
    "/originated/accepted",
    "/originated/refused",
    "/originated/unanswered",
    "/throughput_per_s",
];
/// Members that must be the same, or the sum means nothing.
const SAME: [&str; 3] = ["/scenario", "/unit", "/kind"];

/// Why results cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// There is nothing to merge.
    #[error("give two or more results, each from a load generator of its own")]
    TooFew,
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is no result.
    #[error("{path} is no result of this lab: {reason}")]
    NoResult {
        /// Which.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// The results are of different things.
    #[error("{path} differs from the first result in {member}: they cannot be added up")]
    Different {
        /// Which.
        path: PathBuf,
        /// In what.
        member: &'static str,
    },
}

/// Merges the results in directories (or of files). Percentiles come from the merged histogram; the timeline keeps counts and
/// maxima, since percentiles of a second cannot be merged.
///
/// # Errors
/// When one cannot be read or they are of different things.
pub fn merge(paths: &[PathBuf]) -> Result<Value, MergeError> {
    if paths.len() < 2 {
        return Err(MergeError::TooFew);
    }
    let results = paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let mut merged = results[0].1.clone();
    for (path, result) in &results {
        if let Some(member) = SAME.into_iter().find(|member| result.pointer(member) != merged.pointer(member))
        {
            return Err(MergeError::Different { path: path.clone(), member });
        }
    }
    let values: Vec<&Value> = results.iter().map(|(_, value)| value).collect();
    for member in SUMS {
        let Some(sum) = sum(&values, member) else { continue };
        if let Some(place) = merged.pointer_mut(member) {
            *place = sum;
        }
    }
    let histogram = histograms(&results)?;
    merged["schema_version"] = SCHEMA_VERSION.into();
    merged["latency_ms"] = to_value(&LatencyMs::of(&histogram));
    merged["histogram"] = to_value(&HistogramResult::of(&histogram));
    merged["repetitions"] = repetitions(&values);
    merged["validity"] = validity(&values);
    let contradictions = contradictions(&values);
    if !contradictions.is_empty() {
        let findings = merged["validity"]["findings"].as_array().cloned().unwrap_or_default();
        let findings: Vec<Value> = findings.into_iter().chain(contradictions).collect();
        merged["validity"] = json!({ "valid": false, "findings": findings });
    }
    if let Some(thresholds) = thresholds(&values) {
        merged["thresholds"] = to_value(&thresholds);
    }
    merged["audit"]["ok"] = values.iter().all(|value| value["audit"]["ok"] == true).into();
    merged["audit"]["findings"] = gathered(&values, "/audit/findings");
    merged["audit"]["positions"] = gathered(&values, "/audit/positions");
    merged["timeline"] = timeline(&values);
    merged["processes"] = gathered(&values, "/processes");
    // Only one of the machines can have measured the hub.
    if let Some(hub) = values.iter().map(|value| &value["hub"]).find(|hub| !hub.is_null()) {
        merged["hub"] = hub.clone();
    }
    merged["merged_from"] = values.len().into();
    Ok(merged)
}

fn read(path: &Path) -> Result<(PathBuf, Value), MergeError> {
    let file = if path.is_dir() { path.join("result.json") } else { path.to_owned() };
    let io = |source| MergeError::Io { path: file.clone(), source };
    let length = std::fs::metadata(&file).map_err(io)?.len();
    let no_result = |reason: String| MergeError::NoResult { path: file.clone(), reason };
    if length > RESULT_BYTES_MAX {
        return Err(no_result(format!("it is longer than {RESULT_BYTES_MAX} bytes")));
    }
    let value: Value = serde_json::from_slice(&std::fs::read(&file).map_err(io)?)
        .map_err(|error| no_result(error.to_string()))?;
    if value["schema_version"] != SCHEMA_VERSION {
        return Err(no_result(format!("it is not of layout {SCHEMA_VERSION}")));
    }
    Ok((file, value))
}

/// Whole numbers stay whole.
fn sum(values: &[&Value], member: &str) -> Option<Value> {
    let numbers: Vec<&Value> = values.iter().filter_map(|value| value.pointer(member)).collect();
    if numbers.is_empty() {
        return None;
    }
    match numbers.iter().map(|number| number.as_u64()).sum::<Option<u64>>() {
        Some(sum) => Some(sum.into()),
        None => Some(rounded(numbers.iter().filter_map(|number| number.as_f64()).sum(), 1).into()),
    }
}

fn histograms(results: &[(PathBuf, Value)]) -> Result<Histogram<u64>, MergeError> {
    let mut sum = crate::statistics::latency_histogram();
    for (path, result) in results {
        let text = result.pointer("/histogram/v2_deflate_base64").and_then(Value::as_str);
        let reason = "its histogram is missing or cannot be read";
        let histogram = text
            .and_then(read_histogram)
            .ok_or_else(|| MergeError::NoResult { path: path.clone(), reason: reason.to_owned() })?;
        for step in histogram.iter_recorded() {
            sum.saturating_record_n(step.value_iterated_to(), step.count_at_value());
        }
    }
    Ok(sum)
}

fn list<'value>(value: &'value Value, member: &str) -> &'value [Value] {
    value.pointer(member).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn gathered(values: &[&Value], member: &str) -> Value {
    values.iter().flat_map(|value| list(value, member)).cloned().collect::<Vec<_>>().into()
}

fn validity(values: &[&Value]) -> Value {
    let findings = gathered(values, "/validity/findings");
    json!({ "valid": findings.as_array().is_none_or(Vec::is_empty), "findings": findings })
}

/// What one of the generators saw missed is missed.
fn thresholds(values: &[&Value]) -> Option<Thresholds> {
    let all = values.iter().filter_map(|value| Thresholds::deserialize(&value["thresholds"]).ok());
    together(all.collect::<Vec<_>>().iter())
}

/// What speaks against these results being of one load on one hub: DFSPs that are in two of them, or loads of different times.
fn contradictions(values: &[&Value]) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    let participants = values.iter().flat_map(|value| list(value, "/audit/positions"));
    let names = participants.filter_map(|position| position["participant"].as_str());
    let twice: BTreeSet<&str> = names.filter(|name| !seen.insert(*name)).collect();
    let mut findings = Vec::new();
    if let Some(name) = twice.first() {
        let text = format!(
            "{} DFSPs, such as {name}, are in more than one of the results: give each generator its own --instance",
            twice.len()
        );
        findings.push(text.into());
    }
    let started = |value: &&Value| Timestamp::parse_iso(value["environment"]["started_at"].as_str()?);
    let starts: Vec<i64> = values.iter().filter_map(started).map(|at| at.as_ms()).collect();
    let apart_ms = starts.iter().max().zip(starts.iter().min()).map_or(0, |(last, first)| last - first);
    let milliseconds = |member: &str| {
        let seconds = values.iter().filter_map(|value| value["options"][member].as_f64());
        seconds.fold(f64::INFINITY, f64::min) * 1e3
    };
    // Within the warm-up nothing is counted yet; a tenth of the measured time hardly moves the sum.
    let allowed_ms = milliseconds("warm_up_s").max(milliseconds("duration_s") / 10.0);
    if allowed_ms.is_finite() && apart_ms as f64 > allowed_ms {
        let text = format!(
            "the generators began {apart_ms} ms apart, so that their loads overlap in part only: start them together, or \
             with a longer --warm-up"
        );
        findings.push(text.into());
    }
    findings
}

/// Slices that ran at the same time add up.
fn repetitions(values: &[&Value]) -> Value {
    let count = values.iter().map(|value| list(value, "/repetitions").len()).min().unwrap_or(0);
    let at =
        |index: usize| values.iter().filter_map(|value| value["repetitions"][index].as_f64()).sum::<f64>();
    (0..count).map(|index| rounded(at(index), 1)).collect::<Vec<_>>().into()
}

fn timeline(values: &[&Value]) -> Value {
    let rows = |value| list(value, "/timeline/rows");
    let count = values.iter().map(|value| rows(value).len()).min().unwrap_or(0);
    let row = |index: usize| {
        let at = |name: &str| values.iter().map(|value| &rows(value)[index][name]).collect::<Vec<_>>();
        let whole = |name| at(name).into_iter().filter_map(Value::as_u64).sum::<u64>();
        let slowest = at("max_ms").into_iter().filter_map(Value::as_f64).max_by(f64::total_cmp);
        let known = |name| at(name).into_iter().find(|value| !value.is_null()).cloned();
        json!({
            "t": rows(values[0])[index]["t"],
            "completed": whole("completed"),
            "failed": whole("failed"),
            "offered": whole("offered"),
            "p50_ms": null,
            "p99_ms": null,
            "max_ms": slowest,
            "hub_cpu_cores": known("hub_cpu_cores"),
            "hub_rss_mb": known("hub_rss_mb"),
        })
    };
    json!({ "interval_s": 1, "rows": (0..count).map(row).collect::<Vec<_>>() })
}

fn to_value<T: serde::Serialize>(value: &T) -> Value {
    // By way of text: lists that are written on one line are raw JSON.
    serde_json::to_string(value).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::{ThresholdCheck, TimelineResult, TimelineRow, Validity};
    use crate::result::LabResult;
    use crate::statistics::latency_histogram;

    fn result(directory: &Path, name: &str, latency_us: u64, count: u64) -> PathBuf {
        let mut histogram = latency_histogram();
        histogram.saturating_record_n(latency_us, count);
        let row = TimelineRow { t: 1.0, completed: count, max_ms: Some(5.0), ..TimelineRow::default() };
        let result = LabResult {
            scenario: "transfers",
            completed: count,
            throughput_per_s: 10.5,
            repetitions: vec![10.0, 11.0],
            histogram: Some(HistogramResult::of(&histogram)),
            timeline: Some(TimelineResult { interval_s: 1, rows: vec![row], ..TimelineResult::default() }),
            validity: Validity::of(if name == "b" { vec!["lagged".to_owned()] } else { Vec::new() }),
            thresholds: Some(shed(name == "b")),
            ..LabResult::default()
        };
        let out = directory.join(name);
        std::fs::create_dir(&out).unwrap();
        result.write(&out).unwrap();
        out
    }

    fn shed(is_shed: bool) -> Thresholds {
        let value = if is_shed { 0.7 } else { 1.0 };
        let check = ThresholdCheck { name: "success_share".to_owned(), limit: 0.99, value, met: !is_shed };
        let findings = if is_shed { vec!["30 % failed".to_owned()] } else { Vec::new() };
        Thresholds { met: !is_shed, findings, checked: vec![check] }
    }

    #[test]
    fn counts_add_up_and_percentiles_come_from_all_latencies() {
        let directory = tempfile::tempdir().unwrap();
        let paths = [result(directory.path(), "a", 1_000, 98), result(directory.path(), "b", 50_000, 2)];
        let merged = merge(&paths).unwrap();
        assert_eq!(
            (merged["completed"].as_u64(), merged["throughput_per_s"].as_f64()),
            (Some(100), Some(21.0))
        );
        let at = |name: &str| merged["latency_ms"][name].as_f64().unwrap();
        assert!((at("p50") - 1.0).abs() < 0.01 && (at("p99") - 50.0).abs() < 0.5, "{merged}");
        assert_eq!(merged["repetitions"], json!([20.0, 22.0]));
        assert_eq!(merged["validity"]["valid"], false);
        assert_eq!(merged["thresholds"], to_value(&shed(true)));
        assert_eq!(merged["timeline"]["rows"][0]["completed"], 100);
        assert_eq!(merged["merged_from"], 2);
        assert!(merged["histogram"]["buckets"].as_array().is_some_and(|buckets| buckets.len() == 2));
    }

    #[test]
    fn generators_that_got_into_each_others_way_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let with = |name: &str, participant: &str, second: u32| {
            let out = result(directory.path(), name, 1_000, 50);
            let file = out.join("result.json");
            let mut value: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            value["audit"]["positions"] = json!([{ "participant": participant }]);
            value["environment"]["started_at"] = format!("2026-01-01T00:00:{second:02}.000Z").into();
            std::fs::write(&file, value.to_string()).unwrap();
            out
        };
        let (west, east, late) = (with("w", "west-1", 10), with("e", "east-1", 11), with("l", "late-1", 13));
        let again = with("again", "west-1", 10);
        let findings = |paths: &[PathBuf]| merge(paths).unwrap()["validity"]["findings"].clone();
        // Two seconds of warm-up are usual.
        assert_eq!(findings(&[west.clone(), east]), json!([]));
        assert!(findings(&[west.clone(), late])[0].as_str().unwrap().contains("began 3000 ms apart"));
        let twice = findings(&[west, again]);
        assert!(twice[0].as_str().unwrap().contains("such as west-1, are in more than one"), "{twice}");
    }

    #[test]
    fn what_cannot_be_added_up_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let first = result(directory.path(), "a", 1_000, 1);
        assert!(matches!(merge(std::slice::from_ref(&first)), Err(MergeError::TooFew)));
        let missing = directory.path().join("none");
        assert!(matches!(merge(&[first.clone(), missing]), Err(MergeError::Io { .. })));
        for (text, expected) in [
            ("{", "no result"),
            (r#"{"schema_version":1}"#, "layout 2"),
            (r#"{"schema_version":2,"scenario":"lookups"}"#, "differs from the first result in /scenario"),
            (
                r#"{"schema_version":2,"scenario":"transfers","unit":"transfer","kind":"isolated"}"#,
                "histogram",
            ),
        ] {
            let file = directory.path().join("other.json");
            std::fs::write(&file, text).unwrap();
            let error = merge(&[first.clone(), file]).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
