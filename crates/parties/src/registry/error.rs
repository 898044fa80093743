//! Errors of the registry of oracles.

use upesi_tables::TablesError;
use upesi_types::{Currency, ErrorCode};

use super::ORACLES_MAX;
use crate::party::PartyIdType;

/// Reason why a change of the registry was rejected. Nothing was changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OracleError {
    /// Another oracle is active for this type and currency.
    #[error("Oracle {id} is already active for {kind}{}", for_currency(.currency))]
    Duplicate {
        /// Number of the other oracle.
        id: u32,
        kind: PartyIdType,
        currency: Option<Currency>,
    },
    /// The oracle does not exist or was deleted.
    #[error("Oracle not found")]
    NotFound {
        /// The requested number.
        id: u32,
    },
    /// The address cannot be called.
    #[error("The oracle's address {reason}")]
    BadUrl {
        /// Description of the fault.
        reason: &'static str,
    },
    /// The registry is full.
    #[error("The registry has the maximum of {} oracles; delete one first", ORACLES_MAX)]
    TooMany,
    /// The store failed or was busy.
    #[error(transparent)]
    Store(#[from] TablesError),
}

fn for_currency(currency: &Option<Currency>) -> String {
    currency.map_or_else(|| " without a currency".to_owned(), |currency| format!(" in {currency}"))
}

impl OracleError {
    /// The code of the answer; the error's text is the detail. Errors that the operator can correct are 4xx.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Duplicate { .. } | Self::NotFound { .. } | Self::TooMany => {
                ErrorCode::ADD_PARTY_INFORMATION
            }
            Self::BadUrl { .. } => ErrorCode::MALFORMED_SYNTAX,
            Self::Store(error) => error.code(),
        }
    }
}
