//! Settling: rewrites a closed division, in order, into a new store.
//!
//! A growing division gathers tables without merging them, because merging would cost several times as much as writing
//! them. When the division is closed, one pass rewrites it in order. Until then lookups read many tables. A crash or a
//! stop only makes the pass begin again.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::archive::ArchiveOptions;
use crate::archive::division::Division;
use crate::archive::filter::Filter;
use crate::archive::keyspace::{self, StoreResources, store_error};
use crate::archive::layout::settled_path;
use crate::beside::make_whole;
use crate::{DatabaseKind, TablesError};

/// Maximum number of tables of a division that is left unchanged.
const TABLES_MAX: usize = 8;
/// Number of ids that are added to the filter together.
const IDS_AT_ONCE: usize = 512;

/// Whether a closed division has enough tables for the pass.
pub(crate) fn is_due(division: &Division) -> bool {
    division.is_closed()
        && division.store.keyspace.l0_table_count() > TABLES_MAX
        && division.path != settled_path(&division.path)
}

/// Rewrites a closed division into a new one beside it. The new one is valid when this returns, and the old one may be
/// removed. `None` if `stop` was set.
pub(crate) fn settle(
    division: &Division,
    shared: &StoreResources,
    options: &ArchiveOptions,
    stop: &AtomicBool,
) -> Result<Option<Division>, TablesError> {
    let path = settled_path(&division.path);
    let fail = |source| TablesError::io(DatabaseKind::Archive, &path, source);
    let filter = Filter::with_capacity(division.entries() as usize);
    if !make_whole(&path, fail, |unfinished| copy(division, unfinished, &filter, shared, options, stop))? {
        return Ok(None);
    }
    let settled = Division::open(path, division.first_seq, shared, options)?;
    settled.close_for_writing();
    settled.take_filter(filter);
    settled.keep_filter();
    Ok(Some(settled))
}

fn copy(
    division: &Division,
    to: &Path,
    filter: &Filter,
    shared: &StoreResources,
    options: &ArchiveOptions,
    stop: &AtomicBool,
) -> Result<bool, TablesError> {
    let store = keyspace::open(to, shared, options)?;
    let fail = |error| store_error(&division.path, error);
    let mut table = store.keyspace.start_ingestion().map_err(fail)?;
    let mut ids = Vec::with_capacity(IDS_AT_ONCE);
    for entry in division.iter() {
        let (id, value) = entry?;
        table.write(id.to_bytes(), value).map_err(fail)?;
        ids.push(id);
        if ids.len() == IDS_AT_ONCE {
            filter.insert(&ids);
            ids.clear();
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
        }
    }
    filter.insert(&ids);
    table.write(keyspace::WATERMARK_KEY, division.mark().encode()).map_err(fail)?;
    table.finish().map_err(fail)?;
    Ok(true)
}
