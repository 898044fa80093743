//! `upesi journal`: selects records and prints them.

pub mod filter;
pub mod print;
