//! Repeated power losses while the real binary is under load. Everything that no sync of its journal, snapshots,
//! archive and store has made durable is undone. The next start has all acknowledged transfers.
//!
//! Moments and losses are drawn from a seed, which is printed. `UPESI_POWER_SEED` repeats a run's choices,
//! `UPESI_POWER_LIVES` sets the number of lives of each hub, and `UPESI_CRASH_BINARY` selects another binary than this
//! build's. The choices repeat, but the interleaving of processes does not.

#![allow(clippy::print_stdout, reason = "readers of the test's output need the seed")]

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::support_crash::events::FileEvents;
use crate::support_crash::hub::PATIENCE;
use crate::support_crash::keeping::Keeping;
use crate::support_crash::load::Load;
use crate::support_crash::scene::block_on;
use crate::support_crash::{Chance, setting, verdict};
use crate::support_power::{Loss, Lost, Power};
use rustix::event::Timespec;
use tempfile::TempDir;

use crate::support_crash::events::Moment;
use crate::support_crash::scene::World;

/// Lives of each hub under load.
const LIVES: u64 = 5;
/// Starts on an empty directory that are interrupted before.
const FIRST_STARTS: u64 = 2;
/// Approximate number of files that a first start creates and opens.
const FIRST_CHANGES: u64 = 128;
/// After this time without a change, a first start has completed all its own work.
const QUIET: Timespec = Timespec { tv_sec: 0, tv_nsec: 300_000_000 };
/// Number of transfers that are accepted before the first power loss.
const BEFORE: u64 = 64;
/// One in this many lives ends with a kill only, and the power loss follows in a later one.
const KILL_ONLY_ONE_IN: u64 = 4;

/// A data directory, and the library that simulates power losses.
struct Machine {
    directory: TempDir,
    data: PathBuf,
    power: Power,
}

impl Machine {
    /// `None` if the library cannot be built.
    fn new() -> Option<Self> {
        let directory = TempDir::new().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let data = root.join("data");
        std::fs::create_dir(&data).unwrap();
        let power = Power::build(&root, &data)?;
        Some(Self { directory, data, power })
    }

    /// Hubs that the library observes.
    fn world(&self, settings: &[&'static str]) -> World {
        World {
            log: Some(self.log()),
            settings: settings.to_vec(),
            environment: self.power.environment(),
            ..World::new(&self.data)
        }
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("hub.log")
    }
}

/// Prints how to repeat a run that fails.
struct Repeat {
    seed: u64,
    lives: u64,
    machine: Option<Machine>,
}

impl Repeat {
    fn machine(&self) -> &Machine {
        self.machine.as_ref().unwrap()
    }
}

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let kept = self.machine.take().map(|machine| machine.directory.keep());
            println!(
                "repeat with: UPESI_POWER_SEED={} UPESI_POWER_LIVES={} cargo test -p upesi --test faults power_loss\n\
                 data and log are kept in {kept:?}",
                self.seed, self.lives
            );
        }
    }
}

/// The first starts on an empty directory, which create the files.
fn begin(machine: &Machine, world: &World, chance: &mut Chance, sums: &mut Sums) {
    for _ in 0..FIRST_STARTS {
        let events = FileEvents::of_recovery(&machine.data);
        let hub = world.start();
        let count = chance.spread(FIRST_CHANGES);
        events.wait(count, QUIET);
        hub.kill();
        let loss = Loss::draw(chance);
        let lost = machine.power.goes(loss, chance.below(u64::MAX));
        sums.add(&lost);
        println!("first start, to change {count}: {loss:?}, {lost:?}");
    }
}

/// Waits until segments of the journal are removed, so that only the archive has their transfers.
fn outlive_segments(world: &World, load: &Load) {
    let begun = Instant::now();
    while verdict::first_record(&world.data) <= 1 {
        load.wait_for_accepted(BEFORE);
        assert!(begun.elapsed() < PATIENCE, "no segment of the journal is deleted");
    }
}

/// Fates of changes at power losses, and the number of losses.
#[derive(Default)]
struct Sums {
    cuts: usize,
    durable: usize,
    lost: usize,
}

impl Sums {
    fn add(&mut self, lost: &Lost) {
        self.cuts += 1;
        self.durable += lost.durable;
        self.lost += lost.unsynced + lost.names;
    }
}

/// The place where transfers are retained, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Journal and archive retain all transfers permanently.
    Whole,
    /// Only the archive retains transfers, once the journal has removed them.
    ArchiveAlone,
    /// For some days.
    Leaving,
}

/// Lives under load. Each life ends with a kill and usually a power loss. If transfers are removed, days pass.
fn live(
    repeat: &Repeat,
    (world, load): (&mut World, &Load),
    mut keeping: Option<&mut Keeping>,
    chance: &mut Chance,
    sums: &mut Sums,
) {
    let (machine, begun) = (repeat.machine(), Instant::now());
    for life in 1..repeat.lives {
        if let Some(keeping) = &mut keeping {
            keeping.pass_a_day(world, load);
        }
        let moment = Moment::draw(chance);
        let serves = moment.live(world, load);
        let (loss, seed) = (Loss::draw(chance), chance.below(u64::MAX));
        let told = if chance.below(KILL_ONLY_ONE_IN) == 0 && life + 1 < repeat.lives {
            machine.power.stays();
            "the power stays".to_owned()
        } else {
            let lost = machine.power.goes(loss, seed);
            sums.add(&lost);
            format!("{loss:?}, {lost:?}")
        };
        let accepted = load.accepted_count();
        println!(
            "{:6} ms  life {life}: {moment:?}, served: {serves}, {told}, {accepted} accepted so far",
            begun.elapsed().as_millis()
        );
    }
}

/// Starts a hub on the remaining data and compares it with the DFSPs' books.
fn judge(world: &World, load: &mut Load, keeping: Option<&Keeping>, is_archive_alone: bool) -> usize {
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
    verdict::audit_is_clean(&world.data);
    if let Some(keeping) = keeping {
        println!("{:?}", keeping.judge(world, &accepted));
    } else if is_archive_alone {
        assert!(verdict::first_record(&world.data) > 1, "the journal has everything");
        verdict::archive_has_all(&world.data, &accepted);
    } else {
        verdict::journal_agrees(&world.data, &accepted);
        verdict::archive_agrees(&world.data);
    }
    accepted.len()
}

/// Checks that the archive and the newest snapshot were durable before other files relied on them.
fn nothing_was_missed(log: &Path) {
    let log = std::fs::read_to_string(log).unwrap();
    for told in ["rebuilding it", "skipped a damaged snapshot"] {
        let line = log.lines().find(|line| line.contains(told));
        assert_eq!(line, None);
    }
}

fn run(settings: &[&'static str], kind: Kind) {
    let is_archive_alone = kind == Kind::ArchiveAlone;
    let seed = setting("UPESI_POWER_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let lives = setting("UPESI_POWER_LIVES").unwrap_or(LIVES);
    println!("power loss: seed {seed}, {lives} lives, {settings:?}");
    let Some(machine) = Machine::new() else { return };
    let mut world = machine.world(settings);
    let mut keeping = None;
    if kind == Kind::Leaving {
        keeping = Keeping::begin(machine.directory.path(), &mut world);
        if keeping.is_none() {
            return;
        }
    }
    let repeat = Repeat { seed, lives, machine: Some(machine) };
    let mut chance = Chance::new(upesi_sim::mix(seed ^ kind as u64));
    let mut sums = Sums::default();
    begin(repeat.machine(), &world, &mut chance, &mut sums);

    let mut hub = world.start();
    hub.serves();
    let mut load =
        if keeping.is_some() { block_on(world.lasting_load(seed)) } else { block_on(world.load(seed)) };
    load.start();
    load.wait_for_accepted(BEFORE);
    if is_archive_alone {
        outlive_segments(&world, &load);
    }
    hub.kill();
    let lost = repeat.machine().power.goes(Loss::Everything, 0);
    assert!(lost.durable > 0 && lost.unsynced > 0, "the library saw nothing of it: {lost:?}");
    sums.add(&lost);
    if let Some(keeping) = &mut keeping {
        keeping.outlive(&mut world, &load);
        repeat.machine().power.stays();
    }
    live(&repeat, (&mut world, &load), keeping.as_mut(), &mut chance, &mut sums);
    if let Some(keeping) = &keeping {
        // A removal is durable before it is logged.
        keeping.see_them_leave(&world, &load);
        sums.add(&repeat.machine().power.goes(Loss::Everything, 0));
    } else {
        world.environment.clear();
    }
    let accepted = judge(&world, &mut load, keeping.as_ref(), is_archive_alone);
    nothing_was_missed(&repeat.machine().log());
    let Sums { cuts, durable, lost } = sums;
    println!(
        "{accepted} accepted, {cuts} times the power went, {durable} changes were durable, {lost} changes were lost"
    );
}

#[test]
fn power_loss_loses_no_acknowledged_transfer() {
    run(&[], Kind::Whole);
}

#[test]
fn power_loss_loses_nothing_that_is_only_in_the_archive() {
    run(&["data.keep_segments=needed"], Kind::ArchiveAlone);
}

/// Days pass between the lives. Old transfers are exported and removed.
#[test]
fn power_loss_with_retention_loses_and_restores_nothing() {
    run(&[], Kind::Leaving);
}

/// Accepted transfers that the journal lacks when everything that was not synced is lost.
fn lost_by_a_hub(settings: &[&'static str]) -> Option<usize> {
    let machine = Machine::new()?;
    let world = machine.world(settings);
    let mut hub = world.start();
    hub.serves();
    let mut load = block_on(world.load(3));
    load.start();
    load.wait_for_accepted(BEFORE);
    let accepted = load.accepted();
    hub.kill();
    machine.power.goes(Loss::Everything, 0);
    let known = verdict::outcomes(&machine.data);
    Some(accepted.iter().filter(|transfer| !known.contains_key(&transfer.id)).count())
}

/// The check can fail: the same power loss detects a hub that acknowledges transfers without a sync.
#[test]
fn hub_without_sync_is_detected() {
    let Some(lost) = lost_by_a_hub(&["engine.durable=false"]) else { return };
    assert!(lost > 0, "nothing is lost by a hub that does not sync");
    assert_eq!(lost_by_a_hub(&[]), Some(0));
}
