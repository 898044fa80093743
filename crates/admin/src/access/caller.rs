//! A caller of the admin API: its identity, its authentication and its permissions.

use std::sync::Arc;

use axum::http::StatusCode;
use upesi_ledger::command::Authority;
use upesi_ledger::{AdminAction, AuditActor, OperatorRoles};
use upesi_types::FspId;

use super::break_glass::EMERGENCY;
use super::permission::permission_of;
use super::{Permission, Session, SessionOrigin, permission};
use crate::collector::Collector;
use crate::error::ApiError;
use crate::error_name::ErrorName;

/// The permissions of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// All permissions: the port has no authentication.
    All,
    Roles(OperatorRoles),
    /// The permissions of the break-glass token.
    Emergency,
    /// No permissions: the caller is not authenticated.
    None,
}

/// The reason why a caller may not approve, whatever its roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CannotApprove {
    pub(crate) name: ErrorName,
    pub(crate) text: &'static str,
}

/// The caller of a request.
#[derive(Clone, Debug)]
pub struct Caller {
    pub(crate) operator: Box<str>,
    pub(crate) known_by: Box<str>,
    pub(crate) address: Option<Box<str>>,
    pub(crate) rights: Rights,
    /// The DFSP of the operator.
    pub(crate) participant: Option<FspId>,
    /// The reason why it may not approve now, whatever its roles.
    pub(crate) cannot_approve: Option<CannotApprove>,
    /// Its session, if it has logged in at the hub.
    pub(crate) session: Option<Session>,
    /// The reason of the request, if it has one.
    pub(crate) reason: Option<Box<str>>,
    /// Collects its changes while it proposes a change set.
    pub(crate) collector: Option<Collector>,
}

impl Caller {
    /// A caller of a port without authentication.
    pub(crate) fn anonymous(address: Option<Box<str>>) -> Self {
        Self::new("anonymous", "nothing", address, Rights::All)
    }

    /// A caller that is not authenticated.
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

    /// The name of the operator.
    pub fn operator(&self) -> &str {
        &self.operator
    }

    /// Whether it has logged in at the hub, with a password or by an identity provider.
    pub const fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// Whether its last code is too old for an approval.
    pub fn must_renew(&self) -> bool {
        let is_old = |cannot: &CannotApprove| cannot.name == ErrorName::ApproverLoginOld;
        self.has_session() && self.cannot_approve.as_ref().is_some_and(is_old)
    }

    /// The label of the identity provider that has logged it in, if one has. Such a user has no password and no code at
    /// the hub, and proves a recent login by another login at the provider.
    pub fn login_provider(&self) -> Option<&'static str> {
        match &self.session.as_ref()?.origin {
            SessionOrigin::Provider(login) => Some(login.provider),
            SessionOrigin::Password(_) => None,
        }
    }

    /// The DFSP of the operator, if it is a DFSP's.
    pub const fn participant(&self) -> Option<FspId> {
        self.participant
    }

    pub(crate) fn may(&self, permission: Permission) -> bool {
        match self.rights {
            Rights::All => true,
            Rights::Roles(roles) => permission::roles_allow(roles, permission),
            Rights::Emergency => EMERGENCY.contains(&permission),
            Rights::None => false,
        }
    }

    /// Rejects a call without permission: 401 if the caller is not authenticated, otherwise 403.
    pub(crate) fn check(&self, any_of: &[Permission]) -> Result<(), ApiError> {
        if any_of.iter().any(|permission| self.may(*permission)) {
            return Ok(());
        }
        if self.rights == Rights::None {
            return Err(unauthenticated());
        }
        let names: Vec<_> = any_of.iter().map(|permission| permission.name()).collect();
        let detail = format!("needs the permission {}", names.join(" or "));
        Err(forbidden(ErrorName::PermissionMissing, &detail))
    }

    /// The caller's rights to change the ledger.
    pub(crate) fn authority(&self, is_alone: bool) -> Authority {
        let actions = AdminAction::ALL.iter().copied().filter(|action| self.may(permission_of(*action)));
        Authority { actions: actions.collect(), is_alone, is_emergency: self.rights == Rights::Emergency }
    }

    /// Whether it has authenticated as this operator.
    pub(crate) const fn is_proven(&self) -> bool {
        matches!(self.rights, Rights::Roles(_) | Rights::Emergency)
    }

    /// Rejects a caller that is not authenticated.
    pub(crate) fn check_known(&self) -> Result<(), ApiError> {
        if self.rights == Rights::None { Err(unauthenticated()) } else { Ok(()) }
    }

    /// Its attribution for the audit trail.
    pub(crate) fn attribution(&self, permission: Permission, reason: Option<Box<str>>) -> AuditActor {
        self.attribution_of(permission.name(), reason)
    }

    /// The attribution for an action that needs no permission. Actions with the break-glass token have the area
    /// `emergency`.
    pub(crate) fn attribution_of(&self, action: &str, reason: Option<Box<str>>) -> AuditActor {
        let is_emergency = self.rights == Rights::Emergency;
        AuditActor {
            operator: self.operator.clone(),
            known_by: self.known_by.clone(),
            address: self.address.clone(),
            on_behalf_of: None,
            action: Authority { is_emergency, ..Authority::ALL }.name_of(action),
            reason: reason.or_else(|| self.reason.clone()),
        }
    }
}

/// Error 401. It never reveals which part of a credential was wrong.
pub(crate) fn unauthenticated() -> ApiError {
    let error = ApiError::new(ErrorName::Unauthenticated, "A token is required: Authorization: Bearer TOKEN");
    ApiError { status: StatusCode::UNAUTHORIZED, ..error }
}

/// Error 403.
pub(crate) fn forbidden(name: ErrorName, detail: &str) -> ApiError {
    ApiError { status: StatusCode::FORBIDDEN, ..ApiError::new(name, detail) }
}

/// A caller, shared by the tasks of its request.
pub(crate) type SharedCaller = Arc<Caller>;
