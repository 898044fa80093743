//! Logs that delete entries that no node needs.

use std::time::Duration;

use upesi_journal::Appender;
use upesi_journal::sim_disk::{SimDisk, SurvivingData};
use upesi_replication::ReplicationError;

use crate::refused;
use crate::support::{MemoryLog, Node, batch, claim};

/// Longer than the interval of a node's reports.
const WHILE: Duration = Duration::from_secs(31);

/// Appends some batches, and reports the leader's needs.
fn go_on(appender: &mut Box<dyn Appender>, node: &Node, first_seq: u64) {
    for seq in first_seq..first_seq + 10 {
        appender.append(&mut batch(seq, 1)).expect("appended");
    }
    node.clock.advance(WHILE);
    // Writes the place, and reports it.
    appender.maintain().expect("it leads");
}

#[test]
fn entries_that_a_node_needs_are_not_deleted() {
    let (log, [leads, follows, late]) = (MemoryLog::default(), [0, 1, 2].map(Node::new));
    let mut appender = claim(&leads.elected(&log));
    assert_eq!(log.delete_before_need(), 0, "it has read nothing yet");
    go_on(&mut appender, &leads, 1);
    follows.follows_to(&log, 4);
    let begins = log.delete_before_need();
    assert!((1..log.entries().len()).contains(&begins), "the follower needs its last entry: {begins}");
    // The node is stopped, and the log continues.
    go_on(&mut appender, &leads, 11);
    assert_eq!(log.delete_before_need(), begins);
    follows.follows_to(&log, 20);
    assert_eq!(follows.records(), leads.records());
    go_on(&mut appender, &leads, 21);
    assert!(log.delete_before_need() > begins + 10);
    match refused(&late, &log) {
        ReplicationError::Deleted { needed: 0, begin, .. } => assert!(begin > begins as u64),
        error => panic!("{error}"),
    }
    let before = log.delete_before_need();
    assert!(before > begins, "a node that cannot follow holds nothing back");
}

#[test]
fn removed_node_does_not_continue_without_deleted_entries() {
    let (log, [leads, sleeps]) = (MemoryLog::default(), [0, 1].map(Node::new));
    let mut appender = claim(&leads.elected(&log));
    go_on(&mut appender, &leads, 1);
    sleeps.follows_to(&log, 10);
    let needed = log.delete_before_need() as u64;
    go_on(&mut appender, &leads, 11);
    log.remove(1);
    let begins = log.delete_before_need() as u64;
    assert!(begins > needed + 1, "{begins}");
    let error = refused(&sleeps, &log);
    assert!(
        matches!(error, ReplicationError::Deleted { begin, needed: at, .. } if begin == begins && at >= needed),
        "{error}"
    );
    assert!(error.to_string().contains("upesi backup"), "{error}");
    // With a copy of another node's directory, the node continues.
    let copy = |disk: &SimDisk| disk.after_power_loss(SurvivingData::Everything);
    let restored = Node { disk: copy(&leads.disk), store: copy(&leads.store), ..sleeps };
    go_on(&mut appender, &leads, 21);
    restored.follows_to(&log, 30);
    assert_eq!(restored.records(), leads.records());
}
