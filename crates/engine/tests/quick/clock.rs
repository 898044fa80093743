//! Clocks that jump: recorded times, expirations, and requests in the meantime.

use tempfile::TempDir;
use upesi_engine::{
    Clock, ClockState, EngineHandle, EngineMetrics, EngineOptions, NoEffects, Payload, SteppedEngine, follow,
};
use upesi_journal::EmbeddedLog;
use upesi_ledger::command::{AdvanceItem, NewSettlement, SettlementAdvance};
use upesi_ledger::{
    AbortKind, AdminCommand, AdminOutcome, Command, Event, PublicState, Record, Reply, SettlementAccount,
    SettlementId, SettlementState, TransferState, WindowId, WindowState,
};
use upesi_testsupport::scheme::{self, TestClock, admin, amount, fulfil, id, onboard, position, prepare};
use upesi_types::Timestamp;

const START_MS: i64 = 1_932_811_200_000;
const DAY_MS: i64 = 86_400_000;
const GOOD: ClockState = ClockState { jump_ms: 0, ahead_ms: 0 };

/// A hub that works turn by turn, when a test says so.
struct Hub {
    clock: std::sync::Arc<TestClock>,
    directory: TempDir,
    running: Option<(SteppedEngine, EngineHandle)>,
    metrics: EngineMetrics,
}

impl Hub {
    fn bare() -> Self {
        let clock = TestClock::starting_at(START_MS);
        let directory = TempDir::new().unwrap();
        let mut hub = Self { clock, directory, running: None, metrics: EngineMetrics::default() };
        hub.start();
        hub
    }

    fn new() -> Self {
        let mut hub = Self::bare();
        hub.during(async |handle| onboard(handle, &["greenbank", "bluewallet"]).await);
        hub
    }

    fn start(&mut self) {
        let options = EngineOptions {
            segment_bytes: 64 * 1024,
            batch_bytes_max: 16 * 1024,
            clock: std::sync::Arc::clone(&self.clock) as _,
            ..EngineOptions::new(self.directory.path())
        };
        let started = SteppedEngine::start(options, self.metrics.clone(), Box::new(NoEffects)).unwrap();
        self.running = Some(started);
        self.tick();
    }

    fn restart(&mut self) {
        self.running.take().unwrap().0.shutdown();
        self.start();
    }

    fn handle(&self) -> EngineHandle {
        self.running.as_ref().unwrap().1.clone()
    }

    fn tick(&mut self) {
        assert!(self.running.as_mut().unwrap().0.turn(true));
    }

    fn state(&self) -> ClockState {
        self.handle().status().clock
    }

    /// Works until a conversation with the engine has ended.
    fn during<T>(&mut self, talk: impl AsyncFnOnce(&EngineHandle) -> T) -> T {
        let (engine, handle) = self.running.as_mut().unwrap();
        let handle = handle.clone();
        let mut talk = std::pin::pin!(talk(&handle));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        for _ in 0..10_000 {
            if let std::task::Poll::Ready(outcome) = talk.as_mut().poll(&mut context) {
                return outcome;
            }
            engine.turn(false);
            engine.turn_journal();
        }
        panic!("the engine does not answer");
    }

    fn submit(&mut self, command: Command) -> Reply {
        self.during(async |handle| handle.submit(command, Payload::default()).await.unwrap())
    }

    /// A prepare of DFSPs with correct clocks, which expires 30 s after `real_ms`.
    fn pay(&mut self, number: u64, units: &str, real_ms: i64) {
        let expires_at = Timestamp::from_ms(real_ms + 30_000);
        self.submit(prepare(id(number), "greenbank", "bluewallet", units, expires_at));
    }

    fn state_of(&mut self, number: u64) -> PublicState {
        self.during(async |handle| handle.transfer(id(number)).await.unwrap().unwrap().public_state())
    }

    /// The end of a transfer that expired.
    fn end_of(&mut self, number: u64) -> TransferState {
        self.during(async |handle| handle.transfer(id(number)).await.unwrap().unwrap().state)
    }

    fn accept(&mut self) -> Reply {
        let reason = "the clock is right now".into();
        self.submit(Command::Admin(AdminCommand::AcceptClock { reason }))
    }

    /// Every record of the journal: its instant and its events.
    fn records(&mut self) -> Vec<(Timestamp, Vec<Event>)> {
        self.running.take().unwrap().0.shutdown();
        let disk = upesi_journal::RealDisk::new(self.directory.path(), upesi_journal::Access::Read);
        let disk: std::sync::Arc<dyn upesi_journal::Disk> = std::sync::Arc::new(disk);
        let mut followed = follow(&EmbeddedLog::for_reading(&disk), 1);
        let mut records = Vec::new();
        while let Some(found) = followed.next().unwrap() {
            records.push((found.time, found.record.events));
        }
        self.start();
        records
    }

    fn assert_sound(&mut self) {
        let findings = self.during(async |handle| handle.read(upesi_ledger::audit::check).await.unwrap());
        assert!(findings.is_empty(), "{findings:?}");
        let records = self.records();
        assert!(records.is_sorted_by(|one, next| one.0 < next.0), "I8");
    }
}

/// The original fault: a clock that is a day ahead for 0.3 s.
#[test]
fn temporary_clock_jump_expires_and_rejects_nothing() {
    for jump in [DAY_MS, -DAY_MS] {
        let mut hub = Hub::new();
        hub.pay(1, "125.5", START_MS);
        hub.clock.jump(jump);
        for _ in 0..3 {
            hub.clock.advance(100);
            hub.tick();
        }
        assert_eq!(hub.state(), ClockState { jump_ms: jump, ahead_ms: 0 });
        assert_eq!(hub.metrics.clock_jump_seconds.get(), (jump / 1_000) as f64);
        assert_eq!(hub.state_of(1), PublicState::Reserved, "{jump}");
        hub.pay(2, "10", START_MS + 300);
        assert_eq!(hub.state_of(2), PublicState::Reserved, "{jump}");
        hub.submit(fulfil(id(2), "greenbank", "bluewallet"));
        assert_eq!(hub.state_of(2), PublicState::Committed, "{jump}");
        hub.clock.jump(-jump);
        hub.clock.advance(100);
        hub.tick();
        assert_eq!((hub.state(), hub.metrics.clock_jump_seconds.get()), (GOOD, 0.0));
        hub.submit(fulfil(id(1), "greenbank", "bluewallet"));
        let spent = hub.during(async |handle| position(handle, "greenbank").await);
        assert_eq!(spent, amount("135.5"));
        hub.restart();
        hub.pay(3, "7", START_MS + 400);
        assert_eq!(hub.state_of(3), PublicState::Reserved, "after a restart, {jump}");
        hub.assert_sound();
        assert!(hub.records().iter().all(|(time, _)| *time <= Timestamp::from_ms(START_MS + 400 + 30_000)));
    }
}

/// While the clock is wrong, only transfers that are due by the monotonic clock expire.
#[test]
fn deadlines_follow_the_monotonic_clock_during_a_jump() {
    for jump in [DAY_MS, -DAY_MS] {
        let mut hub = Hub::new();
        hub.pay(1, "1", START_MS);
        hub.clock.jump(jump);
        hub.clock.advance(29_000);
        hub.tick();
        assert_eq!(hub.state_of(1), PublicState::Reserved, "{jump}");
        hub.clock.advance(2_000);
        for _ in 0..2 {
            assert_eq!(hub.state_of(1), PublicState::Reserved, "nothing expires between two ticks");
        }
        hub.tick();
        assert_eq!(hub.state_of(1), PublicState::Aborted, "{jump}");
    }
}

/// The jump is correct: DFSPs use the new time before an operator has accepted it, and their requests are processed.
#[test]
fn requests_with_the_correct_time_are_accepted_during_a_jump() {
    let mut hub = Hub::new();
    hub.clock.jump(3 * DAY_MS);
    hub.tick();
    hub.pay(1, "12.5", START_MS + 3 * DAY_MS);
    assert_eq!(hub.state_of(1), PublicState::Reserved);
    assert_eq!(hub.accept(), Reply::Admin(Ok(upesi_ledger::AdminOutcome::Done)));
    assert_eq!(hub.state(), GOOD);
    assert_eq!(hub.accept(), Reply::Admin(Ok(upesi_ledger::AdminOutcome::AlreadyDone)));
    hub.clock.advance(31_000);
    hub.tick();
    assert!(matches!(hub.end_of(1), TransferState::Aborted(end) if end.kind == AbortKind::Expired));
    hub.assert_sound();
    let accepted = hub.records().into_iter().find_map(|(time, events)| match &events[..] {
        [Event::ClockAccepted { jump_ms, reason }] => Some((time, *jump_ms, reason.to_string())),
        _ => None,
    });
    let (time, jump_ms, reason) = accepted.unwrap();
    assert_eq!((jump_ms, &*reason), (3 * DAY_MS, "the clock is right now"));
    assert!(time < Timestamp::from_ms(START_MS + DAY_MS), "recorded before it takes effect: {time}");
}

/// A jump back: records keep their order by the smallest steps, and everything for DFSPs uses the clock.
#[test]
fn journal_time_ahead_of_the_clock_stops_no_payment() {
    let mut hub = Hub::bare();
    hub.clock.jump(DAY_MS);
    hub.restart();
    hub.during(async |handle| onboard(handle, &["greenbank", "bluewallet"]).await);
    // The clock is corrected, with or without a restart.
    hub.clock.jump(-DAY_MS);
    hub.tick();
    assert_eq!(hub.state().jump_ms, -DAY_MS);
    for again in [false, true] {
        if again {
            hub.restart();
        } else {
            assert_eq!(hub.accept(), Reply::Admin(Ok(upesi_ledger::AdminOutcome::Done)));
        }
        let ClockState { jump_ms, ahead_ms } = hub.state();
        assert!(jump_ms == 0 && (DAY_MS - 60_000..=DAY_MS + 1_000).contains(&ahead_ms), "{ahead_ms}");
        assert!(hub.metrics.clock_ahead_seconds.get() > 86_000.0);
        let (first, second, now) = if again { (3, 4, START_MS + 31_000) } else { (1, 2, START_MS) };
        hub.pay(first, "2.5", now);
        hub.pay(second, "4", now);
        assert_eq!(hub.state_of(first), PublicState::Reserved);
        hub.submit(fulfil(id(first), "greenbank", "bluewallet"));
        let TransferState::Committed(end) = hub.end_of(first) else { panic!("not committed") };
        assert_eq!(end.at, Timestamp::from_ms(now), "reported with the real time");
        hub.clock.advance(31_000);
        hub.tick();
        let TransferState::Aborted(end) = hub.end_of(second) else { panic!("did not expire") };
        assert_eq!((end.kind, end.at), (AbortKind::Expired, Timestamp::from_ms(now + 31_000)));
    }
    hub.assert_sound();
    let behind = hub.records().into_iter().filter(|(_, events)| matches!(events[0], Event::DecidedAt(_)));
    assert!(behind.count() >= 8);
    hub.clock.advance(DAY_MS);
    hub.tick();
    assert_eq!(hub.state(), GOOD, "real time has caught up");
    let before = hub.records().len();
    hub.pay(5, "1", START_MS + 62_000 + DAY_MS);
    assert!(matches!(hub.records()[before].1[0], Event::TransferPrepared(_)));
}

/// A hub whose machine has no battery for its clock starts in 1970, and gets the time later.
#[test]
fn a_clock_that_was_never_set_stops_no_payment() {
    let mut hub = Hub::new();
    hub.clock.advance(1_000);
    hub.clock.jump(-(START_MS + 1_000));
    hub.restart();
    assert!(hub.state().ahead_ms > START_MS - DAY_MS);
    hub.pay(1, "1", START_MS);
    assert_eq!(hub.state_of(1), PublicState::Reserved);
    hub.clock.advance(5_000);
    hub.tick();
    hub.clock.jump(START_MS + 1_000);
    hub.tick();
    assert!(hub.state().jump_ms > 0);
    hub.submit(fulfil(id(1), "greenbank", "bluewallet"));
    hub.accept();
    hub.tick();
    assert_eq!((hub.state(), hub.state_of(1)), (GOOD, PublicState::Committed));
    hub.assert_sound();
}

/// The window shows the start until the first record has its time.
#[test]
fn the_first_window_opens_when_the_hub_first_starts() {
    let mut hub = Hub::bare();
    let opened = |hub: &mut Hub| {
        hub.during(async |handle| handle.read(|ledger| ledger.windows()[0].created_at).await.unwrap())
    };
    assert_eq!(opened(&mut hub), Timestamp::from_ms(START_MS));
    // Shown, but not part of the state: a replay without records does not have it.
    let state =
        hub.during(async |handle| handle.read(upesi_ledger::Ledger::encode_unfinished).await.unwrap());
    assert!(state == upesi_ledger::Ledger::new(Default::default()).encode_unfinished());
    // A start without a record was not the first one.
    hub.clock.advance(1_000);
    hub.restart();
    hub.clock.advance(1_000);
    hub.during(async |handle| onboard(handle, &["greenbank", "bluewallet"]).await);
    hub.clock.advance(DAY_MS);
    hub.restart();
    hub.pay(1, "1", START_MS + DAY_MS);
    let first_start = Timestamp::from_ms(START_MS + 1_000);
    assert_eq!(opened(&mut hub), first_start);
    let records = hub.records();
    assert_eq!(records[0].1[0], Event::FirstWindowOpened(first_start));
    let starts = records.iter().flat_map(|(_, events)| events);
    assert_eq!(starts.filter(|event| matches!(event, Event::FirstWindowOpened(_))).count(), 1);
    hub.assert_sound();
}

/// Nanoseconds since 1970 end in 2262. A clock beyond that is wrong, and causes no expiration.
#[test]
fn clock_beyond_2262_expires_nothing() {
    let mut hub = Hub::new();
    for set_to in [i64::MAX / 2_000_000, i64::MAX / 1_000_000] {
        let now = hub.clock.now().as_ms();
        hub.clock.jump(set_to - now);
        hub.tick();
        assert!(hub.state().jump_ms > 0);
        hub.pay(1, "1", START_MS);
        assert_eq!(hub.state_of(1), PublicState::Reserved);
        hub.clock.jump(now - set_to);
    }
    let now = hub.clock.now().as_ms();
    hub.clock.jump(i64::MAX / 1_000_000 - now);
    hub.restart();
    hub.pay(2, "1", START_MS);
    assert_eq!(hub.state_of(2), PublicState::Aborted, "the hub believes that it is long past");
    assert!(hub.during(async |handle| admin(handle, lift()).await.unwrap()));
    hub.clock.jump(now - i64::MAX / 1_000_000);
    hub.restart();
    hub.pay(3, "1", START_MS);
    assert_eq!(hub.state_of(3), PublicState::Reserved, "and serves once the clock is right");
    hub.assert_sound();
}

/// Any change of an operator.
fn lift() -> AdminCommand {
    AdminCommand::SetLimit {
        name: scheme::name("greenbank"),
        currency: scheme::kes(),
        net_debit_cap: amount("77"),
        alarm_basis_points: 1_000,
    }
}

/// A journal at the largest possible time cannot continue. A start reports this instead of failing at its first record.
#[test]
fn journal_at_the_latest_time_is_rejected() {
    let directory = TempDir::new().unwrap();
    let disk = upesi_journal::DataDirectory::open(directory.path()).unwrap();
    let opened = upesi_journal::open(disk.disk(), upesi_journal::Options::default()).unwrap();
    let mut writer = opened.writer;
    let mut batch = upesi_journal::Batch::new(1);
    batch.push(Timestamp::MAX.as_ns(), |buffer| {
        Record::encode(upesi_ledger::Actor::Clock, &[], &[], upesi_ledger::Payload::default(), buffer)
    });
    writer.append(&mut batch).unwrap();
    drop((writer, disk));
    let options = EngineOptions::new(directory.path());
    let started = SteppedEngine::start(options, EngineMetrics::default(), Box::new(NoEffects));
    let Err(refused) = started else { panic!("it starts") };
    assert!(refused.to_string().contains("no further record can follow"), "{refused}");
}

/// A clock that was a day ahead is corrected, and the operator accepts this while a window is open. The window closes
/// at an earlier instant than its transfers, and is settled, and so is the next one.
#[test]
fn a_window_closes_and_is_settled_at_an_earlier_clock() {
    let mut hub = Hub::new();
    for number in 1..=2 {
        hub.clock.jump(DAY_MS);
        hub.tick();
        hub.accept();
        hub.pay(number, "125.5", START_MS + DAY_MS);
        hub.submit(fulfil(id(number), "greenbank", "bluewallet"));
        hub.clock.jump(-DAY_MS);
        hub.tick();
        assert_eq!(hub.state().jump_ms, -DAY_MS);
        assert_eq!(hub.accept(), Reply::Admin(Ok(AdminOutcome::Done)));
        let close = AdminCommand::CloseWindow { id: WindowId(number as u32), reason: "end of day".into() };
        let next = AdminOutcome::WindowOpened(WindowId(number as u32 + 1));
        assert_eq!(hub.submit(Command::Admin(close)), Reply::Admin(Ok(next)));
        hub.restart();
        settle(&mut hub, number as u32);
        for dfsp in ["greenbank", "bluewallet"] {
            let position = hub.during(async |handle| position(handle, dfsp).await);
            assert_eq!(position, amount("0"), "{dfsp} after window {number}");
        }
    }
    hub.assert_sound();
}

/// Settles a window to its end.
fn settle(hub: &mut Hub, number: u32) {
    let windows = vec![WindowId(number)];
    let new = NewSettlement { model: "DEFERREDNET".into(), reason: "EOD".into(), windows };
    let created = hub.submit(Command::Admin(AdminCommand::CreateSettlement(new)));
    let id = SettlementId(number);
    assert_eq!(created, Reply::Admin(Ok(AdminOutcome::SettlementCreated(id))));
    for state in [
        SettlementState::Recorded,
        SettlementState::Reserved,
        SettlementState::Committed,
        SettlementState::Settled,
    ] {
        let items = hub.during(async |handle| {
            handle
                .read(move |ledger| {
                    let item = |account: &SettlementAccount| AdvanceItem {
                        participant: ledger.account(account.account).unwrap().participant.number(),
                        account: account.account.number(),
                        state,
                        reason: "paid".into(),
                        external_reference: None,
                    };
                    ledger.settlement(id).unwrap().accounts.iter().map(item).collect::<Vec<_>>()
                })
                .await
                .unwrap()
        });
        let advance = AdminCommand::AdvanceSettlement(SettlementAdvance { id, items });
        let done = AdminOutcome::SettlementAdvanced { faults: vec![] };
        assert_eq!(hub.submit(Command::Admin(advance)), Reply::Admin(Ok(done)));
    }
    let state = hub.during(async |handle| {
        handle.read(move |ledger| ledger.window(WindowId(number)).unwrap().state).await.unwrap()
    });
    assert_eq!(state, WindowState::Settled);
}
