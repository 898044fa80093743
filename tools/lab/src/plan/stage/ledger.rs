//! The settings of the stage `ledger`.

use crate::plan::section::Section;
use crate::plan::stage::message::MessageKind;
use crate::plan::stage::source::Source;

/// Default number of messages.
const MESSAGES: usize = 100_000;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub source: Source,
    pub kind: MessageKind,
    pub repetitions: usize,
}

impl Settings {
    pub fn read(keys: &mut Section<'_>) -> Self {
        Self {
            source: Source::read(keys, MESSAGES),
            kind: MessageKind::read(keys),
            repetitions: keys.size("repetitions", 1..=1_000).unwrap_or(5),
        }
    }
}
