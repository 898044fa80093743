//! A store whose journal is a copy of another one's, and one that detects that another node is the leader.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use upesi_journal::{AppendedBatch, Appender, Batch, Disk, JournalError, Maintenance, Writer};
use upesi_tables::TablesError;
use upesi_tables::store::{Entry, Store, StoreEnd, StoreFollower, StoreOptions, Table, digest};
use upesi_types::ErrorCode;

use super::support::{number, small_options};

/// Appends to its own journal and to another node's.
struct Both {
    own: Writer,
    other: Writer,
    /// Whether another node is the leader.
    is_superseded: Arc<AtomicBool>,
}

impl Both {
    fn check(&self) -> Result<(), JournalError> {
        match self.is_superseded.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(JournalError::Superseded { by: "node-2".to_owned() }),
        }
    }
}

impl Appender for Both {
    fn append(&mut self, batch: &mut Batch) -> Result<AppendedBatch, JournalError> {
        self.check()?;
        let mut copy = Batch::new(batch.first_seq());
        for record in batch.records() {
            copy.push(record.time_ns, |buffer| buffer.extend_from_slice(record.bytes));
        }
        self.other.append(&mut copy)?;
        self.other.maintain()?;
        self.own.append(batch)
    }

    fn confirm(&mut self) -> Result<(), JournalError> {
        self.check()
    }

    fn reserve(&mut self, body_bytes: u64) -> Result<(), JournalError> {
        self.own.reserve(body_bytes)
    }

    fn has_room_for(&self, body_bytes: u64) -> bool {
        self.own.has_room_for(body_bytes)
    }

    fn maintain(&mut self) -> Result<Maintenance, JournalError> {
        self.own.maintain()
    }
}

fn writer(follower: &StoreFollower) -> Writer {
    upesi_journal::open(follower.disk(), follower.journal_options()).unwrap().writer
}

/// A leading store, a store that follows it, and the switch that supersedes the first.
fn pair(directory: &Path, options: &StoreOptions) -> (Store, StoreFollower, Arc<AtomicBool>) {
    let [own, other] =
        ["own", "other"].map(|name| StoreFollower::open(directory.join(name), options).unwrap());
    let is_superseded = Arc::new(AtomicBool::new(false));
    let both = Both { own: writer(&own), other: writer(&other), is_superseded: Arc::clone(&is_superseded) };
    let (last_seq, last_time_ns) = (both.own.next_seq() - 1, both.own.last_time_ns());
    let store = own.lead(StoreEnd { appender: Box::new(both), last_seq, last_time_ns }).unwrap();
    (store, other, is_superseded)
}

/// A standalone store in place of a follower.
fn lead(follower: StoreFollower) -> Store {
    let own = writer(&follower);
    let (last_seq, last_time_ns) = (own.next_seq() - 1, own.last_time_ns());
    follower.lead(StoreEnd { appender: Box::new(own), last_seq, last_time_ns }).unwrap()
}

/// One more update. Returns the number of updates.
fn write_one(store: &Store) -> Result<u64, TablesError> {
    let [table, other] = ["counted", "other"].map(|name| store.table(name).unwrap());
    store.update_blocking(move |transaction| {
        let count = number(transaction.get(&table, b"count")?.as_deref()) + 1;
        transaction.put(&table, &count.to_be_bytes(), &[7; 300])?;
        transaction.delete(&table, &(count / 2).to_be_bytes())?;
        transaction.put(&other, &(count % 5).to_be_bytes(), &count.to_le_bytes())?;
        transaction.put(&table, b"count", &count.to_le_bytes())?;
        Ok(count)
    })
}

fn contents(store: &Store) -> [Vec<Entry>; 2] {
    let all = |table: Table| table.scan(b"", None, usize::MAX).unwrap();
    ["counted", "other"].map(|name| all(store.table(name).unwrap()))
}

/// Directories of tables, including the library's own.
fn keyspaces(path: &Path) -> usize {
    std::fs::read_dir(path.join("tables/keyspaces")).unwrap().count()
}

#[test]
fn prepared_tables_are_not_created_again_by_the_leader() {
    let directory = tempfile::tempdir().unwrap();
    let follower = StoreFollower::open(directory.path(), &small_options()).unwrap();
    let before = keyspaces(directory.path());
    follower.prepare(&["counted", "other"]).unwrap();
    assert_eq!(keyspaces(directory.path()), before + 2);
    let store = lead(follower);
    assert_eq!(contents(&store), [vec![], vec![]]);
    write_one(&store).unwrap();
    assert_eq!(keyspaces(directory.path()), before + 2);
    store.close();
}

fn segments(disk: &dyn Disk) -> usize {
    upesi_journal::segments(disk).unwrap().len()
}

#[test]
fn stopped_follower_has_all_updates_of_the_leader() {
    let directory = tempfile::tempdir().unwrap();
    let options = small_options();
    let (store, mut follower, _) = pair(directory.path(), &options);
    let mut deleted = 0;
    for count in 1..=400 {
        assert_eq!(write_one(&store).unwrap(), count);
        follower.follow_to(count).unwrap();
        if count % 90 == 0 {
            let before = segments(&*follower.disk());
            drop(follower);
            follower = StoreFollower::open(directory.path().join("other"), &options).unwrap();
            follower.follow_to(count).unwrap();
            deleted = deleted.max(before);
        }
    }
    // 400 changes of at least 300 bytes, in segments of 16 KiB, would be eight segments without the tables.
    assert!(deleted <= 4, "{deleted} segments");
    let expected = contents(&store);
    assert_eq!(expected[0].len(), 201);
    store.close();
    drop(store);
    let own = digest(directory.path().join("own")).unwrap();
    assert_eq!((own.record, own.entries), (400, (expected[0].len() + expected[1].len()) as u64));
    drop(follower);
    assert_eq!(digest(directory.path().join("other")).unwrap(), own);
    let follower = StoreFollower::open(directory.path().join("other"), &options).unwrap();
    let store = lead(follower);
    assert_eq!(contents(&store), expected);
    assert_eq!(write_one(&store).unwrap(), 401, "the store continues");
    drop(store);
    let other = digest(directory.path().join("other")).unwrap();
    assert!(other.record == 401 && other.digest != own.digest, "{other:?}");
}

#[test]
fn empty_store_has_the_same_digest_without_a_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    drop(Store::open(&path, &small_options()).unwrap());
    let empty = digest(&path).unwrap();
    assert_eq!((empty.record, empty.entries), (0, 0));
    std::fs::remove_dir_all(path.join("journal")).unwrap();
    assert_eq!(digest(&path).unwrap(), empty);
}

#[test]
fn follower_stops_at_a_missing_record() {
    let directory = tempfile::tempdir().unwrap();
    let (store, mut follower, _) = pair(directory.path(), &small_options());
    write_one(&store).unwrap();
    follower.follow_to(1).unwrap();
    let error = follower.follow_to(2).unwrap_err();
    assert!(
        matches!(&error, TablesError::Damaged { .. }) && error.to_string().contains("record 2 is missing"),
        "{error}"
    );
}

#[test]
fn store_of_a_former_leader_rejects_reads_and_writes() {
    let directory = tempfile::tempdir().unwrap();
    let (store, mut follower, is_superseded) = pair(directory.path(), &small_options());
    write_one(&store).unwrap();
    let before = contents(&store);
    is_superseded.store(true, Ordering::Release);
    // Pure reads could return outdated values.
    let read = store.update_blocking(|_| Ok(())).unwrap_err();
    for error in [read, write_one(&store).unwrap_err(), write_one(&store).unwrap_err()] {
        assert_eq!(error.code(), ErrorCode::UNAVAILABLE, "{error}");
        assert!(error.to_string().contains("is no longer the leader (node-2 is)"), "{error}");
    }
    assert_eq!(contents(&store), before);
    assert!(!store.stats().poisoned, "its disk is sound");
    follower.follow_to(1).unwrap();
    let error = follower.follow_to(2).unwrap_err();
    assert!(matches!(error, TablesError::Damaged { .. }), "nothing was written there: {error}");
}

#[test]
fn record_size_is_limited_to_a_batch_and_an_update() {
    let directory = tempfile::tempdir().unwrap();
    let (batch_bytes_max, update_bytes_max) = (1_000, 5_000);
    let options = StoreOptions { batch_bytes_max, update_bytes_max, ..small_options() };
    let (store, follower, _) = pair(directory.path(), &options);
    let table = store.table("t").unwrap();
    let (begin, begun) = std::sync::mpsc::channel::<()>();
    // The first update waits, so the others queue up behind it and share batches.
    drop(store.update(move |_| Ok(begun.recv().is_ok())));
    let updates: Vec<_> = (0..200_u32)
        .map(|number| {
            let table = table.clone();
            // Keys of one byte, because the overhead of a record counts too.
            let keys = if number % 7 == 3 { 600 } else { 10 + number % 40 };
            store.update(move |transaction| {
                (0..keys).try_for_each(|key| transaction.put(&table, &[key as u8], b""))
            })
        })
        .collect();
    begin.send(()).unwrap();
    let outcomes: Vec<_> = updates.into_iter().map(futures_block_on).collect();
    assert!(outcomes.iter().any(Result::is_ok));
    let mut reader = upesi_journal::Reader::new(follower.disk(), 1);
    let mut largest = 0;
    while let Some(record) = reader.next_record(upesi_journal::END).unwrap() {
        largest = largest.max(record.bytes.len());
    }
    assert!(
        largest > batch_bytes_max / 4 && largest <= batch_bytes_max + update_bytes_max + 100,
        "{largest}"
    );
    let error = outcomes.iter().find_map(|outcome| outcome.as_ref().err()).expect("600 changes are too many");
    assert!(matches!(error, TablesError::TooLarge { what: "update", bytes_max: 5_000, .. }), "{error}");
}

fn futures_block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}
