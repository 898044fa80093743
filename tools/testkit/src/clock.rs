//! The hub's clock, which can be wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use upesi_engine::Clock;
use upesi_types::Timestamp;

/// Start of true time, in milliseconds since 1970.
pub(crate) const BEGINNING_MS: i64 = 1_900_000_000_000;

/// Maximum offset of a clock that counts as right, in milliseconds.
const ABOUT_RIGHT_MS: i64 = 30_000;

/// True time, as DFSPs know it.
pub(crate) fn true_time(now_us: u64) -> Timestamp {
    Timestamp::from_ns(BEGINNING_MS * 1_000_000 + now_us as i64 * 1_000)
}

fn signed_seconds(us: i64) -> String {
    let (sign, us) = (if us < 0 { '-' } else { '+' }, us.unsigned_abs());
    format!("{sign}{}.{:06} s", us / 1_000_000, us % 1_000_000)
}

#[derive(Debug, Default)]
pub(crate) struct HubClock {
    wall_ns: AtomicI64,
    /// True time: the monotonic clock. No participant can set it.
    monotonic_us: AtomicU64,
}

impl Clock for HubClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ns(self.wall_ns.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.monotonic_us.load(Ordering::Relaxed))
    }
}

/// Sets the hub's clock as time passes: to the right time, with an offset, drifting, or frozen.
#[derive(Clone, Debug)]
pub(crate) struct ClockKeeper {
    clock: Arc<HubClock>,
    offset_us: i64,
    /// Microseconds gained per thousand microseconds.
    drift_permille: i64,
    since_us: u64,
    is_frozen: bool,
}

impl ClockKeeper {
    pub(crate) fn new() -> Self {
        let keeper =
            Self { clock: Arc::default(), offset_us: 0, drift_permille: 0, since_us: 0, is_frozen: false };
        keeper.at(0);
        keeper
    }

    pub(crate) fn clock(&self) -> Arc<HubClock> {
        Arc::clone(&self.clock)
    }

    /// Sets the hub's clock to the time of `now_us`.
    pub(crate) fn at(&self, now_us: u64) {
        self.clock.monotonic_us.store(now_us, Ordering::Relaxed);
        if !self.is_frozen {
            let shown_us = now_us as i64 + self.offset_at(now_us);
            let shown = true_time(0).as_ns() + shown_us * 1_000;
            self.clock.wall_ns.store(shown, Ordering::Relaxed);
        }
    }

    fn offset_at(&self, now_us: u64) -> i64 {
        self.offset_us + (now_us - self.since_us) as i64 * self.drift_permille / 1_000
    }

    pub(crate) fn jump(&mut self, now_us: u64, by_us: i64) {
        self.offset_us = self.offset_at(now_us) + by_us;
        self.since_us = now_us;
    }

    pub(crate) fn drift(&mut self, now_us: u64, permille: i64) {
        self.jump(now_us, 0);
        self.drift_permille = permille;
    }

    pub(crate) const fn freeze(&mut self) {
        self.is_frozen = true;
    }

    /// Whether the clock is right, or has an offset that is too small for a jump.
    pub(crate) fn is_about_right(&self, now_us: u64) -> bool {
        let read_ms = self.clock.now().ms_since(true_time(now_us));
        read_ms.abs() <= ABOUT_RIGHT_MS
    }

    /// The clock's error as text: the offsets of the hub's time, and of the clock's set time, from true time.
    pub(crate) fn describe(&self, now_us: u64) -> String {
        let read_us = (self.clock.now().as_ns() - true_time(now_us).as_ns()) / 1_000;
        format!(
            "read {} off, set {} off, gains {} in a thousand{}",
            signed_seconds(read_us),
            signed_seconds(self.offset_at(now_us)),
            self.drift_permille,
            if self.is_frozen { ", stands still" } else { "" },
        )
    }

    /// Corrects the clock.
    pub(crate) const fn heal(&mut self) {
        self.is_frozen = false;
        self.offset_us = 0;
        self.drift_permille = 0;
    }
}
