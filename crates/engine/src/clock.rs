//! Where the time comes from, and how much of it is believed.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use upesi_types::{Present, Timestamp};

const NS_PER_MS: i64 = 1_000_000;

/// What the machine's clocks say.
pub trait Clock: Send + Sync {
    /// The present instant.
    fn now(&self) -> Timestamp;

    /// The time since some instant that stays the same, by a clock that nobody can set. Unless a clock has such a one,
    /// it is not set itself.
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

/// When the process first asked.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the one place where the hub reads the clock")]
    fn now(&self) -> Timestamp {
        let now = SystemTime::now();
        let signed = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        // Before 1970 it is a clock that was never set.
        Timestamp::from_ns(now.duration_since(UNIX_EPOCH).map_or(0, signed))
    }

    fn monotonic(&self) -> Duration {
        BEGAN.elapsed()
    }
}

/// The latest instant that a clock is believed, in the year 2162: later ones would leave no room for the records after.
const LATEST: Timestamp = Timestamp::from_ms(6_080_000_000_000);

/// How the hub's time stands to the clocks, for operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockState {
    /// How far the wall clock has jumped from the hub's time, in milliseconds, negative when it jumped back; 0 when it
    /// has not.
    pub jump_ms: i64,
    /// How far the journal's time is ahead of the hub's, in milliseconds; 0 when it is not.
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

    /// Logs what is wrong, if that has changed.
    pub(crate) fn tell_change_from(self, before: Self) {
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

    /// What is wrong, for people; absent when nothing is.
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

/// The hub's time. It goes by the monotonic clock, and is compared with the wall clock again and again: it follows that
/// as long as the two part by no more than a bound, and goes on without it otherwise.
pub struct GuardedClock {
    source: Arc<dyn Clock>,
    jump_max_ns: i64,
    /// The hub's time when the monotonic clock began, in nanoseconds since 1970.
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
    /// Begins with what the wall clock says.
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

    /// From now on the hub's time is this.
    fn follow(&self, wall: Timestamp) {
        let began = wall.as_ns().saturating_sub(as_ns(self.source.monotonic()));
        self.began_ns.store(began, Ordering::Relaxed);
        self.jump_ns.store(0, Ordering::Relaxed);
    }

    /// Compares the clocks, and the hub's time with that of the last record. The engine does so at each tick.
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

    /// Follows the wall clock, wherever it went.
    pub(crate) fn accept(&self) {
        self.follow(believable(self.source.now()));
    }

    /// How the hub's time stands to the clocks, as they were compared last.
    pub fn state(&self) -> ClockState {
        // What is wrong by less than a millisecond is wrong all the same.
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
