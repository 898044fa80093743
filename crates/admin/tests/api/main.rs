//! The admin API over real sockets.

mod access;
mod approvals;
mod change_sets;
mod common;
mod directory;
mod find;
mod log;
mod matrix_admin;
mod oidc;
mod oidc_provider;
mod onboarding;
mod operators;
mod pace;
mod people;
mod process;
mod redelivery;
mod refusals;
mod settlement;
