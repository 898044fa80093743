//! The rules of operators' actions: changes of operators, approvals, change sets, and the audit entry of every action.

pub(crate) mod actions;
pub(crate) mod approvals;
pub(crate) mod audited_command;
pub(crate) mod change;
pub(crate) mod change_sets;
pub(crate) mod credential_action;
pub(crate) mod operator;
pub(crate) mod query;
