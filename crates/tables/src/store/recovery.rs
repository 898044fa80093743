//! Recovery at a start: opens the sorted tables, and reads the log after their watermark.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use upesi_journal::{Disk, END, Reader, Writer};

use crate::TablesError;
use crate::store::tables::Tables;
use crate::store::{StoreOptions, record};

pub(crate) struct RecoveredStore {
    pub(crate) tables: Tables,
    /// Continues after the last record.
    pub(crate) log: Writer,
}

/// Options for opening the log. The log must reach at least to the watermark, which was taken from it.
pub(crate) fn journal_options(options: &StoreOptions, watermark: u64) -> upesi_journal::Options {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    upesi_journal::Options {
        segment_bytes: options.segment_bytes,
        identity: now.as_nanos() as u64,
        known_durable_seq: watermark,
        ..upesi_journal::Options::default()
    }
}

/// The sorted tables, and their watermark.
pub(crate) fn open_tables(path: &Path, options: &StoreOptions) -> Result<(Tables, u64), TablesError> {
    let tables = Tables::open(path, options)?;
    let watermark = tables.watermark()?;
    Ok((tables, watermark))
}

pub(crate) fn recover(
    path: &Path,
    disk: &Arc<dyn Disk>,
    options: &StoreOptions,
) -> Result<RecoveredStore, TablesError> {
    // First, because it locks the directory.
    let (tables, watermark) = open_tables(path, options)?;
    let opened = upesi_journal::open(Arc::clone(disk), journal_options(options, watermark))
        .map_err(|error| TablesError::of_journal(path, error))?;
    if let Some(torn) = &opened.recovered.torn {
        tracing::warn!(
            file = torn.file,
            offset = torn.offset,
            bytes = torn.bytes,
            "removed the remains of updates that were never acknowledged"
        );
    }
    if opened.recovered.first_seq > watermark + 1 {
        let detail = format!(
            "the tables end at record {watermark} and the log begins at {}",
            opened.recovered.first_seq
        );
        return Err(tables.damaged(&detail));
    }
    replay(path, disk, &tables, watermark + 1)?;
    Ok(RecoveredStore { tables, log: opened.writer })
}

/// Shows the log's records from `from_seq` on.
fn replay(path: &Path, disk: &Arc<dyn Disk>, tables: &Tables, from_seq: u64) -> Result<(), TablesError> {
    let mut reader = Reader::new(Arc::clone(disk), from_seq);
    while let Some(found) = reader.next_record(END).map_err(|error| TablesError::of_journal(path, error))? {
        record::show(tables, found.seq, found.bytes)?;
    }
    Ok(())
}
