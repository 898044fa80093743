//! The sorted tables on disk: keyspaces of the LSM store fjall, written only by bulk ingestion.
//!
//! The store has its own log; fjall's write-ahead log and memtables stay empty, because its recovery does not survive
//! every torn write. A separate keyspace contains the watermark: all tables have the log's changes up to this sequence
//! number. The watermark is written after the tables. A crash in between only repeats changes, which is harmless,
//! because every change is a plain value.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::beside::make_whole;
use crate::lsm::{self, Database, Keyspace, PersistMode, Tuning, wait_for_merging};
use crate::store::StoreOptions;
use crate::store::resident::Resident;
use crate::store::table::TableState;
use crate::{DatabaseKind, TablesError};

/// Number of sorted tables that the store keeps open.
pub const OPEN_FILES_MAX: usize = 32;
/// The keyspace of the watermark. No table can have this name.
const META: &str = "-";
const WATERMARK_KEY: [u8; 1] = [1];
/// Number of unmerged tables above which the writer waits for merging to catch up.
const UNMERGED_TABLES_MAX: usize = 32;

pub(crate) struct Tables {
    path: PathBuf,
    options: StoreOptions,
    states: Mutex<BTreeMap<String, Arc<TableState>>>,
    meta: Keyspace,
    // Last, so that the handles of the keyspaces are dropped before the database closes.
    database: Database,
}

impl Tables {
    /// Opens the tables of the store in `path`, and locks them.
    pub(crate) fn open(path: &Path, options: &StoreOptions) -> Result<Self, TablesError> {
        let directory = directory_of(path);
        let fail = |source| TablesError::io(DatabaseKind::Store, path, source);
        if !directory.try_exists().map_err(fail)? {
            make_whole(&directory, fail, |unfinished| {
                open_database(path, unfinished, options).map(|_| true)
            })?;
        }
        let (database, meta) = open_database(path, &directory, options)?;
        let tables = Self {
            path: path.to_path_buf(),
            options: options.clone(),
            states: Mutex::default(),
            meta,
            database,
        };
        for name in tables.stored_meta()?.1 {
            if !tables.database.keyspace_exists(&name) {
                return Err(tables.damaged(&format!("the table {name} is missing")));
            }
            tables.table(&name)?;
        }
        Ok(tables)
    }

    /// The table called `name`, which is created if it does not exist.
    pub(crate) fn table(&self, name: &str) -> Result<Arc<TableState>, TablesError> {
        let mut states = self.states();
        if let Some(state) = states.get(name) {
            return Ok(Arc::clone(state));
        }
        let is_there = self.database.keyspace_exists(name);
        let keyspace = self
            .database
            .keyspace(name, || self.options.tuning().options())
            .map_err(|error| self.fail(error))?;
        if !is_there {
            lsm::sync_keyspaces(&directory_of(&self.path))
                .map_err(|source| TablesError::io(DatabaseKind::Store, &self.path, source))?;
        }
        let state = Arc::new(TableState::new(keyspace));
        states.insert(name.to_owned(), Arc::clone(&state));
        Ok(state)
    }

    /// All tables, by name.
    pub(crate) fn all(&self) -> Vec<(String, Arc<TableState>)> {
        self.states().iter().map(|(name, state)| (name.clone(), Arc::clone(state))).collect()
    }

    /// The watermark: the sorted tables have the log's changes up to this sequence number; 0 at the beginning.
    pub(crate) fn watermark(&self) -> Result<u64, TablesError> {
        Ok(self.stored_meta()?.0)
    }

    /// Approximate size of pending changes in memory, in bytes.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.states().values().map(|state| state.pending().bytes()).sum()
    }

    /// Writes all pending changes as sorted tables, and then the watermark. Only the writer calls this.
    pub(crate) fn flush(&self, watermark: u64) -> Result<(), TablesError> {
        let states = self.all();
        let fail = |error| self.fail(error);
        for (_, state) in &states {
            state.flush().map_err(fail)?;
        }
        let mut value = watermark.to_le_bytes().to_vec();
        value.extend_from_slice(
            states.iter().map(|(name, _)| &**name).collect::<Vec<_>>().join(",").as_bytes(),
        );
        let mut meta = self.meta.start_ingestion().map_err(fail)?;
        meta.write(WATERMARK_KEY, value).map_err(fail)?;
        meta.finish().map_err(fail)?;
        // From here on the log may drop records that the tables contain.
        lsm::note(&directory_of(&self.path))
            .map_err(|source| TablesError::io(DatabaseKind::Store, &self.path, source))?;
        for (_, state) in &states {
            self.wait_for_merging(&state.keyspace)?;
        }
        Ok(())
    }

    /// The sum of a figure over the tables that are kept in memory.
    pub(crate) fn resident(&self, figure: impl Fn(&Resident) -> u64) -> u64 {
        self.states().values().filter_map(|state| state.resident()).map(figure).sum()
    }

    pub(crate) fn disk_bytes(&self) -> u64 {
        self.states().values().map(|state| state.keyspace.disk_space()).sum()
    }

    pub(crate) fn fail(&self, error: lsm::Error) -> TablesError {
        TablesError::of_fault(DatabaseKind::Store, &self.path, error.into())
    }

    pub(crate) fn damaged(&self, detail: &str) -> TablesError {
        TablesError::damaged(DatabaseKind::Store, &self.path, detail)
    }

    fn states(&self) -> MutexGuard<'_, BTreeMap<String, Arc<TableState>>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The watermark, and the names of the tables at the time of writing.
    fn stored_meta(&self) -> Result<(u64, Vec<String>), TablesError> {
        let Some(value) = self.meta.get(WATERMARK_KEY).map_err(|error| self.fail(error))? else {
            return Ok((0, Vec::new()));
        };
        let malformed = || self.damaged("the watermark is malformed");
        let (watermark, names) = value.split_first_chunk::<8>().ok_or_else(malformed)?;
        let names = std::str::from_utf8(names).map_err(|_| malformed())?;
        let names = names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Ok((u64::from_le_bytes(*watermark), names))
    }

    fn wait_for_merging(&self, keyspace: &Keyspace) -> Result<(), TablesError> {
        wait_for_merging(keyspace, UNMERGED_TABLES_MAX, || {
            // There is nothing to persist, but this reports whether merging has failed permanently.
            self.database.persist(PersistMode::Buffer).map_err(|error| self.fail(error))
        })
    }
}

impl StoreOptions {
    fn tuning(&self) -> Tuning {
        let Self { block_bytes, compress, unmerged_tables, table_bytes, .. } = *self;
        Tuning { block_bytes, compress, unmerged_tables, table_bytes }
    }
}

fn directory_of(store: &Path) -> PathBuf {
    store.join("tables")
}

fn open_database(
    path: &Path,
    directory: &Path,
    options: &StoreOptions,
) -> Result<(Database, Keyspace), TablesError> {
    let opened = lsm::open(directory, DatabaseKind::Store.remedy(), || {
        let database = Database::builder(directory)
            .cache_size(options.cache_bytes)
            .max_cached_files(Some(OPEN_FILES_MAX))
            .worker_threads(1)
            .open()?;
        let meta = database.keyspace(META, || options.tuning().options())?;
        Ok((database, meta))
    });
    opened.map_err(|fault| TablesError::of_fault(DatabaseKind::Store, path, fault))
}
