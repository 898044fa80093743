//! The base: ids, stored and printed forms, and the reasons why DFSPs' requests are rejected.
//!
//! Nothing here depends on participants, accounts or the ledger.

pub mod codec;
pub(crate) mod ids;
pub(crate) mod index;
pub(crate) mod refusal;
pub(crate) mod show;
pub(crate) mod stored;
pub(crate) mod stored_enum;
pub(crate) mod table;
