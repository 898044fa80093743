//! Exports of directories that the engine filled.

use std::fs;
use std::path::Path;

use upesi_lab::fill::{self, FillArguments};
use upesi_offline::export::{ExportArguments, Format, Kind, export};
use upesi_process::exit::Exit;
use upesi_process::times::{ParsedTime, ZoneArguments};
use upesi_testsupport::parquet::read_parquet;

fn fill(data: &Path, transfers: u64) {
    fill::run(&FillArguments { transfers, dfsps: 3, keep_segments: true, ..FillArguments::new(data.into()) })
        .unwrap();
}

fn arguments(data: &Path, out: &Path, format: Format) -> ExportArguments {
    let (kind, out) = (Kind::Transfers, out.into());
    ExportArguments {
        data: data.into(),
        kind,
        before: None,
        from: None,
        window: None,
        dfsp: None,
        format,
        out,
        zone: ZoneArguments::default(),
    }
}

#[test]
fn every_finished_transfer_is_exported_once() {
    let directory = tempfile::tempdir().unwrap();
    let (data, csv) = (directory.path().join("data"), directory.path().join("all.csv"));
    fill(&data, 200);
    assert_eq!(export(&arguments(&data, &csv, Format::Csv)).unwrap(), 200);
    let text = fs::read_to_string(&csv).unwrap();
    let lines: Vec<&str> = text.split_terminator("\r\n").collect();
    assert_eq!((lines.len(), lines[0]), (201, &*Kind::Transfers.names().join(",")));
    let mut ids: Vec<&str> = lines[1..].iter().map(|line| line.split(',').next().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 200);
    assert!(lines[1].contains(",1,XXX,COMMITTED,,,20"), "{}", lines[1]);
    let again = export(&arguments(&data, &csv, Format::Csv)).unwrap_err();
    assert_eq!(again.exit, Exit::CannotCreate, "a file is never overwritten");

    let jsonl = directory.path().join("all.jsonl");
    assert_eq!(export(&arguments(&data, &jsonl, Format::Jsonl)).unwrap(), 200);
    for line in fs::read_to_string(&jsonl).unwrap().lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(object["state"], "COMMITTED");
        assert!(object["payerFsp"].as_str().unwrap().starts_with("dfsp-") && object["errorCode"].is_null());
    }
}

#[test]
fn parquet_has_the_same_rows_as_csv() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fill(&data, 120);
    let out = |name: &str| directory.path().join(name);
    for format in [Format::Csv, Format::Parquet] {
        assert_eq!(export(&arguments(&data, &out(format.ending()), format)).unwrap(), 120);
        assert_eq!(Format::of_ending(format.ending()), Some(format));
    }
    let csv = fs::read_to_string(out("csv")).unwrap();
    let (lines, groups) = read_parquet(&out("parquet"), &Kind::Transfers.names());
    assert_eq!(lines, csv.split_terminator("\r\n").skip(1).collect::<Vec<_>>());
    assert_eq!(groups, 1);
}

#[test]
fn export_is_limited_to_a_period() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fill(&data, 50);
    let between = upesi_engine::Clock::now(&upesi_engine::SystemClock);
    fill(&data, 30);
    let count = |name: &str, before: Option<_>, from: Option<_>| {
        let out = directory.path().join(name);
        let (before, from) = (before.map(ParsedTime::At), from.map(ParsedTime::At));
        export(&ExportArguments { before, from, ..arguments(&data, &out, Format::Csv) }).unwrap()
    };
    assert_eq!(count("before", Some(between), None), 50);
    assert_eq!(count("after", None, Some(between)), 30);
    assert_eq!(count("neither", Some(between), Some(between)), 0);
}
