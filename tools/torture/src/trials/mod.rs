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
mod lives;
mod power_loss;
mod store_images;
mod table_flips;
mod world_seeds;

pub use bit_flips::BitFlips;
pub use crash_images::CrashImages;
pub use disk_full::FullDisks;
pub use fsync::FailedSyncs;
pub use hub_images::HubImages;
pub use kill9::Kills;
pub use power_loss::PowerLosses;
pub use table_flips::{Judgement, Tables};
pub use world_seeds::WorldSeeds;

use crate::trial::Trial;

/// All trials, in the order of the table.
pub const TRIALS: &[&dyn Trial] =
    &[&CrashImages, &HubImages, &WorldSeeds, &Kills, &PowerLosses, &FailedSyncs, &BitFlips, &FullDisks];

/// A trial by its name.
pub fn named(name: &str) -> Option<&'static dyn Trial> {
    TRIALS.iter().copied().find(|trial| trial.name() == name)
}
