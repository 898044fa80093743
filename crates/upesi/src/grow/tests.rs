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
        out: None,
        json: false,
        binary: None,
    }
}

#[test]
fn steps_ascend_to_the_end() {
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
fn a_step_fills_and_measures() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = GrowArguments { data: directory.path().join("data"), ..arguments(0, &[]) };
    let mut seed = None;
    let mut row = Row::default();
    fill(&arguments, &mut seed, 0, 200, &mut row).unwrap();
    fill(&arguments, &mut seed, 200, 500, &mut row).unwrap();
    assert_eq!((row.hit.count, row.miss.count, row.divisions), (50, 50, 1));
    assert!(row.fill_per_s > 0 && row.fill_cpu_ns > 0);
    assert!(measure::disk_bytes(&arguments.data.join("archive")).unwrap() > 0);
}

#[test]
fn a_curve_is_written_as_results() {
    let directory = tempfile::tempdir().unwrap();
    let row = Row { transfers: 1_000, fill_last_part_per_s: 5, archive_bytes: 180_000, ..Row::default() };
    let curve = Curve {
        environment: Environment::detect(None, String::new(), directory.path()),
        payloads: false,
        rows: vec![row],
    };
    curve.write(directory.path()).unwrap();
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&fs::read(directory.path().join(name)).unwrap()).unwrap()
    };
    assert_eq!(read("suite.json")["runs"][0], "00000001000");
    assert_eq!(read("00000001000/result.json")["parameters"]["transfers"], 1_000);
    assert_eq!(read("curve.json")["rows"][0]["archive_bytes"], 180_000);
    assert!(
        markdown(&curve.rows).contains("| 1000 | 0 (5) | 0.0 | 0 | 0.0 / 0.00 | 180 / 0 |"),
        "{}",
        markdown(&curve.rows)
    );
}
