//! The views of updates and of readers, and the limits of both.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};

use super::support::{number, small_options};
use upesi_tables::TablesError;
use upesi_tables::store::{KEY_BYTES_MAX, Store, StoreOptions, Table, VALUE_BYTES_MAX};

fn open(directory: &tempfile::TempDir) -> (Store, Table) {
    let store = Store::open(directory.path().join("store"), &small_options()).unwrap();
    let table = store.table("things").unwrap();
    (store, table)
}

fn get(table: &Table, key: &str) -> Option<Vec<u8>> {
    table.get(key.as_bytes()).unwrap().map(|value| value.to_vec())
}

/// Holds the writer inside an update until it is released.
struct Stop {
    go_on: mpsc::Sender<()>,
}

impl Stop {
    fn writer_of(store: &Store) -> Self {
        let (go_on, wait) = mpsc::channel::<()>();
        let reached = Arc::new(Barrier::new(2));
        let of_writer = Arc::clone(&reached);
        // Its result is ignored, but the update runs.
        drop(store.update(move |_| {
            of_writer.wait();
            let _ = wait.recv();
            Ok(())
        }));
        reached.wait();
        Self { go_on }
    }

    fn release(self) {
        self.go_on.send(()).unwrap();
    }
}

#[tokio::test]
async fn update_reads_its_own_and_earlier_writes() {
    let directory = tempfile::tempdir().unwrap();
    let (store, table) = open(&directory);
    let count = 500;
    let updates: Vec<_> = (0..count)
        .map(|_| {
            let table = table.clone();
            store.update(move |transaction| {
                let before = number(transaction.get(&table, b"n")?.as_deref());
                transaction.put(&table, b"n", &(before + 1).to_le_bytes())?;
                Ok((before, number(transaction.get(&table, b"n")?.as_deref())))
            })
        })
        .collect();
    for (index, update) in (0..).zip(updates) {
        assert_eq!(update.await.unwrap(), (index, index + 1));
    }
    assert_eq!(number(table.get(b"n").unwrap().as_deref()), count);
    let stats = store.stats();
    assert_eq!(stats.updates, count);
    assert!(stats.batches < count, "{} batches for {count} updates that waited together", stats.batches);
}

#[tokio::test]
async fn queued_updates_are_invisible_to_readers() {
    let directory = tempfile::tempdir().unwrap();
    let (store, table) = open(&directory);
    let stop = Stop::writer_of(&store);
    let of_update = table.clone();
    let update = store.update(move |transaction| {
        transaction.put(&of_update, b"key", b"value")?;
        // Visible inside the batch, but not to readers.
        assert!(transaction.get(&of_update, b"key")?.is_some());
        Ok(of_update.get(b"key")?.is_none())
    });
    assert_eq!(get(&table, "key"), None);
    stop.release();
    assert!(update.await.unwrap());
    assert_eq!(get(&table, "key").as_deref(), Some(&b"value"[..]));
}

#[tokio::test]
async fn failed_update_affects_no_other_update() {
    let directory = tempfile::tempdir().unwrap();
    let (store, table) = open(&directory);
    let acted = Arc::new(AtomicUsize::new(0));
    let put = |key: &'static str, value: &'static str, then_fail: bool| {
        let (table, acted) = (table.clone(), Arc::clone(&acted));
        store.update(move |transaction| {
            transaction.put(&table, key.as_bytes(), value.as_bytes())?;
            transaction.delete(&table, b"always")?;
            transaction.put(&table, b"always", value.as_bytes())?;
            transaction.once_durable(move || {
                acted.fetch_add(1, Ordering::Relaxed);
            });
            if then_fail { Err(TablesError::content("a test")) } else { Ok(()) }
        })
    };
    // All are in one batch if the writer is held meanwhile.
    let stop = Stop::writer_of(&store);
    let updates = [put("a", "1", false), put("a", "2", true), put("b", "3", true), put("c", "4", false)];
    stop.release();
    let mut outcomes = Vec::new();
    for update in updates {
        outcomes.push(update.await.is_ok());
    }
    assert_eq!(outcomes, [true, false, false, true]);
    assert_eq!(get(&table, "a").as_deref(), Some(&b"1"[..]));
    assert_eq!(get(&table, "b"), None);
    assert_eq!(get(&table, "always").as_deref(), Some(&b"4"[..]));
    assert_eq!(acted.load(Ordering::Relaxed), 2, "actions of failed updates are not taken");
}

#[tokio::test]
async fn action_runs_before_the_answer_even_if_the_caller_left() {
    let directory = tempfile::tempdir().unwrap();
    let (store, table) = open(&directory);
    let (sender, receiver) = mpsc::channel();
    for index in 0_u8..2 {
        let (table, sender) = (table.clone(), sender.clone());
        drop(store.update(move |transaction| {
            transaction.put(&table, &[b'k', index], b"x")?;
            let table = table.clone();
            transaction.once_durable(move || {
                sender.send((index, table.get(&[b'k', index]).unwrap().is_some())).unwrap();
            });
            Ok(())
        }));
    }
    store.update(|_| Ok(())).await.unwrap();
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [(0, true), (1, true)]);
}

#[tokio::test]
async fn full_queue_rejects_updates_immediately() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions { queue_updates_max: 3, ..small_options() };
    let store = Store::open(directory.path().join("store"), &options).unwrap();
    let stop = Stop::writer_of(&store);
    let waiting: Vec<_> = (0..3).map(|_| store.update(|_| Ok(()))).collect();
    let shed = store.update(|_| Ok(())).await.unwrap_err();
    assert!(matches!(shed, TablesError::Busy { updates_max: 3 }));
    assert_eq!(shed.code().number(), 2003);
    stop.release();
    for update in waiting {
        update.await.unwrap();
    }
    assert_eq!(store.stats().updates_shed, 1);
    store.update(|_| Ok(())).await.unwrap();
}

#[tokio::test]
async fn full_disk_rejects_updates_and_serves_reads() {
    let directory = tempfile::tempdir().unwrap();
    let (store, table) = open(&directory);
    let of_update = table.clone();
    store.update(move |transaction| transaction.put(&of_update, b"key", b"value")).await.unwrap();
    drop((store, table));
    let options = StoreOptions { free_bytes_min: u64::MAX, ..small_options() };
    let store = Store::open(directory.path().join("store"), &options).unwrap();
    let table = store.table("things").unwrap();
    let of_update = table.clone();
    for _ in 0..2 {
        let of_update = of_update.clone();
        let refusal =
            store.update(move |transaction| transaction.delete(&of_update, b"key")).await.unwrap_err();
        assert!(matches!(refusal, TablesError::DiskFull { .. }), "{refusal}");
        assert_eq!(refusal.code().number(), 2003);
    }
    assert_eq!(get(&table, "key").as_deref(), Some(&b"value"[..]));
    assert!(!store.stats().poisoned, "updates continue once there is space");
}

#[tokio::test]
async fn keys_and_values_have_a_maximum_size() {
    let directory = tempfile::tempdir().unwrap();
    let (store, table) = open(&directory);
    for (key_bytes, fits) in [(1, true), (KEY_BYTES_MAX, true), (KEY_BYTES_MAX + 1, false)] {
        let table = table.clone();
        let outcome =
            store.update(move |transaction| transaction.put(&table, &vec![7; key_bytes], b"")).await;
        assert_eq!(outcome.is_ok(), fits, "a key of {key_bytes} bytes");
    }
    assert_eq!(table.get(&[7]).unwrap().as_deref(), Some(&b""[..]), "an empty value is a value");
    let of_update = table.clone();
    let large = store.update(move |transaction| {
        let value = vec![0; VALUE_BYTES_MAX];
        (0_u8..9).try_for_each(|index| transaction.put(&of_update, &[1, index], &value))
    });
    assert!(matches!(large.await, Err(TablesError::TooLarge { what: "update", .. })));
    assert_eq!(table.get(&[1, 0]).unwrap(), None);
    let value = store.update(move |transaction| transaction.put(&table, b"k", &vec![0; VALUE_BYTES_MAX + 1]));
    assert!(matches!(value.await, Err(TablesError::TooLarge { what: "value", .. })));
}

#[tokio::test]
async fn closing_finishes_queued_updates_and_rejects_further_ones() {
    let directory = tempfile::tempdir().unwrap();
    let (store, table) = open(&directory);
    let stop = Stop::writer_of(&store);
    let of_update = table.clone();
    let queued = store.update(move |transaction| transaction.put(&of_update, b"key", b"value"));
    let closing = std::thread::spawn({
        let store = store.clone();
        move || store.close()
    });
    // Whether or not it arrives before the queue is closed, it is answered.
    let late = store.update(|_| Ok(()));
    stop.release();
    closing.join().unwrap();
    queued.await.unwrap();
    assert!(matches!(late.await, Ok(()) | Err(TablesError::Closed)));
    assert!(matches!(store.update(|_| Ok(())).await, Err(TablesError::Closed)));
    assert_eq!(get(&table, "key").as_deref(), Some(&b"value"[..]), "readers continue");
    store.close();
}

#[tokio::test]
async fn scans_are_ordered_limited_and_can_be_continued() {
    let directory = tempfile::tempdir().unwrap();
    let (store, table) = open(&directory);
    let of_update = table.clone();
    let keys = ["a", "b1", "b2", "b3", "b3x", "c"];
    store
        .update(move |transaction| {
            keys.iter().try_for_each(|key| transaction.put(&of_update, key.as_bytes(), b""))
        })
        .await
        .unwrap();
    let found = |prefix: &str, after: Option<&str>, limit| {
        let entries = table.scan(prefix.as_bytes(), after.map(str::as_bytes), limit).unwrap();
        entries.into_iter().map(|(key, _)| String::from_utf8(key).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(found("", None, 99), keys);
    assert_eq!(found("b", None, 99), ["b1", "b2", "b3", "b3x"]);
    assert_eq!(found("b", None, 2), ["b1", "b2"]);
    assert_eq!(found("b", Some("b2"), 2), ["b3", "b3x"]);
    assert_eq!(found("b", Some("a"), 1), ["b1"], "a start before the prefix is the prefix");
    assert_eq!(found("b", Some("c"), 9), [""; 0]);
    assert_eq!(found("d", None, 9), [""; 0]);
}

#[test]
fn blocking_update_has_the_same_results() {
    let directory = tempfile::tempdir().unwrap();
    let (store, table) = open(&directory);
    let of_update = table.clone();
    store.update_blocking(move |transaction| transaction.put(&of_update, b"key", b"value")).unwrap();
    assert_eq!(get(&table, "key").as_deref(), Some(&b"value"[..]));
    store.close();
    assert!(matches!(store.update_blocking(|_| Ok(())), Err(TablesError::Closed)));
}

#[test]
fn tables_are_separate_and_found_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let (store, table) = open(&directory);
    let other = store.table("others").unwrap();
    let (a, b) = (table.clone(), other.clone());
    store
        .update_blocking(move |transaction| {
            transaction.put(&a, b"key", b"1")?;
            transaction.put(&b, b"key", b"2")?;
            Ok((
                transaction.get(&a, b"key")?.unwrap().to_vec(),
                transaction.get(&b, b"key")?.unwrap().to_vec(),
            ))
        })
        .map(|seen| assert_eq!(seen, (b"1".to_vec(), b"2".to_vec())))
        .unwrap();
    assert_eq!(get(&store.table("things").unwrap(), "key").as_deref(), Some(&b"1"[..]));
    assert_eq!(get(&other, "key").as_deref(), Some(&b"2"[..]));
}
