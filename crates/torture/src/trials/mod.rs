//! What is tried, one file for each.

mod crash_images;
mod hub_images;
mod journal_images;

pub use crash_images::CrashImages;

use crate::trial::Trial;

/// All trials, in the order of the table.
pub const TRIALS: &[&dyn Trial] = &[&CrashImages];

/// A trial by its name.
pub fn named(name: &str) -> Option<&'static dyn Trial> {
    TRIALS.iter().copied().find(|trial| trial.name() == name)
}
