//! The commands of a batch, the moment of its write, and the space for a batch that is decided while another one is
//! written.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use upesi_engine::{
    Availability, EngineHandle, EngineMetrics, EngineOptions, NoEffects, Payload, SteppedEngine, Storage,
    SubmitError,
};
use upesi_journal::Durability;
use upesi_journal::sim_disk::{Operation, SimDisk};
use upesi_ledger::{Command, Reply};
use upesi_tables::archive::MemoryArchive;
use upesi_testsupport::scheme::{TestClock, fulfil, id, onboard, prepare, talk};
use upesi_types::Timestamp;

const START_MS: i64 = 1_900_000_000_000;
const DFSPS: [&str; 2] = ["greenbank", "bluewallet"];
const BATCH_BYTES_MAX: usize = 16 * 1024;

fn options() -> EngineOptions {
    EngineOptions {
        segment_bytes: 64 * 1024,
        batch_bytes_max: BATCH_BYTES_MAX,
        overlap_bytes_min: 0,
        clock: TestClock::starting_at(START_MS) as _,
        ..EngineOptions::new("nowhere")
    }
}

fn pays(number: u64, expires_at_ms: i64) -> Command {
    let [payer, payee] = DFSPS;
    prepare(id(number), payer, payee, "2.25", Timestamp::from_ms(expires_at_ms))
}

/// An engine on a disk, after the onboarding.
fn start(disk: &SimDisk, options: EngineOptions) -> (SteppedEngine, EngineHandle) {
    start_measured(disk, options, EngineMetrics::default())
}

fn start_measured(
    disk: &SimDisk,
    options: EngineOptions,
    metrics: EngineMetrics,
) -> (SteppedEngine, EngineHandle) {
    let storage = Storage { disk: Arc::new(disk.clone()), archive: Arc::new(MemoryArchive::new()) };
    let options = EngineOptions { storage: Some(storage), ..options };
    let (mut engine, handle) = SteppedEngine::start(options, metrics, Box::new(NoEffects)).unwrap();
    talk(&mut engine, onboard(&handle, &DFSPS));
    (engine, handle)
}

type Answer = Pin<Box<dyn Future<Output = Result<Reply, SubmitError>>>>;

fn poll(answer: &mut Answer) -> Option<Result<Reply, SubmitError>> {
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

/// Payments that wait for the engine.
fn hand_in(handle: &EngineHandle, numbers: Range<u64>, body_bytes: usize) -> Vec<Answer> {
    let mut answers: Vec<Answer> = numbers
        .map(|number| {
            let handle = handle.clone();
            let payload = Payload { headers: "".into(), body: "x".repeat(body_bytes).into() };
            let command = pays(number, START_MS + 1_000_000);
            Box::pin(async move { handle.submit(command, payload).await }) as Answer
        })
        .collect();
    assert!(answers.iter_mut().all(|answer| poll(answer).is_none()), "they wait for the engine");
    answers
}

/// Number of batches that are durable.
fn syncs(disk: &SimDisk) -> usize {
    disk.operations().iter().filter(|operation| **operation == Operation::Sync).count()
}

/// A batch has as many commands as their bytes allow, because each batch costs a sync.
#[test]
fn commands_share_a_batch_up_to_its_bytes() {
    // The records have slightly more bytes than the bodies.
    for (commands, body_bytes, batches) in [(4, 3_800, 1), (5, 3_800, 2), (2, 7_000, 1), (3, 7_000, 2)] {
        let disk = SimDisk::new(4);
        let (mut engine, handle) = start(&disk, EngineOptions { overlap_bytes_min: usize::MAX, ..options() });
        let before = syncs(&disk);
        let mut answers = hand_in(&handle, 100..100 + commands, body_bytes);
        assert!(engine.turn(false));
        assert!(answers.iter_mut().all(|answer| poll(answer) == Some(Ok(Reply::Accepted))));
        assert_eq!(syncs(&disk) - before, batches, "{commands} commands of {body_bytes} bytes");
    }
}

#[test]
fn engine_reports_whether_its_batches_are_synced() {
    for (durability, expected) in [(Durability::Synced, 1), (Durability::Volatile, 0)] {
        let disk = SimDisk::new(4);
        let alone = EngineOptions { overlap_bytes_min: usize::MAX, durability, ..options() };
        let (mut engine, handle) = start(&disk, alone);
        let before = syncs(&disk);
        let mut answers = hand_in(&handle, 1..2, 10);
        assert!(engine.turn(false));
        assert_eq!(poll(&mut answers[0]), Some(Ok(Reply::Accepted)));
        assert_eq!(syncs(&disk) - before, expected);
        assert_eq!(handle.status().is_durable, expected == 1);
    }
}

/// The time to decide a batch is divided among its changes of positions.
#[test]
fn changes_of_positions_share_the_time_of_their_batch() {
    const CHANGES: u64 = 500;
    let (disk, mut registry) = (SimDisk::new(4), Registry::default());
    let metrics = EngineMetrics::new(&mut registry);
    let alone = EngineOptions { overlap_bytes_min: usize::MAX, batch_bytes_max: 1024 * 1024, ..options() };
    let (mut engine, handle) = start_measured(&disk, alone, metrics);
    (0..CHANGES).for_each(|number| handle.submit_quietly(pays(number, START_MS + 1_000_000)).unwrap());
    assert!(engine.turn(true));
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let value = |series: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(series));
        let line = line.unwrap_or_else(|| panic!("{series} is not in\n{text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let position = |what| value(&format!("moja_cl_transfer_position_{what}"));
    assert_eq!(position("count"), CHANGES as f64);
    let (shares, whole) = (position("sum"), value("upesi_engine_decide_seconds_sum"));
    assert!(0.0 < shares && shares <= whole, "{shares} s of {whole} s");
}

#[test]
fn queue_depth_counts_commands_for_the_next_turn() {
    let (disk, metrics) = (SimDisk::new(4), EngineMetrics::default());
    let (mut engine, handle) = start_measured(&disk, options(), metrics.clone());
    let asked = handle.clone();
    let question = handle.read(move |_| {
        // The commands arrive in the middle of a turn, before its tick measures the queue.
        (1..4).for_each(|number| asked.submit_quietly(pays(number, START_MS + 1_000_000)).unwrap());
    });
    let mut question = std::pin::pin!(question);
    assert!(question.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    for length in [3, 0] {
        assert!(engine.turn(true));
        assert_eq!(metrics.queue_depth.get(), length);
    }
}

/// Reports without a waiting client are retained while the disk is full, up to a limit.
#[test]
fn reports_above_the_limit_are_dropped_on_a_full_disk() {
    const REPORTS_MAX: u64 = 65_536;
    let (disk, metrics) = (SimDisk::new(4), EngineMetrics::default());
    let (mut engine, handle) = start_measured(&disk, options(), metrics.clone());
    disk.set_capacity(disk.used_bytes());
    let full = hand_in(&handle, 100..300, 7_000);
    assert!(engine.turn(false));
    drop(full);
    let before = metrics.refused_full.get();
    assert_eq!(handle.status().serving, Availability::ReadOnly);
    (0..REPORTS_MAX + 3).for_each(|_| handle.submit_quietly(Command::Delivered(Vec::new())).unwrap());
    assert!(engine.turn(false));
    assert_eq!(metrics.refused_full.get() - before, 3);
}

#[test]
fn a_batch_grows_while_the_one_before_is_written() {
    let disk = SimDisk::new(4);
    let (mut engine, handle) = start(&disk, options());
    let mut first = hand_in(&handle, 1..2, 10);
    assert!(engine.turn(false));
    let before = syncs(&disk);
    let mut others = Vec::new();
    for number in 2..5 {
        others.extend(hand_in(&handle, number..number + 1, 10));
        assert!(engine.turn(false));
    }
    assert!(
        first.iter_mut().chain(&mut others).all(|answer| poll(answer).is_none()),
        "nothing is written yet"
    );
    assert!(engine.turn_journal());
    assert!(first.iter_mut().all(|answer| poll(answer) == Some(Ok(Reply::Accepted))));
    assert!(others.iter_mut().all(|answer| poll(answer).is_none()));
    assert!(engine.turn(false) && engine.turn_journal());
    assert!(others.iter_mut().all(|answer| poll(answer) == Some(Ok(Reply::Accepted))));
    assert_eq!(syncs(&disk) - before, 2);
}

#[test]
fn batch_decided_during_a_write_has_its_own_space() {
    let disk = SimDisk::new(4);
    let (mut engine, handle) = start(&disk, options());
    disk.set_capacity(disk.used_bytes());
    let mut answers = hand_in(&handle, 100..300, 7_000);
    for _ in 0..4 {
        assert!(engine.turn(false), "the engine has stopped: {:?}", handle.status().serving);
        engine.turn_journal();
    }
    let answers: Vec<_> = answers.iter_mut().map(|answer| poll(answer).expect("an answer")).collect();
    let (taken, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert!(taken.len() > 4 && refused.len() > 100, "{} taken, {} refused", taken.len(), refused.len());
    assert!(refused.iter().all(|answer| *answer == Err(SubmitError::Full)), "{refused:?}");
    assert_eq!(handle.status().serving, Availability::ReadOnly);
    let reserved = engine.ledger().reserved_len();
    assert_eq!(reserved, taken.len(), "a rejected command has no effect");
    disk.set_capacity(u64::MAX);
    let [payer, payee] = DFSPS;
    let end = handle.submit(fulfil(id(100), payer, payee), Payload::default());
    assert_eq!(talk(&mut engine, end), Ok(Reply::Accepted));
}

/// The expirations of a tick are added to a full batch.
#[test]
fn expirations_during_a_write_have_their_own_space() {
    const BODY_BYTES: usize = 3_500;
    let outcomes: Vec<(usize, u64)> = (1..200)
        .map(|batches| {
            let (disk, clock) = (SimDisk::new(4), TestClock::starting_at(START_MS));
            let clocked = EngineOptions { clock: clock.clone() as _, ..options() };
            let (mut engine, handle) = start(&disk, EngineOptions { batch_bytes_max: 4 * 1024, ..clocked });
            (100..200).for_each(|number| handle.submit_quietly(pays(number, START_MS + 1_000)).unwrap());
            assert!(engine.turn(true));
            clock.advance(2_000);
            disk.set_capacity(disk.used_bytes());
            let answers = hand_in(&handle, 1_000..1_000 + batches, BODY_BYTES);
            assert!(engine.turn(true), "after {batches} batches: {:?}", handle.status().serving);
            while engine.turn_journal() {
                assert!(engine.turn(false), "after {batches} batches: {:?}", handle.status().serving);
            }
            let refused = answers.into_iter().map(|mut answer| poll(&mut answer).expect("an answer"));
            let refused = refused.filter(|answer| *answer == Err(SubmitError::Full)).count();
            (refused, engine.ledger().totals().expired)
        })
        .collect();
    let expired = outcomes.iter().filter(|outcome| outcome.0 == 0 && outcome.1 >= 64).count();
    let full = outcomes.iter().filter(|(refused, expired)| *refused > 0 && *expired == 0).count();
    assert!(expired > 20 && full > 5 && expired + full == outcomes.len(), "{outcomes:?}");
}
