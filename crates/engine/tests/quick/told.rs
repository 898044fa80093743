//! Log lines about diverging clocks: each is logged once, not at each tick. The test is alone in its program, because
//! other threads would share the log's caches.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use upesi_engine::{EngineMetrics, EngineOptions, NoEffects, SteppedEngine, Storage};
use upesi_journal::sim_disk::SimDisk;
use upesi_tables::archive::MemoryArchive;
use upesi_testsupport::scheme::TestClock;

const START_MS: i64 = 1_900_000_000_000;
const DAY_MS: i64 = 86_400_000;

/// Gathers warnings and errors.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            write!(self.0, " {value:?}").unwrap();
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(event.metadata().level().to_string());
        event.record(&mut message);
        self.0.lock().unwrap().push(message.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn clock_jump_and_its_end_are_logged_once() {
    let log = Log::default();
    let told = log.clone();
    let said = move || std::mem::take(&mut *told.0.lock().unwrap());
    tracing::subscriber::with_default(log, || {
        let clock = TestClock::starting_at(START_MS);
        let storage = Storage { disk: Arc::new(SimDisk::new(2)), archive: Arc::new(MemoryArchive::new()) };
        let options = EngineOptions {
            storage: Some(storage),
            clock: Arc::clone(&clock) as _,
            ..EngineOptions::new("nowhere")
        };
        let started = SteppedEngine::start(options, EngineMetrics::default(), Box::new(NoEffects));
        let (mut engine, _handle) = started.unwrap();
        // Each state lasts for some ticks.
        let mut ticks = || {
            (0..3).for_each(|_| assert!(engine.turn(true)));
            said()
        };
        assert_eq!(ticks(), [""; 0]);
        clock.jump(DAY_MS);
        let [jumped] = &ticks()[..] else { panic!("once") };
        assert!(jumped.starts_with("ERROR the wall clock jumped 86400.000 s ahead"), "{jumped}");
        clock.jump(-DAY_MS);
        assert_eq!(ticks(), ["WARN the wall clock and the hub's time agree again"]);
    });
}
