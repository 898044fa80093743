//! The rules of participants.

pub(crate) mod bindings;
pub(crate) mod blocks;
pub(crate) mod fold;
pub(crate) mod participants;
pub(crate) mod proxies;
pub(crate) mod query;
pub(crate) mod signature_keys;
