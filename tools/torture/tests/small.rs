//! The small sizes of `make test`; `make torture` runs the same trials a hundred times longer.

#[path = "small/defects.rs"]
mod defects;

use std::path::Path;

use upesi_torture::campaign::{Outcome, Plan, run};
use upesi_torture::real_files::{copy_directory, files_below};
use upesi_torture::trials;
use upesi_torture::trials::{Judgement, Tables};

/// Runs a trial on the same seeds each time; `make torture` continues from there.
fn reach(name: &str, count: u64, jobs: usize) -> Outcome {
    let trial = trials::named(name).expect("a trial");
    let plan = Plan { from: Some(0), count, jobs, ..Plan::default() };
    let outcome = run(trial, &plan).expect("a plan without a report cannot fail");
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
fn flips_in_tables_are_detected_or_harmless() {
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
fn changed_sectors_of_tables_are_detected_or_harmless() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_torture"));
    let output = command.args(["bit-flips", "--from", "8", "--count", "100"]).output().expect("the command");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains(" sectors of tables") && text.contains(" in the archive"), "{text}");
}

/// The file that names the current list of tables returns to its halfway state. The archive's watermark reveals this,
/// and so does the store's note; without the note nothing would.
#[test]
fn outdated_list_of_tables_is_detected() {
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
    assert!(detected > 0, "{tables:?}: no damage was detected in {files:?}");
    assert_eq!(judged(&whole), Some(i32::from(Judgement::Harmless.code())), "{tables:?}");
}

#[test]
fn few_worlds_have_no_violation() {
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
fn few_worlds_of_nodes_have_no_violation() {
    let outcome = reach("node-seeds", 4, 2);
    assert_met(
        &outcome,
        &[
            ("changes of the leader", 4),
            ("times that a node followed", 20),
            ("entries or acknowledgements that were lost", 20),
            ("copies compared at the end", 4),
            ("acknowledged", 50),
        ],
    );
}

#[test]
fn full_disks_and_free_space_again() {
    let outcome = reach("disk-full", 300, 2);
    assert_met(&outcome, &[("refused", 50), ("single operations", 5), ("acknowledged", 3_000)]);
}

/// The table of docs/reliability.md agrees with the evidence.
#[test]
fn reliability_table_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/reliability.md")).expect("the page");
    let updated = upesi_torture::table::updated(&page, &root.join("docs/evidence")).expect("evidence");
    assert!(
        page.contains(upesi_torture::table::BEGIN),
        "docs/reliability.md has lost the markers of the table"
    );
    assert!(updated == page, "docs/reliability.md does not agree with docs/evidence: run `make evidence`");
}
