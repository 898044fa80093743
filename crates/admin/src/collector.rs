//! The command of a change that is proposed as part of a set.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use upesi_ledger::AdminCommand;

use crate::error::ApiError;
use crate::error_name::ErrorName;

/// Receives the command of a change that is proposed as part of a set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collector(Arc<Mutex<Option<AdminCommand>>>);

impl Collector {
    /// Stores the command; returns the error that ends its handler.
    pub(crate) fn collect(&self, command: AdminCommand) -> ApiError {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(command);
        ApiError {
            status: StatusCode::ACCEPTED,
            ..ApiError::new(ErrorName::ChangeSetKind, "The change is part of a change set")
        }
    }

    pub(crate) fn take(&self) -> Option<AdminCommand> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
