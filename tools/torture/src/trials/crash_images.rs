//! Simulated crash images of the journal alone and of the store. Whole hubs are a trial of their own.

use super::{journal_images, store_images};
use crate::tally::Tally;
use crate::trial::Trial;

/// A power loss or a kill at any operation, torn writes included: everything acknowledged is there, nothing torn is
/// believed.
#[derive(Debug)]
pub struct CrashImages;

impl Trial for CrashImages {
    fn name(&self) -> &'static str {
        "crash-images"
    }

    fn what(&self) -> &'static str {
        "simulated crash images of the journal alone and of the store, torn writes included"
    }

    fn goal(&self) -> u64 {
        1_000_000
    }

    fn run(&self, seed: u64) -> Tally {
        let mut tally = Tally::default();
        journal_images::run(seed, &mut tally);
        store_images::run(seed, &mut tally);
        tally
    }
}
