//! The hub's time, and how far the hub trusts the machine's clocks.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use upesi_types::{Present, Timestamp};

const NS_PER_MS: i64 = 1_000_000;

/// The machine's clocks.
pub trait Clock: Send + Sync {
    /// The current instant by the wall clock.
    fn now(&self) -> Timestamp;

    /// Time since a fixed instant, by a clock that cannot be set. The default uses the wall clock, for clocks that are
    /// never set.
    fn monotonic(&self) -> Duration {
        self.now().since(Timestamp::EPOCH)
    }

    /// The present, as far as the clocks agree on it.
    fn present(&self) -> Present {
        self.now().into()
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// The instant of the first query in this process.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the one place where the hub reads the clock")]
    fn now(&self) -> Timestamp {
        let now = SystemTime::now();
        let signed = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        // A time before 1970 means that the clock was never set.
        Timestamp::from_ns(now.duration_since(UNIX_EPOCH).map_or(0, signed))
    }

    fn monotonic(&self) -> Duration {
        BEGAN.elapsed()
    }
}

/// The latest instant that the hub accepts from a clock, in the year 2162. A later one would leave too little time for
/// further records.
const LATEST: Timestamp = Timestamp::from_ms(6_080_000_000_000);

/// The hub's time compared with the clocks, for operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockState {
    /// Jump of the wall clock relative to the hub's time, in milliseconds, negative if it jumped back; 0 if it has not
    /// jumped.
    pub jump_ms: i64,
    /// How far the journal's time is ahead of the hub's time, in milliseconds; 0 if it is not ahead.
    pub ahead_ms: i64,
}

impl ClockState {
    /// [`Self::jump_ms`] in seconds.
    pub fn jump_seconds(self) -> f64 {
        seconds(self.jump_ms)
    }

    /// [`Self::ahead_ms`] in seconds.
    pub fn ahead_seconds(self) -> f64 {
        seconds(self.ahead_ms)
    }

    /// Logs the state if it changed between good and faulty.
    pub(crate) fn report_change_from(self, before: Self) {
        let changed = |find: fn(Self) -> i64| (find(before) == 0) != (find(self) == 0);
        if changed(|state| state.jump_ms) || changed(|state| state.ahead_ms) {
            match self.fault() {
                Some(fault) => tracing::error!("{fault}"),
                None => tracing::warn!("the wall clock and the hub's time agree again"),
            }
        }
    }

    /// Whether the clocks agree.
    pub const fn is_good(self) -> bool {
        self.jump_ms == 0 && self.ahead_ms == 0
    }

    /// Description of the fault for users; `None` if there is none.
    pub fn fault(self) -> Option<String> {
        let seconds = |ms: i64| format!("{}.{:03} s", ms.unsigned_abs() / 1_000, ms.unsigned_abs() % 1_000);
        let direction = if self.jump_ms < 0 { "back" } else { "ahead" };
        let jump = format!(
            "the wall clock jumped {} {direction}: the hub continues without it until it returns or an operator accepts the jump",
            seconds(self.jump_ms)
        );
        let ahead = format!(
            "the journal's time is {} ahead of the clock: deadlines follow the clock, and records keep their order",
            seconds(self.ahead_ms)
        );
        let faults: Vec<_> = [(self.jump_ms, jump), (self.ahead_ms, ahead)]
            .into_iter()
            .filter_map(|(ms, fault)| (ms != 0).then_some(fault))
            .collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    }
}

fn seconds(ms: i64) -> f64 {
    let sign = if ms < 0 { -1.0 } else { 1.0 };
    Duration::from_millis(ms.unsigned_abs()).as_secs_f64().copysign(sign)
}

/// The hub's time. It uses the monotonic clock and is regularly compared with the wall clock. It follows the wall clock
/// while the difference stays within a bound, and otherwise continues without it.
pub struct GuardedClock {
    source: Arc<dyn Clock>,
    jump_max_ns: i64,
    /// The hub's time at the zero point of the monotonic clock, in nanoseconds since 1970.
    began_ns: AtomicI64,
    /// [`ClockState::jump_ms`] in nanoseconds.
    jump_ns: AtomicI64,
    /// [`ClockState::ahead_ms`] in nanoseconds.
    ahead_ns: AtomicI64,
}

fn believable(instant: Timestamp) -> Timestamp {
    instant.clamp(Timestamp::EPOCH, LATEST)
}

fn as_ns(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

impl GuardedClock {
    /// Starts with the time of the wall clock.
    pub(crate) fn new(source: Arc<dyn Clock>, jump_max: Duration) -> Self {
        let clock = Self {
            jump_max_ns: as_ns(jump_max),
            began_ns: AtomicI64::new(0),
            jump_ns: AtomicI64::new(0),
            ahead_ns: AtomicI64::new(0),
            source,
        };
        clock.follow(believable(clock.source.now()));
        clock
    }

    /// Sets the hub's time.
    fn follow(&self, wall: Timestamp) {
        let began = wall.as_ns().saturating_sub(as_ns(self.source.monotonic()));
        self.began_ns.store(began, Ordering::Relaxed);
        self.jump_ns.store(0, Ordering::Relaxed);
    }

    /// Compares the hub's time with the wall clock and with the last record's time. The engine calls this at each tick.
    pub(crate) fn compare(&self, last_record: Timestamp) -> ClockState {
        let wall = believable(self.source.now());
        let parted = wall.as_ns().saturating_sub(self.now().as_ns());
        if parted.saturating_abs() <= self.jump_max_ns {
            self.follow(wall);
        } else {
            self.jump_ns.store(parted, Ordering::Relaxed);
        }
        let ahead = last_record.as_ns().saturating_sub(self.now().as_ns());
        let ahead = if ahead > self.jump_max_ns { ahead } else { 0 };
        self.ahead_ns.store(ahead, Ordering::Relaxed);
        self.state()
    }

    /// Sets the hub's time to the wall clock, whatever the difference is.
    pub(crate) fn accept(&self) {
        self.follow(believable(self.source.now()));
    }

    /// The result of the last comparison.
    pub fn state(&self) -> ClockState {
        // A difference below one millisecond still counts as a fault.
        let ms = |ns: i64| if ns == 0 { 0 } else { (ns / NS_PER_MS).max(1) };
        let jump_ns = self.jump_ns.load(Ordering::Relaxed);
        ClockState {
            jump_ms: jump_ns.signum() * ms(jump_ns.saturating_abs()),
            ahead_ms: ms(self.ahead_ns.load(Ordering::Relaxed)),
        }
    }
}

impl Clock for GuardedClock {
    fn now(&self) -> Timestamp {
        let began = self.began_ns.load(Ordering::Relaxed);
        Timestamp::from_ns(began.saturating_add(as_ns(self.source.monotonic()))).min(LATEST)
    }

    fn monotonic(&self) -> Duration {
        self.source.monotonic()
    }

    fn present(&self) -> Present {
        let at = self.now();
        let wall = Timestamp::from_ns(at.as_ns().saturating_add(self.jump_ns.load(Ordering::Relaxed)));
        Present { at, earliest: at.min(wall), latest: at.max(wall) }
    }
}

impl std::fmt::Debug for GuardedClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuardedClock").field("now", &self.now()).field("state", &self.state()).finish()
    }
}

#[cfg(test)]
mod tests;
