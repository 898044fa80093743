//! Tables on disk: finished transfers, parties, oracles and quotes, in the embedded LSM store fjall.
//!
//! - [`archive`] stores finished transfers; everything in it is derived from the journal.
//! - [`store`] stores the party directory, oracles and quotes; its log is their only copy.
//! - [`lsm`] is the interface of both to fjall.

pub mod archive;
mod beside;
mod error;
pub mod lsm;
pub mod store;

pub use error::{DatabaseKind, TablesError};
