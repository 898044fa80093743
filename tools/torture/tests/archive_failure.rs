//! An archive that fails ends the engine, with that for a reason: it once ended as if it had been asked to.

use std::ops::ControlFlow;
use std::sync::Arc;

use upesi_engine::{
    Engine, EngineMetrics, EngineOptions, NoEffects, Payload, Serving, StopReason, Storage, SubmitError,
};
use upesi_journal::sim_disk::SimDisk;
use upesi_tables::archive::{Archive, ArchiveEntry, ArchiveStats, MemoryArchive};
use upesi_tables::{Part, TablesError};
use upesi_torture::hub::block_on;
use upesi_torture::hub::scheme::{clock, onboard, prepare};
use upesi_types::TransferId;

/// The race that was lost is lost in nearly every one of so many rounds.
const ROUNDS: u64 = 20;

/// Takes nothing.
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
        Err(TablesError::io(Part::Archive, "archive", source))
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
fn an_archive_that_fails_is_the_reason_of_the_end() {
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
            // It may stop while they are being onboarded.
            let mut answer = onboard(&handle).await;
            let mut number = 0;
            while answer.is_ok() {
                answer = handle.submit(prepare(number), Payload::default()).await.map(drop);
                number += 1;
            }
            assert_eq!(answer, Err(SubmitError::Stopped), "round {round}");
            let reason = handle.stopped().await;
            assert!(matches!(reason, StopReason::Archive(_)), "round {round}: {reason}");
            assert_eq!(handle.status().serving, Serving::Stopped(reason), "round {round}");
            engine.shutdown();
        });
    }
}
