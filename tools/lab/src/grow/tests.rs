use serde_json::json;
use upesi_tables::archive::{Archive, ArchiveOptions, FjallArchive};

use super::report::LoadResult;
use super::*;

fn arguments(transfers: u64, steps: &[u64]) -> GrowArguments {
    GrowArguments {
        data: PathBuf::new(),
        transfers,
        steps: steps.to_vec(),
        dfsps: 3,
        lookups: 50,
        payloads: false,
        load: 0,
        turns: 1,
        upkeep: 0,
        out: None,
        report: None,
        json: false,
        binary: None,
    }
}

#[test]
fn steps_are_sorted_and_include_the_end() {
    for (transfers, asked, expected) in [
        (50_000, &[][..], &[1_000, 10_000, 50_000][..]),
        (100_000_000, &[], &STEPS),
        (1_000, &[], &[1_000]),
        (700, &[500, 100, 500, 900, 0], &[100, 500, 700]),
    ] {
        assert_eq!(steps(&arguments(transfers, asked)), expected);
    }
}

#[test]
fn step_fills_and_measures() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = GrowArguments { data: directory.path().join("data"), ..arguments(0, &[]) };
    let mut seed = None;
    let mut row = Row::default();
    fill(&arguments, &mut seed, 0, 200, &mut row).unwrap();
    fill(&arguments, &mut seed, 200, 20_000, &mut row).unwrap();
    assert_eq!((row.hit.count, row.miss.count, row.divisions), (50, 50, 1));
    assert!(row.fill_per_s > 0 && row.fill_cpu_ns > 0);
    assert!(directory_bytes(&arguments.data.join("archive")) > 0);
}

fn curve(directory: &Path, row: Row) -> Curve {
    Curve {
        environment: Environment::detect(None, String::new(), directory),
        dfsps: 3,
        payloads: false,
        load_s: 10,
        rows: vec![row],
        upkeep: None,
    }
}

/// A row with these transfers per second through the hub, and through an empty one.
fn row(grown: &[f64], empty: &[f64]) -> Row {
    let loads = |rates: &[f64]| {
        let load = |per_s: &f64| LoadResult { per_s: *per_s, p99_ms: 8.0, max_ms: 30.0, cpu_us: Some(150.0) };
        rates.iter().map(load).collect()
    };
    let mut row = Row {
        transfers: 1_000,
        fill_last_part_per_s: 5,
        archive_bytes: 180_000,
        hub_rss_bytes: 400_000_000,
        hub_rss_loaded_bytes: 500_000_000,
        restart_ms: 700,
        ..Row::default()
    };
    row.note_loads(loads(grown), loads(empty));
    row
}

#[test]
fn curve_is_written_as_results_with_a_plot_for_each_figure() {
    let directory = tempfile::tempdir().unwrap();
    let curve = curve(directory.path(), row(&[6_000.0, 9_000.0, 7_000.0], &[7_500.0, 7_000.0, 8_000.0]));
    curve.write(directory.path()).unwrap();
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&fs::read(directory.path().join(name)).unwrap()).unwrap()
    };
    let (suite, result) = (read("suite.json"), read("00000001000/result.json"));
    assert_eq!(suite["runs"][0], "00000001000");
    assert_eq!(result["parameters"]["transfers"], 1_000);
    let plots = suite["plots"].as_array().unwrap();
    assert!(plots.len() > 7, "{plots:?}");
    for plot in plots {
        let figure = plot["y"].as_str().unwrap();
        assert!(result[figure].is_number(), "{figure}: {result}");
    }
    assert_eq!(
        (&result["throughput_per_s"], &result["disk_bytes_per_transfer"]),
        (&json!(7_000.0), &json!(180.0))
    );
    let page = directory.path().join("page.html");
    crate::report::write_html(&[directory.path().to_owned()], &page).unwrap();
    let page = fs::read_to_string(page).unwrap();
    for plot in plots {
        // The title without escaped characters.
        let title = plot["title"].as_str().unwrap().split('\'').next().unwrap();
        assert!(page.contains(title), "{plot}");
    }
    assert_eq!(read("curve.json")["rows"][0]["archive_bytes"], 180_000);
    let text = curve.markdown();
    assert!(text.contains("| 1000 | 0 (5) | 0.0 | 0 | 0.0 / 0.00 | 180 / 0 |"), "{text}");
    assert!(text.contains("| 7000, 8.0 | 7500, 8.0 |"), "{text}");
    assert!(
        text.contains("| disk beyond the journal | 180.0 | ≤ 300 bytes per transfer at the end | reached |"),
        "{text}"
    );
}

#[test]
fn curve_is_judged_by_its_objectives() {
    let directory = tempfile::tempdir().unwrap();
    let judged = |row: Row| curve(directory.path(), row).missed();
    assert_eq!(judged(row(&[900.0], &[1_000.0])), Vec::<String>::new());
    let slow = judged(row(&[840.0], &[1_000.0]));
    assert_eq!(slow, ["throughput with the whole history is 84.00 % of an empty hub's, in turn, not ≥ 85"]);
    let dear = Row {
        hub_rss_loaded_bytes: 1_100_000_000,
        restart_ms: 5_001,
        snapshot_bytes: 200_000,
        ..row(&[900.0], &[1_000.0])
    };
    let missed = judged(dear);
    for (missed, begin) in missed.iter().zip(["memory of the hub is 1100", "restart is 5.00", "disk beyond"])
    {
        assert!(missed.starts_with(begin), "{missed}");
    }
    assert_eq!(missed.len(), 3, "{missed:?}");
    // Without load runs, the throughput is not judged.
    let without = Curve { load_s: 0, ..curve(directory.path(), row(&[], &[])) };
    assert_eq!(without.missed(), Vec::<String>::new());
    assert_eq!(curve(directory.path(), row(&[], &[])).missed().len(), 1);
}

#[test]
fn evidence_of_a_curve_has_machine_and_objectives() {
    let directory = tempfile::tempdir().unwrap();
    let provenance = Provenance { commit: "abc".to_owned(), ..Provenance::default() };
    let curve = curve(directory.path(), row(&[900.0], &[1_000.0]));
    let entry = curve.evidence(&provenance).unwrap();
    assert_eq!((&entry["commit"], &entry["transfers"]), (&json!("abc"), &json!(1_000)));
    assert_eq!(entry["aims"].as_array().map(Vec::len), Some(4));
    assert_eq!(entry["rows"][0]["empty_loads"][0]["per_s"], 1_000.0);
}

#[test]
fn in_turn_alternates_the_order() {
    let mut order = Vec::new();
    let measured = in_turn(3, |is_grown| {
        order.push(is_grown);
        Ok(order.len())
    });
    assert_eq!(measured.unwrap(), (vec![1, 4, 5], vec![2, 3, 6]));
    assert_eq!(order, [true, false, false, true, true, false]);
    assert!(in_turn(1, |_| Err::<(), _>(Failure::new(Exit::Failure, "no"))).is_err());
}

#[test]
fn failed_export_ends_wait_for_removal() {
    let archive = tempfile::tempdir().unwrap();
    fs::create_dir(archive.path().join(format!("{:020}", 1))).unwrap();
    let failed = || Some("the disk is full".to_owned());
    let failure = upkeep::wait_until_left(archive.path(), 1, failed).unwrap_err();
    assert!(failure.to_string().ends_with("was not removed: the disk is full"), "{failure}");
    upkeep::wait_until_left(archive.path(), 2, failed).unwrap();
}

/// The whole maintenance on a small history, while transfers continue.
#[test]
fn hub_serves_during_its_upkeep() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = GrowArguments { data: directory.path().join("data"), ..arguments(0, &[]) };
    let mut row = Row::default();
    fill(&arguments, &mut None, 0, 3_000, &mut row).unwrap();
    let plan =
        upkeep::Plan { data: &arguments.data, dfsps: 3, rate_per_s: 100, quiet: Duration::from_millis(500) };
    let upkeep = upkeep::run(&plan).unwrap();
    let names: Vec<_> = upkeep.tasks.iter().map(|task| task.served.meanwhile).collect();
    assert_eq!(names.len(), 5, "{names:?}");
    assert!(upkeep.left >= 3_000 && upkeep.served_least() > 0.0, "{upkeep:?}");
    let [nothing, backup, again, restore, export] = &upkeep.tasks[..] else { unreachable!() };
    assert_eq!(nothing.bytes, 0);
    assert!(nothing.served.committed > 0 && nothing.served.p99_ms > 0.0, "{nothing:?}");
    assert!(backup.bytes > again.bytes, "only new files are copied again: {upkeep:?}");
    assert!(restore.bytes > 0 && export.bytes > 0, "{upkeep:?}");
    // Removed data and temporary files are gone; transfers that came in the meantime are present.
    let archive = FjallArchive::open(arguments.data.join("archive"), &ArchiveOptions::default()).unwrap();
    assert!(archive.first_seq() > 1, "{:?}", archive.divisions());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "only the data directory is left");
    assert!(upkeep.markdown().contains("| restore of it elsewhere, with audit |"), "{}", upkeep.markdown());
}
