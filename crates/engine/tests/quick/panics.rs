//! A panic in any of the engine's threads stops the engine, and continues in the thread that ends it.

use std::ops::ControlFlow;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::time::Duration;

use upesi_engine::{
    Availability, DurableRecord, Effects, Engine, EngineHandle, EngineMetrics, EngineOptions, Participants,
    Payload, StopReason, Storage, SubmitError,
};
use upesi_journal::sim_disk::SimDisk;
use upesi_ledger::{AdminCommand, CallbackKey, Command};
use upesi_tables::TablesError;
use upesi_tables::archive::{Archive, ArchiveEntry, ArchiveStats, MemoryArchive};
use upesi_testsupport::scheme::{self, TestClock, name};
use upesi_types::TransferId;

/// Place of the panic.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// When the archivist archives.
    Archive,
    /// When the engine's or the journal's thread releases a batch.
    Effects,
}

struct Absurd {
    place: Place,
    inner: MemoryArchive,
}

impl Effects for Absurd {
    fn publish(&mut self, _record: &Arc<DurableRecord>) {}

    fn redeliver(&mut self, _keys: &[CallbackKey]) {}

    fn flush(&mut self) {
        assert!(self.place != Place::Effects, "absurd effects");
    }

    fn participants(&mut self, _participants: Arc<Participants>) {}
}

impl Archive for Absurd {
    fn get(&self, id: &TransferId) -> Result<Option<Vec<u8>>, TablesError> {
        self.inner.get(id)
    }

    fn may_contain(&self, id: &TransferId) -> bool {
        self.inner.may_contain(id)
    }

    fn apply(&self, _entries: &[ArchiveEntry], _watermark: u64) -> Result<(), TablesError> {
        assert!(self.place != Place::Archive, "absurd archive");
        Ok(())
    }

    fn sync(&self) -> Result<u64, TablesError> {
        self.inner.sync()
    }

    fn watermark(&self) -> u64 {
        self.inner.watermark()
    }

    fn watermark_applied(&self) -> u64 {
        self.inner.watermark_applied()
    }

    fn stats(&self) -> ArchiveStats {
        self.inner.stats()
    }

    fn for_each(
        &self,
        visit: &mut dyn FnMut(TransferId, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TablesError> {
        self.inner.for_each(visit)
    }

    fn remove_to(&self, seq: u64) -> Result<u64, TablesError> {
        self.inner.remove_to(seq)
    }
}

fn start(place: Place, overlap_bytes_min: usize) -> (Engine, EngineHandle) {
    let absurd = || Absurd { place, inner: MemoryArchive::new() };
    let options = EngineOptions {
        storage: Some(Storage { disk: Arc::new(SimDisk::new(1)), archive: Arc::new(absurd()) }),
        fold_every_records: 1,
        overlap_bytes_min,
        // The batch of a tick is empty, so the engine's own thread would release it.
        tick_interval: Duration::from_secs(3_600),
        clock: TestClock::starting_at(1_900_000_000_000) as _,
        ..EngineOptions::new("nowhere")
    };
    Engine::start(options, EngineMetrics::default(), Box::new(absurd())).unwrap()
}

#[test]
fn panic_of_any_thread_is_resumed_when_the_engine_ends() {
    for (place, overlap_bytes_min, thread, said) in [
        (Place::Archive, usize::MAX, "upesi-archivist", "absurd archive"),
        (Place::Effects, usize::MAX, "upesi-engine", "absurd effects"),
        (Place::Effects, 0, "upesi-journal", "absurd effects"),
    ] {
        for is_dropped in [false, true] {
            let (engine, handle) = start(place, overlap_bytes_min);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let kind = "HUB_RECONCILIATION".into();
                let command =
                    AdminCommand::CreateHubAccount { name: name("Hub"), currency: scheme::kes(), kind };
                let _ = handle.submit(Command::Admin(command), Payload::default()).await;
                let reason = handle.stopped().await;
                assert_eq!(reason, StopReason::Panicked(thread));
                assert_eq!(handle.status().serving, Availability::Stopped(reason));
                // The engine reports that it stops a moment before it rejects commands.
                let tick = || handle.submit(Command::Tick, Payload::default());
                while tick().await != Err(SubmitError::Stopped) {}
            });
            let ended =
                std::panic::AssertUnwindSafe(|| if is_dropped { drop(engine) } else { engine.shutdown() });
            let panic = catch_unwind(ended).expect_err("the engine must panic");
            let text = panic.downcast_ref::<&str>().copied().unwrap_or_default();
            assert_eq!(text, said, "{thread}");
        }
    }
}
