//! Retention while hubs crash: days pass between lives, old transfers are exported and removed, and nothing returns.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use upesi_tables::archive::{Archive, ArchiveOptions, FjallArchive, first_seq_of};

use super::hub::{PATIENCE, upesi};
use super::load::{Accepted, Load};
use super::scene::World;
use super::verdict::Facts;
use super::{compile, verdict};

/// Longer than a division stays open, so that from the second day on each day removes one.
const DAY_S: u64 = 95_000;
/// By then payees' clocks are a week behind, which is the maximum.
const DAYS_MAX: u64 = 6;
/// Minimum number of days.
const DAYS_MIN: u64 = 4;
/// Payments that show that a hub has served since the last day.
const BETWEEN_DAYS: u64 = 64;
/// The hub's log message for a removal.
const LEFT: &str = "old transfers were removed from the archive";

/// Settings that remove transfers after two days.
const SETTINGS: [&str; 6] = [
    "archive.keep_days=2",
    "archive.export_format=jsonl",
    "hub.transfer_validity_max_s=172800",
    "fspiop.completed_timestamp_age_s_max=604800",
    "callbacks.deadline_s=2592000",
    "engine.tick_interval_ms=20",
];

/// The name of the newest snapshot. A new snapshot shows that the archive has more transfers.
fn newest_snapshot(world: &World) -> Option<OsString> {
    let files = fs::read_dir(world.data.join("snapshots")).unwrap().map(|file| file.unwrap().file_name());
    files.filter(|name| Path::new(name).extension() == Some("snap".as_ref())).max()
}

/// The clock of the hubs of a world, and their directory for exports.
pub struct Keeping {
    library: PathBuf,
    export: PathBuf,
    days: u64,
    accepted_before: usize,
    snapshot_before: Option<OsString>,
}

/// Counts of the transfers by their fate.
#[derive(Debug)]
pub struct Kept {
    pub archived: usize,
    /// Removed transfers.
    pub left: usize,
    /// Exported divisions.
    pub exports: usize,
}

/// Settles the open window, because contents of an unsettled window stay.
pub fn settle(world: &World, job: &str) {
    let admin = format!("http://{}", world.ports[1]);
    let run = ["settlement", "run", job, "--to", "settled", "--admin", &admin, "--wait", "0"];
    let run = upesi().args(run).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

impl Keeping {
    /// Sets up removal of transfers for the hubs of a world. `None` if the clock cannot be simulated.
    pub fn begin(directory: &Path, world: &mut World) -> Option<Self> {
        let library = compile(directory, "clock", include_str!("clock.c"))?;
        let export = directory.join("export");
        world.settings.extend(SETTINGS);
        world.settings.push(format!("archive.export_dir={}", export.display()).leak());
        let keeping = Self { library, export, days: 0, accepted_before: 0, snapshot_before: None };
        keeping.set_clock(world);
        Some(keeping)
    }

    /// A day passes if payments have continued since the last day and, on the first two days, if the archive has new
    /// transfers. It waits for repetitions of DFSPs from earlier days, because a hub may otherwise have removed their
    /// transfers.
    pub fn pass_a_day(&mut self, world: &mut World, load: &Load) {
        let accepted = load.accepted_count();
        if self.days < DAYS_MAX
            && accepted >= self.accepted_before + BETWEEN_DAYS as usize
            && !self.waits_for_archive(world)
            && load.simulator.next_round()
        {
            self.days += 1;
            self.accepted_before = accepted;
            self.snapshot_before = newest_snapshot(world);
            self.set_clock(world);
            load.follow_clock(Duration::from_secs(self.days * DAY_S));
        }
    }

    /// Runs lives until enough days have passed to remove transfers. This needs new transfers in the archive on one
    /// day, and more on a later day, which closes their division.
    pub fn outlive(&mut self, world: &mut World, load: &Load) {
        while self.days < DAYS_MIN {
            let mut hub = world.start();
            hub.serves();
            load.wait_for_accepted(BETWEEN_DAYS);
            let begun = Instant::now();
            while self.waits_for_archive(world) {
                assert!(begun.elapsed() < PATIENCE, "nothing is archived within {PATIENCE:?}");
                load.wait_for_accepted(1);
            }
            hub.kill();
            self.pass_a_day(world, load);
        }
    }

    fn waits_for_archive(&self, world: &World) -> bool {
        self.days < 2 && newest_snapshot(world) <= self.snapshot_before
    }

    /// A life that ends when transfers are removed, in it or before.
    pub fn see_them_leave(&self, world: &World, load: &Load) {
        let mut hub = world.start();
        hub.serves();
        load.wait_for_accepted(BETWEEN_DAYS);
        settle(world, &format!("day-{}", self.days));
        hub.kill();
        // The next start checks at once.
        let mut hub = world.start();
        hub.serves();
        load.wait_for_accepted(1);
        let begun = Instant::now();
        // A hub that was killed during a removal had no time to log it.
        while first_seq_of(&world.data.join("archive")).is_none_or(|first_seq| first_seq == 1) {
            assert!(begun.elapsed() < PATIENCE, "no transfers leave within {PATIENCE:?}");
            load.wait_for_accepted(1);
        }
        hub.kill();
    }

    fn log(&self, world: &World) -> String {
        fs::read_to_string(world.log.as_ref().unwrap()).unwrap()
    }

    fn set_clock(&self, world: &mut World) {
        let is_preload = |(name, _): &&(OsString, OsString)| name == "LD_PRELOAD";
        let mut preload = OsString::from(&self.library);
        if let Some((_, others)) = world.environment.iter().find(is_preload)
            && !others.to_string_lossy().contains("clock.so")
        {
            preload.push(":");
            preload.push(others);
        } else if let Some((_, others)) = world.environment.iter().find(is_preload) {
            preload = others.clone();
        }
        world.environment.retain(|(name, _)| name != "LD_PRELOAD" && name != "CLOCK_AHEAD_S");
        world.environment.push(("LD_PRELOAD".into(), preload));
        world.environment.push(("CLOCK_AHEAD_S".into(), (self.days * DAY_S).to_string().into()));
    }

    /// The exported transfers by id, with the last record of their division. No transfer is exported twice.
    fn exported(&self) -> (HashMap<String, (u64, Facts)>, usize) {
        let (mut exported, mut files) = (HashMap::new(), 0);
        for file in fs::read_dir(&self.export).unwrap().map(|file| file.unwrap().path()) {
            let Some(range) = file.file_name().and_then(|name| name.to_str()?.strip_suffix(".jsonl")) else {
                continue;
            };
            files += 1;
            let last = range.rsplit('-').next().unwrap().parse().unwrap();
            for line in fs::read_to_string(&file).unwrap().lines() {
                let row: serde_json::Value = serde_json::from_str(line).unwrap();
                let text = |name: &str| row[name].as_str().unwrap().to_owned();
                let facts = Facts {
                    payer: text("payerFsp"),
                    payee: text("payeeFsp"),
                    amount: text("amount"),
                    is_committed: text("state") == "COMMITTED",
                };
                let before = exported.insert(text("transferId"), (last, facts));
                assert!(
                    before.is_none(),
                    "{} is exported twice, also in {}",
                    text("transferId"),
                    file.display()
                );
            }
        }
        (exported, files)
    }

    /// Each accepted transfer is in the archive, or was exported and removed, with the outcome that its payer received.
    /// The archive has no removed transfer, and a removal that a hub logged is final. The hub is stopped.
    pub fn judge(&self, world: &World, accepted: &[Accepted]) -> Kept {
        let path = world.data.join("archive");
        let first_seq = first_seq_of(&path).unwrap();
        let log = self.log(world);
        let told = log.lines().filter(|line| line.contains(LEFT)).filter_map(last_record).max();
        assert!(
            told.is_none_or(|last| first_seq > last),
            "{told:?} had left, the archive begins with {first_seq}"
        );
        let archive = FjallArchive::open(path, &ArchiveOptions::default()).unwrap();
        let names = verdict::names(&world.data);
        let (exported, exports) = self.exported();
        let mut kept = Kept { archived: 0, left: 0, exports };
        for transfer in accepted {
            let (id, expected) = (transfer.id, verdict::facts(transfer));
            let archived = archive.get(&id).unwrap().map(|bytes| verdict::decoded(&bytes));
            let exported = exported.get(&id.to_string());
            let has_left = exported.is_some_and(|(last, _)| *last < first_seq);
            if let Some((_, facts)) = exported {
                assert_eq!(facts, &expected, "{id} as exported");
            }
            match archived {
                Some(archived) => {
                    assert!(!has_left, "{id} has left and came back");
                    assert_eq!(verdict::facts_of(&archived, &names), expected, "{id} in the archive");
                    kept.archived += 1;
                }
                None => {
                    assert!(has_left, "{id} was answered 202, and is neither archived nor exported");
                    kept.left += 1;
                }
            }
        }
        let mut stored = 0;
        let mut count = |_, _: &[u8]| {
            stored += 1;
            std::ops::ControlFlow::Continue(())
        };
        archive.for_each(&mut count).unwrap();
        assert_eq!(stored, kept.archived, "the archive has transfers that were not sent, or that came back");
        assert!(kept.archived > 0 && kept.left > 0 && kept.exports > 0, "{kept:?}");
        kept
    }

    /// Transfers that were accepted since the last day began. A hub must still know them.
    pub fn known<'a>(&self, accepted: &'a [Accepted]) -> &'a [Accepted] {
        &accepted[self.accepted_before..]
    }
}

/// The last record of a division in a log line.
fn last_record(line: &str) -> Option<u64> {
    let digits = line.split("last=").nth(1)?.split(|letter: char| !letter.is_ascii_digit()).next()?;
    digits.parse().ok()
}
