//! Whole engines on the simulated log: one at a time appends, the others follow, and no answered command is lost.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use upesi_engine::{
    Availability, EngineHandle, EngineMetrics, EngineOptions, LedgerFold, NoEffects, Payload, StartError,
    SteppedEngine, StopReason, Storage, SubmitError, follow,
};
use upesi_journal::sim_disk::{Random, SimDisk};
use upesi_ledger::{Command, Event, Ledger, LedgerConfig, PublicState, Reply};
use upesi_tables::archive::MemoryArchive;
use upesi_testkit::{AppendFault, SimLog};
use upesi_testsupport::scheme::{TestClock, amount, fulfil, id, onboard, position, prepare};
use upesi_types::{Amount, Timestamp};

const START_MS: i64 = 1_900_000_000_000;
const DFSPS: [&str; 2] = ["greenbank", "bluewallet"];

/// A hub of a cluster: the log is shared, and the node's own disk survives its process.
struct Node {
    name: &'static str,
    disk: SimDisk,
    archive: Arc<MemoryArchive>,
    clock: Arc<TestClock>,
    running: Option<(SteppedEngine, EngineHandle)>,
}

impl Node {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            disk: SimDisk::new(1),
            archive: Arc::new(MemoryArchive::new()),
            clock: TestClock::starting_at(START_MS),
            running: None,
        }
    }

    fn started(name: &'static str, log: &SimLog) -> Self {
        let mut node = Self::new(name);
        node.start(log, EngineOptions::new("simulated")).unwrap();
        node
    }

    fn start(&mut self, log: &SimLog, options: EngineOptions) -> Result<(), StartError> {
        self.running = None;
        let storage = Storage { disk: Arc::new(self.disk.clone()), archive: Arc::clone(&self.archive) as _ };
        let clock = Arc::clone(&self.clock) as _;
        let log = Some(log.node(self.name));
        let options = EngineOptions { storage: Some(storage), log, clock, ..options };
        self.running = Some(SteppedEngine::start(options, EngineMetrics::default(), Box::new(NoEffects))?);
        Ok(())
    }

    fn handle(&self) -> EngineHandle {
        self.running.as_ref().unwrap().1.clone()
    }

    /// Runs the engine until the future is ready.
    fn during<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = Box::pin(future);
        for _ in 0..10_000 {
            let polled = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(output) = polled {
                return output;
            }
            let engine = &mut self.running.as_mut().unwrap().0;
            engine.turn(false);
            engine.turn_journal();
        }
        panic!("the engine does not answer");
    }

    fn submit(&mut self, command: Command) -> Result<Reply, SubmitError> {
        let handle = self.handle();
        self.during(async move { handle.submit(command, Payload::default()).await })
    }

    fn prepare(&mut self, number: u64, value: &str) -> Result<Reply, SubmitError> {
        let expires = Timestamp::from_ms(START_MS + 1_000_000);
        self.submit(prepare(id(number), DFSPS[0], DFSPS[1], value, expires))
    }

    fn onboard(&mut self) {
        let handle = self.handle();
        self.during(async move { onboard(&handle, &DFSPS).await });
    }

    fn position(&mut self, dfsp: &str) -> Amount {
        let (handle, dfsp) = (self.handle(), dfsp.to_owned());
        self.during(async move { position(&handle, &dfsp).await })
    }

    fn amount_of(&mut self, number: u64) -> Option<Amount> {
        let handle = self.handle();
        self.during(async move { handle.transfer(id(number)).await }).unwrap().map(|found| found.amount)
    }

    fn archive_all(&mut self) {
        self.running.as_mut().unwrap().0.turn_archivist();
    }

    fn stop_reason(&mut self) -> StopReason {
        let handle = self.handle();
        self.during(async move { handle.stopped().await })
    }

    fn shutdown(&mut self) {
        self.running.take().unwrap().0.shutdown();
    }
}

#[test]
fn engine_recovers_from_the_log_and_trims_it() {
    let log = SimLog::default();
    let mut node = Node::new("one");
    let options = || EngineOptions { keep_segments: false, ..EngineOptions::new("simulated") };
    for life in 0..4 {
        node.start(&log, options()).unwrap();
        if life == 0 {
            node.onboard();
        }
        for number in life * 10..life * 10 + 10 {
            assert_eq!(node.prepare(number, &format!("{}", 10 + number)), Ok(Reply::Accepted));
            node.submit(fulfil(id(number), DFSPS[0], DFSPS[1])).unwrap();
            assert_eq!(node.amount_of(number), Some(amount(&format!("{}", 10 + number))));
        }
        let handle = node.handle();
        let owed = |ledger: &Ledger| ledger.outbox().iter().map(|(key, _)| key).collect();
        let keys = node.during(async move { handle.read(owed).await }).unwrap();
        node.submit(Command::Delivered(keys)).unwrap();
        node.shutdown();
    }
    let oldest = log.node("reader").oldest_seq().unwrap().unwrap();
    assert!(oldest > 20 && oldest <= log.last_seq(), "trimmed to {oldest} of {}", log.last_seq());
    assert!(
        follow(&log.node("reader"), 1).next().unwrap_err().to_string().contains("begin after a snapshot")
    );
    node.start(&log, options()).unwrap();
    for number in 0..40 {
        assert_eq!(node.amount_of(number), Some(amount(&format!("{}", 10 + number))), "transfer {number}");
    }
    // 10 + 11 + … + 49
    assert_eq!(
        [node.position(DFSPS[0]), node.position(DFSPS[1])],
        [amount("1180"), amount("1180").negated()]
    );
}

#[test]
fn superseded_engine_answers_no_command() {
    let log = SimLog::default();
    let mut one = Node::started("one", &log);
    one.onboard();
    assert_eq!(one.prepare(1, "12.5"), Ok(Reply::Accepted));
    let mut standby = LedgerFold::new(&log.node("two"), Ledger::new(LedgerConfig::default()), 0);
    while standby.next(log.last_seq()).unwrap() {}
    assert_eq!(standby.ledger.transfer(id(1)).unwrap().amount, amount("12.5"));
    let mut two = Node::started("two", &log);
    assert_eq!(two.prepare(2, "30"), Ok(Reply::Accepted));
    let recorded = log.last_seq();
    // A read records nothing, and would be answered from outdated memory.
    let handle = one.handle();
    let asked = one.during(async move { handle.read(|ledger| ledger.transfer(id(2)).is_some()).await });
    assert_eq!(asked, Err(SubmitError::Stopped));
    assert_eq!(one.stop_reason(), StopReason::Superseded("two".to_owned()));
    assert_eq!(one.prepare(3, "40"), Err(SubmitError::Stopped));
    assert_eq!(log.last_seq(), recorded, "nothing of it was recorded");
    assert_eq!(
        [two.amount_of(1), two.amount_of(2), two.amount_of(3)],
        [Some(amount("12.5")), Some(amount("30")), None]
    );
    // The node returns with its own claim, and then the other node may no longer append.
    one.start(&log, EngineOptions::new("simulated")).unwrap();
    assert_eq!(one.amount_of(2), Some(amount("30")));
    assert_eq!(two.prepare(4, "50"), Err(SubmitError::Stopped));
    assert_eq!(one.position(DFSPS[0]), amount("42.5"));
}

#[test]
fn prepare_of_a_superseded_engine_is_neither_answered_nor_recorded() {
    let log = SimLog::default();
    let mut one = Node::started("one", &log);
    one.onboard();
    let _two = Node::started("two", &log);
    let recorded = log.last_seq();
    assert_eq!(one.prepare(1, "12.5"), Err(SubmitError::Stopped));
    assert_eq!(log.last_seq(), recorded);
}

#[test]
fn lost_acknowledgement_records_the_batch_once() {
    for (fault, is_recorded) in [(AppendFault::Lost, false), (AppendFault::Unacknowledged, true)] {
        let log = SimLog::default();
        let mut node = Node::started("one", &log);
        node.onboard();
        assert_eq!(node.prepare(1, "7"), Ok(Reply::Accepted));
        log.fail_next(fault);
        let mut records = node.handle().follow(log.last_seq() + 1);
        assert_eq!(node.prepare(2, "9.25"), Err(SubmitError::Stopped), "{fault:?}");
        // The batch may be recorded or not, but it never became durable for this engine.
        assert!(records.next().unwrap().is_none(), "{fault:?}");
        assert!(records.wait_next().unwrap().is_none(), "{fault:?}");
        node.start(&log, EngineOptions::new("simulated")).unwrap();
        assert_eq!(node.amount_of(2).is_some(), is_recorded, "{fault:?}");
        assert_eq!(node.prepare(2, "9.25"), Ok(Reply::Accepted), "{fault:?}: the caller repeats it");
        assert_eq!(node.amount_of(2), Some(amount("9.25")));
        assert_eq!(node.position(DFSPS[0]), amount("16.25"), "{fault:?}: it counts once");
    }
}

#[test]
fn full_log_rejects_commands_and_answers_queries() {
    let log = SimLog::default();
    let mut node = Node::started("one", &log);
    node.onboard();
    log.set_full(true);
    assert_eq!(node.prepare(1, "5"), Err(SubmitError::Full));
    assert_eq!(node.handle().status().serving, Availability::ReadOnly);
    assert_eq!(node.position(DFSPS[0]), Amount::ZERO);
    log.set_full(false);
    assert_eq!(node.prepare(1, "5"), Ok(Reply::Accepted));
    assert_eq!(node.position(DFSPS[0]), amount("5"));
}

#[test]
fn log_that_ends_before_the_archive_is_rejected() {
    let log = SimLog::default();
    let mut node = Node::started("one", &log);
    node.onboard();
    node.prepare(1, "5").unwrap();
    node.shutdown();
    let error = node.start(&SimLog::default(), EngineOptions::new("simulated")).unwrap_err();
    assert!(error.to_string().contains("record 1 is missing"), "{error}");
}

/// Two nodes claim alternately while appends fail. Each seed has another order.
#[test]
fn answered_commands_are_in_the_log_once() {
    let (mut answered_total, mut faults, mut superseded) = (0, 0, 0);
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let log = SimLog::default();
        let mut nodes = [Node::new("one"), Node::new("two")];
        let mut answered = BTreeMap::new();
        nodes[0].start(&log, EngineOptions::new("simulated")).unwrap();
        nodes[0].onboard();
        for number in 0..60 {
            let at = random.below(2) as usize;
            if random.one_in(12) {
                log.fail_next([AppendFault::Lost, AppendFault::Unacknowledged][random.below(2) as usize]);
                faults += 1;
            }
            if random.one_in(6) || nodes[at].running.is_none() {
                nodes[at].start(&log, EngineOptions::new("simulated")).unwrap();
            }
            if random.one_in(5) {
                nodes[at].archive_all();
            }
            let value = amount(&format!("{}.5", 1 + random.below(50)));
            let node = &mut nodes[at];
            let expires = Timestamp::from_ms(START_MS + 1_000_000);
            let command = prepare(id(number), DFSPS[0], DFSPS[1], &value.to_string(), expires);
            match node.submit(command) {
                Ok(Reply::Accepted) => drop(answered.insert(id(number), value)),
                Err(SubmitError::Stopped) => {
                    superseded += usize::from(matches!(node.stop_reason(), StopReason::Superseded(_)));
                    node.running = None;
                }
                other => panic!("seed {seed}: {other:?}"),
            }
        }
        answered_total += answered.len();
        let mut found = BTreeMap::new();
        let mut records = follow(&log.node("reader"), 1);
        while let Some(followed) = records.next().unwrap() {
            for event in followed.record.events {
                if let Event::TransferPrepared(transfer) = event {
                    let before = found.insert(transfer.id, transfer.amount);
                    assert_eq!(before, None, "seed {seed}: {} is prepared twice", transfer.id);
                }
            }
        }
        for (id, value) in &answered {
            assert_eq!(found.get(id), Some(value), "seed {seed}: {id} was answered");
        }
        let ledger =
            LedgerFold::new(&log.node("reader"), Ledger::new(LedgerConfig::default()), 0).finish().unwrap();
        assert_eq!(upesi_ledger::audit::check(&ledger), Vec::<String>::new(), "seed {seed}");
        assert!(found.keys().all(|id| ledger.transfer(*id).unwrap().public_state() == PublicState::Reserved));
    }
    assert!(
        answered_total > 1_000 && faults > 100 && superseded > 100,
        "{answered_total} {faults} {superseded}"
    );
}
