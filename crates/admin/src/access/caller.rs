//! A caller: who it is, how that is known, and what it may do.

use std::sync::Arc;

use axum::http::StatusCode;
use upesi_ledger::{Attribution, Roles};
use upesi_types::{ErrorCode, FspId};

use super::break_glass::EMERGENCY;
use super::{Permission, Session, permission};
use crate::change_sets::Collector;
use crate::error::ApiError;

/// What a caller may do at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Everything: the port asks nobody who they are.
    All,
    /// What the roles may do.
    Roles(Roles),
    /// What stops harm: the caller has the token of break-glass.
    Emergency,
    /// What needs no permission: the caller did not say who it is.
    None,
}

/// Who calls.
#[derive(Clone, Debug)]
pub struct Caller {
    pub(crate) operator: Box<str>,
    pub(crate) known_by: Box<str>,
    pub(crate) address: Option<Box<str>>,
    pub(crate) rights: Rights,
    /// The DFSP whose operator it is.
    pub(crate) participant: Option<FspId>,
    /// Why it may not approve now, whatever its roles.
    pub(crate) cannot_approve: Option<&'static str>,
    /// Its session, if it has logged in at the hub.
    pub(crate) session: Option<Session>,
    /// Why it asks, if it says so.
    pub(crate) reason: Option<Box<str>>,
    /// Where its changes go while it proposes a change set.
    pub(crate) collector: Option<Collector>,
}

impl Caller {
    /// Whoever calls a port that asks nobody.
    pub(crate) fn anonymous(address: Option<Box<str>>) -> Self {
        Self::new("anonymous", "nothing", address, Rights::All)
    }

    /// Whoever has not said who they are.
    pub(crate) fn nobody(address: Option<Box<str>>) -> Self {
        Self::new("nobody", "nothing", address, Rights::None)
    }

    pub(crate) fn new(operator: &str, known_by: &str, address: Option<Box<str>>, rights: Rights) -> Self {
        let (operator, known_by) = (operator.into(), known_by.into());
        Self {
            operator,
            known_by,
            address,
            rights,
            participant: None,
            cannot_approve: None,
            session: None,
            reason: None,
            collector: None,
        }
    }

    /// Whether it has a permission.
    pub(crate) fn may(&self, permission: Permission) -> bool {
        match self.rights {
            Rights::All => true,
            Rights::Roles(roles) => permission::roles_allow(roles, permission),
            Rights::Emergency => EMERGENCY.contains(&permission),
            Rights::None => false,
        }
    }

    /// Refuses what it may not do: 401 if it has not said who it is, else 403.
    pub(crate) fn check(&self, any_of: &[Permission]) -> Result<(), ApiError> {
        if any_of.iter().any(|permission| self.may(*permission)) {
            return Ok(());
        }
        if self.rights == Rights::None {
            return Err(unauthenticated());
        }
        let names: Vec<_> = any_of.iter().map(|permission| permission.name()).collect();
        Err(forbidden(&format!("needs the permission {}", names.join(" or "))))
    }

    /// Whether it has proven that it is this operator.
    pub(crate) const fn is_proven(&self) -> bool {
        matches!(self.rights, Rights::Roles(_) | Rights::Emergency)
    }

    /// Refuses a caller that has not said who it is.
    pub(crate) fn check_known(&self) -> Result<(), ApiError> {
        if self.rights == Rights::None { Err(unauthenticated()) } else { Ok(()) }
    }

    /// As the audit trail has it.
    pub(crate) fn attribution(&self, permission: Permission, reason: Option<Box<str>>) -> Attribution {
        self.attribution_of(permission.name(), reason)
    }

    /// The same for what needs no permission. What is done by break-glass is of the area `emergency`.
    pub(crate) fn attribution_of(&self, action: &str, reason: Option<Box<str>>) -> Attribution {
        let action = match self.rights {
            Rights::Emergency => format!("emergency.{action}"),
            _ => action.to_owned(),
        };
        Attribution {
            operator: self.operator.clone(),
            known_by: self.known_by.clone(),
            address: self.address.clone(),
            on_behalf_of: None,
            action: action.into(),
            reason: reason.or_else(|| self.reason.clone()),
        }
    }
}

/// 401. It never tells which part of a credential was wrong.
pub(crate) fn unauthenticated() -> ApiError {
    let error = ApiError::new(ErrorCode::CLIENT, "Say who you are: Authorization: Bearer TOKEN");
    ApiError { status: StatusCode::UNAUTHORIZED, ..error }
}

/// 403.
pub(crate) fn forbidden(detail: &str) -> ApiError {
    ApiError { status: StatusCode::FORBIDDEN, ..ApiError::new(ErrorCode::CLIENT, detail) }
}

/// Callers are shared by what is done for them.
pub(crate) type SharedCaller = Arc<Caller>;
