//! What becomes of each member of a result where several are merged.

use serde_json::{Map, Value, json};

use super::computed as made;
use super::timeline as timed;
use super::{Generator, MergeError, Together};
use crate::result::statistics::rounded;

/// What becomes of a member.
pub(super) enum Rule {
    /// It is the same in all, or they are not merged.
    Same,
    /// Kept where all who know it say the same; where not, it is left out and named in `differs_in`.
    Agreed,
    /// Added up; of objects and lists, what stands at the same place.
    Sum,
    /// True where it is in all.
    All,
    /// The largest.
    Most,
    /// The first of times.
    Earliest,
    /// One list of all.
    Joined,
    /// The different texts, one after the other.
    Distinct,
    /// That of the generator that ran beside the hub; left out where none did.
    Beside,
    /// Left out: each generator's own says it.
    EachItsOwn,
    /// Whoever has it is not merged.
    Refused(&'static str),
    /// Worked out from all, and from what was merged before it; with the members that it has.
    Made(
        fn(&Together, &Value) -> Value,
        #[cfg_attr(not(test), expect(dead_code, reason = "what the test that walks all members goes by"))]
        &'static [&'static str],
    ),
}

use Rule::{Agreed, All, Beside, Distinct, EachItsOwn, Earliest, Joined, Made, Most, Refused, Same, Sum};

/// Members of each generator's own result that `generators` repeats.
pub(super) const OF_EACH: [&str; 15] = [
    "environment",
    "options",
    "load_began_at",
    "seed",
    "target",
    "completed",
    "failed",
    "throughput_per_s",
    "latency_ms",
    "http_ms",
    "schedule",
    "window",
    "machine",
    "validity",
    "loads",
];

const PERCENTILES: &[&str] =
    &["min", "p50", "p90", "p95", "p99", "p999", "p9999", "max", "mean", "share_over_1s"];
const PROCESS: &[&str] = &["cpu_us_per_operation", "cpu_us_per_transfer", "cores", "rss_mb", "rss_peak_mb"];
const SEARCH: &str = "it is a search, which moves the load by itself: run the rate that it found from all generators, and merge that";

/// Every member of a result, in the order in which they are merged. A test walks a full result and fails where one is missing.
pub(super) const RULES: &[(&str, Rule)] = &[
    ("/schema_version", Same),
    ("/kind", Same),
    ("/unit", Same),
    ("/scenario", Same),
    ("/name", Agreed),
    ("/title", Agreed),
    ("/description", Agreed),
    ("/parameters", Agreed),
    // The machine is the hub's. What the generators' machines were is in `generators`.
    ("/environment/cores", Beside),
    ("/environment/cpu", Beside),
    ("/environment/memory_mb", Beside),
    ("/environment/kernel", Beside),
    ("/environment/storage", Beside),
    ("/environment/version", Agreed),
    ("/environment/build", Agreed),
    ("/environment/commit", Agreed),
    ("/environment/durability", Agreed),
    // One hub may be reached in several ways, and has its processes on one machine.
    ("/environment/hub", EachItsOwn),
    ("/environment/started_at", Earliest),
    ("/load_began_at", Earliest),
    ("/options/scenario", Same),
    ("/options/load", Made(made::load, &["**"])),
    ("/options/duration_s", Same),
    ("/options/warm_up_s", Same),
    ("/options/cool_down_s", Same),
    ("/options/slices", Same),
    ("/options/dfsps", Sum),
    ("/options/workers", Sum),
    ("/options/parties", Agreed),
    ("/options/existing_transfers", Agreed),
    ("/options/amount", Agreed),
    ("/options/currency", Agreed),
    ("/options/unidirectional", Agreed),
    ("/options/pairs", Agreed),
    ("/options/hub_arguments", Agreed),
    ("/options/behaviour", Agreed),
    ("/options/trace", Agreed),
    ("/options/instance", EachItsOwn),
    ("/options/baselines", EachItsOwn),
    ("/seed", Agreed),
    // One hub may have several names.
    ("/target", Distinct),
    ("/durable", Agreed),
    ("/completed", Sum),
    ("/failed", Sum),
    ("/lost", Sum),
    ("/late", Sum),
    ("/originated", Sum),
    ("/simulators", Sum),
    ("/slices", Made(made::slices, &["*/seconds", "*/completed", "*/throughput_per_s"])),
    ("/repetitions", Made(made::repetitions, &["*"])),
    // Of figures of which only each generator's own repetitions tell.
    ("/repeated", EachItsOwn),
    ("/throughput_per_s", Made(made::throughput, &[""])),
    ("/latency_ms", Made(made::latency, PERCENTILES)),
    // There is no histogram of these to merge.
    ("/http_ms", EachItsOwn),
    ("/phases", Made(made::phases, &["*/latency_ms/*", "*/exchanges/*"])),
    (
        "/histogram",
        Made(made::histogram, &["unit", "buckets/*/*", "v2_deflate_base64", "phases/*", "schedule_lag"]),
    ),
    (
        "/schedule",
        Made(made::schedule, &["due", "lag_ms_p50", "lag_ms_p99", "lag_ms_max", "skipped", "valid"]),
    ),
    ("/hub", Made(made::hub, PROCESS)),
    ("/lab", Made(made::lab, PROCESS)),
    (
        "/processes",
        Made(
            made::processes,
            &[
                "*/name",
                "*/cpu_us_per_operation",
                "*/cores",
                "*/rss_mb",
                "*/rss_peak_mb",
                "*/disk_write_mb",
                "*/context_switches_voluntary",
                "*/context_switches_involuntary",
                "*/waited_share",
            ],
        ),
    ),
    // The hub's own counts are of the load of all, whoever reads them.
    ("/stages", Made(made::stages, &["*/*"])),
    // Measured on the generator's machine without the hub: nothing that the hub's figures could be set beside.
    ("/baseline", EachItsOwn),
    ("/ratio", EachItsOwn),
    ("/more_baselines", EachItsOwn),
    ("/audit/ok", All),
    ("/audit/performed", All),
    ("/audit/positions_ok", All),
    ("/audit/sum_ok", All),
    ("/audit/accepted", Sum),
    ("/audit/finished", Sum),
    ("/audit/in_flight", Sum),
    ("/audit/lost", Sum),
    ("/audit/doubled", Sum),
    ("/audit/contradictions", Sum),
    ("/audit/callbacks_repeated", Sum),
    ("/audit/answers", Made(made::answers, &["*/*"])),
    ("/audit/positions", Joined),
    ("/audit/findings", Made(made::audit_findings, &["*"])),
    ("/timeline/interval_s", Same),
    (
        "/timeline",
        Made(
            timed::timeline,
            &[
                "rows/*/t",
                "rows/*/completed",
                "rows/*/failed",
                "rows/*/offered",
                "rows/*/p50_ms",
                "rows/*/p90_ms",
                "rows/*/p95_ms",
                "rows/*/p99_ms",
                "rows/*/p999_ms",
                "rows/*/p9999_ms",
                "rows/*/max_ms",
                "rows/*/share_over_1s",
                "rows/*/hub_cpu_cores",
                "rows/*/hub_rss_mb",
                "rows/*/hub_disk_mb",
                "rows/*/queue_ingress",
                "rows/*/queue_engine",
                "rows/*/queue_callbacks",
                "rows/*/queue_relay",
                "histograms/*",
            ],
        ),
    ),
    ("/window/seconds", Same),
    // Each load has one schedule, which is a generator's.
    ("/loads", EachItsOwn),
    ("/window/stolen_share", Most),
    // Of each generator's own machine, as is how busy it was.
    ("/window/idle_share", EachItsOwn),
    ("/machine", EachItsOwn),
    ("/window/trimmed_start_s", Made(timed::trimmed_start, &[""])),
    ("/window/trimmed_end_s", Made(timed::trimmed_end, &[""])),
    ("/validity", Made(made::validity, &["valid", "findings/*"])),
    ("/thresholds", Made(made::thresholds, &["met", "findings/*", "checked/*/*"])),
    ("/targets", Made(made::targets, &["*/name", "*/limit", "*/measured", "*/met"])),
    ("/breakpoint", Refused(SEARCH)),
    (
        "/drift",
        Made(
            timed::drift,
            &["seconds", "held_s", "rows/*/*", "disk_bytes_per_operation", "kept_up/*", "programme_2020/*/*"],
        ),
    ),
];

/// Whether the results may be added up.
pub(super) fn check(generators: &[Generator]) -> Result<(), MergeError> {
    for generator in generators {
        let path = || generator.path.clone();
        if generator.value["kind"] == "isolated" {
            let reason = "it is of one stage alone, which has no second load generator";
            return Err(MergeError::NotShared { path: path(), reason });
        }
        for (member, rule) in RULES {
            let own = generator.value.pointer(member);
            match rule {
                Refused(reason) if own.is_some_and(|value| !value.is_null()) => {
                    return Err(MergeError::NotShared { path: path(), reason });
                }
                Same if own != generators[0].value.pointer(member) => {
                    return Err(MergeError::Different { path: path(), member });
                }
                _ => {}
            }
        }
        let load = |generator: &Generator| generator.value["options"]["load"].clone();
        if super::load::sum(&load(&generators[0]), &load(generator)).is_none() {
            return Err(MergeError::Different { path: path(), member: "/options/load" });
        }
    }
    Ok(())
}

/// Merges what is merged.
pub(super) fn apply(together: &Together) -> Value {
    let mut merged = json!({});
    let mut differs = Vec::new();
    for (member, rule) in RULES {
        let values: Vec<&Value> = together.values(member).filter(|value| !value.is_null()).collect();
        let value = match rule {
            Agreed if values.iter().any(|value| *value != values[0]) => {
                differs.push(*member);
                None
            }
            Same | Agreed => values.first().copied().cloned(),
            Sum => sum(&values),
            All => Some(together.all(member).into()),
            Most => values.iter().filter_map(|value| value.as_f64()).max_by(f64::total_cmp).map(Into::into),
            Earliest => values.iter().filter_map(|value| value.as_str()).min().map(Into::into),
            Joined => Some(values.iter().filter_map(|value| value.as_array()).flatten().cloned().collect()),
            Distinct => Some(distinct(&values).into()),
            Beside => together.beside().and_then(|generator| generator.value.pointer(member)).cloned(),
            Made(make, _) => Some(make(together, &merged)),
            EachItsOwn | Refused(_) => None,
        };
        if let Some(value) = value {
            put(&mut merged, member, value);
        }
    }
    merged["differs_in"] = differs.into();
    merged
}

/// Puts a value where the pointer says; objects on the way are made, and one that is there already gets the members of the other.
fn put(merged: &mut Value, pointer: &str, value: Value) {
    let place = pointer.split('/').skip(1).fold(merged, |place, name| &mut place[name]);
    match (place, value) {
        (Value::Object(place), Value::Object(more)) => place.extend(more),
        (place, value) => *place = value,
    }
}

fn distinct(values: &[&Value]) -> String {
    let mut texts: Vec<&str> = Vec::new();
    for text in values.iter().filter_map(|value| value.as_str()) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.join(", ")
}

/// Adds numbers up, and those of objects by their names; whole ones stay whole.
pub(super) fn sum(values: &[&Value]) -> Option<Value> {
    let first = values.first()?;
    if let Value::Object(_) = first {
        let mut names: Vec<&String> =
            values.iter().filter_map(|value| value.as_object()).flat_map(Map::keys).collect();
        names.sort_unstable();
        names.dedup();
        let member = |name: &String| {
            let members: Vec<&Value> = values.iter().filter_map(|value| value.get(name)).collect();
            Some((name.clone(), sum(&members)?))
        };
        return Some(names.into_iter().filter_map(member).collect::<Map<_, _>>().into());
    }
    match values.iter().map(|value| value.as_u64()).sum::<Option<u64>>() {
        Some(whole) => Some(whole.into()),
        None => Some(rounded(values.iter().filter_map(|value| value.as_f64()).sum(), 1).into()),
    }
}
