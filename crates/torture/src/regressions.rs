//! Seeds that once broke a promise. They are run first, always.

/// A seed, the trial that it belongs to, and what it found.
#[derive(Clone, Copy, Debug)]
pub struct Regression {
    /// The trial's name.
    pub trial: &'static str,
    /// The seed.
    pub seed: u64,
    /// What was wrong.
    pub what: &'static str,
}

/// All of them.
pub const REGRESSIONS: &[Regression] = &[];
