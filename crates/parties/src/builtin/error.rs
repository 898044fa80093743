//! Why the built-in directory refuses.

use upesi_tables::TablesError;
use upesi_types::{ErrorCode, FspId};

/// A registration, change or removal that was refused. Nothing was changed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Another DFSP is registered for this identifier, sub id and currency.
    #[error("Party already exists [id: {id}]")]
    AlreadyRegistered {
        /// The identifier.
        id: Box<str>,
        /// Who is registered; not for the eyes of other DFSPs.
        fsp: FspId,
    },
    /// The identifier has as many sub ids and currencies as it may have.
    #[error("The party has {} entries, which is the most", super::OWNERS_MAX)]
    TooManyOwners,
    /// There is no such entry to change.
    #[error("Party not found")]
    NotRegistered,
    /// The entry belongs to another DFSP, and the directory checks that.
    #[error("The party is registered by another DFSP")]
    NotOwner {
        /// 3003 for a change, 3040 for a removal.
        code: ErrorCode,
    },
    /// The store failed or was busy.
    #[error(transparent)]
    Store(#[from] TablesError),
}

impl RegisterError {
    /// The FSPIOP code to answer with; the error's text is the detail.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::AlreadyRegistered { .. } | Self::TooManyOwners | Self::NotRegistered => {
                ErrorCode::ADD_PARTY_INFORMATION
            }
            Self::NotOwner { code } => *code,
            Self::Store(error) => error.code(),
        }
    }
}
