//! A limit on the rate of requests that is controlled by a delay.

use crate::{INTERVALS_PER_S, REQUEST, quota_of_rate};

/// Consecutive intervals with too long a delay before a limit is set. A single one may be caused by the scheduler.
const INTERVALS_UNTIL_LIMIT: u32 = 2;
/// Intervals without a rejection after which a limit is lifted: half a second.
const INTERVALS_UNTIL_OPEN: u32 = INTERVALS_PER_S as u32 / 2;
/// Intervals without any request after which the state is reset: a second.
const INTERVALS_UNTIL_FORGOTTEN: u64 = INTERVALS_PER_S;
/// A limit never falls below the recent peak divided by this. If rejections themselves use up the time, accepting less
/// would not shorten the wait.
const FLOOR_PART: u64 = 4;
/// A limit never falls below this, in requests per second.
const FLOOR_PER_S: u64 = 50;
/// The remembered peak falls by one part in this number each interval. It halves in about 14 seconds, and in 3.5
/// seconds while the delay is too long.
const PEAK_DECAY: u64 = 1024;
const PEAK_DECAY_LATE: u64 = 256;

/// The configuration of a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimiterConfig {
    /// The delay that the limit maintains, in microseconds; 0 means that there is never a limit.
    pub delay_target_us: u32,
}

/// Observations since the last interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimiterInterval {
    /// The shortest wait in microseconds; `None` if there were too few requests.
    pub delay_us: Option<u32>,
    /// Number of accepted requests.
    pub taken: u64,
    /// Number of rejected requests.
    pub refused: u64,
    /// Intervals that ended since the last call, at least one.
    pub intervals: u64,
}

/// A limit on the rate of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limiter {
    config: LimiterConfig,
    /// The limit, in thousandths of a request per interval.
    limit: Option<u64>,
    /// Accepted requests per interval, smoothed, in the same unit.
    taken: u64,
    /// The recent maximum of accepted requests per interval without too long a delay, in the same unit.
    peak: u64,
    late_intervals: u32,
    clear_intervals: u32,
    /// Delay of the previous interval, in microseconds.
    last_delay_us: u32,
}

impl Limiter {
    /// Creates a limiter without a limit.
    pub const fn new(config: LimiterConfig) -> Self {
        Self {
            config,
            limit: None,
            taken: 0,
            peak: 0,
            late_intervals: 0,
            clear_intervals: 0,
            last_delay_us: 0,
        }
    }

    /// The limit, in thousandths of a request per interval.
    pub const fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Accepted requests per interval, smoothed, in thousandths of a request.
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether the limit cannot fall further.
    pub fn is_at_floor(&self) -> bool {
        self.limit.is_some_and(|limit| limit <= self.floor())
    }

    /// Ends an interval.
    pub fn end_interval(&mut self, seen: LimiterInterval) {
        let intervals = seen.intervals.max(1);
        if intervals > INTERVALS_UNTIL_FORGOTTEN {
            *self = Self::new(self.config);
            return;
        }
        let taken = seen.taken.saturating_mul(REQUEST) / intervals;
        self.taken = (self.taken * 3).saturating_add(taken) / 4;
        match seen.delay_us {
            Some(delay_us) if self.is_late(delay_us) => self.late(delay_us),
            delay_us => self.in_time(delay_us.unwrap_or(0), seen.refused),
        }
    }

    const fn is_late(&self, delay_us: u32) -> bool {
        self.config.delay_target_us > 0 && delay_us > self.config.delay_target_us
    }

    fn late(&mut self, delay_us: u32) {
        self.clear_intervals = 0;
        self.late_intervals = self.late_intervals.saturating_add(1);
        self.peak -= self.peak / PEAK_DECAY_LATE;
        let last_us = core::mem::replace(&mut self.last_delay_us, delay_us);
        if self.late_intervals < INTERVALS_UNTIL_LIMIT {
            return;
        }
        let is_shrinking = delay_us < last_us - last_us / 8;
        let limit = match self.limit {
            // The last rate that was known to be sustainable.
            None if self.peak > 0 => self.taken.min(self.peak),
            None => self.taken,
            // The queue is already shrinking, so a lower limit would only waste time later.
            Some(_) if is_shrinking => return,
            Some(limit) => limit.min(self.taken),
        };
        let is_long = delay_us / 2 > self.config.delay_target_us;
        self.limit = Some((limit - if is_long { limit / 4 } else { limit / 8 }).max(self.floor()));
    }

    fn in_time(&mut self, delay_us: u32, refused: u64) {
        self.late_intervals = 0;
        self.last_delay_us = delay_us;
        self.peak = (self.peak - self.peak / PEAK_DECAY).max(self.taken);
        let Some(limit) = self.limit else { return };
        if refused > 0 {
            self.clear_intervals = 0;
            let target = self.config.delay_target_us;
            let part = match delay_us {
                _ if delay_us <= target / 8 => 8,
                _ if delay_us <= target / 2 => 32,
                _ => 128,
            };
            self.limit = Some(limit.saturating_add((limit / part).max(REQUEST / 4)));
            return;
        }
        self.clear_intervals += 1;
        if self.clear_intervals >= INTERVALS_UNTIL_OPEN {
            self.limit = None;
            self.clear_intervals = 0;
        }
    }

    fn floor(&self) -> u64 {
        (self.peak / FLOOR_PART).max(quota_of_rate(FLOOR_PER_S))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET_US: u32 = 2_000;

    fn limiter() -> Limiter {
        Limiter::new(LimiterConfig { delay_target_us: TARGET_US })
    }

    fn seen(delay_us: u32, taken: u64, refused: u64) -> LimiterInterval {
        LimiterInterval { delay_us: Some(delay_us), taken, refused, intervals: 1 }
    }

    /// A limiter that has long seen this many requests an interval in time.
    fn used_to(requests: u64) -> Limiter {
        let mut limiter = limiter();
        for _ in 0..100 {
            limiter.end_interval(seen(0, requests, 0));
        }
        limiter
    }

    #[test]
    fn second_late_interval_sets_a_limit() {
        let mut limiter = used_to(100);
        limiter.end_interval(seen(TARGET_US + 1, 100, 0));
        assert_eq!(limiter.limit(), None);
        limiter.end_interval(seen(TARGET_US, 100, 0));
        limiter.end_interval(seen(TARGET_US + 1, 100, 0));
        assert_eq!(limiter.limit(), None);
        limiter.end_interval(seen(TARGET_US + 1, 100, 0));
        let limit = limiter.limit().unwrap();
        assert!((86 * REQUEST..88 * REQUEST).contains(&limit), "{limit}");
    }

    #[test]
    fn zero_target_never_sets_a_limit() {
        let mut limiter = Limiter::new(LimiterConfig { delay_target_us: 0 });
        for _ in 0..100 {
            limiter.end_interval(seen(u32::MAX, 100, 0));
        }
        assert_eq!(limiter.limit(), None);
    }

    #[test]
    fn limit_stays_above_a_fraction_of_the_peak() {
        let mut limiter = used_to(1_000);
        for _ in 0..20 {
            limiter.end_interval(seen(10 * TARGET_US, 1_000, 0));
        }
        let limit = limiter.limit().unwrap();
        assert!(limiter.is_at_floor());
        assert!(limit >= 1_000 * REQUEST / FLOOR_PART * 9 / 10, "{limit}");
        for _ in 0..5_000 {
            limiter.end_interval(seen(10 * TARGET_US, 0, 1_000));
        }
        assert_eq!(limiter.limit(), Some(quota_of_rate(FLOOR_PER_S)));
    }

    #[test]
    fn limit_rises_while_it_rejects_and_ends_otherwise() {
        let mut limiter = used_to(1_000);
        for _ in 0..3 {
            limiter.end_interval(seen(10 * TARGET_US, 1_000, 0));
        }
        let low = limiter.limit().unwrap();
        limiter.end_interval(seen(0, 700, 100));
        let higher = limiter.limit().unwrap();
        assert_eq!(higher, low + low / 8);
        for _ in 1..INTERVALS_UNTIL_OPEN {
            limiter.end_interval(seen(0, 500, 0));
        }
        assert_eq!(limiter.limit(), Some(higher));
        limiter.end_interval(seen(0, 500, 0));
        assert_eq!(limiter.limit(), None);
    }

    #[test]
    fn pause_of_a_second_resets_the_limiter() {
        let mut limiter = used_to(1_000);
        for _ in 0..3 {
            limiter.end_interval(seen(10 * TARGET_US, 1_000, 0));
        }
        limiter.end_interval(LimiterInterval {
            intervals: INTERVALS_UNTIL_FORGOTTEN + 1,
            ..LimiterInterval::default()
        });
        assert_eq!(limiter, Limiter::new(limiter.config));
    }

    /// A server that does 500 requests an interval and keeps the others waiting, before 5,000 requests an interval.
    #[test]
    fn limit_settles_near_the_capacity_and_keeps_the_queue_short() {
        const CAPACITY: u64 = 500;
        let (mut limiter, mut queue, mut done, mut longest) = (limiter(), 0_u64, 0, 0);
        for interval in 0..1_000 {
            let taken = limiter.limit().map_or(5_000, |limit| limit / REQUEST).min(5_000);
            queue += taken;
            let served = queue.min(CAPACITY);
            queue -= served;
            let delay_us = (queue * 20_000 / CAPACITY) as u32;
            if interval >= 100 {
                done += served;
                longest = longest.max(u64::from(delay_us));
            }
            limiter.end_interval(seen(delay_us, taken, 5_000 - taken));
        }
        assert!(done >= 900 * CAPACITY * 9 / 10, "goodput {done}");
        assert!(longest < 10 * u64::from(TARGET_US), "longest wait {longest} us");
    }
}
