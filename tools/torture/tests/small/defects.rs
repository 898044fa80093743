//! A check that cannot fail is a defect. Hubs and journals that break a promise on purpose are detected, and a failing
//! archive ends the engine with that reason.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use upesi_engine::{
    Availability, Engine, EngineMetrics, EngineOptions, NoEffects, Payload, StopReason, Storage, SubmitError,
};
use upesi_journal::sim_disk::{DiskFault, Random, SimDisk, SurvivingData};
use upesi_ledger::PublicState;
use upesi_tables::archive::{Archive, ArchiveEntry, ArchiveStats, MemoryArchive};
use upesi_tables::{DatabaseKind, TablesError};
use upesi_torture::hub::life::{KnownTransfer, Memory};
use upesi_torture::hub::scheme::{clock, onboard, prepare};
use upesi_torture::hub::verdict::judge;
use upesi_torture::hub::{HubRemains, Setup, block_on};
use upesi_types::TransferId;

const SEED: u64 = 5;
const BURSTS: u64 = 16;

/// A hub's life without faults, and its DFSPs' memory.
fn lived(remains: &HubRemains) -> (Setup, Memory) {
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

/// The verdict's message; `None` if it finds nothing wrong.
fn verdict(remains: &HubRemains, setup: &Setup, memory: &Memory) -> Option<String> {
    let judged = catch_unwind(AssertUnwindSafe(|| judge(remains, setup, memory, "planted")));
    judged.err().map(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
}

#[test]
fn honest_hub_passes() {
    let remains = HubRemains::none(SEED);
    let (setup, memory) = lived(&remains);
    assert!(memory.acknowledged > 20, "{memory:?}");
    assert_eq!(verdict(&remains.after_power_loss(SurvivingData::Nothing), &setup, &memory), None);
}

#[test]
fn lost_transfer_is_found() {
    let remains = HubRemains::none(SEED);
    let (setup, mut memory) = lived(&remains);
    let number = memory.transfers.len() as u64;
    memory.transfers.insert(number, KnownTransfer { is_acknowledged: true, ..KnownTransfer::default() });
    let found = verdict(&remains, &setup, &memory).expect("is found");
    assert!(found.contains("was acknowledged and is lost"), "{found}");
}

#[test]
fn transfer_with_another_end_is_found() {
    let remains = HubRemains::none(SEED);
    let (setup, mut memory) = lived(&remains);
    let ended = memory.transfers.values_mut().find(|known| known.ended.is_some()).expect("some have ended");
    let other =
        if ended.ended == Some(PublicState::Aborted) { PublicState::Committed } else { PublicState::Aborted };
    ended.ended = Some(other);
    let found = verdict(&remains, &setup, &memory).expect("is found");
    assert!(found.contains("has another end than the answered one"), "{found}");
    ended_by_nobody(&remains, &setup, memory);
}

fn ended_by_nobody(remains: &HubRemains, setup: &Setup, mut memory: Memory) {
    memory.transfers.values_mut().for_each(|known| known.ended = None);
    let found = verdict(remains, setup, &memory).expect("is found");
    assert!(found.contains("but no request ended it"), "{found}");
}

/// A disk that acknowledges a write and loses it, which is equivalent to an early acknowledgement.
#[test]
fn early_acknowledgement_is_found() {
    let mut found = 0;
    for ordinal in 60..100 {
        let remains = HubRemains::none(SEED);
        remains.disk.inject(ordinal, DiskFault::LostWrite);
        let (setup, memory) = lived(&remains);
        let image = remains.after_power_loss(SurvivingData::Nothing);
        found += u32::from(verdict(&image, &setup, &memory).is_some());
    }
    assert!(found > 5, "only {found} of 40 lost writes mattered");
}

/// Number of rounds. The race that was once lost is lost in nearly every one of them.
const ROUNDS: u64 = 20;

/// An archive that accepts nothing.
struct Broken(MemoryArchive);

impl Archive for Broken {
    fn get(&self, id: &TransferId) -> Result<Option<Vec<u8>>, TablesError> {
        self.0.get(id)
    }

    fn may_contain(&self, id: &TransferId) -> bool {
        self.0.may_contain(id)
    }

    fn apply(&self, _: &[ArchiveEntry], _: u64) -> Result<(), TablesError> {
        let source = std::io::Error::other("simulated input/output error");
        Err(TablesError::io(DatabaseKind::Archive, "archive", source))
    }

    fn sync(&self) -> Result<u64, TablesError> {
        self.0.sync()
    }

    fn remove_to(&self, seq: u64) -> Result<u64, TablesError> {
        self.0.remove_to(seq)
    }

    fn watermark(&self) -> u64 {
        self.0.watermark()
    }

    fn watermark_applied(&self) -> u64 {
        self.0.watermark_applied()
    }

    fn stats(&self) -> ArchiveStats {
        self.0.stats()
    }

    fn for_each(
        &self,
        visit: &mut dyn FnMut(TransferId, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TablesError> {
        self.0.for_each(visit)
    }
}

#[test]
fn failing_archive_is_the_reason_of_the_engines_end() {
    for round in 0..ROUNDS {
        let options = EngineOptions {
            storage: Some(Storage {
                disk: Arc::new(SimDisk::new(round)),
                archive: Arc::new(Broken(MemoryArchive::new())),
            }),
            segment_bytes: 64 * 1024,
            fold_every_records: 16,
            clock: clock(),
            ..EngineOptions::new("nowhere")
        };
        block_on(async {
            let (engine, handle) =
                Engine::start(options, EngineMetrics::default(), Box::new(NoEffects)).expect("starts");
            // The hub may stop during the onboarding.
            let mut answer = onboard(&handle).await;
            let mut number = 0;
            while answer.is_ok() {
                answer = handle.submit(prepare(number), Payload::default()).await.map(drop);
                number += 1;
            }
            assert_eq!(answer, Err(SubmitError::Stopped), "round {round}");
            let reason = handle.stopped().await;
            assert!(matches!(reason, StopReason::Archive(_)), "round {round}: {reason}");
            assert_eq!(handle.status().serving, Availability::Stopped(reason), "round {round}");
            engine.shutdown();
        });
    }
}
