//! Errors of the built-in directory.

use upesi_tables::TablesError;
use upesi_types::{ErrorCode, FspId};

use super::OWNERS_MAX;

/// Reason why a registration, change or removal was rejected. Nothing was changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RegisterError {
    /// Another DFSP is registered for this identifier, sub id and currency.
    #[error("Party already exists [id: {id}]")]
    AlreadyRegistered {
        id: Box<str>,
        /// The registered DFSP; not to be shown to other DFSPs.
        fsp: FspId,
    },
    /// The identifier has the maximum number of sub ids and currencies.
    #[error("The party has the maximum of {} entries", OWNERS_MAX)]
    TooManyOwners,
    /// The entry does not exist.
    #[error("Party not found")]
    NotRegistered,
    /// The entry belongs to another DFSP, and ownership is checked.
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
    /// The FSPIOP code of the answer; the error's text is the detail.
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
