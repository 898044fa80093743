//! A whole engine with journal, snapshots and a real archive, stopped at an operation.

use upesi_journal::sim_disk::{Fault, Kept, Random};

use crate::hub::life::Memory;
use crate::hub::verdict::judge;
use crate::hub::{Remains, Setup, block_on};
use crate::tally::Tally;
use crate::trial::{self, Trial};

/// Images of what was in flight, drawn for each stop.
const IMAGES: u64 = 6;
const BURSTS_MAX: u64 = 24;
/// An operation that is after most of a life: about so many a life has.
const ORDINALS: u64 = 256;

/// A power loss or a kill at any operation of a hub that serves, snapshots, archives and removes what is old:
/// everything acknowledged is there, with its amount and its parties, closes and stages of settlements among it, and
/// nothing removed comes back.
pub(super) const TRIAL: Trial = Trial {
    name: "hub-images",
    what: "simulated crash images of whole hubs with a real archive, torn writes included",
    goal: 1_000_000,
    build: trial::own_build,
    run,
};

fn run(seed: u64) -> Tally {
    let mut tally = Tally::default();
    crash_and_judge(seed, &mut tally);
    tally
}

/// Lives one life up to a crash, and judges what may be left.
fn crash_and_judge(seed: u64, tally: &mut Tally) {
    let mut random = Random::new(seed ^ 0x6875_6200);
    let setup = Setup::draw(&mut random);
    let remains = Remains::none_with_files(seed);
    let ordinal = random.below(ORDINALS);
    remains.disk.inject(ordinal, Fault::Crash);
    let mut memory = Memory::default();
    live(&remains, &setup, &mut memory, &mut random);
    let mut outcomes = vec![Kept::Everything, Kept::Nothing];
    outcomes.extend((0..IMAGES).map(|_| Kept::Some(random.bits())));
    for kept in outcomes {
        let what = format!("hub, seed {seed}, operation {ordinal}, {kept:?}");
        let image = remains.after_power_loss(kept);
        let state = judge(&image, &setup, &memory, &what);
        tally.unit("whole hubs");
        // What was served once is served again.
        if random.one_in(4) {
            let again = judge(&image.after_power_loss(Kept::Nothing), &setup, &memory, &what);
            assert!(again == state, "{what}: a second start comes to another state");
        }
    }
    judge(
        &remains.after_kill(),
        &setup,
        &memory,
        &format!("hub, seed {seed}, killed at operation {ordinal}"),
    );
    tally.unit("whole hubs");
    tally.add("acknowledged", memory.acknowledged);
    tally.add("removals", memory.removals);
    for (name, count) in [
        ("windows closed", memory.treasury.closes),
        ("settlements", memory.treasury.settlements),
        ("stages of settlements", memory.treasury.stages),
        ("settlements given up", memory.treasury.aborts),
    ] {
        tally.add(name, count);
    }
    tally.add("came again", memory.came_again.len() as u64);
}

/// One life, until the fault strikes or the day is over.
fn live(remains: &Remains, setup: &Setup, memory: &mut Memory, random: &mut Random) {
    let bursts = 1 + random.below(BURSTS_MAX);
    block_on(async {
        // A crash may come before the hub serves.
        if let Ok((engine, handle)) = remains.start(setup) {
            memory.live(&handle, random, bursts).await;
            engine.shutdown();
        }
    });
}
