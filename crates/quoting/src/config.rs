//! How quoting is set up, and why it cannot begin.

use upesi_tables::TablesError;

/// Quotes that the duplicate check remembers where nothing else is configured.
pub const DUPLICATE_ENTRIES_DEFAULT: usize = 200_000;

/// Settings of quoting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotingConfig {
    /// `quotes.duplicate_entries`: quotes whose requests and answers are remembered in memory, so that a changed
    /// message under the same id is refused; the oldest is forgotten for a new one. 0 turns the check off. Not used
    /// where quotes are kept, as those are found in the store.
    pub duplicate_entries: usize,
    /// `quotes.refuse_expired`: refuse requests whose `expiration` is past, and answers to such, with 3302.
    pub refuse_expired: bool,
    /// `quotes.persist` and its bounds: keep quotes durably, before they are acknowledged.
    pub keep: Option<Retention>,
}

/// How long and how many quotes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// `quotes.keep_days`: a quote goes this many days after its first message.
    pub keep_days: u32,
    /// `quotes.keep_max`: the oldest quotes beyond this number go.
    pub keep_max: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { keep_days: 30, keep_max: 1_000_000 }
    }
}

impl Default for QuotingConfig {
    fn default() -> Self {
        Self { duplicate_entries: DUPLICATE_ENTRIES_DEFAULT, refuse_expired: false, keep: None }
    }
}

// Why quoting cannot begin.

/// Why quoting cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum QuotingError {
    /// Quotes are to be kept and there is nowhere to keep them.
    #[error("quotes.persist is on, but there is no store: configure a data directory or turn it off")]
    NoStore,
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] TablesError),
}
