//! The settings of the stage `generator`.

use std::time::Duration;

use crate::plan::section::Section;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub rate_per_s: u32,
    pub random: bool,
    pub seconds: Duration,
    pub repetitions: usize,
    pub threads: usize,
    pub late_max: Duration,
}

impl Settings {
    /// Reads the settings.
    pub fn read(keys: &mut Section<'_>) -> Self {
        Self {
            rate_per_s: keys.small("rate_per_s", 1..=1_000_000).unwrap_or(1_000),
            random: keys.choice("arrivals", &["even", "random"]) == Some(1),
            seconds: Duration::from_millis(keys.integer("ms", 100..=600_000).unwrap_or(5_000)),
            repetitions: keys.size("repetitions", 1..=1_000).unwrap_or(5),
            threads: keys.size("threads", 1..=64).unwrap_or(1),
            late_max: Duration::from_micros(keys.integer("late_us_max", 1..=60_000_000).unwrap_or(1_000)),
        }
    }
}
