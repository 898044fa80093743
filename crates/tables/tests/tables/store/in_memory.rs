//! Tables in memory: loaded after a restart, changed together with updates, removed over their limit.

use std::path::Path;

use super::support::small_options;
use upesi_tables::store::{Store, Table};

const ENTRIES: u32 = 10_000;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn put(store: &Store, table: &Table, numbers: std::ops::Range<u32>, value: &'static [u8]) {
    let table = table.clone();
    let written = store.update_blocking(move |transaction| {
        numbers.into_iter().try_for_each(|number| transaction.put(&table, &key(number), value))
    });
    written.unwrap();
}

fn filled(path: &Path) {
    let store = Store::open(path, &small_options()).unwrap();
    let table = store.table("parties").unwrap();
    put(&store, &table, 0..ENTRIES, b"greenbank");
}

/// Updates until the writer, which loads between them, has loaded everything.
fn wait_until_loaded(store: &Store) {
    for _ in 0..ENTRIES {
        if store.stats().resident_tables == 1 {
            return;
        }
        store.update_blocking(|_| Ok(())).unwrap();
    }
    panic!("not loaded: {:?}", store.stats());
}

#[test]
fn resident_table_has_existing_entries_and_concurrent_changes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    filled(&path);

    let store = Store::open(&path, &small_options()).unwrap();
    let table = store.table("parties").unwrap();
    store.keep_in_memory(&table, 1 << 20);
    store.keep_in_memory(&table, 1 << 20);
    put(&store, &table, 7..8, b"bluewallet");
    let removed = table.clone();
    store.update_blocking(move |transaction| transaction.delete(&removed, &key(9_999))).unwrap();
    wait_until_loaded(&store);
    put(&store, &table, ENTRIES..ENTRIES + 1, b"goldbank");

    let value = |number| table.get(&key(number)).unwrap().map(|value| value.to_vec());
    assert_eq!(value(6).as_deref(), Some(&b"greenbank"[..]));
    assert_eq!(value(7).as_deref(), Some(&b"bluewallet"[..]));
    assert_eq!(value(9_999), None);
    assert_eq!(value(ENTRIES).as_deref(), Some(&b"goldbank"[..]));
    assert_eq!(value(ENTRIES + 1), None);
    let stats = store.stats();
    assert!((ENTRIES as u64 * 12..ENTRIES as u64 * 40).contains(&stats.resident_bytes), "{stats:?}");
}

#[test]
fn store_that_closed_during_loading_opens_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    filled(&path);
    for _ in 0..3 {
        let store = Store::open(&path, &small_options()).unwrap();
        let table = store.table("parties").unwrap();
        store.keep_in_memory(&table, 1 << 20);
        assert_eq!(table.get(&key(1)).unwrap().as_deref(), Some(&b"greenbank"[..]));
    }
}

#[test]
fn table_above_its_memory_limit_is_read_from_disk() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    filled(&path);
    let store = Store::open(&path, &small_options()).unwrap();
    let table = store.table("parties").unwrap();
    store.keep_in_memory(&table, 64 << 10);
    put(&store, &table, 0..7_000, b"bluewallet");
    assert_eq!((store.stats().resident_tables, store.stats().resident_bytes), (0, 0));
    assert_eq!(table.get(&key(1)).unwrap().as_deref(), Some(&b"bluewallet"[..]));
    assert_eq!(table.get(&key(9_000)).unwrap().as_deref(), Some(&b"greenbank"[..]));
}
