//! The settings of the stage `notification`.

use std::time::Duration;

use upesi_delivery::lanes::CourierConfig;

use crate::plan::section::Section;
use crate::plan::stage::source::Source;

/// Default number of callbacks of one repetition.
const MESSAGES: usize = 20_000;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub source: Source,
    /// Whether simulated DFSPs accept the callbacks, instead of sinks.
    pub to_dfsps: bool,
    pub keep_alive: bool,
    /// Connections to one DFSP, and callbacks in progress to it.
    pub connections: usize,
    pub receiver_delay: Duration,
    pub threads: usize,
    pub receiver_threads: usize,
    /// Maximum number of callbacks that were handed over and not reported as delivered.
    pub queued: usize,
    pub repetitions: usize,
}

impl Settings {
    /// Reads the settings.
    pub fn read(keys: &mut Section<'_>) -> Self {
        Self {
            source: Source::read(keys, MESSAGES),
            to_dfsps: keys.choice("receivers", &["sinks", "dfsps"]) == Some(1),
            keep_alive: keys.flag("keep_alive").unwrap_or(true),
            connections: keys
                .size("connections", 1..=4_096)
                .unwrap_or(CourierConfig::default().concurrency_max),
            receiver_delay: Duration::from_millis(keys.integer("receiver_delay_ms", 0..=10_000).unwrap_or(0)),
            threads: keys.size("threads", 1..=64).unwrap_or(1),
            receiver_threads: keys.size("receiver_threads", 1..=64).unwrap_or(1),
            queued: keys.size("queued", 1..=1_000_000).unwrap_or(4_096),
            repetitions: keys.size("repetitions", 1..=1_000).unwrap_or(5),
        }
    }
}
