//! Every later version reads a data directory of the present format. A directory of format 1 is rejected and not
//! changed.
//!
//! `UPESI_WRITE_FIXTURE=1` writes the fixture of the present format again. After a release with this format, write a
//! fixture only for a new format, under a new name. The old fixture and its test stay.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use upesi_engine::{Engine, EngineHandle, EngineMetrics, EngineOptions, NoEffects, Payload, StartError};
use upesi_journal::DataDirectoryError;
use upesi_ledger::command::{Abort, FundsPrepare, NewSignatureKey};
use upesi_ledger::{
    AdminCommand, Binding, BindingKind, Block, CallbackKey, Command, FundsDirection, FundsState,
    LedgerAccountTypeId, PublicKeyDer, PublicState,
};
use upesi_testsupport::packed;
use upesi_testsupport::scheme::{TestClock, amount, fulfil, id, kes, name, onboard, position, prepare};
use upesi_types::{ErrorCode, Timestamp};

const START_MS: i64 = 1_900_000_000_000;
const DFSPS: [&str; 2] = ["greenbank", "bluewallet"];
/// Transfers by their number: see [`first_life`].
const COMMITTED: u64 = 1;
const ABORTED: u64 = 2;
const REFUSED: u64 = 3;
const EXPIRED: u64 = 4;
const RESERVED: u64 = 5;
/// After the snapshot.
const COMMITTED_LATER: u64 = 6;
const RESERVED_LATER: u64 = 7;
const WITHDRAWAL: u64 = 900;

fn fixture(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/data-format-{format}.bin"))
}

fn packed_files(format: u32) -> Vec<packed::PackedFile> {
    packed::decode(&std::fs::read(fixture(format)).unwrap())
}

fn start(path: &Path, clock_ms: i64) -> (Engine, EngineHandle) {
    start_by(path, TestClock::starting_at(clock_ms))
}

fn start_by(path: &Path, clock: Arc<TestClock>) -> (Engine, EngineHandle) {
    let options = EngineOptions {
        segment_bytes: 64 * 1024,
        batch_bytes_max: 16 * 1024,
        fold_every_records: 1,
        clock: clock as _,
        ..EngineOptions::new(path)
    };
    Engine::start(options, EngineMetrics::default(), Box::new(NoEffects)).unwrap()
}

async fn submit(engine: &EngineHandle, command: Command) {
    let payload = Payload { headers: "fspiop-source: greenbank\r\n".into(), body: r#"{"a":1}"#.into() };
    engine.submit(command, payload).await.unwrap();
}

fn prepared(number: u64, value: &str, lasts_ms: i64) -> Command {
    let [payer, payee] = DFSPS;
    prepare(id(number), payer, payee, value, Timestamp::from_ms(START_MS + lasts_ms))
}

/// A scheme, transfers in every state, callbacks in every state, and a withdrawal that waits.
async fn first_life(engine: &EngineHandle, clock: &TestClock) {
    let [payer, payee] = DFSPS;
    onboard(engine, &DFSPS).await;
    submit(engine, prepared(COMMITTED, "100.25", 1_000_000)).await;
    submit(engine, fulfil(id(COMMITTED), payer, payee)).await;
    submit(engine, prepared(ABORTED, "7", 1_000_000)).await;
    submit(
        engine,
        Command::Abort(Abort {
            transfer: id(ABORTED).into(),
            source: name(payee),
            destination: Some(name(payer)),
            code: ErrorCode::PAYEE_REJECTION,
            description: "no".into(),
            fingerprint: [4; 16],
        }),
    )
    .await;
    submit(engine, prepared(REFUSED, "99999999999", 1_000_000)).await;
    // This transfer expires with the first tick.
    submit(engine, prepared(EXPIRED, "3", 1)).await;
    submit(engine, prepared(RESERVED, "50", 1_000_000)).await;
    let owed = engine.read(|ledger| ledger.outbox().iter().map(|(key, _)| key).collect::<Vec<CallbackKey>>());
    let owed = owed.await.unwrap();
    submit(engine, Command::Delivered(vec![owed[0]])).await;
    submit(engine, Command::Park { key: owed[1], attempts: 3, reason: "no route".into() }).await;
    let payer = name(payer);
    let account = engine.read(move |ledger| {
        ledger.participant_named(&payer).unwrap().account(kes(), LedgerAccountTypeId::SETTLEMENT).unwrap()
    });
    let funds = FundsPrepare {
        direction: FundsDirection::Out,
        id: id(WITHDRAWAL),
        name: payer,
        account: account.await.unwrap(),
        amount: amount("10"),
        currency: kes(),
        external_reference: "bank".into(),
        reason: "withdrawal".into(),
        extensions: None,
        fingerprint: [5; 16],
    };
    submit(engine, Command::Admin(AdminCommand::PrepareFunds(funds))).await;
    let (kind, value) = (BindingKind::SanDns, "green.example".into());
    submit(engine, Command::Admin(AdminCommand::AddBinding { name: payer, kind, value })).await;
    for (start, revoked) in [(b"first", true), (b"other", false)] {
        let public_key = PublicKeyDer(start.to_vec().into());
        let sha256 = public_key.sha256();
        let key = NewSignatureKey {
            name: payer,
            public_key,
            not_before: None,
            not_after: None,
            starts_at: None,
            overlap_hours: 1,
        };
        submit(engine, Command::Admin(AdminCommand::AddSignatureKey(key))).await;
        if revoked {
            submit(engine, Command::Admin(AdminCommand::RevokeSignatureKey { name: payer, sha256 })).await;
        }
    }
    let block = Block::Participant(payer);
    submit(engine, Command::Admin(AdminCommand::SetBlock { block })).await;
    clock.advance(10);
    while state(engine, EXPIRED).await != Some(PublicState::Aborted) {
        submit(engine, Command::Tick).await;
    }
}

async fn second_life(engine: &EngineHandle) {
    let [payer, payee] = DFSPS;
    submit(engine, prepared(COMMITTED_LATER, "0.75", 1_000_000)).await;
    submit(engine, fulfil(id(COMMITTED_LATER), payer, payee)).await;
    submit(engine, prepared(RESERVED_LATER, "20", 1_000_000)).await;
}

async fn state(engine: &EngineHandle, number: u64) -> Option<PublicState> {
    engine.transfer(id(number)).await.unwrap().map(|transfer| transfer.public_state())
}

/// The content that every version must find.
async fn check(engine: &EngineHandle) {
    for (number, expected) in [
        (COMMITTED, Some(PublicState::Committed)),
        (ABORTED, Some(PublicState::Aborted)),
        (REFUSED, Some(PublicState::Aborted)),
        (EXPIRED, Some(PublicState::Aborted)),
        (RESERVED, Some(PublicState::Reserved)),
        (COMMITTED_LATER, Some(PublicState::Committed)),
        (RESERVED_LATER, Some(PublicState::Reserved)),
        (99, None),
    ] {
        assert_eq!(state(engine, number).await, expected, "transfer {number}");
    }
    // The position is the sum of 101 committed and 70 reserved.
    assert_eq!(position(engine, DFSPS[0]).await, amount("171"));
    assert_eq!(position(engine, DFSPS[1]).await, amount("101").negated());
    let bound = Binding::new(BindingKind::SanDns, "green.example").unwrap();
    let bindings = engine
        .read(|ledger| ledger.participants().iter().flat_map(|one| one.bindings.clone()).collect::<Vec<_>>());
    assert_eq!(bindings.await.unwrap(), [bound]);
    let keys = engine.read(|ledger| {
        let (_, keys) = ledger.signature_keys().iter().next().expect("keys of a participant");
        (keys.keys.iter().map(|key| key.public_key.clone()).collect::<Vec<_>>(), keys.revoked.len())
    });
    assert_eq!(keys.await.unwrap(), (vec![PublicKeyDer(b"other".to_vec().into())], 1));
    let blocks = engine.read(|ledger| ledger.blocks().keys().copied().collect::<Vec<_>>());
    assert_eq!(blocks.await.unwrap(), [Block::Participant(name(DFSPS[0]))]);
    let findings = engine.read(upesi_ledger::audit::check).await.unwrap();
    assert!(findings.is_empty(), "{findings:?}");
    let (funds, parked, owed) = engine
        .read(|ledger| {
            let funds = ledger.funds(id(WITHDRAWAL)).map(|funds| (funds.state, funds.amount));
            let owed: Vec<CallbackKey> = ledger.outbox().iter().map(|(key, _)| key).collect();
            (funds, ledger.outbox().parked_len(), owed)
        })
        .await
        .unwrap();
    assert_eq!(funds, Some((FundsState::Reserved, amount("10"))));
    // Each ended transfer owes three callbacks: its prepare and two for its end. One refusal is added, and one callback
    // is delivered.
    assert_eq!((parked, owed.len()), (1, 3 + 3 + 1 + 3 + 1 + 3 + 1 - 1));
    let callbacks = engine.callbacks(owed.clone()).await.unwrap();
    assert_eq!(callbacks.len(), owed.len(), "callbacks are read back from the journal");
    let payload = engine.payload(callbacks[0].record.seq).await.unwrap().unwrap();
    assert_eq!(payload.headers, "fspiop-source: greenbank\r\n");
}

async fn goes_on(engine: &EngineHandle) {
    let [payer, payee] = DFSPS;
    for number in [RESERVED, RESERVED_LATER] {
        submit(engine, fulfil(id(number), payer, payee)).await;
        assert_eq!(state(engine, number).await, Some(PublicState::Committed));
    }
    assert_eq!(position(engine, payee).await, amount("171").negated());
}

/// Writes a data directory: snapshot and archive of the first life, journal of both.
async fn write(path: &Path) -> Vec<packed::PackedFile> {
    let clock = TestClock::starting_at(START_MS);
    let (engine, handle) = start_by(path, Arc::clone(&clock));
    first_life(&handle, &clock).await;
    engine.shutdown();
    let mut files = packed::read(path, |file| !file.starts_with("journal") && file != "lock");
    let (engine, handle) = start(path, START_MS + 100);
    second_life(&handle).await;
    files.extend(packed::read(path, |file| file.starts_with("journal") && file.ends_with(".seg")));
    engine.shutdown();
    files
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

/// Opens files whose first window opened at this instant.
fn opens(files: &[packed::PackedFile], first_window: Timestamp) {
    let data = tempfile::tempdir().unwrap();
    packed::unpack(files, data.path());
    runtime().block_on(async {
        let (engine, handle) = start(data.path(), START_MS + 200);
        check(&handle).await;
        let opened = handle.read(|ledger| ledger.windows()[0].created_at).await.unwrap();
        assert_eq!(opened, first_window);
        goes_on(&handle).await;
        engine.shutdown();
        let (engine, handle) = start(data.path(), START_MS + 300);
        assert_eq!(state(&handle, RESERVED_LATER).await, Some(PublicState::Committed));
        engine.shutdown();
    });
}

#[test]
fn format_2_is_read() {
    if std::env::var_os("UPESI_WRITE_FIXTURE").is_some() {
        let data = tempfile::tempdir().unwrap();
        let files = runtime().block_on(write(data.path()));
        std::fs::write(fixture(2), packed::encode(&files)).unwrap();
    }
    let files = packed_files(2);
    assert!(files.iter().any(|file| file.path == "FORMAT" && file.bytes == b"upesi-data 2\n"));
    for part in ["snapshots/", "journal/", "archive/"] {
        assert!(files.iter().any(|file| file.path.starts_with(part)), "the fixture has no {part}");
    }
    // The version that wrote it recorded no beginning of the first window.
    opens(&files, Timestamp::EPOCH);
}

/// The archive is derived: a directory without it has the same content.
#[test]
fn format_2_is_read_without_its_archive() {
    let mut files = packed_files(2);
    files.retain(|file| !file.path.starts_with("archive/"));
    opens(&files, Timestamp::EPOCH);
}

/// Tries to start on the fixture of format 1, changed as a test wishes; nothing may change.
fn refusal(change: impl Fn(&mut Vec<packed::PackedFile>)) -> StartError {
    let mut files = packed_files(1);
    change(&mut files);
    let data = tempfile::tempdir().unwrap();
    packed::unpack(&files, data.path());
    let options =
        EngineOptions { clock: TestClock::starting_at(START_MS) as _, ..EngineOptions::new(data.path()) };
    let started = Engine::start(options, EngineMetrics::default(), Box::new(NoEffects));
    let error = started.err().expect("it is refused");
    for file in files.iter().filter(|file| file.path == "FORMAT" || file.path.starts_with("snapshots/")) {
        assert!(std::fs::read(data.path().join(&file.path)).unwrap() == file.bytes, "{} changed", file.path);
    }
    error
}

#[test]
fn format_1_is_rejected_by_name() {
    let error = refusal(|_| {});
    assert!(matches!(error, StartError::Data(DataDirectoryError::UnknownFormat { .. })), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("has the format \"upesi-data 1\", this version reads \"upesi-data 2\""), "{text}");
    assert!(text.contains("use the version that wrote it, or begin with an empty directory"), "{text}");
}

/// If its name is wrong, its content is rejected: the snapshot, and without it the first record.
#[test]
fn format_1_content_labelled_as_format_2_is_rejected() {
    let renamed = |files: &mut Vec<packed::PackedFile>| {
        let format = files.iter_mut().find(|file| file.path == "FORMAT").unwrap();
        format.bytes = b"upesi-data 2\n".to_vec();
    };
    let error = refusal(renamed);
    assert!(matches!(error, StartError::Snapshot { .. }), "{error:?}");
    assert!(error.to_string().contains("unknown snapshot format; another version wrote it"), "{error}");
    let error = refusal(|files| {
        renamed(files);
        files.retain(|file| !file.path.starts_with("snapshots/"));
    });
    assert!(matches!(error, StartError::Record { seq: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("unknown record format; another version wrote it"), "{error}");
}

/// This version writes the content of the fixture.
#[test]
fn current_version_writes_the_fixture_format() {
    let data = tempfile::tempdir().unwrap();
    let files = runtime().block_on(write(data.path()));
    opens(&files, Timestamp::from_ms(START_MS));
}
