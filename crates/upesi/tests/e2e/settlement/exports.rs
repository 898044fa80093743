//! Exports of windows and settlements, and of the transfers of a window.

use std::path::PathBuf;

use upesi_hub::export::Kind;

use super::reader::read_parquet;
use super::{World, code, settlement, text, upesi, without_instants};

/// The rows of an export as CSV, which Parquet has, too.
fn exported(world: &World, kind: &str, columns: &[&str], arguments: &[&str]) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let write = |format: &str| -> PathBuf {
        let out = directory.path().join(format);
        let command =
            ["export", "--kind", kind, "--format", format, "--data", world.data().to_str().unwrap()];
        let output = upesi(&[&command, arguments].concat()).arg("--out").arg(&out).output().unwrap();
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        out
    };
    let csv = std::fs::read_to_string(write("csv")).unwrap();
    let mut lines = csv.split_terminator("\r\n").map(str::to_owned);
    assert_eq!(lines.next().unwrap(), columns.join(","));
    let lines: Vec<_> = lines.collect();
    assert_eq!(read_parquet(&write("parquet"), columns).0, lines);
    lines
}

/// The texts of some columns.
fn cells<'a>(lines: &'a [String], columns: &[&str], wanted: &[&str]) -> Vec<Vec<&'a str>> {
    let at = |name: &&str| columns.iter().position(|column| column == name).unwrap();
    let of = |line: &'a String| {
        let cells: Vec<&str> = line.split(',').collect();
        wanted.iter().map(|name| cells[at(name)]).collect()
    };
    lines.iter().map(of).collect()
}

#[test]
fn windows_settlements_and_the_transfers_of_a_window_are_exported() {
    let mut world = World::new(&[]);
    world.trade();
    settlement(&world, &["run", "day-1"]);
    world.pay("greenbank", "bluewallet", "7", "KES");
    settlement(&world, &["close", "--reason", "noon"]);
    settlement(&world, &["create", "DEFERREDNETKES", "--window", "2", "--reason", "by hand"]);
    settlement(&world, &["abort", "2", "--reason", "of the bank"]);
    world.pay("redmoney", "bluewallet", "2.5", "KES");
    settlement(&world, &["close", "--reason", "end of day"]);
    world.pay("redmoney", "bluewallet", "1", "KES");
    world.stop_and_audit();

    let columns = Kind::Settlements.names();
    let lines = exported(&world, "settlements", &columns, &[]);
    let wanted = ["settlementWindowId", "settlementId", "fsp", "net", "state", "externalReference", "reason"];
    let job = "settlement run day-1";
    let expected = [
        ["1", "1", "greenbank", "32.25", "SETTLED", "day-1-1-3", job],
        ["1", "1", "bluewallet", "-20.5", "SETTLED", "day-1-1-5", job],
        ["1", "1", "redmoney", "-11.75", "SETTLED", "day-1-1-7", job],
        ["2", "2", "greenbank", "7", "ABORTED", "", "of the bank"],
        ["2", "2", "bluewallet", "-7", "ABORTED", "", "of the bank"],
        ["3", "", "bluewallet", "-2.5", "CLOSED", "", "end of day"],
        ["3", "", "redmoney", "2.5", "CLOSED", "", "end of day"],
    ];
    assert_eq!(cells(&lines, &columns, &wanted), expected);
    let first = without_instants(&lines[0].replace(',', " "));
    assert_eq!(
        first,
        "1 1 1 DEFERREDNETKES POSITION KES greenbank 3 32.25 SETTLED day-1-1-3 settlement run day-1 TIME TIME TIME TIME"
    );
    let narrowed = exported(&world, "settlements", &columns, &["--window", "1", "--dfsp", "redmoney"]);
    assert_eq!(narrowed, lines[2..3]);

    // What a DFSP reconciles its net of a settlement with: the transfers of its window.
    let columns = Kind::Transfers.names();
    let all = exported(&world, "transfers", &columns, &[]);
    let mut windows: Vec<_> = cells(&all, &columns, &["settlementWindowId"]).concat();
    windows.sort_unstable();
    assert_eq!(windows, ["1", "1", "1", "2", "3", "4"]);
    let detail = exported(&world, "transfers", &columns, &["--window", "1", "--dfsp", "greenbank"]);
    let mut detail = cells(&detail, &columns, &["payerFsp", "payeeFsp", "amount", "settlementWindowId"]);
    detail.sort_unstable();
    assert_eq!(detail, [["greenbank", "bluewallet", "40.5", "1"], ["redmoney", "greenbank", "8.25", "1"]]);
    let data = world.data().to_str().unwrap();
    let out = format!("{data}.csv");
    for (arguments, expected) in
        [(["--kind", "bulk-items", "--window", "1"], 64), (["--kind", "transfers", "--dfsp", "nobody"], 1)]
    {
        let command = [&["export", "--data", data, "--out", &out], &arguments[..]].concat();
        assert_eq!(code(&upesi(&command).output().unwrap()), expected);
    }
}
