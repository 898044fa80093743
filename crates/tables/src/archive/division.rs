//! A division: the transfers that finished within a range of the journal, in a separate store.

use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use upesi_journal::durable;
use upesi_types::{Timestamp, TransferId};

use crate::TablesError;
use crate::archive::filter::Filter;
use crate::archive::filter_file::{self, Identity};
use crate::archive::keyspace::{self, Store, StoreResources, Watermark, store_damaged, store_error};
use crate::archive::layout::filter_path;
use crate::archive::{ArchiveOptions, Division as DivisionInfo};
use crate::beside::with_suffix;
use crate::lsm::Slice;

/// Number of ids that are added to a filter together.
const IDS_AT_ONCE: usize = 512;

/// Only the youngest division is written to; merging is the only change of the others.
pub(crate) struct Division {
    /// Its directory; the file of the filter is next to it.
    pub(crate) path: PathBuf,
    /// The first journal sequence number whose finished transfers are here. It is the name of the directory.
    pub(crate) first_seq: u64,
    pub(crate) store: Store,
    watermark: AtomicU64,
    time_ns: AtomicI64,
    /// Entries written since its creation; an entry that was written twice counts twice.
    entries: AtomicU64,
    filter: OnceLock<Filter>,
    is_filter_ready: AtomicBool,
    /// Set once there is a younger division.
    is_closed: AtomicBool,
    /// The files are declared after the store, because the store must be closed before they are deleted.
    files: Files,
}

/// The files of a division; they are deleted with it if it was removed.
struct Files {
    path: PathBuf,
    is_doomed: AtomicBool,
}

impl Drop for Files {
    fn drop(&mut self) {
        if !self.is_doomed.load(Ordering::Acquire) {
            return;
        }
        // The next start removes the remaining files, because the archive's beginning is already recorded.
        if let Err(error) = remove_files(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove the files of an archive division");
        }
    }
}

impl Division {
    pub(crate) fn open(
        path: PathBuf,
        first_seq: u64,
        shared: &StoreResources,
        options: &ArchiveOptions,
    ) -> Result<Self, TablesError> {
        let store = keyspace::open(&path, shared, options)?;
        let mark = store.mark(&path)?;
        Ok(Self {
            first_seq,
            watermark: AtomicU64::new(mark.watermark),
            time_ns: AtomicI64::new(mark.time.as_ns()),
            entries: AtomicU64::new(store.keyspace.approximate_len() as u64),
            store,
            files: Files { path: path.clone(), is_doomed: AtomicBool::new(false) },
            path,
            filter: OnceLock::new(),
            is_filter_ready: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        })
    }

    /// Creates an empty division durably.
    pub(crate) fn create(
        path: PathBuf,
        first_seq: u64,
        shared: &StoreResources,
        options: &ArchiveOptions,
    ) -> Result<Self, TablesError> {
        keyspace::create(&path, shared, options)?;
        Self::open(path, first_seq, shared, options)
    }

    pub(crate) fn watermark(&self) -> u64 {
        self.watermark.load(Ordering::Acquire)
    }

    pub(crate) fn time(&self) -> Timestamp {
        Timestamp::from_ns(self.time_ns.load(Ordering::Acquire))
    }

    pub(crate) fn mark(&self) -> Watermark {
        Watermark { watermark: self.watermark(), time: self.time() }
    }

    /// Deletes the division's files once its last user is gone.
    pub(crate) fn doom(&self) {
        self.files.is_doomed.store(true, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    pub(crate) fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    pub(crate) fn info(&self) -> DivisionInfo {
        let time = self.time();
        DivisionInfo {
            first_seq: self.first_seq,
            watermark: self.watermark(),
            last_time: (time != Timestamp::EPOCH).then_some(time),
            transfers_estimate: self.entries(),
            is_closed: self.is_closed(),
        }
    }

    pub(crate) fn close_for_writing(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn get(&self, id: &TransferId) -> Result<Option<Vec<u8>>, TablesError> {
        let found = self.store.keyspace.get(id.to_bytes()).map_err(|error| store_error(&self.path, error))?;
        Ok(found.map(|value| value.to_vec()))
    }

    /// Without the filter any transfer may be there.
    pub(crate) fn may_contain(&self, id: &TransferId) -> bool {
        !self.is_filter_ready.load(Ordering::Acquire)
            || self.filter.get().is_none_or(|filter| filter.may_contain(id))
    }

    pub(crate) fn is_filter_ready(&self) -> bool {
        self.is_filter_ready.load(Ordering::Acquire)
    }

    pub(crate) fn filter_bytes(&self) -> usize {
        self.filter.get().map_or(0, Filter::bytes)
    }

    /// Writes rows, which must be ordered by key and unique.
    pub(crate) fn write(
        &self,
        rows: &[([u8; 17], &[u8])],
        mark: Option<Watermark>,
        options: &ArchiveOptions,
    ) -> Result<(), TablesError> {
        self.store.write_table(rows, mark).map_err(|error| store_error(&self.path, error))?;
        self.entries.fetch_add(rows.len() as u64, Ordering::Relaxed);
        if let Some(mark) = mark {
            self.time_ns.store(mark.time.as_ns(), Ordering::Release);
            self.watermark.store(mark.watermark, Ordering::Release);
        }
        self.store.wait_for_merging(options);
        Ok(())
    }

    /// The current state of a division that may still grow: each new table or merge changes it.
    fn growing_identity(&self) -> Identity {
        Identity {
            first_seq: self.first_seq,
            watermark: self.watermark(),
            entries: self.store.keyspace.approximate_len() as u64,
            bytes: self.store.keyspace.disk_space(),
        }
    }

    fn closed_identity(&self) -> Identity {
        Identity { first_seq: self.first_seq, watermark: self.watermark(), entries: 0, bytes: 0 }
    }

    pub(crate) fn filter_path(&self) -> PathBuf {
        filter_path(&self.path)
    }

    /// Begins the filter of the growing division: with the filter of the last close if nothing has happened since,
    /// otherwise empty, to be filled by [`build_filter`](Self::build_filter). It has space for `keys`.
    pub(crate) fn begin_filter(&self, segment_keys_min: usize, keys: usize) -> std::io::Result<()> {
        let path = self.filter_path();
        let kept = filter_file::load(&path, self.growing_identity());
        // That file lacks the ids that are written from now on. If its removal is lost, its identity does not match.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            other => other.and_then(|()| durable::sync_parent(&path))?,
        }
        let is_ready = kept.is_some() || self.entries() == 0;
        let _ = self.filter.set(kept.unwrap_or_else(|| Filter::with_segments_of(segment_keys_min, keys)));
        self.is_filter_ready.store(is_ready, Ordering::Release);
        Ok(())
    }

    /// Sets the complete filter of a new division.
    pub(crate) fn take_filter(&self, filter: Filter) {
        let _ = self.filter.set(filter);
        self.is_filter_ready.store(true, Ordering::Release);
    }

    /// Stores the filter of a division that no longer grows; a failure costs only time at the next start.
    pub(crate) fn keep_filter(&self) {
        let Some(filter) = self.filter.get().filter(|_| self.is_filter_ready()) else { return };
        let is_closed = self.is_closed();
        let identity = if is_closed { self.closed_identity() } else { self.growing_identity() };
        if let Err(error) = filter_file::save(&self.filter_path(), identity, filter) {
            tracing::debug!(%error, path = %self.path.display(), "cannot store the archive's filter");
        }
    }

    /// Adds an id that is about to be written.
    pub(crate) fn note<'a>(&self, ids: impl IntoIterator<Item = &'a TransferId>) {
        if let Some(filter) = self.filter.get() {
            filter.insert(ids);
        }
    }

    /// Makes the filter ready: from its file, or from the tables, which takes half a second per million. Returns early
    /// if `stop` is set.
    pub(crate) fn build_filter(&self, stop: &AtomicBool) -> Result<(), TablesError> {
        if self.is_filter_ready() {
            return Ok(());
        }
        let is_growing = self.filter.get().is_some();
        if !is_growing {
            if let Some(filter) = filter_file::load(&self.filter_path(), self.closed_identity()) {
                let _ = self.filter.set(filter);
                self.is_filter_ready.store(true, Ordering::Release);
                return Ok(());
            }
            let _ = self.filter.set(Filter::with_capacity(self.entries() as usize));
        }
        let mut ids = Vec::with_capacity(IDS_AT_ONCE);
        self.visit(&mut |id, _| {
            ids.push(id);
            if ids.len() == IDS_AT_ONCE {
                self.note(&ids);
                ids.clear();
            }
            if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        self.note(&ids);
        if !stop.load(Ordering::Relaxed) {
            self.is_filter_ready.store(true, Ordering::Release);
            if self.is_closed() {
                self.keep_filter();
            }
        }
        Ok(())
    }

    /// The division's transfers, in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<(TransferId, Slice), TablesError>> + '_ {
        self.iter_behind(None)
    }

    /// The division's transfers after a given one.
    pub(crate) fn iter_behind(
        &self,
        after: Option<TransferId>,
    ) -> impl Iterator<Item = Result<(TransferId, Slice), TablesError>> + '_ {
        let lower = after.map_or(Bound::Unbounded, |id| Bound::Excluded(id.to_bytes()));
        let range = self.store.keyspace.range::<[u8; 17], _>((lower, Bound::Unbounded));
        range.filter_map(|guard| match guard.into_inner() {
            Err(error) => Some(Err(store_error(&self.path, error))),
            Ok((key, _)) if *key == keyspace::WATERMARK_KEY => None,
            Ok((key, value)) => {
                let id = <[u8; 17]>::try_from(&*key).ok().and_then(|key| TransferId::from_key(&key));
                let what = || {
                    store_damaged(&self.path, &format!("a key of {} bytes is not a transfer id", key.len()))
                };
                Some(id.map(|id| (id, value)).ok_or_else(what))
            }
        })
    }

    pub(crate) fn visit(
        &self,
        visit: &mut dyn FnMut(TransferId, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TablesError> {
        for entry in self.iter() {
            let (id, value) = entry?;
            if visit(id, &value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Removes the files of a division that is not open. After a crash it is complete or absent.
pub(crate) fn remove_files(path: &Path) -> std::io::Result<()> {
    let removed = with_suffix(path, ".removed");
    std::fs::rename(path, &removed)?;
    durable::sync_parent(path)?;
    let _ = std::fs::remove_file(filter_path(path));
    std::fs::remove_dir_all(&removed)
}
