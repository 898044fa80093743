//! Power losses of nodes at any moment: the copies return to the accepted records of the log.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use upesi_cluster::EntryKind;
use upesi_journal::sim_disk::{DiskFault, SimDisk, SurvivingData};
use upesi_replication::{Clock, ReplicationError, StandbyProgress, stand_by};

use super::{Until, kinds};
use crate::support::{Fate, MemoryLog, Node, batch, claim};

/// Seeds of the test. Each is a sequence of lives of two nodes.
const SEEDS: u64 = 40;

#[test]
fn copies_return_to_the_accepted_records() {
    let (mut losses, mut changes) = (0, 0);
    for seed in 0..SEEDS {
        let log = MemoryLog::default();
        let mut nodes = [0, 1].map(Node::new);
        let (mut answered, mut store_answered) = (0, 0);
        for life in 1..5_u64 {
            let draw = seed * 31 + life * 7;
            let leader = (draw % 2) as usize;
            nodes[leader].life = life;
            // A disk fails at some operation of this life.
            let disk = if draw % 3 == 0 { &nodes[leader].store } else { &nodes[leader].disk };
            disk.inject(draw % 90, DiskFault::Crash);
            let fates = [Fate::Sound, Fate::Unacknowledged, Fate::Twice, Fate::Lost];
            log.fate(&[fates[(draw % 4) as usize], fates[(draw / 4 % 4) as usize]]);
            let led = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                nodes[leader].stand_by(&log, |_| false)
            }));
            if let Ok(Ok(upesi_replication::StandbyOutcome::Elected(journal))) = led {
                let store = journal.store().expect("not claimed");
                assert!(
                    store.last_seq >= store_answered,
                    "seed {seed}: change {store_answered} was answered and is not there"
                );
                let (mut of_store, mut store_seq) = (store.appender, store.last_seq + 1);
                let mut appender = claim(&journal);
                let mut next_seq = nodes[leader].records().len() as u64 + 1;
                assert!(next_seq > answered, "seed {seed}: record {answered} was answered and is not there");
                for count in 1..6 {
                    if appender.append(&mut batch(next_seq, count)).is_err() {
                        break;
                    }
                    next_seq += count;
                    answered = next_seq - 1;
                    if of_store.append(&mut batch(store_seq, 1)).is_err() {
                        break;
                    }
                    store_answered = store_seq;
                    store_seq += 1;
                }
            }
            losses += 1;
            let lost = |disk: &SimDisk| disk.after_power_loss(SurvivingData::Some(draw));
            (nodes[leader].disk, nodes[leader].store) =
                (lost(&nodes[leader].disk), lost(&nodes[leader].store));
        }
        let total = nodes.each_mut().map(|node| {
            node.life = 9;
            node.disk.clear_faults();
            node.store.clear_faults();
            drop(node.elected(&log));
            (node.records().len() as u64, node.store_records().len() as u64)
        });
        assert!(
            total.iter().all(|(records, changes)| *records >= answered && *changes >= store_answered),
            "seed {seed}: {answered} and {store_answered} answered, {total:?} there"
        );
        assert_eq!(nodes[0].records(), nodes[1].records(), "seed {seed}");
        assert_eq!(nodes[0].store_records(), nodes[1].store_records(), "seed {seed}");
        changes += total[0].1;
    }
    assert_eq!(losses, 4 * SEEDS);
    assert!(changes > SEEDS, "only {changes} changes of the store");
}

/// While brokers elect a leader, their answer may be outdated. A permanent loss is an error, and no node claims
/// leadership.
#[test]
fn truncated_log_stops_a_follower_without_a_claim() {
    let (log, first, node) = (MemoryLog::default(), Node::new(0), Node::new(1));
    let mut appender = claim(&first.elected(&log));
    appender.append(&mut batch(1, 2)).expect("appended");
    appender.append(&mut batch(3, 2)).expect("appended");
    drop(appender);
    let whole = log.entries().len();
    let (stops, limit) = (Arc::new(AtomicBool::new(false)), node.clock.now() + Duration::from_secs(60));
    let clock: Arc<dyn Clock> =
        Arc::new(Until { clock: node.clock.clone(), limit, stops: Arc::clone(&stops) });
    let mut tell = |progress: &StandbyProgress| {
        if progress.position.seq == 4 {
            log.truncate(whole - 1);
        }
    };
    let partition = log.node(&node.clock);
    let stood = stand_by(partition, node.copies(), &node.settings(), &clock, &stops, &mut tell);
    let Err(error) = stood else { panic!("it stood by") };
    let told = "the log ends at offset 2, but everything before offset 3 was read: its end was lost";
    assert!(matches!(error, ReplicationError::EndLost { .. }) && error.to_string().contains(told), "{error}");
    assert_eq!(
        kinds(&log).iter().filter(|kind| **kind == EntryKind::Claim).count(),
        1,
        "only the first one's"
    );
}
