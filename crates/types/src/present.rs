//! The present, as far as the hub's clocks agree on it.

use crate::timestamp::Timestamp;

/// The present according to the hub's clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present {
    /// The instant that the hub uses as its time.
    pub at: Timestamp,
    /// The earliest instant that a clock shows; `at` while the clocks agree.
    pub earliest: Timestamp,
    /// The latest instant that a clock shows; `at` while the clocks agree.
    pub latest: Timestamp,
}

impl From<Timestamp> for Present {
    /// Assumes that all clocks agree.
    fn from(at: Timestamp) -> Self {
        Self { at, earliest: at, latest: at }
    }
}
