//! The small sizes of `make test`; `make torture` runs the same trials a hundred times longer.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use upesi_engine::{
    Engine, EngineMetrics, EngineOptions, NoEffects, Payload, Serving, StopReason, Storage, SubmitError,
};
use upesi_journal::sim_disk::{Fault, Kept, Random, SimDisk};
use upesi_ledger::PublicState;
use upesi_tables::archive::{Archive, ArchiveEntry, ArchiveStats, MemoryArchive};
use upesi_tables::{Part, TablesError};
use upesi_torture::campaign::{Outcome, Plan, run};
use upesi_torture::hub::life::{Known, Memory, judge};
use upesi_torture::hub::scheme::{clock, onboard, prepare};
use upesi_torture::hub::{Remains, Setup, block_on};
use upesi_torture::real_files::{copy_directory, files_below};
use upesi_torture::trials;
use upesi_torture::trials::{Judgement, Tables};
use upesi_types::TransferId;

/// Runs a trial on the same seeds each time; `make torture` continues from there.
fn reach(name: &str, count: u64, jobs: usize) -> Outcome {
    let trial = trials::named(name).expect("a trial");
    let plan = Plan { from: Some(0), count, jobs, ..Plan::default() };
    let outcome = run(trial, &plan).expect("there is no report to be read");
    assert!(outcome.violations.is_empty(), "{:#?}", outcome.violations);
    assert!(outcome.tally.units() >= count);
    outcome
}

/// Checks that the run has met its subject.
fn assert_met(outcome: &Outcome, least: &[(&str, u64)]) {
    for (name, count) in least {
        let met = outcome.tally.get(name);
        assert!(met >= *count, "only {met} {name}: {:?}", outcome.tally);
    }
}

#[test]
fn ten_thousand_crash_images() {
    let outcome = reach("crash-images", 10_000, 2);
    assert_met(
        &outcome,
        &[("torn", 300), ("journal", 9_000), ("store", 20), ("stopped while recovering", 500)],
    );
}

/// Whole hubs are counted separately from journals alone.
#[test]
fn six_hundred_crash_images_of_whole_hubs() {
    let outcome = reach("hub-images", 600, 2);
    assert_met(
        &outcome,
        &[("whole hubs", 600), ("acknowledged", 1_000), ("removals", 20), ("came again", 10)],
    );
}

#[test]
fn two_hundred_failed_syncs() {
    let outcome = reach("fsync", 200, 2);
    assert_met(
        &outcome,
        &[
            ("under load", 50),
            ("at the start", 5),
            ("acknowledged before", 1_000),
            ("one batch after the other", 50),
            ("with threads in between", 50),
        ],
    );
}

#[test]
fn ten_thousand_flips() {
    let outcome = reach("bit-flips", 10_000, 2);
    let least = [
        ("one bit", 5_000),
        ("lost", 50),
        ("misdirected", 50),
        ("foreign", 50),
        ("in snapshots", 100),
        ("refused starts", 500),
    ];
    assert_met(&outcome, &least);
}

/// Processes of the command itself judge the tables of archive and store.
#[test]
fn flips_in_tables_are_told_or_harmless() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_torture"));
    let output = command.args(["bit-flips", "--from", "0", "--count", "100"]).output().expect("the command");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains(" 16 in the archive") && text.contains(" 16 in the store"), "{text}");
    for tables in Tables::ALL {
        judge_tables(tables);
    }
}

/// Every other seed with tables also changes their sectors, in all other ways.
#[test]
fn changed_sectors_of_tables_are_told_or_harmless() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_torture"));
    let output = command.args(["bit-flips", "--from", "8", "--count", "100"]).output().expect("the command");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains(" sectors of tables") && text.contains(" in the archive"), "{text}");
}

/// The file that names the current list of tables returns to its halfway state. The archive's watermark reveals this,
/// and so does the store's note; without the note nothing would.
#[test]
fn a_list_of_tables_that_went_back_is_told() {
    for tables in Tables::ALL {
        let directory = tempfile::tempdir().expect("a directory");
        let [whole, halfway, rotten] = ["whole", "halfway", "rotten"].map(|name| directory.path().join(name));
        tables.live(&whole, &halfway);
        let read = |directory: &Path, file: &Path| std::fs::read(directory.join(file)).expect("a file");
        let mut went_back = files_below(&halfway).expect("files");
        went_back.retain(|file| file.ends_with("current") && read(&halfway, file) != read(&whole, file));
        assert!(!went_back.is_empty(), "{tables:?}: nothing has changed since");
        let judged = |file: &Path, has_note: bool| {
            copy_directory(&whole, &rotten).expect("a copy");
            std::fs::copy(halfway.join(file), rotten.join(file)).expect("an old copy");
            if !has_note {
                std::fs::remove_file(rotten.join("tables/noted")).expect("a note");
            }
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_torture"));
            let status = command.args(["judge-tables", tables.name()]).arg(&rotten).status();
            std::fs::remove_dir_all(&rotten).expect("a copy");
            status.expect("the command").code()
        };
        let detected = Some(i32::from(Judgement::Detected.code()));
        for file in &went_back {
            assert_eq!(judged(file, true), detected, "{tables:?}: {}", file.display());
        }
        if tables == Tables::Store {
            let wrong = Some(i32::from(Judgement::Wrong(String::new()).code()));
            assert!(went_back.iter().any(|file| judged(file, false) == wrong), "{went_back:?}");
        }
    }
}

/// Undamaged tables are harmless, and a changed byte in the middle of a table is detected, by a judge that does not
/// just crash.
fn judge_tables(tables: Tables) {
    let directory = tempfile::tempdir().expect("a directory");
    let whole = directory.path().join("whole");
    tables.fill(&whole);
    let judged = |path: &Path| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_torture"));
        command.args(["judge-tables", tables.name()]).arg(path).status().expect("the command").code()
    };
    let files = files_below(&whole).expect("files");
    let in_tables = files.iter().filter(|file| file.components().any(|part| part.as_os_str() == "tables"));
    let mut detected = 0;
    for (number, file) in in_tables.enumerate() {
        let rotten = directory.path().join(number.to_string());
        copy_directory(&whole, &rotten).expect("a copy");
        let mut bytes = std::fs::read(rotten.join(file)).expect("a file");
        let middle = bytes.len() / 3;
        bytes[middle] ^= 1;
        std::fs::write(rotten.join(file), bytes).expect("a file");
        detected += u32::from(judged(&rotten) == Some(i32::from(Judgement::Detected.code())));
    }
    assert!(detected > 0, "{tables:?}: of {files:?} nothing that rotted was told");
    assert_eq!(judged(&whole), Some(i32::from(Judgement::Harmless.code())), "{tables:?}");
}

#[test]
fn a_few_worlds() {
    let outcome = reach("world-seeds", 4, 2);
    assert_met(
        &outcome,
        &[
            ("messages lost", 5),
            ("messages doubled", 5),
            ("messages delayed", 5),
            ("lies", 20),
            ("faults", 20),
            ("acknowledged", 50),
            ("rotten worlds", 1),
        ],
    );
}

#[test]
fn a_few_worlds_of_nodes() {
    let outcome = reach("node-seeds", 4, 2);
    assert_met(
        &outcome,
        &[
            ("changes of the node that leads", 4),
            ("times that a node followed", 20),
            ("entries or acknowledgements that were lost", 20),
            ("copies compared at the end", 4),
            ("acknowledged", 50),
        ],
    );
}

#[test]
fn full_disks_and_room_again() {
    let outcome = reach("disk-full", 300, 2);
    assert_met(&outcome, &[("refused", 50), ("single operations", 5), ("acknowledged", 3_000)]);
}

/// The table of docs/reliability.md agrees with the evidence.
#[test]
fn the_table_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/reliability.md")).expect("the page");
    let updated = upesi_torture::table::updated(&page, &root.join("docs/evidence")).expect("evidence");
    assert!(
        page.contains(upesi_torture::table::BEGIN),
        "docs/reliability.md has lost the markers of the table"
    );
    assert!(updated == page, "docs/reliability.md does not agree with docs/evidence: run `make evidence`");
}

// A check that cannot fail is a defect. Hubs and journals that break a promise on purpose are detected, and a failing
// archive ends the engine with that reason.

const SEED: u64 = 5;
const BURSTS: u64 = 16;

/// A hub's life without faults, and its DFSPs' memory.
fn lived(remains: &Remains) -> (Setup, Memory) {
    let mut random = Random::new(SEED);
    let setup = Setup::orderly(&mut random);
    let mut memory = Memory::default();
    block_on(async {
        let (engine, handle) = remains.start(&setup).expect("starts");
        assert!(memory.live(&handle, &mut random, BURSTS).await);
        engine.shutdown();
    });
    (setup, memory)
}

/// The verdict's message; `None` if it finds nothing wrong.
fn verdict(remains: &Remains, setup: &Setup, memory: &Memory) -> Option<String> {
    let judged = catch_unwind(AssertUnwindSafe(|| judge(remains, setup, memory, "planted")));
    judged.err().map(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
}

#[test]
fn an_honest_hub_passes() {
    let remains = Remains::none(SEED);
    let (setup, memory) = lived(&remains);
    assert!(memory.acknowledged > 20, "{memory:?}");
    assert_eq!(verdict(&remains.after_power_loss(Kept::Nothing), &setup, &memory), None);
}

#[test]
fn a_lost_transfer_is_found() {
    let remains = Remains::none(SEED);
    let (setup, mut memory) = lived(&remains);
    let number = memory.transfers.len() as u64;
    memory.transfers.insert(number, Known { is_acknowledged: true, ..Known::default() });
    let found = verdict(&remains, &setup, &memory).expect("is found");
    assert!(found.contains("was acknowledged and is lost"), "{found}");
}

#[test]
fn another_end_is_found() {
    let remains = Remains::none(SEED);
    let (setup, mut memory) = lived(&remains);
    let ended = memory.transfers.values_mut().find(|known| known.ended.is_some()).expect("some have ended");
    let other =
        if ended.ended == Some(PublicState::Aborted) { PublicState::Committed } else { PublicState::Aborted };
    ended.ended = Some(other);
    let found = verdict(&remains, &setup, &memory).expect("is found");
    assert!(found.contains("ended otherwise"), "{found}");
    ended_by_nobody(&remains, &setup, memory);
}

fn ended_by_nobody(remains: &Remains, setup: &Setup, mut memory: Memory) {
    memory.transfers.values_mut().for_each(|known| known.ended = None);
    let found = verdict(remains, setup, &memory).expect("is found");
    assert!(found.contains("nobody ended it"), "{found}");
}

/// A disk that acknowledges a write and loses it, which is equivalent to an early acknowledgement.
#[test]
fn an_acknowledgement_before_its_time_is_found() {
    let mut found = 0;
    for ordinal in 60..100 {
        let remains = Remains::none(SEED);
        remains.disk.inject(ordinal, Fault::LostWrite);
        let (setup, memory) = lived(&remains);
        let image = remains.after_power_loss(Kept::Nothing);
        found += u32::from(verdict(&image, &setup, &memory).is_some());
    }
    assert!(found > 5, "only {found} of 40 lost writes mattered");
}

/// Number of rounds. The race that was once lost is lost in nearly every one of them.
const ROUNDS: u64 = 20;

/// An archive that accepts nothing.
struct Broken(MemoryArchive);

impl Archive for Broken {
    fn get(&self, id: &TransferId) -> Result<Option<Vec<u8>>, TablesError> {
        self.0.get(id)
    }

    fn may_contain(&self, id: &TransferId) -> bool {
        self.0.may_contain(id)
    }

    fn apply(&self, _: &[ArchiveEntry], _: u64) -> Result<(), TablesError> {
        let source = std::io::Error::other("simulated input/output error");
        Err(TablesError::io(Part::Archive, "archive", source))
    }

    fn sync(&self) -> Result<u64, TablesError> {
        self.0.sync()
    }

    fn remove_to(&self, seq: u64) -> Result<u64, TablesError> {
        self.0.remove_to(seq)
    }

    fn watermark(&self) -> u64 {
        self.0.watermark()
    }

    fn watermark_applied(&self) -> u64 {
        self.0.watermark_applied()
    }

    fn stats(&self) -> ArchiveStats {
        self.0.stats()
    }

    fn for_each(
        &self,
        visit: &mut dyn FnMut(TransferId, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TablesError> {
        self.0.for_each(visit)
    }
}

#[test]
fn an_archive_that_fails_is_the_reason_of_the_end() {
    for round in 0..ROUNDS {
        let options = EngineOptions {
            storage: Some(Storage {
                disk: Arc::new(SimDisk::new(round)),
                archive: Arc::new(Broken(MemoryArchive::new())),
            }),
            segment_bytes: 64 * 1024,
            fold_every_records: 16,
            clock: clock(),
            ..EngineOptions::new("nowhere")
        };
        block_on(async {
            let (engine, handle) =
                Engine::start(options, EngineMetrics::default(), Box::new(NoEffects)).expect("starts");
            // It may stop during the onboarding.
            let mut answer = onboard(&handle).await;
            let mut number = 0;
            while answer.is_ok() {
                answer = handle.submit(prepare(number), Payload::default()).await.map(drop);
                number += 1;
            }
            assert_eq!(answer, Err(SubmitError::Stopped), "round {round}");
            let reason = handle.stopped().await;
            assert!(matches!(reason, StopReason::Archive(_)), "round {round}: {reason}");
            assert_eq!(handle.status().serving, Serving::Stopped(reason), "round {round}");
            engine.shutdown();
        });
    }
}
