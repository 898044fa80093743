//! A hub that hands over leadership writes the next leader to its log, when all accepted commands are durable.

use std::sync::{Arc, Mutex};

use upesi_engine::{
    EngineMetrics, EngineOptions, NoEffects, Payload, SteppedEngine, StopReason, Storage, SubmitError,
};
use upesi_journal::sim_disk::SimDisk;
use upesi_journal::{
    AppendedBatch, Appender, Batch, ClaimedLog, EmbeddedLog, JournalError, Log, LogReader, Maintenance,
    Options,
};
use upesi_ledger::Reply;
use upesi_tables::archive::MemoryArchive;
use upesi_testsupport::scheme::{TestClock, id, onboard, prepare, talk};
use upesi_types::Timestamp;

const START_MS: i64 = 1_900_000_000_000;
const DFSPS: [&str; 2] = ["greenbank", "bluewallet"];

/// Result of a handover.
type Ending = fn() -> Result<(), JournalError>;
/// The next leader, and the last record before the handover.
type HandedOver = Arc<Mutex<Vec<(Option<u32>, u64)>>>;

/// A log that another node may take over.
struct Shared {
    inner: EmbeddedLog,
    ending: Ending,
    handed_over: HandedOver,
}

struct SharedAppender {
    inner: Box<dyn Appender>,
    last_seq: u64,
    ending: Ending,
    handed_over: HandedOver,
}

impl Log for Shared {
    fn claim(&self, known_durable_seq: u64) -> Result<ClaimedLog, JournalError> {
        let claimed = self.inner.claim(known_durable_seq)?;
        let appender = Box::new(SharedAppender {
            inner: claimed.appender,
            last_seq: claimed.last_seq,
            ending: self.ending,
            handed_over: Arc::clone(&self.handed_over),
        });
        Ok(ClaimedLog { appender, ..claimed })
    }

    fn oldest_seq(&self) -> Result<Option<u64>, JournalError> {
        self.inner.oldest_seq()
    }

    fn read_from(&self, seq: u64) -> Box<dyn LogReader> {
        self.inner.read_from(seq)
    }

    fn trim(&self, seq: u64) -> Result<usize, JournalError> {
        self.inner.trim(seq)
    }
}

impl Appender for SharedAppender {
    fn append(&mut self, batch: &mut Batch) -> Result<AppendedBatch, JournalError> {
        let appended = self.inner.append(batch)?;
        self.last_seq = appended.last_seq;
        Ok(appended)
    }

    fn confirm(&mut self) -> Result<(), JournalError> {
        self.inner.confirm()
    }

    fn reserve(&mut self, body_bytes: u64) -> Result<(), JournalError> {
        self.inner.reserve(body_bytes)
    }

    fn has_room_for(&self, body_bytes: u64) -> bool {
        self.inner.has_room_for(body_bytes)
    }

    fn maintain(&mut self) -> Result<Maintenance, JournalError> {
        self.inner.maintain()
    }

    fn hand_over(&mut self, successor: Option<u32>) -> Result<(), JournalError> {
        self.handed_over.lock().unwrap().push((successor, self.last_seq));
        (self.ending)()
    }
}

#[test]
fn log_is_handed_over_after_the_accepted_commands() {
    // Without an entry in the log, another node takes over after a time without heartbeats.
    let cases: [(Ending, StopReason); 3] = [
        (|| Ok(()), StopReason::HandedOver),
        (|| Err(JournalError::Poisoned), StopReason::HandedOver),
        (|| Err(JournalError::Superseded { by: "b".into() }), StopReason::Superseded("b".into())),
    ];
    for (ending, reason) in cases {
        for successor in [Some(2), None] {
            let (disk, handed_over) = (Arc::new(SimDisk::new(1)), HandedOver::default());
            let inner = EmbeddedLog::new(disk.clone(), Options::default());
            let options = EngineOptions {
                log: Some(Arc::new(Shared { inner, ending, handed_over: Arc::clone(&handed_over) })),
                storage: Some(Storage { disk, archive: Arc::new(MemoryArchive::new()) }),
                clock: TestClock::starting_at(START_MS) as _,
                ..EngineOptions::new("nowhere")
            };
            let (mut engine, handle) =
                SteppedEngine::start(options, EngineMetrics::default(), Box::new(NoEffects)).unwrap();
            talk(&mut engine, onboard(&handle, &DFSPS));
            let before = engine.ledger().last_seq();
            let pays = |number| {
                let [payer, payee] = DFSPS;
                let command = prepare(id(number), payer, payee, "1", Timestamp::from_ms(START_MS + 30_000));
                handle.submit(command, Payload::default())
            };
            let story = async {
                let refused = async { (handle.hand_over(successor).await, pays(2).await) };
                tokio::join!(biased; pays(1), refused)
            };
            let (taken, (found, refused)) = talk(&mut engine, story);
            assert_eq!((taken, refused), (Ok(Reply::Accepted), Err(SubmitError::Stopped)));
            assert_eq!(found, reason);
            assert_eq!(*handed_over.lock().unwrap(), [(successor, before + 1)]);
        }
    }
}
