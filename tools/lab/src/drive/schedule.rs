//! When operations begin: pure functions of the load's shape and the seed, so that a run can be repeated.
#![expect(
    clippy::float_arithmetic,
    reason = "areas under a line, and the logarithm of Poisson arrivals; no money"
)]

use std::time::Duration;

use upesi_sim::mix;

use crate::plan::load_profile::{Load, Stage};

/// Separates the drawing of arrivals from other draws.
const ARRIVALS: u64 = 0x6172_7269_7661_6c73;

/// When arrival `number` of a constant rate is due, counted from its start.
pub(crate) fn due(number: u64, rate_per_s: u32) -> Duration {
    let ns = u128::from(number) * 1_000_000_000 / u128::from(rate_per_s);
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// A level that moves along straight lines, and stays at the last one.
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

/// The times of arrivals whose rate is a profile, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    profile: Profile,
    /// `None` for even arrivals; otherwise the state of the draws.
    poisson: Option<u64>,
    /// Arrivals meant so far: the area under the profile up to the last one.
    area: f64,
    /// The segment that `area` lies in, and time and area at its start.
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

    /// How much area the next arrival lies beyond the last one: one, or for Poisson arrivals an exponential draw of
    /// mean one.
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

    /// The level at the start of the segment, its length and its end level; without end beyond the last.
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

    /// The next arrival; `None` when the rate has come to nothing for good.
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
                // level·t + slope·t²/2 = within, for the t that lies in the segment.
                let root = (level * level + 2.0 * slope * within).max(0.0).sqrt();
                2.0 * within / (level + root).max(f64::MIN_POSITIVE)
            };
            return Duration::try_from_secs_f64(self.segment_time + time).ok();
        }
    }
}

/// The times of all arrivals of an open loop; `None` where users decide themselves when they begin.
pub(crate) fn arrivals(load: &Load, seed: u64) -> Option<Box<dyn Iterator<Item = Duration> + Send>> {
    match load {
        // Of several loads each has a schedule of its own: see [`crate::drive::parallel`].
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
#[path = "schedule_tests.rs"]
mod tests;
