//! The times of one slice of load.

use std::time::Instant;

/// The times of one slice: load runs from `from` to `until`, and counts from `measure_from` to `measure_until`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub from: Instant,
    pub measure_from: Instant,
    pub measure_until: Instant,
    pub until: Instant,
}

impl Window {
    /// Whether an event at this time counts.
    pub fn counts(&self, at: Instant) -> bool {
        (self.measure_from..self.measure_until).contains(&at)
    }
}
