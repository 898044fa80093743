//! A check that cannot fail is a defect: hubs and journals that break a promise on purpose are found out.

use std::panic::{AssertUnwindSafe, catch_unwind};

use upesi_journal::sim_disk::{Fault, Kept, Random};
use upesi_ledger::PublicState;
use upesi_torture::hub::life::{Known, Memory};
use upesi_torture::hub::verdict::judge;
use upesi_torture::hub::{Remains, Setup, block_on};

const SEED: u64 = 5;
const BURSTS: u64 = 16;

/// A hub's life without faults, and what its DFSPs remember.
fn lived(remains: &Remains) -> (Setup, Memory) {
    let mut random = Random::new(SEED);
    let setup = Setup::orderly(&mut random);
    let mut memory = Memory::default();
    block_on(async {
        let (engine, handle) = remains.start(&setup).expect("starts");
        assert!(memory.live(&handle, &mut random, BURSTS).await);
        engine.shutdown();
    });
    (setup, memory)
}

/// What the verdict says; `None` when it finds nothing wrong.
fn verdict(remains: &Remains, setup: &Setup, memory: &Memory) -> Option<String> {
    let judged = catch_unwind(AssertUnwindSafe(|| judge(remains, setup, memory, "planted")));
    judged.err().map(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
}

#[test]
fn an_honest_hub_passes() {
    let remains = Remains::none(SEED);
    let (setup, memory) = lived(&remains);
    assert!(memory.acknowledged > 20, "{memory:?}");
    assert_eq!(verdict(&remains.after_power_loss(Kept::Nothing), &setup, &memory), None);
}

#[test]
fn a_lost_transfer_is_found() {
    let remains = Remains::none(SEED);
    let (setup, mut memory) = lived(&remains);
    let number = memory.transfers.len() as u64;
    memory.transfers.insert(number, Known { is_acknowledged: true, ..Known::default() });
    let found = verdict(&remains, &setup, &memory).expect("is found");
    assert!(found.contains("was acknowledged and is lost"), "{found}");
}

#[test]
fn another_end_is_found() {
    let remains = Remains::none(SEED);
    let (setup, mut memory) = lived(&remains);
    let ended = memory.transfers.values_mut().find(|known| known.ended.is_some()).expect("some have ended");
    let other =
        if ended.ended == Some(PublicState::Aborted) { PublicState::Committed } else { PublicState::Aborted };
    ended.ended = Some(other);
    let found = verdict(&remains, &setup, &memory).expect("is found");
    assert!(found.contains("ended otherwise"), "{found}");
    ended_by_nobody(&remains, &setup, memory);
}

fn ended_by_nobody(remains: &Remains, setup: &Setup, mut memory: Memory) {
    memory.transfers.values_mut().for_each(|known| known.ended = None);
    let found = verdict(remains, setup, &memory).expect("is found");
    assert!(found.contains("nobody ended it"), "{found}");
}

/// A disk that acknowledges a write and forgets it, which is what an early acknowledgement amounts to.
#[test]
fn an_acknowledgement_before_its_time_is_found() {
    let mut found = 0;
    for ordinal in 60..100 {
        let remains = Remains::none(SEED);
        remains.disk.inject(ordinal, Fault::LostWrite);
        let (setup, memory) = lived(&remains);
        let image = remains.after_power_loss(Kept::Nothing);
        found += u32::from(verdict(&image, &setup, &memory).is_some());
    }
    assert!(found > 5, "only {found} of 40 lost writes mattered");
}
