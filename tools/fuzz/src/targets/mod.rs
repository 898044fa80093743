//! The targets, by the origin of their bytes.

pub(crate) mod admin;
pub(crate) mod connection;
pub(crate) mod edge;
pub(crate) mod http2;
pub(crate) mod journal;
pub(crate) mod ledger;
pub(crate) mod oracle;

use tempfile::TempDir;
use upesi_delivery::relayed::ErrorInformation;
use upesi_engine::{Engine, EngineHandle, EngineMetrics, EngineOptions, NoEffects};
use upesi_fspiop::SyncError;
use upesi_fspiop::body::parse_error_body;
use upesi_journal::Durability;

/// Every rejection is an FSPIOP error that a DFSP can read.
fn assert_valid_refusal(error: &SyncError) {
    assert!((400..=599).contains(&error.status), "{error:?}");
    assert!(error.description.chars().count() <= 128, "{error:?}");
    let body = error.to_body();
    let read = parse_error_body(&body).expect("the hub's own errors follow the schema");
    assert_eq!((read.code, &*read.description), (error.code, &*error.description));
}

/// An error that another system reported can be forwarded.
fn assert_can_be_told(error: &ErrorInformation) {
    let body = error.to_body();
    let read = parse_error_body(&body).map(|read| (read.code, read.description.into_owned()));
    assert_eq!(read, Ok((error.code, error.description.clone())));
}

/// Judges each rejection once, because most readers reject an input with the same words.
#[derive(Default)]
struct Refusals(Vec<SyncError>);

impl Refusals {
    fn judge(&mut self, refusal: Option<SyncError>) {
        let Some(error) = refusal.filter(|error| !self.0.contains(error)) else { return };
        assert_valid_refusal(&error);
        self.0.push(error);
    }
}

/// One of several checks of an input. All of them together would take too much time.
fn chosen<T: Copy>(all: &[T], input: &[u8]) -> T {
    all[input.len() % all.len()]
}

/// An engine in memory, its handle, and its directory, which must outlive it.
fn start() -> (Engine, EngineHandle, TempDir) {
    let directory = TempDir::new_in(memory()).expect("a directory");
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

/// A directory in memory, if the system has one.
fn memory() -> std::path::PathBuf {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() }
}
