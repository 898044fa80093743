//! The stages of the hub that can be measured alone, and their settings in scenario files.

pub(crate) mod admin;
pub(crate) mod edge;
pub(crate) mod generator;
pub(crate) mod journal;
pub mod message;
pub(crate) mod notification;
pub(crate) mod source;

use message::MessageKind;

use crate::plan::section::{Mistakes, Node, Section};

pub(crate) const OF_EDGE: &[&str] = &["connections", "durable", "existing", "callbacks"];

/// The stages that can be measured alone, and the keys of each that its result repeats if they were given.
pub const KINDS: [(&str, &[&str]); 6] = [
    ("journal", &["record_bytes", "batch", "durable", "zero_ahead"]),
    ("notification", &["receivers", "keep_alive", "connections", "receiver_delay_ms", "threads"]),
    ("prepare", OF_EDGE),
    ("fulfil", OF_EDGE),
    ("admin", &["connections"]),
    ("generator", &["rate_per_s", "arrivals", "threads"]),
];

/// A stage with its settings, ready to be measured.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    Journal(journal::Settings),
    Notification(notification::Settings),
    Edge(edge::Settings),
    Admin(admin::Settings),
    Generator(generator::Settings),
}

/// A kind that is not in [`KINDS`].
#[derive(Debug, thiserror::Error)]
#[error("{kind:?} is not an isolated kind; give one of {kinds}")]
pub struct UnknownKind {
    kind: String,
    kinds: String,
}

impl Stage {
    /// Reads the table of a kind, and notes every mistake in it. Fails if the kind is not in [`KINDS`].
    pub fn read(kind: &str, table: Option<&Node>, mistakes: &Mistakes) -> Result<Self, UnknownKind> {
        if KINDS.iter().all(|(known, _)| *known != kind) {
            let kinds = KINDS.map(|(kind, _)| kind).join(", ");
            return Err(UnknownKind { kind: kind.to_owned(), kinds });
        }
        let keys = &mut Section::new("isolated", table, mistakes);
        Ok(match kind {
            "journal" => Self::Journal(journal::Settings::read(keys)),
            "notification" => Self::Notification(notification::Settings::read(keys)),
            "prepare" => Self::Edge(edge::Settings::read(MessageKind::Prepare, keys)),
            "fulfil" => Self::Edge(edge::Settings::read(MessageKind::Fulfil, keys)),
            "admin" => Self::Admin(admin::Settings::read(keys)),
            _ => Self::Generator(generator::Settings::read(keys)),
        })
    }
}

/// Checks that each repetition has messages to send, and the warm-up before them, too.
pub(crate) fn expect_parts(keys: &Section<'_>, messages: usize, repetitions: usize) {
    if messages <= repetitions {
        keys.mistake("give more messages than repetitions: each repetition sends a part");
    }
}
