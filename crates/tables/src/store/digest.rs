//! Digest of a store: two stores with the same digest have the same content.

use std::path::Path;
use std::sync::Arc;

use upesi_journal::END;
use xxhash_rust::xxh3::Xxh3Default;

use crate::TablesError;
use crate::store::{StoreFollower, StoreOptions, Table};

/// Directory of the log.
const JOURNAL: &str = "journal";
/// Number of entries that are read together.
const PORTION: usize = 1024;

/// The digest of a store's content, up to a record of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreDigest {
    /// The last record; 0 before the first.
    pub record: u64,
    /// Keys with a value.
    pub entries: u64,
    /// Digest of all tables' names, keys and values. It detects accidents, but not forgery.
    pub digest: u128,
}

/// Reads the whole store in `path`, which must not be open. Writes nothing to its log.
///
/// # Errors
/// The store is damaged, or in use.
pub fn digest(path: impl AsRef<Path>) -> Result<StoreDigest, TablesError> {
    let options = StoreOptions { pending_bytes: usize::MAX, ..StoreOptions::default() };
    let path = path.as_ref();
    let mut follower = StoreFollower::open(path, &options)?;
    // A backup of a store that was never written has no log, because backups contain no empty directories.
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
