//! The rules of settlement models, windows and settlements.

pub(crate) mod cover;
pub(crate) mod fold;
pub(crate) mod models;
pub(crate) mod query;
pub(crate) mod settlements;
pub(crate) mod windows;
