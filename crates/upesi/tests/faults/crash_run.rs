//! The crash run: repeated `kill -9` of the real binary, on one data directory under load.
//!
//! The moments are drawn from a seed, which is printed. `UPESI_CRASH_SEED` repeats a run's choices, `UPESI_CRASH_KILLS`
//! sets the number of kills, and `UPESI_CRASH_BINARY` selects another binary than this build's. The choices repeat, but
//! the interleaving of processes does not.

#![allow(clippy::print_stdout, reason = "readers of the test's output need the seed")]

use std::path::Path;
use std::time::Instant;

use crate::support_crash::events::{FileEvents, Waited};
use crate::support_crash::hub::SERVING;
use crate::support_crash::keeping::Keeping;
use crate::support_crash::load::Load;
use crate::support_crash::scene::block_on;
use crate::support_crash::{Chance, setting, verdict};
use rustix::event::Timespec;
use tempfile::TempDir;

use crate::support_crash::events::Moment;
use crate::support_crash::scene::World;

const KILLS: u64 = 50;
/// Kills of a hub with retention.
const KILLS_WITH_RETENTION: u64 = 20;

fn world(directory: &Path) -> World {
    let data = directory.join("data");
    std::fs::create_dir(&data).unwrap();
    World { log: Some(directory.join("hub.log")), ..World::new(&data) }
}

/// Prints how to repeat a run that fails.
struct Repeat {
    seed: u64,
    kills: u64,
    directory: Option<TempDir>,
}

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let kept = self.directory.take().map(TempDir::keep);
            println!(
                "repeat with: UPESI_CRASH_SEED={} UPESI_CRASH_KILLS={} cargo test -p upesi --test faults crash_run\n\
                 data and log are kept in {kept:?}",
                self.seed, self.kills
            );
        }
    }
}

#[test]
fn kills_under_load_lose_no_acknowledged_transfer() {
    run(KILLS, false);
}

/// Days pass between the processes. Old transfers are exported and removed.
#[test]
fn kills_with_retention_lose_nothing_and_restore_nothing() {
    run(KILLS_WITH_RETENTION, true);
}

fn run(kills: u64, is_kept_for_days: bool) {
    let seed = setting("UPESI_CRASH_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let kills = setting("UPESI_CRASH_KILLS").unwrap_or(kills);
    println!("crash run: seed {seed}, {kills} kills, retention: {is_kept_for_days}");
    let directory = TempDir::new().unwrap();
    let mut world = world(directory.path());
    let mut keeping = None;
    if is_kept_for_days {
        keeping = Keeping::begin(directory.path(), &mut world);
        if keeping.is_none() {
            return;
        }
    }
    let _repeat = Repeat { seed, kills, directory: Some(directory) };

    let mut hub = world.start();
    hub.serves();
    let mut load =
        if is_kept_for_days { block_on(world.lasting_load(seed)) } else { block_on(world.load(seed)) };
    load.start();
    load.wait_for_accepted(1);
    hub.kill();

    let mut chance = Chance::new(upesi_sim::mix(seed));
    let begun = Instant::now();
    for life in 1..kills {
        if let Some(keeping) = &mut keeping {
            keeping.pass_a_day(&mut world, &load);
        }
        let moment = Moment::draw(&mut chance);
        let serves = moment.live(&world, &load);
        println!(
            "{:6} ms  life {life}: {moment:?}, served: {serves}, {} accepted so far",
            begun.elapsed().as_millis(),
            load.accepted_count()
        );
    }

    if let Some(keeping) = &mut keeping {
        keeping.outlive(&mut world, &load);
        keeping.see_them_leave(&world, &load);
    }
    let report = judge(&world, &mut load, keeping.as_ref());
    if kills >= KILLS {
        // Checks that the run covered its subject.
        let records = &report["records"];
        let has_left = is_kept_for_days && records["firstSeq"].as_u64() > Some(1);
        assert!(has_left || records["segments"].as_u64() > Some(2), "{report}");
        assert!(report["snapshotsCompared"].as_array().is_some_and(|seqs| !seqs.is_empty()), "{report}");
    }
    println!(
        "{:6} ms  {} accepted, {} segments, {} snapshots compared, {} archived",
        begun.elapsed().as_millis(),
        load.accepted_count(),
        report["records"]["segments"],
        report["snapshotsCompared"],
        report["archive"]["stored"]
    );
}

/// Starts a hub on the remaining data and compares it with the DFSPs' books. Returns the report of the audit.
fn judge(world: &World, load: &mut Load, keeping: Option<&Keeping>) -> serde_json::Value {
    let mut hub = world.start();
    hub.serves();
    let accepted = load.end();
    let admin = world.admin();
    let known = keeping.map_or(&accepted[..], |keeping| keeping.known(&accepted));
    block_on(async {
        verdict::quiet(&admin, load).await;
        verdict::books_agree(&admin, load, &accepted).await;
        verdict::answers_agree(&admin, known).await;
    });
    drop(admin);
    let (status, log) = hub.stop();
    assert_eq!(status.code(), Some(0), "{}", log.join("\n"));
    let report = verdict::audit_is_clean(&world.data);
    if let Some(keeping) = keeping {
        println!("{:?}", keeping.judge(world, &accepted));
    } else {
        verdict::journal_agrees(&world.data, &accepted);
        verdict::archive_agrees(&world.data);
    }
    report
}

/// The first start creates the files. Wherever it is stopped, the next start completes it.
#[test]
fn first_start_may_be_killed_anywhere() {
    // The test waits this long only for the last start.
    let quiet = Timespec { tv_sec: 3, tv_nsec: 0 };
    for count in 1.. {
        let directory = TempDir::new().unwrap();
        let world = world(directory.path());
        let events = FileEvents::of_structure(&world.data);
        let hub = world.start();
        let waited = events.wait(count, quiet);
        hub.kill();
        let mut hub = world.start();
        assert!(
            hub.logs(SERVING),
            "killed at change {count} of the data directory, the next start fails: {}",
            hub.log.join("\n")
        );
        hub.kill();
        if waited == Waited::Quiet {
            assert!(count > 10, "there were only {count} changes to stop at");
            return;
        }
    }
}
