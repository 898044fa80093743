//! What shares a batch, when a batch is written, and room for one that is decided while another is written.

mod common;

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use common::{TestClock, fulfil, id, onboard, prepare, talk};
use upesi_engine::{
    EngineHandle, EngineMetrics, EngineOptions, NoEffects, Payload, Serving, SteppedEngine, Storage,
    SubmitError,
};
use upesi_journal::sim_disk::{Operation, SimDisk};
use upesi_ledger::{Command, Reply};
use upesi_tables::archive::MemoryArchive;
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

/// An engine on a disk, after its onboarding.
fn start(disk: &SimDisk, options: EngineOptions) -> (SteppedEngine, EngineHandle) {
    let storage = Storage { disk: Arc::new(disk.clone()), archive: Arc::new(MemoryArchive::new()) };
    let options = EngineOptions { storage: Some(storage), ..options };
    let (mut engine, handle) =
        SteppedEngine::start(options, EngineMetrics::default(), Box::new(NoEffects)).unwrap();
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

/// How many batches were made durable so far.
fn syncs(disk: &SimDisk) -> usize {
    disk.operations().iter().filter(|operation| **operation == Operation::Sync).count()
}

/// As many commands share a batch as their bytes allow: each batch costs a sync.
#[test]
fn commands_share_a_batch_up_to_its_bytes() {
    // The records hold a little more than the bodies.
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
fn what_is_decided_while_a_batch_is_written_has_room_of_its_own() {
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
    assert_eq!(handle.status().serving, Serving::ReadOnly);
    let reserved = engine.ledger().reserved_len();
    assert_eq!(reserved, taken.len(), "what was refused has no effect");
    disk.set_capacity(u64::MAX);
    let [payer, payee] = DFSPS;
    let end = handle.submit(fulfil(id(100), payer, payee), Payload::default());
    assert_eq!(talk(&mut engine, end), Ok(Reply::Accepted));
}

/// What a tick expires comes on top of a batch that is full.
#[test]
fn what_expires_while_a_batch_is_written_has_room_of_its_own() {
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
