//! The power goes, again and again, while the real binary is under load: what no sync of its journal, its
//! snapshots, its archive and its store has made durable is undone, and the next start has all that was
//! acknowledged.
//!
//! Moments and losses are drawn from a seed, which is printed. `UPESI_POWER_SEED` repeats a run's choices,
//! `UPESI_POWER_LIVES` sets how many lives each hub has, `UPESI_CRASH_BINARY` names another binary than that of
//! this build. The choices repeat, the interleaving of processes does not.

#![allow(clippy::print_stdout, reason = "the seed is for whoever reads the test's output")]

mod support_crash;
mod support_power;

use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::event::Timespec;
use support_crash::events::FileEvents;
use support_crash::hub::PATIENCE;
use support_crash::keeping::Keeping;
use support_crash::load::Load;
use support_crash::scene::block_on;
use support_crash::{Chance, setting, verdict};
use support_power::{Loss, Lost, Power};
use tempfile::TempDir;

use self::support_crash::events::Moment;
use self::support_crash::scene::World;

/// Of each hub under load.
const LIVES: u64 = 5;
/// Starts on an empty directory that are cut short before.
const FIRST_STARTS: u64 = 2;
/// A first start makes and opens about so many files.
const FIRST_CHANGES: u64 = 128;
/// When nothing happens for so long, a first start has done all that it does by itself.
const QUIET: Timespec = Timespec { tv_sec: 0, tv_nsec: 300_000_000 };
/// Before the power goes for the first time, so many transfers are accepted.
const BEFORE: u64 = 64;
/// One life in so many ends with the process alone, and the power goes in a later one.
const KILL_ONLY_ONE_IN: u64 = 4;

/// A data directory with what is needed to cut its power.
struct Machine {
    directory: TempDir,
    data: PathBuf,
    power: Power,
}

impl Machine {
    /// `None` where the library cannot be made.
    fn new() -> Option<Self> {
        let directory = TempDir::new().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let data = root.join("data");
        std::fs::create_dir(&data).unwrap();
        let power = Power::build(&root, &data)?;
        Some(Self { directory, data, power })
    }

    /// Hubs that are followed.
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

/// Says how to repeat a run, when it fails.
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
                "repeat with: UPESI_POWER_SEED={} UPESI_POWER_LIVES={} cargo test -p upesi --test power_loss\n\
                 data and log are kept in {kept:?}",
                self.seed, self.lives
            );
        }
    }
}

/// The first starts on an empty directory, which make files that are not there yet.
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

/// Waits until segments of the journal are gone, so that the archive is the only copy of what was in them.
fn outlive_segments(world: &World, load: &Load) {
    let begun = Instant::now();
    while verdict::first_record(&world.data) <= 1 {
        load.wait_for_accepted(BEFORE);
        assert!(begun.elapsed() < PATIENCE, "no segment of the journal is deleted");
    }
}

/// What became of changes when the power went, and how often it did.
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

/// How long transfers stay, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// In journal and archive for ever.
    Whole,
    /// In the archive, when the journal has let go of them.
    ArchiveAlone,
    /// For days.
    Leaving,
}

/// Lives under load, each of which ends with a kill and, as a rule, without power. Where transfers leave, days pass.
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

/// A hub on what is left, against what the DFSPs saw.
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

/// The archive and the newest snapshot were durable before anybody relied on them.
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
        // A removal is durable before it is told.
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
fn nothing_acknowledged_is_lost_with_the_power() {
    run(&[], Kind::Whole);
}

#[test]
fn nothing_acknowledged_is_lost_where_the_archive_is_the_only_copy() {
    run(&["data.keep_segments=needed"], Kind::ArchiveAlone);
}

/// Days pass between the lives; what is old is exported and leaves.
#[test]
fn nothing_is_lost_and_nothing_comes_back_where_transfers_leave() {
    run(&[], Kind::Leaving);
}

/// Accepted transfers that the journal does not hold when everything is lost that was not synced.
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

/// The check can fail: a hub that acknowledges what it has not synced is found out by the very same cut.
#[test]
fn a_hub_that_does_not_sync_is_found_out() {
    let Some(lost) = lost_by_a_hub(&["engine.durable=false"]) else { return };
    assert!(lost > 0, "nothing is lost by a hub that does not sync");
    assert_eq!(lost_by_a_hub(&[]), Some(0));
}
