//! Errors at the start of quoting.

use upesi_tables::TablesError;

/// Reason why quoting cannot start.
#[derive(Debug, thiserror::Error)]
pub enum QuotingError {
    /// Quotes must be stored, but there is no store.
    #[error("quotes.persist is on, but there is no store: configure a data directory or turn it off")]
    NoStore,
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] TablesError),
}
