//! The scheme: its participants, with their endpoints, bindings, blocks and keys.

pub(crate) mod binding;
pub(crate) mod block;
pub(crate) mod changes;
pub(crate) mod endpoint;
pub(crate) mod participant;
pub(crate) mod signature_key;
