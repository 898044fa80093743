//! Errors at the start of quoting.

use upesi_tables::TablesError;

/// Reason why quoting cannot start.
#[derive(Debug, thiserror::Error)]
pub enum QuotingError {
    /// Quotes must be stored, but the hub has no store.
    #[error(
        "quotes.persist is on, but the hub has no store: configure a data directory or turn quotes.persist off"
    )]
    NoStore,
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] TablesError),
}
