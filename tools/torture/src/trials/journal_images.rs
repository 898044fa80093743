//! The journal alone: a small log stopped at an operation, and the images that a power loss may leave of it.

use upesi_journal::sim_disk::script::{Progress, Script};
use upesi_journal::sim_disk::{Fault, Kept, Operation, Random, SimDisk};

use crate::tally::Tally;

/// Operations at which one script is stopped.
const STOPS: u64 = 6;
/// Images of what was in flight, drawn for each stop.
const IMAGES: u64 = 5;
/// Images of a stop at a sync, where frames tear.
const IMAGES_OF_SYNC: u64 = 16;

/// Stops the script of a seed at some operations, and judges what may be left.
pub fn run(seed: u64, tally: &mut Tally) {
    let script = Script::new(seed);
    let whole = SimDisk::new(seed);
    let progress = script.run(&whole);
    assert!(progress.error.is_none(), "seed {seed}: without a fault: {:?}", progress.error);
    let operations = whole.operations();
    let mut random = Random::new(!seed);
    for _ in 0..STOPS {
        let ordinal = random.below(operations.len() as u64);
        let disk = SimDisk::new(seed);
        disk.inject(ordinal, Fault::Crash);
        let progress = script.run(&disk);
        assert!(progress.error.is_some(), "seed {seed}: operation {ordinal} did not stop it");
        for kept in outcomes(&mut random, operations[ordinal as usize]) {
            judge(&script, &disk.after_power_loss(kept), &progress, &mut random, tally);
        }
        judge(&script, &disk.after_kill(), &progress, &mut random, tally);
        tally.add("kills", 1);
    }
}

fn outcomes(random: &mut Random, operation: Operation) -> Vec<Kept> {
    let more = if operation == Operation::Sync { IMAGES_OF_SYNC } else { IMAGES };
    let mut outcomes = vec![Kept::Everything, Kept::Nothing];
    outcomes.extend((0..more).map(|_| Kept::Some(random.bits())));
    outcomes
}

/// Recovers an image, perhaps after having been stopped while recovering it.
fn judge(script: &Script, image: &SimDisk, progress: &Progress, random: &mut Random, tally: &mut Tally) {
    let image = if random.one_in(4) { stopped_again(script, image, random, tally) } else { image.clone() };
    let recovered = script.expect_recovered(&image, progress);
    tally.unit("journal");
    tally.add("torn", u64::from(recovered.torn.is_some()));
    // What recovery found is durable: the next power loss changes nothing.
    let again = image.after_power_loss(Kept::Nothing);
    let found = script.read(&again).ok();
    assert_eq!(found, Some(recovered.last_seq), "seed {}: lost by a second power loss", script.seed);
    if random.one_in(4) {
        let rest = script.run(&again);
        assert!(rest.error.is_none(), "seed {}: it does not go on: {:?}", script.seed, rest.error);
        script.expect_records(&again, script.last_seq());
    }
}

/// The image after a crash, somewhere within the recovery, and another power loss.
fn stopped_again(script: &Script, image: &SimDisk, random: &mut Random, tally: &mut Tally) -> SimDisk {
    let attempt = image.after_power_loss(Kept::Nothing);
    attempt.inject(random.below(8), Fault::Crash);
    let opened =
        upesi_journal::open(upesi_journal::sim_disk::script::dynamic(&attempt), script.options.clone());
    tally.add("stopped while recovering", u64::from(opened.is_err()));
    attempt.after_power_loss(Kept::Some(random.bits()))
}
