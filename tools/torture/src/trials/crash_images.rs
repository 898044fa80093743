//! Simulated crash images of the journal alone and of the store. Images of whole hubs are a separate trial.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use upesi_journal::sim_disk::script::{Progress, Script, dynamic};
use upesi_journal::sim_disk::{DiskFault, Operation, Random, SimDisk, SurvivingData};
use upesi_tables::TablesError;
use upesi_tables::store::{Store, StoreOptions, Table};

use super::{Tally, Trial, table_flips};
use crate::hub::life::Memory;
use crate::hub::verdict::judge;
use crate::hub::{HubRemains, Setup, block_on};
use crate::real_files::{copy_directory, directory_in_memory};
use crate::trials;

/// A power failure or a kill at any operation, including torn writes. Every acknowledged record is present, and torn
/// data are never used.
pub(super) const TRIAL: Trial = Trial {
    name: "crash-images",
    what: "simulated crash images of the journal alone and of the store, torn writes included",
    goal: 1_000_000,
    build: trials::own_build,
    run,
};

fn run(seed: u64) -> Tally {
    let mut tally = Tally::default();
    of_journal(seed, &mut tally);
    of_store(seed, &mut tally);
    tally
}

/// Number of stops of one script, each at another operation.
const JOURNAL_STOPS: u64 = 6;
/// Number of images of in-flight data that are drawn for each stop.
const JOURNAL_IMAGES: u64 = 5;
/// Number of images of a stop at a sync, because frames may tear there.
const IMAGES_OF_SYNC: u64 = 16;

/// Stops the script of a seed at some operations, and judges the possible remains.
pub fn of_journal(seed: u64, tally: &mut Tally) {
    let script = Script::new(seed);
    let whole = SimDisk::new(seed);
    let progress = script.run(&whole);
    assert!(progress.error.is_none(), "seed {seed}: without a fault: {:?}", progress.error);
    let operations = whole.operations();
    let mut random = Random::new(!seed);
    for _ in 0..JOURNAL_STOPS {
        let ordinal = random.below(operations.len() as u64);
        let disk = SimDisk::new(seed);
        disk.inject(ordinal, DiskFault::Crash);
        let progress = script.run(&disk);
        assert!(progress.error.is_some(), "seed {seed}: operation {ordinal} did not stop it");
        let is_sync = operations[ordinal as usize] == Operation::Sync;
        for kept in outcomes(&mut random, if is_sync { IMAGES_OF_SYNC } else { JOURNAL_IMAGES }) {
            judge_journal(&script, &disk.after_power_loss(kept), &progress, &mut random, tally);
        }
        judge_journal(&script, &disk.after_kill(), &progress, &mut random, tally);
        tally.add("kills", 1);
    }
}

fn outcomes(random: &mut Random, more: u64) -> Vec<SurvivingData> {
    let mut outcomes = vec![SurvivingData::Everything, SurvivingData::Nothing];
    outcomes.extend((0..more).map(|_| SurvivingData::Some(random.bits())));
    outcomes
}

/// Recovers an image, perhaps after a stop during the recovery.
fn judge_journal(
    script: &Script,
    image: &SimDisk,
    progress: &Progress,
    random: &mut Random,
    tally: &mut Tally,
) {
    let image = if random.one_in(4) { stopped_again(script, image, random, tally) } else { image.clone() };
    let recovered = script.expect_recovered(&image, progress);
    tally.unit("journal");
    tally.add("torn", u64::from(recovered.torn.is_some()));
    // The data that recovery found are durable: the next power failure changes nothing.
    let again = image.after_power_loss(SurvivingData::Nothing);
    let found = script.read(&again).ok();
    assert_eq!(found, Some(recovered.last_seq), "seed {}: lost by a second power loss", script.seed);
    if random.one_in(4) {
        let rest = script.run(&again);
        assert!(rest.error.is_none(), "seed {}: the script does not continue: {:?}", script.seed, rest.error);
        script.expect_records(&again, script.last_seq());
    }
}

/// The image after a crash within the recovery and another power failure.
fn stopped_again(script: &Script, image: &SimDisk, random: &mut Random, tally: &mut Tally) -> SimDisk {
    let attempt = image.after_power_loss(SurvivingData::Nothing);
    attempt.inject(random.below(8), DiskFault::Crash);
    let opened = upesi_journal::open(dynamic(&attempt), script.options.clone());
    tally.add("stopped while recovering", u64::from(opened.is_err()));
    attempt.after_power_loss(SurvivingData::Some(random.bits()))
}

/// One seed in this many also stops a store. The store's tables are real files, which take time.
const STORE_STRIDE: u64 = 16;
const STORE_UPDATES: u64 = 40;
/// Maximum number of operations before the fault.
const STORE_ORDINALS: u64 = 120;

/// Writes until the disk stops or breaks. Every image contains all answered updates, and no partial update.
pub fn of_store(seed: u64, tally: &mut Tally) {
    if !seed.is_multiple_of(STORE_STRIDE) {
        return;
    }
    let mut random = Random::new(seed ^ 0x7374_6f72);
    let directory = directory_in_memory();
    let path = directory.path().join("store");
    fs::create_dir(&path).expect("a directory");
    let disk = SimDisk::new(seed);
    let ordinal = random.below(STORE_ORDINALS);
    let fault = if random.one_in(3) { DiskFault::Broken } else { DiskFault::Crash };
    disk.inject(ordinal, fault);
    let answered = write_until_failure(&path, &disk);
    for kept in [
        SurvivingData::Everything,
        SurvivingData::Nothing,
        SurvivingData::Some(random.bits()),
        SurvivingData::Some(random.bits()),
    ] {
        let what = format!("store, seed {seed}, {fault:?} at operation {ordinal}, {kept:?}");
        let copy = directory.path().join("copy");
        copy_directory(&path, &copy).expect("a copy");
        let (store, table) = open(&copy, &disk.after_power_loss(kept))
            .unwrap_or_else(|error| panic!("{what}: does not open: {error}"));
        let count = whole(&table, &what);
        assert!(
            (answered..=answered + 1).contains(&count),
            "{what}: {answered} updates were answered, {count} are present"
        );
        drop((store, table));
        fs::remove_dir_all(&copy).expect("a directory that was made");
        tally.unit("store");
    }
}

fn open(path: &Path, disk: &SimDisk) -> Result<(Store, Table), TablesError> {
    // Many small files from few entries, and no minimum of free space.
    let small = table_flips::store_options();
    let options = StoreOptions { pending_bytes: 8 << 10, segment_bytes: 8 << 10, ..small };
    let store = Store::open_with_log_on(path, Arc::new(disk.clone()), &options)?;
    let table = store.table("counted")?;
    Ok((store, table))
}

/// Writes until a failure. Returns the number of answered updates.
fn write_until_failure(path: &Path, disk: &SimDisk) -> u64 {
    let Ok((store, table)) = open(path, disk) else { return 0 };
    let mut answered = 0;
    while answered < STORE_UPDATES {
        match write_one(&store, &table) {
            Ok(count) => answered = count,
            Err(_) => break,
        }
    }
    answered
}

/// Makes one more update of several keys. Returns the durable count.
fn write_one(store: &Store, table: &Table) -> Result<u64, TablesError> {
    let table = table.clone();
    store.update_blocking(move |transaction| {
        let count = number(transaction.get(&table, b"count")?.as_deref()) + 1;
        transaction.put(&table, &key(count), &[7; 300])?;
        transaction.put(&table, b"last", &count.to_le_bytes())?;
        transaction.delete(&table, &key(count / 2))?;
        transaction.put(&table, b"count", &count.to_le_bytes())?;
        Ok(count)
    })
}

fn key(count: u64) -> [u8; 9] {
    let mut key = [b'k'; 9];
    key[1..].copy_from_slice(&count.to_be_bytes());
    key
}

fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |bytes| bytes.try_into().map_or(0, u64::from_le_bytes))
}

/// Checks that each update is complete or absent. Returns the number of updates.
fn whole(table: &Table, what: &str) -> u64 {
    let get = |key: &[u8]| table.get(key).unwrap_or_else(|error| panic!("{what}: {error}"));
    let count = number(get(b"count").as_deref());
    assert_eq!(number(get(b"last").as_deref()), count, "{what}: a partial update");
    let entries = table.scan(b"k", None, usize::MAX).unwrap_or_else(|error| panic!("{what}: {error}"));
    let expected = (count / 2 + 1..=count).map(|count| key(count).to_vec());
    assert!(entries.into_iter().map(|entry| entry.0.to_vec()).eq(expected), "{what}: other keys");
    count
}

/// Number of images of in-flight data that are drawn for each stop.
const IMAGES_OF_HUB: u64 = 6;
const BURSTS_MAX: u64 = 24;
/// Maximum operation of a stop; a life has about this many operations.
const HUB_ORDINALS: u64 = 256;

/// A power failure or a kill at any operation of a hub that processes transfers, takes snapshots, archives and removes
/// old data. Everything acknowledged is present with its amount and parties, including closed windows and stages of
/// settlements. Removed transfers stay removed.
pub(super) const HUB_IMAGES: Trial = Trial {
    name: "hub-images",
    what: "simulated crash images of whole hubs with a real archive, torn writes included",
    goal: 1_000_000,
    build: trials::own_build,
    run: of_hubs,
};

/// Runs one life up to a crash, and judges the possible remains.
fn of_hubs(seed: u64) -> Tally {
    let mut random = Random::new(seed ^ 0x6875_6200);
    let setup = Setup::draw(&mut random);
    let remains = HubRemains::none_with_files(seed);
    let ordinal = random.below(HUB_ORDINALS);
    remains.disk.inject(ordinal, DiskFault::Crash);
    let mut memory = Memory::default();
    live_in_hub(&remains, &setup, &mut memory, &mut random);
    let mut tally = Tally::default();
    for kept in outcomes(&mut random, IMAGES_OF_HUB) {
        let what = format!("hub, seed {seed}, operation {ordinal}, {kept:?}");
        let image = remains.after_power_loss(kept);
        let state = judge(&image, &setup, &memory, &what);
        tally.unit("whole hubs");
        // Two starts on the same image reach the same state.
        if random.one_in(4) {
            let again = judge(&image.after_power_loss(SurvivingData::Nothing), &setup, &memory, &what);
            assert!(again == state, "{what}: a second start reaches another state");
        }
    }
    judge(
        &remains.after_kill(),
        &setup,
        &memory,
        &format!("hub, seed {seed}, killed at operation {ordinal}"),
    );
    tally.unit("whole hubs");
    tally.add_all([
        ("acknowledged", memory.acknowledged),
        ("removals", memory.removals),
        ("windows closed", memory.treasury.closes),
        ("settlements", memory.treasury.settlements),
        ("stages of settlements", memory.treasury.stages),
        ("settlements given up", memory.treasury.aborts),
        ("came again", memory.came_again.len() as u64),
    ]);
    tally
}

/// Runs one life until the fault occurs or all bursts are sent.
fn live_in_hub(remains: &HubRemains, setup: &Setup, memory: &mut Memory, random: &mut Random) {
    let bursts = 1 + random.below(BURSTS_MAX);
    block_on(async {
        // A crash may come before the hub serves.
        if let Ok((engine, handle)) = remains.start(setup) {
            memory.live(&handle, random, bursts).await;
            engine.shutdown();
        }
    });
}
