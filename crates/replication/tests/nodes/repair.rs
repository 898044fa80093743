//! Logs that lost their end: nodes stop, a repair from the longest copy restores all records, and no node becomes
//! leader before.

use std::time::Duration;

use upesi_journal::Appender;
use upesi_replication::{CopyPosition, Repair, ReplicationError, StandbyOutcome};

use crate::support::{MemoryLog, Node, batch, claim};

/// Appends records with their number, or with another text, as content.
fn appends(appender: &mut Box<dyn Appender>, seqs: std::ops::RangeInclusive<u64>) {
    for seq in seqs {
        appender.append(&mut batch(seq, 1)).expect("appended");
    }
}

pub fn examined(node: &Node, log: &MemoryLog) -> Result<Repair, ReplicationError> {
    Repair::examine(log.node(&node.clock), node.copies(), &node.settings())
}

/// The reason why a node stops that would otherwise continue.
pub fn stops(node: &Node, log: &MemoryLog) -> ReplicationError {
    match node.stand_by(log, |_| false) {
        Err(error) => error,
        Ok(_) => panic!("it leads"),
    }
}

/// A node follows until it has all records.
fn has_all(node: &Node, log: &MemoryLog) {
    match node.stand_by(log, |position| position.seq >= 30 && position.store.seq >= 3).expect("a sound log") {
        StandbyOutcome::Stopped => {}
        StandbyOutcome::Elected(_) => panic!("it led before"),
    }
}

fn ends(seq: u64, store_seq: u64) -> CopyPosition {
    CopyPosition { seq, store_seq }
}

/// Three nodes with 30, 20 and 10 records, and a log that lost everything after record 15.
fn cut() -> (MemoryLog, [Node; 3]) {
    let (log, nodes) = (MemoryLog::default(), [0, 1, 2].map(Node::new));
    let journal = nodes[0].elected(&log);
    let mut store = journal.store().expect("not claimed").appender;
    let mut appender = claim(&journal);
    appends(&mut appender, 1..=10);
    nodes[2].follows_to(&log, 10);
    store.append(&mut batch(1, 1)).expect("appended");
    appends(&mut appender, 11..=15);
    let left = log.entries().len();
    store.append(&mut batch(2, 2)).expect("appended");
    appends(&mut appender, 16..=20);
    nodes[1].follows_to(&log, 20);
    appends(&mut appender, 21..=30);
    log.truncate(left);
    (log, nodes)
}

#[test]
fn repair_copies_records_that_the_copy_lacks() {
    let (log, node) = (MemoryLog::default(), Node::new(0));
    let mut appender = claim(&node.elected(&log));
    appends(&mut appender, 1..=30);
    let late = Node::new(1);
    late.follows_to(&MemoryLog::of(&log.entries()[..4]), 3);
    let repair = examined(&late, &log).expect("the log's own records");
    assert_eq!((repair.log(), repair.copy()), (ends(30, 0), ends(30, 0)));
    drop(repair);
    assert_eq!(late.records(), node.records());
}

#[test]
fn repair_restores_lost_records_from_the_longest_copy() {
    let (log, nodes) = cut();
    for (node, has) in nodes.iter().zip([30, 20]) {
        let error = stops(node, &log);
        let is_lost = |error: &ReplicationError| {
            matches!(error, ReplicationError::RecordsLost { part: "journal", log_seq: 15, copy_seq, .. }
                if *copy_seq == has)
        };
        assert!(is_lost(&error), "{error}");
    }
    let repair = examined(&nodes[0], &log).expect("the log's own records");
    assert_eq!((repair.log(), repair.copy()), (ends(15, 1), ends(30, 3)));
    let before = log.entries();
    drop(repair);
    assert_eq!(log.entries(), before, "examining changes nothing");
    let repair = examined(&nodes[0], &log).expect("the log's own records");
    repair.run(&nodes[0].settings()).expect("acknowledged");
    let repaired = log.entries();
    let again = examined(&nodes[0], &log).expect("a sound log");
    assert_eq!((again.log(), again.copy()), (ends(30, 3), ends(30, 3)));
    again.run(&nodes[0].settings()).expect("nothing is to be done");
    assert_eq!(log.entries().len(), repaired.len());
    for node in &nodes[1..] {
        has_all(node, &log);
        assert_eq!((node.records(), node.store_records()), (nodes[0].records(), nodes[0].store_records()));
    }
    // The log continues with any node.
    let next = Node { life: 7, ..nodes[2].clone() };
    appends(&mut claim(&next.elected(&log)), 31..=40);
    for node in &nodes[..2] {
        node.follows_to(&log, 40);
        assert_eq!(node.records(), next.records());
    }
}

#[test]
fn interrupted_repair_is_completed_by_another_one() {
    let (log, nodes) = cut();
    let whole = {
        let log = MemoryLog::of(&log.entries());
        examined(&nodes[0], &log).expect("sound").run(&nodes[0].settings()).expect("acknowledged");
        log.entries()
    };
    let begun = log.entries().len() + 1;
    // The log has only a part of the repair, and the node does not know of it.
    for left in begun..whole.len() {
        let (_, nodes) = cut();
        let log = MemoryLog::of(&whole[..left]);
        examined(&nodes[0], &log).expect("sound").run(&nodes[0].settings()).expect("acknowledged");
        has_all(&nodes[2], &log);
        assert_eq!(nodes[2].records(), nodes[0].records());
        assert_eq!(nodes[2].store_records(), nodes[0].store_records());
    }
}

#[test]
fn node_with_a_short_copy_does_not_lead_before_records_that_others_reported() {
    let (log, nodes) = cut();
    // `nodes[2]` reported its copy while it followed. The node with the longest copy reports at its start.
    let error = stops(&nodes[2], &log);
    let is_told = |seq| move |error: &ReplicationError| matches!(error, ReplicationError::BehindOthers { seq: told, store_seq: 3, .. } if *told == seq);
    assert!(is_told(20)(&error), "{error}");
    stops(&nodes[0], &log);
    let error = stops(&nodes[2], &log);
    assert!(is_told(30)(&error), "{error}");
    assert_eq!(nodes[2].records().len(), 15, "the node has all records of the log");
    // An operator confirms that their disks are lost.
    log.remove(0);
    log.remove(1);
    appends(&mut claim(&nodes[2].elected(&log)), 16..=18);
}

#[test]
fn log_with_other_records_is_not_repaired() {
    let (log, nodes) = cut();
    log.remove(1);
    let next = Node { life: 7, ..nodes[2].clone() };
    let mut other = upesi_journal::Batch::new(16);
    other.push(10_000_000_000_016, |buffer| buffer.extend_from_slice(b"another"));
    claim(&next.elected(&log)).append(&mut other).expect("appended");
    match examined(&nodes[0], &log) {
        Err(ReplicationError::CopyDiffers { part: "journal", seq: 16, .. }) => {}
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it would append behind another record"),
    }
}

#[test]
fn log_that_begins_late_is_read_from_an_older_position() {
    let (log, node) = (MemoryLog::default(), Node::new(0));
    let mut appender = claim(&node.elected(&log));
    for seq in 1..=60 {
        appends(&mut appender, seq..=seq);
        node.clock.advance(Duration::from_secs(11));
        appender.maintain().expect("it leads");
    }
    let begin = log.entries().len() / 2;
    log.delete_before(begin);
    log.truncate(log.entries().len() - 9);
    drop(appender);
    let repair = examined(&node, &log).expect("an older place");
    assert!(repair.compared().0 > begin as u64, "{:?}", repair.compared());
    assert!(repair.log().seq < 60, "{:?}", repair.log());
    repair.run(&node.settings()).expect("acknowledged");
    assert_eq!(examined(&node, &log).expect("a sound log").log(), ends(60, 0));
    // Without a report it is not known what the log has.
    let late = log.entries().len() - 2;
    log.delete_before(late);
    log.truncate(late + 1);
    match examined(&node, &log).err() {
        Some(ReplicationError::TailLost { .. } | ReplicationError::Deleted { .. }) => {}
        Some(error) => panic!("{error}"),
        None => panic!("it knows no place in the log"),
    }
}

#[test]
fn new_topic_gets_all_records() {
    let (_, nodes) = cut();
    let log = MemoryLog::default();
    let repair = examined(&nodes[0], &log).expect("an empty log");
    assert_eq!(repair.log(), CopyPosition::default());
    repair.run(&nodes[0].settings()).expect("acknowledged");
    for node in &nodes[1..] {
        node.follows_to(&log, 30);
        assert_eq!(node.records(), nodes[0].records());
    }
}
