//! `upesi trim`: old segments go, and nothing that counts goes with them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::message::{Message, Terms};
use crate::common::{AMPLE, World};
use upesi_hub::trim::{TrimArguments, TrimReport, trim};

fn start() -> World {
    World::new(&[
        ("data.segment_bytes", "1048576"),
        ("engine.batch_bytes_max", "524288"),
        ("data.snapshot_every_records", "1000000"),
        ("callbacks.breaker_threshold", "1000000"),
    ])
}

/// A payment with much in it; gives its id.
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
fn old_segments_are_moved_away_and_the_hub_goes_on() {
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
    // A resend of what has left the journal is still known.
    let again = pay(&world, 3);
    is_committed(&world, &again);
    world.stop_and_audit();
    // With what was moved back, the whole history can be audited.
    for (name, bytes) in &moved {
        std::fs::write(journal.join(name), bytes).unwrap();
    }
    world.stop_and_audit();
    let sum: u64 = paid.iter().chain(&later).map(|(_, amount)| amount).sum();
    assert_eq!(position, sum.to_string());
}

#[test]
fn what_an_undelivered_callback_or_a_reservation_needs_stays() {
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
