//! An engine that starts fast and keeps little, for targets that begin anew again and again.

use tempfile::TempDir;
use upesi_engine::{Engine, EngineHandle, EngineMetrics, EngineOptions, NoEffects};
use upesi_journal::Durability;

/// An engine in memory, its handle, and its directory, which must outlive it.
pub(super) fn start() -> (Engine, EngineHandle, TempDir) {
    let directory = TempDir::new_in(super::files::memory()).expect("a directory");
    let options = EngineOptions {
        durability: Durability::Volatile,
        segment_bytes: 1 << 20,
        batch_bytes_max: 256 << 10,
        keep_segments: false,
        ..EngineOptions::new(directory.path())
    };
    let started = Engine::start(options, EngineMetrics::default(), Box::new(NoEffects));
    let (engine, handle) = started.expect("the engine starts");
    (engine, handle, directory)
}
