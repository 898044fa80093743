//! Removals by retention: every start folds an id that occurs again, and removed transfers do not return.

use std::path::{Path, PathBuf};

use upesi_engine::{Engine, EngineHandle, EngineMetrics, EngineOptions, NoEffects, Payload, StartError};
use upesi_ledger::codec::Decoder;
use upesi_ledger::{PublicState, Stored as _, Transfer};
use upesi_tables::archive::{Archive, ArchiveOptions, FjallArchive};
use upesi_testsupport::scheme::{TestClock, amount, fulfil, id, onboard, position, prepare};
use upesi_types::{Amount, Timestamp};

const START_MS: i64 = 1_900_000_000_000;
const DFSPS: [&str; 2] = ["greenbank", "bluewallet"];
/// Folds after every few records. A snapshot comes only at the end, as between two snapshots.
const FOLD_EVERY: u64 = 2;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

fn options(data: &Path) -> EngineOptions {
    EngineOptions {
        segment_bytes: 64 * 1024,
        batch_bytes_max: 16 * 1024,
        fold_every_records: FOLD_EVERY,
        clock: TestClock::starting_at(START_MS) as _,
        ..EngineOptions::new(data)
    }
}

fn try_start(data: &Path) -> Result<(Engine, EngineHandle), StartError> {
    Engine::start(options(data), EngineMetrics::default(), Box::new(NoEffects))
}

fn start(data: &Path) -> (Engine, EngineHandle) {
    try_start(data).unwrap()
}

async fn submit(engine: &EngineHandle, command: upesi_ledger::Command) {
    engine.submit(command, Payload::default()).await.unwrap();
}

/// A transfer that is committed.
async fn pay(engine: &EngineHandle, number: u64, value: &str) {
    let [payer, payee] = DFSPS;
    submit(engine, prepare(id(number), payer, payee, value, Timestamp::from_ms(START_MS + 1_000_000))).await;
    submit(engine, fulfil(id(number), payer, payee)).await;
    let found = engine.transfer(id(number)).await.unwrap().unwrap();
    assert_eq!((found.public_state(), found.amount), (PublicState::Committed, amount(value)));
}

/// Waits until everything that has finished is in the archive and not in memory, while transfers of other parties come
/// and go.
async fn archive_all(engine: &EngineHandle, next: &mut u64) {
    let goal = engine.status().durable_seq;
    let archive = engine.archive().unwrap();
    let [payer, payee] = DFSPS;
    for _ in 0..100_000 {
        let number = *next;
        let is_held = engine.read(move |ledger| ledger.transfer(id(number - 1)).is_some()).await.unwrap();
        if archive.watermark_applied() >= goal && !is_held {
            return;
        }
        // Rejected, because the payee pays more than it may.
        let expires = Timestamp::from_ms(START_MS + 1_000_000);
        submit(engine, prepare(id(1_000_000 + *next), payee, payer, "9999999999", expires)).await;
        tokio::task::yield_now().await;
    }
    panic!("the archivist is stuck at {}", archive.watermark_applied());
}

/// Closes the open division of the archive. Returns its last record.
async fn divide(engine: &EngineHandle) -> u64 {
    let archive = engine.archive().unwrap();
    let before = archive.divisions().len();
    engine.divide_archive().await.unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while archive.divisions().len() == before {
        assert!(std::time::Instant::now() < until, "the archivist does not divide the archive");
        tokio::task::yield_now().await;
    }
    archive.divisions().last().unwrap().first_seq - 1
}

/// Removes everything that has finished.
async fn remove_all(engine: &EngineHandle) -> u64 {
    let to_seq = divide(engine).await;
    assert!(engine.remove_finished(to_seq).await.unwrap() > 0);
    to_seq
}

/// A copy of a directory that an engine uses: the data after a crash.
fn crash(data: &Path, name: &str) -> PathBuf {
    let to = data.with_file_name(name);
    // A file that is renamed meanwhile would have neither name in the copy.
    for _ in 0..100 {
        match copy(data, &to) {
            Ok(()) => return to,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                std::fs::remove_dir_all(&to).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the files were renamed during every copy");
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for file in std::fs::read_dir(from)? {
        let file = file?;
        let target = to.join(file.file_name());
        if file.file_type()?.is_dir() {
            copy(&file.path(), &target)?;
        } else {
            std::fs::copy(file.path(), target)?;
        }
    }
    Ok(())
}

/// The amounts of the committed transfers in a closed engine's archive.
fn archived(data: &Path) -> Vec<(upesi_types::TransferId, Amount)> {
    let archive = FjallArchive::open(data.join("archive"), &ArchiveOptions::default()).unwrap();
    let mut found = Vec::new();
    archive
        .for_each(&mut |_, bytes| {
            let transfer = Transfer::decode(&mut Decoder(bytes)).unwrap();
            if transfer.public_state() == PublicState::Committed {
                found.push((transfer.id, transfer.amount));
            }
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    found.sort();
    found
}

fn sorted(numbers: &[(u64, &str)]) -> Vec<(upesi_types::TransferId, Amount)> {
    let mut all: Vec<_> = numbers.iter().map(|(number, value)| (id(*number), amount(value))).collect();
    all.sort();
    all
}

/// A life that removes transfers 1 and 2, and receives 1 again with another amount. Returns the data after crashes
/// before the first snapshot, right after the removal and at the end, and the directory with a snapshot.
fn life(data: &Path) -> [PathBuf; 3] {
    let (engine, handle) = start(data);
    let crashes = runtime().block_on(async {
        onboard(&handle, &DFSPS).await;
        pay(&handle, 1, "12.25").await;
        pay(&handle, 2, "30.5").await;
        archive_all(&handle, &mut 3).await;
        let to_seq = remove_all(&handle).await;
        assert_eq!(handle.read(|ledger| ledger.removed_to()).await.unwrap(), to_seq);
        for number in [1, 2] {
            assert_eq!(handle.transfer(id(number)).await.unwrap(), None);
        }
        let removed = crash(data, "removed");
        pay(&handle, 1, "7.75").await;
        pay(&handle, 3, "100").await;
        archive_all(&handle, &mut 4).await;
        handle.archive().unwrap().sync().unwrap();
        let again = crash(data, "again");
        assert_eq!(position(&handle, "greenbank").await, amount("150.5"));
        [removed, again]
    });
    drop(handle);
    engine.shutdown();
    let [removed, again] = crashes;
    [removed, again, data.to_owned()]
}

/// Starts with the data of [`life`], and compares the payer's position, the removals, and the archive.
fn assert_started([removed, again, whole]: &[PathBuf; 3]) {
    for (data, paid, committed) in [
        (&removed, "42.75", &[][..]),
        (&again, "150.5", &[(1, "7.75"), (3, "100")][..]),
        (&whole, "150.5", &[(1, "7.75"), (3, "100")][..]),
    ] {
        let (engine, handle) = start(data);
        runtime().block_on(async {
            assert_eq!(position(&handle, "greenbank").await, amount(paid), "{}", data.display());
            assert_eq!(handle.transfer(id(2)).await.unwrap(), None);
        });
        drop(handle);
        engine.shutdown();
        assert_eq!(archived(data), sorted(committed), "{}", data.display());
    }
}

#[test]
fn reused_id_is_folded_at_every_start() {
    let directory = tempfile::tempdir().unwrap();
    assert_started(&life(&directory.path().join("data")));
}

#[test]
fn rebuilt_archive_has_no_removed_transfers() {
    let directory = tempfile::tempdir().unwrap();
    let crashed = life(&directory.path().join("data"));
    for data in &crashed {
        std::fs::remove_dir_all(data.join("archive")).unwrap();
    }
    assert_started(&crashed);
}

/// The journal has the removal, and a crash came before the archive's removal.
#[test]
fn recorded_removal_is_completed_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let (engine, handle) = start(&data);
    let to_seq = runtime().block_on(async {
        onboard(&handle, &DFSPS).await;
        pay(&handle, 1, "12.25").await;
        archive_all(&handle, &mut 2).await;
        let to_seq = divide(&handle).await;
        submit(&handle, upesi_ledger::Command::RemoveFinished { to_seq }).await;
        to_seq
    });
    let crashed = crash(&data, "crashed");
    drop(handle);
    engine.shutdown();
    assert_eq!(upesi_tables::archive::first_seq_of(&crashed.join("archive")), Some(1));
    let (engine, handle) = start(&crashed);
    assert_eq!(upesi_tables::archive::first_seq_of(&crashed.join("archive")), Some(to_seq + 1));
    runtime().block_on(async {
        assert_eq!(handle.transfer(id(1)).await.unwrap(), None);
        pay(&handle, 1, "3.5").await;
        assert_eq!(position(&handle, "greenbank").await, amount("15.75"));
    });
    drop(handle);
    engine.shutdown();
    assert_eq!(archived(&crashed), sorted(&[(1, "3.5")]));
}

/// The fold after a snapshot finds transfers that other divisions already have. They must not be archived and exported
/// twice.
#[test]
fn archived_transfers_are_not_archived_again() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let (engine, handle) = start(&data);
    runtime().block_on(async {
        onboard(&handle, &DFSPS).await;
        pay(&handle, 1, "12.25").await;
        pay(&handle, 2, "30.5").await;
        archive_all(&handle, &mut 3).await;
        handle.archive().unwrap().divide().unwrap();
    });
    let crashed = crash(&data, "crashed");
    drop(handle);
    engine.shutdown();
    let (engine, handle) = start(&crashed);
    runtime().block_on(async {
        pay(&handle, 3, "8.5").await;
    });
    drop(handle);
    engine.shutdown();
    let archive = FjallArchive::open(crashed.join("archive"), &ArchiveOptions::default()).unwrap();
    let mut held = Vec::new();
    for division in archive.divisions() {
        let visited = archive.for_each_in(division.first_seq, &mut |id, _| {
            held.push(id);
            std::ops::ControlFlow::Continue(())
        });
        assert!(visited.unwrap());
    }
    for number in 1..=3 {
        let times = held.iter().filter(|held| **held == id(number)).count();
        assert_eq!(times, 1, "transfer {number} is in so many divisions");
    }
}
