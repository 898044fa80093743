//! Removal of old data: transfers while the hub serves, and segments of the journal by `upesi trim`; and the data that
//! stays.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use upesi_offline::backup::{BackupArguments, RestoreArguments, backup, restore};
use upesi_offline::trim::{TrimArguments, TrimReport, trim};

use crate::common::message::{Message, Sent, Terms};
use crate::common::{AMPLE, World};
use crate::support_command::upesi;

const DAY_MS: i64 = 86_400_000;

/// A transfer and its messages.
struct Past {
    id: String,
    prepare: Message,
    end: Message,
}

/// From greenbank to bluewallet, committed or declined.
fn transfer(world: &World, is_committed: bool) -> Past {
    let id = world.new_id();
    let prepare = Message::prepare(&Terms::new(&id, world.now()));
    world.deliver(prepare.clone());
    assert_eq!(world.dfsp("bluewallet").next(&id).method, "POST");
    let end = if is_committed {
        Message::fulfil(&id, "COMMITTED")
    } else {
        Message::abort(&id, "5100", "no such account")
    };
    world.deliver(end.clone());
    for name in ["greenbank", "bluewallet"] {
        assert_eq!(world.dfsp(name).next(&id).method, "PUT", "{name} is notified of the end");
    }
    Past { id, prepare, end }
}

/// Greenbank's callback when it asks for a transfer.
fn ask(world: &World, id: &str) -> String {
    world.deliver(Message::get(id, "greenbank"));
    heard(world, "greenbank", id)
}

/// The state or the error code of the next callback about a transfer.
fn heard(world: &World, name: &str, id: &str) -> String {
    let seen = world.dfsp(name).next(id);
    assert_eq!(seen.method, "PUT", "{seen:?}");
    let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
    let found = [&body["transferState"], &body["errorInformation"]["errorCode"]];
    found.into_iter().find_map(|text| text.as_str()).unwrap_or_else(|| panic!("{body}")).to_owned()
}

/// The first records of the archive's divisions.
fn divisions(data: &Path) -> BTreeSet<u64> {
    let entries = std::fs::read_dir(data.join("archive")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| name.get(..20)?.parse().ok()).collect()
}

/// Restarts, which archives finished transfers, and waits until they have a division of their own.
fn archive_all(world: &mut World, count: usize) {
    world.until(&(0, 0), || world.undelivered());
    world.restart();
    world.until(&count, || divisions(world.data()).len());
}

/// Closes the open window and settles it.
fn settle(world: &World) {
    let admin = world.admin_url();
    let run = ["settlement", "run", "old", "--to", "settled", "--admin", &admin, "--wait", "0"];
    let output = upesi(&run).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// State of each transfer in the exported files.
fn exported(directory: &Path) -> Vec<BTreeMap<String, String>> {
    let mut paths: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let file = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let line = |line: &str| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let text = |name: &str| row[name].as_str().unwrap().to_owned();
            (text("transferId"), text("state"))
        };
        text.lines().map(line).collect()
    };
    paths.iter().map(file).collect()
}

#[test]
fn old_transfers_are_removed_while_the_hub_serves() {
    let elsewhere = tempfile::TempDir::new().unwrap();
    let export_dir = elsewhere.path().join("export");
    let mut world = World::new(&[
        ("archive.keep_days", "30"),
        ("hub.transfer_validity_max_s", "2592000"),
        ("archive.export_dir", export_dir.to_str().unwrap()),
        ("archive.export_format", "jsonl"),
    ]);
    let old: Vec<Past> = (0..4).map(|number| transfer(&world, number != 2)).collect();
    archive_all(&mut world, 2);
    // Contents of an unsettled window would stay.
    settle(&world);
    world.clock.advance(5 * DAY_MS);
    let recent: Vec<Past> = (0..2).map(|_| transfer(&world, true)).collect();
    archive_all(&mut world, 3);
    let lasting = world.new_id();
    let terms = Terms { expires: world.now().plus_ms(29 * DAY_MS), ..Terms::new(&lasting, world.now()) };
    world.deliver(Message::prepare(&terms));
    assert_eq!(world.dfsp("bluewallet").next(&lasting).method, "POST");
    world.clock.advance(25 * DAY_MS - DAY_MS / 2);
    world.hub().apply_retention();
    assert_eq!(ask(&world, &old[0].id), "COMMITTED", "half a day is left");
    assert_eq!(ask(&world, &old[2].id), "ABORTED");
    assert!(!export_dir.exists());

    world.clock.advance(DAY_MS);
    let [first, ..] = divisions(world.data()).into_iter().collect::<Vec<_>>()[..] else { unreachable!() };
    world.hub().apply_retention();
    let meanwhile = transfer(&world, true);
    world.until(&false, || divisions(world.data()).contains(&first));
    let states = |past: &[Past]| -> BTreeMap<String, String> {
        let state =
            |past: &Past| if past.end.path.ends_with("error") { "ABORTED_ERROR" } else { "COMMITTED" };
        past.iter().map(|past| (past.id.clone(), state(past).to_owned())).collect()
    };
    assert_eq!(exported(&export_dir), [states(&old)], "all that left, and nothing else");
    check_afterwards(&world, &old, &recent, &meanwhile);
    world.deliver(Message::fulfil(&lasting, "COMMITTED"));
    assert_eq!(heard(&world, "greenbank", &lasting), "COMMITTED", "a reserved transfer is never removed");

    let (copy, restored) = (elsewhere.path().join("backup"), elsewhere.path().join("restored"));
    backup(&BackupArguments { data: world.data().to_owned(), to: copy.clone(), json: false }).unwrap();
    // Restoring verifies all remaining records, and replays them from a snapshot if the first ones are removed.
    restore(&RestoreArguments {
        from: copy,
        data: restored.clone(),
        alone: false,
        accept_findings: false,
        json: false,
    })
    .unwrap();
    assert!(!divisions(&restored).contains(&first));

    world.until(&(0, 0), || world.undelivered());
    world.restart();
    assert_eq!(ask(&world, &old[1].id), "3208", "after a restart");
    assert_eq!(ask(&world, &recent[1].id), "COMMITTED");
    assert_eq!(ask(&world, &lasting), "COMMITTED");
    world.stop_and_audit();
}

/// Removed transfers are unknown, but their effect on positions stays.
fn check_afterwards(world: &World, old: &[Past], recent: &[Past], meanwhile: &Past) {
    let positions = || ["greenbank", "bluewallet"].map(|name| world.position(name));
    let before = positions();
    assert_eq!(ask(world, &old[0].id), "3208");
    assert_eq!(ask(world, &old[2].id), "3208");
    assert_eq!(ask(world, &recent[0].id), "COMMITTED");
    assert_eq!(ask(world, &meanwhile.id), "COMMITTED");
    let send = |message: &Message| -> Sent { world.deliver(message.clone()) };
    // A duplicate of an existing transfer gets its outcome again.
    send(&recent[0].prepare);
    assert_eq!(heard(world, "greenbank", &recent[0].id), "COMMITTED");
    // A duplicate of a removed transfer is rejected because it has expired, and its payee receives nothing.
    send(&old[0].prepare);
    assert_eq!(heard(world, "greenbank", &old[0].id), "3100");
    assert_eq!(ask(world, &old[0].id), "ABORTED", "the refusal is all that the hub knows of it");
    // A fulfil of a removed transfer has no effect.
    send(&old[1].end);
    assert_eq!(heard(world, "bluewallet", &old[1].id), "2001");
    assert_eq!(positions(), before, "no money moved");
}

// `upesi trim`: old segments are removed, without any needed data.

fn start() -> World {
    World::new(&[
        ("data.segment_bytes", "1048576"),
        ("engine.batch_bytes_max", "524288"),
        ("data.snapshot_every_records", "1000000"),
        ("callbacks.breaker_threshold", "1000000"),
    ])
}

/// A payment with a large body. Returns its id.
fn pay(world: &World, amount: u64) -> String {
    let id = world.new_id();
    let terms = Terms { amount: amount.to_string(), ..Terms::new(&id, world.now()) };
    let body = terms.body().replacen('{', &format!(r#"{{"filler":"{}","#, "x".repeat(60_000)), 1);
    world.deliver(Message::prepare(&terms).body(body));
    assert_eq!(world.dfsp("bluewallet").next(&id).method, "POST");
    world.deliver(Message::fulfil(&id, "COMMITTED"));
    assert_eq!(world.dfsp("greenbank").next(&id).method, "PUT");
    id
}

/// Names and bytes of a directory's segments.
fn segments(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    let segments = files.filter(|path| path.extension().is_some_and(|extension| extension == "seg"));
    let read = |path: std::path::PathBuf| {
        (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap())
    };
    segments.map(read).collect()
}

fn run(world: &World, to: Option<&Path>, dry_run: bool) -> TrimReport {
    let (data, to) = (world.data().to_owned(), to.map(Path::to_owned));
    trim(&TrimArguments { data, delete: to.is_none(), to, release_reserve: false, dry_run, json: false })
        .unwrap()
}

fn is_committed(world: &World, id: &str) {
    world.deliver(Message::get(id, "greenbank"));
    assert!(world.dfsp("greenbank").next(id).text().contains("COMMITTED"));
}

#[test]
fn trimmed_segments_are_moved_and_the_hub_continues() {
    let mut world = start();
    let mut amounts = (1..=60).map(|number| number * 7 % 11 + 1);
    let paid: Vec<_> = amounts.by_ref().take(40).map(|amount| (pay(&world, amount), amount)).collect();
    world.restart();
    let later: Vec<_> = amounts.map(|amount| (pay(&world, amount), amount)).collect();
    let position = world.position("greenbank");
    world.stop(AMPLE);
    let journal = world.data().join("journal");
    let before = segments(&journal);
    assert!(before.len() >= 3, "{:?}", before.keys());

    let wanted = run(&world, None, true);
    assert_eq!(segments(&journal), before, "only asked");
    let volume = tempfile::tempdir().unwrap();
    let to = volume.path().join("old/journal");
    let report = run(&world, Some(&to), false);
    assert_eq!(report, TrimReport { dry_run: false, ..wanted });
    let (left, moved) = (segments(&journal), segments(&to));
    assert!(!moved.is_empty() && report.segments == moved.len() as u64, "{report:?}");
    assert_eq!(report.bytes, moved.values().map(|bytes| bytes.len() as u64).sum::<u64>());
    let mut together = moved.clone();
    together.extend(left.clone());
    assert_eq!((together, left.len() + moved.len()), (before.clone(), before.len()), "none lost, none twice");
    assert_eq!(left.keys().next(), Some(&format!("{:020}.seg", report.first_record)));
    assert_eq!(run(&world, Some(&to), false).segments, 0, "once is enough");

    world.start();
    assert_eq!(world.position("greenbank"), position);
    for (id, _) in [&paid[0], &paid[39], &later[19]] {
        is_committed(&world, id);
    }
    // A repetition of a transfer that is no longer in the journal is still known.
    let again = pay(&world, 3);
    is_committed(&world, &again);
    world.stop_and_audit();
    // After the segments are moved back, the whole history can be audited.
    for (name, bytes) in &moved {
        std::fs::write(journal.join(name), bytes).unwrap();
    }
    world.stop_and_audit();
    let sum: u64 = paid.iter().chain(&later).map(|(_, amount)| amount).sum();
    assert_eq!(position, sum.to_string());
}

#[test]
fn trim_retains_data_of_callbacks_and_reservations() {
    let mut world = start();
    for amount in (1..=20).chain(1..=20) {
        pay(&world, amount);
    }
    world.dfsp_mut("redmoney").die();
    let owed = world.new_id();
    let terms = Terms { payee: "redmoney".into(), ..Terms::new(&owed, world.now()) };
    let body = terms.body().replacen('{', r#"{"filler":"to be delivered","#, 1);
    world.deliver(Message::prepare(&terms).body(body.clone()));
    for amount in 1..=40 {
        pay(&world, amount);
    }
    world.restart();
    world.stop(AMPLE);
    let report = run(&world, None, false);
    assert!(report.segments >= 1 && report.first_record <= report.first_needed_record, "{report:?}");
    let kept = segments(&world.data().join("journal"));
    assert!(kept.len() >= 2, "those since the callback: {:?}", kept.keys());
    world.dfsp_mut("redmoney").revive();
    world.start();
    assert_eq!(world.dfsp("redmoney").next(&owed).text(), body);
    world.deliver(Message::fulfil(&owed, "COMMITTED").from("redmoney"));
    assert_eq!(world.dfsp("greenbank").next(&owed).method, "PUT");
    world.restart();
    world.stop(AMPLE);
    let more = run(&world, None, false);
    assert!(more.segments >= 1, "now they may go: {more:?}");
    world.start();
    is_committed(&world, &owed);
    world.stop_and_audit();
}
