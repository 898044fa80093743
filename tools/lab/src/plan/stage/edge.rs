//! The settings of the stages `prepare` and `fulfil`.

use crate::plan::section::Section;
use crate::plan::stage::expect_parts;
use crate::plan::stage::message::MessageKind;
use crate::plan::stage::source::{Source, read_existing};

/// Default number of requests of one run.
const MESSAGES: usize = 20_000;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub kind: MessageKind,
    pub source: Source,
    pub connections: usize,
    pub threads: usize,
    /// Whether callbacks are held back instead of being accepted by receivers.
    pub holds_callbacks: bool,
    pub durable: bool,
    /// Number of finished transfers that the hub already has.
    pub existing: usize,
    pub repetitions: usize,
}

impl Settings {
    /// Reads the settings of the stage for messages of this kind.
    pub fn read(kind: MessageKind, keys: &mut Section<'_>) -> Self {
        let source = Source::read(keys, MESSAGES);
        let settings = Self {
            kind,
            existing: read_existing(keys, &source),
            source,
            connections: keys.size("connections", 1..=8_192).unwrap_or(32),
            threads: keys.size("threads", 1..=64).unwrap_or(1),
            holds_callbacks: keys.choice("callbacks", &["held", "swallowed"]) != Some(1),
            durable: keys.flag("durable").unwrap_or(true),
            repetitions: keys.size("repetitions", 1..=1_000).unwrap_or(5),
        };
        if settings.threads > settings.connections {
            keys.mistake("threads must not be more than connections");
        }
        expect_parts(keys, settings.source.messages, settings.repetitions);
        settings
    }
}
