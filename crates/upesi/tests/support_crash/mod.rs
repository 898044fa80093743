//! What the tests of crashes and bad luck are made of.
#![allow(dead_code, reason = "each test uses a part")]

pub mod events;
pub mod hub;
pub mod keeping;
pub mod library;
pub mod load;
pub mod may_skip;
pub mod moments;
pub mod scene;
pub mod small_disk;
pub mod verdict;
pub mod world;

/// A number that the environment gives.
pub fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

/// Random numbers (SplitMix64): the same seed gives the same numbers everywhere.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        upesi_sim::mix(self.0) % bound
    }

    /// A number from 1 to about `max`, the small ones as likely as the large.
    pub fn spread(&mut self, max: u64) -> u64 {
        let bits = self.below(u64::from(max.ilog2()) + 1);
        (1 << bits) + self.below(1 << bits)
    }
}
