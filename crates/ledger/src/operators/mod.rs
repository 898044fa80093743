//! Operators: their accounts, their changes as data, the approval of a second person, and the audit trail.

pub(crate) mod action;
pub(crate) mod admin_command;
pub(crate) mod approvals;
pub(crate) mod change_set;
pub(crate) mod changes;
pub(crate) mod operator;
pub(crate) mod outcome;
pub(crate) mod policy;
pub(crate) mod proposal;
pub(crate) mod proposal_state;
pub(crate) mod refusal;
pub(crate) mod trail;
pub(crate) mod user_credential;
