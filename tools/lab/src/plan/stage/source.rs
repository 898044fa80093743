//! The settings of the messages that are the input of a stage.

use std::path::PathBuf;

use crate::plan::section::Section;

pub(crate) const MESSAGES_MAX: usize = 5_000_000;
pub const DFSPS_MAX: usize = 1_000;
/// Minimum length of a generated prepare's body, in bytes: the mandatory members and a short packet.
pub const BODY_BYTES_MIN: usize = 480;
/// Maximum number of finished transfers in a new directory.
const EXISTING_MAX: usize = 1_000_000_000;

/// The messages that are the input of a stage.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// A recorded stream; `None` generates or records one.
    pub stream: Option<PathBuf>,
    /// Whether a hub is driven and recorded first.
    pub is_recorded: bool,
    pub messages: usize,
    /// Number of DFSPs if messages are generated or recorded first.
    pub dfsps: usize,
    /// Approximate length of a prepare's body, in bytes; `None` uses the default of the source.
    pub body_bytes: Option<usize>,
}

impl Source {
    /// Reads the settings; `messages` is the default number.
    pub fn read(keys: &mut Section<'_>, messages: usize) -> Self {
        let stream = keys.text("stream").map(PathBuf::from);
        if stream.is_some() && (keys.has("dfsps") || keys.has("body_bytes")) {
            keys.mistake(
                "a recorded stream has its own DFSPs and bodies: leave out dfsps and body_bytes, or leave out stream",
            );
        }
        let is_recorded = keys.flag("recorded").unwrap_or(false);
        if is_recorded && stream.is_some() {
            keys.mistake("messages come either from a file or from a recording before the run: leave out stream or recorded");
        }
        Self {
            stream,
            is_recorded,
            messages: keys.size("messages", 1..=MESSAGES_MAX).unwrap_or(messages),
            dfsps: keys.size("dfsps", 2..=DFSPS_MAX).unwrap_or(2),
            body_bytes: keys.size("body_bytes", BODY_BYTES_MIN..=32_768),
        }
    }
}

/// Reads the key `existing`: finished transfers that a hub already has.
pub(crate) fn read_existing(keys: &mut Section<'_>, source: &Source) -> usize {
    let existing = keys.size("existing", 0..=EXISTING_MAX).unwrap_or(0);
    if existing > 0 && (source.stream.is_some() || source.is_recorded) {
        keys.mistake(
            "existing transfers are generated between generated DFSPs: leave out existing, or the stream",
        );
    }
    existing
}
