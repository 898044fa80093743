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
        less_is_better: None,
        no_ratio: false,
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
    let table = table(&published, &results);
    let (said_once, _) = table.split_once("\n\n").unwrap();
    assert_eq!(said_once, "Ours, unless a row says otherwise: 2 cores · synced");
    assert_eq!(table.matches("2 cores").count(), 1);
    let lines: Vec<_> = table.lines().skip(4).collect();
    assert!(
        lines[0].starts_with(
            "| row rate | 220/s | 3,300/s | 15.0 × | 120 × | 16 pods \\| relaxed | 2023 | 32 users |  |"
        ),
        "{}",
        lines[0]
    );
    assert!(lines[1].starts_with("| row time | 140 ms | 14.0 ms | 10.0 × | not a rate |"), "{}", lines[1]);
    assert!(lines[2].starts_with("| row unpublished | – | 9.00/s | – | – |"), "{}", lines[2]);
    assert!(
        lines[3].starts_with(
            "| row unrun | 5.00/s | – | – | – | 16 pods \\| relaxed | 2023 |  | n/a: no broker |"
        ),
        "{}",
        lines[3]
    );
    assert!(lines[4].starts_with("| row zero | 0/s | 9.00/s | – | – |"), "{}", lines[4]);
    assert!(lines[4].ends_with("| none; it lagged |"), "{}", lines[4]);
    assert!(
        lines[5].starts_with("| row unknown | 3.00/s | 9.00/s | 3.00 × | theirs not told |"),
        "{}",
        lines[5]
    );
    assert!(lines[6].starts_with("| row difference | 3.00/s | 9.00/s | – | – |"), "{}", lines[6]);
    assert!(
        lines[7].starts_with("| row tiny | 82.0 µs | – |") && lines[7].ends_with("| not run |"),
        "{}",
        lines[7]
    );
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
