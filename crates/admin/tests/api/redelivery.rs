//! Redelivery of more parked callbacks than one command takes, also on a disk that becomes full meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;
use upesi_engine::{Storage, SubmitError};
use upesi_journal::sim_disk::{DiskFault, SimDisk};
use upesi_journal::{
    AppendedBatch, Appender, Batch, ClaimedLog, EmbeddedLog, JournalError, Log, LogReader, Maintenance,
    Options,
};
use upesi_ledger::{Command, Ledger};
use upesi_tables::archive::MemoryArchive;
use upesi_testsupport::held::HeldEngine;

use crate::common::{Hub, Settings, id, name, prepare, refusal};

/// More callbacks than two commands redeliver.
const COUNT: usize = 20_500;
const AT_ONCE: usize = 10_000;
/// A batch above this size has a redelivery. Batches of prepares and parked callbacks end at 16 KiB.
const LARGE_BYTES: usize = 18 * 1024;

/// A journal on a volume with space for this many large batches.
struct Volume {
    log: EmbeddedLog,
    room: Arc<AtomicU64>,
}

impl Log for Volume {
    fn claim(&self, known_durable_seq: u64) -> Result<ClaimedLog, JournalError> {
        let claimed = self.log.claim(known_durable_seq)?;
        let appender = Box::new(Bounded { appender: claimed.appender, room: Arc::clone(&self.room) });
        Ok(ClaimedLog { appender, ..claimed })
    }

    fn oldest_seq(&self) -> Result<Option<u64>, JournalError> {
        self.log.oldest_seq()
    }

    fn read_from(&self, seq: u64) -> Box<dyn LogReader> {
        self.log.read_from(seq)
    }

    fn trim(&self, seq: u64) -> Result<usize, JournalError> {
        self.log.trim(seq)
    }
}

struct Bounded {
    appender: Box<dyn Appender>,
    room: Arc<AtomicU64>,
}

impl Appender for Bounded {
    fn append(&mut self, batch: &mut Batch) -> Result<AppendedBatch, JournalError> {
        if batch.bytes() >= LARGE_BYTES {
            self.room.fetch_sub(1, Ordering::SeqCst);
        }
        self.appender.append(batch)
    }

    fn confirm(&mut self) -> Result<(), JournalError> {
        self.appender.confirm()
    }

    fn reserve(&mut self, body_bytes: u64) -> Result<(), JournalError> {
        if self.room.load(Ordering::SeqCst) == 0 {
            return Err(JournalError::DiskFull { file: "journal".to_owned() });
        }
        self.appender.reserve(body_bytes)
    }

    fn has_room_for(&self, body_bytes: u64) -> bool {
        self.room.load(Ordering::SeqCst) > 0 && self.appender.has_room_for(body_bytes)
    }

    fn maintain(&mut self) -> Result<Maintenance, JournalError> {
        self.appender.maintain()
    }
}

/// A hub with `COUNT` parked callbacks of blue, and the space on its volume.
async fn with_parked() -> (Hub, Arc<AtomicU64>) {
    let room = Arc::new(AtomicU64::new(u64::MAX));
    let disk = Arc::new(SimDisk::new(1));
    let log =
        EmbeddedLog::new(Arc::clone(&disk) as _, Options { segment_bytes: 1 << 20, ..Options::default() });
    let log = Arc::new(Volume { log, room: Arc::clone(&room) });
    let storage = Storage { disk, archive: Arc::new(MemoryArchive::new()) };
    let hub = Hub::launch(Settings { storage: Some(storage), log: Some(log), ..Settings::default() });
    hub.prepare_scheme().await;
    for (index, name) in ["green", "blue"].into_iter().enumerate() {
        hub.onboard(name, index as u64).await;
    }
    let mut submitted = JoinSet::new();
    for number in 1..=COUNT {
        // The payee is unknown, and the payer receives a callback about this.
        let handle = hub.handle.clone();
        let prepare = prepare(id(number as u64), "blue", "nobody", "1");
        submitted.spawn(async move { handle.submit(prepare, Default::default()).await.unwrap() });
        if number.is_multiple_of(500) {
            while let Some(submitted) = submitted.join_next().await {
                submitted.unwrap();
            }
        }
    }
    while let Some(submitted) = submitted.join_next().await {
        submitted.unwrap();
    }
    let owed = |ledger: &Ledger| ledger.outbox().iter().map(|(key, _)| key).collect::<Vec<_>>();
    let owed = hub.handle.read(owed).await.unwrap();
    assert_eq!(owed.len(), COUNT);
    for (number, key) in owed.iter().enumerate() {
        let park = Command::Park { key: *key, attempts: 5, reason: "503 from the DFSP".into() };
        hub.handle.submit_quietly(park).unwrap();
        if number.is_multiple_of(500) {
            hub.handle.read(|_| ()).await.unwrap();
        }
    }
    assert_eq!(parked(&hub).await, COUNT);
    (hub, room)
}

async fn parked(hub: &Hub) -> usize {
    hub.handle.read(|ledger| ledger.outbox().parked_len()).await.unwrap()
}

async fn redeliver(hub: &Hub, body: &str) -> String {
    hub.expect("POST", "/callbacks/redeliver", body, 202).await
}

/// One command is not enough. Each callback is counted once, and none is left.
#[tokio::test]
async fn redelivery_of_many_parked_callbacks_covers_all() {
    let (hub, _) = with_parked().await;
    assert_eq!(redeliver(&hub, r#"{"all":true,"fsp":"green"}"#).await, r#"{"redelivered":0,"remaining":0}"#);
    let all = format!(r#"{{"redelivered":{COUNT},"remaining":0}}"#);
    assert_eq!(redeliver(&hub, r#"{"all":true}"#).await, all);
    assert_eq!(parked(&hub).await, 0);
    let blue = hub.handle.read(|ledger| ledger.participant_id(&name("blue"))).await.unwrap().unwrap();
    let pending = hub.handle.read(move |ledger| ledger.outbox().pending(blue, None).count()).await.unwrap();
    assert_eq!(pending, COUNT);
}

#[tokio::test]
async fn redelivery_on_a_full_disk_counts_remaining_callbacks() {
    let (hub, room) = with_parked().await;
    room.store(1, Ordering::SeqCst);
    let remaining = COUNT - AT_ONCE;
    let part = format!(r#"{{"redelivered":{AT_ONCE},"remaining":{remaining}}}"#);
    assert_eq!(redeliver(&hub, r#"{"all":true}"#).await, part);
    assert_eq!(parked(&hub).await, remaining);
    // Without any progress the answer is an error.
    let full = refusal(2003, "Service currently unavailable - the hub's disk is full");
    let answer = hub.call("POST", "/callbacks/redeliver", r#"{"all":true}"#).await;
    assert_eq!(answer, (503, full));
    assert_eq!(parked(&hub).await, remaining);
    room.store(u64::MAX, Ordering::SeqCst);
    let rest = format!(r#"{{"redelivered":{remaining},"remaining":0}}"#);
    assert_eq!(redeliver(&hub, r#"{"all":true}"#).await, rest);
    assert_eq!(parked(&hub).await, 0);
}

// Errors for operators while a part of the hub fails: the engine's queue is full, the archive cannot be read, the store
// has a disk error.

const HUB_ACCOUNT: &str = r#"{"currency":"KES","type":"HUB_RECONCILIATION"}"#;

#[tokio::test]
async fn full_queue_is_answered_busy_and_recovers() {
    let hub = Hub::launch(Settings { queue_commands_max: 1, ..Settings::default() });
    let held = HeldEngine::hold(&hub.handle);
    let busy = (503, refusal(2005, "Server busy - the hub is busy"));
    let transfer = format!("/transfers/{}", id(1));
    for (method, path, body) in [
        ("GET", "/participants", ""),
        ("GET", transfer.as_str(), ""),
        ("POST", "/participants/Hub/accounts", HUB_ACCOUNT),
    ] {
        assert_eq!(hub.call(method, path, body).await, busy, "{method} {path}");
    }
    // Requests that do not need the engine are answered, and malformed ones too.
    hub.get("/health").await;
    hub.expect("POST", "/participants/Hub/accounts", "{}", 400).await;
    held.release();
    // When a query finds space, the command before it has left the queue.
    while hub.handle.read(|_| ()).await == Err(SubmitError::Busy) {
        std::thread::yield_now();
    }
    hub.expect("POST", "/participants/Hub/accounts", HUB_ACCOUNT, 201).await;
}

#[tokio::test]
async fn archive_read_error_is_an_internal_error() {
    let hub = Hub::start();
    hub.handle.archive().unwrap().apply(&[(id(1), b"rotten".to_vec())], 0).unwrap();
    let text = "Internal server error - the archive of finished transfers cannot be read: ";
    let told = format!(r#"{{"errorInformation":{{"errorCode":"2001","errorDescription":"{text}"#);
    for path in ["transfers", "transactions"] {
        let (status, body) = hub.call("GET", &format!("/{path}/{}", id(1)), "").await;
        assert!(status == 500 && body.starts_with(&told), "{path}: {status} {body}");
    }
    let absent = refusal(3208, &format!("Transfer ID not found - Transfer {} does not exist", id(2)));
    let (_, body) = hub.call("GET", &format!("/transfers/{}", id(2)), "").await;
    assert_eq!(body, absent, "others can be looked up");
}

#[tokio::test]
async fn failed_store_is_reported_and_payments_continue() {
    let disk = SimDisk::new(1);
    let hub = Hub::launch(Settings { store_log: Some(disk.clone()), ..Settings::default() });
    hub.prepare_scheme().await;
    hub.onboard("green", 0).await;
    let (known, other) = ("/directory/parties/MSISDN/26097", "/directory/parties/MSISDN/26098");
    let owner = r#"{"fspId":"green"}"#;
    hub.expect("PUT", known, owner, 204).await;
    let parts = |store: &str| {
        let well = |name: &str| format!(r#"{{"name":"{name}","status":"OK"}}"#);
        let [journal, archive, engine, clock, datastore, broker] =
            ["journal", "archive", "engine", "clock", "datastore", "broker"].map(well);
        format!(r#""services":[{journal},{archive},{engine},{clock},{store},{datastore},{broker}]}}"#)
    };
    let health = hub.get("/health").await;
    assert!(health.ends_with(&parts(r#"{"name":"store","status":"OK"}"#)), "{health}");

    let next = disk.operations().len() as u64;
    (next..next + 100).for_each(|ordinal| disk.inject(ordinal, DiskFault::Broken));
    // The answer is 500, or 503 if the fault has already stopped the store between two changes.
    let (status, answer) = hub.call("PUT", other, owner).await;
    assert!(matches!(status, 500 | 503), "{status} {answer}");
    let refused = hub.expect("PUT", other, owner, 503).await;
    let told = r#"{"errorInformation":{"errorCode":"2003","errorDescription":"Service currently unavailable - the store in "#;
    assert!(refused.starts_with(told), "{refused}");

    let health = hub.get("/health").await;
    assert!(health.starts_with(r#"{"status":"OK","#), "{health}");
    let detail = "stopped after a disk failure: changes are rejected until a restart, reads continue";
    let down = format!(r#"{{"name":"store","status":"DOWN","detail":"{detail}"}}"#);
    assert!(health.ends_with(&parts(&down)), "{health}");
    assert!(hub.get(known).await.ends_with(r#""entries":[{"fspId":"green"}]}"#));
    assert!(hub.get(other).await.ends_with(r#""entries":[]}"#));
    hub.expect("PUT", "/participants/green", r#"{"isActive":false}"#, 200).await;
}
