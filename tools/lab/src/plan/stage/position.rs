//! The settings of the stage `position`.

use crate::plan::section::Section;
use crate::plan::stage::message::MessageKind;
use crate::plan::stage::source::{Source, read_existing};

/// Default number of messages: the same as for the published figures.
const MESSAGES: usize = 5_000;
/// Default number of commands in progress.
const IN_FLIGHT: usize = 1_024;
/// Capacity of the engine's queue.
const IN_FLIGHT_MAX: usize = 65_536;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// Number of threads. Each of `n` threads takes every `n`th message, whoever pays.
    pub submitters: usize,
    /// Commands in progress at a time, all threads together.
    pub in_flight: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub source: Source,
    /// Prepares, or the fulfils of transfers that are reserved already.
    pub kind: MessageKind,
    /// Maximum number of commands in one batch; `None` does not limit batches.
    pub batch: Option<usize>,
    pub durable: bool,
    pub flow: Flow,
    /// Whether callbacks are reported as delivered, which the engine also journals.
    pub deliveries: bool,
    /// Number of finished transfers that the hub already has.
    pub existing: usize,
    pub repetitions: usize,
}

impl Settings {
    pub fn read(keys: &mut Section<'_>) -> Self {
        let source = Source::read(keys, MESSAGES);
        let settings = Self {
            existing: read_existing(keys, &source),
            source,
            kind: MessageKind::read(keys),
            batch: keys.bound("batch", 1..=1_000_000),
            durable: keys.flag("durable").unwrap_or(true),
            flow: Flow {
                submitters: keys.size("submitters", 1..=64).unwrap_or(1),
                in_flight: keys.size("in_flight", 1..=IN_FLIGHT_MAX).unwrap_or(IN_FLIGHT),
            },
            deliveries: keys.choice("deliveries", &["none", "reported"]) == Some(1),
            repetitions: keys.size("repetitions", 1..=1_000).unwrap_or(5),
        };
        let Flow { submitters, in_flight } = settings.flow;
        if settings.batch.is_some_and(|batch| batch > in_flight) {
            keys.mistake("batch must not be more than in_flight: batches would never be full");
        }
        if submitters > in_flight.min(settings.source.messages) {
            keys.mistake("submitters must not be more than in_flight, nor than messages");
        }
        settings
    }
}
