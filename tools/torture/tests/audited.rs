//! Random worlds under the audit of `upesi audit`, record by record, with restores from backups: without a false
//! alarm.
//!
//! `UPESI_AUDITED_OPERATIONS=50000` runs longer, `UPESI_AUDITED_SEED=7` runs one world.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use upesi_engine::{DecodedRecord, follow_once};
use upesi_journal::{Access, DataDirectory, Disk, EmbeddedLog};
use upesi_offline::audit::LiveAudit;
use upesi_offline::backup::{BackupArguments, RestoreArguments, backup, restore};
use upesi_testkit::Plan;
use upesi_testkit::world::World;

/// Operations of every test run: acknowledged requests, and changes of operators.
const OPERATIONS: u64 = 1_500;
/// A backup is made and restored each time that this many records were audited, and at the end of each world.
const RECORDS_PER_RESTORE: u64 = 300;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// The directory of the journal.
const JOURNAL: &str = "journal";

/// Writes the journal of a disk into a data directory. A snapshot would need the archive, which is in memory here.
fn write_out(disk: &dyn Disk, directory: &Path) {
    drop(DataDirectory::open(directory).expect("a data directory"));
    for name in disk.list(JOURNAL).unwrap_or_default() {
        let path = format!("{JOURNAL}/{name}");
        let file = disk.open(&path, Access::Read).expect("a listed file");
        let mut bytes = vec![0; file.length().expect("its length") as usize];
        file.read_at(0, &mut bytes).expect("its bytes");
        fs::write(directory.join(path), bytes).expect("is written");
    }
}

/// The first segment of a journal. A hub without it needs its snapshots.
const FIRST_SEGMENT: &str = "00000000000000000001.seg";

/// Backs up the data on the hub's disk, and restores it elsewhere. Returns whether the journal is whole.
fn restores(disk: &dyn Disk, what: &str) -> bool {
    if !disk.list(JOURNAL).unwrap_or_default().iter().any(|name| name == FIRST_SEGMENT) {
        return false;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let [data, to, restored] = ["data", "backup", "restored"].map(|name| directory.path().join(name));
    write_out(disk, &data);
    let made = backup(&BackupArguments { data, to: to.clone(), json: false });
    let made = made.unwrap_or_else(|failure| panic!("{what}: {failure}"));
    let report = restore(&RestoreArguments {
        from: to,
        data: restored,
        alone: false,
        accept_findings: false,
        json: false,
    });
    let report = report.unwrap_or_else(|failure| panic!("{what}: {failure}"));
    assert_eq!(report.audit.last_seq, made.last_record, "{what}");
    true
}

/// Runs a world. Returns the numbers of operations and restores.
fn live(seed: u64) -> (u64, u64) {
    let mut world = World::new(seed, Plan::default());
    let mut audit = LiveAudit::default();
    let (mut restored_at, mut restores_made) = (0, 0);
    loop {
        let goes_on = world.step();
        let (disk, durable_seq) = world.durable();
        if audit.last_seq() < durable_seq {
            let mut records = follow_once(&EmbeddedLog::for_reading(&disk), audit.last_seq() + 1);
            while audit.last_seq() < durable_seq {
                let Some(DecodedRecord { seq, time, record, .. }) = records.next().expect("durable records")
                else {
                    panic!("seed {seed}: record {} is not there", audit.last_seq() + 1)
                };
                let findings = audit.enter(seq, time, record);
                assert!(findings.is_empty(), "seed {seed}, record {seq}: {findings:?}");
            }
        }
        if audit.last_seq() >= restored_at + RECORDS_PER_RESTORE || !goes_on && audit.last_seq() > 0 {
            let is_restored = restores(&*disk, &format!("seed {seed}, record {durable_seq}"));
            (restored_at, restores_made) = (audit.last_seq(), restores_made + u64::from(is_restored));
        }
        if !goes_on {
            break;
        }
    }
    let outcome = world.outcome();
    assert!(outcome.is_sound(), "seed {seed}: {:?}", outcome.findings);
    (outcome.counts.acknowledged + outcome.counts.operations, restores_made)
}

#[test]
fn random_worlds_are_sound_to_the_audit_at_every_record_and_after_every_restore() {
    if let Some(seed) = number("UPESI_AUDITED_SEED") {
        live(seed);
        return;
    }
    let goal = number("UPESI_AUDITED_OPERATIONS").unwrap_or(OPERATIONS);
    let (mut operations, mut restores_made, mut seed) = (0, 0, 0);
    while operations < goal {
        let (more, restored) = live(seed);
        (operations, restores_made, seed) = (operations + more, restores_made + restored, seed + 1);
    }
    let counted = format!("{operations} operations in {seed} worlds, {restores_made} restores");
    let _ = writeln!(std::io::stderr(), "{counted}");
    assert!(restores_made >= seed, "most worlds are restored at their end, and before: {counted}");
}
