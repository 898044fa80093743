//! The time of a node.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time of a node.
pub trait Clock: Send + Sync {
    /// Monotonic time since some instant.
    fn now(&self) -> Duration;

    /// The time of day, in nanoseconds since 1970.
    fn wall_ns(&self) -> i64;
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn wall_ns(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    }
}
