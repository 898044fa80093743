//! Where the time comes from.

use std::time::{SystemTime, UNIX_EPOCH};

use upesi_types::Timestamp;

/// Tells the time. The engine makes it strictly increase before it reaches the ledger.
pub trait Clock: Send + Sync {
    /// The present instant.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the one place where the hub reads the clock")]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_ns(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX))
    }
}
