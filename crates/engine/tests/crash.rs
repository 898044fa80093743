//! Engines on a simulated disk that crashes, breaks and fills up at random operations, with requests in flight.
//!
//! `UPESI_ENGINE_SEED=n` runs one seed, `UPESI_ENGINE_SEEDS=n` runs that many. Random choices repeat with the seed; the
//! interleaving of the engine's threads does not.

#[path = "crash/settlement.rs"]
mod settlement;
mod simulation;

use std::sync::Arc;

use simulation::{Run, START_MS, soon};
use upesi_engine::{
    Availability, Engine, EngineMetrics, EngineOptions, NoEffects, Payload, StopReason, Storage, SubmitError,
    follow,
};
use upesi_journal::sim_disk::{DiskFault, Operation, SimDisk, SurvivingData};
use upesi_journal::{Disk as _, EmbeddedLog};
use upesi_tables::archive::MemoryArchive;
use upesi_testsupport::scheme::{TestClock, id, onboard, prepare};

const SEEDS: u64 = 300;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

#[test]
fn no_crash_loses_acknowledged_requests() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let (only, seeds) = (number("UPESI_ENGINE_SEED"), number("UPESI_ENGINE_SEEDS").unwrap_or(SEEDS));
    let mut totals = simulation::Totals::default();
    for seed in only.map_or(0..seeds, |seed| seed..seed + 1) {
        let finished = std::panic::catch_unwind(|| runtime().block_on(Run::new(seed).live_through()));
        match finished {
            Ok(counts) => totals.add(counts),
            Err(panic) => {
                eprintln!("repeat with: UPESI_ENGINE_SEED={seed} cargo test -p upesi-engine --test crash");
                std::panic::resume_unwind(panic);
            }
        }
    }
    eprintln!("{totals:?}");
    if only.is_none() && seeds >= SEEDS {
        assert!(totals.acknowledged > 20 * SEEDS && totals.starts_that_crashed > SEEDS / 10, "{totals:?}");
        assert!(totals.journals_shortened > SEEDS / 20, "{totals:?}");
        assert!(totals.snapshots_compared > SEEDS && totals.archived > 5 * SEEDS, "{totals:?}");
    }
}

/// An engine whose archivist has nothing to do, so that the disk's operations are always the same.
fn start(disk: &SimDisk) -> (Engine, upesi_engine::EngineHandle) {
    let options = EngineOptions {
        storage: Some(Storage { disk: Arc::new(disk.clone()), archive: Arc::new(MemoryArchive::new()) }),
        segment_bytes: 16 * 1024,
        batch_bytes_max: 4 * 1024,
        fold_every_records: u64::MAX / 2,
        clock: TestClock::starting_at(START_MS) as _,
        tick_interval: simulation::NEVER,
        ..EngineOptions::new("nowhere")
    };
    Engine::start(options, EngineMetrics::default(), Box::new(NoEffects)).unwrap()
}

/// Sends prepares one after the other. Returns the acknowledged ones, and the first error.
async fn prepare_until_refused(
    engine: &upesi_engine::EngineHandle,
    numbers: std::ops::Range<u64>,
) -> (Vec<u64>, Option<SubmitError>) {
    let mut acknowledged = Vec::new();
    for number in numbers {
        let payload = Payload { headers: "a: b\r\n".into(), body: vec![b'x'; 5_000].into() };
        match engine.submit(prepare(id(number), "greenbank", "bluewallet", "1", soon()), payload).await {
            Ok(_) => acknowledged.push(number),
            Err(error) => return (acknowledged, Some(error)),
        }
    }
    (acknowledged, None)
}

const PREPARES: u64 = 60;

#[test]
fn after_a_failed_sync_nothing_is_acknowledged() {
    runtime().block_on(async {
        let disk = SimDisk::new(0);
        let (engine, handle) = start(&disk);
        onboard(&handle, &["greenbank", "bluewallet"]).await;
        let onboarded = disk.operations().len();
        assert_eq!(prepare_until_refused(&handle, 0..PREPARES).await.1, None);
        engine.shutdown();
        let operations = disk.operations();
        let is_sync = |operation: &Operation| matches!(operation, Operation::Sync | Operation::SyncDirectory);
        let syncs: Vec<usize> =
            (onboarded..operations.len()).filter(|ordinal| is_sync(&operations[*ordinal])).collect();
        assert!(syncs.len() > 60, "{} syncs", syncs.len());
        for ordinal in syncs {
            fail_at(ordinal as u64).await;
        }
    });
}

async fn fail_at(ordinal: u64) {
    let disk = SimDisk::new(ordinal);
    disk.inject(ordinal, DiskFault::Broken);
    let (engine, handle) = start(&disk);
    onboard(&handle, &["greenbank", "bluewallet"]).await;
    let (acknowledged, refused) = prepare_until_refused(&handle, 0..PREPARES).await;
    if refused.is_none() {
        // The sync was part of the shutdown.
        engine.shutdown();
    } else {
        assert_eq!(refused, Some(SubmitError::Stopped), "operation {ordinal}");
        let reason = handle.stopped().await;
        assert!(matches!(reason, StopReason::Journal(_)), "operation {ordinal}: {reason}");
        assert_eq!(handle.status().serving, Availability::Stopped(reason));
        let begun = acknowledged.len() as u64 + 1;
        let (later, refused) = prepare_until_refused(&handle, begun..PREPARES + 1).await;
        assert_eq!((later, refused), (vec![], Some(SubmitError::Stopped)), "operation {ordinal}");
        drop(engine);
    }
    for after in [
        disk.after_kill(),
        disk.after_power_loss(SurvivingData::Nothing),
        disk.after_power_loss(SurvivingData::Some(ordinal)),
    ] {
        let (engine, handle) = start(&after);
        for number in &acknowledged {
            assert!(
                handle.transfer(id(*number)).await.unwrap().is_some(),
                "operation {ordinal} lost {number}"
            );
        }
        let findings = handle.read(upesi_ledger::audit::check).await.unwrap();
        assert!(findings.is_empty(), "operation {ordinal}: {findings:?}");
        engine.shutdown();
    }
}

/// A read error must not look like an empty outbox: the lane would stop and leave callbacks unsent.
#[test]
fn callbacks_that_cannot_be_read_are_an_error() {
    runtime().block_on(async {
        let disk = SimDisk::new(0);
        let (engine, handle) = start(&disk);
        onboard(&handle, &["greenbank", "bluewallet"]).await;
        assert_eq!(prepare_until_refused(&handle, 0..2).await.1, None);
        let keys = handle.read(|ledger| ledger.outbox().iter().map(|(key, _)| key).collect::<Vec<_>>());
        let keys = keys.await.unwrap();
        disk.inject_read_error(disk.reads());
        let read = handle.callbacks(keys.clone()).await;
        assert!(matches!(read, Err(SubmitError::Journal(_))), "{read:?}");
        assert_eq!(handle.callbacks(keys.clone()).await.unwrap().len(), keys.len());
        // As lanes do: a page of the undelivered callbacks of one lane.
        let target = keys[0].target;
        disk.inject_read_error(disk.reads());
        let page = handle.pending_callbacks(target, None, keys.len()).await;
        assert!(matches!(page, Err(SubmitError::Journal(_))), "{page:?}");
        let page = handle.pending_callbacks(target, None, keys.len()).await.unwrap();
        assert_eq!(page.callbacks.len(), keys.iter().filter(|key| key.target == target).count());
        engine.shutdown();
    });
}

/// A callback in a damaged record stays undelivered and must not end a page: the lane would stop and send no later
/// callbacks.
#[test]
fn damaged_record_does_not_delay_later_callbacks() {
    const COUNT: usize = 5;
    runtime().block_on(async {
        let disk = SimDisk::new(0);
        let (engine, handle) = start(&disk);
        onboard(&handle, &["greenbank", "bluewallet"]).await;
        assert_eq!(prepare_until_refused(&handle, 0..COUNT as u64).await.1, None);
        let keys = handle.read(|ledger| ledger.outbox().iter().map(|(key, _)| key).collect::<Vec<_>>());
        let keys = keys.await.unwrap();
        assert_eq!(keys.len(), COUNT, "one for each prepare");
        change_frame(&disk, keys[1].seq, |frame| frame[HEADER_BYTES] ^= 1);
        let (mut after, mut pages) = (None, Vec::new());
        for _ in 0..COUNT {
            let page = handle.pending_callbacks(keys[0].target, after, 1).await.unwrap();
            pages.push(page.callbacks.iter().map(|pending| pending.key).collect::<Vec<_>>());
            after = page.more_after;
            if after.is_none() {
                break;
            }
        }
        let expected: Vec<_> =
            keys.iter().map(|key| Vec::from_iter((*key != keys[1]).then_some(*key))).collect();
        assert_eq!(pages, expected);
        engine.shutdown();
    });
}

#[test]
fn incomplete_batch_ends_the_stream_and_is_reported() {
    runtime().block_on(async {
        let disk = SimDisk::new(0);
        let (engine, handle) = start(&disk);
        onboard(&handle, &["greenbank", "bluewallet"]).await;
        assert_eq!(prepare_until_refused(&handle, 0..2).await.1, None);
        let last = handle.status().durable_seq;
        engine.shutdown();
        for is_torn in [false, true] {
            if is_torn {
                // One sector of it never reached the disk.
                change_frame(&disk, last, |frame| frame[512..1_024].fill(0));
            }
            let log = EmbeddedLog::for_reading(&(Arc::new(disk.clone()) as _));
            let mut records = follow(&log, last - 1);
            assert_eq!(records.next_seq(), last - 1);
            while records.next().unwrap().is_some() {}
            assert_eq!(records.next_seq(), if is_torn { last } else { last + 1 });
            assert_eq!(records.torn().is_some(), is_torn);
        }
    });
}

const HEADER_BYTES: usize = 64;

/// Changes the frame that begins with this record.
fn change_frame(disk: &SimDisk, seq: u64, change: fn(&mut [u8])) {
    let begins = [&[0xf5, b'U', b'J', 0][..], &seq.to_le_bytes()];
    for name in disk.list("journal").unwrap() {
        disk.corrupt(&format!("journal/{name}"), |bytes| {
            let at = (0..bytes.len().saturating_sub(HEADER_BYTES))
                .find(|at| bytes[*at..].starts_with(begins[0]) && bytes[at + 16..].starts_with(begins[1]));
            if let Some(at) = at {
                change(&mut bytes[at..]);
            }
        });
    }
}

/// Wherever the disk is full, the engine rejects commands, answers queries, and continues when there is space.
#[test]
fn full_disk_does_not_stop_the_engine() {
    runtime().block_on(async {
        let disk = SimDisk::new(0);
        let (engine, handle) = start(&disk);
        onboard(&handle, &["greenbank", "bluewallet"]).await;
        let mut next = 0;
        let mut refusals = 0;
        for more in 0..40_u64 {
            disk.set_capacity(disk.used_bytes() + more * 9_000);
            // All at once, so that a turn of the engine has several batches.
            let mut submitted = tokio::task::JoinSet::new();
            for number in next..next + PREPARES {
                let handle = handle.clone();
                let bytes = if number % 7 == 0 { 40_000 } else { 2_000 };
                let payload = Payload { headers: "a: b\r\n".into(), body: vec![b'x'; bytes].into() };
                let command = prepare(id(number), "greenbank", "bluewallet", "1", soon());
                submitted.spawn(async move { (number, handle.submit(command, payload).await) });
            }
            next += PREPARES;
            let mut acknowledged = Vec::new();
            while let Some(answer) = submitted.join_next().await {
                match answer.unwrap() {
                    (number, Ok(_)) => acknowledged.push(number),
                    (_, Err(error)) => {
                        assert_eq!(error, SubmitError::Full, "with room for {more} x 9000 bytes");
                        refusals += 1;
                    }
                }
            }
            for number in acknowledged {
                assert!(handle.transfer(id(number)).await.unwrap().is_some());
            }
            disk.set_capacity(u64::MAX);
            let (acknowledged, refused) = prepare_until_refused(&handle, next..next + 1).await;
            assert_eq!((acknowledged, refused), (vec![next], None));
            assert_eq!(handle.status().serving, Availability::Yes);
            next += 1;
        }
        assert!(refusals > 100, "{refusals}");
        engine.shutdown();
    });
}
