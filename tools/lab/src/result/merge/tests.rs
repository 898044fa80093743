#![expect(clippy::float_arithmetic, reason = "comparing measurements; no money")]

use std::collections::{BTreeMap, BTreeSet};

use super::rules::{RULES, Rule};
use super::sample::{full, process_row};
use super::*;
use crate::plan::load_profile::Load;
use crate::result::LabResult;
use crate::result::schema::{BreakpointResult, Validity};

/// Every member that holds a value, the places of lists and the names of phases and parameters as `*`.
fn leaves(value: &Value, pointer: &str, found: &mut BTreeSet<String>) {
    let deeper: Vec<(&str, &Value)> = match value {
        Value::Object(members) => {
            let named_by_what_is_run = ["/parameters", "/phases", "/histogram/phases"].contains(&pointer);
            let name = |name| if named_by_what_is_run { "*" } else { name };
            members.iter().map(|(member, value)| (name(member.as_str()), value)).collect()
        }
        Value::Array(items) => items.iter().map(|item| ("*", item)).collect(),
        Value::Null => panic!("{pointer} is not filled in"),
        _ => {
            found.insert(pointer.to_owned());
            return;
        }
    };
    assert!(!deeper.is_empty(), "{pointer} is not filled in");
    for (name, value) in deeper {
        leaves(value, &format!("{pointer}/{name}"), found);
    }
}

/// Whether a pattern is of this member: `*` is any name, `**` everything below.
fn is_of(pattern: &str, leaf: &str) -> bool {
    let (mut pattern, mut leaf) = (pattern.split('/'), leaf.split('/'));
    loop {
        match (pattern.next(), leaf.next()) {
            (Some("**"), Some(_)) | (None, None) => return true,
            (Some(wanted), Some(name)) if wanted == "*" || wanted == name => {}
            _ => return false,
        }
    }
}

/// The members that a rule decides about.
fn patterns(member: &str, rule: &Rule) -> Vec<String> {
    match rule {
        Rule::Made(_, inner) => inner
            .iter()
            .map(|inner| if inner.is_empty() { member.to_owned() } else { format!("{member}/{inner}") })
            .collect(),
        // These take what is below as a whole, whatever is there.
        _ => vec![member.to_owned(), format!("{member}/**")],
    }
}

#[test]
fn every_member_of_a_result_has_been_decided_about() {
    let value: Value = serde_json::from_str(&full(1, 10, 100).to_json()).unwrap();
    let mut found = BTreeSet::new();
    leaves(&value, "", &mut found);
    let decided: Vec<(&str, String)> = RULES
        .iter()
        .flat_map(|(member, rule)| patterns(member, rule).into_iter().map(move |pattern| (*member, pattern)))
        .collect();
    for leaf in &found {
        let rules: BTreeSet<&str> =
            decided.iter().filter(|(_, pattern)| is_of(pattern, leaf)).map(|(member, _)| *member).collect();
        assert_eq!(rules.len(), 1, "{leaf} is decided about by {rules:?}: see merge/rules.rs");
    }
    for (member, rule) in RULES {
        let patterns = patterns(member, rule);
        let is_there = |pattern: &String| found.iter().any(|leaf| is_of(pattern, leaf));
        let fits = match rule {
            Rule::Made(..) => patterns.iter().all(is_there),
            _ => patterns.iter().any(is_there),
        };
        assert!(fits, "no result has {member}, or something below it that its rule names");
    }
}

/// Two generators: the first begins a second earlier, is faster and has four times the operations; the second is beside the hub.
fn two(directory: &Path, change: impl Fn(u32, &mut LabResult)) -> [PathBuf; 2] {
    [(1, 10, 400), (2, 2_000, 100)].map(|(instance, ms, count)| {
        let mut result = full(instance, ms, count);
        result.breakpoint = None;
        result.hub = result.hub.filter(|_| instance == 2);
        change(instance, &mut result);
        let out = directory.join(instance.to_string());
        std::fs::create_dir_all(&out).unwrap();
        result.write(&out).unwrap();
        out
    })
}

pub(super) fn merged(change: impl Fn(u32, &mut LabResult)) -> Value {
    let directory = tempfile::tempdir().unwrap();
    merge(&two(directory.path(), change)).unwrap()
}

fn is_near(value: &Value, wanted: f64) -> bool {
    value.as_f64().is_some_and(|value| (value / wanted - 1.0).abs() < 0.02)
}

#[test]
fn nothing_of_the_whole_is_the_first_generators() {
    let merged = merged(|_, _| {});
    for (member, expected) in [
        ("/completed", json!(500)),
        ("/failed", json!(2)),
        ("/lost", json!(4)),
        ("/late", json!(6)),
        ("/originated/sent", json!(500)),
        ("/simulators/prepares_received", json!(500)),
        ("/throughput_per_s", json!(25.0)),
        ("/repetitions", json!([25.0])),
        ("/slices", json!([{ "seconds": 20.0, "completed": 500, "throughput_per_s": 25.0 }])),
        ("/options/load/closed/users", json!(3)),
        ("/options/dfsps", json!(6)),
        ("/options/workers", json!(4)),
        ("/options/duration_s", json!(20.0)),
        ("/options/instance", Value::Null),
        ("/parameters", Value::Null),
        ("/differs_in", json!(["/parameters"])),
        ("/baseline", Value::Null),
        ("/ratio", Value::Null),
        // The machine of the hub, and of its process.
        ("/environment/cores", json!(8)),
        ("/environment/commit", json!("abc")),
        ("/measured_by", json!({ "hub": "instance 2", "stages": "instance 2" })),
        ("/stages/0/stage", json!("stage of 2")),
        // 400 µs for each of 100 operations, of 500.
        ("/hub/cpu_us_per_operation", json!(80.0)),
        ("/hub/rss_mb", json!(100.0)),
        ("/lab/cpu_us_per_operation", json!(100.0)),
        ("/lab/cores", json!(1.0)),
        ("/audit/accepted", json!(500)),
        ("/audit/lost", json!(4)),
        ("/audit/callbacks_repeated", json!(10)),
        (
            "/audit/answers",
            json!([{ "phase": "discovery", "accepted": 14, "right": 12, "errors": 2, "wrong": 4, "late": 6 }]),
        ),
        ("/audit/findings", json!(["instance 1: something", "instance 2: something"])),
        ("/validity/findings", json!(["instance 1: lagged", "instance 2: lagged"])),
        (
            "/window",
            json!({ "seconds": 20.0, "stolen_share": 0.02, "trimmed_start_s": 3.0, "trimmed_end_s": 1.5 }),
        ),
        ("/load_began_at", json!("2026-01-01T00:00:01.000Z")),
        ("/schedule/skipped", json!(2)),
        ("/phases/agreement/exchanges/accepted", json!(500)),
        ("/merged_from", json!(2)),
        ("/generators/1/name", json!("instance 2")),
        ("/generators/1/completed", json!(100)),
        ("/generators/0/environment/cores", json!(4)),
    ] {
        assert_eq!(*merged.pointer(member).unwrap_or(&Value::Null), expected, "{member}");
    }
    let names = |merged: &Value| -> Vec<String> {
        let rows = merged["processes"].as_array().unwrap().iter();
        rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&merged), ["hub", "lab, instance 1", "lab, instance 2"]);
    let of_several = self::merged(|_, result| result.processes.push(process_row("hub, java 7", 9.0)));
    assert_eq!(names(&of_several), ["hub", "hub, java 7", "lab, instance 1", "lab, instance 2"]);
    let cpu: Vec<_> = merged["processes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["cpu_us_per_operation"].as_f64())
        .collect();
    assert_eq!(cpu, [Some(80.0), Some(80.0), Some(20.0)], "of all operations");
    // A fifth took two seconds.
    for member in ["/latency_ms", "/phases/discovery/latency_ms", "/phases/transfer/latency_ms"] {
        let latency = merged.pointer(member).unwrap();
        assert!(is_near(&latency["p50"], 10.0) && is_near(&latency["p90"], 2_000.0), "{member}: {latency}");
        assert_eq!(latency["share_over_1s"], 0.2);
    }
    let schedule = &merged["schedule"];
    assert!(
        is_near(&schedule["lag_ms_p50"], 10.0) && is_near(&schedule["lag_ms_p99"], 2_000.0),
        "{schedule}"
    );
}

#[test]
fn targets_are_those_of_the_whole() {
    let of = |merged: &Value, name: &str| {
        let targets = merged["targets"].as_array().unwrap();
        let target = targets.iter().find(|target| target["name"] == name).cloned().unwrap_or_default();
        (target["limit"].as_f64(), target["measured"].as_f64(), target["met"].as_bool())
    };
    let merged_targets = merged(|_, _| {});
    assert_eq!(of(&merged_targets, "throughput_per_s"), (Some(6.0), Some(25.0), Some(true)));
    assert_eq!(of(&merged_targets, "lost"), (Some(4.0), Some(4.0), Some(true)));
    let (limit, measured, met) = of(&merged_targets, "p99_ms");
    assert!(limit == Some(1_000.0) && measured.is_some_and(|ms| ms > 1_900.0) && met == Some(false));
    let one_sided = merged(|instance, result| result.targets.truncate(3 * usize::from(instance == 1)));
    assert_eq!(one_sided["targets"], json!([]), "what one was asked for is not asked of all");
}

#[test]
fn seconds_are_put_together_by_the_clock() {
    let timeline = merged(|_, _| {})["timeline"].clone();
    let rows = timeline["rows"].as_array().unwrap();
    let of = |name: &str| rows.iter().map(|row| row[name].as_f64()).collect::<Vec<_>>();
    // The second generator's first second is the first's second.
    assert_eq!(of("t"), [1.0, 2.0, 3.0, 4.0].map(Some));
    assert_eq!(of("completed"), [400.0, 500.0, 500.0, 100.0].map(Some));
    assert_eq!(of("share_over_1s"), [0.0, 0.2, 0.2, 1.0].map(Some));
    assert_eq!(of("hub_rss_mb"), [None, Some(64.0), Some(64.0), Some(64.0)], "of the one beside the hub");
    let drift = merged(|_, _| {})["drift"].clone();
    assert_eq!((&drift["seconds"], &drift["programme_2020"][0]["measured"]), (&json!(0.0), &json!(25.0)));
    assert_eq!(of("queue_engine"), [None, Some(100.0), Some(100.0), Some(100.0)]);
    for (row, p50, p90) in [(0, 10.0, 10.0), (1, 10.0, 2_000.0), (3, 2_000.0, 2_000.0)] {
        assert!(is_near(&rows[row]["p50_ms"], p50) && is_near(&rows[row]["p90_ms"], p90), "{}", rows[row]);
    }
    assert_eq!(timeline["histograms"].as_array().map(Vec::len), Some(4));
    // Results of older labs have no histograms of seconds.
    let older = merged(|_, result| result.timeline.as_mut().unwrap().histograms.clear())["timeline"].clone();
    assert_eq!((&older["rows"][1]["p50_ms"], &older["rows"][1]["max_ms"]), (&Value::Null, &json!(2_007.04)));
    assert_eq!((&older["rows"][1]["share_over_1s"], &older["histograms"]), (&json!(0.2), &json!([])));
}

#[test]
fn without_their_histograms_phases_have_no_percentiles_and_lag_is_the_worst() {
    let merged = merged(|_, result| {
        let histogram = result.histogram.as_mut().unwrap();
        (histogram.phases, histogram.schedule_lag) = (BTreeMap::new(), None);
        result.hub = None;
    });
    assert_eq!(merged["phases"]["agreement"]["latency_ms"], Value::Null);
    assert_eq!(merged["phases"]["agreement"]["exchanges"]["accepted"], 500);
    assert_eq!(merged["schedule"]["lag_ms_p50"], 2_000.0);
    assert_eq!((&merged["hub"], &merged["environment"]["cores"]), (&Value::Null, &Value::Null));
    assert_eq!(merged["measured_by"], json!({ "hub": null, "stages": "instance 1" }));
}

#[test]
fn generators_that_got_into_each_others_way_are_told() {
    let findings = |change: fn(u32, &mut LabResult)| {
        let validity = merged(|instance, result| {
            result.validity = Validity::default();
            change(instance, result);
        })["validity"]
            .clone();
        assert_eq!(validity["valid"], validity["findings"] == json!([]));
        validity["findings"].to_string()
    };
    // A second apart: within the warm-up.
    assert_eq!(findings(|_, _| {}), "[]");
    let late = findings(|instance, result| {
        result.load_began_at = Some(format!("2026-01-01T00:00:{:02}.000Z", 3 * instance));
    });
    assert!(late.contains("began 3000 ms apart"), "{late}");
    // One of an older lab: both by when their runs began, which is the same here.
    let older = findings(|instance, result| {
        result.load_began_at = (instance == 1).then(|| "2026-01-01T01:00:00.000Z".to_owned())
    });
    assert_eq!(older, "[]");
    let twice = findings(|_, result| result.audit.positions[0].participant = "west-1".to_owned());
    assert!(twice.contains("such as west-1, are in more than one"), "{twice}");
}

#[test]
fn what_cannot_be_added_up_is_refused() {
    type Change = fn(&mut LabResult);
    let changes: [(Change, &str); 9] = [
        (|result| result.scenario = "quotes", "/scenario"),
        (|result| result.unit = "quote", "/unit"),
        (|result| result.options.load = Load::Open { rate_per_s: 5, outstanding_max: 9 }, "/options/load"),
        (|result| result.options.duration_s = 30.0, "/options/duration_s"),
        (|result| result.options.warm_up_s = 3.0, "/options/warm_up_s"),
        (|result| result.options.slices = 2, "/options/slices"),
        (|result| result.kind = "isolated", "one stage alone"),
        (|result| result.breakpoint = Some(BreakpointResult::default()), "it is a search"),
        (|result| result.histogram = None, "its histogram is missing"),
    ];
    let directory = tempfile::tempdir().unwrap();
    for (change, text) in changes {
        let paths = two(directory.path(), |instance, result| {
            if instance == 2 {
                change(result);
            }
        });
        let error = merge(&paths).unwrap_err().to_string();
        assert!(error.contains(text), "{text}: {error}");
    }
    let [first, second] = two(directory.path(), |_, _| {});
    assert!(matches!(merge(std::slice::from_ref(&first)), Err(MergeError::TooFew)));
    assert!(matches!(merge(&[first.clone(), directory.path().join("none")]), Err(MergeError::Io { .. })));
    for (text, expected) in [("{", "no result"), (r#"{"schema_version":1}"#, "layout 2")] {
        std::fs::write(second.join("result.json"), text).unwrap();
        let error = merge(&[first.clone(), second.clone()]).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
