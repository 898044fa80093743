//! What a store holds, in a number: two stores with the same one hold the same.

use std::path::Path;
use std::sync::Arc;

use upesi_journal::END;
use xxhash_rust::xxh3::Xxh3Default;

use crate::TablesError;
use crate::store::{StoreFollower, StoreOptions, Table};

/// Where the log lies.
const JOURNAL: &str = "journal";
/// Entries that are read at a time.
const PORTION: usize = 1024;

/// The content of a store, as of a record of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreDigest {
    /// The last record; 0 before the first.
    pub record: u64,
    /// Keys with a value.
    pub entries: u64,
    /// Of all tables' names, keys and values. It finds accidents, not forgers.
    pub digest: u128,
}

/// Reads all of the store in `path`, which nobody may have open. Nothing is written to its log.
///
/// # Errors
/// It is damaged, or in use.
pub fn digest(path: impl AsRef<Path>) -> Result<StoreDigest, TablesError> {
    let options = StoreOptions { pending_bytes: usize::MAX, ..StoreOptions::default() };
    let path = path.as_ref();
    let mut follower = StoreFollower::open(path, &options)?;
    // A backup of a store that has never been written has no log, as it has no empty directories.
    if follower.shown > 0 || path.join(JOURNAL).is_dir() {
        follower.show_to(END)?;
    }
    let (mut hasher, mut entries) = (Xxh3Default::new(), 0);
    for (name, state) in follower.tables.all() {
        let table = Table { state, tables: Arc::clone(&follower.tables) };
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = table.scan(b"", after.as_deref(), PORTION)?;
            for (key, value) in &page {
                for part in [name.as_bytes(), key, value] {
                    hasher.update(&(part.len() as u64).to_le_bytes());
                    hasher.update(part);
                }
            }
            entries += page.len() as u64;
            match page.into_iter().next_back() {
                Some((last, _)) => after = Some(last),
                None => break,
            }
        }
    }
    Ok(StoreDigest { record: follower.shown, entries, digest: hasher.digest128() })
}
