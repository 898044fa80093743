//! What was counted.

use std::collections::BTreeMap;

/// Counts by name. The unit of a trial is counted under [`Tally::UNITS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    /// The name of what a trial's aim is stated in: images, flips, failed syncs.
    pub const UNITS: &'static str = "units";

    /// Adds to a count.
    pub fn add(&mut self, name: &'static str, more: u64) {
        *self.0.entry(name).or_default() += more;
    }

    /// Adds one to a count, and to the units.
    pub fn unit(&mut self, name: &'static str) {
        self.add(name, 1);
        self.add(Self::UNITS, 1);
    }

    /// Adds all counts of another.
    pub fn merge(&mut self, other: &Self) {
        for (name, more) in &other.0 {
            self.add(name, *more);
        }
    }

    /// A count; 0 when nothing was counted under the name.
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    pub fn units(&self) -> u64 {
        self.get(Self::UNITS)
    }

    /// All counts but the units, by name.
    pub fn details(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(name, count)| (*name, *count)).filter(|(name, _)| *name != Self::UNITS)
    }
}
