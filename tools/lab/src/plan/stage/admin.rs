//! The settings of the stage `admin`.

use crate::plan::section::Section;
use crate::plan::stage::expect_parts;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub messages: usize,
    pub connections: usize,
    pub dfsps: usize,
    pub repetitions: usize,
}

impl Settings {
    /// Reads the settings.
    pub fn read(keys: &mut Section<'_>) -> Self {
        let settings = Self {
            messages: keys.size("messages", 2..=100_000_000).unwrap_or(20_000),
            connections: keys.size("connections", 1..=64).unwrap_or(8),
            dfsps: keys.size("dfsps", 2..=1_000).unwrap_or(8),
            repetitions: keys.size("repetitions", 1..=1_000).unwrap_or(5),
        };
        expect_parts(keys, settings.messages, settings.repetitions);
        settings
    }
}
