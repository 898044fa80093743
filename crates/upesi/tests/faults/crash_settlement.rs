//! `kill -9` of the real binary while it closes and settles windows under load. An interrupted job continues by its
//! name. At the end, every commit was settled once.
//!
//! `UPESI_CRASH_SEED`, `UPESI_CRASH_KILLS` and `UPESI_CRASH_BINARY` have the same meaning as in the crash run.

#![allow(clippy::print_stdout, reason = "readers of the test's output need the seed")]

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support_crash::events::{FileEvents, patience};
use crate::support_crash::scene::block_on;
use crate::support_crash::{Chance, setting, verdict};
use serde_json::Value;
use tempfile::TempDir;
use upesi_client::settlement::{Action, HubOptions, Job, SettlementState, run};
use upesi_process::times::Zone;
use upesi_types::Amount;

use crate::support_crash::scene::World;

const KILLS: u64 = 12;
/// Maximum number of processes per requested kill.
const LIVES_MAX: u64 = 10;
/// Maximum number of file changes until a kill. A settlement causes only a few journal writes, and a start some more.
const WRITES_MAX: u64 = 256;

/// The jobs of a run, one after the other, each until it has ended.
struct Jobs {
    hub: HubOptions,
    number: u64,
}

impl Jobs {
    fn options(&self) -> (HubOptions, Job) {
        let name = format!("crash-{}", self.number).parse().unwrap();
        (self.hub.clone(), Job::unattended(name, SettlementState::Settled))
    }

    /// Completes the present job.
    fn finish(&mut self) {
        let (hub, job) = self.options();
        let mut output = Vec::new();
        let done = block_on(run(&hub, &Action::Run(job), &mut output));
        done.unwrap_or_else(|error| panic!("job {}: {error}", self.number));
        self.number += 1;
    }

    /// Runs jobs until the hub is gone.
    fn run_until(&mut self, hub_is_gone: impl FnOnce()) {
        let mut jobs = Jobs { hub: self.hub.clone(), number: self.number };
        let settling = std::thread::spawn(move || {
            loop {
                let (hub, job) = jobs.options();
                let mut output = Vec::new();
                if block_on(run(&hub, &Action::Run(job), &mut output)).is_err() {
                    return jobs.number;
                }
                jobs.number += 1;
            }
        });
        hub_is_gone();
        self.number = settling.join().expect("jobs that end with the hub");
    }

    fn at(admin_url: String, wait: Duration) -> Self {
        let zone = Zone::utc();
        Self {
            hub: HubOptions { admin_url, admin_tls: None, admin_token: None, wait, json: true, zone },
            number: 0,
        }
    }

    /// Whether a window is closed and not settled.
    fn is_cut_off(&self) -> bool {
        let mut output = Vec::new();
        block_on(run(&self.hub, &Action::Overview, &mut output)).expect("a hub that serves");
        let shown: Value = serde_json::from_slice(&output).unwrap();
        let is_open = |window: &Value| window["state"] == "OPEN";
        !shown["windows"].as_array().unwrap().iter().all(is_open)
            || shown["settlements"].as_array().is_some_and(|settlements| !settlements.is_empty())
    }
}

#[test]
fn settlements_continue_after_kills() {
    let seed = setting("UPESI_CRASH_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let kills = setting("UPESI_CRASH_KILLS").unwrap_or(KILLS);
    println!("kills during settlement: seed {seed}, {kills} kills");
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let world = World { log: Some(directory.path().join("hub.log")), ..World::new(&data) };
    let mut hub = world.start();
    hub.serves();
    let mut load = block_on(world.load(seed));
    load.start();
    load.wait_for_accepted(1);

    let wait = Duration::from_secs(60);
    let mut jobs = Jobs::at(format!("http://{}", world.ports[1]), wait);
    let mut chance = Chance::new(upesi_sim::mix(seed));
    let (begun, mut cut_off) = (Instant::now(), 0);
    for life in 1..=LIVES_MAX * kills {
        // A full run continues until it has covered its subject.
        if life > kills && (kills < KILLS || cut_off > 0) {
            break;
        }
        let writes = chance.spread(WRITES_MAX);
        jobs.hub.wait = Duration::ZERO;
        let events = FileEvents::of_recovery(&data);
        jobs.run_until(|| {
            events.wait(writes, patience());
            hub.kill();
        });
        hub = world.start();
        hub.serves();
        let was_cut_off = jobs.is_cut_off();
        cut_off += u64::from(was_cut_off);
        println!(
            "{:6} ms  life {life}: killed at write {writes}, job {} cut off: {was_cut_off}",
            begun.elapsed().as_millis(),
            jobs.number
        );
        if chance.below(3) == 0 {
            // In one process the rest of the job is completed; otherwise the next process finds it as it is.
            jobs.finish();
        }
    }

    jobs.hub.wait = wait;
    jobs.finish();
    let accepted = load.end();
    let admin = world.admin();
    block_on(verdict::quiet(&admin, &load));
    // Settles the transfers that were committed in the meantime.
    jobs.finish();
    let (settlements, nets) = block_on(verdict::settled(&admin));
    block_on(verdict::settled_books_agree(&admin, &load, &accepted, nets));
    let positions = block_on(admin.positions(crate::support_crash::load::currency())).unwrap();
    assert!(positions.values().all(|position| *position == Amount::ZERO), "{positions:?} were never settled");
    drop(admin);
    let (status, log) = hub.stop();
    assert_eq!(status.code(), Some(0), "{}", log.join("\n"));
    verdict::copy_agrees(&data, &accepted);
    closed_once(&data, settlements);
    println!(
        "{:6} ms  {} accepted, {settlements} settlements, {kills} kills, {cut_off} cut off",
        begun.elapsed().as_millis(),
        load.accepted_count()
    );
    assert!(kills < KILLS || cut_off > 0, "no settlement was cut off");
}

/// Checks that the journal closes and settles each window once.
fn closed_once(data: &Path, settlements: usize) {
    use upesi_ledger::Event;
    let disk = upesi_journal::DataDirectory::open_for_reading(data).unwrap().disk();
    let mut records = upesi_engine::follow(&upesi_journal::EmbeddedLog::for_reading(&disk), 1);
    let (mut closed, mut created) = (Vec::new(), Vec::new());
    while let Some(upesi_engine::DecodedRecord { record, .. }) = records.next().unwrap() {
        for event in record.events {
            match event {
                Event::WindowClosed { id, .. } => closed.push(id.0),
                Event::SettlementCreated { contents, .. } => {
                    created.extend(contents.iter().map(|place| place.window.0));
                }
                _ => {}
            }
        }
    }
    assert_eq!(closed, (1..=settlements as u32).collect::<Vec<_>>(), "windows that were closed, in order");
    assert_eq!(created, closed, "windows that settlements took, in order");
}
