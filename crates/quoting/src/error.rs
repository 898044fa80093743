//! Why quoting cannot begin.

use upesi_tables::TablesError;

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
