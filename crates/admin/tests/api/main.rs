//! The admin API over real sockets.

mod access;
mod approvals;
mod audit;
mod break_glass;
mod common;
mod directory;
mod failures;
mod fee_rules;
mod find;
mod follower;
mod funds;
#[path = "../../../engine/tests/common/held.rs"]
mod held;
mod matrix_admin;
mod oidc;
mod oidc_provider;
mod onboarding;
mod operators;
mod people;
mod process;
mod quotes;
mod redelivery;
mod refusals;
mod settlement;
