//! Changes of operators as data, with their stored and printed forms.

use alloc::boxed::Box;

use upesi_types::{FspId, Timestamp};

use crate::base::stored::stored_struct;
use crate::base::table::shown_struct;
use crate::operators::operator::{OperatorRoles, Secret};

/// An operator as it should be after the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOperator {
    /// The operator's name. An unknown name creates an operator.
    pub name: Box<str>,
    pub roles: OperatorRoles,
    /// The DFSP that the operator belongs to. This cannot change.
    pub participant: Option<FspId>,
    /// Whether the operator may do anything.
    pub is_active: bool,
}

/// A credential to be added to an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCredential {
    pub name: Box<str>,
    /// The secret that proves that a client is the operator.
    pub secret: Secret,
    /// The end of the credential's validity.
    pub expires_at: Timestamp,
}

stored_struct! {
    NewOperator { name, roles, participant, is_active }
    NewCredential { name, secret, expires_at }
}

shown_struct! {
    NewOperator { name as "operator", roles, participant, is_active }
    NewCredential { name as "operator", secret as "credential", expires_at as "expires" }
}
