//! The store of a node of a cluster: its log is a copy that others write, until this node leads.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use upesi_journal::{Access, Appender, Disk, Reader, RealDisk, durable};

use crate::store::recovery::{journal_options, open_tables};
use crate::store::tables::Tables;
use crate::store::{Store, StoreOptions, record};
use crate::{Part, TablesError};

/// The right to append to a store's log, and where the log ends.
pub struct StoreEnd {
    /// Appends behind the last record.
    pub appender: Box<dyn Appender>,
    /// The last record; 0 if there is none.
    pub last_seq: u64,
    /// Its time, in nanoseconds since 1970.
    pub last_time_ns: i64,
}

/// A store that takes no updates: it shows what its log has. Whoever follows a cluster writes that log.
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
    /// Opens the store in `path`, creating it when it does not exist. Its log is left alone.
    ///
    /// # Errors
    /// The tables are damaged, or in use.
    pub fn open(path: impl AsRef<Path>, options: &StoreOptions) -> Result<Self, TablesError> {
        let path = path.as_ref().to_path_buf();
        durable::create_directory(&path).map_err(|source| TablesError::io(Part::Store, &path, source))?;
        let (tables, watermark) = open_tables(&path, options)?;
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(&path, Access::Write));
        let reader = Reader::new(Arc::clone(&disk), watermark + 1);
        let (tables, options) = (Arc::new(tables), options.clone());
        Ok(Self { path, options, disk, tables, reader, watermark, shown: watermark })
    }

    /// Makes the tables that whoever leads will ask for: each is several syncs of the disk.
    ///
    /// # Errors
    /// A table cannot be made.
    pub fn prepare(&self, tables: &[&str]) -> Result<(), TablesError> {
        tables.iter().try_for_each(|name| self.tables.table(name).map(drop))
    }

    /// The disk of the log.
    pub fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    /// How the log is opened.
    pub fn journal_options(&self) -> upesi_journal::Options {
        journal_options(&self.options, self.watermark)
    }

    /// Shows the records up to `seq`, which the log has. Now and then they become sorted tables, and the log is
    /// shortened.
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

    /// The same, as far as the log goes.
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

    /// The store of the node that leads. What the log has is shown first.
    ///
    /// # Errors
    /// What [`Self::follow_to`] says.
    pub fn lead(mut self, end: StoreEnd) -> Result<Store, TablesError> {
        self.follow_to(end.last_seq)?;
        Store::start(self.path, self.disk, self.tables, &self.options, end)
    }
}
