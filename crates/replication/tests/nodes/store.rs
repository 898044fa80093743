//! The store's records, which the nodes share in addition to the engine's records.

use std::sync::Arc;

use upesi_cluster::EntryKind;
use upesi_journal::sim_disk::DiskFault;
use upesi_journal::{Appender, Disk, JournalError, Options};
use upesi_replication::{ReplicationError, StandbyOutcome};

use crate::support::{Fate, MemoryLog, Node, batch, claim};
use crate::{kinds, refused};

/// Appenders of the engine and of the store.
fn appenders(node: &Node, log: &MemoryLog) -> [Box<dyn Appender>; 2] {
    let elected = node.elected(log);
    let store = elected.store().expect("not claimed").appender;
    [claim(&elected), store]
}

/// Follows until the node has read this many records of the store.
fn follows_to(node: &Node, log: &MemoryLog, seq: u64) {
    match node.stand_by(log, |position| position.store.seq >= seq).expect("a sound log") {
        StandbyOutcome::Elected(_) => panic!("it led before it had read {seq} records"),
        StandbyOutcome::Stopped => {}
    }
}

#[test]
fn the_store_of_every_node_has_the_same_records() {
    let (log, [first, second]) = (MemoryLog::default(), [0, 1].map(Node::new));
    let [mut engine, mut store] = appenders(&first, &log);
    log.fate(&[Fate::Lost, Fate::Sound, Fate::Unacknowledged, Fate::Twice, Fate::Twice]);
    store.append(&mut batch(1, 2)).expect("appended");
    engine.append(&mut batch(1, 5)).expect("appended");
    store.append(&mut batch(3, 1)).expect("appended");
    engine.append(&mut batch(6, 1)).expect("appended");
    store.confirm().expect("it leads");
    store.append(&mut batch(4, 9)).expect("appended");
    assert_eq!(kinds(&log).iter().filter(|kind| **kind == EntryKind::Beat).count(), 1);
    follows_to(&second, &log, 12);
    assert_eq!((first.records().len(), first.store_records().len()), (6, 12));
    assert_eq!((first.records(), first.store_records()), (second.records(), second.store_records()));
}

#[test]
fn store_continues_at_the_position_of_the_log() {
    let (log, [first, second]) = (MemoryLog::default(), [0, 1].map(Node::new));
    let [_engine, mut store] = appenders(&first, &log);
    store.append(&mut batch(1, 7)).expect("appended");
    let elected = second.elected(&log);
    let end = elected.store().expect("not claimed");
    let (seq, time_ns, _) = end_of(&second);
    assert_eq!((end.last_seq, end.last_time_ns), (seq, time_ns));
    assert_eq!(seq, 7);
    let _engine = claim(&elected);
    assert!(matches!(elected.store(), Err(JournalError::Superseded { .. })), "it is taken before");
}

fn end_of(node: &Node) -> (u64, i64, Vec<u8>) {
    let records = node.store_records();
    let (time_ns, bytes) = records.last().expect("records").clone();
    (records.len() as u64, time_ns, bytes)
}

#[test]
fn changes_of_a_former_leader_reach_no_store() {
    let (log, [mut first, second]) = (MemoryLog::default(), [0, 1].map(Node::new));
    let [mut engine, mut store] = appenders(&first, &log);
    store.append(&mut batch(1, 2)).expect("appended");
    let [_leads, mut leads] = appenders(&second, &log);
    for _ in 0..2 {
        let error = store.append(&mut batch(3, 1)).expect_err("it is no longer the leader");
        assert!(matches!(&error, JournalError::Superseded { by } if by == "node-1"), "{error}");
    }
    assert!(matches!(store.confirm(), Err(JournalError::Superseded { .. })));
    assert!(matches!(store.maintain(), Err(JournalError::Superseded { .. })));
    assert!(matches!(engine.maintain(), Err(JournalError::Superseded { .. })), "the engine knows it, too");
    assert_eq!(first.store_records().len(), 2);
    drop((engine, store));
    leads.append(&mut batch(3, 4)).expect("appended");
    first.life += 1;
    follows_to(&first, &log, 6);
    assert_eq!(first.store_records(), second.store_records());
}

#[test]
fn after_a_hand_over_the_store_appends_nothing() {
    let (log, node) = (MemoryLog::default(), Node::new(0));
    let [mut engine, mut store] = appenders(&node, &log);
    store.append(&mut batch(1, 2)).expect("appended");
    engine.hand_over(None).expect("handed over");
    let entries = log.entries().len();
    assert!(matches!(store.append(&mut batch(3, 1)), Err(JournalError::Superseded { .. })));
    assert_eq!(log.entries().len(), entries);
}

#[test]
fn store_on_a_full_disk_appends_nothing_and_may_retry() {
    let (log, node) = (MemoryLog::default(), Node::new(0));
    let [mut engine, mut store] = appenders(&node, &log);
    store.append(&mut batch(1, 1)).expect("appended");
    // This record is larger than the current segment.
    let mut large = upesi_journal::Batch::new(2);
    large.push(i64::MAX / 2, |buffer| buffer.resize(buffer.len() + (1 << 20), 7));
    node.store.inject(node.store.operations().len() as u64, DiskFault::Full);
    let entries = log.entries().len();
    let error = store.append(&mut large).expect_err("no room");
    assert!(matches!(error, JournalError::DiskFull { .. }), "{error}");
    assert_eq!(log.entries().len(), entries, "nothing that this node cannot keep");
    engine.append(&mut batch(1, 1)).expect("the engine can still append");
    node.store.clear_faults();
    store.append(&mut large).expect("there is room again");
}

#[test]
fn store_that_is_not_a_copy_is_rejected() {
    let log = MemoryLog::default();
    let node = Node::new(0);
    let disk: Arc<dyn Disk> = Arc::new(node.store.clone());
    let opened = upesi_journal::open(disk, Options::default()).expect("an empty disk");
    { opened.writer }.append(&mut batch(1, 1)).expect("appended");
    let error = refused(&node, &log);
    assert!(matches!(error, ReplicationError::NotReplicated), "{error}");

    let [node, other] = [0, 1].map(Node::new);
    let [engine, mut store] = appenders(&node, &log);
    store.append(&mut batch(1, 3)).expect("appended");
    drop((engine, store));
    follows_to(&node, &log, 3);
    let lost = Node { store: other.store, ..node.clone() };
    match refused(&lost, &log) {
        ReplicationError::CopyTooShort { part: "store", copy: 0, place: 3 } => {}
        error => panic!("{error}"),
    }
}

/// A place that is older than the store's tables: no journal file has their records any longer.
#[test]
fn records_that_the_tables_have_are_not_compared() {
    let (log, node) = (MemoryLog::default(), Node::new(0));
    let [engine, mut store] = appenders(&node, &log);
    store.append(&mut batch(1, 1)).expect("appended");
    drop((engine, store));
    follows_to(&node, &log, 1);
    let place = node.disk.contents("place").expect("a place");
    let again = Node { life: 2, ..node.clone() };
    let [engine, mut store] = appenders(&again, &log);
    for seq in 0..40 {
        // Each record fills a part of a segment.
        let mut large = upesi_journal::Batch::new(2 + seq);
        large.push(i64::MAX / 2 + seq as i64, |buffer| buffer.resize(buffer.len() + 10_000, seq as u8));
        store.append(&mut large).expect("appended");
        store.maintain().expect("it leads");
    }
    drop((engine, store));
    let before = node.store_records();
    let deleted = upesi_journal::delete_segments_below(&node.store, 30).expect("a sound disk");
    assert!(deleted > 2, "{deleted} segments");
    node.disk.corrupt("place", |bytes| bytes.clone_from(&place));
    let again = Node { life: 3, ..node.clone() };
    follows_to(&again, &log, 41);
    let disk: Arc<dyn Disk> = Arc::new(node.store.clone());
    let mut reader = upesi_journal::EmbeddedLog::for_reading(&disk).read_from(30);
    for (seq, (time_ns, bytes)) in (30..).zip(&before[29..]) {
        let record = reader.next_record(upesi_journal::END).expect("a sound copy").expect("a record");
        assert_eq!((record.seq, record.time_ns, record.bytes), (seq, *time_ns, &bytes[..]));
    }
    // A record that exists and differs: the place is set back once more.
    let rival = MemoryLog::of(&log.entries()[..2]);
    let other = Node::new(0);
    other.disk.clear_faults();
    follows_to(&other, &rival, 1);
    let place = other.disk.contents("place").expect("a place");
    let [engine, mut store] = appenders(&Node { life: 4, ..other.clone() }, &rival);
    store.append(&mut batch(2, 1)).expect("appended");
    drop((engine, store));
    other.disk.corrupt("place", |bytes| bytes.clone_from(&place));
    match refused(&other, &log) {
        ReplicationError::CopyDiffers { part: "store", seq: 2, .. } => {}
        error => panic!("{error}"),
    }
}
