//! Registered parties and oracles, in the hub's store.
//!
//! - [`builtin`]: the built-in directory, which records the DFSP that serves each party.
//! - [`registry`]: the external oracles, and the selection of one for a party.
//! - [`import`]: import of many parties from a file, in chunks that may be repeated.
//!
//! Operators change them through the admin API; lookups and DFSPs' own registrations come through the crate
//! `directory`.

pub mod builtin;
pub mod import;
pub mod party;
pub mod registry;

/// Names of this crate's tables in a store.
pub const TABLES: [&str; 3] = [builtin::TABLE, registry::TABLE, import::TABLE];

#[cfg(test)]
mod test_support {
    //! Stores and entries for the tests of this crate.

    use std::path::Path;

    use upesi_tables::store::{Store, StoreOptions};
    use upesi_types::{Currency, FspId};

    use crate::party::{DirectoryEntry, PartyIdType};

    /// A store that flushes often, without requirements on free disk space.
    pub(crate) fn open_store(path: &Path) -> Store {
        let options = StoreOptions {
            pending_bytes: 8 << 10,
            segment_bytes: 64 << 10,
            free_bytes_min: 0,
            ..StoreOptions::default()
        };
        Store::open(path, &options).unwrap()
    }

    pub(crate) fn fsp(name: &str) -> FspId {
        FspId::parse(name).unwrap()
    }

    /// `-` stands for no sub id and no currency.
    pub(crate) fn entry(id: &str, sub_id: &str, currency: &str, owner: &str) -> DirectoryEntry {
        DirectoryEntry {
            kind: PartyIdType::Msisdn,
            id: id.into(),
            sub_id: (sub_id != "-").then(|| sub_id.into()),
            currency: (currency != "-").then(|| Currency::parse(currency).unwrap()),
            fsp: fsp(owner),
        }
    }
}
