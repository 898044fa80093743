//! The log on a simulated disk that stops, fails and fills up.
#![allow(missing_docs)]

mod support;

use std::path::Path;
use std::sync::Arc;

use support::{copy_directory, number, small_options};
use upesi_journal::sim_disk::{Fault, Kept, SimDisk};
use upesi_store::{Store, StoreError, Table};

const UPDATES: u64 = 120;

fn open(path: &Path, disk: &SimDisk) -> Result<(Store, Table), StoreError> {
    let store = Store::open_with_log_on(path, Arc::new(disk.clone()), &small_options())?;
    let table = store.table("counted")?;
    Ok((store, table))
}

/// One more update of three keys; the count that is durable then.
fn write_one(store: &Store, table: &Table) -> Result<u64, StoreError> {
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

/// Writes until something fails; the count that was answered last, and why it ended.
fn write_until_failure(path: &Path, disk: &SimDisk) -> (u64, Option<StoreError>) {
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
                assert!(matches!(again, Err(StoreError::Poisoned { .. })), "after {error}: {again:?}");
                assert!(store.stats().poisoned);
                assert_eq!(assert_whole(&table, "reads go on"), answered);
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
fn whatever_fails_and_whenever_power_is_lost_all_that_was_answered_is_there() {
    let operations = operations_of_a_whole_run();
    assert!(operations > 2 * UPDATES, "{operations} operations");
    for (seed, ordinal) in (0..operations).step_by(7).enumerate().map(|(seed, at)| (seed as u64, at)) {
        for fault in [Fault::Crash, Fault::Broken] {
            let what = format!("seed {seed}, {fault:?} at operation {ordinal} of {operations}");
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("s");
            std::fs::create_dir(&path).unwrap();
            let disk = SimDisk::new(seed);
            disk.inject(ordinal, fault);
            let (answered, error) = write_until_failure(&path, &disk);
            assert!(error.is_some() || answered == UPDATES, "{what}");
            for kept in [Kept::Everything, Kept::Nothing, Kept::Some(seed)] {
                let survivor = disk.after_power_loss(kept);
                let copy = directory.path().join(format!("{kept:?}"));
                copy_directory(&path, &copy);
                let (store, table) = open(&copy, &survivor).unwrap_or_else(|error| panic!("{what}: {error}"));
                let count = assert_whole(&table, &what);
                assert!(
                    (answered..=answered + 1).contains(&count),
                    "{what}: {answered} were answered, {count} are there"
                );
                drop((store, table));
            }
        }
    }
}

#[test]
fn a_full_disk_refuses_and_recovers() {
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
    assert!(matches!(refusal, StoreError::DiskFull { .. }), "{refusal}");
    assert_eq!(assert_whole(&table, "reads go on"), written);
    disk.set_capacity(u64::MAX);
    assert_eq!(write_one(&store, &table).unwrap(), written + 1);
    assert!(!store.stats().poisoned);
    drop((store, table));
    assert_eq!(assert_whole(&open(&path, &disk).unwrap().1, "reopened"), written + 1);
}
