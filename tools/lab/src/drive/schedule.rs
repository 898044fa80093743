//! Start times of operations: pure functions of the load's shape and the seed, so that a run can be repeated.
#![expect(
    clippy::float_arithmetic,
    reason = "areas under a line, and the logarithm of Poisson arrivals; no money"
)]

use std::time::Duration;

use upesi_sim::mix;

use crate::plan::load_profile::{Load, Stage};

/// Separates the draws of arrivals from other draws.
const ARRIVALS: u64 = 0x6172_7269_7661_6c73;

/// The due time of arrival `number` at a constant rate, counted from the start.
pub(crate) fn due(number: u64, rate_per_s: u32) -> Duration {
    let ns = u128::from(number) * 1_000_000_000 / u128::from(rate_per_s);
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// A level that changes linearly in each segment, and stays at the last one.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    start: f64,
    /// Length in seconds and level at the end.
    segments: Vec<(f64, f64)>,
}

impl Profile {
    pub fn new(start: u32, stages: &[Stage]) -> Self {
        let segment = |stage: &Stage| (stage.length.as_secs_f64(), f64::from(stage.level));
        Self { start: f64::from(start), segments: stages.iter().map(segment).collect() }
    }

    /// The level some time after the start.
    pub fn level_at(&self, time: Duration) -> f64 {
        let (mut left, mut level) = (time.as_secs_f64(), self.start);
        for &(length, end) in &self.segments {
            if left < length {
                return level + (end - level) * left / length;
            }
            (left, level) = (left - length, end);
        }
        level
    }
}

/// The times of arrivals whose rate is a profile, in order.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    profile: Profile,
    /// `None` for even arrivals; otherwise the state of the draws.
    poisson: Option<u64>,
    /// Number of arrivals intended so far: the area under the profile up to the last one.
    area: f64,
    /// The segment that contains `area`, and time and area at its start.
    segment: usize,
    segment_time: f64,
    segment_area: f64,
    first: bool,
}

impl Arrivals {
    pub const fn new(profile: Profile, poisson_seed: Option<u64>) -> Self {
        let poisson = match poisson_seed {
            Some(seed) => Some(mix(seed ^ ARRIVALS)),
            None => None,
        };
        Self { profile, poisson, area: 0.0, segment: 0, segment_time: 0.0, segment_area: 0.0, first: true }
    }

    /// The area between the last arrival and the next one: one, or for Poisson arrivals an exponential draw of mean
    /// one.
    fn step(&mut self) -> f64 {
        match &mut self.poisson {
            None if self.first => 0.0,
            None => 1.0,
            Some(state) => {
                *state = state.wrapping_add(1);
                // 53 random bits, never zero: a uniform draw of (0, 1].
                let uniform = ((mix(*state) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
                -uniform.ln()
            }
        }
    }

    /// The level at the start of the segment, its length and its end level. Beyond the last segment, the length is
    /// infinite.
    fn current(&self) -> (f64, f64, f64) {
        let before = self.segment.checked_sub(1);
        let level = before.map_or(self.profile.start, |before| self.profile.segments[before].1);
        let (length, end) =
            self.profile.segments.get(self.segment).copied().unwrap_or((f64::INFINITY, level));
        (level, length, end)
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    /// The next arrival; `None` if the rate stays at zero.
    fn next(&mut self) -> Option<Duration> {
        self.area += self.step();
        self.first = false;
        loop {
            let (level, length, end) = self.current();
            let is_last = length.is_infinite();
            let area = if is_last { f64::INFINITY } else { (level + end) / 2.0 * length };
            let within = self.area - self.segment_area;
            if is_last && level <= 0.0 {
                return None;
            }
            if within > area || (area <= 0.0 && !is_last) {
                self.segment += 1;
                self.segment_time += length;
                self.segment_area += area;
                continue;
            }
            let slope = if is_last { 0.0 } else { (end - level) / length };
            let time = if slope == 0.0 {
                within / level
            } else {
                // level·t + slope·t²/2 = within, for the t in the segment.
                let root = (level * level + 2.0 * slope * within).max(0.0).sqrt();
                2.0 * within / (level + root).max(f64::MIN_POSITIVE)
            };
            return Duration::try_from_secs_f64(self.segment_time + time).ok();
        }
    }
}

/// The times of all arrivals of an open loop; `None` for a closed loop.
pub(crate) fn arrivals(load: &Load, seed: u64) -> Option<Box<dyn Iterator<Item = Duration> + Send>> {
    match load {
        // If there are several loads, each has its own schedule: see [`crate::drive::parallel`].
        Load::Closed { .. } | Load::RampingUsers { .. } | Load::Parallel { .. } => None,
        Load::Open { rate_per_s, .. } => {
            let rate_per_s = *rate_per_s;
            Some(Box::new((0..).map(move |number| due(number, rate_per_s))))
        }
        Load::Arrivals { start_per_s, stages, poisson, .. } => {
            let profile = Profile::new(*start_per_s, stages);
            Some(Box::new(Arrivals::new(profile, poisson.then_some(seed))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(list: &[(u32, u64)]) -> Vec<Stage> {
        list.iter().map(|&(level, ms)| Stage { level, length: Duration::from_millis(ms) }).collect()
    }

    fn load(start_per_s: u32, list: &[(u32, u64)], poisson: bool) -> Load {
        Load::Arrivals { start_per_s, stages: stages(list), poisson, outstanding_max: 10 }
    }

    fn times(load: &Load, seed: u64, until: Duration) -> Vec<Duration> {
        arrivals(load, seed).unwrap().take_while(|time| *time < until).collect()
    }

    #[test]
    fn constant_arrivals_do_not_drift() {
        assert_eq!(due(0, 3), Duration::ZERO);
        assert_eq!(due(3, 3), Duration::from_secs(1));
        assert_eq!(due(3_000_000, 3), Duration::from_secs(1_000_000));
        assert_eq!(due(1, 1_000_000), Duration::from_micros(1));
    }

    #[test]
    fn level_changes_linearly_and_stays_at_the_last_one() {
        // 5 → 600 → 1,000 users, as published for Mojaloop.
        let profile = Profile::new(5, &stages(&[(600, 90_000), (1_000, 120_000)]));
        for (ms, level) in [
            (0, 5.0),
            (45_000, 302.5),
            (90_000, 600.0),
            (150_000, 800.0),
            (210_000, 1_000.0),
            (999_000, 1_000.0),
        ] {
            assert!((profile.level_at(Duration::from_millis(ms)) - level).abs() < 1e-9, "{ms}");
        }
    }

    #[test]
    fn even_arrivals_follow_the_area_under_the_rate_profile() {
        let second = Duration::from_secs(1);
        for (start, list, seconds, expected) in [
            (100, &[][..], 10, 1_000),
            (0, &[(100, 10_000)], 10, 500),
            (100, &[(0, 10_000)], 10, 500),
            // A spike: 50/s, up within a second, held, down.
            (
                50,
                &[(50, 5_000), (1_000, 1_000), (1_000, 5_000), (50, 1_000)],
                20,
                250 + 525 + 5_000 + 525 + 400,
            ),
            // First no arrivals, then some.
            (0, &[(0, 2_000), (10, 0), (10, 1_000)], 4, 20),
        ] {
            let times = times(&load(start, list, false), 1, second * seconds);
            assert!(times.is_sorted(), "{list:?}");
            assert!(times.len().abs_diff(expected) <= 1, "{list:?}: {} instead of {expected}", times.len());
        }
        // A rate that ends at zero ends the arrivals.
        let ending = arrivals(&load(10, &[(0, 1_000)], false), 1).unwrap().take(100).count();
        assert!((5..=6).contains(&ending), "{ending}");
    }

    #[test]
    fn schedule_depends_on_the_seed() {
        for poisson in [false, true] {
            for (start, list) in [(500, &[][..]), (10, &[(400, 700), (400, 300), (20, 500)])] {
                let load = load(start, list, poisson);
                for seed in 0..50 {
                    let first = times(&load, seed, Duration::from_secs(2));
                    assert_eq!(first, times(&load, seed, Duration::from_secs(2)), "seed {seed}");
                    assert!(first.is_sorted(), "seed {seed}");
                    let other = times(&load, seed + 1, Duration::from_secs(2));
                    assert_eq!(first == other, !poisson, "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn poisson_arrivals_have_mean_and_deviation_of_their_distribution() {
        for seed in 0..20 {
            let times = times(&load(1_000, &[], true), seed, Duration::from_secs(20));
            // 20,000 expected with a standard deviation of 141.
            assert!(times.len().abs_diff(20_000) < 800, "{} arrivals, seed {seed}", times.len());
            let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            // The standard deviation of an exponential distribution equals its mean.
            assert!((variance.sqrt() / mean - 1.0).abs() < 0.1, "seed {seed}");
        }
    }
}
