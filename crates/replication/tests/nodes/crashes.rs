//! Power losses of nodes at any moment: the copies come back to what the log accepted.

use upesi_journal::sim_disk::{Fault, Kept};

use crate::support::{Fate, MemoryLog, Node, batch, claim};

/// Seeds of the test; each is one life after another of two nodes.
const SEEDS: u64 = 40;

#[test]
fn copies_come_back_to_what_was_accepted() {
    let mut losses = 0;
    for seed in 0..SEEDS {
        let log = MemoryLog::default();
        let mut nodes = [0, 1].map(Node::new);
        let mut answered = 0;
        for life in 1..5_u64 {
            let draw = seed * 31 + life * 7;
            let leader = (draw % 2) as usize;
            nodes[leader].life = life;
            // The disk fails at some operation of this life.
            nodes[leader].disk.inject(draw % 90, Fault::Crash);
            let fates = [Fate::Sound, Fate::Unacknowledged, Fate::Twice, Fate::Lost];
            log.fate(&[fates[(draw % 4) as usize], fates[(draw / 4 % 4) as usize]]);
            let led = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                nodes[leader].stand_by(&log, |_| false)
            }));
            if let Ok(Ok(upesi_replication::Stood::Elected(journal))) = led {
                let mut appender = claim(&journal);
                let mut next_seq = nodes[leader].records().len() as u64 + 1;
                assert!(next_seq > answered, "seed {seed}: record {answered} was answered and is not there");
                for count in 1..6 {
                    if appender.append(&mut batch(next_seq, count)).is_err() {
                        break;
                    }
                    next_seq += count;
                    answered = next_seq - 1;
                }
            }
            losses += 1;
            nodes[leader].disk = nodes[leader].disk.after_power_loss(Kept::Some(draw));
        }
        let total = nodes.each_mut().map(|node| {
            node.life = 9;
            node.disk.clear_faults();
            drop(node.elected(&log));
            node.records().len() as u64
        });
        assert!(
            total.iter().all(|records| *records >= answered),
            "seed {seed}: {answered} answered, {total:?} there"
        );
        assert_eq!(nodes[0].records(), nodes[1].records(), "seed {seed}");
    }
    assert_eq!(losses, 4 * SEEDS);
}
