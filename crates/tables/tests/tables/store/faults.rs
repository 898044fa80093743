//! The store's journal on a simulated disk that stops, fails and fills up.

use std::path::Path;
use std::sync::Arc;

use super::support::{number, small_options};
use crate::support::copy_directory;
use tempfile::TempDir;
use upesi_journal::sim_disk::{DiskFault, Operation, SimDisk, SurvivingData};
use upesi_tables::TablesError;
use upesi_tables::store::{Store, StoreOptions, Table};

const UPDATES: u64 = 120;
/// Number of updates for tests of each operation of the journal. With [`tiny_options`] they meet every kind.
const FEW: u64 = 24;

/// Sorted tables after a few updates, and segments of about as many.
fn tiny_options() -> StoreOptions {
    StoreOptions { pending_bytes: 3 << 10, segment_bytes: 4 << 10, ..small_options() }
}

fn open(path: &Path, disk: &SimDisk) -> Result<(Store, Table), TablesError> {
    open_with(path, disk, &small_options())
}

fn open_with(path: &Path, disk: &SimDisk, options: &StoreOptions) -> Result<(Store, Table), TablesError> {
    let store = Store::open_with_log_on(path, Arc::new(disk.clone()), options)?;
    let table = store.table("counted")?;
    Ok((store, table))
}

/// One more update of three keys. Returns the durable count.
fn write_one(store: &Store, table: &Table) -> Result<u64, TablesError> {
    let table = table.clone();
    store.update_blocking(move |transaction| {
        let count = number(transaction.get(&table, b"count")?.as_deref()) + 1;
        transaction.put(&table, &key(count), &[7; 300])?;
        transaction.put(&table, b"last", &count.to_le_bytes())?;
        transaction.delete(&table, &key(count / 2))?;
        transaction.put(&table, b"count", &count.to_le_bytes())?;
        Ok(count)
    })
}

fn key(count: u64) -> [u8; 9] {
    let mut key = [b'k'; 9];
    key[1..].copy_from_slice(&count.to_be_bytes());
    key
}

fn assert_whole(table: &Table, what: &str) -> u64 {
    let count = number(table.get(b"count").unwrap().as_deref());
    assert_eq!(number(table.get(b"last").unwrap().as_deref()), count, "{what}");
    let found: Vec<_> =
        table.scan(b"k", None, usize::MAX).unwrap().into_iter().map(|entry| entry.0).collect();
    let expected: Vec<_> = (count / 2 + 1..=count).map(|count| key(count).to_vec()).collect();
    assert_eq!(found, expected, "{what}");
    count
}

/// Writes until something fails. Returns the last acknowledged count, and the error.
fn write_until_failure(path: &Path, disk: &SimDisk) -> (u64, Option<TablesError>) {
    let (store, table) = match open(path, disk) {
        Ok(opened) => opened,
        Err(error) => return (0, Some(error)),
    };
    let mut answered = 0;
    for _ in 0..UPDATES {
        match write_one(&store, &table) {
            Ok(count) => answered = count,
            Err(error) => {
                let again = write_one(&store, &table);
                assert!(matches!(again, Err(TablesError::Poisoned { .. })), "after {error}: {again:?}");
                assert!(store.stats().poisoned);
                assert_eq!(assert_whole(&table, "reads continue"), answered);
                return (answered, Some(error));
            }
        }
    }
    (answered, None)
}

fn operations_of_a_whole_run() -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let disk = SimDisk::new(0);
    assert_eq!(write_until_failure(&directory.path().join("s"), &disk).0, UPDATES);
    disk.operations().len() as u64
}

#[test]
fn acknowledged_updates_survive_any_disk_failure_or_power_loss() {
    let operations = operations_of_a_whole_run();
    assert!(operations > 2 * UPDATES, "{operations} operations");
    for (seed, ordinal) in (0..operations).step_by(7).enumerate().map(|(seed, at)| (seed as u64, at)) {
        for fault in [DiskFault::Crash, DiskFault::Broken] {
            let what = format!("seed {seed}, {fault:?} at operation {ordinal} of {operations}");
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("s");
            std::fs::create_dir(&path).unwrap();
            let disk = SimDisk::new(seed);
            disk.inject(ordinal, fault);
            let (answered, error) = write_until_failure(&path, &disk);
            assert!(error.is_some() || answered == UPDATES, "{what}");
            for kept in [SurvivingData::Everything, SurvivingData::Nothing, SurvivingData::Some(seed)] {
                let survivor = disk.after_power_loss(kept);
                let copy = directory.path().join(format!("{kept:?}"));
                copy_directory(&path, &copy);
                let (store, table) = open(&copy, &survivor).unwrap_or_else(|error| panic!("{what}: {error}"));
                let count = assert_whole(&table, &what);
                assert!(
                    (answered..=answered + 1).contains(&count),
                    "{what}: {answered} updates were acknowledged, {count} are stored"
                );
                drop((store, table));
            }
        }
    }
}

#[test]
fn full_disk_rejects_updates_and_recovers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    std::fs::create_dir(&path).unwrap();
    let disk = SimDisk::new(1);
    let (store, table) = open(&path, &disk).unwrap();
    write_one(&store, &table).unwrap();
    disk.set_capacity(disk.used_bytes());
    let mut written = 1;
    let refusal = loop {
        match write_one(&store, &table) {
            Ok(count) => written = count,
            Err(error) => break error,
        }
        assert!(written < 1_000, "the disk is never full");
    };
    assert!(matches!(refusal, TablesError::DiskFull { .. }), "{refusal}");
    assert_eq!(assert_whole(&table, "reads continue"), written);
    disk.set_capacity(u64::MAX);
    assert_eq!(write_one(&store, &table).unwrap(), written + 1);
    assert!(!store.stats().poisoned);
    drop((store, table));
    assert_eq!(assert_whole(&open(&path, &disk).unwrap().1, "reopened"), written + 1);
}

/// The sorted tables are not part of this test.
fn directory_in_memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// The operations of [`FEW`] updates without a fault.
fn operations_of_few() -> Vec<Operation> {
    let (directory, disk) = (directory_in_memory(), SimDisk::new(0));
    let (store, table) = open_with(&directory.path().join("s"), &disk, &tiny_options()).unwrap();
    for count in 1..=FEW {
        assert_eq!(write_one(&store, &table).unwrap(), count);
    }
    drop((store, table));
    disk.operations()
}

/// Outcome of an operation on a full disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// No update was affected.
    PutOff,
    /// An update, or opening the store, reported the error, and the next attempt succeeded.
    Refused,
    /// A sync failed: no further updates are possible.
    Stopped,
}

/// Updates a store that meets the fault. Returns the number of acknowledged updates.
fn update_few(path: &Path, disk: &SimDisk, is_sync: bool, what: &str) -> (u64, Outcome) {
    let mut outcome = Outcome::PutOff;
    let opened = open_with(path, disk, &tiny_options()).or_else(|error| {
        assert!(matches!(error, TablesError::Io { .. }), "{what}: {error}");
        outcome = Outcome::Refused;
        open_with(path, disk, &tiny_options())
    });
    let (store, table) = opened.unwrap_or_else(|error| panic!("{what}, opened again: {error}"));
    let mut answered = 0;
    while answered < FEW {
        let written = write_one(&store, &table);
        match written {
            Ok(count) => {
                assert_eq!(count, answered + 1, "{what}");
                answered = count;
                continue;
            }
            Err(TablesError::DiskFull { .. }) => {
                assert_eq!(outcome, Outcome::PutOff, "{what}: it was refused before");
                assert!(!store.stats().poisoned, "{what}");
                outcome = Outcome::Refused;
            }
            Err(error) => {
                assert!(is_sync, "{what}: {error}");
                let again = write_one(&store, &table);
                assert!(matches!(again, Err(TablesError::Poisoned { .. })), "{what}: {again:?}");
                outcome = Outcome::Stopped;
            }
        }
        assert_eq!(assert_whole(&table, what), answered, "{what}: reads continue");
        if outcome == Outcome::Stopped {
            break;
        }
    }
    (answered, outcome)
}

/// Any single operation may find no space. It is rejected or postponed, and the store continues. Only a failed sync
/// ends the updates, because the content of the disk is not known then.
#[test]
fn store_continues_after_a_full_disk_at_any_operation() {
    let operations = operations_of_few();
    for kind in [
        Operation::CreateDirectory,
        Operation::Create,
        Operation::Allocate,
        Operation::Write,
        Operation::Sync,
        Operation::Rename,
        Operation::Remove,
        Operation::SyncDirectory,
    ] {
        assert!(operations.contains(&kind), "{kind:?} is none of {operations:?}");
    }
    let directory = directory_in_memory();
    let mut outcomes = Vec::new();
    for (ordinal, operation) in (0_u64..).zip(operations) {
        let what = format!("no room for {operation:?} at operation {ordinal}");
        let path = directory.path().join(ordinal.to_string());
        let disk = SimDisk::new(ordinal);
        disk.inject(ordinal, DiskFault::Full);
        let is_sync = matches!(operation, Operation::Sync | Operation::SyncDirectory);
        let (answered, outcome) = update_few(&path, &disk, is_sync, &what);
        assert_eq!(disk.befallen(), 1, "{what}: it was not met");
        outcomes.push(outcome);
        let survivor = disk.after_power_loss(SurvivingData::Some(ordinal));
        let (store, table) = open_with(&path, &survivor, &tiny_options())
            .unwrap_or_else(|error| panic!("{what}, after a power loss: {error}"));
        let found = assert_whole(&table, &what);
        // An update without an acknowledgement may be there if the sync of its batch failed.
        let unanswered = u64::from(outcome == Outcome::Stopped);
        assert!((answered..=answered + unanswered).contains(&found), "{what}: {answered}, then {found}");
        assert_eq!(write_one(&store, &table).unwrap(), found + 1, "{what}");
        drop((store, table));
        std::fs::remove_dir_all(&path).unwrap();
    }
    for (expected, least) in [(Outcome::PutOff, 5), (Outcome::Refused, 10), (Outcome::Stopped, 20)] {
        let count = outcomes.iter().filter(|outcome| **outcome == expected).count();
        assert!(count >= least, "only {count} {expected:?} of {}", outcomes.len());
    }
}
