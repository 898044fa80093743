//! Leader and follower, step by step.

use alloc::sync::Arc;
use core::time::Duration;

use super::{CLUSTER, claim};
use crate::Append;
use crate::entry::{EntryKind, LogEntry, NodeId, Records, Times};
use crate::fold::{LogFold, Position};
use crate::leader::{Leader, Next, Stop};
use crate::standby::{EndLost, NodeRole, Standby, StandbyTimeouts};

const NOW: Duration = Duration::from_secs(100);
const PATIENCE: StandbyTimeouts = StandbyTimeouts::of_rank(0);

fn standby(node: u32) -> Standby {
    let fold = LogFold::new(CLUSTER, Position::START);
    let mut standby = Standby::new(fold, NodeId(node), claim(), PATIENCE, NOW);
    standby.permit_claims();
    standby
}

/// A node that is the leader from the first entry on, and the bytes of its claim.
fn leader() -> (Leader, Arc<[u8]>) {
    let mut standby = standby(1);
    let bytes = standby.claim(1).bytes;
    let (NodeRole::Leader(leader), _) = standby.read(0, &bytes, None, NOW) else {
        panic!("the claim was refused")
    };
    (leader, bytes)
}

fn records(ns: i64) -> Records<'static> {
    Records { count: 2, times: Times { first_ns: ns, last_ns: ns + 1 }, bytes: b"two records" }
}

#[test]
fn acknowledgement_is_valid_only_without_an_entry_in_between() {
    let (mut leader, _) = leader();
    let append = leader.append(records(10));
    assert_eq!(leader.acknowledged(append.tag, 1, NOW), Next::Accepted);
    assert_eq!((leader.fold().position().seq, leader.is_busy()), (2, false));
    let append = leader.append(records(20));
    assert_eq!(leader.acknowledged(append.tag, 4, NOW), Next::Read { from: 2, to: 4 });
    assert_eq!(leader.read(2, b"not an entry", NOW), Next::Read { from: 3, to: 4 });
    assert_eq!(
        leader.acknowledged(append.tag, 9, NOW),
        Next::Read { from: 3, to: 4 },
        "a second copy, further on"
    );
    assert_eq!(leader.read(3, b"", NOW), Next::Read { from: 4, to: 4 });
    assert_eq!(leader.read(4, &append.bytes, NOW), Next::Accepted);
    assert_eq!(leader.acknowledged(append.tag, 9, NOW), Next::Wait, "the second copy is ignored");
}

#[test]
fn unknown_outcome_is_retried_with_the_same_bytes() {
    let (mut leader, _) = leader();
    let first = leader.append(records(10));
    let Next::Append(second) = leader.unknown(first.tag) else { panic!("not tried again") };
    assert_eq!(second.bytes, first.bytes);
    assert_ne!(second.tag, first.tag);
    assert_eq!(leader.unknown(first.tag), Next::Wait, "the newest attempt decides");
    // The first attempt did arrive, and the second one is after it.
    assert_eq!(leader.acknowledged(second.tag, 2, NOW), Next::Read { from: 1, to: 2 });
    assert_eq!(leader.unknown(second.tag), Next::Wait, "it is being read back");
    assert_eq!(leader.read(1, &first.bytes, NOW), Next::Accepted);
}

#[test]
fn superseded_leader_learns_it_from_the_log() {
    let (mut leader, bytes) = leader();
    let NodeRole::Standby(mut other) = standby(2).read(0, &bytes, None, NOW).0 else { panic!("led at once") };
    let claim = other.claim(30);
    let append = leader.append(records(10));
    assert_eq!(leader.acknowledged(append.tag, 2, NOW), Next::Read { from: 1, to: 2 });
    assert_eq!(leader.read(1, &claim.bytes, NOW), Next::Superseded);
    let standby = Standby::after(leader, super::claim(), PATIENCE, NOW);
    assert_eq!(standby.fold().position().leader.map(|(node, _)| node), Some(NodeId(2)));
    let (role, _) = standby.read(2, &append.bytes, None, NOW);
    let NodeRole::Standby(standby) = role else { panic!("it leads by an entry that is void") };
    assert_eq!(standby.fold().position().seq, 0, "its own entry is void");
}

#[test]
fn truncated_or_different_log_stops_the_leader() {
    let (mut leader, _) = leader();
    let append = leader.append(records(10));
    let lost = Stop::TailLost { offset: 0, accepted: 0 };
    assert_eq!(leader.acknowledged(append.tag, 0, NOW), Next::Stop(lost));
    let (mut leader, _) = self::leader();
    let append = leader.append(records(10));
    assert_eq!(leader.acknowledged(append.tag, 2, NOW), Next::Read { from: 1, to: 2 });
    assert_eq!(leader.read(1, b"", NOW), Next::Read { from: 2, to: 2 });
    assert_eq!(leader.read(2, b"another entry", NOW), Next::Stop(Stop::NotThere(2)));
}

#[test]
fn idle_leader_sends_heartbeats() {
    let (mut leader, _) = leader();
    let due = NOW + Duration::from_millis(300);
    assert!(!leader.is_beat_due(due - Duration::from_nanos(1)));
    assert!(leader.is_beat_due(due));
    let beat = leader.beat(-50);
    assert!(!leader.is_beat_due(due), "one is on its way");
    let entry = LogEntry::decode(&beat.bytes).expect("an entry");
    assert_eq!((entry.kind, entry.times, entry.count), (EntryKind::Beat, Times::at(-50), 0));
    assert_eq!(leader.acknowledged(beat.tag, 1, due), Next::Accepted);
    assert!(!leader.is_beat_due(due + Duration::from_millis(299)));
}

#[test]
fn successor_of_a_handover_claims_without_waiting() {
    let (mut leader, bytes) = leader();
    let hand_over = leader.hand_over(NodeId(2), 10);
    let [mut named, mut other] = [2, 3].map(|node| {
        let NodeRole::Standby(standby) = standby(node).read(0, &bytes, None, NOW).0 else {
            panic!("led at once")
        };
        let NodeRole::Standby(standby) = standby.read(1, &hand_over.bytes, None, NOW).0 else {
            panic!("led at once")
        };
        standby
    });
    assert_eq!(leader.acknowledged(hand_over.tag, 1, NOW), Next::HandedOver);
    assert!(named.asks_for_end(NOW) && !other.asks_for_end(NOW));
    let claim = named.end(Some(2), NOW, 20).unwrap().expect("a claim");
    let (NodeRole::Leader(leader), _) = named.read(2, &claim.bytes, None, NOW) else {
        panic!("the claim was refused")
    };
    assert_eq!(leader.fold().position().epoch, 2);
}

/// A leader that handed over to `successor`, and followers with these ranks that have read it.
fn handed_over(successor: NodeId, ranks: [u32; 2]) -> (Standby, [Standby; 2]) {
    let (mut leader, bytes) = leader();
    let hand_over = leader.hand_over(successor, 10);
    let standbys = [2, 3].map(|node| {
        let fold = LogFold::new(CLUSTER, Position::START);
        let patience = StandbyTimeouts::of_rank(ranks[node as usize - 2]);
        let mut standby = Standby::new(fold, NodeId(node), claim(), patience, NOW);
        standby.permit_claims();
        let NodeRole::Standby(standby) = standby.read(0, &bytes, None, NOW).0 else { panic!("led at once") };
        let NodeRole::Standby(standby) = standby.read(1, &hand_over.bytes, None, NOW).0 else {
            panic!("led at once")
        };
        standby
    });
    assert_eq!(leader.acknowledged(hand_over.tag, 1, NOW), Next::HandedOver);
    (Standby::after(leader, claim(), PATIENCE, NOW), standbys)
}

#[test]
fn handover_to_any_node_calls_the_other_nodes_by_rank() {
    let (mut former, [mut second, mut third]) = handed_over(NodeId::ANY, [1, 2]);
    let turn = Duration::from_millis(25);
    assert!(!second.asks_for_end(NOW + turn - Duration::from_nanos(1)));
    assert!(second.asks_for_end(NOW + turn) && !third.asks_for_end(NOW + turn));
    assert!(third.asks_for_end(NOW + 2 * turn) && !former.asks_for_end(NOW + 2 * turn));
    assert!(former.asks_for_end(NOW + PATIENCE.silence), "no node has claimed");
}

#[test]
fn called_node_claims_once_and_then_only_after_silence() {
    let (_, [mut named, mut other]) = handed_over(NodeId(2), [0, 1]);
    // The node is behind, or cannot reach the log: it asks again.
    for end in [Some(3), None] {
        assert!(named.asks_for_end(NOW));
        assert_eq!(named.end(end, NOW, 20), Ok(None));
    }
    assert!(named.asks_for_end(NOW));
    let claim = named.end(Some(2), NOW, 20).unwrap().expect("a claim");
    assert!(!named.asks_for_end(NOW + PATIENCE.silence - Duration::from_nanos(1)), "its claim is on its way");
    assert!(named.asks_for_end(NOW + PATIENCE.silence), "it was lost");
    // The named node has stopped, so the other nodes wait as long as usual.
    let silence = StandbyTimeouts::of_rank(1).silence;
    assert!(!other.asks_for_end(NOW + silence - Duration::from_nanos(1)));
    assert!(other.asks_for_end(NOW + silence));
    let later = other.end(Some(2), NOW + silence, 30).unwrap().expect("a claim");
    let (NodeRole::Leader(_), _) = other.read(2, &later.bytes, None, NOW) else {
        panic!("the claim was refused")
    };
    let NodeRole::Standby(named) = named.read(2, &later.bytes, None, NOW).0 else { panic!("two lead") };
    let NodeRole::Standby(named) = named.read(3, &claim.bytes, None, NOW).0 else {
        panic!("its claim is void")
    };
    assert_eq!(named.fold().position().leader.map(|(node, _)| node), Some(NodeId(3)));
}

#[test]
fn silence_is_measured_only_with_a_reachable_and_read_log() {
    let late = NOW + PATIENCE.silence;
    let mut node = standby(1);
    assert!(!node.asks_for_end(late - Duration::from_nanos(1)));
    assert!(node.asks_for_end(late));
    assert!(!node.asks_for_end(late), "the end was queried");
    assert_eq!(node.end(None, late, 0), Ok(None));
    assert!(!node.asks_for_end(late), "the silence begins again");
    let later = late + PATIENCE.silence;
    assert!(node.asks_for_end(later));
    assert_eq!(node.end(Some(3), later, 0), Ok(None), "there is something to read");
    assert!(node.asks_for_end(later));
    assert!(node.end(Some(0), later, 0).unwrap().is_some());
    assert!(!node.asks_for_end(later), "one claim per silence");
    assert_eq!(node.end(Some(0), later, 0), Ok(None), "no node has requested the end");
}

#[test]
fn node_without_permission_or_with_a_slow_clock_does_not_claim() {
    let (mut leader, bytes) = leader();
    let append = leader.append(records(10));
    let late = NOW + PATIENCE.silence;
    let mut fresh = Standby::new(LogFold::new(CLUSTER, Position::START), NodeId(1), claim(), PATIENCE, NOW);
    assert!(!fresh.asks_for_end(late), "the log may have lost its end while it was away");
    fresh.permit_claims();
    assert!(fresh.asks_for_end(late));
    // The last record's time is 11 ns.
    let behind_ns = 11 - i64::try_from(PATIENCE.behind_max.as_nanos()).expect("seconds");
    for (clock_ns, may) in [(behind_ns, true), (behind_ns - 1, false)] {
        let NodeRole::Standby(node) = standby(2).read(0, &bytes, None, NOW).0 else { panic!("led at once") };
        let NodeRole::Standby(mut node) = node.read(1, &append.bytes, None, NOW).0 else {
            panic!("led at once")
        };
        assert!(node.asks_for_end(late));
        assert_eq!(node.end(Some(2), late, clock_ns).unwrap().is_some(), may, "{clock_ns}");
    }
}

/// A leader's clock was an hour ahead, an operator accepted that, and the clock was corrected. Then the clocks of all
/// nodes are behind the last record.
#[test]
fn node_with_a_slow_clock_claims_if_no_other_node_does() {
    let (mut leader, bytes) = leader();
    let append = leader.append(records(10));
    let NodeRole::Standby(node) = standby(2).read(0, &bytes, None, NOW).0 else { panic!("led at once") };
    let NodeRole::Standby(mut node) = node.read(1, &append.bytes, None, NOW).0 else { panic!("led at once") };
    let behind_ns = i64::MIN / 2;
    let mut now = NOW;
    let mut wait = |node: &mut Standby, end, until: Duration| {
        while now < until {
            now += PATIENCE.silence;
            if node.asks_for_end(now) && node.end(end, now, behind_ns).unwrap().is_some() {
                return Some(now);
            }
        }
        None
    };
    // While the log cannot be reached, other nodes may be leading there.
    assert_eq!(wait(&mut node, None, NOW + PATIENCE.behind_silence * 2), None);
    let reached = NOW + PATIENCE.behind_silence * 2;
    let claimed = wait(&mut node, Some(2), reached * 2).expect("a claim");
    let silence = claimed - reached;
    assert!(silence >= PATIENCE.behind_silence && silence < PATIENCE.behind_silence + 2 * PATIENCE.silence);
}

#[test]
fn only_accepted_entries_end_the_silence() {
    let (mut leader, bytes) = leader();
    let read_at = NOW + Duration::from_secs(1);
    let NodeRole::Standby(node) = standby(2).read(0, &bytes, None, read_at).0 else { panic!("led at once") };
    let beat = leader.beat(10);
    let NodeRole::Standby(node) = node.read(1, &beat.bytes, None, read_at * 2).0 else {
        panic!("led at once")
    };
    let NodeRole::Standby(mut node) = node.read(2, &beat.bytes, None, read_at * 3).0 else {
        panic!("led at once")
    };
    let late = read_at * 2 + PATIENCE.silence;
    assert!(!node.asks_for_end(late - Duration::from_nanos(1)));
    assert!(node.asks_for_end(late));
}

#[test]
fn node_leads_only_by_a_claim_of_its_current_run() {
    let mut node = standby(1);
    let [older, newer] = [1, 2].map(|ns| node.claim(ns));
    assert_ne!(older.tag, newer.tag);
    let NodeRole::Standby(again) = standby(1).read(0, &older.bytes, None, NOW).0 else {
        panic!("it leads by a claim of its former life")
    };
    assert_eq!(again.fold().position().epoch, 1);
    let (NodeRole::Leader(mut leader), _) = node.read(0, &older.bytes, None, NOW) else {
        panic!("its own claim was accepted, and it does not lead")
    };
    // Tags continue, so that an answer to an earlier attempt is not assigned to a later one.
    let append = leader.append(records(10));
    assert!(append.tag > newer.tag);
    assert_eq!(leader.acknowledged(newer.tag, 1, NOW), Next::Wait, "the claim's, not the entry's");
    let mut standby = Standby::after(leader, claim(), PATIENCE, NOW);
    assert!(standby.claim(20).tag > append.tag);
}

#[test]
fn new_claim_ends_the_permission_of_a_handover() {
    let (mut leader, bytes) = leader();
    let hand_over = leader.hand_over(NodeId(2), 10);
    let read = |node, offset, bytes: &[u8]| {
        let NodeRole::Standby(node) = Standby::read(node, offset, bytes, None, NOW).0 else {
            panic!("led at once")
        };
        node
    };
    let mut third = read(read(standby(3), 0, &bytes), 1, &hand_over.bytes);
    let claim = third.claim(20);
    let mut named = read(read(standby(2), 0, &bytes), 1, &hand_over.bytes);
    assert!(named.fold().is_left_to(NodeId(2)) && !named.fold().is_left_to(NodeId(3)));
    named = read(named, 2, &claim.bytes);
    assert!(!named.fold().is_left_to(NodeId(2)));
    assert!(!named.asks_for_end(NOW));
}

#[test]
fn nodes_wait_in_the_order_of_their_ranks() {
    let silence = [0, 1, 2].map(|rank| StandbyTimeouts::of_rank(rank).silence.as_millis());
    assert_eq!(silence, [2_000, 2_300, 2_600]);
}

/// Nothing was accepted for long enough since the start.
const SILENT: Duration = NOW.saturating_add(PATIENCE.silence);

/// The log's clock, with this node's clock ahead by this much.
fn by_log(ahead: Duration) -> Option<i64> {
    Some(1_000 - i64::try_from(ahead.as_nanos()).unwrap())
}

/// Claims leadership after silence. Returns the claim, and the node's role when the log has it.
fn claims(mut node: Standby, offset: u64, now: Duration, ahead: Duration) -> (Append, NodeRole) {
    assert!(node.asks_for_end(now));
    let claim = node.end(Some(offset), now, 1_000).unwrap().expect("a claim");
    let role = node.read(offset, &claim.bytes, by_log(ahead), now).0;
    (claim, role)
}

/// A node that leaves the leadership to others, and its entry for this.
fn left(role: NodeRole, ahead: Duration) -> (Standby, Append) {
    let NodeRole::Standby(mut node) = role else { panic!("it leads") };
    let found = node.take_ahead().expect("it is ahead");
    assert_eq!((found.by, node.take_ahead()), (ahead, None));
    (node, found.hand_over)
}

#[test]
fn node_with_a_fast_clock_leaves_the_leadership_to_others() {
    let ahead = Duration::from_secs(3_600);
    let (claim, role) = claims(standby(1), 0, SILENT, ahead);
    let (mut node, hand_over) = left(role, ahead);
    // The handover calls any other node at once, but not the node whose clock is ahead.
    let other = standby(2).read(0, &claim.bytes, None, SILENT).0;
    let NodeRole::Standby(other) = other else { panic!("led at once") };
    let NodeRole::Standby(mut other) = other.read(1, &hand_over.bytes, None, SILENT).0 else { panic!() };
    assert!(other.asks_for_end(SILENT));
    let NodeRole::Standby(read) = node.read(1, &hand_over.bytes, None, SILENT).0 else { panic!() };
    node = read;
    let later = SILENT + PATIENCE.silence;
    assert!(node.asks_for_end(later));
    assert_eq!(node.end(Some(2), later, 1_000), Ok(None));

    // The other node becomes leader: from then on everything begins again.
    let next = other.end(Some(2), SILENT, 1_000).unwrap().unwrap();
    let NodeRole::Leader(mut leader) = other.read(2, &next.bytes, by_log(Duration::ZERO), later).0 else {
        panic!()
    };
    let NodeRole::Standby(read) = node.read(2, &next.bytes, None, later).0 else { panic!() };
    let beat = leader.beat(5);
    let NodeRole::Standby(read) = read.read(3, &beat.bytes, None, later).0 else { panic!() };
    let (_, role) = claims(read, 4, later + PATIENCE.silence, ahead);
    left(role, ahead);
}

#[test]
fn node_with_a_fast_clock_leads_if_no_other_node_does() {
    let ahead = Duration::from_millis(2_001);
    let (_, role) = claims(standby(1), 0, SILENT, ahead);
    let (node, hand_over) = left(role, ahead);
    let NodeRole::Standby(node) = node.read(1, &hand_over.bytes, None, SILENT).0 else { panic!() };
    let (_, role) = claims(node, 2, SILENT + PATIENCE.behind_silence, ahead);
    assert!(matches!(role, NodeRole::Leader(_)), "{role:?}");
}

#[test]
fn small_lead_of_the_clock_is_accepted() {
    for (ahead, leads) in [(0, true), (2_000, true), (2_001, false)] {
        let (_, role) = claims(standby(1), 0, SILENT, Duration::from_millis(ahead));
        assert_eq!(matches!(role, NodeRole::Leader(_)), leads, "{ahead} ms");
    }
    // The log does not report its time.
    let mut node = standby(1);
    assert!(node.asks_for_end(SILENT));
    let claim = node.end(Some(0), SILENT, i64::MAX).unwrap().unwrap();
    assert!(matches!(node.read(0, &claim.bytes, None, SILENT).0, NodeRole::Leader(_)));
}

/// A claim there would continue entries that the log does not have.
#[test]
fn log_that_ends_before_the_read_position_is_an_error() {
    let (_, bytes) = leader();
    let NodeRole::Standby(mut node) = standby(2).read(0, &bytes, None, NOW).0 else { panic!("led at once") };
    let late = NOW + PATIENCE.silence;
    assert!(node.asks_for_end(late));
    assert_eq!(node.end(Some(0), late, 0), Err(EndLost { end: 0, read: 1 }));
    assert!(!node.asks_for_end(late), "one question per silence");
    // The broker was behind.
    let later = late + PATIENCE.silence;
    assert!(node.asks_for_end(later));
    assert!(node.end(Some(1), later, 0).unwrap().is_some());
}

#[test]
fn withdrawn_node_no_longer_claims_and_hands_over_a_late_leadership() {
    let late = NOW + PATIENCE.silence;
    let mut node = standby(1);
    assert!(node.asks_for_end(late));
    let claim = node.end(Some(0), late, 1_000).unwrap().expect("a claim");
    node.withdraw();
    node.permit_claims();
    assert!(!node.asks_for_end(late + 10 * PATIENCE.silence));
    // Its earlier claim is accepted.
    let role = node.read(0, &claim.bytes, by_log(Duration::ZERO), late).0;
    let (node, hand_over) = left(role, Duration::ZERO);
    let NodeRole::Standby(mut node) = node.read(1, &hand_over.bytes, None, late).0 else {
        panic!("it leads")
    };
    assert!(!node.asks_for_end(late + 20 * PATIENCE.silence), "it stays withdrawn");
    // The handover calls another node at once.
    let NodeRole::Standby(other) = standby(2).read(0, &claim.bytes, None, late).0 else {
        panic!("led at once")
    };
    let NodeRole::Standby(mut other) = other.read(1, &hand_over.bytes, None, late).0 else {
        panic!("led at once")
    };
    assert!(other.asks_for_end(late));
}
