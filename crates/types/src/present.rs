//! The present, as far as clocks agree on it.

use crate::Timestamp;

/// What the hub's clocks say of the present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present {
    /// The instant that the hub goes by.
    pub at: Timestamp,
    /// The earliest instant that a clock says; `at` while the clocks agree.
    pub earliest: Timestamp,
    /// The latest instant that a clock says; `at` while the clocks agree.
    pub latest: Timestamp,
}

impl From<Timestamp> for Present {
    /// All clocks agree.
    fn from(at: Timestamp) -> Self {
        Self { at, earliest: at, latest: at }
    }
}
