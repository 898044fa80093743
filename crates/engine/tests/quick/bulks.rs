//! Bulk transfers in an engine that works turn by turn: other commands between their steps, a full disk, and a power
//! loss in the middle.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use sha2::{Digest, Sha256};
use upesi_engine::{
    Availability, DurableRecord, Effects, Engine, EngineHandle, EngineMetrics, EngineOptions, NoEffects,
    Participants, Payload, SteppedEngine, Storage,
};
use upesi_journal::sim_disk::{SimDisk, SurvivingData};
use upesi_ledger::codec::Decoder;
use upesi_ledger::command::{BulkCommand, FulfilBulk, PrepareBulk};
use upesi_ledger::{
    AskedItem, BULK_ITEMS_MAX, Bulk, BulkState, CallbackContent, CallbackKey, Cause, Command, ItemResult,
    ItemState, LedgerAccountTypeId, NewItems, PublicBulkState, Reply, Stored as _, TransferState,
};
use upesi_tables::archive::{Archive as _, MemoryArchive};
use upesi_testsupport::scheme::{PREIMAGE, TestClock, amount, fulfil, id, kes, name, onboard, prepare, talk};
use upesi_types::error_code::DESCRIPTION_CHARS_MAX;
use upesi_types::{Amount, BulkId, ErrorCode, Timestamp, TransferId};

const START_MS: i64 = 1_900_000_000_000;
const EXPIRES_AT: Timestamp = Timestamp::from_ms(START_MS + 1_000_000);
/// The bulk transfer is from the first to the second DFSP. Meanwhile the third pays the fourth.
const DFSPS: [&str; 4] = ["greenbank", "bluewallet", "redbank", "yellowpay"];
/// Maximum number of steps that an engine takes before it checks its queue again.
const STEPS_PER_TURN_MAX: usize = 64;

struct World {
    disk: SimDisk,
    archive: Arc<MemoryArchive>,
    engine: SteppedEngine,
    handle: EngineHandle,
}

fn bulk_id() -> BulkId {
    BulkId::new(id(500_000))
}

fn items() -> impl Iterator<Item = TransferId> {
    (0..BULK_ITEMS_MAX as u64).map(|number| id(1_000 + number))
}

fn new_bulk() -> Command {
    let items = items().map(|item| {
        let asked = AskedItem {
            amount: Ok(amount("1.25")),
            currency: kes(),
            ilp_packet: "AAAA".into(),
            // So large that the space that is reserved ahead is not enough for all items.
            extensions: Some(format!(r#"[{{"key":"note","value":"{}"}}]"#, "x".repeat(1_000)).into()),
            condition: Some(Sha256::digest(PREIMAGE).into()),
        };
        (item, asked)
    });
    Command::Bulk(BulkCommand::Prepare(Box::new(PrepareBulk {
        id: bulk_id(),
        quote: id(500_001),
        source: name(DFSPS[0]),
        destination: Some(name(DFSPS[1])),
        payer: name(DFSPS[0]),
        payee: name(DFSPS[1]),
        items: NewItems::new(items.collect()).unwrap(),
        expires_at: EXPIRES_AT,
        fingerprint: [3; 16],
        extensions: None,
    })))
}

impl World {
    fn new() -> Self {
        Self::on(SimDisk::new(5), Arc::new(MemoryArchive::new())).onboarded()
    }

    fn onboarded(self) -> Self {
        let mut world = self;
        let handle = world.handle.clone();
        talk(&mut world.engine, onboard(&handle, &DFSPS));
        world
    }

    fn on(disk: SimDisk, archive: Arc<MemoryArchive>) -> Self {
        Self::with(disk, archive, 4_096, EngineMetrics::default())
    }

    fn with(
        disk: SimDisk,
        archive: Arc<MemoryArchive>,
        batch_commands_max: usize,
        metrics: EngineMetrics,
    ) -> Self {
        let storage = Storage { disk: Arc::new(disk.clone()), archive: Arc::clone(&archive) as _ };
        let options = EngineOptions {
            storage: Some(storage),
            segment_bytes: 64 * 1024,
            batch_bytes_max: 16 * 1024,
            batch_commands_max,
            clock: TestClock::starting_at(START_MS) as _,
            ..EngineOptions::new("nowhere")
        };
        let (engine, handle) = SteppedEngine::start(options, metrics, Box::new(NoEffects)).unwrap();
        Self { disk, archive, engine, handle }
    }

    fn turn(&mut self) {
        assert!(self.engine.turn(false), "{:?}", self.handle.status().serving);
        self.engine.turn_journal();
    }

    fn submit(&self, command: Command) {
        self.handle.submit_quietly(command).unwrap();
    }

    /// Sends the bulk transfer, and waits until it is accepted.
    fn send_bulk(&mut self) {
        self.submit(new_bulk());
        self.until(|world| world.engine.ledger().bulk(bulk_id()).is_some());
    }

    /// The payee fulfils every item.
    fn answer_bulk(&mut self) {
        self.answer_bulk_with(&ItemResult::Fulfil { fulfilment: PREIMAGE, extensions: None });
    }

    /// The payee sends the same result for every item.
    fn answer_bulk_with(&mut self, result: &ItemResult) {
        let results = items().map(|item| (item, result.clone()));
        self.submit(Command::Bulk(BulkCommand::Fulfil(Box::new(FulfilBulk {
            bulk: bulk_id().id().into(),
            source: name(DFSPS[1]),
            destination: Some(name(DFSPS[0])),
            state: PublicBulkState::Completed,
            fault: None,
            results: results.collect(),
            fingerprint: [4; 16],
            extensions: None,
        }))));
        self.until(|world| world.bulk().state != BulkState::Accepted);
    }

    fn until(&mut self, is_so: impl Fn(&Self) -> bool) {
        for _ in 0..10_000 {
            if is_so(self) {
                return;
            }
            self.turn();
        }
        panic!("the engine does not get there: {:?}", self.handle.status().serving);
    }

    fn bulk(&self) -> &Bulk {
        self.engine.ledger().bulk(bulk_id()).expect("the bulk is in memory")
    }

    /// Numbers of reserved and of committed items.
    fn progress(&self) -> (usize, usize) {
        let count = |is_it: fn(&ItemState) -> bool| {
            self.bulk().items.iter().filter(|item| is_it(&item.state)).count()
        };
        let committed = count(|state| matches!(state, ItemState::Committed { .. }));
        (count(|state| *state == ItemState::Accepted) + committed, committed)
    }

    fn position(&self, dfsp: &str) -> Amount {
        let ledger = self.engine.ledger();
        let participant = ledger.participant_named(&name(dfsp)).unwrap();
        ledger.account(participant.account(kes(), LedgerAccountTypeId::POSITION).unwrap()).unwrap().balance
    }

    fn now(&self) -> Timestamp {
        self.engine.ledger().last_time()
    }

    /// A payment of other DFSPs, which the next turn decides.
    fn pay_beside(&mut self, number: u64) {
        self.submit(prepare(id(number), DFSPS[2], DFSPS[3], "2", EXPIRES_AT));
        self.turn();
        let paid = self.engine.ledger().transfer(id(number)).map(|transfer| transfer.state.clone());
        assert_eq!(paid, Some(TransferState::Reserved), "payment {number} waits for the bulk");
    }

    fn is_accepted(&self) -> bool {
        self.bulk().state == BulkState::Accepted
    }

    fn has_ended(&self) -> bool {
        matches!(self.bulk().state, BulkState::Completed { .. })
    }

    /// Every item is committed once: in the bulk transfer, in its transfer, and in the positions.
    fn assert_completed(&self) {
        assert!(self.has_ended(), "{:?}", self.bulk().state);
        assert_eq!(self.progress(), (BULK_ITEMS_MAX, BULK_ITEMS_MAX));
        let sum = amount("1250");
        assert_eq!(self.position(DFSPS[0]), sum);
        assert_eq!(self.position(DFSPS[1]).units(), -sum.units());
        let findings = upesi_ledger::audit::check(self.engine.ledger());
        assert!(findings.is_empty(), "{findings:?}");
    }
}

/// A command that arrives while a bulk transfer is processed is decided after at most one slice of its steps.
#[test]
fn other_payments_are_decided_between_slices_of_a_bulk_transfer() {
    let mut world = World::new();
    world.send_bulk();
    let mut payment = 1;
    for phase in ["reserved", "committed"] {
        let mut passed = 0;
        let done = |world: &World| if phase == "reserved" { world.progress().0 } else { world.progress().1 };
        while done(&world) < BULK_ITEMS_MAX {
            let before = done(&world);
            world.pay_beside(payment);
            let steps = done(&world) - before;
            assert!(steps <= STEPS_PER_TURN_MAX, "{steps} items are {phase} before payment {payment}");
            (payment, passed) = (payment + 1, passed + 1);
        }
        assert!(passed >= BULK_ITEMS_MAX / STEPS_PER_TURN_MAX, "only {passed} payments passed");
        if phase == "reserved" {
            world.until(World::is_accepted);
            world.answer_bulk();
        }
    }
    world.until(World::has_ended);
    world.assert_completed();
    assert_eq!(world.position(DFSPS[2]), amount(&(2 * (payment - 1)).to_string()));
}

#[test]
fn bulk_transfer_with_too_many_items_is_rejected() {
    let asked = AskedItem {
        amount: Ok(amount("1")),
        currency: kes(),
        ilp_packet: "AAAA".into(),
        condition: None,
        extensions: None,
    };
    let of = |count: usize| NewItems::new((0..count as u64).map(|item| (id(item), asked.clone())).collect());
    assert!(of(BULK_ITEMS_MAX).is_ok());
    assert!(of(BULK_ITEMS_MAX + 1).is_err() && of(0).is_err());
}

/// A bulk transfer waits for space between two items, loses no item, and continues by itself.
#[test]
fn full_disk_pauses_a_bulk_transfer() {
    let mut world = World::new();
    world.send_bulk();
    world.until(|world| world.progress().0 > 200);
    world.disk.set_capacity(world.disk.used_bytes());
    let mut progress = world.progress();
    // Space that was reserved before is used up first.
    for _ in 0..1_000 {
        world.turn();
        let stalls = world.progress() == progress;
        progress = world.progress();
        if stalls {
            break;
        }
    }
    assert!(progress.0 < BULK_ITEMS_MAX, "the disk was never full");
    assert_eq!(world.handle.status().serving, Availability::ReadOnly);
    world.turn();
    assert_eq!(world.progress(), progress, "items are decided without room");
    world.disk.set_capacity(u64::MAX);
    world.until(World::is_accepted);
    world.answer_bulk();
    world.until(World::has_ended);
    world.assert_completed();
}

/// After a power loss between its items, or between its results, a bulk transfer continues.
#[test]
fn bulk_transfer_continues_after_a_power_loss() {
    let mut world = World::new();
    world.send_bulk();
    world.until(|world| world.progress().0 > 300);
    let mut world = restarted(world);
    let (reserved, _) = world.progress();
    assert!(reserved > 0 && reserved < BULK_ITEMS_MAX, "{reserved} items were durable");
    world.until(World::is_accepted);
    world.answer_bulk();
    world.until(|world| world.progress().1 > 300);
    let mut world = restarted(world);
    let (_, committed) = world.progress();
    assert!(committed > 0 && committed < BULK_ITEMS_MAX, "{committed} commits were durable");
    world.until(World::has_ended);
    world.assert_completed();
}

fn restarted(world: World) -> World {
    let World { disk, archive, engine, .. } = world;
    let disk = disk.after_power_loss(SurvivingData::Nothing);
    drop(engine);
    World::on(disk, archive)
}

/// The limits of a batch apply to commands and to steps, and batches are as full as the limits allow.
#[test]
fn batches_of_commands_and_of_steps_are_limited() {
    const BOUND: usize = 8;
    let mut registry = Registry::default();
    let metrics = EngineMetrics::new(&mut registry);
    let mut world = World::with(SimDisk::new(5), Arc::new(MemoryArchive::new()), BOUND, metrics).onboarded();
    let counts = || {
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let of = |series: &str| -> usize {
            let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
            value.unwrap_or_else(|| panic!("no {series}")).parse().unwrap()
        };
        let batches = "upesi_engine_batch_commands";
        let up_to = |most: &str| of(&format!("{batches}_bucket{{le=\"{most}\"}}"));
        [of(&format!("{batches}_count")), up_to("8.0"), up_to("4.0")]
    };
    let mut before = counts();
    let mut since = || {
        let after = counts();
        let [all, bounded, small] = std::array::from_fn(|each| after[each] - before[each]);
        before = after;
        assert_eq!(all, bounded, "larger ones");
        (all - small, small)
    };
    for number in 0..64 {
        world.submit(prepare(id(number), DFSPS[2], DFSPS[3], "2", EXPIRES_AT));
    }
    world.turn();
    let (full, small) = since();
    assert_eq!((full, small), (64 / BOUND, 0));
    world.send_bulk();
    world.until(World::is_accepted);
    let (full, small) = since();
    assert!(full >= BULK_ITEMS_MAX / BOUND && small < 64, "{full} full ones, {small} small ones");
}

/// A bulk transfer is one value in the archive, also with the longest result that each item can have.
#[test]
fn bulk_transfer_with_the_longest_results_is_archived() {
    // A character takes at most six bytes.
    let text = |chars: usize| r"\u0001".repeat(chars);
    let extension = format!(r#"{{"key":"{}","value":"{}"}}"#, text(32), text(128));
    let extensions = Some(format!("[{}]", vec![extension; 16].join(",")).into());
    let declined = Cause::Payee {
        code: ErrorCode::PAYEE_REJECTED_TRANSACTION,
        description: "\u{10ffff}".repeat(DESCRIPTION_CHARS_MAX).into(),
    };
    for result in [ItemResult::Fulfil { fulfilment: PREIMAGE, extensions }, ItemResult::Abort(declined)] {
        let mut world = World::new();
        world.send_bulk();
        world.until(World::is_accepted);
        world.answer_bulk_with(&result);
        world.until(|world| !world.bulk().is_live());
        let bulk = world.bulk().clone();
        let handle = world.handle.clone();
        talk(&mut world.engine, handle.divide_archive()).unwrap();
        assert!(world.engine.turn_archivist(), "{:?}", handle.status().serving);
        let value = world.archive.get(&bulk_id().archive_key()).unwrap().unwrap();
        assert!(Bulk::decode(&mut Decoder(&value)) == Ok(bulk), "{} bytes are another bulk", value.len());
    }
}

/// Response times do not include answers to bulk transfers, accepted or declined.
#[test]
fn items_of_bulk_transfers_have_no_response_time() {
    let declined = Cause::Payee { code: ErrorCode::PAYEE_REJECTED_TRANSACTION, description: "no".into() };
    let fulfilled = ItemResult::Fulfil { fulfilment: PREIMAGE, extensions: None };
    for result in [fulfilled, ItemResult::Abort(declined)] {
        let metrics = EngineMetrics::new(&mut Registry::default());
        let responses = metrics.response_times.clone();
        let archive = Arc::new(MemoryArchive::new());
        let mut world = World::with(SimDisk::new(5), archive, 4_096, metrics).onboarded();
        world.pay_beside(1);
        world.send_bulk();
        world.until(World::is_accepted);
        world.answer_bulk_with(&result);
        world.until(|world| !world.bulk().is_live());
        world.submit(fulfil(id(1), DFSPS[2], DFSPS[3]));
        world.until(|world| !responses.summaries(world.now()).is_empty());
        let payee = world.engine.ledger().participant_named(&name(DFSPS[3])).unwrap().id;
        let [only] = &responses.summaries(world.now())[..] else {
            panic!("the payee of the bulk was timed, too")
        };
        assert_eq!(only.asked, payee);
        assert_eq!(only.kinds.iter().map(|kind| kind.recent).collect::<Vec<_>>(), [[1, 0, 0, 0]]);
    }
}

/// Forwards published records.
struct Told(Sender<Arc<DurableRecord>>);

impl Effects for Told {
    fn publish(&mut self, record: &Arc<DurableRecord>) {
        let _ = self.0.send(Arc::clone(record));
    }

    fn redeliver(&mut self, _: &[CallbackKey]) {}

    fn flush(&mut self) {}

    fn participants(&mut self, _: Arc<Participants>) {}
}

/// Its payee receives the bulk transfer although the engine gets no other command and no tick.
#[test]
fn bulk_transfer_completes_all_its_steps_without_requests() {
    let storage = Storage { disk: Arc::new(SimDisk::new(5)), archive: Arc::new(MemoryArchive::new()) };
    let options = EngineOptions {
        storage: Some(storage),
        tick_interval: Duration::from_secs(1_000_000),
        clock: TestClock::starting_at(START_MS) as _,
        ..EngineOptions::new("nowhere")
    };
    let (told, to_hear) = channel();
    let (engine, handle) = Engine::start(options, EngineMetrics::default(), Box::new(Told(told))).unwrap();
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
        onboard(&handle, &DFSPS).await;
        assert_eq!(handle.submit(new_bulk(), Payload::default()).await, Ok(Reply::Accepted));
    });
    loop {
        let record = to_hear.recv_timeout(Duration::from_secs(120)).expect("the request to the payee");
        if record.callbacks.iter().any(|one| matches!(one.content, CallbackContent::BulkRequest(_))) {
            break;
        }
    }
    engine.shutdown();
}
