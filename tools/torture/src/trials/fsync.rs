//! Failing syncs.

use upesi_engine::{StartError, StopReason};
use upesi_journal::JournalError;
use upesi_journal::sim_disk::{DiskFault, Operation, Random, SurvivingData};

use super::{Tally, Trial};
use crate::hub::life::Memory;
use crate::hub::verdict::judge;
use crate::hub::{HubRemains, Setup, block_on};
use crate::trials;

const BURSTS: u64 = 12;
/// Number of syncs of one life that fail, one in each repetition.
const FAILURES: u64 = 4;
/// Number of bursts that are sent to a hub that has stopped.
const BURSTS_AFTER: u64 = 3;

/// No acknowledgement follows the first failed sync. No data of that sync is used, and the sync is not repeated.
pub(super) const TRIAL: Trial = Trial {
    name: "fsync",
    what: "failed syncs without an acknowledgement after the first",
    goal: 10_000,
    build: trials::own_build,
    run,
};

fn run(seed: u64) -> Tally {
    let mut tally = Tally::default();
    let mut random = Random::new(seed ^ 0x6673_796e);
    // Either one batch follows the other, or the engine works as in a real hub: with a second thread that writes, and
    // with snapshots and removals at the same time.
    let is_orderly = seed.is_multiple_of(2);
    let setup = if is_orderly { Setup::orderly(&mut random) } else { Setup::draw(&mut random) };
    let whole = HubRemains::none(seed);
    live(&whole, &setup, seed);
    let operations = whole.disk.operations();
    let syncs: Vec<usize> = (0..operations.len()).filter(|place| is_sync(&operations[*place])).collect();
    for _ in 0..FAILURES {
        let ordinal = syncs[random.below(syncs.len() as u64) as usize] as u64;
        fail(seed, &setup, is_orderly, ordinal, &mut random, &mut tally);
    }
    tally
}

const fn is_sync(operation: &Operation) -> bool {
    matches!(operation, Operation::Sync | Operation::SyncDirectory)
}

fn fail(seed: u64, setup: &Setup, is_orderly: bool, ordinal: u64, random: &mut Random, tally: &mut Tally) {
    let what = format!("seed {seed}, sync at operation {ordinal}");
    let remains = HubRemains::none(seed);
    remains.disk.inject(ordinal, DiskFault::Broken);
    let lived = live(&remains, setup, seed);
    if !remains.disk.operations().get(ordinal as usize).is_some_and(is_sync) {
        // The batches differed this time: the operation was not reached, or it was another one.
        return;
    }
    match &lived.end {
        // The process also turns these errors into exit code 74: `crates/node/src/error.rs`.
        HubEnd::NotStarted(StartError::Journal(JournalError::Io { .. })) => tally.add("at the start", 1),
        HubEnd::NotStarted(other) => panic!("{what}: the engine does not start because {other}"),
        HubEnd::Stopped(StopReason::Journal(_)) => {
            assert_eq!(lived.acknowledged_later, 0, "{what}: acknowledged after a failed sync");
            tally.add("under load", 1);
        }
        // A snapshot failed while the engine runs. The engine may acknowledge journalled commands until it learns of
        // the failure.
        HubEnd::Stopped(StopReason::Archive(_)) if !is_orderly => {
            assert_eq!(lived.acknowledged_later, 0, "{what}: acknowledged after the engine had stopped");
            tally.add("of a snapshot", 1);
        }
        HubEnd::Lived { reason: StopReason::Journal(_), .. } => tally.add("at the end", 1),
        HubEnd::Lived { reason: StopReason::Archive(_), .. } if !is_orderly => tally.add("at the end", 1),
        // The archivist's last snapshot failed; the journal has everything. If the archivist writes other snapshots in
        // the meantime, one of them may fail at the moment of the end. If a sync of the journal had failed, the
        // commands acknowledged after it would be missing below.
        HubEnd::Lived { reason: StopReason::Shutdown, operations } => {
            let is_at_the_end = ordinal >= *operations || !is_orderly;
            assert!(is_at_the_end, "{what}: the failure was not detected, and the engine continued");
            tally.add("at the end", 1);
        }
        HubEnd::Lived { reason, .. } => panic!("{what}: the engine ended because {reason}"),
        HubEnd::Stopped(other) => panic!("{what}: the engine stopped because {other}"),
    }
    tally.add(Tally::UNITS, 1);
    tally.add(if is_orderly { "one batch after the other" } else { "with threads in between" }, 1);
    tally.add("acknowledged before", lived.memory.acknowledged);
    let seen = random.bits();
    for (how, image) in [
        ("killed", remains.after_kill()),
        ("nothing kept", remains.after_power_loss(SurvivingData::Nothing)),
        ("some kept", remains.after_power_loss(SurvivingData::Some(seen))),
    ] {
        judge(&image, setup, &lived.memory, &format!("{what}, {how}"));
    }
}

enum HubEnd {
    NotStarted(StartError),
    Stopped(StopReason),
    /// The engine was shut down for this reason, after this many operations of its disk.
    Lived {
        reason: StopReason,
        operations: u64,
    },
}

struct HubLife {
    memory: Memory,
    /// Answers with success after the engine had stopped.
    acknowledged_later: u64,
    end: HubEnd,
}

/// Runs a life. The same seed produces the same life.
fn live(remains: &HubRemains, setup: &Setup, seed: u64) -> HubLife {
    let mut random = Random::new(!seed);
    let mut memory = Memory::default();
    let (acknowledged_later, end) = block_on(async {
        let (engine, handle) = match remains.start(setup) {
            Ok(started) => started,
            Err(error) => return (0, HubEnd::NotStarted(error)),
        };
        if memory.live(&handle, &mut random, BURSTS).await {
            let operations = remains.disk.operations().len() as u64;
            engine.shutdown();
            return (0, HubEnd::Lived { reason: handle.stopped().await, operations });
        }
        let reason = handle.stopped().await;
        let before = memory.acknowledged;
        for _ in 0..BURSTS_AFTER {
            memory.burst(&handle, &mut random).await;
        }
        engine.shutdown();
        (memory.acknowledged - before, HubEnd::Stopped(reason))
    });
    HubLife { memory, acknowledged_later, end }
}
