//! Account lookup (L4): which DFSP serves a party, and who the party is.

pub mod builtin;
pub mod party;
pub mod registry;
