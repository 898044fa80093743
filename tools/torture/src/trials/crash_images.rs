//! Simulated crash images of the journal alone and of the store. Whole hubs are a trial of their own.

use super::{journal_images, store_images};
use crate::tally::Tally;
use crate::trial::{self, Trial};

/// A power loss or a kill at any operation, torn writes included: everything acknowledged is there, nothing torn is
/// believed.
pub(super) const TRIAL: Trial = Trial {
    name: "crash-images",
    what: "simulated crash images of the journal alone and of the store, torn writes included",
    goal: 1_000_000,
    build: trial::own_build,
    run,
};

fn run(seed: u64) -> Tally {
    let mut tally = Tally::default();
    journal_images::run(seed, &mut tally);
    store_images::run(seed, &mut tally);
    tally
}
