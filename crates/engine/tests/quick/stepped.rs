//! Engines that work turn by turn: the frequency of snapshots, the effects of a full disk, the search for transfers,
//! and a follower's copy of its leader's journal.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use upesi_engine::{
    AnsweringStandby, Availability, EngineHandle, EngineMetrics, EngineOptions, NewestPosition, NoEffects,
    Payload, Search, SearchPosition, SharedParticipants, StandbyEngine, SteppedEngine, Storage, SubmitError,
    first_needed_record, rehearse,
};
use upesi_journal::sim_disk::{SimDisk, SurvivingData};
use upesi_journal::{
    ClaimedLog, Disk, END, EmbeddedLog, JournalError, Log, LogReader, Record, SnapshotStore, TornTail,
};
use upesi_ledger::{CallbackKey, Command, Ledger, PublicState, Reply, Transfer};
use upesi_tables::archive::{Archive as _, MemoryArchive};
use upesi_testsupport::scheme::{TestClock, amount, fulfil, id, onboard, prepare};
use upesi_types::{Amount, Timestamp, TransferId};

const START_MS: i64 = 1_900_000_000_000;
const DFSPS: [&str; 2] = ["greenbank", "bluewallet"];
const FOLD_EVERY: u64 = 8;
const SNAPSHOT_EVERY: u64 = 32;

struct World {
    disk: SimDisk,
    engine: SteppedEngine,
    handle: EngineHandle,
    /// Whether the disk is full when the archivist works.
    is_full: bool,
}

impl World {
    fn new() -> Self {
        Self::with(true)
    }

    fn with(keep_segments: bool) -> Self {
        let disk = SimDisk::new(5);
        let storage = Storage { disk: Arc::new(disk.clone()), archive: Arc::new(MemoryArchive::new()) };
        let options = EngineOptions {
            storage: Some(storage),
            segment_bytes: 64 * 1024,
            keep_segments,
            batch_bytes_max: 16 * 1024,
            fold_every_records: FOLD_EVERY,
            snapshot_every_records: SNAPSHOT_EVERY,
            clock: TestClock::starting_at(START_MS) as _,
            ..EngineOptions::new("nowhere")
        };
        let (engine, handle) =
            SteppedEngine::start(options, EngineMetrics::default(), Box::new(NoEffects)).unwrap();
        let mut world = Self { disk, engine, handle, is_full: false };
        world.during(async |handle| onboard(handle, &DFSPS).await);
        world
    }

    /// Works until a conversation with the engine has ended, the archivist last.
    fn during<T>(&mut self, talk: impl AsyncFnOnce(&EngineHandle) -> T) -> T {
        let outcome = self.without_archivist(talk);
        // The disk has no free space if a test requests this.
        let capacity = if self.is_full { self.disk.used_bytes() } else { u64::MAX };
        self.disk.set_capacity(capacity);
        assert!(self.engine.turn_archivist(), "the archivist has failed");
        self.disk.set_capacity(u64::MAX);
        outcome
    }

    fn without_archivist<T>(&mut self, talk: impl AsyncFnOnce(&EngineHandle) -> T) -> T {
        let handle = self.handle.clone();
        let mut talk = pin!(talk(&handle));
        for _ in 0..10_000 {
            if let Poll::Ready(outcome) = talk.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return outcome;
            }
            self.engine.turn(false);
            self.engine.turn_journal();
        }
        panic!("the engine does not answer");
    }

    fn submit(&mut self, command: Command) -> Reply {
        self.during(async |handle| handle.submit(command, Payload::default()).await.unwrap())
    }

    fn pay(&mut self, number: u64, value: &str) {
        assert_eq!(self.submit(payment(number, value)), Reply::Accepted);
    }

    fn end(&mut self, number: u64) {
        let [payer, payee] = DFSPS;
        assert_eq!(self.submit(fulfil(id(number), payer, payee)), Reply::Accepted);
    }

    fn deliver(&mut self) {
        let owed = owed(self);
        self.handle.submit_quietly(Command::Delivered(owed)).unwrap();
        self.engine.turn(false);
    }

    fn last_seq(&mut self) -> u64 {
        self.engine.ledger().last_seq()
    }

    /// The last records of the written snapshots.
    fn snapshots(&self) -> Vec<u64> {
        let store = SnapshotStore::open(Arc::new(self.disk.clone())).unwrap();
        store.list().unwrap().iter().map(|snapshot| snapshot.seq).collect()
    }

    fn newest_snapshot(&self) -> u64 {
        self.snapshots().into_iter().max().unwrap_or(0)
    }
}

fn owed(world: &World) -> Vec<CallbackKey> {
    world.engine.ledger().outbox().iter().map(|(key, _)| key).collect()
}

fn payment(number: u64, value: &str) -> Command {
    let [payer, payee] = DFSPS;
    prepare(id(number), payer, payee, value, Timestamp::from_ms(START_MS + 1_000_000))
}

/// Payments one after the other. Returns the distances between the snapshots in that time.
fn distances(world: &mut World, numbers: std::ops::Range<u64>) -> Vec<u64> {
    let (mut newest, mut found) = (world.newest_snapshot(), Vec::new());
    for number in numbers {
        world.pay(number, "1.25");
        world.end(number);
        world.deliver();
        let next = world.newest_snapshot();
        if next != newest {
            found.push(next - newest);
            newest = next;
        }
        let behind = world.last_seq() - newest;
        let reserved = world.engine.ledger().reserved_len() as u64;
        let most = SNAPSHOT_EVERY.max(reserved) + 3 * FOLD_EVERY;
        assert!(behind <= most, "the newest snapshot is {behind} records behind");
    }
    found
}

#[test]
fn snapshot_distance_depends_on_settings_and_state() {
    let mut world = World::new();
    // From the first snapshot on.
    distances(&mut world, 100..120);
    let few = distances(&mut world, 120..200);
    assert!(few.len() > 3, "{few:?}");
    let expected = SNAPSHOT_EVERY..SNAPSHOT_EVERY + 2 * FOLD_EVERY;
    assert!(few.iter().all(|distance| expected.contains(distance)), "{few:?}");
    // 100 reservations and as many callbacks are more entries than the number of records that the settings require.
    for number in 200..300 {
        world.pay(number, "0.75");
    }
    let entries = world.engine.ledger().reserved_len() + owed(&world).len();
    assert_eq!(entries, 200);
    distances(&mut world, 300..360);
    let many = distances(&mut world, 360..560);
    let reserved = world.engine.ledger().reserved_len() as u64;
    let expected = reserved..reserved + 3 * FOLD_EVERY;
    assert!(many.len() > 2 && many.iter().all(|distance| expected.contains(distance)), "{many:?}");
}

/// The options of a follower, with its own disk.
fn of_standby(disk: &SimDisk, archive: Arc<MemoryArchive>) -> EngineOptions {
    EngineOptions {
        storage: Some(Storage { disk: Arc::new(disk.clone()), archive }),
        fold_every_records: FOLD_EVERY,
        snapshot_every_records: SNAPSHOT_EVERY,
        ..EngineOptions::new("nowhere")
    }
}

/// A follower has its leader's journal, and makes archive and snapshots from it alone.
#[test]
fn a_standby_has_the_leaders_archive_and_snapshots() {
    let mut world = World::new();
    distances(&mut world, 100..160);
    let leaders: Arc<dyn Disk> = Arc::new(world.disk.clone());
    // Delivery reports that no batch contains yet are not in the journal.
    let last_seq = upesi_journal::verify(Arc::clone(&leaders)).unwrap().last_seq;
    let (disk, archive) = (SimDisk::new(6), Arc::new(MemoryArchive::new()));
    let options = of_standby(&disk, Arc::clone(&archive));
    let copy = EmbeddedLog::for_reading(&leaders);
    let open_with = |participants: &SharedParticipants| {
        StandbyEngine::open(&options, None, Arc::new(disk.clone()), &copy, participants.clone()).unwrap()
    };
    let open = || open_with(&SharedParticipants::default());
    let of_new_leader = EmbeddedLog::for_reading(&(Arc::new(SimDisk::new(8)) as _));
    let opened = StandbyEngine::open(
        &options,
        None,
        Arc::new(disk.clone()),
        &of_new_leader,
        SharedParticipants::default(),
    );
    assert!(opened.is_ok(), "no record has come yet");
    let participants = SharedParticipants::default();
    let snapshots = || SnapshotStore::open(Arc::new(disk.clone())).unwrap().list().unwrap();
    let mut standby = open_with(&participants);
    assert_eq!(participants.get().ids().count(), 1, "the hub");
    standby.follow_to(FOLD_EVERY - 1).unwrap();
    assert_eq!(archive.watermark_applied(), 0, "too few to be worth it");
    standby.follow_to(FOLD_EVERY).unwrap();
    assert_eq!(archive.watermark_applied(), FOLD_EVERY);
    for seq in FOLD_EVERY..=last_seq / 2 {
        standby.follow_to(seq).unwrap();
    }
    let (known, changes) = (participants.get().ids().count(), participants.generation());
    assert!(known > 2 && changes < last_seq / 2, "{known} participants, {changes} changes");
    let written = || {
        let mut seqs: Vec<_> = snapshots().iter().map(|one| one.seq).collect();
        seqs.sort();
        let [older, newest] = seqs[..] else { panic!("two are kept: {seqs:?}") };
        (older, newest)
    };
    let (older, newest) = written();
    assert!((SNAPSHOT_EVERY..SNAPSHOT_EVERY + FOLD_EVERY).contains(&(newest - older)), "{older}, {newest}");
    // The follower ends, loses its archive, and continues from its snapshot.
    drop(standby);
    archive.lose();
    let mut standby = open();
    assert_eq!(archive.watermark(), newest);
    standby.follow_to(last_seq).unwrap();
    assert_eq!(archive.watermark_applied(), last_seq);
    let stored = |number| archive.get(&id(number)).unwrap().is_some();
    assert!((100..160).all(stored) && !stored(160));
    assert!(last_seq - written().1 <= SNAPSHOT_EVERY);
    // The follower becomes leader: its state equals the state after a start.
    let image = Arc::new(world.disk.after_power_loss(SurvivingData::Everything));
    let log = Arc::new(EmbeddedLog::new(image, upesi_journal::Options::default()));
    let options = EngineOptions { log: Some(log), ..options.clone() };
    let expected = rehearse(&options).unwrap().ledger;
    let (engine, _handle) = SteppedEngine::take_over(standby, options, Box::new(NoEffects)).unwrap();
    let state = |ledger: &Ledger| {
        let mut bytes = Vec::new();
        ledger.encode_snapshot(&mut bytes);
        (ledger.last_seq(), ledger.finished_len(), bytes)
    };
    assert!(
        state(engine.ledger()) == state(&expected),
        "{} {}",
        engine.ledger().last_seq(),
        expected.last_seq()
    );
    assert_eq!(engine.ledger().last_seq(), last_seq);
}

/// A log that must not be read to its end: its last record is followed by prepared space.
struct Prepared(Arc<dyn Log>);

struct UpToRecords(Box<dyn LogReader>);

impl Log for Prepared {
    fn claim(&self, known_durable_seq: u64) -> Result<ClaimedLog, JournalError> {
        self.0.claim(known_durable_seq)
    }

    fn oldest_seq(&self) -> Result<Option<u64>, JournalError> {
        self.0.oldest_seq()
    }

    fn read_from(&self, seq: u64) -> Box<dyn LogReader> {
        Box::new(UpToRecords(self.0.read_from(seq)))
    }

    fn trim(&self, seq: u64) -> Result<usize, JournalError> {
        self.0.trim(seq)
    }
}

impl LogReader for UpToRecords {
    fn next_record(&mut self, durable_seq: u64) -> Result<Option<Record<'_>>, JournalError> {
        assert_ne!(durable_seq, END);
        self.0.next_record(durable_seq)
    }

    fn read_record(&mut self, seq: u64) -> Result<Record<'_>, JournalError> {
        self.0.read_record(seq)
    }

    fn next_seq(&self) -> u64 {
        self.0.next_seq()
    }

    fn torn(&self) -> Option<&TornTail> {
        self.0.torn()
    }
}

#[test]
fn start_and_takeover_read_up_to_the_last_record() {
    let mut world = World::new();
    distances(&mut world, 100..110);
    let image: Arc<dyn Disk> = Arc::new(world.disk.after_power_loss(SurvivingData::Everything));
    let last_seq = upesi_journal::verify(Arc::clone(&image)).unwrap().last_seq;
    let log = EmbeddedLog::new(image, upesi_journal::Options::default());
    let log: Arc<dyn Log> = Arc::new(Prepared(Arc::new(log)));
    let disk = SimDisk::new(6);
    let options =
        EngineOptions { log: Some(Arc::clone(&log)), ..of_standby(&disk, Arc::new(MemoryArchive::new())) };
    let mut standby =
        StandbyEngine::open(&options, None, Arc::new(disk), &log, SharedParticipants::default()).unwrap();
    standby.follow_to(last_seq / 2).unwrap();
    let (engine, _) = SteppedEngine::take_over(standby, options.clone(), Box::new(NoEffects)).unwrap();
    assert_eq!(engine.ledger().last_seq(), last_seq, "the remaining records are read");
    assert_eq!(rehearse(&options).unwrap().ledger.last_seq(), last_seq);
}

/// A world whose transfers 100 to 109 were removed, and the last record of theirs.
fn world_with_removal() -> (World, u64) {
    let mut world = World::new();
    distances(&mut world, 100..110);
    world.during(async |handle| handle.divide_archive().await).unwrap();
    let leaders_archive = world.handle.archive().unwrap();
    let to_seq = leaders_archive.divisions().last().unwrap().first_seq - 1;
    assert_eq!(world.during(async |handle| handle.remove_finished(u64::MAX).await), Ok(1));
    (world, to_seq)
}

/// With an export, removed transfers stay in the archive of a node until its hub releases them, on a follower and on a
/// leader.
#[test]
fn deferred_removal_keeps_transfers_for_their_export() {
    let (mut world, to_seq) = world_with_removal();
    let (disk, archive) = (SimDisk::new(6), Arc::new(MemoryArchive::new()));
    let options = EngineOptions { defers_removals: true, ..of_standby(&disk, Arc::clone(&archive)) };
    let leaders: Arc<dyn Disk> = Arc::new(world.disk.clone());
    let copy = EmbeddedLog::for_reading(&leaders);
    let mut standby =
        StandbyEngine::open(&options, None, Arc::new(disk), &copy, SharedParticipants::default()).unwrap();
    standby.follow_to(to_seq).unwrap();
    // The payments continue until the archive has applied the removal.
    distances(&mut world, 110..120);
    standby.follow_to(world.handle.status().durable_seq).unwrap();
    let stored = || (100..110).filter(|number| archive.get(&id(*number)).unwrap().is_some()).count();
    assert_eq!(stored(), 10, "a follower");
    let image = Arc::new(world.disk.after_power_loss(SurvivingData::Everything));
    let log = Arc::new(EmbeddedLog::new(image, upesi_journal::Options::default()));
    let options = EngineOptions { log: Some(log), ..options };
    let (mut engine, _handle) = SteppedEngine::take_over(standby, options, Box::new(NoEffects)).unwrap();
    assert!(engine.turn_archivist());
    assert_eq!((engine.ledger().removed_to(), stored()), (to_seq, 10), "a leader");
    assert_eq!(archive.remove_to(to_seq).unwrap(), 1);
    assert_eq!(stored(), 0);
}

/// The leader's journal records a removal of transfers. The archive of a follower removes them, too, after it has
/// folded that record, or when the node becomes leader. Transfers that it has not folded by then never enter it.
#[test]
fn removed_transfers_leave_the_standbys_archive() {
    for (is_behind, has_folded) in [(false, true), (false, false), (true, false)] {
        let (mut world, to_seq) = world_with_removal();
        let (disk, archive) = (SimDisk::new(6), Arc::new(MemoryArchive::new()));
        let options = of_standby(&disk, Arc::clone(&archive));
        let leaders: Arc<dyn Disk> = Arc::new(world.disk.clone());
        let copy = EmbeddedLog::for_reading(&leaders);
        let mut standby =
            StandbyEngine::open(&options, None, Arc::new(disk), &copy, SharedParticipants::default())
                .unwrap();
        standby.follow_to(if is_behind { FOLD_EVERY } else { to_seq }).unwrap();
        let stored = || (100..110).filter(|number| archive.get(&id(*number)).unwrap().is_some()).count();
        assert_eq!(stored(), if is_behind { 0 } else { 10 });
        if has_folded {
            // The payments continue until the archive has caught up.
            distances(&mut world, 110..120);
            standby.follow_to(world.handle.status().durable_seq).unwrap();
            assert_eq!(stored(), 0);
        }
        let image = Arc::new(world.disk.after_power_loss(SurvivingData::Everything));
        let log = Arc::new(EmbeddedLog::new(image, upesi_journal::Options::default()));
        let options = EngineOptions { log: Some(log), ..options };
        let (mut engine, _handle) = SteppedEngine::take_over(standby, options, Box::new(NoEffects)).unwrap();
        assert_eq!((engine.ledger().removed_to(), archive.first_seq()), (to_seq, to_seq + 1));
        assert!(engine.turn_archivist());
        assert_eq!(stored(), 0, "it was behind: {is_behind}, it had folded the removal: {has_folded}");
    }
}

/// A follower answers from the followed records, rejects commands, and continues with this state as leader.
#[test]
fn standby_answers_queries() {
    let mut world = World::new();
    distances(&mut world, 100..130);
    let leaders: Arc<dyn Disk> = Arc::new(world.disk.clone());
    let last_seq = upesi_journal::verify(Arc::clone(&leaders)).unwrap().last_seq;
    let (disk, archive) = (SimDisk::new(7), Arc::new(MemoryArchive::new()));
    let options = of_standby(&disk, Arc::clone(&archive));
    let copy = EmbeddedLog::for_reading(&leaders);
    let standby =
        StandbyEngine::open(&options, None, Arc::new(disk), &copy, SharedParticipants::default()).unwrap();
    let (standby, handle) = AnsweringStandby::start(standby, &options, &copy).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let known = || runtime.block_on(handle.read(|ledger| ledger.last_seq()));
    assert_eq!((known(), handle.status().serving), (Ok(0), Availability::Following));
    assert!(handle.status().is_durable && handle.status().is_new);
    for seq in [last_seq / 2, last_seq] {
        standby.follow_to(seq).unwrap();
        assert_eq!((known(), handle.status().durable_seq), (Ok(seq), seq));
        assert!(!handle.status().is_new, "it has DFSPs");
        assert_eq!(handle.status().archived_seq, archive.watermark_applied());
    }
    // By now, each transfer is in memory or in the archive.
    for number in 100..130 {
        let found = runtime.block_on(handle.transfer(id(number))).unwrap();
        assert!(found.is_some(), "{number}");
    }
    assert_eq!(runtime.block_on(handle.transfer(id(130))), Ok(None));
    let refused = runtime.block_on(handle.submit(payment(900, "1"), Payload::default()));
    assert_eq!(refused, Err(SubmitError::Stopped));
    let standby = standby.end();
    assert_eq!(known(), Err(SubmitError::Stopped));
    let image = Arc::new(world.disk.after_power_loss(SurvivingData::Everything));
    let log = Arc::new(EmbeddedLog::new(image, upesi_journal::Options::default()));
    let options = EngineOptions { log: Some(log), ..options };
    let (engine, _handle) = SteppedEngine::take_over(standby, options, Box::new(NoEffects)).unwrap();
    assert_eq!(engine.ledger().last_seq(), last_seq);
}

#[test]
fn snapshots_wait_for_space_and_the_engine_continues() {
    let mut world = World::new();
    distances(&mut world, 100..130);
    let before = world.newest_snapshot();
    assert!(before > 0);
    world.is_full = true;
    for number in 130..160 {
        world.pay(number, "1.25");
        world.end(number);
        world.deliver();
    }
    assert_eq!(world.newest_snapshot(), before, "the disk has no space for one");
    assert!(world.last_seq() - before > 2 * SNAPSHOT_EVERY);
    assert_eq!(world.handle.status().serving, Availability::Yes);
    world.is_full = false;
    world.during(async |_| ());
    assert!(
        world.newest_snapshot() > before,
        "it is written when there is room again, without further records"
    );
}

#[test]
fn reports_of_deliveries_are_kept_while_the_disk_is_full() {
    let mut world = World::new();
    for number in 100..105 {
        world.pay(number, "1.25");
    }
    world.disk.set_capacity(world.disk.used_bytes());
    let bodies = world.without_archivist(async |handle| {
        let body = || Payload { headers: "".into(), body: "x".repeat(7_000).into() };
        let mut taken = 0;
        while handle.submit(payment(200 + taken, "1"), body()).await != Err(SubmitError::Full) {
            taken += 1;
        }
        taken
    });
    assert_eq!(world.handle.status().serving, Availability::ReadOnly);
    let owed = owed(&world);
    assert_eq!(owed.len() as u64, 5 + bodies);
    for key in &owed {
        world.handle.submit_quietly(Command::Delivered(vec![*key])).unwrap();
        world.engine.turn(false);
    }
    assert_eq!(self::owed(&world), owed, "nothing is recorded without room");
    world.disk.set_capacity(u64::MAX);
    world.engine.turn(true);
    assert_eq!(self::owed(&world), [], "delivered callbacks are no longer owed");
    assert_eq!(world.handle.status().serving, Availability::Yes);
}

/// Goes through all pages of a search.
fn pages(world: &mut World, search: &Search) -> (BTreeMap<TransferId, Amount>, usize) {
    let (mut place, mut found, mut pages) = (SearchPosition::Reserved(None), BTreeMap::new(), 0);
    loop {
        let piece = world.during(async |handle| handle.find(search.clone(), place).await.unwrap());
        assert!(piece.transfers.len() <= search.limit, "{} on a page", piece.transfers.len());
        found.extend(piece.transfers.iter().map(|transfer| (transfer.id, transfer.amount)));
        pages += 1;
        assert!(pages < 1_000, "the search does not end");
        match piece.next {
            Some(next) => place = next,
            None => return (found, pages),
        }
    }
}

/// Archived, finished in memory, and reserved ones, each of its own amount.
fn filled() -> (World, Vec<(TransferId, Amount)>) {
    let mut world = World::new();
    let value = |number: u64| format!("{number}.5");
    for number in 130..140 {
        world.pay(number, &value(number));
    }
    for number in 100..130 {
        world.pay(number, &value(number));
        world.end(number);
    }
    let mut expected: Vec<_> = (100..140).map(|number| (id(number), amount(&value(number)))).collect();
    expected.sort();
    let ledger: &Ledger = world.engine.ledger();
    let (reserved, finished) = (ledger.reserved_len(), ledger.finished_len());
    assert!(
        reserved == 10 && (1..30).contains(&finished),
        "{reserved} reserved, {finished} finished in memory"
    );
    (world, expected)
}

fn search(limit: usize, look_at_max: usize, is_sought: fn(&Transfer) -> bool) -> Search {
    Search {
        is_sought: Arc::new(is_sought),
        may_be_sought: Arc::new(|_| true),
        since: Timestamp::EPOCH,
        until: None,
        limit,
        look_at_max,
    }
}

#[test]
fn search_finds_every_transfer_with_any_page_size() {
    let (mut world, expected) = filled();
    for (limit, look_at_max) in [(1_000, 1_000), (1, 1_000), (7, 1_000), (1_000, 1), (1_000, 3)] {
        let (found, count) = pages(&mut world, &search(limit, look_at_max, |_| true));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected, "{limit} of {look_at_max}");
        let fewest = expected.len() / limit.min(look_at_max);
        assert!((fewest..fewest + 30).contains(&count), "{count} pages of {limit}, {look_at_max} looked at");
    }
    // One call goes on from memory to the archive, unless it takes too long, as on a busy machine.
    let mut whole = (0..100).map(|_| pages(&mut world, &search(1_000, 1_000, |_| true)).1);
    assert!(whole.any(|count| count == 1), "each call ends after one question");
    let committed = |transfer: &Transfer| transfer.public_state() == PublicState::Committed;
    let (found, count) = pages(&mut world, &search(4, 6, committed));
    assert_eq!(found.into_iter().collect::<Vec<_>>(), {
        let ended: Vec<_> = (100..130).map(id).collect();
        expected.into_iter().filter(|(id, _)| ended.contains(id)).collect::<Vec<_>>()
    });
    assert!(count >= 7, "{count} pages");
}

/// Goes through the pages of a search from the newest transfer on, and changes the world after each page.
fn newest_pages(
    world: &mut World,
    search: &Search,
    mut between: impl FnMut(&mut World, &NewestPosition),
) -> Vec<(TransferId, PublicState)> {
    let (mut place, mut found, mut pages) = (NewestPosition::START, Vec::new(), 0);
    loop {
        let piece = world.during(async |handle| handle.find_newest(search.clone(), place).await.unwrap());
        assert!(piece.transfers.len() <= search.limit, "{} on a page", piece.transfers.len());
        found.extend(piece.transfers.iter().map(|transfer| (transfer.id, transfer.public_state())));
        pages += 1;
        assert!(pages < 1_000, "the search does not end");
        match piece.next {
            Some(next) => place = next,
            None => return found,
        }
        between(world, &place);
    }
}

#[test]
fn newest_search_is_in_the_order_of_prepares_with_any_page_size() {
    let (mut world, _) = filled();
    let with_state = |number: u64| {
        let state = if number < 130 { PublicState::Committed } else { PublicState::Reserved };
        (id(number), state)
    };
    let expected: Vec<_> = (100..130).rev().chain((130..140).rev()).map(with_state).collect();
    for (limit, look_at_max) in [(1_000, 1_000_000), (1, 1_000_000), (7, 1_000_000), (1_000, 1), (40, 40)] {
        let found = newest_pages(&mut world, &search(limit, look_at_max, |_| true), |_, _| ());
        assert_eq!(found, expected, "{limit} of {look_at_max}");
    }
    let reserved = |transfer: &Transfer| transfer.public_state() == PublicState::Reserved;
    let found = newest_pages(&mut world, &search(4, 1_000_000, reserved), |_, _| ());
    assert_eq!(found, expected[30..]);
}

/// One page is one search: it starts at the newest record and stops when the page is full.
#[test]
fn newest_search_of_one_page_reads_no_more_than_it_needs() {
    let mut world = World::new();
    for number in 1..=1_000 {
        world.pay(number, "1.25");
    }
    let looked_at = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&looked_at);
    let may_be_sought = move |_: &Transfer| counting.fetch_add(1, Ordering::Relaxed) < usize::MAX;
    let search = Search { may_be_sought: Arc::new(may_be_sought), ..search(20, 1_000_000, |_| true) };
    let page = world.during(async |handle| handle.find_newest(search, NewestPosition::START).await.unwrap());
    assert_eq!(page.transfers.iter().map(|one| one.id).collect::<Vec<_>>(), {
        (981..=1_000).rev().map(id).collect::<Vec<_>>()
    });
    assert!(looked_at.load(Ordering::Relaxed) <= 256, "{looked_at:?}");
    assert_eq!(page.next, Some(NewestPosition::Recorded(page.transfers[19].prepare_seq)));
}

/// A transfer that ends between two pages is found once.
#[test]
fn newest_search_finds_transfers_once_that_end_meanwhile() {
    let (mut world, _) = filled();
    let mut ending = (130..140).rev();
    let found = newest_pages(&mut world, &search(3, 1_000_000, |_| true), |world, _| {
        if let Some(number) = ending.next() {
            world.end(number);
        }
    });
    let ids: Vec<_> = found.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, (100..130).rev().chain((130..140).rev()).map(id).collect::<Vec<_>>());
}

/// Transfers that are older than the journal are in the archive only.
#[test]
fn newest_search_goes_on_in_the_archive_behind_a_trimmed_journal() {
    let mut world = World::with(false);
    for number in 1..=600 {
        world.pay(number, "1.25");
        world.end(number);
        world.deliver();
    }
    let mut begins = None;
    let found = newest_pages(&mut world, &search(50, 1_000_000, |_| true), |_, place| {
        if let NewestPosition::Older { begin, .. } = place {
            begins = Some(*begin);
        }
    });
    assert!(begins.is_some_and(|begin| begin > 1), "the journal is whole: {begins:?}");
    let mut ids: Vec<_> = found.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids[..10], (591..=600).rev().map(id).collect::<Vec<_>>());
    let mut expected: Vec<_> = (1..=600).map(id).collect();
    ids.sort();
    expected.sort();
    assert_eq!(ids, expected, "each is found once");
}

/// Payments wait for a question as long as it takes to look at so many.
#[test]
fn search_yields_to_payments_after_a_thousand_transfers() {
    const COUNT: u64 = 1_500;
    const PER_QUESTION_MAX: usize = 1_000;
    let mut world = World::new();
    let submit = |world: &mut World, command: fn(u64) -> Command| {
        (0..COUNT).for_each(|number| world.handle.submit_quietly(command(number)).unwrap());
        assert!(world.engine.turn(true));
    };
    submit(&mut world, |number| payment(number, "1.25"));
    for is_reserved in [true, false] {
        if !is_reserved {
            submit(&mut world, |number| fulfil(id(number), DFSPS[0], DFSPS[1]));
        }
        let ledger = world.engine.ledger();
        let held = [ledger.reserved_len(), ledger.finished_len()];
        assert_eq!(held.map(|count| count as u64), if is_reserved { [COUNT, 0] } else { [0, COUNT] });
        let looked_at = Arc::new(AtomicUsize::new(0));
        let counting = Arc::clone(&looked_at);
        let is_sought = move |_: &Transfer| counting.fetch_add(1, Ordering::Relaxed) > usize::MAX / 2;
        let search = Search { is_sought: Arc::new(is_sought), ..search(10, 1_000_000, |_| true) };
        let (mut place, mut per_question) = (SearchPosition::Reserved(None), Vec::new());
        while !matches!(place, SearchPosition::Archived(_)) {
            let handle = world.handle.clone();
            let mut found = pin!(handle.find(search.clone(), place));
            let next = loop {
                if let Poll::Ready(found) = found.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    break found.unwrap().next;
                }
                let before = looked_at.load(Ordering::Relaxed);
                assert!(world.engine.turn(false));
                per_question.push(looked_at.load(Ordering::Relaxed) - before);
            };
            let Some(next) = next else { break };
            place = next;
        }
        assert_eq!(per_question.iter().sum::<usize>() as u64, COUNT);
        assert!(per_question.iter().all(|count| *count <= PER_QUESTION_MAX), "{per_question:?}");
    }
}

/// The remedy for a full disk must not delete records that a start or a callback needs.
#[test]
fn first_needed_record_covers_snapshots_callbacks_and_reservations() {
    let needed = |world: &World| {
        let disk: Arc<dyn Disk> = Arc::new(world.disk.clone());
        first_needed_record(&disk).unwrap()
    };
    let mut world = World::new();
    world.disk = SimDisk::new(1);
    assert_eq!(needed(&world), 1, "no snapshot exists");
    let mut world = World::new();
    distances(&mut world, 100..140);
    let oldest = |world: &World| world.snapshots().into_iter().min().unwrap();
    assert_eq!(needed(&world), oldest(&world) + 1);
    // One transfer is reserved and its callback is delivered. The callbacks of another transfer are never delivered.
    let reserved = world.last_seq() + 1;
    world.pay(1, "2.5");
    world.deliver();
    distances(&mut world, 140..180);
    assert!(oldest(&world) > reserved);
    assert_eq!(needed(&world), reserved);
    world.end(1);
    world.deliver();
    let kept = world.last_seq() + 1;
    world.pay(2, "2.5");
    world.end(2);
    for number in 200..240 {
        world.pay(number, "1.25");
        world.end(number);
        let others = owed(&world).into_iter().filter(|key| key.seq > kept + 1).collect();
        world.submit(Command::Delivered(others));
    }
    assert!(oldest(&world) > kept + 1);
    assert_eq!(needed(&world), kept);
}

/// A planted mistake, as tests of an auditor use it.
#[test]
fn a_planted_mistake_is_recorded() {
    let mut world = World::new();
    world.engine.plant(Box::new(|decision| decision.callbacks.clear()));
    world.pay(1, "1.25");
    assert_eq!((world.engine.ledger().reserved_len(), owed(&world)), (1, vec![]));
}

#[test]
fn delivery_reports_wait_for_the_next_tick() {
    let mut world = World::new();
    world.pay(1, "1.25");
    let before = world.disk.operations().len();
    world.deliver();
    assert_eq!((owed(&world).len(), world.disk.operations().len()), (0, before), "decided, not written");
    world.engine.turn(true);
    assert!(world.disk.operations().len() > before);
}
