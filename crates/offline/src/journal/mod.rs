//! `upesi journal`: selects records and prints them.

pub mod filter;
pub mod json;
pub mod print;
pub mod text;
