//! The bank file: checked, applied once, continued after an interruption.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use serde_json::{Value, json};
use upesi_offline::export::Kind;
use upesi_testsupport::parquet::read_parquet;

use super::{
    World, code, cut_at, failure, no_positions, positions, report, settlement, settlement_at,
    settlement_json, text, upesi, without_instants,
};

/// A day's file with the balances that the bank fills in.
fn filled(world: &World, settlement_id: &str, balances: &[(&str, &str)]) -> String {
    let mut text = report(world, &[settlement_id, "--kind", "bank"]).join("\n") + "\n";
    for (dfsp, balance) in balances {
        let row = format!(" {dfsp},,,");
        assert!(text.contains(&row), "{row} in {text}");
        text = text.replace(&row, &format!(" {dfsp},,{balance},"));
    }
    text
}

/// A settlement, and the path of its bank file.
fn with_settlement() -> (World, tempfile::TempDir, std::path::PathBuf) {
    let world = World::new(&[]);
    world.trade();
    settlement(&world, &["close", "--reason", "end of day"]);
    settlement(&world, &["create", "DEFERREDNETKES", "--window", "1", "--reason", "end of day"]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bank.csv");
    (world, directory, path)
}

fn covers(world: &World) -> [String; 3] {
    ["greenbank", "bluewallet", "redmoney"].map(|name| {
        let path = format!("/participants/{name}/accounts");
        let accounts: Value = serde_json::from_str(&world.admin("GET", &path, "").body).unwrap();
        let own = accounts.as_array().unwrap().iter().find(|one| one["ledgerAccountType"] == "SETTLEMENT");
        own.unwrap()["value"].to_string()
    })
}

#[test]
fn bank_file_finishes_its_settlement_once() {
    let (mut world, _directory, path) = with_settlement();
    let file = path.to_str().unwrap();
    let before = covers(&world);
    // greenbank pays 32.25, bluewallet receives 20.5, redmoney 11.75.
    let after = |name: usize, change: &str| {
        let cover = upesi_types::Amount::parse_decimal(&before[name]).unwrap().negated();
        cover.checked_sub(upesi_types::Amount::parse_decimal(change).unwrap()).unwrap().to_string()
    };
    let (green, blue, red) = (after(0, "32.25"), after(1, "-20.5"), after(2, "-11.75"));
    let balances = [("greenbank", &*green), ("bluewallet", &*blue), ("redmoney", &*red)];
    let good = filled(&world, "1", &balances);
    for (from, to, expected) in [
        ("32.25", "32.26", "the settlement transfer of greenbank is 32.25 KES, not 32.26"),
        ("Settlement ID,1", "Settlement ID,2", "this is the file of settlement 2, not 1"),
        (" greenbank", " ghostbank", "account 3 belongs to 2 greenbank"),
    ] {
        std::fs::write(&path, good.replace(from, to)).unwrap();
        let (code, error) = failure(&world, &["reconcile", "1", file, "--apply", "--move-cover"]);
        assert!(code == 65 && error.contains(expected), "{code} {error}");
    }
    assert_eq!(failure(&world, &["reconcile", "1", "/nonexistent"]).0, 66);
    assert_eq!(failure(&world, &["reconcile", "1", file, "--move-cover"]).0, 64);
    std::fs::write(&path, &good).unwrap();
    let output = settlement_at(&world.admin_url(), &["reconcile", "1", file]);
    let shown = text(&output.stdout);
    assert!(shown.contains("PENDING_SETTLEMENT") && !shown.contains('?'), "{shown}");
    assert_eq!(
        (code(&output), &*text(&output.stderr)),
        (
            0,
            "upesi: the file was only checked; nothing was changed\n\
             upesi: --apply finishes the settlement; --move-cover also records the bank's movements\n"
        )
    );
    assert_eq!(settlement_json(&world, &["reconcile", "1", file])["applied"], false);
    assert_eq!(covers(&world), before);

    let shown = settlement_json(&world, &["reconcile", "1", file, "--apply", "--move-cover"]);
    assert_eq!((&shown["state"], &shown["warnings"]), (&json!("SETTLED"), &json!([])));
    assert_eq!(shown["applied"], true);
    assert_eq!(positions(&world), no_positions());
    let settled = [&green, &blue, &red].map(|cover| format!("-{cover}"));
    assert_eq!(covers(&world), settled);
    // A repetition moves nothing.
    let shown = settlement_json(&world, &["reconcile", "1", file, "--apply", "--move-cover"]);
    let warning = "this file was applied before: the settlement is SETTLED";
    assert_eq!(shown["warnings"], json!([warning]));
    assert_eq!(covers(&world), settled);
    world.stop_and_audit();
}

/// Meanwhile a payer and a receiver are deactivated. Their earlier payments are settled.
#[test]
fn bank_file_settles_suspended_dfsps() {
    let (mut world, _directory, path) = with_settlement();
    let before = covers(&world);
    let activate = |name: &str, body: &str| world.operate("PUT", &format!("/participants/{name}"), body);
    for name in ["greenbank", "bluewallet"] {
        activate(name, r#"{"isActive":false}"#);
    }
    let balances = [("greenbank", "1"), ("bluewallet", "1"), ("redmoney", "1")];
    std::fs::write(&path, filled(&world, "1", &balances)).unwrap();
    let arguments = ["reconcile", "1", path.to_str().unwrap(), "--apply", "--move-cover"];
    assert_eq!(settlement_json(&world, &arguments)["state"], "SETTLED");
    let cover = |name: usize, change: i64| {
        let units = upesi_types::Amount::parse_decimal(&before[name]).unwrap().units();
        upesi_types::Amount::from_units(units + change).unwrap().to_string()
    };
    assert_eq!(covers(&world), [cover(0, 322_500), cover(1, -205_000), cover(2, -117_500)]);
    // Movements of suspended DFSPs can also be recorded by hand.
    for (action, amount) in [("recordFundsIn", "32.25"), ("recordFundsOutPrepareReserve", "1")] {
        let accounts = world.operate("GET", "/participants/greenbank/accounts", "");
        let mut accounts = accounts.as_array().unwrap().iter();
        let account = accounts.find(|one| one["ledgerAccountType"] == "SETTLEMENT").unwrap()["id"].clone();
        let body = format!(
            r#"{{"transferId":"{}","externalReference":"bank","action":"{action}","reason":"settlement 1","amount":{{"amount":{amount},"currency":"KES"}}}}"#,
            world.new_id()
        );
        world.operate("POST", &format!("/participants/greenbank/accounts/{account}"), &body);
    }
    assert_eq!(covers(&world)[0], cover(0, 10_000));
    world.stop_and_audit();
}

#[test]
fn interrupted_bank_file_continues_and_warns_of_other_balances() {
    let (mut world, _directory, path) = with_settlement();
    let balances = [("greenbank", "1"), ("bluewallet", "0"), ("redmoney", "2")];
    std::fs::write(&path, filled(&world, "1", &balances)).unwrap();
    let arguments = ["reconcile", "1", path.to_str().unwrap(), "--apply", "--move-cover"];
    let before = covers(&world);
    let ended = (0..100).any(|number| {
        let count = Arc::new(AtomicUsize::new(0));
        let relay = cut_at(world.hub().admin_address(), number, number % 2 == 0, Arc::clone(&count));
        settlement_at(&relay, &arguments).status.code() == Some(0)
    });
    assert!(ended, "it ends");
    let shown = settlement_json(&world, &arguments);
    assert_eq!(shown["state"], "SETTLED");
    let warnings = shown["warnings"].to_string();
    for part in
        ["greenbank has 1 KES at the bank", "bluewallet has no funds left in KES", "was applied before"]
    {
        assert!(warnings.contains(part), "{part}: {warnings}");
    }
    assert_eq!(positions(&world), no_positions());
    let moved = |name: usize, change: &str| {
        let change = upesi_types::Amount::parse_decimal(change).unwrap();
        upesi_types::Amount::parse_decimal(&before[name]).unwrap().checked_add(change).unwrap().to_string()
    };
    assert_eq!(covers(&world), [moved(0, "32.25"), moved(1, "-20.5"), moved(2, "-11.75")]);
    world.stop_and_audit();
}

/// A payer that was COMMITTED by hand continues to pay, so its money is missing. Meanwhile no receiver is credited.
#[test]
fn receivers_are_not_credited_before_all_payers() {
    let (mut world, _directory, path) = with_settlement();
    let before = covers(&world);
    let balances = [("greenbank", "2967.75"), ("bluewallet", "3020.5"), ("redmoney", "3011.75")];
    std::fs::write(&path, filled(&world, "1", &balances)).unwrap();
    settlement(&world, &["advance", "1", "--to", "committed", "--reason", "by hand"]);
    world.pay("greenbank", "bluewallet", "2999", "KES");
    let arguments = ["reconcile", "1", path.to_str().unwrap(), "--apply", "--move-cover"];
    for _ in 0..2 {
        let output = settlement_at(&world.admin_url(), &arguments);
        let (shown, error) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{shown}{error}");
        assert!(shown.starts_with("settlement 1  PS_TRANSFERS_COMMITTED"), "{shown}");
        let told = "greenbank: it cannot be finished: The cover that would remain does not";
        assert!(error.contains(told), "{shown}{error}");
        assert_eq!(covers(&world), before);
    }
    let deposit = r#"{"transferId":"5f3b4c1e-8c0a-4d0e-9c53-6a1d6f2b7c09","externalReference":"bank-2","action":"recordFundsIn","reason":"more cover","amount":{"amount":100,"currency":"KES"}}"#;
    world.operate("POST", "/participants/greenbank/accounts/4", deposit);
    let shown = settlement_json(&world, &arguments);
    assert_eq!(shown["state"], "SETTLED");
    assert_eq!(covers(&world), ["-3067.75", "-3020.5", "-3011.75"]);
    world.stop_and_audit();
}

// Exports of windows and settlements, and of the transfers of a window.

/// The rows of an export as CSV. Parquet has the same rows.
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
    settlement(&world, &["run", "day-1", "--to", "settled"]);
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

    // A DFSP reconciles its net with the transfers of its window.
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
