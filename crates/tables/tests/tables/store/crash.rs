//! Restarts, crashes, and torn journals.

use std::path::{Path, PathBuf};

use super::support::{number, options_without_flushes, small_options};
use crate::support::{copy_directory, crash_directory, report_durable, run_and_kill};
use upesi_tables::TablesError;
use upesi_tables::store::{Store, Table};

/// Number of keys that one update writes, all or none.
const KEYS_PER_UPDATE: u64 = 3;
/// The test that runs as the process to be killed.
const CHILD: &str = "store::crash::killed_while_writing";

fn open(path: &Path) -> (Store, Table) {
    let store = Store::open(path, &small_options()).unwrap();
    let table = store.table("counted").unwrap();
    (store, table)
}

fn key(update: u64, part: u64) -> Vec<u8> {
    // Distributed like identifiers.
    let mixed = update.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [mixed.to_be_bytes(), update.to_be_bytes(), part.to_be_bytes()].concat()
}

/// Writes the keys of one more update and counts it. Returns the durable count.
fn write_one(store: &Store, table: &Table) -> u64 {
    let table = table.clone();
    store
        .update_blocking(move |transaction| {
            let update = number(transaction.get(&table, b"count")?.as_deref());
            for part in 0..KEYS_PER_UPDATE {
                transaction.put(&table, &key(update, part), &update.to_le_bytes())?;
            }
            transaction.put(&table, b"count", &(update + 1).to_le_bytes())?;
            Ok(update + 1)
        })
        .unwrap()
}

/// The invariant: everything that is counted is there, and nothing beyond it.
fn assert_whole(table: &Table) -> u64 {
    let count = number(table.get(b"count").unwrap().as_deref());
    for update in 0..count {
        for part in 0..KEYS_PER_UPDATE {
            let value = table.get(&key(update, part)).unwrap();
            assert_eq!(value.as_deref(), Some(&update.to_le_bytes()[..]), "update {update} of {count}");
        }
    }
    let entries = table.scan(&[], None, usize::MAX).unwrap().len() as u64;
    assert_eq!(entries, count * KEYS_PER_UPDATE + u64::from(count > 0), "half an update");
    count
}

#[test]
fn reopened_store_has_all_acknowledged_updates() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    for round in 0..4 {
        let (store, table) = open(&path);
        assert_eq!(assert_whole(&table), round * 200);
        for _ in 0..200 {
            write_one(&store, &table);
        }
    }
}

#[test]
fn copy_of_the_files_at_any_moment_is_consistent() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let (store, table) = open(&path);
    for round in 0..6 {
        for _ in 0..60 {
            write_one(&store, &table);
        }
        // The journal and the memtables as after a crash. No merge is running, or its files are complete.
        let copy = directory.path().join(format!("copy-{round}"));
        copy_directory(&path, &copy);
        assert_eq!(assert_whole(&open(&copy).1), (round + 1) * 60);
    }
}

/// Damages a copy of a store.
type Inflict<'a> = &'a dyn Fn(&Path);

fn logs_of(path: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(path.join("journal")).unwrap().map(|file| file.unwrap().path());
    let mut logs: Vec<_> = files.filter(|file| file.extension().is_some_and(|name| name == "seg")).collect();
    logs.sort();
    logs
}

#[test]
fn truncated_log_loses_only_complete_updates_at_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let options = options_without_flushes();
    let store = Store::open(&path, &options).unwrap();
    let table = store.table("counted").unwrap();
    for _ in 0..20 {
        write_one(&store, &table);
    }
    drop((store, table));
    let log = logs_of(&path).pop().unwrap();
    let written = std::fs::read(&log).unwrap();
    let end = written.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let mut counts = Vec::new();
    // The segment's header and first update existed before the segment had a name.
    for cut in (1024..end).rev().step_by(97) {
        let copy = directory.path().join("copy");
        copy_directory(&path, &copy);
        // Allocated and unwritten bytes read as zeros. Sectors are written completely or not at all.
        let mut bytes = written.clone();
        bytes[cut / 512 * 512..].fill(0);
        std::fs::write(copy.join("journal").join(log.file_name().unwrap()), bytes).unwrap();
        let store = Store::open(&copy, &options).unwrap();
        let table = store.table("counted").unwrap();
        let count = assert_whole(&table);
        counts.push(count);
        // The store continues from there.
        assert_eq!(write_one(&store, &table), count + 1);
        drop((store, table));
        let store = Store::open(&copy, &options).unwrap();
        assert_eq!(assert_whole(&store.table("counted").unwrap()), count + 1);
        drop(store);
        std::fs::remove_dir_all(&copy).unwrap();
    }
    assert_eq!(counts.first(), Some(&19), "the last update is torn by the first cut");
    assert_eq!(counts.last(), Some(&1));
    assert!(counts.is_sorted_by(|longer, shorter| longer >= shorter));
}

#[test]
fn interrupted_creation_is_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    std::fs::create_dir_all(path.join("tables.new")).unwrap();
    std::fs::write(path.join("tables.new/0.jnl"), b"half").unwrap();
    let (store, table) = open(&path);
    write_one(&store, &table);
    assert_eq!(assert_whole(&table), 1);
}

#[test]
fn second_process_that_opens_the_files_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let (store, table) = open(&path);
    assert!(matches!(Store::open(&path, &small_options()), Err(TablesError::InUse { .. })));
    drop(store);
    // A table that is still held keeps the files open.
    assert!(matches!(Store::open(&path, &small_options()), Err(TablesError::InUse { .. })));
    drop(table);
    open(&path);
}

#[test]
fn damaged_store_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let (store, table) = open(&path);
    for _ in 0..300 {
        write_one(&store, &table);
    }
    drop((store, table));
    let tables: Vec<_> = std::fs::read_dir(path.join("tables/keyspaces")).unwrap().collect();
    assert!(tables.len() >= 3, "fjall's own, the watermark's and ours");
    let remove = |name: &str, copy: &Path| std::fs::remove_dir_all(copy.join(name)).unwrap();
    let spoil = |name: &str, copy: &Path| {
        assert!(copy.join(name).exists(), "the store does not have the file {name}");
        std::fs::write(copy.join(name), b"?").unwrap();
    };
    let first_log = logs_of(&path).swap_remove(0);
    let log = format!("journal/{}", first_log.file_name().unwrap().to_str().unwrap());
    let damages: [(&str, Inflict<'_>); 6] = [
        ("no format", &|copy| spoil("tables/version", copy)),
        ("no list of tables", &|copy| spoil("tables/keyspaces/0/current", copy)),
        ("no log", &|copy| remove("journal", copy)),
        ("no tables", &|copy| remove("tables", copy)),
        ("one table less", &|copy| remove("tables/keyspaces/2", copy)),
        ("a spoilt log", &|copy| spoil(&log, copy)),
    ];
    for (what, inflict) in damages {
        let copy = directory.path().join("copy");
        copy_directory(&path, &copy);
        inflict(&copy);
        let outcome = Store::open(&copy, &small_options());
        let told = matches!(outcome, Err(TablesError::Damaged { .. } | TablesError::Format { .. }));
        assert!(told, "{what}: {outcome:?}");
        drop(outcome);
        std::fs::remove_dir_all(&copy).unwrap();
    }
}

/// Runs this program again as the process to be killed; see [`acknowledged_updates_survive_a_kill_at_any_moment`].
#[test]
#[ignore = "the child of acknowledged_updates_survive_a_kill_at_any_moment"]
fn killed_while_writing() {
    let Some(path) = crash_directory() else { return };
    let (store, table) = open(&path);
    // The parent kills this process long before the limit, which applies if the parent has ended first.
    for _ in 0..1_000_000 {
        report_durable(write_one(&store, &table));
    }
}

#[test]
fn acknowledged_updates_survive_a_kill_at_any_moment() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut before = 0;
    for round in 1..=6 {
        let reported = run_and_kill(CHILD, &path, before + round * 70);
        let (_store, table) = open(&path);
        let count = assert_whole(&table);
        assert!(count >= reported, "{reported} updates were acknowledged, {count} are stored");
        before = count;
    }
}
