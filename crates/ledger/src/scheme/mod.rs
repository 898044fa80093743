//! The scheme: who takes part in it, and how participants are reached and identified.

pub(crate) mod binding;
pub(crate) mod block;
pub(crate) mod changes;
pub(crate) mod endpoint;
pub(crate) mod participant;
pub(crate) mod signature_key;
