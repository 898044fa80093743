//! The table of published figures.

use super::*;

fn row(id: &str, figure: Option<f64>, unit: &str, vcpus: Option<f64>) -> PublishedRow {
    PublishedRow {
        id: id.into(),
        what: format!("row {id}"),
        figure,
        unit: unit.into(),
        conditions: "16 pods | relaxed".into(),
        vcpus,
        source: "2023".into(),
        ..PublishedRow::default()
    }
}

#[test]
fn ratios_say_how_many_times_better_whatever_the_unit() {
    let published = Published {
        rows: vec![
            row("rate", Some(220.0), "/s", Some(16.0)),
            row("time", Some(140.0), "ms", Some(16.0)),
            row("unpublished", None, "/s", None),
            row("unrun", Some(5.0), "/s", None),
            row("zero", Some(0.0), "/s", None),
            row("unknown", Some(3.0), "/s", None),
            PublishedRow { no_ratio: true, ..row("difference", Some(3.0), "/s", Some(1.0)) },
            row("tiny", Some(0.082), "ms", None),
        ],
    };
    let ours = |figure| Ours {
        figure: Some(figure),
        conditions: vec![("cores", "2 cores".into()), ("durability", "synced".into())],
        load: "32 users".into(),
        note: String::new(),
        missed: None,
        vcpus: Some(2.0),
    };
    let results = [
        ("rate", 3_300.0),
        ("time", 14.0),
        ("unpublished", 9.0),
        ("zero", 9.0),
        ("unknown", 9.0),
        ("difference", 9.0),
    ];
    let mut results: BTreeMap<String, Ours> =
        results.into_iter().map(|(id, figure)| (id.to_owned(), ours(figure))).collect();
    let zero = results.get_mut("zero").unwrap();
    (zero.conditions[1].1, zero.note) = ("none".into(), "it lagged".into());
    results.insert("unrun".into(), Ours::absent("n/a: no broker"));
    let table = table(&beside(&published, &results));
    let (said_once, rest) = table.split_once("\n\n").unwrap();
    assert_eq!(said_once, "Ours, unless a note says otherwise: 2 cores · synced");
    assert_eq!(table.matches("2 cores").count(), 1);
    for expected in [
        "| row rate | 220/s | 3,300/s | 15.0 × | 120 × | P1 | O1 |",
        "| row time | 140 ms | 14.0 ms | 10.0 × | not a rate | P1 | O1 |",
        "| row unpublished | – | 9.00/s | – | – | P1 | O1 |",
        "| row unrun | 5.00/s | – | – | – | P1 | O2 |",
        "| row zero | 0/s | 9.00/s | – | – | P1 | O3 |",
        "| row unknown | 3.00/s | 9.00/s | 3.00 × | theirs not told | P1 | O1 |",
        "| row difference | 3.00/s | 9.00/s | – | – | P1 | O1 |",
        "| row tiny | 82.0 µs | – | – | – | P1 | O4 |",
        "- **P1** 2023; 16 pods \\| relaxed",
        "- **O1** 32 users",
        "- **O2** n/a: no broker",
        "- **O3** 32 users; none; it lagged",
        "- **O4** not run",
    ] {
        assert!(rest.lines().any(|line| line == expected), "{expected}: {rest}");
    }
}

#[test]
fn a_run_that_missed_something_has_no_ratio_and_says_what() {
    let published = Published { rows: vec![row("lookup-8", Some(825.0), "/s", Some(8.0))] };
    let file = tempfile::tempdir().unwrap();
    let result = file.path().join("result.json");
    let write = |value: serde_json::Value| std::fs::write(&result, value.to_string()).unwrap();
    let told = || {
        let ours = Ours::of(&result, "throughput_per_s", "/s").unwrap();
        let beside = beside(&published, &[("lookup-8".to_owned(), ours)].into());
        assert_eq!(beside.rows[0].ours, Some(5192.0));
        assert_eq!((beside.rows[0].times, beside.rows[0].missed.is_some()), (None, true));
        table(&beside)
    };
    let thresholds = serde_json::json!({ "met": false, "findings": ["24.91 % of the operations failed"] });
    write(serde_json::json!({
        "scenario": "lookups", "throughput_per_s": 5192.0, "audit": { "ok": true }, "thresholds": thresholds
    }));
    let table = told();
    let missed = "| row lookup-8 | 825/s | 5,192/s | missed: 24.91 % of the operations failed | – |";
    assert!(table.contains(missed) && !table.contains('×'), "{table}");
    assert_eq!(table.matches("24.91 %").count(), 1, "{table}");
    write(serde_json::json!({
        "scenario": "lookups", "throughput_per_s": 5192.0, "audit": { "ok": false },
        "targets": [{ "name": "lost", "limit": 0.0, "measured": 3.0, "met": false }]
    }));
    assert!(told().contains("missed: the integrity audit failed; lost 3.00 instead of 0 |"), "{}", told());
}

#[test]
fn a_figure_of_one_moment_is_of_the_seconds_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let result = directory.path().join("result.json");
    // A thousand per second, then half of it, of which one in ten fails.
    let row = |second: u32| {
        let (completed, failed) = if second <= 60 { (1000, 0) } else { (500, 50) };
        serde_json::json!({ "t": second, "completed": completed, "failed": failed })
    };
    let rows: Vec<_> = (1..=100).map(row).collect();
    let value = serde_json::json!({
        "scenario": "transfers", "throughput_per_s": 800.0, "audit": { "ok": true },
        "options": { "existing_transfers": 20_000 },
        "thresholds": { "met": false, "findings": ["3 % failed"] }, "timeline": { "interval_s": 1, "rows": rows }
    });
    std::fs::write(&result, value.to_string()).unwrap();
    let at = |transfers| Ours::at_transfers(&result, transfers).unwrap();
    let early = at(60_000);
    assert_eq!((early.figure, early.missed.as_deref()), (Some(1000.0), None), "the failures came later");
    assert_eq!(early.note, "in the 10 s after it had 60,000 transfers behind it");
    assert_eq!(at(0).figure, Some(1000.0));
    let late = at(80_000);
    assert_eq!(late.figure, Some(500.0));
    assert_eq!(late.missed.as_deref(), Some("9.1 % of the operations of that moment failed"));
    for beyond in [96_000, 1_000_000] {
        let ours = at(beyond);
        assert!(ours.figure.is_none() && ours.note.starts_with("n/a: the run ended before"), "{ours:?}");
    }
}

#[test]
fn members_are_given_in_the_unit_of_the_row() {
    for (member, unit, expected) in [
        ("latency_ms.p50", "ms", 5.0),
        ("latency_ms.p50", "µs", 5_000.0),
        ("latency_ms.max", "s", 0.005),
        ("stages.prepare.mean_us", "ms", 0.005),
        ("processes.hub.cpu_us_per_operation", "ms", 0.005),
        ("hub.cpu_us_per_operation", "µs", 5.0),
        ("latency_ms.share_over_1s", "%", 500.0),
        ("throughput_per_s", "/s", 5.0),
        ("window.seconds", "min", 5.0 / 60.0),
    ] {
        assert!((in_unit(5.0, member, unit) - expected).abs() < 1e-9, "{member} in {unit}");
    }
}

#[test]
fn a_difference_is_that_of_the_turns() {
    let suite = tempfile::tempdir().unwrap();
    let write = |name: &str, value: serde_json::Value| {
        let file = suite.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, value.to_string()).unwrap();
    };
    write(
        "log-off/result.json",
        serde_json::json!({
            "kind": "isolated", "unit": "prepare", "throughput_per_s": 7.0, "failed": 3,
            "stages": [{ "stage": "engine", "mean_us": 2.0 }, { "stage": "callback", "mean_us": 9.5 }]
        }),
    );
    write(
        "suite.json",
        serde_json::json!({
            "runs": ["shipped", "log-off"],
            "pairs": [{ "base": 0, "other": 1, "figures": [{
                "figure": "throughput_per_s", "base": [1000.0, 1000.0], "base_median": 1000.0,
                "difference": { "centre": -0.02, "low": -0.05, "high": 0.01 }
            }] }]
        }),
    );
    let difference = |run, base, member| Ours::difference(suite.path(), run, base, member, "/s").unwrap();
    let found = difference("log-off", "shipped", "throughput_per_s");
    assert!(found.figure.is_some_and(|figure| (figure + 20.0).abs() < 1e-9), "{found:?}");
    assert_eq!(found.note, "−2.0 % (95 %: −5.0 % to +1.0 %) in 2 turns with the other; 3 failed");
    for untold in [
        difference("log-off", "shipped", "latency_ms.p50"),
        difference("log-off", "nowhere", "throughput_per_s"),
    ] {
        assert!(untold.figure.is_none() && untold.note.starts_with("n/a: "), "{untold:?}");
    }
    assert!(Ours::difference(suite.path(), "nowhere", "shipped", "throughput_per_s", "/s").is_err());
    let stage = Ours::of(&suite.path().join("log-off/result.json"), "stages.callback.mean_us", "µs").unwrap();
    assert!(stage.figure.is_some_and(|mean| (mean - 9.5).abs() < 1e-9), "{stage:?}");
}
