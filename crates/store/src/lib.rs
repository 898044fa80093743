//! Durable key-value tables for what is not money (L2): the party directory, the registry of oracles, kept quotes.
//!
//! One thread writes. [`Store::update`] hands it a closure that reads, checks and writes; everything that queued up while
//! the last batch was being synced becomes one record of the log with one sync, and each caller is answered only once its
//! record is durable. Readers ([`Table::get`], [`Table::scan`]) never wait for the writer's queue and see durable values
//! only.

mod error;
mod loading;
mod options;
mod pending;
mod record;
mod recovery;
mod resident;
#[cfg(test)]
mod resident_tests;
mod store;
mod sync;
mod table;
mod tables;
mod transaction;
mod writer;

pub use error::StoreError;
pub use options::StoreOptions;
pub use record::{RecordedChange, read_record, write_record};
pub use store::{Store, StoreStats};
pub use table::{Entry, Table, Value};
pub use tables::OPEN_FILES_MAX;
pub use transaction::Transaction;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
/// The largest value, in bytes: a quote's request with room to spare.
pub const VALUE_BYTES_MAX: usize = 8 << 20;
/// Keys and values that one update may write, in bytes.
pub const UPDATE_BYTES_MAX: usize = 64 << 20;
