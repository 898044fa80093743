//! What is tried, one file for each.

mod bit_flips;
mod changes;
mod crash_images;
mod disk_full;
mod fsync;
mod hub_images;
mod journal_flips;
mod journal_images;
mod kill9;
mod kill9_settlement;
mod lives;
mod power_loss;
mod store_images;
mod table_flips;
mod world_seeds;

pub use table_flips::{Judgement, Tables};

use crate::trial::{Part, Trial};

/// All trials, in the order of the table.
pub const TRIALS: [&Trial; 9] = [
    &crash_images::TRIAL,
    &hub_images::TRIAL,
    &world_seeds::TRIAL,
    &kill9::TRIAL,
    &kill9_settlement::TRIAL,
    &power_loss::TRIAL,
    &fsync::TRIAL,
    &bit_flips::TRIAL,
    &disk_full::TRIAL,
];

/// Parts of trials that have a line of their own, behind that of their trial.
pub const PARTS: [Part; 1] = [world_seeds::WITH_ALL_MONEY];

/// A trial by its name.
pub fn named(name: &str) -> Option<&'static Trial> {
    TRIALS.into_iter().find(|trial| trial.name == name)
}
