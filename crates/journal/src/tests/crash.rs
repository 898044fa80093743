//! The process or the machine stops at any operation.

use crate::open;
use crate::sim_disk::script::{Script, dynamic};
use crate::sim_disk::{DiskFault, Operation, Random, SimDisk, SurvivingData};

const SCRIPTS: u64 = 10;
const OUTCOMES: u64 = 5;
/// Number of tried outcomes of a sync, because a sync can tear frames.
const OUTCOMES_OF_SYNC: u64 = 20;

fn outcomes(random: &mut Random, operation: Operation) -> Vec<SurvivingData> {
    let more = if operation == Operation::Sync { OUTCOMES_OF_SYNC } else { OUTCOMES };
    let mut outcomes = vec![SurvivingData::Everything, SurvivingData::Nothing];
    outcomes.extend((0..more).map(|_| SurvivingData::Some(random.bits())));
    outcomes
}

#[test]
fn power_loss_at_any_operation_loses_no_acknowledged_record() {
    let (mut images, mut torn) = (0_u64, 0_u64);
    for seed in 0..SCRIPTS {
        let script = Script::new(seed);
        let whole = SimDisk::new(seed);
        assert!(script.run(&whole).error.is_none(), "seed {seed}");
        let mut random = Random::new(seed);
        for (ordinal, operation) in (0_u64..).zip(whole.operations()) {
            let disk = SimDisk::new(seed);
            disk.inject(ordinal, DiskFault::Crash);
            let progress = script.run(&disk);
            assert!(progress.error.is_some());
            for kept in outcomes(&mut random, operation) {
                let _context = Context { seed, ordinal, kept };
                let after = disk.after_power_loss(kept);
                torn += u64::from(script.expect_recovered(&after, &progress).torn.is_some());
                // The recovered records are durable: the next power loss changes nothing.
                let found = script.read(&after);
                let again = after.after_power_loss(SurvivingData::Nothing);
                assert_eq!(script.read(&again).ok(), found.ok());
                images += 1;
                // The journal continues to the end.
                if images.is_multiple_of(4) {
                    assert!(script.run(&again).error.is_none());
                    script.expect_records(&again, script.last_seq());
                }
            }
        }
    }
    assert!(images > 4_000 && torn > images / 20, "{images} images, {torn} of them torn");
}

#[test]
fn a_crash_during_recovery_is_recovered_from() {
    for seed in 100..100 + SCRIPTS {
        let script = Script::new(seed);
        let mut random = Random::new(seed);
        let whole = SimDisk::new(seed);
        script.run(&whole);
        let disk = SimDisk::new(seed);
        disk.inject(random.below(whole.operations().len() as u64), DiskFault::Crash);
        let progress = script.run(&disk);
        for kept in outcomes(&mut random, Operation::Sync) {
            let after = disk.after_power_loss(kept);
            let undisturbed = after.after_power_loss(SurvivingData::Nothing);
            let expected = script.expect_recovered(&undisturbed, &progress);
            for ordinal in 0.. {
                let _context = Context { seed, ordinal, kept };
                let attempt = after.after_power_loss(SurvivingData::Nothing);
                attempt.inject(ordinal, DiskFault::Crash);
                let stopped = open(dynamic(&attempt), script.options.clone()).is_err();
                let second = attempt.after_power_loss(SurvivingData::Some(random.bits()));
                let recovered = script.expect_recovered(&second, &progress);
                assert_eq!(recovered.chain, expected.chain);
                if !stopped {
                    break;
                }
            }
        }
    }
}

#[test]
fn records_of_a_killed_process_become_durable_at_the_next_start() {
    for seed in 200..200 + SCRIPTS {
        let script = Script::new(seed);
        let whole = SimDisk::new(seed);
        script.run(&whole);
        for ordinal in 0..whole.operations().len() as u64 {
            let _context = Context { seed, ordinal, kept: SurvivingData::Everything };
            let disk = SimDisk::new(seed);
            disk.inject(ordinal, DiskFault::Crash);
            let progress = script.run(&disk);
            let after = disk.after_kill();
            let recovered = script.expect_recovered(&after, &progress);
            let later = after.after_power_loss(SurvivingData::Nothing);
            script.expect_records(&later, recovered.last_seq);
        }
    }
}

#[test]
fn simulation_is_deterministic_for_a_seed() {
    let world = |seed| {
        let script = Script::new(seed);
        let disk = SimDisk::new(seed);
        disk.inject(20 + seed, DiskFault::Crash);
        script.run(&disk);
        let after = disk.after_power_loss(SurvivingData::Some(seed));
        script.run(&after);
        (disk.fingerprint(), after.fingerprint(), after.operations().len())
    };
    for seed in 0..20 {
        assert_eq!(world(seed), world(seed), "seed {seed}");
    }
    assert_ne!(world(1), world(2));
}

/// Prints the failed case when it is dropped.
#[derive(Debug)]
struct Context {
    seed: u64,
    ordinal: u64,
    kept: SurvivingData,
}

impl Drop for Context {
    #[expect(clippy::print_stderr, reason = "the seed must reach the person who reads the failure")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with seed {}, operation {}, {:?}", self.seed, self.ordinal, self.kept);
        }
    }
}
