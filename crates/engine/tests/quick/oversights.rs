//! Three faults of an engine that no other test would detect. They concern segments that undelivered callbacks need,
//! lookups that are older than a removal from memory, and data that is known to be durable.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use upesi_engine::{
    Engine, EngineHandle, EngineMetrics, EngineOptions, NoEffects, Payload, StartError, Storage,
};
use upesi_journal::JournalError;
use upesi_journal::sim_disk::SimDisk;
use upesi_ledger::{CallbackKey, Command, PublicState, Reply};
use upesi_tables::TablesError;
use upesi_tables::archive::{Archive, ArchiveEntry, ArchiveStats, MemoryArchive};
use upesi_testsupport::scheme::{TestClock, amount, fulfil, id, onboard, position, prepare};
use upesi_types::{Timestamp, TransferId};

const START_MS: i64 = 1_900_000_000_000;
const DFSPS: [&str; 2] = ["greenbank", "bluewallet"];
const SECTOR_BYTES: usize = 512;

fn options() -> EngineOptions {
    EngineOptions {
        segment_bytes: 64 * 1024,
        batch_bytes_max: 16 * 1024,
        fold_every_records: 1,
        clock: TestClock::starting_at(START_MS) as _,
        ..EngineOptions::new("nowhere")
    }
}

fn start(options: EngineOptions) -> (Engine, EngineHandle) {
    Engine::start(options, EngineMetrics::default(), Box::new(NoEffects)).unwrap()
}

fn block_on<T>(story: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(story)
}

fn pays(number: u64, value: &str) -> Command {
    let [payer, payee] = DFSPS;
    prepare(id(number), payer, payee, value, Timestamp::from_ms(START_MS + 1_000_000))
}

fn ends(number: u64) -> Command {
    let [payer, payee] = DFSPS;
    fulfil(id(number), payer, payee)
}

async fn submit(engine: &EngineHandle, command: Command, body: &str) {
    let payload = Payload { headers: "date: now\r\n".into(), body: body.to_owned().into() };
    engine.submit(command, payload).await.unwrap();
}

async fn owed(engine: &EngineHandle) -> Vec<CallbackKey> {
    engine.read(|ledger| ledger.outbox().iter().map(|(key, _)| key).collect()).await.unwrap()
}

/// Transfers whose callbacks are delivered, over several segments.
async fn fill_segments(engine: &EngineHandle, numbers: std::ops::Range<u64>, kept: &[CallbackKey]) {
    for number in numbers {
        submit(engine, pays(number, "2.5"), &"x".repeat(8_000)).await;
        submit(engine, ends(number), "{}").await;
        let others = owed(engine).await.into_iter().filter(|key| !kept.contains(key)).collect();
        submit(engine, Command::Delivered(others), "").await;
    }
}

#[test]
fn segments_needed_by_a_callback_or_reservation_are_retained() {
    let directory = tempfile::tempdir().unwrap();
    let with = |keep_segments| EngineOptions {
        keep_segments,
        snapshot_every_records: u64::MAX / 2,
        data: directory.path().join("data"),
        ..options()
    };
    let (engine, handle) = start(with(false));
    // The first transfer is reserved and its callback is delivered. No callback of the second one is delivered.
    let (reserved_seq, kept) = block_on(async {
        onboard(&handle, &DFSPS).await;
        submit(&handle, pays(1, "10.25"), "the first body").await;
        let delivered = owed(&handle).await;
        submit(&handle, Command::Delivered(delivered), "").await;
        fill_segments(&handle, 100..180, &[]).await;
        submit(&handle, pays(2, "20.75"), "the second body").await;
        submit(&handle, ends(2), "{}").await;
        let kept = owed(&handle).await;
        let reserved = handle.transfer(id(1)).await.unwrap().unwrap();
        let bodies = bodies_of(&handle, &kept).await;
        assert!(bodies.contains(&"the second body".into()) && bodies.contains(&"{}".into()), "{bodies:?}");
        (reserved.prepare_seq, kept)
    });
    let oldest = kept.iter().map(|key| key.seq).min().unwrap();
    drop(handle);
    engine.shutdown();
    let mut first_seqs = Vec::new();
    for life in 2..4 {
        let (engine, handle) = start(with(false));
        block_on(async {
            fill_segments(&handle, life * 100 + 100..life * 100 + 180, &kept).await;
            let payload = handle.payload(reserved_seq).await.unwrap().unwrap();
            assert_eq!(payload.body, "the first body", "in life {life}");
            let bodies = bodies_of(&handle, &kept).await;
            assert!(
                bodies.contains(&"the second body".into()) && bodies.len() == kept.len(),
                "in life {life}"
            );
            if life == 3 {
                // From now on only the callbacks need their segments.
                submit(&handle, ends(1), "{}").await;
                let others = owed(&handle).await.into_iter().filter(|key| !kept.contains(key)).collect();
                submit(&handle, Command::Delivered(others), "").await;
            }
        });
        drop(handle);
        engine.shutdown();
        first_seqs.push(first_seq(&directory.path().join("data")));
    }
    let [reserved, ended] = first_seqs[..] else { unreachable!("two lives") };
    assert!(reserved <= reserved_seq, "the reservation needs record {reserved_seq}, the first is {reserved}");
    assert!(reserved_seq < ended && ended <= oldest, "only callbacks need {oldest}, the first is {ended}");
    for life in 6..9 {
        let (engine, handle) = start(with(false));
        block_on(async {
            fill_segments(&handle, life * 100 + 100..life * 100 + 180, &kept).await;
            let bodies = bodies_of(&handle, &kept).await;
            assert!(
                bodies.contains(&"the second body".into()) && bodies.len() == kept.len(),
                "in life {life}"
            );
        });
        drop(handle);
        engine.shutdown();
    }
    let last = first_seq(&directory.path().join("data"));
    assert!(reserved_seq < last && last <= oldest, "callbacks need {oldest}, the first is {last}");
}

/// The requests of callbacks.
async fn bodies_of(engine: &EngineHandle, keys: &[CallbackKey]) -> Vec<bytes::Bytes> {
    let found = engine.callbacks(keys.to_vec()).await.unwrap();
    found.iter().map(|callback| callback.record.payload.body.clone()).collect()
}

/// The first record of the oldest segment.
fn first_seq(data: &Path) -> u64 {
    let disk = upesi_journal::RealDisk::new(data, upesi_journal::Access::Read);
    upesi_journal::segments(&disk).unwrap()[0].first_seq
}

/// The transfer whose lookup is watched, the channel that reports its begin, and the channel that ends it.
type Watched = (TransferId, Sender<()>, Receiver<()>);

/// An archive with one slow lookup, which sees the archive in the state at its begin.
struct Slow {
    inner: MemoryArchive,
    /// Reports that a lookup of this id has begun, and waits for the message that ends it. Used once.
    watched: Mutex<Option<Watched>>,
}

impl Archive for Slow {
    fn get(&self, id: &TransferId) -> Result<Option<Vec<u8>>, TablesError> {
        let seen = self.inner.get(id);
        let mut watched = self.watched.lock().unwrap();
        if let Some((_, begun, go_on)) = watched.take_if(|(wanted, ..)| wanted == id) {
            drop(watched);
            begun.send(()).unwrap();
            go_on.recv().unwrap();
        }
        seen
    }

    fn may_contain(&self, _id: &TransferId) -> bool {
        true
    }

    fn apply(&self, entries: &[ArchiveEntry], watermark: u64) -> Result<(), TablesError> {
        self.inner.apply(entries, watermark)
    }

    fn sync(&self) -> Result<u64, TablesError> {
        self.inner.sync()
    }

    fn watermark(&self) -> u64 {
        self.inner.watermark()
    }

    fn watermark_applied(&self) -> u64 {
        self.inner.watermark_applied()
    }

    fn stats(&self) -> ArchiveStats {
        self.inner.stats()
    }

    fn for_each(
        &self,
        visit: &mut dyn FnMut(TransferId, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TablesError> {
        self.inner.for_each(visit)
    }

    fn remove_to(&self, seq: u64) -> Result<u64, TablesError> {
        self.inner.remove_to(seq)
    }
}

#[test]
fn archive_lookup_older_than_the_last_removal_is_repeated() {
    let archive = Arc::new(Slow { inner: MemoryArchive::new(), watched: Mutex::default() });
    let storage = Storage { disk: Arc::new(SimDisk::new(3)), archive: Arc::clone(&archive) as _ };
    let (engine, handle) = start(EngineOptions { storage: Some(storage), ..options() });
    block_on(async {
        onboard(&handle, &DFSPS).await;
        submit(&handle, pays(1, "12.25"), "").await;
        let ((begun, has_begun), (go_on, may_go_on)) = (channel(), channel());
        *archive.watched.lock().unwrap() = Some((id(1), begun, may_go_on));
        // A repetition, whose lookup begins before the transfer is archived.
        let resend = {
            let handle = handle.clone();
            tokio::spawn(async move { handle.submit(pays(1, "12.25"), Payload::default()).await })
        };
        tokio::task::yield_now().await;
        has_begun.recv().unwrap();
        submit(&handle, ends(1), "{}").await;
        let mut number = 100;
        while handle.read(|ledger| ledger.transfer(id(1)).is_some()).await.unwrap() {
            submit(&handle, pays(number, "0.5"), "").await;
            submit(&handle, ends(number), "{}").await;
            number += 1;
            assert!(number < 100_000, "memory does not forget it");
        }
        let before = handle.read(|ledger| ledger.totals()).await.unwrap();
        go_on.send(()).unwrap();
        assert_eq!(resend.await.unwrap(), Ok(Reply::Accepted));
        let after = handle.read(|ledger| ledger.totals()).await.unwrap();
        assert_eq!(after, before, "it is not reserved again");
        let found = handle.transfer(id(1)).await.unwrap().unwrap();
        assert_eq!((found.public_state(), found.amount), (PublicState::Committed, amount("12.25")));
        let paid = amount("12.25").units() + amount("0.5").units() * (number as i64 - 100);
        assert_eq!(position(&handle, "greenbank").await.units(), paid);
    });
    engine.shutdown();
}

/// The journal's last frame is incomplete, as after a lost write. Without further knowledge it looks like a torn end,
/// which would be removed.
#[test]
fn torn_record_below_a_known_watermark_is_damage() {
    for forgotten in [None, Some("snapshots"), Some("archive")] {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let options = || EngineOptions { data: data.clone(), ..options() };
        let (engine, handle) = start(options());
        block_on(async {
            onboard(&handle, &DFSPS).await;
            submit(&handle, pays(1, "12.25"), "").await;
            submit(&handle, ends(1), "{}").await;
        });
        drop(handle);
        engine.shutdown();
        if let Some(forgotten) = forgotten {
            std::fs::remove_dir_all(data.join(forgotten)).unwrap();
        }
        tear_last_frame(&data.join("journal"));
        let before = contents(&data.join("journal"));
        let refused = Engine::start(options(), EngineMetrics::default(), Box::new(NoEffects)).err();
        let is_missed = matches!(refused, Some(StartError::Journal(JournalError::Damaged { .. })));
        assert!(is_missed, "without {forgotten:?}: {refused:?}");
        // An operator may need all remaining data for a repair.
        assert!(contents(&data.join("journal")) == before, "without {forgotten:?} the journal has changed");
    }
}

/// The files of a directory.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Leaves only slightly more of the frame than its header.
fn tear_last_frame(journal: &Path) {
    let mut segments: Vec<PathBuf> =
        std::fs::read_dir(journal).unwrap().map(|file| file.unwrap().path()).collect();
    segments.retain(|path| path.extension().is_some_and(|ending| ending == "seg"));
    segments.sort();
    for segment in segments.iter().rev() {
        let mut bytes = std::fs::read(segment).unwrap();
        let is_frame = |place: &usize| bytes[*place..].starts_with(&[0xf5, b'U', b'J', 0]);
        if let Some(last) = (SECTOR_BYTES..bytes.len()).step_by(SECTOR_BYTES).rfind(is_frame) {
            bytes[last + 128..].fill(0);
            return std::fs::write(segment, bytes).unwrap();
        }
    }
    panic!("the journal has no frame");
}
