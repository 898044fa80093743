//! Streams and isolated stages from the command line, including hub processes.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use upesi_lab::isolated::stream::Stream;

fn upesi(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_upesi")).args(arguments).output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn measured(out: &Path, arguments: &[&str]) -> Value {
    let output = upesi(&[&["lab", "isolated", "--json", "--out", text(out)], arguments].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}\n{}", String::from_utf8_lossy(&output.stdout));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kept: Value = serde_json::from_slice(&std::fs::read(out.join("result.json")).unwrap()).unwrap();
    assert_eq!(printed, kept);
    printed
}

#[test]
fn streams_are_accepted_by_their_own_hub() {
    let directory = tempfile::tempdir().unwrap();
    for (kind, callbacks) in
        [("prepare", "held"), ("prepare", "swallowed"), ("fulfil", "held"), ("fulfil", "swallowed")]
    {
        let out = directory.path().join(format!("{kind}-{callbacks}"));
        let callbacks = format!("callbacks={callbacks}");
        let arguments = [kind, "--with", "messages=90", "--with", "repetitions=2", "--with", "connections=4"];
        let result = measured(&out, &[&arguments[..], &["--with", &callbacks]].concat());
        assert_eq!(result["kind"], "isolated");
        assert_eq!(
            (&result["unit"], &result["completed"], &result["failed"]),
            (&kind.into(), &60.into(), &0.into())
        );
        for (place, name) in ["hub", "lab"].into_iter().enumerate() {
            let process = &result["processes"][place];
            assert_eq!(process["name"], name);
            assert!(process["rss_mb"].as_f64() > Some(1.0), "a process of its own: {process}");
            assert!(process["context_switches_voluntary"].as_u64() > Some(0), "it waited: {process}");
        }
        let stages = result["stages"].as_array().unwrap();
        let stage = stages.iter().find(|stage| stage["stage"] == kind).unwrap();
        assert_eq!(stage["operations"], 60, "{stage}");
    }
}

#[test]
fn admin_stage_reads_with_a_token_if_required() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["admin", "--with", "messages=60", "--with", "repetitions=2", "--with", "connections=3"];
    let result = measured(directory.path(), &[&arguments[..], &["--with", "dfsps=5"]].concat());
    assert_eq!(
        (&result["unit"], &result["completed"], &result["failed"]),
        (&"read".into(), &40.into(), &0.into())
    );
    assert_eq!(result["parameters"]["dfsps"], 5);
    assert_eq!(result["processes"][0]["name"], "hub");
}

#[test]
fn metrics_and_logging_can_be_turned_off() {
    let directory = tempfile::tempdir().unwrap();
    let arguments =
        ["prepare", "--hub-argument=--set=metrics.record=false", "--hub-argument=--set=log.access=true"];
    let result = measured(
        directory.path(),
        &[&arguments[..], &["--with", "messages=30", "--with", "repetitions=1", "--with", "durable=false"]]
            .concat(),
    );
    assert_eq!(result["completed"], 15);
    assert_eq!(result["durable"], false);
    let stages = result["stages"].as_array().unwrap();
    assert!(!stages.iter().any(|stage| stage["stage"] == "prepare"), "nothing was timed: {stages:?}");
    let log = std::fs::read_to_string(directory.path().join("hub.log")).unwrap();
    let lines = log.lines().filter(|line| line.contains("upesi_access") && line.contains("transfers"));
    assert_eq!(lines.count(), 30, "one line per request: {log}");
    assert!(log.contains("dfsp-1") && !log.contains("ilpPacket"));
}

#[test]
fn streams_are_generated_and_their_effects_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let made_up = directory.path().join("made-up");
    let output =
        upesi(&["lab", "record", "--generate", "40", "--dfsps", "3", "--fulfils", "--out", text(&made_up)]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary = String::from_utf8(output.stdout).unwrap();
    assert!(summary.contains("40 prepares, 40 fulfils, 3 DFSPs"), "{summary}");

    let data = directory.path().join("data");
    let filled =
        upesi(&["lab", "fill", "--data", text(&data), "--transfers", "5", "--dfsps", "2", "--keep-segments"]);
    assert!(filled.status.success(), "{}", String::from_utf8_lossy(&filled.stderr));
    let told = String::from_utf8(filled.stdout).unwrap();
    assert!(
        told.starts_with("5 transfers prepared") && told.contains("archive maintenance took another "),
        "{told}"
    );
    let recorded = directory.path().join("recorded");
    let output = upesi(&["lab", "record", "--data", text(&data), "--out", text(&recorded)]);
    // The tool that fills a directory fast has no real requests.
    assert!(
        [Some(0), Some(65)].contains(&output.status.code()),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );

    let stream = format!("stream={}", made_up.display());
    let out = directory.path().join("out");
    let result = measured(
        &out,
        &[
            "notification",
            "--with",
            &stream,
            "--with",
            "messages=40",
            "--with",
            "connections=4",
            "--with",
            "repetitions=2",
        ],
    );
    assert_eq!((&result["completed"], &result["parameters"]["dfsps"]), (&80.into(), &3.into()));
    // The hub and the lab are parts of one process. Memory and context switches are known only for the whole process.
    let [hub, lab] = &result["processes"].as_array().unwrap()[..] else { panic!("{result}") };
    assert!(hub["rss_mb"].as_f64() > Some(1.0) && lab.get("rss_mb").is_none(), "{hub} {lab}");
    for process in [hub, lab] {
        assert!(process["cpu_us_per_operation"].is_number(), "{process}");
        assert!(process.get("context_switches_voluntary").is_none(), "never counted: {process}");
    }
}

#[test]
fn mistakes_have_distinct_exit_codes() {
    let missing = ["notification", "--with", "stream=/nonexistent/stream"];
    for (arguments, code, wanted) in [
        (&["nonsense"][..], 64, "nonsense"),
        (&["journal", "--with", "speed=9"][..], 64, "\"speed\" is unknown"),
        (&["journal", "--with", "batches"][..], 64, "KEY=VALUE"),
        (&missing[..], 66, "/nonexistent/stream"),
    ] {
        let output = upesi(&[&["lab", "isolated"], arguments].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(wanted), "{stderr}");
    }
    let output = upesi(&["lab", "record", "--out", "/tmp/x"]);
    assert_eq!(output.status.code(), Some(64), "either a directory or a number is needed");
    let output = upesi(&["lab", "record", "--out", "/tmp/x", "--generate", "0"]);
    assert_eq!(output.status.code(), Some(64));
}

#[test]
fn traffic_of_a_hub_is_recorded_and_replayed() {
    let directory = tempfile::tempdir().unwrap();
    for kind in ["prepare", "fulfil"] {
        let out = directory.path().join(kind);
        let arguments = [kind, "--with", "recorded=true", "--with", "messages=60", "--with", "dfsps=3"];
        let result = measured(&out, &[&arguments[..], &["--with", "repetitions=2"]].concat());
        assert_eq!(
            (&result["unit"], &result["completed"], &result["failed"]),
            (&kind.into(), &40.into(), &0.into())
        );
        assert_eq!(
            (&result["parameters"]["recorded"], &result["parameters"]["dfsps"]),
            (&"yes".into(), &3.into())
        );
        let left = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(left, ["hub.log", "result.json"], "the recording and its hub are gone");
    }
}

#[test]
fn suite_records_once_and_replays_to_sinks_and_dfsps() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("callbacks.toml");
    let scenario = "title = \"Callbacks\"\nkind = \"isolated\"\nstage = \"notification\"\n[isolated]\nmessages = 40\n\
                recorded = true\nbody_bytes = 3000\nrepetitions = 1\n[sweep]\n\
                \"isolated.receivers\" = [\"sinks\", \"dfsps\"]\n\"isolated.keep_alive\" = [true, false]\n";
    std::fs::write(&file, scenario).unwrap();
    let out = directory.path().join("out");
    let output = upesi(&["lab", "run", text(&file), "--out", text(&out)]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for point in ["keep_alive-true,receivers-sinks", "keep_alive-false,receivers-dfsps"] {
        let result = std::fs::read(out.join(format!("callbacks,{point}")).join("result.json")).unwrap();
        let result: Value = serde_json::from_slice(&result).unwrap();
        assert_eq!(
            (&result["completed"], &result["validity"]["valid"]),
            (&40.into(), &true.into()),
            "{result}"
        );
        assert_eq!(result["parameters"]["recorded"], "yes");
    }
    // Sinks receive the same callbacks in every repetition, DFSPs receive other ones: two recordings for four runs.
    let mut kept: Vec<_> = std::fs::read_dir(out.join("recordings"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    kept.sort();
    assert_eq!(
        kept,
        [
            "40-prepares-of-3000-bytes-2-dfsps-seed-1.stream",
            "42-prepares-of-3000-bytes-2-dfsps-seed-1.stream"
        ]
    );
    let stream = Stream::read(&out.join("recordings").join(&kept[0])).unwrap();
    assert!(stream.header.origin.starts_with("recorded from a hub"), "{}", stream.header.origin);
    for message in &stream.messages {
        assert!((2_900..3_100).contains(&message.body.len()), "{} bytes", message.body.len());
    }
}
