//! Logs that begin after records: after the records of a standalone hub, or after the removed files of a copy.

use std::sync::Arc;

use upesi_cluster::{EntryKind, LogEntry, LogStart, StorePosition};
use upesi_journal::sim_disk::SimDisk;
use upesi_journal::{Appender, Batch, Disk, END, EmbeddedLog, Log, Options};
use upesi_replication::{CopyPosition, ReplicationError, StandbyOutcome};

use crate::repair::{examined, stops};
use crate::support::{Fate, MemoryLog, Node, claim};
use crate::{kinds, refused};

/// Some of these fill a segment.
const BYTES: usize = 9_000;

/// The record `seq`, which is large.
fn large(seq: u64) -> Batch {
    let mut one = Batch::new(seq);
    one.push(20_000_000_000_000 + seq as i64, |buffer| buffer.resize(buffer.len() + BYTES, seq as u8));
    one
}

fn oldest(disk: &SimDisk) -> u64 {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    EmbeddedLog::for_reading(&disk).oldest_seq().expect("sound").expect("a segment")
}

/// Deletes files of records before `seq`. Returns the oldest remaining record.
fn trim(disk: &SimDisk, seq: u64) -> u64 {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    EmbeddedLog::for_reading(&shared).trim(seq).expect("deleted");
    oldest(disk)
}

/// The records from `first` on: their times, and a byte of each.
fn records_from(disk: &SimDisk, first: u64) -> Vec<(i64, u8)> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut reader = EmbeddedLog::for_reading(&disk).read_from(first);
    let mut records = Vec::new();
    while let Some(record) = reader.next_record(END).expect("a sound copy") {
        records.push((record.time_ns, record.bytes[0]));
    }
    records
}

fn follows(node: &Node, log: &MemoryLog, end: CopyPosition) {
    let stood = node.stand_by(log, |at| (at.seq, at.store.seq) == (end.seq, end.store_seq));
    assert!(matches!(stood.expect("a sound log"), StandbyOutcome::Stopped));
}

/// Three nodes with 30, 25 and 4 records in journal and store. The first node's oldest files are removed.
fn trimmed() -> ([Node; 3], LogStart) {
    let (log, nodes) = (MemoryLog::default(), [0, 1, 2].map(Node::new));
    let journal = nodes[0].elected(&log);
    let mut store = journal.store().expect("not claimed").appender;
    let mut appender = claim(&journal);
    for seq in 1..=30 {
        appender.append(&mut large(seq)).expect("appended");
        store.append(&mut large(seq)).expect("appended");
        if let Some(node) = [(4, 2), (25, 1)].iter().find_map(|(at, node)| (*at == seq).then_some(*node)) {
            follows(&nodes[node], &log, CopyPosition { seq, store_seq: seq });
        }
    }
    drop((appender, store));
    let (journal, store) = (trim(&nodes[0].disk, 14), trim(&nodes[0].store, 25));
    assert!((5..=14).contains(&journal) && (15..=25).contains(&store), "{journal} {store}");
    let before = |seq: u64| (seq - 1, 20_000_000_000_000 + seq as i64 - 1);
    let ((seq, time_ns), (of_store, store_ns)) = (before(journal), before(store));
    (nodes, LogStart { seq, time_ns, store: StorePosition { seq: of_store, time_ns: store_ns } })
}

fn begins(log: &MemoryLog) -> Option<LogStart> {
    LogEntry::decode(&log.entries()[0]).expect("an entry").beginning()
}

fn fills(node: &Node, log: &MemoryLog) {
    examined(node, log).expect("an empty log").run(&node.settings()).expect("acknowledged");
}

#[test]
fn new_topic_begins_with_the_oldest_retained_records() {
    let (nodes, beginning) = trimmed();
    let log = MemoryLog::default();
    fills(&nodes[0], &log);
    assert_eq!(begins(&log), Some(beginning));
    let entries = log.entries().len();
    fills(&nodes[0], &log);
    assert_eq!(log.entries().len(), entries, "it lacks nothing");
    // A node with all earlier records continues, and finds its own.
    let all = CopyPosition { seq: 30, store_seq: 30 };
    follows(&nodes[1], &log, all);
    assert_eq!(records_from(&nodes[1].disk, 1).len(), 30);
    let from = |disk: fn(&Node) -> &SimDisk, seq: u64| {
        let [one, other] = [0, 1].map(|node| records_from(disk(&nodes[node]), seq + 1));
        assert_eq!(one, other);
    };
    from(|node| &node.disk, beginning.seq);
    from(|node| &node.store, beginning.store.seq);
    // Other nodes must not continue.
    for node in [&nodes[2], &Node::new(3)] {
        let error = stops(node, &log);
        let is_told = matches!(error, ReplicationError::BeginsLater { seq, store_seq, .. }
            if (seq, store_seq) == (beginning.seq, beginning.store.seq));
        assert!(is_told, "{error}");
    }
    assert_eq!(records_from(&nodes[2].disk, 1).len(), 4, "nothing was written behind a gap");
    // The log continues with any follower.
    let next = Node { life: 7, ..nodes[1].clone() };
    claim(&next.elected(&log)).append(&mut large(31)).expect("appended");
    follows(&nodes[0], &log, CopyPosition { seq: 31, ..all });
}

#[test]
fn node_with_a_different_record_stops() {
    let (nodes, beginning) = trimmed();
    let other = Node::new(1);
    let old = MemoryLog::default();
    let journal = other.elected(&old);
    let mut store = journal.store().expect("not claimed").appender;
    let mut appender = claim(&journal);
    for seq in 1..=beginning.store.seq {
        store.append(&mut large(seq)).expect("appended");
    }
    for seq in 1..=beginning.seq {
        appender.append(&mut large(seq)).expect("appended");
    }
    let mut another = Batch::new(beginning.seq + 1);
    another.push(i64::MAX / 2, |buffer| buffer.extend_from_slice(b"another"));
    appender.append(&mut another).expect("appended");
    drop((appender, store));
    let log = MemoryLog::default();
    fills(&nodes[0], &log);
    let error = refused(&other, &log);
    let is_it = matches!(error, ReplicationError::CopyDiffers { part: "journal", seq, .. }
        if seq == beginning.seq + 1);
    assert!(is_it, "{error}");
}

#[test]
fn log_begins_once_despite_failed_attempts() {
    use Fate::{Lost, Sound, Twice, Unacknowledged};
    for fates in [[Lost, Sound], [Unacknowledged, Sound], [Twice, Lost], [Unacknowledged, Unacknowledged]] {
        let (nodes, beginning) = trimmed();
        let log = MemoryLog::default();
        log.fate(&fates);
        fills(&nodes[0], &log);
        assert_eq!(begins(&log), Some(beginning), "{fates:?}");
        follows(&nodes[1], &log, CopyPosition { seq: 30, store_seq: 30 });
    }
}

#[test]
fn log_that_another_node_began_first_is_unchanged() {
    let (nodes, _) = trimmed();
    let quicker = MemoryLog::default();
    drop(claim(&Node::new(9).elected(&quicker)));
    let log = MemoryLog::default();
    log.put_ahead(Arc::clone(&quicker.entries()[0]));
    let repair = examined(&nodes[0], &log).expect("an empty log");
    let error = repair.run(&nodes[0].settings()).expect_err("another one leads");
    assert!(matches!(error, ReplicationError::Contended { .. }), "{error}");
    assert_eq!(kinds(&log), [EntryKind::Claim, EntryKind::Begin]);
}

/// A standalone hub with ten records, and two of its store.
fn alone() -> Node {
    let node = Node::new(0);
    for (disk, count) in [(&node.disk, 10), (&node.store, 2)] {
        let options = Options { segment_bytes: 64 * 1024, identity: 9, ..Options::default() };
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let mut appender: Box<dyn Appender> =
            EmbeddedLog::new(disk, options).claim(0).expect("empty").appender;
        for seq in 1..=count {
            appender.append(&mut large(seq)).expect("appended");
        }
    }
    node
}

#[test]
fn standalone_hub_becomes_a_node_once_it_fills_an_empty_log() {
    let node = alone();
    let log = MemoryLog::default();
    let is_alone = |error: ReplicationError| matches!(error, ReplicationError::NotReplicated);
    assert!(is_alone(refused(&node, &log)));
    let looked = examined(&node, &log).expect("an empty log");
    assert_eq!(
        (looked.log(), looked.copy()),
        (CopyPosition::default(), CopyPosition { seq: 10, store_seq: 2 })
    );
    drop(looked);
    assert!(is_alone(refused(&node, &log)), "a look changes nothing");
    // Another hub's topic is not its own.
    let other = MemoryLog::default();
    claim(&Node::new(5).elected(&other)).append(&mut large(1)).expect("appended");
    assert!(examined(&node, &other).err().is_some_and(is_alone));

    fills(&node, &log);
    assert_eq!(kinds(&log)[0], EntryKind::Claim, "it has all from the first record on");
    let late = Node::new(1);
    follows(&late, &log, CopyPosition { seq: 10, store_seq: 2 });
    assert_eq!(late.records(), node.records());
    let leads = Node { life: 2, ..node };
    claim(&leads.elected(&log)).append(&mut large(11)).expect("appended");
}

#[test]
fn standalone_hub_without_its_oldest_files_becomes_a_node() {
    let node = alone();
    let first = trim(&node.disk, 9);
    assert!(first > 1);
    let log = MemoryLog::default();
    fills(&node, &log);
    let beginning = begins(&log).expect("a beginning");
    assert_eq!((beginning.seq, beginning.store.seq), (first - 1, 0));
    assert!(matches!(stops(&Node::new(1), &log), ReplicationError::BeginsLater { .. }));
    let leads = Node { life: 2, ..node };
    claim(&leads.elected(&log)).append(&mut large(11)).expect("appended");
}
