//! The trials, one file for each.

mod bit_flips;
mod crash_images;
mod disk_full;
mod fsync;
mod lives;
mod table_flips;
mod worlds;

use std::collections::BTreeMap;

pub use table_flips::{Judgement, Tables};

use crate::evidence::Subject;

/// All trials, in the order of the table.
pub const TRIALS: [&Trial; 11] = [
    &crash_images::TRIAL,
    &crash_images::HUB_IMAGES,
    &worlds::TRIAL,
    &worlds::NODES,
    &lives::KILL9,
    &lives::KILL9_SETTLEMENT,
    &lives::POWER_LOSS,
    &lives::FAIL_OVERS,
    &fsync::TRIAL,
    &bit_flips::TRIAL,
    &disk_full::TRIAL,
];

/// Parts of trials that have their own row, after the row of their trial.
pub const PARTS: [Part; 1] = [worlds::WITH_ALL_MONEY];

pub fn named(name: &str) -> Option<&'static Trial> {
    TRIALS.into_iter().find(|trial| trial.name == name)
}

/// A trial creates worlds from seeds and judges them.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// The subcommand, and the name of the file with the evidence.
    pub name: &'static str,
    /// Description of the units, for the table: `crash images, torn writes included`.
    pub what: &'static str,
    /// The count that one `make torture` aims for.
    pub goal: u64,
    /// The build of the program under test. Fails if that is a separate program and is missing.
    pub build: fn() -> Result<String, String>,
    /// Runs all worlds of one seed. If a promise is broken, panics with it.
    pub run: fn(u64) -> Tally,
}

/// A part of a trial's count that has its own goal.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub of: &'static str,
    /// The name of the count among the trial's details.
    pub detail: &'static str,
    /// Description of the count, for the table.
    pub what: &'static str,
    pub goal: u64,
}

/// The build of this program. Never fails.
pub fn own_build() -> Result<String, String> {
    Ok(if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned())
}

impl Trial {
    /// The subject of its evidence.
    pub fn subject(&self) -> Subject {
        let Self { name, what, goal, .. } = *self;
        Subject { name, what, goal, command: format!("torture {name} --count {goal} --report docs/evidence") }
    }
}

/// Counts by name. The unit of a trial is counted under [`Tally::UNITS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    /// The name of the count that the goal refers to: images, flips, failed syncs.
    pub const UNITS: &'static str = "units";

    pub fn add(&mut self, name: &'static str, more: u64) {
        *self.0.entry(name).or_default() += more;
    }

    /// A tally of these counts.
    pub fn of<const N: usize>(counts: [(&'static str, u64); N]) -> Self {
        Self(counts.into())
    }

    pub fn add_all<const N: usize>(&mut self, counts: [(&'static str, u64); N]) {
        counts.into_iter().for_each(|(name, more)| self.add(name, more));
    }

    /// Adds one to a count, and to the units.
    pub fn unit(&mut self, name: &'static str) {
        self.add(name, 1);
        self.add(Self::UNITS, 1);
    }

    /// Adds the counts of another tally.
    pub fn merge(&mut self, other: &Self) {
        for (name, more) in &other.0 {
            self.add(name, *more);
        }
    }

    /// A count; 0 if nothing was counted under the name.
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    pub fn units(&self) -> u64 {
        self.get(Self::UNITS)
    }

    /// All counts except the units, by name.
    pub fn details(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(name, count)| (*name, *count)).filter(|(name, _)| *name != Self::UNITS)
    }
}
