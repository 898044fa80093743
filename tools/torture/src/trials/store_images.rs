//! The store beside the journal: its log on the simulated disk, its sorted tables in a directory of the real one.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use upesi_journal::sim_disk::{Fault, Kept, Random, SimDisk};
use upesi_tables::TablesError;
use upesi_tables::store::{Store, StoreOptions, Table};

use crate::real_files::{copy_directory, directory_in_memory};
use crate::tally::Tally;

/// One seed in so many stops a store as well: its tables are real files, which take their time.
const STRIDE: u64 = 16;
const UPDATES: u64 = 40;
/// Most operations that come before the fault.
const ORDINALS: u64 = 120;

/// Writes until the disk stops or breaks; every image holds all that was answered, and no half of an update.
pub fn run(seed: u64, tally: &mut Tally) {
    if !seed.is_multiple_of(STRIDE) {
        return;
    }
    let mut random = Random::new(seed ^ 0x7374_6f72);
    let directory = directory_in_memory();
    let path = directory.path().join("store");
    fs::create_dir(&path).expect("a directory");
    let disk = SimDisk::new(seed);
    let ordinal = random.below(ORDINALS);
    let fault = if random.one_in(3) { Fault::Broken } else { Fault::Crash };
    disk.inject(ordinal, fault);
    let answered = write_until_failure(&path, &disk);
    for kept in [Kept::Everything, Kept::Nothing, Kept::Some(random.bits()), Kept::Some(random.bits())] {
        let what = format!("store, seed {seed}, {fault:?} at operation {ordinal}, {kept:?}");
        let copy = directory.path().join("copy");
        copy_directory(&path, &copy).expect("a copy");
        let (store, table) = open(&copy, &disk.after_power_loss(kept))
            .unwrap_or_else(|error| panic!("{what}: does not open: {error}"));
        let count = whole(&table, &what);
        assert!(
            (answered..=answered + 1).contains(&count),
            "{what}: {answered} were answered, {count} are there"
        );
        drop((store, table));
        fs::remove_dir_all(&copy).expect("a directory that was made");
        tally.unit("store");
    }
}

fn open(path: &Path, disk: &SimDisk) -> Result<(Store, Table), TablesError> {
    // Many small files from few entries, and no demands on the disk's room.
    let options = StoreOptions {
        pending_bytes: 8 << 10,
        segment_bytes: 8 << 10,
        table_bytes: 32 << 10,
        unmerged_tables: 4,
        cache_bytes: 1 << 20,
        free_bytes_min: 0,
        ..StoreOptions::default()
    };
    let store = Store::open_with_log_on(path, Arc::new(disk.clone()), &options)?;
    let table = store.table("counted")?;
    Ok((store, table))
}

/// The number of updates that were answered.
fn write_until_failure(path: &Path, disk: &SimDisk) -> u64 {
    let Ok((store, table)) = open(path, disk) else { return 0 };
    let mut answered = 0;
    while answered < UPDATES {
        match write_one(&store, &table) {
            Ok(count) => answered = count,
            Err(_) => break,
        }
    }
    answered
}

/// One more update of several keys; the count that is durable then.
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

fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |bytes| bytes.try_into().map_or(0, u64::from_le_bytes))
}

/// All of each update is there, or none of it; gives how many there are.
fn whole(table: &Table, what: &str) -> u64 {
    let get = |key: &[u8]| table.get(key).unwrap_or_else(|error| panic!("{what}: {error}"));
    let count = number(get(b"count").as_deref());
    assert_eq!(number(get(b"last").as_deref()), count, "{what}: half an update");
    let entries = table.scan(b"k", None, usize::MAX).unwrap_or_else(|error| panic!("{what}: {error}"));
    let expected = (count / 2 + 1..=count).map(|count| key(count).to_vec());
    assert!(entries.into_iter().map(|entry| entry.0.to_vec()).eq(expected), "{what}: other keys");
    count
}
