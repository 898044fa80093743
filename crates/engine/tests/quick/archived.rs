//! Objects that are no longer in memory are still known: FX transfers, bulk transfers and their items are looked up in
//! the archive. Memory has limits, and so has the data that the journal stores of requests.

use std::sync::Arc;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use sha2::{Digest, Sha256};
use upesi_engine::{
    Engine, EngineHandle, EngineMetrics, EngineOptions, NoEffects, Payload, SharedParticipants,
    StandbyEngine, SteppedEngine, StopReason, Storage, SubmitError,
};
use upesi_journal::sim_disk::{DiskFault, Operation, SimDisk};
use upesi_journal::{EmbeddedLog, SnapshotStore};
use upesi_ledger::command::{
    AskedMoney, AuditedCommand, Authority, BulkCommand, FundsPrepare, FxTransferCommand, OperatorAction,
    PrepareBulk, PrepareFxTransfer, ProposalDecision, ProposalDecisionKind,
};
use upesi_ledger::{
    AdminCommand, AdminOutcome, AdminRefusal, AskedItem, AuditActor, Bulk, CallbackContent, Cause, Command,
    FundsDirection, FxTransfer, FxTransferSide, ItemState, LedgerAccountTypeId, LedgerConfig, NewItems,
    ProposalState, Refusal, Reply, TransferState,
};
use upesi_tables::archive::{Archive as _, MemoryArchive};
use upesi_testsupport::scheme::{
    PREIMAGE, TestClock, amount, fulfil, id, kes, name, onboard, onboard_in, prepare, talk,
};
use upesi_types::{BulkId, Currency, FxTransferId, Timestamp};

const START_MS: i64 = 1_900_000_000_000;
const EXPIRES_AT: Timestamp = Timestamp::from_ms(START_MS + 1_000_000);
const DFSPS: [&str; 2] = ["greenbank", "bluewallet"];

struct World {
    disk: SimDisk,
    engine: SteppedEngine,
    handle: EngineHandle,
    archive: Arc<MemoryArchive>,
    fillers: u64,
}

impl World {
    fn new() -> Self {
        Self::with(EngineOptions::new("nowhere"))
    }

    fn with(options: EngineOptions) -> Self {
        Self::measured(options, EngineMetrics::default())
    }

    fn measured(options: EngineOptions, metrics: EngineMetrics) -> Self {
        let archive = Arc::new(MemoryArchive::new());
        let disk = SimDisk::new(9);
        let storage = Storage { disk: Arc::new(disk.clone()), archive: Arc::clone(&archive) as _ };
        let clock = TestClock::starting_at(START_MS);
        let options = EngineOptions { storage: Some(storage), fold_every_records: 1, clock, ..options };
        let (mut engine, handle) = SteppedEngine::start(options, metrics, Box::new(NoEffects)).unwrap();
        talk(&mut engine, onboard(&handle, &DFSPS));
        Self { disk, engine, handle, archive, fillers: 0 }
    }

    fn try_submit(&mut self, command: Command) -> Result<Reply, SubmitError> {
        talk(&mut self.engine, self.handle.submit(command, Payload::default()))
    }

    fn submit(&mut self, command: Command) {
        assert_eq!(self.try_submit(command), Ok(Reply::Accepted));
    }

    fn pay(&mut self, number: u64) {
        let [payer, payee] = DFSPS;
        self.submit(prepare(id(number), payer, payee, "1.25", EXPIRES_AT));
        self.submit(fulfil(id(number), payer, payee));
    }

    /// Works until everything that has finished is in the archive, and no longer in memory.
    fn forget(&mut self) {
        let goal = self.engine.ledger().last_seq();
        for _ in 0..4 {
            assert!(self.engine.turn_archivist());
            self.fillers += 1;
            self.submit(prepare(id(900_000 + self.fillers), DFSPS[0], "nobody", "1", EXPIRES_AT));
        }
        assert!(self.archive.watermark_applied() >= goal);
    }

    /// The content of the last record's callbacks.
    fn told(&mut self) -> Vec<CallbackContent> {
        let ledger = self.engine.ledger();
        let last = ledger.last_seq();
        let keys = ledger.outbox().iter().map(|(key, _)| key).filter(|key| key.seq == last).collect();
        let found = talk(&mut self.engine, self.handle.callbacks(keys)).unwrap();
        found.iter().map(|pending| pending.callback().content.clone()).collect()
    }

    /// Prepares an FX transfer without waiting for the answer.
    fn convert(&mut self, number: u64, determining: u64) {
        self.submit(fx_transfer(number, "nobody", determining));
    }

    fn fx_transfer(&self, number: u64) -> Option<&FxTransfer> {
        self.engine.ledger().fx_transfer(fx_transfer_id(number))
    }

    fn send_bulk(&mut self, number: u64, payee: &str, items: &[u64]) {
        self.submit(new_bulk(number, payee, items.iter().copied()));
    }

    fn bulk(&mut self, number: u64) -> Option<Bulk> {
        talk(&mut self.engine, self.handle.bulk(bulk_id(number))).unwrap()
    }

    fn item_of(&mut self, seq: u64) -> Option<(BulkId, u32)> {
        talk(&mut self.engine, self.handle.item_of(seq)).unwrap()
    }
}

fn fx_transfer_id(number: u64) -> FxTransferId {
    FxTransferId::new(id(number))
}

fn bulk_id(number: u64) -> BulkId {
    BulkId::new(id(number))
}

fn usd() -> Currency {
    Currency::parse("USD").unwrap()
}

fn fx_transfer(number: u64, fxp: &str, determining: u64) -> Command {
    let money = |value: &str, currency| AskedMoney { amount: Ok(amount(value)), currency };
    Command::FxTransfer(FxTransferCommand::Prepare(Box::new(PrepareFxTransfer {
        id: fx_transfer_id(number),
        determining_transfer: Some(id(determining)),
        source: name(DFSPS[0]),
        destination: None,
        initiator: name(DFSPS[0]),
        counter_party: name(fxp),
        source_amount: money("10", kes()),
        target_amount: money("1", usd()),
        condition: Some(Sha256::digest(PREIMAGE).into()),
        expires_at: Some(EXPIRES_AT),
        fingerprint: [5; 16],
    })))
}

fn new_bulk(number: u64, payee: &str, items: impl Iterator<Item = u64>) -> Command {
    let asked = AskedItem {
        amount: Ok(amount("1.25")),
        currency: kes(),
        ilp_packet: "AAAA".into(),
        extensions: None,
        condition: Some(Sha256::digest(PREIMAGE).into()),
    };
    let items = items.map(|item| (id(item), asked.clone())).collect();
    Command::Bulk(BulkCommand::Prepare(Box::new(PrepareBulk {
        id: bulk_id(number),
        quote: id(500_001),
        source: name(DFSPS[0]),
        destination: Some(name(payee)),
        payer: name(DFSPS[0]),
        payee: name(payee),
        items: NewItems::new(items).unwrap(),
        expires_at: EXPIRES_AT,
        fingerprint: [3; 16],
        extensions: None,
    })))
}

/// An FX transfer that the hub rejected is as final as any other.
#[test]
fn archived_fx_transfer_is_known() {
    let mut world = World::new();
    world.convert(1, 10);
    assert_eq!(world.fx_transfer(1).unwrap().side, FxTransferSide::Payer, "its transfer is not known");
    assert!(matches!(world.told()[..], [CallbackContent::Error(_)]));
    world.forget();
    assert_eq!(world.fx_transfer(1), None);
    world.convert(1, 10);
    assert_eq!(world.fx_transfer(1), None, "it is not decided again");
    assert!(matches!(world.told()[..], [CallbackContent::State(..)]));
}

#[test]
fn fx_transfer_for_an_archived_transfer_is_on_the_payee_side() {
    let mut world = World::new();
    world.pay(10);
    world.forget();
    assert!(world.engine.ledger().transfer(id(10)).is_none());
    world.convert(2, 10);
    assert_eq!(world.fx_transfer(2).unwrap().side, FxTransferSide::Payee);
    world.convert(3, 11);
    assert_eq!(world.fx_transfer(3).unwrap().side, FxTransferSide::Payer);
}

#[test]
fn bulk_transfer_and_items_are_known_in_memory_and_archive() {
    let mut world = World::new();
    world.pay(10);
    world.send_bulk(1, "nobody", &[11]);
    let refused = world.bulk(1);
    assert!(refused.as_ref().is_some_and(|bulk| !bulk.is_live()), "{refused:?}");
    world.forget();
    assert!(world.engine.ledger().bulk(bulk_id(1)).is_none());
    assert_eq!((world.bulk(1), world.bulk(2)), (refused, None));
    world.send_bulk(1, "nobody", &[11]);
    assert!(world.engine.ledger().bulk(bulk_id(1)).is_none(), "it is not decided again");

    world.send_bulk(2, DFSPS[1], &[12, 10, 13]);
    let bulk = world.bulk(2).unwrap();
    let known = ItemState::Refused(Cause::from(Refusal::BulkItemKnown));
    let is_known: Vec<_> = bulk.items.iter().map(|item| item.state == known).collect();
    assert_eq!(is_known, [false, true, false], "an id that was used is not used again");
    let prepared = |world: &World, number| {
        let transfer = world.engine.ledger().transfer(id(number)).cloned();
        transfer.filter(|transfer| transfer.state == TransferState::Reserved)
    };
    while prepared(&world, 13).is_none() {
        assert!(world.engine.turn(false));
    }
    for (number, place) in [(12, 0), (13, 2)] {
        let seq = prepared(&world, number).unwrap().prepare_seq;
        assert_eq!(world.item_of(seq), Some((bulk_id(2), place)));
    }
    assert_eq!((world.item_of(bulk.prepare_seq), world.item_of(1_000_000)), (None, None));
}

#[test]
fn transfers_fx_transfers_and_bulk_transfers_share_one_limit_of_memory() {
    let mut world = World::with(EngineOptions { finished_transfers_max: 3, ..EngineOptions::new("nowhere") });
    let expect = |world: &mut World, number: u64, expected: Result<Reply, SubmitError>| {
        let command = prepare(id(number), DFSPS[0], "nobody", "1", EXPIRES_AT);
        assert_eq!(world.try_submit(command), expected, "{number}");
    };
    world.convert(1, 10);
    world.send_bulk(1, "nobody", &[11]);
    let ledger = world.engine.ledger();
    assert_eq!((ledger.finished_fx_transfers_len(), ledger.finished_bulks_len()), (1, 1));
    expect(&mut world, 20, Ok(Reply::Accepted));
    expect(&mut world, 21, Err(SubmitError::Busy));
    for _ in 0..3 {
        assert!(world.engine.turn_archivist());
        // A record, so that the archivist has something to do.
        world.submit(fulfil(id(77), DFSPS[0], DFSPS[1]));
    }
    let ledger = world.engine.ledger();
    let held = [ledger.finished_len(), ledger.finished_fx_transfers_len(), ledger.finished_bulks_len()];
    assert_eq!(held, [0, 0, 0], "the archive has them");
    expect(&mut world, 21, Ok(Reply::Accepted));
}

/// Bulk transfers with more items than one turn decides.
#[test]
fn bulk_transfer_is_rejected_as_busy_while_others_use_the_memory() {
    let ask = |world: &mut World, number: u64| {
        let items = (0..200).map(|item| 1_000 * number + item);
        world.try_submit(new_bulk(number, DFSPS[1], items))
    };
    let mut world = World::new();
    assert_eq!(ask(&mut world, 1), Ok(Reply::Accepted));
    let held = world.engine.ledger().bulk_bytes_held();
    assert!(held > 0);
    for (bulk_bytes_max, second) in [(held, Ok(Reply::Accepted)), (held - 1, Err(SubmitError::Busy))] {
        let mut world = World::with(EngineOptions { bulk_bytes_max, ..EngineOptions::new("nowhere") });
        assert_eq!(ask(&mut world, 1), Ok(Reply::Accepted));
        assert_eq!(world.engine.ledger().bulk_bytes_held(), held);
        assert_eq!(ask(&mut world, 2), second);
        // Nothing else waits for bulk transfers.
        world.pay(10);
        while world.engine.ledger().bulk_bytes_held() > 0 {
            assert!(world.engine.turn(false));
        }
        assert_eq!(ask(&mut world, 3), Ok(Reply::Accepted));
    }
}

/// Rejections cannot fill the disk.
#[test]
fn journal_has_no_bodies_and_long_headers_of_rejected_requests() {
    const HEADERS_MAX: usize = 8 * 1024;
    let mut world = World::new();
    let handle = world.handle.clone();
    talk(&mut world.engine, onboard_in(&handle, DFSPS[1], usd()));
    let commands: [fn(u64, &str) -> Command; 3] = [
        |number, dfsp| prepare(id(number), DFSPS[0], dfsp, "1.25", EXPIRES_AT),
        |number, dfsp| fx_transfer(number, dfsp, number + 100),
        |number, dfsp| new_bulk(number, dfsp, [number + 100].into_iter()),
    ];
    let mut number = 1_000;
    for command in commands {
        for (dfsp, length, keeps_body, keeps_headers) in [
            (DFSPS[1], HEADERS_MAX + 1, true, true),
            ("nobody", HEADERS_MAX, false, true),
            ("nobody", HEADERS_MAX + 1, false, false),
        ] {
            number += 1_000;
            let payload = Payload { headers: "h".repeat(length).into(), body: "body".into() };
            let seq = world.engine.ledger().last_seq() + 1;
            let command = command(number, dfsp);
            let what = format!("{length} with {command:?}");
            let submitted = world.handle.submit(command, payload.clone());
            assert_eq!(talk(&mut world.engine, submitted), Ok(Reply::Accepted));
            let kept = talk(&mut world.engine, world.handle.payload(seq)).unwrap().unwrap();
            assert_eq!(
                (kept.body == payload.body, kept.body.is_empty()),
                (keeps_body, !keeps_body),
                "{what}"
            );
            assert_eq!(kept.headers.len(), if keeps_headers { length } else { 0 }, "{what}");
        }
    }
}

#[test]
fn handle_reads_the_archive_until_its_engine_ends() {
    let mut world = World::new();
    world.pay(10);
    world.forget();
    let stats = world.handle.archive_stats().unwrap();
    assert_eq!(stats, world.archive.stats());
    assert!(stats.transfers_estimate > 1);
    let World { engine, handle, archive, .. } = world;
    drop(engine);
    drop(archive);
    assert!(handle.archive_stats().is_none() && handle.archive().is_none());
}

/// Writing the state costs as much as it has entries, so two snapshots are at least as many records apart.
#[test]
fn snapshot_distance_grows_with_the_number_of_entries() {
    let mut world = World::with(EngineOptions { snapshot_every_records: 1, ..EngineOptions::new("nowhere") });
    let handle = world.handle.clone();
    talk(&mut world.engine, onboard_in(&handle, DFSPS[1], usd()));
    for number in 0..4 {
        world.submit(prepare(id(100 + number), DFSPS[0], DFSPS[1], "1.25", EXPIRES_AT));
    }
    for number in 0..6 {
        world.submit(fx_transfer(200 + number, DFSPS[1], 300 + number));
    }
    for number in 0..3 {
        world.send_bulk(400 + number, DFSPS[1], &[500 + number]);
    }
    while world.engine.ledger().bulk_bytes_held() > 0 {
        assert!(world.engine.turn(false));
    }
    let newest = |world: &World| {
        let store = SnapshotStore::open_for_reading(Arc::new(world.disk.clone()));
        store.list().unwrap().iter().map(|snapshot| snapshot.seq).max().unwrap_or(0)
    };
    assert!(world.engine.turn_archivist());
    let mut written = Vec::new();
    for number in 0..100 {
        let before = newest(&world);
        // A rejection whose callback is delivered.
        world.submit(prepare(id(600 + number), DFSPS[0], "nobody", "1", EXPIRES_AT));
        let last = world.engine.ledger().last_seq();
        let owed = world.engine.ledger().outbox().iter().map(|(key, _)| key);
        let owed = owed.filter(|key| key.seq == last).collect();
        talk(&mut world.engine, world.handle.submit(Command::Delivered(owed), Payload::default())).unwrap();
        assert!(world.engine.turn_archivist());
        let ledger = world.engine.ledger();
        let kinds = [
            ledger.reserved_len(),
            ledger.live_fx_transfers_len(),
            ledger.live_bulks_len(),
            ledger.outbox().len(),
        ];
        assert!(kinds.iter().all(|entries| *entries > 2), "{kinds:?}");
        let is_due = ledger.last_seq() - before >= kinds.iter().sum::<usize>() as u64;
        assert_eq!(
            newest(&world) == ledger.last_seq(),
            is_due,
            "{} of {kinds:?}",
            ledger.last_seq() - before
        );
        written.extend(is_due.then_some(number));
    }
    assert!(written.len() > 3, "{written:?}");
}

#[test]
fn ending_engine_writes_a_snapshot_only_after_changes() {
    let mut world = World::new();
    world.pay(10);
    let World { disk, engine, archive, .. } = world;
    engine.shutdown();
    let lives = |is_used: bool| {
        let storage = Storage { disk: Arc::new(disk.clone()), archive: Arc::clone(&archive) as _ };
        let clock = TestClock::starting_at(START_MS + 1_000);
        let options = EngineOptions { storage: Some(storage), clock, ..EngineOptions::new("nowhere") };
        let (mut engine, handle) =
            SteppedEngine::start(options, EngineMetrics::default(), Box::new(NoEffects)).unwrap();
        if is_used {
            let pay = prepare(id(11), DFSPS[0], DFSPS[1], "1.25", EXPIRES_AT);
            talk(&mut engine, handle.submit(pay, Payload::default())).unwrap();
        }
        let (before, last) = (disk.operations().len(), engine.ledger().last_seq());
        engine.shutdown();
        let newest =
            SnapshotStore::open_for_reading(Arc::new(disk.clone())).latest().unwrap().snapshot.unwrap();
        assert_eq!(newest.seq, last);
        disk.operations()[before..].contains(&Operation::Rename)
    };
    assert_eq!([lives(false), lives(true), lives(false)], [false, true, false]);
}

/// Other divisions follow in the same fold, as after a start.
#[test]
fn a_division_of_the_archive_ends_with_its_record() {
    let mut world = World::new();
    world.pay(10);
    talk(&mut world.engine, world.handle.submit(Command::DivideArchive, Payload::default())).unwrap();
    let divided_at = world.engine.ledger().last_seq();
    world.pay(11);
    assert!(world.engine.turn_archivist());
    let ends: Vec<_> = world.archive.divisions().iter().map(|division| division.watermark).collect();
    assert_eq!(ends, [divided_at, world.engine.ledger().last_seq()]);
}

/// Only a full disk is a temporary error.
#[test]
fn unreadable_journal_stops_the_archivist_and_the_engine() {
    let mut world = World::new();
    assert!(world.engine.turn_archivist());
    world.pay(10);
    for segment in upesi_journal::segments(&world.disk).unwrap() {
        world.disk.corrupt(&segment.file, |bytes| bytes[512..].fill(7));
    }
    assert!(!world.engine.turn_archivist());
    let stopped = talk(&mut world.engine, world.handle.stopped());
    assert!(matches!(stopped, StopReason::Archive(_)), "{stopped}");
}

#[test]
fn archiving_is_timed() {
    let mut registry = Registry::default();
    let mut world = World::measured(EngineOptions::new("nowhere"), EngineMetrics::new(&mut registry));
    let timed = |world: &mut World| {
        assert!(world.engine.turn_archivist());
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("upesi_archive_apply_seconds_count "));
        line.unwrap().parse::<u64>().unwrap()
    };
    let before = timed(&mut world);
    world.submit(prepare(id(10), DFSPS[0], DFSPS[1], "1.25", EXPIRES_AT));
    assert_eq!(timed(&mut world), before, "nothing has finished");
    world.submit(fulfil(id(10), DFSPS[0], DFSPS[1]));
    assert_eq!(timed(&mut world), before + 1);
}

#[test]
fn standby_on_a_full_disk_writes_its_snapshot_later() {
    let mut world = World::new();
    world.pay(10);
    let last_seq = world.engine.ledger().last_seq();
    let disk = SimDisk::new(3);
    let storage = Storage { disk: Arc::new(disk.clone()), archive: Arc::new(MemoryArchive::new()) };
    let options = EngineOptions {
        storage: Some(storage),
        fold_every_records: 1,
        snapshot_every_records: 1,
        ..EngineOptions::new("nowhere")
    };
    let copy = EmbeddedLog::for_reading(&(Arc::new(world.disk.clone()) as _));
    let mut standby =
        StandbyEngine::open(&options, None, Arc::new(disk.clone()), &copy, SharedParticipants::default())
            .unwrap();
    let snapshots = || SnapshotStore::open_for_reading(Arc::new(disk.clone())).list().unwrap();
    disk.inject(disk.operations().len() as u64, DiskFault::Broken);
    assert!(standby.follow_to(last_seq - 2).is_err(), "only a full disk is a temporary error");
    disk.set_capacity(disk.used_bytes());
    standby.follow_to(last_seq - 1).unwrap();
    assert_eq!(snapshots(), []);
    disk.set_capacity(u64::MAX);
    standby.follow_to(last_seq).unwrap();
    assert_eq!(snapshots().last().map(|newest| newest.seq), Some(last_seq));
}

/// An id identifies one object. Deposits, proposals of deposits and their approvals look the id up in the archive.
#[test]
fn funds_movement_with_the_id_of_an_archived_transfer_is_rejected() {
    let mut world = World::new();
    let payer = name(DFSPS[0]);
    let accounts = world.engine.ledger().participant_named(&payer).unwrap();
    let account = accounts.account(kes(), LedgerAccountTypeId::SETTLEMENT).unwrap();
    let deposit = |number| {
        AdminCommand::PrepareFunds(FundsPrepare {
            direction: FundsDirection::In,
            id: id(number),
            name: payer,
            account,
            amount: amount("5"),
            currency: kes(),
            external_reference: "bank".into(),
            reason: "prefund".into(),
            extensions: None,
            fingerprint: [3; 16],
        })
    };
    let act = |operator: &str, action| {
        let by = AuditActor {
            operator: operator.into(),
            known_by: "token 1".into(),
            address: None,
            on_behalf_of: None,
            action: "funds.in".into(),
            reason: Some("bank statement 7".into()),
        };
        Command::Audited(Box::new(AuditedCommand { by, action, authority: Authority::ALL }))
    };
    // The proposal comes while the id is unused.
    let proposed = world.try_submit(act("amina", OperatorAction::Change(deposit(2))));
    assert_eq!(proposed.unwrap().into_outcome(), Some(Ok(AdminOutcome::Proposed(1))));
    world.pay(1);
    world.pay(2);
    world.forget();
    for command in [Command::Admin(deposit(1)), act("amina", OperatorAction::Change(deposit(1)))] {
        let reply = world.try_submit(command).unwrap();
        assert_eq!(reply.into_outcome(), Some(Err(AdminRefusal::FundsIsTransfer)));
    }
    let kind = ProposalDecisionKind::Approve(|refusal| format!("{refusal:?}"));
    let verdict = ProposalDecision { id: 1, kind, comment: None };
    let ended = world.try_submit(act("brian", OperatorAction::Decide(verdict)));
    let failed = AdminOutcome::ProposalEnded(1, ProposalState::Failed, None);
    assert_eq!(ended.unwrap().into_outcome(), Some(Ok(failed)));
    assert!(world.engine.ledger().funds(id(2)).is_none());
}

/// Otherwise messages of the DFSP and of the hub could not be distinguished.
#[test]
fn hub_named_like_a_dfsp_does_not_start() {
    let directory = tempfile::tempdir().unwrap();
    let start = |hub: &str| {
        let ledger = LedgerConfig { hub_name: name(hub), ..LedgerConfig::default() };
        let options = EngineOptions { ledger, ..EngineOptions::new(directory.path()) };
        Engine::start(options, EngineMetrics::default(), Box::new(NoEffects))
    };
    let (engine, handle) = start("Hub").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(onboard(&handle, &DFSPS));
    engine.shutdown();
    for hub in ["greenbank", "BlueWallet"] {
        let Err(error) = start(hub) else { panic!("it starts as {hub}") };
        let told = format!("hub.name is the name of the DFSP {}", hub.to_lowercase());
        assert!(error.to_string().starts_with(&told), "{error}");
    }
    start("Switch").unwrap().0.shutdown();
}
