//! Members that are worked out from those of all generators.
#![expect(clippy::float_arithmetic, reason = "rates and times of measurements; no money")]

use std::collections::{BTreeMap, BTreeSet};

use hdrhistogram::Histogram;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::rules::sum;
use super::{Generator, Together, load as loads, to_value};
use crate::plan::targets::{Measured, Target, TargetKind};
use crate::result::distribution::written;
use crate::result::latency::LatencyMs;
use crate::result::schema::{HistogramResult, TargetCheck, Thresholds};
use crate::result::statistics::{median, milliseconds, ratio, rounded};

/// The name of the load generator's process.
const LAB: &str = "lab";
/// The name of the hub's process, or of all of them together.
const HUB: &str = "hub";
/// How the name of each begins, where there are several.
const HUB_PART: &str = "hub, ";

/// Users and rates together.
pub(super) fn load(together: &Together, _: &Value) -> Value {
    // Whether they have one shape was checked before.
    together
        .values("/options/load")
        .cloned()
        .reduce(|one, other| loads::sum(&one, &other).unwrap_or_default())
        .unwrap_or_default()
}

/// As many slices as all have.
fn count(together: &Together, member: &str) -> usize {
    together.generators.iter().map(|generator| generator.list(member).len()).min().unwrap_or(0)
}

/// Slices ran at the same time: what completed in them adds up.
pub(super) fn slices(together: &Together, _: &Value) -> Value {
    let slice = |index: usize| {
        let of = |name: &str| -> Vec<&Value> {
            together.generators.iter().map(|generator| &generator.list("/slices")[index][name]).collect()
        };
        json!({
            "seconds": of("seconds")[0],
            "completed": sum(&of("completed")),
            "throughput_per_s": sum(&of("throughput_per_s")),
        })
    };
    (0..count(together, "/slices")).map(slice).collect()
}

/// The same of repetitions.
pub(super) fn repetitions(together: &Together, _: &Value) -> Value {
    let at = |index: usize| {
        let all =
            together.generators.iter().filter_map(|generator| generator.list("/repetitions")[index].as_f64());
        rounded(all.sum(), 1)
    };
    (0..count(together, "/repetitions")).map(at).collect()
}

/// The median of what the repetitions add up to; of results without, the sum.
pub(super) fn throughput(together: &Together, merged: &Value) -> Value {
    let repetitions = merged["repetitions"].as_array().into_iter().flatten().filter_map(Value::as_f64);
    let found = median(repetitions).unwrap_or_else(|| {
        together.generators.iter().filter_map(|generator| generator.number("/throughput_per_s")).sum()
    });
    rounded(found, 1).into()
}

pub(super) fn latency(together: &Together, _: &Value) -> Value {
    to_value(&LatencyMs::of(&together.latency))
}

/// The latencies of a phase of all generators that have it. Where it is the only one, they are those of the whole.
fn phase_latency(together: &Together, name: &str) -> Option<Histogram<u64>> {
    let has_phase = |generator: &Generator| !generator.value["phases"][name].is_null();
    let is_alone =
        |generator: &Generator| generator.value["phases"].as_object().is_some_and(|phases| phases.len() == 1);
    if together.generators.iter().all(|generator| has_phase(generator) && is_alone(generator)) {
        return Some(together.latency.clone());
    }
    together.histogram(&format!("/histogram/phases/{name}"), has_phase)
}

fn phase_names(together: &Together) -> BTreeSet<String> {
    together.values("/phases").filter_map(Value::as_object).flat_map(Map::keys).cloned().collect()
}

/// Requests add up; percentiles are of the latencies of all, where results have them.
pub(super) fn phases(together: &Together, _: &Value) -> Value {
    let phase = |name: String| {
        let exchanges: Vec<&Value> =
            together.values("/phases").filter_map(|phases| phases.get(&name)?.get("exchanges")).collect();
        let latency = phase_latency(together, &name).map(|latency| LatencyMs::of(&latency));
        let phase = json!({ "latency_ms": to_value(&latency), "exchanges": sum(&exchanges) });
        (name, phase)
    };
    phase_names(together).into_iter().map(phase).collect::<Map<_, _>>().into()
}

fn lag(together: &Together) -> Option<Histogram<u64>> {
    together.histogram("/histogram/schedule_lag", |_| true)
}

/// All distributions of all.
pub(super) fn histogram(together: &Together, _: &Value) -> Value {
    let mut found = to_value(&HistogramResult {
        schedule_lag: lag(together).map(|lag| written(&lag)),
        ..HistogramResult::of(&together.latency)
    });
    let phases: BTreeMap<String, String> = phase_names(together)
        .into_iter()
        .filter_map(|name| {
            let latency = together.histogram(&format!("/histogram/phases/{name}"), |_| true)?;
            Some((name, written(&latency)))
        })
        .collect();
    if !phases.is_empty() {
        found["phases"] = to_value(&phases);
    }
    found
}

/// How late the arrivals of all were; without their histograms, the worst of the generators'. Kept where every one kept its own.
pub(super) fn schedule(together: &Together, _: &Value) -> Value {
    let schedules: Vec<&Value> =
        together.values("/schedule").filter(|schedule| !schedule.is_null()).collect();
    if schedules.is_empty() {
        return Value::Null;
    }
    let worst = |name: &str| {
        let all = schedules.iter().filter_map(|schedule| schedule[name].as_f64());
        all.fold(0.0, f64::max)
    };
    let lag = lag(together);
    let quantile = |quantile, name| match &lag {
        Some(lag) => milliseconds(lag.value_at_quantile(quantile)),
        None => worst(name),
    };
    let total = |name: &str| {
        let counts: Vec<&Value> = schedules.iter().map(|schedule| &schedule[name]).collect();
        sum(&counts)
    };
    json!({
        "due": total("due"),
        "lag_ms_p50": quantile(0.5, "lag_ms_p50"),
        "lag_ms_p99": quantile(0.99, "lag_ms_p99"),
        "lag_ms_max": worst("lag_ms_max"),
        "skipped": total("skipped"),
        "valid": schedules.iter().all(|schedule| schedule["valid"] == true),
    })
}

/// CPU of one process, per operation of its generator, as CPU per operation of all.
fn per_operation_of_all(together: &Together, generator: &Generator, process: &mut Value) {
    for name in ["cpu_us_per_operation", "cpu_us_per_transfer"] {
        let own = process[name].as_f64();
        if let Some(all) = own.and_then(|cpu| ratio(cpu * generator.completed(), together.completed)) {
            process[name] = rounded(all, 1).into();
        }
    }
}

/// The hub as it was measured, its CPU divided by the operations of all.
pub(super) fn hub(together: &Together, _: &Value) -> Value {
    let Some(generator) = together.beside() else { return Value::Null };
    let mut hub = generator.value["hub"].clone();
    per_operation_of_all(together, generator, &mut hub);
    hub
}

/// All generators as if they were one process.
pub(super) fn lab(together: &Together, _: &Value) -> Value {
    let labs: Vec<Value> = together
        .generators
        .iter()
        .filter(|generator| !generator.value["lab"].is_null())
        .map(|generator| {
            let mut lab = generator.value["lab"].clone();
            per_operation_of_all(together, generator, &mut lab);
            lab
        })
        .collect();
    let names = ["cpu_us_per_operation", "cpu_us_per_transfer", "cores", "rss_mb", "rss_peak_mb"];
    let total = |name: &str| {
        let values: Vec<f64> = labs.iter().filter_map(|lab| lab[name].as_f64()).collect();
        (!values.is_empty()).then(|| rounded(values.iter().sum(), 2))
    };
    names.into_iter().map(|name| (name.to_owned(), total(name).into())).collect::<Map<_, _>>().into()
}

/// The hub by whoever measured it, and each generator by its name.
pub(super) fn processes(together: &Together, _: &Value) -> Value {
    let rows = |generator: &Generator, is_wanted: fn(&str) -> bool| -> Vec<Value> {
        let rows = generator.list("/processes").iter();
        let rows = rows.filter(|row| row["name"].as_str().is_some_and(is_wanted)).cloned();
        rows.map(|mut row| {
            per_operation_of_all(together, generator, &mut row);
            row
        })
        .collect()
    };
    let is_hub: fn(&str) -> bool = |name| name == HUB || name.starts_with(HUB_PART);
    let mut processes = together.beside().map_or_else(Vec::new, |generator| rows(generator, is_hub));
    for generator in &together.generators {
        let named = |mut row: Value| {
            row["name"] = format!("{LAB}, {}", generator.name).into();
            row
        };
        processes.extend(rows(generator, |name| name == LAB).into_iter().map(named));
    }
    processes.into()
}

/// The hub's own counts.
pub(super) fn stages(together: &Together, _: &Value) -> Value {
    together.watching.map_or_else(|| json!([]), |index| together.generators[index].value["stages"].clone())
}

/// Questions by phase.
pub(super) fn answers(together: &Together, _: &Value) -> Value {
    let mut phases: Vec<(Value, Vec<Value>)> = Vec::new();
    for answer in together.values("/audit/answers").filter_map(Value::as_array).flatten() {
        let mut counts = answer.clone();
        let phase = counts.as_object_mut().and_then(|counts| counts.remove("phase")).unwrap_or_default();
        match phases.iter_mut().find(|(known, _)| *known == phase) {
            Some((_, all)) => all.push(counts),
            None => phases.push((phase, vec![counts])),
        }
    }
    let answer = |(phase, counts): (Value, Vec<Value>)| {
        let mut answer = sum(&counts.iter().collect::<Vec<_>>()).unwrap_or_default();
        answer["phase"] = phase;
        answer
    };
    phases.into_iter().map(answer).collect()
}

/// Findings with the name of whose they are.
fn findings(together: &Together, member: &str) -> Vec<String> {
    let of = |generator: &Generator| -> Vec<String> {
        let texts = generator.list(member).iter().filter_map(Value::as_str);
        texts.map(|text| format!("{}: {text}", generator.name)).collect()
    };
    together.generators.iter().flat_map(of).collect()
}

pub(super) fn audit_findings(together: &Together, _: &Value) -> Value {
    findings(together, "/audit/findings").into()
}

/// Valid where every generator's is, and nothing speaks against their being of one load.
pub(super) fn validity(together: &Together, _: &Value) -> Value {
    let mut findings = findings(together, "/validity/findings");
    findings.extend(twice(together));
    findings.extend(apart(together));
    json!({ "valid": findings.is_empty() && together.all("/validity/valid"), "findings": findings })
}

/// What one of the generators saw missed is missed.
pub(super) fn thresholds(together: &Together, _: &Value) -> Value {
    to_value(&thresholds_of(together))
}

pub(super) fn thresholds_of(together: &Together) -> Option<Thresholds> {
    let all = together.values("/thresholds").filter_map(|value| Thresholds::deserialize(value).ok());
    crate::judge::thresholds::together(all.collect::<Vec<_>>().iter())
}

/// DFSPs that are in more than one of the results.
fn twice(together: &Together) -> Option<String> {
    let mut seen = BTreeSet::new();
    let positions = together.values("/audit/positions").filter_map(Value::as_array).flatten();
    let names = positions.filter_map(|position| position["participant"].as_str());
    let twice: BTreeSet<&str> = names.filter(|name| !seen.insert(*name)).collect();
    let name = twice.first()?;
    Some(format!(
        "{} DFSPs, such as {name}, are in more than one of the results: give each generator its own --instance",
        twice.len()
    ))
}

/// Loads of different times.
fn apart(together: &Together) -> Option<String> {
    let starts: Vec<i64> = together.generators.iter().filter_map(|generator| generator.began_ms).collect();
    let apart_ms = starts.iter().max()? - starts.iter().min()?;
    let milliseconds = |member: &str| {
        let seconds = together.generators.iter().filter_map(|generator| generator.number(member));
        seconds.fold(f64::INFINITY, f64::min) * 1e3
    };
    // Within the warm-up nothing is counted yet; a tenth of the measured time hardly moves the sum.
    let allowed_ms = milliseconds("/options/warm_up_s").max(milliseconds("/options/duration_s") / 10.0);
    (allowed_ms.is_finite() && apart_ms as f64 > allowed_ms).then(|| {
        format!(
            "the generators began {apart_ms} ms apart, so that their loads overlap in part only: start them together, or \
             with a longer --warm-up"
        )
    })
}

/// The targets that all have, beside what all reached together. What is a share of the load was asked of each for its own part.
pub(super) fn targets(together: &Together, merged: &Value) -> Value {
    let measured = Measured {
        latency_ms: LatencyMs::of(&together.latency),
        completed: merged["completed"].as_u64().unwrap_or(0),
        failed: merged["failed"].as_u64().unwrap_or(0),
        lost: merged["lost"].as_u64().unwrap_or(0),
        throughput_per_s: merged["throughput_per_s"].as_f64().unwrap_or(0.0),
    };
    let check = |kind: TargetKind| -> Option<TargetCheck> {
        let limit = |generator: &Generator| {
            generator.list("/targets").iter().find(|target| target["name"] == kind.key())?["limit"].as_f64()
        };
        let limits = together.generators.iter().map(limit).collect::<Option<Vec<f64>>>()?;
        let limit = match kind {
            TargetKind::Throughput | TargetKind::Lost => limits.into_iter().sum(),
            _ => limits.into_iter().fold(f64::INFINITY, f64::min),
        };
        Some(Target { kind, limit }.check_of(&measured))
    };
    to_value(&TargetKind::ALL.into_iter().filter_map(check).collect::<Vec<_>>())
}
