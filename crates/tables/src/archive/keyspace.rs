//! One LSM store of fjall: creating, opening, writing tables, and the meaning of its errors.

use std::convert::Infallible;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use upesi_types::Timestamp;

use crate::archive::ArchiveOptions;
use crate::beside::make_whole;
use crate::lsm::{self, Config, Database, Fault, Guard, Keyspace, Tuning, wait_for_merging};
use crate::{DatabaseKind, TablesError};

/// Key of the watermark: after every transfer id, whose first byte is a small tag.
pub(crate) const WATERMARK_KEY: [u8; 1] = [0xff];
const KEYSPACE: &str = "transfers";
/// Remedy if a division cannot be opened.
const REMEDY: &str = "it is derived data: stop the hub, delete the whole archive directory and start again; it is then rebuilt from the journal";
/// Number of tables that a division keeps open. Lookups mostly find index and filter in memory and need the file for
/// one block.
pub const OPEN_FILES_MAX: usize = 16;
/// If there are this many more unmerged tables than start a merge, a writer waits for merging to catch up.
const UNMERGED_TABLES_OVER: usize = 24;

/// The watermark of a store, written in the table that reaches it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watermark {
    /// The sequence number of a journal record. All transfers finished by then are in the keyspace; 0 if it is empty.
    pub(crate) watermark: u64,
    /// Time of that record; 1970 if unknown.
    pub(crate) time: Timestamp,
}

impl Watermark {
    pub(crate) fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.watermark.to_le_bytes());
        bytes[8..].copy_from_slice(&self.time.as_ns().to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (watermark, time) = bytes.split_first_chunk::<8>()?;
        let time = Timestamp::from_ns(i64::from_le_bytes(time.try_into().ok()?));
        Some(Self { watermark: u64::from_le_bytes(*watermark), time })
    }
}

/// An open store. The handle of the keyspace comes first, so that it is dropped before the database closes.
pub(crate) struct Store {
    pub(crate) keyspace: Keyspace,
    _database: Database,
}

/// Resources that all stores of an archive share.
pub(crate) struct StoreResources {
    /// Contains the block cache, whose type has no public name.
    config: Config,
}

impl StoreResources {
    pub(crate) fn new(options: &ArchiveOptions) -> Self {
        let config = Database::builder(".").cache_size(options.cache_bytes).into_config();
        Self { config }
    }
}

/// Creates an empty store in its directory.
pub(crate) fn create(
    path: &Path,
    shared: &StoreResources,
    options: &ArchiveOptions,
) -> Result<(), TablesError> {
    let fail = |source| TablesError::io(DatabaseKind::Archive, path, source);
    make_whole(path, fail, |unfinished| open(unfinished, shared, options).map(|_| true)).map(drop)
}

pub(crate) fn open(
    path: &Path,
    shared: &StoreResources,
    options: &ArchiveOptions,
) -> Result<Store, TablesError> {
    let mut config = Database::builder(path)
        .worker_threads(options.merge_threads.max(1))
        .max_cached_files(Some(OPEN_FILES_MAX))
        .into_config();
    config.cache = Arc::clone(&shared.config.cache);
    let opened = lsm::open(path, REMEDY, || {
        let database = Database::open(config)?;
        let keyspace = database.keyspace(KEYSPACE, || options.tuning().options())?;
        Ok(Store { keyspace, _database: database })
    });
    opened.map_err(|fault| of_fault(path, fault))
}

impl Store {
    /// Reads the watermark, and checks that a scan sees the same one. It is the last key, and a store that lost its
    /// count of writes would show an old state to scans while lookups still find the newest.
    pub(crate) fn mark(&self, path: &Path) -> Result<Watermark, TablesError> {
        let fail = |error| store_error(path, error);
        let Some(stored) = self.keyspace.get(WATERMARK_KEY).map_err(fail)? else {
            return Ok(Watermark::default());
        };
        let last = self.keyspace.iter().next_back().map(Guard::into_inner).transpose().map_err(fail)?;
        if last.is_none_or(|(key, value)| *key != WATERMARK_KEY || value != stored) {
            return Err(store_damaged(path, "lookups and scans see different states"));
        }
        Watermark::decode(&stored).ok_or_else(|| store_damaged(path, "the watermark is malformed"))
    }

    /// Writes one sorted table, and syncs it before this returns.
    pub(crate) fn write_table(
        &self,
        rows: &[([u8; 17], &[u8])],
        mark: Option<Watermark>,
    ) -> Result<(), lsm::Error> {
        let mut table = self.keyspace.start_ingestion()?;
        for (key, value) in rows {
            table.write(*key, *value)?;
        }
        if let Some(mark) = mark {
            table.write(WATERMARK_KEY, mark.encode())?;
        }
        table.finish()
    }

    /// Waits for a limited time if merging is far behind.
    pub(crate) fn wait_for_merging(&self, options: &ArchiveOptions) {
        let tables_max = usize::from(options.unmerged_tables) + UNMERGED_TABLES_OVER;
        let Ok(()) = wait_for_merging(&self.keyspace, tables_max, || Ok::<_, Infallible>(()));
    }
}

impl ArchiveOptions {
    fn tuning(&self) -> Tuning {
        let Self { block_bytes, compress, unmerged_tables, table_bytes, .. } = *self;
        Tuning { block_bytes, compress, unmerged_tables, table_bytes }
    }
}

/// Damage of the archive in `path`.
pub(crate) fn damaged(path: &Path, detail: &str) -> TablesError {
    TablesError::damaged(DatabaseKind::Archive, path, detail)
}

/// The directory that errors about the store in `path` name: the whole archive, because its parts cannot be rebuilt
/// separately.
fn archive_of(path: &Path) -> PathBuf {
    path.parent().unwrap_or(path).to_path_buf()
}

fn in_division(path: &Path, detail: impl Display) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("division {name}: {detail}")
}

/// Damage of the store in `path`.
pub(crate) fn store_damaged(path: &Path, detail: &str) -> TablesError {
    TablesError::damaged(DatabaseKind::Archive, &archive_of(path), in_division(path, detail))
}

pub(crate) fn store_error(division: &Path, error: lsm::Error) -> TablesError {
    of_fault(division, error.into())
}

fn of_fault(division: &Path, fault: Fault) -> TablesError {
    let fault = match fault {
        Fault::Format(detail) => Fault::Format(in_division(division, detail)),
        Fault::Damaged(detail) => Fault::Damaged(in_division(division, detail)),
        other => other,
    };
    TablesError::of_fault(DatabaseKind::Archive, &archive_of(division), fault)
}
