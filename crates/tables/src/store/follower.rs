//! The store of a follower: other code writes its log, a copy of the leader's, until this node becomes leader.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use upesi_journal::{Access, Appender, Disk, Reader, RealDisk, durable};

use crate::store::recovery::{journal_options, open_tables};
use crate::store::tables::Tables;
use crate::store::{Store, StoreOptions, record};
use crate::{DatabaseKind, TablesError};

/// The right to append to a store's log, and the end of the log.
pub struct StoreEnd {
    /// Appends after the last record.
    pub appender: Box<dyn Appender>,
    /// The last record; 0 if there is none.
    pub last_seq: u64,
    /// Its time, in nanoseconds since 1970.
    pub last_time_ns: i64,
}

/// A store that accepts no updates: it shows the content of its log. The code that follows the cluster writes that log.
pub struct StoreFollower {
    path: PathBuf,
    options: StoreOptions,
    disk: Arc<dyn Disk>,
    pub(super) tables: Arc<Tables>,
    reader: Reader,
    watermark: u64,
    pub(super) shown: u64,
}

impl StoreFollower {
    /// Opens the store in `path`, and creates it if it does not exist. Does not open its log.
    ///
    /// # Errors
    /// The tables are damaged, or in use.
    pub fn open(path: impl AsRef<Path>, options: &StoreOptions) -> Result<Self, TablesError> {
        let path = path.as_ref().to_path_buf();
        durable::create_directory(&path)
            .map_err(|source| TablesError::io(DatabaseKind::Store, &path, source))?;
        let (tables, watermark) = open_tables(&path, options)?;
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(&path, Access::Write));
        let reader = Reader::new(Arc::clone(&disk), watermark + 1);
        let (tables, options) = (Arc::new(tables), options.clone());
        Ok(Self { path, options, disk, tables, reader, watermark, shown: watermark })
    }

    /// Creates the tables that a leader will need: each costs several syncs of the disk.
    ///
    /// # Errors
    /// A table cannot be created.
    pub fn prepare(&self, tables: &[&str]) -> Result<(), TablesError> {
        tables.iter().try_for_each(|name| self.tables.table(name).map(drop))
    }

    /// The disk of the log.
    pub fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    /// Options for opening the log.
    pub fn journal_options(&self) -> upesi_journal::Options {
        journal_options(&self.options, self.watermark)
    }

    /// Shows the records up to `seq`, which must be in the log. Occasionally writes them as sorted tables, and shortens
    /// the log.
    ///
    /// # Errors
    /// The log cannot be read, or the tables cannot be written.
    pub fn follow_to(&mut self, seq: u64) -> Result<(), TablesError> {
        self.show_to(seq)?;
        if self.shown < seq {
            let detail = format!("the log ends at record {}, but record {seq} was written", self.shown);
            return Err(self.tables.damaged(&detail));
        }
        Ok(())
    }

    /// Shows the records up to `seq`, as far as the log has them.
    pub(super) fn show_to(&mut self, seq: u64) -> Result<(), TablesError> {
        let of_journal = |error| TablesError::of_journal(&self.path, error);
        while self.shown < seq
            && let Some(found) = self.reader.next_record(seq).map_err(of_journal)?
        {
            record::show(&self.tables, found.seq, found.bytes)?;
            self.shown = found.seq;
            if self.tables.pending_bytes() >= self.options.pending_bytes {
                self.tables.flush(self.shown)?;
                self.watermark = self.shown;
                upesi_journal::delete_segments_below(&*self.disk, self.watermark + 1).map_err(of_journal)?;
            }
        }
        Ok(())
    }

    /// Converts it to the store of a leader. First shows the rest of the log.
    ///
    /// # Errors
    /// The errors of [`Self::follow_to`].
    pub fn lead(mut self, end: StoreEnd) -> Result<Store, TablesError> {
        self.follow_to(end.last_seq)?;
        Store::start(self.path, self.disk, self.tables, &self.options, end)
    }
}
