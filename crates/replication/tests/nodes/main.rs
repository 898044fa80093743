//! Nodes that share a log: the leader, and the content of the copies.

mod beginning;
mod deletion;
mod power_losses;
mod repair;
mod store;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::{CLUSTER, Fate, MemoryLog, Node, RECORDS_TIME, VirtualClock, batch, claim};
use upesi_cluster::{ClusterId, EntryKind, LogEntry};
use upesi_journal::sim_disk::{DiskFault, Operation, SurvivingData};
use upesi_journal::{JournalError, Log as _, Options};
use upesi_replication::{
    Clock, NodeSettings, ReplicationError, StandbyOutcome, StandbyProgress, stand_by, survey,
};

/// Time limit for a thread.
const LIMIT: Duration = Duration::from_secs(60);

/// The kinds of all entries in a log, with the accepted records.
fn kinds(log: &MemoryLog) -> Vec<EntryKind> {
    log.entries().iter().map(|bytes| LogEntry::decode(bytes).expect("an entry").kind).collect()
}

#[test]
fn first_node_leads_and_the_others_have_its_records() {
    let (log, [first, second]) = (MemoryLog::default(), [0, 1].map(Node::new));
    let journal = first.elected(&log);
    let mut appender = claim(&journal);
    for (first_seq, count) in [(1, 3), (4, 1), (5, 40)] {
        let appended = appender.append(&mut batch(first_seq, count)).expect("appended");
        assert_eq!((appended.first_seq, appended.last_seq), (first_seq, first_seq + count - 1));
    }
    assert_eq!(kinds(&log), [EntryKind::Claim, EntryKind::Batch, EntryKind::Batch, EntryKind::Batch]);
    second.follows_to(&log, 44);
    assert_eq!(first.records().len(), 44);
    assert_eq!(first.records(), second.records());
}

#[test]
fn answer_without_a_record_waits_for_a_heartbeat() {
    let (log, node) = (MemoryLog::default(), Node::new(0));
    let mut appender = claim(&node.elected(&log));
    appender.confirm().expect("it leads");
    assert_eq!(kinds(&log), [EntryKind::Claim, EntryKind::Beat]);
    appender.maintain().expect("it leads");
    assert_eq!(kinds(&log).len(), 2, "it is not time yet");
    node.clock.advance(Duration::from_millis(300));
    appender.maintain().expect("it leads");
    assert_eq!(kinds(&log)[2..], [EntryKind::Beat]);
}

#[test]
fn retries_and_duplicate_entries_have_no_effect() {
    let (log, [first, second]) = (MemoryLog::default(), [0, 1].map(Node::new));
    let mut appender = claim(&first.elected(&log));
    let mut next_seq = 1;
    for fate in [Fate::Lost, Fate::Unacknowledged, Fate::Twice] {
        log.fate(&[fate, fate, Fate::Sound]);
        for count in [2, 1] {
            appender.append(&mut batch(next_seq, count)).expect("appended");
            next_seq += count;
        }
    }
    assert!(kinds(&log).len() > 7, "nothing came twice: {:?}", kinds(&log));
    second.follows_to(&log, next_seq - 1);
    assert_eq!(first.records(), second.records());
    assert_eq!(first.records().len() as u64, next_seq - 1);
}

#[test]
fn former_leader_learns_the_leader_and_follows_again() {
    let (log, [mut first, second]) = (MemoryLog::default(), [0, 1].map(Node::new));
    let mut former = claim(&first.elected(&log));
    former.append(&mut batch(1, 2)).expect("appended");
    // The second node receives nothing for more than its two seconds.
    let mut leader = claim(&second.elected(&log));
    leader.append(&mut batch(3, 1)).expect("appended");
    for _ in 0..2 {
        let error = former.append(&mut batch(3, 5)).expect_err("it is no longer the leader");
        assert!(matches!(&error, JournalError::Superseded { by } if by == "node-1"), "{error}");
    }
    assert!(
        matches!(former.confirm(), Err(JournalError::Superseded { .. })),
        "nor may it answer from memory"
    );
    assert!(matches!(former.maintain(), Err(JournalError::Superseded { .. })));
    drop(former);
    leader.append(&mut batch(4, 3)).expect("appended");
    first.life += 1;
    first.follows_to(&log, 6);
    assert_eq!(first.records(), second.records());
    assert_eq!(first.records().len(), 6);
}

#[test]
fn former_leader_without_write_access_reads_the_new_leader() {
    for fate in [Fate::Denied, Fate::Silence] {
        let (log, [mut first, second]) = (MemoryLog::default(), [0, 1].map(Node::new));
        let mut former = claim(&first.elected(&log));
        former.append(&mut batch(1, 2)).expect("appended");
        let mut leader = claim(&second.elected(&log));
        leader.append(&mut batch(3, 1)).expect("appended");
        let entries = log.entries().len();
        log.fate(&[fate; 1_000]);
        let error = former.append(&mut batch(3, 5)).expect_err("it is no longer the leader");
        assert!(matches!(&error, JournalError::Superseded { by } if by == "node-1"), "{error}");
        assert_eq!(log.entries().len(), entries, "it was let in");
        drop(former);
        first.life += 1;
        first.follows_to(&log, 3);
        assert_eq!(first.records(), second.records());
    }
}

#[test]
fn leader_continues_once_it_may_write_again() {
    let (log, [leader, other]) = (MemoryLog::default(), [0, 1].map(Node::new));
    let mut appender = claim(&leader.elected(&log));
    appender.append(&mut batch(1, 2)).expect("appended");
    // Meanwhile it reads, and finds its own entry.
    log.fate(&[Fate::Denied; 50]);
    log.fate(&[Fate::Unacknowledged, Fate::Denied, Fate::Twice]);
    for seq in 3..6 {
        appender.append(&mut batch(seq, 1)).expect("appended");
    }
    other.follows_to(&log, 5);
    assert_eq!(leader.records(), other.records());
}

#[test]
fn earlier_claim_makes_the_batch_void() {
    let (log, [first, second]) = (MemoryLog::default(), [0, 1].map(Node::new));
    let mut former = claim(&first.elected(&log));
    former.append(&mut batch(1, 2)).expect("appended");
    // The other node's claim in the same log.
    let rival = MemoryLog::of(&log.entries());
    let _leader = second.elected(&rival);
    log.put_ahead(rival.entries().pop().expect("a claim"));
    let error = former.append(&mut batch(3, 1)).expect_err("the claim came first");
    assert!(matches!(&error, JournalError::Superseded { by } if by == "node-1"), "{error}");
    assert_eq!(first.records().len(), 2, "no copy has a void record");
}

#[test]
fn leader_that_stops_in_order_is_succeeded_at_once() {
    for (successor, others) in [(None, [1, 2]), (Some(2), [2, 1])] {
        let (log, leader) = (MemoryLog::default(), Node::new(0));
        let mut appender = claim(&leader.elected(&log));
        appender.append(&mut batch(1, 5)).expect("appended");
        // The fate of the handover in the log makes no difference.
        log.fate(&[Fate::Lost, Fate::Unacknowledged, Fate::Twice]);
        appender.hand_over(successor).expect("handed over");
        let refused =
            [appender.append(&mut batch(6, 1)).err(), appender.confirm().err(), appender.maintain().err()];
        assert!(
            refused.iter().all(|error| matches!(error, Some(JournalError::Superseded { .. }))),
            "{refused:?}"
        );
        drop(appender);
        assert_eq!(copied(&log, &leader), Some(5), "its place is saved");
        let [next, last] = others.map(Node::new);
        next.clock.advance(RECORDS_TIME);
        let elected = next.elected(&log);
        assert!(elected.was_called());
        let mut appender = claim(&elected);
        let waited = next.clock.now().saturating_sub(RECORDS_TIME);
        assert!(waited < Duration::from_millis(100), "it waited for {waited:?}");
        appender.append(&mut batch(6, 1)).expect("appended");
        for node in [&leader, &last] {
            node.follows_to(&log, 6);
            assert_eq!(node.records(), next.records());
        }
    }
}

#[test]
fn dead_named_successor_is_waited_for_as_usual() {
    let (log, [leader, other]) = (MemoryLog::default(), [0, 1].map(Node::new));
    let mut appender = claim(&leader.elected(&log));
    appender.append(&mut batch(1, 5)).expect("appended");
    appender.hand_over(Some(7)).expect("handed over");
    drop(appender);
    other.clock.advance(RECORDS_TIME);
    let elected = other.elected(&log);
    assert!(!elected.was_called(), "another one was");
    let mut appender = claim(&elected);
    let waited = other.clock.now().saturating_sub(RECORDS_TIME).as_millis();
    assert!((2_300..2_400).contains(&waited), "{waited}");
    appender.append(&mut batch(6, 1)).expect("appended");
}

#[test]
fn unacknowledged_handover_ends_after_three_seconds() {
    let (log, leader) = (MemoryLog::default(), Node::new(0));
    let mut appender = claim(&leader.elected(&log));
    appender.append(&mut batch(1, 5)).expect("appended");
    let began = leader.clock.now();
    log.fate(&[Fate::Silence]);
    let error = appender.hand_over(None).expect_err("no acknowledgement");
    assert!(error.to_string().contains("was not acknowledged"), "{error}");
    let waited = leader.clock.now().saturating_sub(began).as_millis();
    assert!((3_000..3_200).contains(&waited), "{waited}");
    assert!(appender.append(&mut batch(6, 1)).is_err(), "it may be in the log, or come");
}

#[test]
fn leader_without_acknowledgements_reports_that_it_is_held_up() {
    let (log, node) = (MemoryLog::default(), Node::new(0));
    let leads = node.elected(&log);
    let mut appender = claim(&leads);
    appender.append(&mut batch(1, 1)).expect("appended");
    assert!(!leads.is_held_up());
    log.fate(&[Fate::Silence]);
    let appending = thread::spawn(move || appender.append(&mut batch(2, 1)).is_err());
    let since = Instant::now();
    while !leads.is_held_up() {
        assert!(since.elapsed() < LIMIT, "the leader does not report that it is held up");
        thread::yield_now();
    }
    node.stops.store(true, Ordering::Release);
    assert!(appending.join().expect("no panic"), "the unacknowledged batch was appended in the end");
    assert!(!leads.is_held_up(), "nothing is on its way");
}

#[test]
fn ending_leader_does_not_wait_for_brokers() {
    let (log, leader) = (MemoryLog::default(), Node::new(0));
    let mut appender = claim(&leader.elected(&log));
    log.fate(&[Fate::Silence]);
    leader.stops.store(true, Ordering::Release);
    let error = appender.append(&mut batch(1, 5)).expect_err("no acknowledgement");
    assert!(error.to_string().contains("was not acknowledged"), "{error}");
}

#[test]
fn arrived_entries_are_synced_together_and_reported_once_on_disk() {
    let (log, [leads, follows]) = (MemoryLog::default(), [0, 1].map(Node::new));
    let mut appender = claim(&leads.elected(&log));
    for seq in 1..=40 {
        appender.append(&mut batch(seq, 1)).expect("appended");
    }
    let (begun, mut told) = (follows.clock.now(), 0);
    let syncs = || follows.disk.operations().iter().filter(|one| **one == Operation::Sync).count();
    let stood = follows.stand_by(&log, |position| {
        // The result does not depend on the data that the power loss destroys.
        let disk = follows.disk.after_power_loss(SurvivingData::Nothing);
        let on_disk = Node { disk, ..follows.clone() }.records().len() as u64;
        assert_eq!(on_disk, position.seq, "told of record {}", position.seq);
        assert_eq!(follows.clock.now(), begun, "it waited for more");
        told += 1;
        position.seq >= 40
    });
    assert!(matches!(stood, Ok(StandbyOutcome::Stopped)));
    assert!(told == 1 && syncs() < 12, "{told} reports, {} syncs", syncs());
}

/// The position in a node's `place`.
fn copied(log: &MemoryLog, node: &Node) -> Option<u64> {
    let mut partition = log.node(&node.clock);
    survey(&mut *partition, Some(&node.disk), CLUSTER, 0).expect("a sound log").0.map(|copied| copied.seq)
}

#[test]
fn survey_ends_when_no_entry_arrives() {
    let (log, node) = (MemoryLog::default(), Node::new(0));
    claim(&node.elected(&log)).append(&mut batch(1, 5)).expect("appended");
    let mut partition = log.node(&VirtualClock::default());
    match survey(&mut *partition, None, CLUSTER, 3) {
        Err(ReplicationError::Silent { offset: 2, .. }) => {}
        Err(error) => panic!("{error}"),
        Ok(found) => panic!("{found:?} of two entries"),
    }
}

#[test]
fn a_survey_stops_before_the_entry_of_a_newer_hub() {
    let (log, node) = (MemoryLog::default(), Node::new(0));
    claim(&node.elected(&log)).append(&mut batch(1, 5)).expect("appended");
    log.push(newer_entry());
    let mut partition = log.node(&VirtualClock::default());
    match survey(&mut *partition, None, CLUSTER, 3) {
        Err(ReplicationError::Newer { offset: 2, .. }) => {}
        Err(error) => panic!("{error}"),
        Ok(found) => panic!("it took the entry for one of {found:?}"),
    }
}

/// An intact entry of this cluster with a newer version of its form.
fn newer_entry() -> Arc<[u8]> {
    let log = MemoryLog::default();
    let _leader = Node::new(3).elected(&log);
    let mut bytes = log.entries()[0].to_vec();
    // The version, and the digest of everything except itself.
    bytes[4] = 2;
    let digest = xxhash_rust::xxh3::xxh3_128(&[&bytes[..80], &bytes[96..]].concat());
    bytes[80..96].copy_from_slice(&digest.to_le_bytes());
    bytes.into()
}

#[test]
fn engine_receives_the_leadership_once_with_all_records() {
    let (log, node) = (MemoryLog::default(), Node::new(0));
    let journal = node.elected(&log);
    let claimed = |known| upesi_journal::Log::claim(&journal, known).map(|_| ());
    assert!(matches!(claimed(1), Err(JournalError::Damaged { .. })), "the snapshot is ahead of the copy");
    assert!(claimed(0).is_ok());
    assert!(matches!(claimed(0), Err(JournalError::Superseded { .. })));
}

/// The reason why a node does not continue.
fn refused(node: &Node, log: &MemoryLog) -> ReplicationError {
    let end = log.entries().len() as u64;
    match node.stand_by(log, |position| position.next_offset == end) {
        Err(error) => error,
        Ok(StandbyOutcome::Elected(_) | StandbyOutcome::Stopped) => panic!("it went on"),
    }
}

#[test]
fn node_rejects_a_truncated_or_different_log() {
    let (log, node) = (MemoryLog::default(), Node::new(0));
    let mut appender = claim(&node.elected(&log));
    appender.append(&mut batch(1, 2)).expect("appended");
    appender.append(&mut batch(3, 2)).expect("appended");
    drop(appender);
    node.follows_to(&log, 4);
    let whole = log.entries();
    log.truncate(whole.len() - 1);
    let error = repair::stops(&node, &log);
    assert!(matches!(error, ReplicationError::RecordsLost { log_seq: 2, copy_seq: 4, .. }), "{error}");
    // The log contains a different record in place of the next one.
    let other = Node::new(5);
    log.remove(0);
    let mut another = upesi_journal::Batch::new(3);
    another.push(10_000_000_000_003, |buffer| buffer.extend_from_slice(b"another"));
    claim(&other.elected(&log)).append(&mut another).expect("appended");
    let error = refused(&node, &log);
    assert!(matches!(error, ReplicationError::CopyDiffers { part: "journal", seq: 3, .. }), "{error}");
    // Another cluster's directory, and one of a standalone hub.
    let clock: Arc<dyn Clock> = Arc::new(node.clock.clone());
    let mut settings = node.settings();
    settings.cluster = ClusterId(0xc2);
    let stops = Arc::new(AtomicBool::new(false));
    let stood = stand_by(log.node(&node.clock), node.copies(), &settings, &clock, &stops, &mut |_| {});
    assert!(matches!(stood, Err(ReplicationError::OtherCluster { found, .. }) if found == CLUSTER.0));
    // A new node of another cluster on the same log.
    let stood =
        stand_by(log.node(&node.clock), Node::new(8).copies(), &settings, &clock, &stops, &mut |_| {});
    assert!(matches!(stood, Err(ReplicationError::ForeignLog { .. })));
    let alone = Node::new(7);
    let opened =
        upesi_journal::open(Arc::new(alone.disk.clone()), Options::default()).expect("an empty disk");
    { opened.writer }.append(&mut batch(1, 1)).expect("appended");
    let error = refused(&alone, &log);
    assert!(matches!(error, ReplicationError::NotReplicated), "{error}");
}

#[test]
fn leader_with_a_full_disk_appends_nothing_twice() {
    let (log, node) = (MemoryLog::default(), Node::new(0));
    let mut appender = claim(&node.elected(&log));
    appender.append(&mut batch(1, 2)).expect("appended");
    node.disk.inject(node.disk.operations().len() as u64, DiskFault::Full);
    for _ in 0..2 {
        let error = appender.append(&mut batch(3, 2)).expect_err("no room for the copy");
        assert!(matches!(error, JournalError::Io { .. }), "it must not be tried again: {error}");
    }
    assert_eq!(kinds(&log), [EntryKind::Claim, EntryKind::Batch, EntryKind::Batch]);
    drop(appender);
    node.disk.clear_faults();
    node.follows_to(&log, 4);
    assert_eq!(node.records().len(), 4, "the log had it");
}

#[test]
fn changed_position_of_a_leader_is_written_once_a_second() {
    let (log, node) = (MemoryLog::default(), Node::new(0));
    let mut appender = claim(&node.elected(&log));
    let copied = |log: &MemoryLog| {
        let end = log.entries().len() as u64;
        let mut partition = log.node(&node.clock);
        let surveyed = survey(&mut *partition, Some(&node.disk), CLUSTER, end).expect("a sound log");
        (surveyed.0.map(|copied| copied.seq), surveyed.1.position().seq)
    };
    appender.append(&mut batch(1, 3)).expect("appended");
    assert_eq!(copied(&log), (Some(0), 3));
    appender.maintain().expect("it leads");
    assert_eq!(copied(&log), (Some(3), 3));
    appender.append(&mut batch(4, 1)).expect("appended");
    appender.maintain().expect("it leads");
    assert_eq!(copied(&log), (Some(3), 4), "a second has not passed");
    node.clock.advance(Duration::from_secs(1));
    appender.maintain().expect("it leads");
    assert_eq!(copied(&log), (Some(4), 4));
}

/// The space of the copy is reserved in advance; the space of the place is not.
#[test]
fn position_is_written_later_on_a_full_disk_and_a_failed_disk_ends_the_node() {
    let (log, node) = (MemoryLog::default(), Node::new(0));
    let mut appender = claim(&node.elected(&log));
    let place = || node.disk.contents("place").expect("a place");
    let before = place();
    for (seq, fault, goes_on) in [(1, DiskFault::Full, true), (2, DiskFault::Broken, false)] {
        appender.append(&mut batch(seq, 1)).expect("there is room for it");
        node.clock.advance(Duration::from_secs(1));
        node.disk.inject_into("place", 0, fault);
        let maintained = appender.maintain();
        assert_eq!(maintained.is_ok(), goes_on, "{fault:?}: {maintained:?}");
        node.disk.clear_faults();
        if goes_on {
            assert_eq!(place(), before, "{fault:?}");
            node.clock.advance(Duration::from_secs(1));
            appender.maintain().expect("there is room again");
            assert_ne!(place(), before, "there is room again");
        }
    }
}

#[test]
fn copy_that_lost_its_end_is_rejected() {
    let (log, [node, other]) = (MemoryLog::default(), [0, 1].map(Node::new));
    let mut appender = claim(&node.elected(&log));
    appender.append(&mut batch(1, 2)).expect("appended");
    other.follows_to(&log, 2);
    appender.append(&mut batch(3, 2)).expect("appended");
    drop(appender);
    node.follows_to(&log, 4);
    let place = node.disk.contents("place").expect("a place");
    other.disk.corrupt("place", |bytes| *bytes = place);
    match other.stand_by(&log, |_| true) {
        Err(ReplicationError::CopyTooShort { part: "journal", copy: 2, place: 4 }) => {}
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it went on without two records"),
    }
}

/// Stops a follower after this time.
struct Until {
    clock: VirtualClock,
    limit: Duration,
    stops: Arc<AtomicBool>,
}

impl Clock for Until {
    fn now(&self) -> Duration {
        let now = self.clock.now();
        self.stops.store(now >= self.limit, Ordering::Release);
        now
    }

    fn wall_ns(&self) -> i64 {
        self.clock.wall_ns()
    }
}

#[test]
fn node_without_permission_to_lead_never_claims() {
    let (log, node) = (MemoryLog::default(), Node::new(0));
    for (may_claim, entries) in [(false, 0), (true, 1)] {
        let stops = Arc::new(AtomicBool::new(false));
        let limit = node.clock.now() + Duration::from_secs(60);
        let clock: Arc<dyn Clock> =
            Arc::new(Until { clock: node.clock.clone(), limit, stops: Arc::clone(&stops) });
        let settings = NodeSettings { may_claim, ..node.settings() };
        let stood = stand_by(log.node(&node.clock), node.copies(), &settings, &clock, &stops, &mut |_| {});
        assert_eq!(matches!(stood, Ok(StandbyOutcome::Elected(_))), may_claim);
        assert_eq!(kinds(&log).iter().filter(|kind| **kind == EntryKind::Claim).count(), entries);
        // For a minute nothing happened, so nothing was written.
        let renames = node.disk.operations().iter().filter(|one| **one == Operation::Rename).count();
        assert!(renames <= 4, "{renames} files were renamed");
    }
}

#[test]
fn promoted_node_claims_at_once_even_without_permission_to_lead() {
    let (log, node) = (MemoryLog::default(), Node::new(0));
    let settings = NodeSettings { may_claim: false, ..node.settings() };
    settings.is_promoted.store(true, Ordering::Release);
    let (stops, begun) = (Arc::new(AtomicBool::new(false)), node.clock.now());
    let limit = begun + Duration::from_secs(60);
    let clock: Arc<dyn Clock> =
        Arc::new(Until { clock: node.clock.clone(), limit, stops: Arc::clone(&stops) });
    let mut leader = None;
    let mut tell = |progress: &StandbyProgress| leader = progress.position.leader.map(|(node, _)| node);
    let stood = stand_by(log.node(&node.clock), node.copies(), &settings, &clock, &stops, &mut tell);
    assert!(matches!(stood, Ok(StandbyOutcome::Elected(_))));
    assert_eq!(leader, Some(settings.node), "it was not reported");
    let silence = settings.patience.silence;
    assert!(node.clock.now() < begun + silence, "it waited for {:?}", node.clock.now() - begun);
}

#[test]
fn node_with_a_fast_clock_leaves_leadership_and_reports_it() {
    let hour = Duration::from_secs(3_600);
    let (log, node) = (MemoryLog::default(), Node::new(0));
    log.fall_behind(hour);
    let (clock, begun): (Arc<dyn Clock>, _) = (Arc::new(node.clock.clone()), node.clock.now());
    let (settings, mut told) = (node.settings(), Vec::new());
    let mut tell =
        |progress: &StandbyProgress| told.extend((!progress.ahead.is_zero()).then_some(progress.ahead));
    let partition = log.node(&node.clock);
    let stood = stand_by(partition, node.copies(), &settings, &clock, &node.stops, &mut tell);
    // The cluster has no other node.
    assert!(matches!(stood, Ok(StandbyOutcome::Elected(_))));
    assert!(node.clock.now() - begun > settings.patience.behind_silence, "{:?}", node.clock.now() - begun);
    assert_eq!(kinds(&log), [EntryKind::Claim, EntryKind::HandOver, EntryKind::Claim]);
    assert!(
        matches!(told[..], [ahead] if ahead <= hour && ahead > hour - Duration::from_secs(1)),
        "{told:?}"
    );
}

#[test]
fn copy_ahead_of_its_position_is_compared_with_the_log() {
    let (log, node) = (MemoryLog::default(), Node::new(0));
    let mut appender = claim(&node.elected(&log));
    appender.append(&mut batch(1, 2)).expect("appended");
    drop(appender);
    node.follows_to(&log, 2);
    let place = node.disk.contents("place").expect("a place");
    let mut appender = claim(&Node { life: 2, ..node.clone() }.elected(&log));
    appender.append(&mut batch(3, 4)).expect("appended");
    drop(appender);
    let set_back = |node: &Node| node.disk.corrupt("place", |bytes| bytes.clone_from(&place));
    set_back(&node);
    node.follows_to(&log, 6);
    assert_eq!(node.records().len(), 6, "nothing was written twice");
    // The fifth record of this copy differs.
    let other = Node::new(0);
    other.follows_to(&MemoryLog::of(&log.entries()[..2]), 2);
    let place = other.disk.contents("place").expect("a place");
    let rival = MemoryLog::of(&log.entries()[..2]);
    let mut rival_appender = claim(&Node { life: 3, ..other.clone() }.elected(&rival));
    rival_appender.append(&mut batch(3, 2)).expect("appended");
    let mut changed = upesi_journal::Batch::new(5);
    changed.push(10_000_000_000_005, |buffer| buffer.extend_from_slice(b"another"));
    rival_appender.append(&mut changed).expect("appended");
    drop(rival_appender);
    other.disk.corrupt("place", |bytes| bytes.clone_from(&place));
    match other.stand_by(&log, |position| position.seq >= 6) {
        Err(ReplicationError::CopyDiffers { part: "journal", seq: 5, .. }) => {}
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it went on with another record"),
    }
}

/// A node whose state has failed still follows, so that its copy stays complete.
#[test]
fn unfit_node_never_claims_even_if_promoted() {
    let (log, first, node) = (MemoryLog::default(), Node::new(0), Node::new(1));
    let mut appender = claim(&first.elected(&log));
    appender.append(&mut batch(1, 2)).expect("appended");
    drop(appender);
    let settings = node.settings();
    settings.is_promoted.store(true, Ordering::Release);
    let (stops, limit) = (Arc::new(AtomicBool::new(false)), node.clock.now() + Duration::from_secs(60));
    let clock: Arc<dyn Clock> =
        Arc::new(Until { clock: node.clock.clone(), limit, stops: Arc::clone(&stops) });
    settings.is_unfit.store(true, Ordering::Release);
    let stood = stand_by(log.node(&node.clock), node.copies(), &settings, &clock, &stops, &mut |_| {});
    assert!(matches!(stood, Ok(StandbyOutcome::Stopped)), "it leads");
    assert_eq!(
        kinds(&log).iter().filter(|kind| **kind == EntryKind::Claim).count(),
        1,
        "only the first one's"
    );
    assert_eq!(node.records().len(), 2);
}

/// The node's state fails when the node reads that its own claim was accepted. It hands leadership over, and no longer
/// claims it.
#[test]
fn node_that_becomes_unfit_during_its_election_hands_over() {
    let (log, node) = (MemoryLog::default(), Node::new(0));
    let settings = node.settings();
    let (stops, limit) = (Arc::new(AtomicBool::new(false)), node.clock.now() + Duration::from_secs(60));
    let clock: Arc<dyn Clock> =
        Arc::new(Until { clock: node.clock.clone(), limit, stops: Arc::clone(&stops) });
    let is_unfit = Arc::clone(&settings.is_unfit);
    let mut tell = |progress: &StandbyProgress| {
        if progress.position.leader.is_some() {
            is_unfit.store(true, Ordering::Release);
        }
    };
    let stood = stand_by(log.node(&node.clock), node.copies(), &settings, &clock, &stops, &mut tell);
    assert!(matches!(stood, Ok(StandbyOutcome::Stopped)), "it leads");
    let mut leads = kinds(&log);
    leads.retain(|kind| [EntryKind::Claim, EntryKind::HandOver].contains(kind));
    assert_eq!(leads, [EntryKind::Claim, EntryKind::HandOver]);
}
