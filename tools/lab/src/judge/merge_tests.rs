#![expect(clippy::float_arithmetic, reason = "comparing measurements; no money")]

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::plan::load_profile::Load;
use crate::plan::scenario::Scenario;
use crate::result::sample::{full, process_row};
use crate::result::schema::{BreakpointResult, Validity};

/// Every member that holds a value, with `*` for indices of lists and names of phases and parameters.
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

/// Members that are computed from all recordings. The constants determine the rest.
const WORKED_OUT: [&str; 30] = [
    "/environment/started_at",
    "/load_began_at",
    "/options/load",
    "/options/dfsps",
    "/options/workers",
    "/target",
    "/durable",
    "/completed",
    "/failed",
    "/lost",
    "/late",
    "/originated",
    "/simulators",
    "/slices",
    "/repetitions",
    "/throughput_per_s",
    "/latency_ms",
    "/phases",
    "/histogram",
    "/schedule",
    "/hub",
    "/lab",
    "/processes",
    "/stages",
    "/audit",
    "/timeline",
    "/window",
    "/validity",
    "/thresholds",
    "/targets",
];

#[test]
fn merge_handles_every_member_of_a_result() {
    let value: Value = serde_json::from_str(&full(1, 10, 100).to_json()).unwrap();
    let mut found = BTreeSet::new();
    leaves(&value, "", &mut found);
    let machine = OF_MACHINE.map(|member| format!("/environment/{member}"));
    let decided = || {
        let own = ["/drift"].iter().chain(&WORKED_OUT).chain(&SAME).chain(&AGREED).chain(&OF_ONE).copied();
        own.chain(machine.iter().map(String::as_str))
    };
    let is_of = |member: &str, leaf: &str| leaf == member || leaf.starts_with(&format!("{member}/"));
    for leaf in &found {
        assert!(decided().any(|member| is_of(member, leaf)), "nothing is decided about {leaf}");
    }
    for member in decided() {
        assert!(found.iter().any(|leaf| is_of(member, leaf)), "no result has {member}");
    }
}

/// Members of a definition in the schema that a value lacks.
fn lacking(schema: &Value, of: &Value, value: &Value, pointer: &str) -> Vec<String> {
    let of = of["$ref"].as_str().map_or(of, |reference| schema.pointer(&reference[1..]).unwrap());
    let member = |(name, of): (&String, &Value)| match value.get(name) {
        Some(value) => lacking(schema, of, value, &format!("{pointer}/{name}")),
        None => vec![format!("{pointer}/{name}")],
    };
    let item = |value: &Value| lacking(schema, &of["items"], value, &format!("{pointer}/*"));
    let members = of["properties"].as_object().into_iter().flatten().flat_map(member);
    members.chain(value.as_array().into_iter().flatten().flat_map(item)).collect()
}

#[test]
fn sample_has_every_member_of_the_schema() {
    let schema = include_str!("../../../../docs/lab/result.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    let value: Value = serde_json::from_str(&full(1, 10, 100).to_json()).unwrap();
    assert_eq!(lacking(&schema, &schema["$defs"]["LabResult"], &value, ""), Vec::<String>::new());
}

#[test]
fn written_result_is_read_unchanged() {
    let written = full(1, 10, 100);
    let again: LabResult = serde_json::from_str(&written.to_json()).unwrap();
    assert_eq!(again.to_json(), written.to_json());
    assert!(tally(&again).unwrap().phases.iter().all(|phase| phase.latency.len() == 100));
}

#[test]
fn loads_of_the_same_shape_are_added() {
    let stages = |level, seconds| vec![Stage { level, length: std::time::Duration::from_secs(seconds) }];
    let ramping = |start, level, seconds| Load::RampingUsers { start, stages: stages(level, seconds) };
    let closed = |users| Load::Closed { users };
    let open = |rate_per_s| Load::Open { rate_per_s, outstanding_max: 100 };
    let random = |start_per_s, poisson| Load::Arrivals {
        start_per_s,
        stages: Vec::new(),
        poisson,
        outstanding_max: 10,
    };
    let both =
        |operation, rate| Load::Parallel { loads: vec![ParallelLoad { operation, load: open(rate) }; 2] };
    assert_eq!(plus(&closed(2), &closed(3)), Some(closed(5)));
    assert_eq!(plus(&open(10), &open(20)), Some(Load::Open { rate_per_s: 30, outstanding_max: 200 }));
    assert_eq!(plus(&ramping(1, 5, 9), &ramping(2, 6, 9)), Some(ramping(3, 11, 9)));
    assert_eq!(plus(&random(1, true), &random(2, true)).unwrap().rate_per_s_max(), Some(3));
    let (quotes, lookups) = (Scenario::Quotes, Scenario::Lookups);
    assert_eq!(plus(&both(quotes, 1), &both(quotes, 2)).unwrap().rate_per_s_max(), Some(6));
    for (one, other) in [
        (closed(2), open(2)),
        (ramping(1, 5, 9), ramping(1, 5, 8)),
        (ramping(1, 5, 9), closed(1)),
        (random(1, true), random(1, false)),
        (both(quotes, 1), both(lookups, 1)),
    ] {
        assert_eq!(plus(&one, &other), None, "{one} {other}");
    }
}

/// Two generators: the first starts a second earlier, is faster and has four times the operations; the second is beside
/// the hub.
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

fn merged(change: impl Fn(u32, &mut LabResult)) -> Value {
    let directory = tempfile::tempdir().unwrap();
    merge(&two(directory.path(), change)).unwrap()
}

fn is_near(value: &Value, wanted: f64) -> bool {
    value.as_f64().is_some_and(|value| (value / wanted - 1.0).abs() < 0.02)
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn merged_members_differ_from_the_first_generators() {
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
fn merged_targets_apply_to_the_sum() {
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
    assert_eq!(one_sided["targets"], json!([]), "a target of one generator is not a target of all");
}

#[test]
fn seconds_are_merged_by_the_clock() {
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
fn merge_without_a_generator_beside_the_hub_has_no_machine() {
    let merged = merged(|_, result| result.hub = None);
    assert_eq!((&merged["hub"], &merged["environment"]["cores"]), (&Value::Null, &Value::Null));
    assert_eq!(merged["measured_by"], json!({ "hub": null, "stages": "instance 1" }));
}

#[test]
fn generators_with_shared_dfsps_or_other_times_are_findings() {
    let findings = |change: fn(u32, &mut LabResult)| {
        let validity = merged(|instance, result| {
            result.validity = Validity::default();
            change(instance, result);
        })["validity"]
            .clone();
        assert_eq!(validity["valid"], validity["findings"] == json!([]));
        validity["findings"].to_string()
    };
    // The generators started a second apart, which is within the warm-up.
    assert_eq!(findings(|_, _| {}), "[]");
    let late = findings(|instance, result| {
        result.load_began_at = Some(format!("2026-01-01T00:00:{:02}.000Z", 3 * instance));
    });
    assert!(late.contains("began 3000 ms apart"), "{late}");
    // A result of an older lab: both are placed by the starts of their runs, which are the same here.
    let older = findings(|instance, result| {
        result.load_began_at = (instance == 1).then(|| "2026-01-01T01:00:00.000Z".to_owned())
    });
    assert_eq!(older, "[]");
    let twice = findings(|_, result| result.audit.positions[0].participant = "west-1".to_owned());
    assert!(twice.contains("such as west-1, are in more than one"), "{twice}");
}

#[test]
fn results_that_cannot_be_added_are_rejected() {
    type Change = fn(&mut LabResult);
    let changes: [(Change, &str); 11] = [
        (|result| result.scenario = "quotes".into(), "/scenario"),
        (|result| result.unit = "quote".into(), "/unit"),
        (|result| result.histogram.as_mut().unwrap().phases = BTreeMap::new(), "of a phase is missing"),
        (|result| result.histogram.as_mut().unwrap().schedule_lag = None, "of lag is missing"),
        (|result| result.options.load = Load::Open { rate_per_s: 5, outstanding_max: 9 }, "/options/load"),
        (|result| result.options.duration_s = 30.0, "/options/duration_s"),
        (|result| result.options.warm_up_s = 3.0, "/options/warm_up_s"),
        (|result| result.options.slices = 2, "/options/slices"),
        (|result| result.kind = "isolated".into(), "it measures one stage"),
        (|result| result.breakpoint = Some(BreakpointResult::default()), "it is a breakpoint search"),
        (|result| result.histogram = None, "its histogram of latency is missing"),
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
    let unreadable = merge(&[first.clone(), directory.path().join("none")]);
    assert!(matches!(unreadable, Err(MergeError::File(FileError::Unreadable { .. }))));
    for (text, expected) in [("{", "not a result"), (r#"{"schema_version":1}"#, "layout version 1")] {
        std::fs::write(second.join("result.json"), text).unwrap();
        let error = merge(&[first.clone(), second.clone()]).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
