//! A full disk, and free space after it.

use upesi_engine::{Availability, EngineHandle};
use upesi_journal::sim_disk::{DiskFault, Operation, Random, SurvivingData};

use super::{Tally, Trial};
use crate::hub::life::Memory;
use crate::hub::scheme::onboard;
use crate::hub::verdict::judge;
use crate::hub::{HubRemains, Setup, block_on};
use crate::trials;

/// Number of times that a hub runs out of space in one life.
const SQUEEZES: u64 = 8;
/// Maximum free space during a squeeze, in bytes: from less than one burst may need, up to a few segments.
const ROOM_BYTES_MAX: u64 = 48 * 1024;
/// Bursts during and after a squeeze.
const BURSTS: u64 = 4;
/// A single operation meets a full disk. A life has about this many operations.
const ORDINALS: u64 = 200;

/// Changes are rejected and reads are answered while the disk is full. The hub continues by itself when space is free
/// again.
pub(super) const TRIAL: Trial = Trial {
    name: "disk-full",
    what: "full disks, and recoveries when space is free again",
    goal: 10_000,
    build: trials::own_build,
    run,
};

fn run(seed: u64) -> Tally {
    let mut tally = Tally::default();
    squeeze(seed, &mut tally);
    refuse_one(seed, &mut tally);
    tally
}

/// Reduces the capacity to the used space and a little more, again and again.
fn squeeze(seed: u64, tally: &mut Tally) {
    let mut random = Random::new(seed ^ 0x6675_6c6c);
    let setup = Setup::draw(&mut random);
    let remains = HubRemains::none(seed);
    let mut memory = Memory::default();
    block_on(async {
        let (engine, handle) = remains.start(&setup).expect("starts");
        onboard(&handle).await.expect("the disk has space");
        for round in 0..SQUEEZES {
            let what = format!("seed {seed}, squeeze {round}");
            remains.disk.set_capacity(remains.disk.used_bytes() + random.below(ROOM_BYTES_MAX));
            bursts(&mut memory, &handle, &mut random, &what).await;
            assert!(answers(&handle).await, "{what}: no answer while the disk is full");
            remains.disk.set_capacity(u64::MAX);
            let refused = memory.refused_full;
            bursts(&mut memory, &handle, &mut random, &what).await;
            assert_eq!(memory.refused_full, refused, "{what}: rejected although the disk has space");
            assert_eq!(handle.status().serving, Availability::Yes, "{what}");
            tally.unit("squeezes");
        }
        engine.shutdown();
    });
    tally.add("refused", memory.refused_full);
    tally.add("acknowledged", memory.acknowledged);
    for kept in [SurvivingData::Nothing, SurvivingData::Some(seed)] {
        judge(&remains.after_power_loss(kept), &setup, &memory, &format!("seed {seed}, squeezed, {kept:?}"));
    }
}

/// One operation, chosen at random, finds no space.
fn refuse_one(seed: u64, tally: &mut Tally) {
    let mut random = Random::new(seed ^ 0x6f6e_6521);
    let setup = Setup::draw(&mut random);
    let remains = HubRemains::none(seed);
    let ordinal = random.below(ORDINALS);
    remains.disk.inject(ordinal, DiskFault::Full);
    let mut memory = Memory::default();
    block_on(async {
        let Ok((engine, handle)) = remains.start(&setup) else { return };
        // If it is rejected once, an operator repeats it.
        if onboard(&handle).await.is_ok() || onboard(&handle).await.is_ok() {
            for _ in 0..2 * BURSTS {
                memory.burst(&handle, &mut random).await;
            }
        }
        engine.shutdown();
    });
    let Some(operation) = remains.disk.operations().get(ordinal as usize).copied() else { return };
    let what = format!("seed {seed}, no space for {operation:?} at operation {ordinal}");
    // A sync that fails for lack of space is a failed sync. A write into allocated space fails for lack of space on
    // copy-on-write file systems only. Then the decisions cannot be recorded, and the engine stops.
    let may_stop = matches!(operation, Operation::Sync | Operation::SyncDirectory | Operation::Write);
    assert!(may_stop || memory.refused_stopped == 0, "{what}: the engine stopped");
    tally.unit("single operations");
    tally.add("stops", u64::from(memory.refused_stopped > 0));
    for kept in [SurvivingData::Nothing, SurvivingData::Some(seed)] {
        judge(&remains.after_power_loss(kept), &setup, &memory, &format!("{what}, {kept:?}"));
    }
}

async fn bursts(memory: &mut Memory, handle: &EngineHandle, random: &mut Random, what: &str) {
    for _ in 0..BURSTS {
        assert!(memory.burst(handle, random).await, "{what}: the engine stopped");
    }
}

async fn answers(handle: &EngineHandle) -> bool {
    handle.read(|ledger| ledger.last_seq()).await.is_ok_and(|seq| seq > 0)
}
