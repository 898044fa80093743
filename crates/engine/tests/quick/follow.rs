//! The record stream: from the first record, from a snapshot, from any record; across segments and retention; live; and
//! on a follower.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;

use tokio::runtime::{Builder, Runtime};
use upesi_engine::{
    AnsweringStandby, Engine, EngineHandle, EngineMetrics, EngineOptions, Follow, FollowError, LedgerFold,
    NoEffects, Payload, SharedParticipants, StandbyEngine, SteppedEngine, Storage, SubmitError, follow,
    follow_from_oldest,
};
use upesi_journal::sim_disk::SimDisk;
use upesi_journal::{Access, Disk, EmbeddedLog, Log, RealDisk, SnapshotStore};
use upesi_ledger::{Command, Event, Ledger, LedgerConfig, Reply};
use upesi_tables::archive::MemoryArchive;
use upesi_testsupport::scheme::{self, TestClock, fulfil, id, onboard, prepare};
use upesi_types::{Amount, Timestamp, TransferId};

const START_MS: i64 = 1_900_000_000_000;
const DFSPS: [&str; 2] = ["greenbank", "bluewallet"];

fn runtime() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

/// Small segments, so that a few large requests fill several. A segment has space for two batches.
fn options(data: &Path) -> EngineOptions {
    EngineOptions {
        segment_bytes: 16 * 1024,
        batch_bytes_max: 4 * 1024,
        snapshot_every_records: 1,
        fold_every_records: 1,
        clock: TestClock::starting_at(START_MS) as _,
        ..EngineOptions::new(data)
    }
}

fn start(options: EngineOptions) -> (Engine, EngineHandle) {
    Engine::start(options, EngineMetrics::default(), Box::new(NoEffects)).unwrap()
}

fn log_of(data: &Path) -> Arc<dyn Log> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(data, Access::Read));
    EmbeddedLog::for_reading(&disk)
}

/// The files of the segments, oldest first.
fn segment_files(data: &Path) -> Vec<PathBuf> {
    let journal = std::fs::read_dir(data.join("journal")).unwrap();
    let mut segments: Vec<_> = journal.map(|file| file.unwrap().path()).collect();
    segments.retain(|path| path.extension().is_some_and(|ending| ending == "seg"));
    segments.sort();
    segments
}

/// Transfers of different amounts in both directions. Those with even numbers are committed.
async fn pay(engine: &EngineHandle, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let [payer, payee] = if number % 3 == 0 { [DFSPS[1], DFSPS[0]] } else { DFSPS };
        let expires = Timestamp::from_ms(START_MS + 1_000_000);
        let command = prepare(id(number), payer, payee, &value(number).to_string(), expires);
        let payload = Payload { headers: Default::default(), body: vec![b'b'; 20_000].into() };
        assert_eq!(engine.submit(command, payload.clone()).await, Ok(Reply::Accepted));
        if number % 2 == 0 {
            engine.submit(fulfil(id(number), payer, payee), payload).await.unwrap();
        }
    }
}

const fn value(number: u64) -> u64 {
    100 + number * 7
}

/// The prepared transfers in a stream up to its end, with their amounts, and the sequence numbers of all records.
fn prepared(mut records: Follow) -> (Vec<(TransferId, Amount)>, Vec<u64>) {
    let (mut transfers, mut seqs) = (Vec::new(), Vec::new());
    while let Some(found) = records.next().unwrap() {
        seqs.push(found.seq);
        transfers.extend(found.record.events.iter().filter_map(|event| match event {
            Event::TransferPrepared(transfer) => Some((transfer.id, transfer.amount)),
            _ => None,
        }));
    }
    (transfers, seqs)
}

fn expected(numbers: std::ops::Range<u64>) -> Vec<(TransferId, Amount)> {
    numbers.map(|number| (id(number), scheme::amount(&value(number).to_string()))).collect()
}

/// A data directory with 40 transfers in several segments. Returns its last record.
fn filled(data: &Path, keep_segments: bool) -> u64 {
    let (engine, handle) = start(EngineOptions { keep_segments, ..options(data) });
    runtime().block_on(async {
        onboard(&handle, &DFSPS).await;
        pay(&handle, 0..40).await;
    });
    let last = handle.status().durable_seq;
    engine.shutdown();
    last
}

#[test]
fn fold_starts_at_the_first_record_or_in_the_middle() {
    let directory = tempfile::tempdir().unwrap();
    let last = filled(directory.path(), true);
    let disk = RealDisk::new(directory.path(), Access::Read);
    let starts: Vec<u64> =
        upesi_journal::segments(&disk).unwrap().iter().map(|segment| segment.first_seq).collect();
    assert!(starts.len() > 3, "{starts:?}");
    let log = log_of(directory.path());
    let (transfers, seqs) = prepared(follow(&log, 1));
    assert_eq!(transfers, expected(0..40));
    assert_eq!(seqs, (1..=last).collect::<Vec<_>>());
    let (oldest, from_oldest) = prepared(follow_from_oldest(&log).unwrap());
    assert_eq!((oldest, from_oldest), (transfers.clone(), seqs));
    // The first and the last record of segments, and one in the middle.
    for from in [starts[1], starts[2] - 1, starts[2], starts[2] + 3, last] {
        let (part, seqs) = prepared(follow(&log, from));
        assert_eq!(seqs, (from..=last).collect::<Vec<_>>());
        assert_eq!(part, transfers[transfers.len() - part.len()..]);
    }
    assert_eq!(prepared(follow(&log, last + 1)), (vec![], vec![]));
    // A segment that is missing in the middle was not removed by retention.
    std::fs::remove_file(&segment_files(directory.path())[1]).unwrap();
    let error = follow(&log, starts[1]).next().unwrap_err();
    assert!(matches!(error, FollowError::Journal(_)), "{error}");
}

#[test]
fn fold_from_a_snapshot_has_the_same_state_as_from_the_first_record() {
    let directory = tempfile::tempdir().unwrap();
    let last = filled(directory.path(), true);
    let log = log_of(directory.path());
    let whole = LedgerFold::new(&log, Ledger::new(LedgerConfig::default()), 0).finish().unwrap();
    assert_eq!(whole.last_seq(), last);
    let store = SnapshotStore::open_for_reading(Arc::new(RealDisk::new(directory.path(), Access::Read)) as _);
    let snapshots: Vec<_> = store.list().unwrap().iter().map(|info| store.read(info.seq).unwrap()).collect();
    assert!(snapshots.iter().any(|snapshot| snapshot.seq < last), "one before the end");
    for snapshot in &snapshots {
        let begin = Ledger::decode_snapshot(&snapshot.bytes, LedgerConfig::default()).unwrap();
        assert_eq!(begin.last_seq(), snapshot.seq);
        let ledger = LedgerFold::new(&log, begin, 0).finish().unwrap();
        assert!(ledger.encode_unfinished() == whole.encode_unfinished(), "from snapshot {}", snapshot.seq);
    }
    let earliest = LedgerFold::earliest(&log, &snapshots, LedgerConfig::default()).unwrap();
    assert_eq!(earliest.ledger.last_seq(), 0, "the journal is whole");
}

/// A fold reads records ahead of the folded ones.
#[test]
fn fold_ends_at_the_requested_record_or_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let last = filled(directory.path(), true);
    let log = log_of(directory.path());
    let begin = || LedgerFold::new(&log, Ledger::new(LedgerConfig::default()), 0);
    let mut fold = begin();
    assert!(fold.next(last).unwrap());
    assert!(!fold.next(1).unwrap(), "the next record is beyond");
    for seq in 2..=last {
        assert!(fold.next(last).unwrap());
        assert_eq!(fold.ledger.last_seq(), seq);
    }
    assert!(!fold.next(last).unwrap());
    let whole = begin().finish().unwrap();
    assert!(fold.ledger.encode_unfinished() == whole.encode_unfinished());

    let segments = segment_files(directory.path());
    std::fs::remove_file(&segments[segments.len() / 2]).unwrap();
    let (mut records, mut readable) = (follow(&log, 1), 0);
    while let Ok(found) = records.next() {
        readable = found.unwrap().seq;
    }
    assert!((10..last).contains(&readable), "a segment in the middle is missing: {readable}");
    let mut fold = begin();
    (0..readable).for_each(|_| assert!(fold.next(last).unwrap()));
    for _ in 0..2 {
        assert!(fold.next(last).is_err());
        assert_eq!(fold.ledger.last_seq(), readable);
    }
}

#[test]
fn removed_record_is_an_error_with_its_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    let mut early = None;
    // The segments before the older of two snapshots are removed, and each life ends with a snapshot.
    for life in 0..4 {
        let (engine, handle) = start(EngineOptions { keep_segments: false, ..options(data) });
        runtime().block_on(async {
            if life == 0 {
                onboard(&handle, &DFSPS).await;
                // Reads one record, and falls behind.
                let mut records = handle.follow(1);
                assert_eq!(records.next().unwrap().unwrap().seq, 1);
                early = Some(records);
            }
            // All are committed and their callbacks are delivered, so no old segment is needed.
            for number in (life * 40..life * 40 + 40).step_by(2) {
                pay(&handle, number..number + 1).await;
                let owed = |ledger: &Ledger| ledger.outbox().iter().map(|(key, _)| key).collect();
                let keys = handle.read(owed).await.unwrap();
                handle.submit(Command::Delivered(keys), Payload::default()).await.unwrap();
            }
        });
        engine.shutdown();
    }
    let mut early = early.unwrap();
    let log = log_of(data);
    let oldest = log.oldest_seq().unwrap().unwrap();
    assert!(oldest > 20, "segments have left: the oldest record is {oldest}");
    for seq in [1, oldest - 1] {
        let error = follow(&log, seq).next().unwrap_err();
        assert!(
            matches!(error, FollowError::Gone { seq: gone, oldest: left } if (gone, left) == (seq, oldest))
        );
        let text = error.to_string();
        assert!(text.contains(&format!("record {seq} is no longer in the journal")), "{text}");
        assert!(text.contains(&format!("snapshot of record {}", oldest - 1)), "{text}");
    }
    let error = loop {
        match early.next() {
            Ok(found) => assert!(found.unwrap().seq < oldest),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, FollowError::Gone { oldest: left, .. } if left == oldest), "{error}");
    assert_eq!(prepared(follow(&log, oldest)).1[0], oldest);
    // A reader that cannot start at the first record starts at a snapshot.
    let store = SnapshotStore::open_for_reading(Arc::new(RealDisk::new(data, Access::Read)) as _);
    let snapshots: Vec<_> = store.list().unwrap().iter().map(|info| store.read(info.seq).unwrap()).collect();
    let fold = LedgerFold::earliest(&log, &snapshots, LedgerConfig::default()).unwrap();
    assert_eq!(fold.ledger.last_seq(), snapshots[0].seq);
    let error = LedgerFold::earliest(&log, &[], LedgerConfig::default()).unwrap().finish().unwrap_err();
    assert!(error.to_string().contains(&format!("oldest is {oldest}")), "{error}");
}

#[test]
fn a_live_stream_waits_for_new_records_and_ends_with_the_engine() {
    let directory = tempfile::tempdir().unwrap();
    let (engine, handle) = start(options(directory.path()));
    let runtime = runtime();
    runtime.block_on(onboard(&handle, &DFSPS));
    let first = handle.status().durable_seq + 1;
    let mut records = handle.follow(first);
    assert!(records.next().unwrap().is_none(), "nothing new, and it does not wait");
    let (seen, to_see) = mpsc::channel();
    let follower = thread::spawn(move || {
        while let Some(found) = records.wait_next().unwrap() {
            let prepared = found.record.events.iter().find_map(|event| match event {
                Event::TransferPrepared(transfer) => Some((transfer.id, transfer.amount)),
                _ => None,
            });
            seen.send((found.seq, prepared)).unwrap();
        }
    });
    let mut next = first;
    let mut transfers = Vec::new();
    for number in 0..20 {
        runtime.block_on(pay(&handle, number..number + 1));
        // The record comes without further commands.
        while transfers.len() as u64 <= number {
            let (seq, prepared) = to_see.recv().unwrap();
            assert_eq!(seq, next);
            next += 1;
            transfers.extend(prepared);
        }
    }
    assert_eq!(transfers, expected(0..20));
    engine.shutdown();
    follower.join().unwrap();
    let rest: Vec<_> = to_see.iter().collect();
    assert_eq!(rest.last().map_or(next - 1, |(seq, _)| *seq), handle.status().durable_seq);
}

#[test]
fn a_live_stream_sees_durable_records_only() {
    let disk = SimDisk::new(7);
    let storage = Storage { disk: Arc::new(disk.clone()), archive: Arc::new(MemoryArchive::new()) };
    // Every batch goes to the commit thread, which works when the test says so.
    let options = EngineOptions {
        storage: Some(storage),
        overlap_bytes_min: 0,
        clock: TestClock::starting_at(START_MS) as _,
        ..EngineOptions::new("simulated")
    };
    let (mut engine, handle) =
        SteppedEngine::start(options, EngineMetrics::default(), Box::new(NoEffects)).unwrap();
    let turn = |engine: &mut SteppedEngine, is_committed: bool| {
        assert!(engine.turn(false));
        while is_committed && engine.turn_journal() {}
    };
    let mut onboarding = Box::pin(onboard(&handle, &DFSPS));
    while poll(&mut onboarding).is_none() {
        turn(&mut engine, true);
    }
    let durable = handle.status().durable_seq;
    let mut records = handle.follow(durable + 1);
    let mut paying = Box::pin(pay(&handle, 5..6));
    assert!(poll(&mut paying).is_none());
    turn(&mut engine, false);
    assert_eq!(engine.ledger().last_seq(), durable + 1, "decided");
    assert!(records.next().unwrap().is_none(), "and not durable");
    assert!(poll(&mut paying).is_none(), "and not answered");
    assert!(engine.turn_journal());
    let found = records.next().unwrap().unwrap();
    let Some(Event::TransferPrepared(transfer)) = found.record.events.first() else { panic!("{found:?}") };
    let expected = (durable + 1, id(5), scheme::amount("135"));
    assert_eq!((found.seq, transfer.id, transfer.amount), expected);
    assert!(records.next().unwrap().is_none());
    assert!(poll(&mut paying).is_some());
    drop(paying);
    drop(onboarding);
    engine.shutdown();
    assert!(records.wait_next().unwrap().is_none(), "the engine has stopped");
}

#[test]
fn dropped_standby_rejects_queries() {
    let (disk, archive) = (Arc::new(SimDisk::new(2)), Arc::new(MemoryArchive::new()));
    let options = EngineOptions {
        storage: Some(Storage { disk: disk.clone(), archive }),
        ..options(Path::new("nowhere"))
    };
    let copy = EmbeddedLog::for_reading(&(Arc::new(SimDisk::new(3)) as _));
    let standby = StandbyEngine::open(&options, None, disk, &copy, SharedParticipants::default()).unwrap();
    let (standby, handle) = AnsweringStandby::start(standby, &options, &copy).unwrap();
    let asked = || runtime().block_on(handle.read(Ledger::last_seq));
    assert_eq!(asked(), Ok(0));
    drop(standby);
    assert_eq!(asked(), Err(SubmitError::Stopped));
}

/// Polls once, outside of a runtime: the engine's turns drive the future.
fn poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
