//! The pages, one module for each screen.

pub mod approvals;
pub mod audit;
pub mod callbacks;
pub mod connections;
pub mod directory;
pub mod funds;
mod lane;
pub mod login;
pub mod operators;
pub mod overview;
pub mod participants;
mod position;
pub mod provider_login;
pub mod settlement;
mod sought;
pub mod system;
pub mod transfer;
pub mod transfers;
mod verdict;
