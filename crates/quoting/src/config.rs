//! Settings of quoting.

/// Default number of quotes in the duplicate check.
pub const DUPLICATE_ENTRIES_DEFAULT: usize = 200_000;

/// Settings of quoting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotingConfig {
    /// `quotes.duplicate_entries`: number of quotes whose requests and answers are remembered in memory, so that a
    /// changed message under the same id is rejected. The oldest is dropped for a new one. 0 disables the check. Not
    /// used if quotes are stored, because the store contains them.
    pub duplicate_entries: usize,
    /// `quotes.refuse_expired`: reject requests whose `expiration` has passed, and answers to them, with 3302.
    pub refuse_expired: bool,
    /// `quotes.persist` and its limits: store quotes durably before they are acknowledged.
    pub keep: Option<Retention>,
}

/// Retention of stored quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// `quotes.keep_days`: number of days from its first message after which a quote is deleted.
    pub keep_days: u32,
    /// `quotes.keep_max`: maximum number of quotes; the oldest ones above it are deleted.
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
