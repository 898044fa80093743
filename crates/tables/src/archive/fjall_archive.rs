//! The archive on disk: divisions, each a separate store, with a filter and a pending batch in front.
//!
//! Applied transfers gather in memory until there are enough for a table, which is then written sorted by bulk
//! ingestion. The store's own journal and memtable are not used: the archive is derived from Upesi's journal, so
//! transfers that a crash removes from memory are applied again. A table and the watermark inside it become visible and
//! durable together, and a restart has nothing to replay.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::thread::JoinHandle;

use upesi_types::{Timestamp, TransferId};

use crate::archive::division::Division;
use crate::archive::filter::SEGMENT_KEYS_MIN;
use crate::archive::keyspace::{StoreResources, Watermark, damaged};
use crate::archive::layout::Layout;
use crate::archive::{
    Archive, ArchiveEntry, ArchiveOptions, ArchivePosition, ArchiveStats, DivisionOrder, check_values,
    layout, merged, settling,
};
use crate::{DatabaseKind, TablesError};

/// Pending transfers are copied in portions of this size, so that a lookup waits for microseconds at most.
const PENDING_CHUNK: usize = 512;
/// Up to this size the filter is rebuilt during `open`, within milliseconds.
const FILTER_INLINE_TRANSFERS: u64 = 50_000;

/// An [`Archive`] in a directory. Closing it writes no transfer: call [`Archive::sync`] to store pending ones.
pub struct FjallArchive {
    inner: Arc<Inner>,
    /// Threads that load filters and settle divisions.
    upkeep: Mutex<Vec<JoinHandle<()>>>,
}

type Divisions = Arc<Vec<Arc<Division>>>;

struct Inner {
    path: PathBuf,
    options: ArchiveOptions,
    shared: StoreResources,
    /// The oldest first, at least one.
    divisions: RwLock<Divisions>,
    watermark: AtomicU64,
    watermark_applied: AtomicU64,
    /// Time of the record `watermark_applied`.
    time_applied_ns: AtomicI64,
    /// Held while transfers are applied or synced, and while divisions begin or are removed.
    writer: Mutex<()>,
    pending: RwLock<HashMap<TransferId, Vec<u8>>>,
    /// Size of the pending values, and of the values that they replaced.
    pending_bytes: AtomicUsize,
    /// Held by the thread that does the housekeeping.
    upkeep: Mutex<()>,
    closing: AtomicBool,
}

impl FjallArchive {
    /// Opens the archive in `path`, and creates it if it does not exist. Even a large archive opens in milliseconds: a
    /// thread loads its filters, and until then lookups of absent ids read the stores.
    pub fn open(path: impl AsRef<Path>, options: &ArchiveOptions) -> Result<Self, TablesError> {
        let path = path.as_ref().to_path_buf();
        let shared = StoreResources::new(options);
        let divisions = open_divisions(&path, &shared, options)?;
        let newest = divisions.iter().rev().find(|division| division.watermark() > 0);
        let (watermark, time) = newest.map_or((0, Timestamp::EPOCH), |last| (last.watermark(), last.time()));
        // A division begins after the durable watermark, even if all others were removed.
        let watermark = divisions.last().map_or(0, |last| last.first_seq.saturating_sub(1)).max(watermark);
        let inner = Arc::new(Inner {
            path,
            options: options.clone(),
            shared,
            divisions: RwLock::new(Arc::new(divisions)),
            watermark: AtomicU64::new(watermark),
            watermark_applied: AtomicU64::new(watermark),
            time_applied_ns: AtomicI64::new(time.as_ns()),
            writer: Mutex::new(()),
            pending: RwLock::default(),
            pending_bytes: AtomicUsize::new(0),
            upkeep: Mutex::new(()),
            closing: AtomicBool::new(false),
        });
        inner.begin_filter(&inner.growing())?;
        let entries: u64 = inner.divisions().iter().map(|division| division.entries()).sum();
        let is_small = entries <= FILTER_INLINE_TRANSFERS;
        if is_small {
            inner.build_filters()?;
        }
        let archive = Self { inner, upkeep: Mutex::default() };
        if !is_small || archive.inner.divisions().len() > 1 {
            archive.start_upkeep()?;
        }
        Ok(archive)
    }

    /// Loads filters and settles closed divisions on a separate thread; only one works at a time.
    fn start_upkeep(&self) -> Result<(), TablesError> {
        let inner = Arc::clone(&self.inner);
        let work = move || {
            if let Err(error) = inner.keep_up() {
                // Lookups read the stores, which report the error to their callers; the next start tries again.
                tracing::warn!(%error, "archive maintenance failed; it is retried at the next start");
            }
        };
        let thread = std::thread::Builder::new().name("archive-upkeep".to_owned()).spawn(work);
        let mut threads = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread.map_err(|source| self.inner.fail(source))?);
        Ok(())
    }

    fn begin_division(&self) -> Result<(), TablesError> {
        if self.inner.begin_division()? { self.start_upkeep() } else { Ok(()) }
    }
}

impl Drop for FjallArchive {
    fn drop(&mut self) {
        self.inner.closing.store(true, Ordering::Relaxed);
        for thread in self.upkeep.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // After a panic there a filter is not ready or a division not settled, which is safe; but the panic must
            // not stay unnoticed.
            if let (Err(panic), false) = (thread.join(), std::thread::panicking()) {
                std::panic::resume_unwind(panic);
            }
        }
        let growing = self.inner.growing();
        if growing.entries() > FILTER_INLINE_TRANSFERS {
            growing.keep_filter();
        }
    }
}

/// Opens the divisions and checks that none is missing in between.
fn open_divisions(
    path: &Path,
    shared: &StoreResources,
    options: &ArchiveOptions,
) -> Result<Vec<Arc<Division>>, TablesError> {
    let mut divisions: Vec<Arc<Division>> = Vec::new();
    let Layout { begins, divisions: paths } = layout::prepare(path)?;
    if let (Some((&first, _)), true) = (paths.first_key_value(), begins > 1)
        && first != begins
    {
        return Err(damaged(path, &format!("it begins at record {begins}, its first division at {first}")));
    }
    for (first_seq, path_of_division) in paths {
        let division = Division::open(path_of_division, first_seq, shared, options)?;
        if let Some(previous) = divisions.last() {
            if previous.watermark() + 1 != first_seq {
                let (end, next) = (previous.watermark(), first_seq);
                return Err(damaged(
                    path,
                    &format!("a division ends at record {end}, the next begins at {next}"),
                ));
            }
            previous.close_for_writing();
        }
        divisions.push(Arc::new(division));
    }
    if divisions.is_empty() {
        let first = layout::division_path(path, begins);
        divisions.push(Arc::new(Division::create(first, begins, shared, options)?));
    }
    Ok(divisions)
}

impl Inner {
    fn fail(&self, source: std::io::Error) -> TablesError {
        TablesError::io(DatabaseKind::Archive, &self.path, source)
    }

    fn writer(&self) -> MutexGuard<'_, ()> {
        // The lock guards no data; the maps behind it are consistent after every call.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending(&self) -> RwLockReadGuard<'_, HashMap<TransferId, Vec<u8>>> {
        self.pending.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn divisions(&self) -> Divisions {
        Arc::clone(&self.divisions.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set_divisions(&self, divisions: Vec<Arc<Division>>) {
        *self.divisions.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(divisions);
    }

    fn growing(&self) -> Arc<Division> {
        let divisions = self.divisions();
        Arc::clone(&divisions[divisions.len() - 1])
    }

    /// A small archive begins with a small filter. If there are several divisions, each one grows to its limit.
    fn begin_filter(&self, division: &Division) -> Result<(), TablesError> {
        let is_first = division.first_seq == 1;
        let keys_max = self.options.division_transfers;
        let keys = if is_first { division.entries() } else { keys_max };
        let segment_keys_min = SEGMENT_KEYS_MIN.min(keys_max as usize);
        division.begin_filter(segment_keys_min, keys as usize).map_err(|source| self.fail(source))
    }

    fn build_filters(&self) -> Result<(), TablesError> {
        for division in self.divisions().iter() {
            division.build_filter(&self.closing)?;
        }
        Ok(())
    }

    /// Loads filters and settles closed divisions, after another thread that is doing so.
    fn keep_up(&self) -> Result<(), TablesError> {
        let _turn = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        self.build_filters()?;
        self.settle()
    }

    fn gather(&self, entries: &[ArchiveEntry]) {
        for chunk in entries.chunks(PENDING_CHUNK) {
            let mut pending = self.pending.write().unwrap_or_else(PoisonError::into_inner);
            pending.extend(chunk.iter().map(|(id, value)| (*id, value.clone())));
        }
        self.pending_bytes.fetch_add(value_bytes(entries), Ordering::Relaxed);
    }

    /// Drops the pending transfers.
    fn clear_pending(&self) {
        let cleared = std::mem::take(&mut *self.pending.write().unwrap_or_else(PoisonError::into_inner));
        // Freed without the lock, so that lookups can continue.
        drop(cleared);
        self.pending_bytes.store(0, Ordering::Relaxed);
    }

    /// Whether these entries may be added to the pending ones; the caller holds the writer's lock.
    fn has_room_for(&self, entries: &[ArchiveEntry]) -> bool {
        let bytes = self.pending_bytes.load(Ordering::Relaxed) + value_bytes(entries);
        self.pending().len() + entries.len() < self.pending_transfers() && bytes < self.options.pending_bytes
    }

    /// Writes the pending transfers and `entries` as tables, with the watermark in the last one.
    fn write(&self, entries: &[ArchiveEntry], mark: Watermark) -> Result<(), TablesError> {
        let division = self.growing();
        let pending = self.pending();
        let mut rows: Vec<([u8; 17], &[u8])> = Vec::with_capacity(pending.len() + entries.len());
        rows.extend(entries.iter().rev().map(|(id, value)| (id.to_bytes(), value.as_slice())));
        rows.extend(pending.iter().map(|(id, value)| (id.to_bytes(), value.as_slice())));
        // The newest of equal ids comes first, the sort is stable, and the first of equals is retained.
        rows.sort_by_key(|row| row.0);
        rows.dedup_by_key(|row| row.0);
        // There is more than one table only for a very large batch. The earlier ones may survive a crash without the
        // watermark; applying them again is harmless.
        let tables = rows.len().div_ceil(self.pending_transfers() * 2).max(1);
        let rows_per_table = rows.len().div_ceil(tables).max(1);
        let mut chunks = rows.chunks(rows_per_table).peekable();
        loop {
            let chunk = chunks.next().unwrap_or_default();
            let last = chunks.peek().is_none();
            division.write(chunk, last.then_some(mark), &self.options)?;
            if last {
                break;
            }
        }
        drop(rows);
        drop(pending);
        self.clear_pending();
        self.watermark.store(mark.watermark, Ordering::Release);
        Ok(())
    }

    fn pending_transfers(&self) -> usize {
        self.options.pending_transfers.max(1)
    }

    fn mark_applied(&self) -> Watermark {
        Watermark {
            watermark: self.watermark_applied.load(Ordering::Acquire),
            time: Timestamp::from_ns(self.time_applied_ns.load(Ordering::Acquire)),
        }
    }

    /// Writes the pending transfers; the caller holds the writer's lock.
    fn flush(&self) -> Result<u64, TablesError> {
        let mark = self.mark_applied();
        if mark.watermark > self.watermark.load(Ordering::Relaxed) || !self.pending().is_empty() {
            self.write(&[], mark)?;
        }
        Ok(mark.watermark)
    }

    /// Begins the next division after the durable watermark, unless the current one is empty. Nothing may be pending,
    /// and the caller holds the writer's lock.
    fn begin_division(&self) -> Result<bool, TablesError> {
        let growing = self.growing();
        if growing.watermark() < growing.first_seq {
            return Ok(false);
        }
        let first_seq = growing.watermark() + 1;
        let next = self.new_division(first_seq)?;
        let mut divisions = self.divisions().to_vec();
        divisions.push(next);
        self.set_divisions(divisions);
        // Only now, because nothing can be added to it any longer.
        growing.close_for_writing();
        growing.keep_filter();
        Ok(true)
    }

    fn new_division(&self, first_seq: u64) -> Result<Arc<Division>, TablesError> {
        let path = layout::division_path(&self.path, first_seq);
        let division = Division::create(path, first_seq, &self.shared, &self.options)?;
        self.begin_filter(&division)?;
        Ok(Arc::new(division))
    }

    /// Rewrites closed divisions in order, and replaces the old ones.
    fn settle(&self) -> Result<(), TablesError> {
        for division in self.divisions().iter().filter(|division| settling::is_due(division)) {
            let Some(settled) = settling::settle(division, &self.shared, &self.options, &self.closing)?
            else {
                return Ok(());
            };
            let _writer = self.writer();
            let settled = Arc::new(settled);
            let mut divisions = self.divisions().to_vec();
            // The division may have been removed meanwhile; then the settled one is also removed.
            match divisions.iter_mut().find(|present| present.first_seq == division.first_seq) {
                Some(present) => *present = settled,
                None => settled.doom(),
            }
            division.doom();
            self.set_divisions(divisions);
        }
        Ok(())
    }
}

fn value_bytes(entries: &[ArchiveEntry]) -> usize {
    entries.iter().map(|(_, value)| value.len()).sum()
}

impl Archive for FjallArchive {
    fn get(&self, id: &TransferId) -> Result<Option<Vec<u8>>, TablesError> {
        if !self.may_contain(id) {
            return Ok(None);
        }
        // Pending first: a transfer leaves there only after a store has it.
        if let Some(value) = self.inner.pending().get(id) {
            return Ok(Some(value.clone()));
        }
        for division in self.inner.divisions().iter().rev().filter(|division| division.may_contain(id)) {
            if let Some(found) = division.get(id)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn may_contain(&self, id: &TransferId) -> bool {
        // The lock is held briefly when a division begins or is removed, never during disk access.
        let divisions = self.inner.divisions.read().unwrap_or_else(PoisonError::into_inner);
        divisions.iter().any(|division| division.may_contain(id))
    }

    fn apply(&self, entries: &[ArchiveEntry], watermark: u64) -> Result<(), TablesError> {
        self.apply_at(entries, watermark, Timestamp::EPOCH)
    }

    fn apply_at(&self, entries: &[ArchiveEntry], watermark: u64, time: Timestamp) -> Result<(), TablesError> {
        check_values(entries)?;
        let inner = &*self.inner;
        let _writer = inner.writer();
        let applied = inner.mark_applied();
        let mark = Watermark { watermark: watermark.max(applied.watermark), time: time.max(applied.time) };
        let growing = inner.growing();
        // Before the entries themselves, so that every lookup that finds an entry also passes the filter.
        growing.note(entries.iter().map(|(id, _)| id));
        if inner.has_room_for(entries) {
            inner.gather(entries);
        } else {
            inner.write(entries, mark)?;
        }
        inner.time_applied_ns.store(mark.time.as_ns(), Ordering::Release);
        inner.watermark_applied.store(mark.watermark, Ordering::Release);
        if growing.entries() >= inner.options.division_transfers && inner.pending().is_empty() {
            self.begin_division()?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<u64, TablesError> {
        let _writer = self.inner.writer();
        self.inner.flush()
    }

    fn watermark(&self) -> u64 {
        self.inner.watermark.load(Ordering::Acquire)
    }

    fn watermark_applied(&self) -> u64 {
        self.inner.watermark_applied.load(Ordering::Acquire)
    }

    fn stats(&self) -> ArchiveStats {
        let inner = &*self.inner;
        let mut stats = ArchiveStats {
            transfers_estimate: inner.pending().len() as u64,
            filter_ready: true,
            ..ArchiveStats::default()
        };
        for division in inner.divisions().iter() {
            stats.transfers_estimate += division.entries();
            stats.disk_bytes += division.store.keyspace.disk_space();
            stats.unmerged_tables += division.store.keyspace.l0_table_count() as u64;
            stats.filter_bytes += division.filter_bytes() as u64;
            stats.filter_ready &= division.is_filter_ready();
        }
        stats
    }

    fn for_each(
        &self,
        visit: &mut dyn FnMut(TransferId, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TablesError> {
        // Pending transfers are written first, so that there is one source in one order.
        self.sync()?;
        merged::visit(&self.inner.divisions(), visit)
    }

    fn visit_behind(
        &self,
        place: ArchivePosition,
        since: Timestamp,
        order: DivisionOrder,
        visit: &mut dyn FnMut(ArchivePosition, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TablesError> {
        if place == ArchivePosition::default() {
            // Pending transfers are written first, once for all visits that continue this one.
            self.sync()?;
        }
        let mut divisions = self.inner.divisions().to_vec();
        if order == DivisionOrder::YoungestFirst {
            divisions.reverse();
        }
        let is_behind = |division: &Division| match order {
            DivisionOrder::OldestFirst => division.first_seq >= place.division,
            DivisionOrder::YoungestFirst => place.division == 0 || division.first_seq <= place.division,
        };
        let is_wanted = |division: &&Arc<Division>| {
            is_behind(division) && division.info().last_time.is_none_or(|last_time| last_time >= since)
        };
        for division in divisions.iter().filter(is_wanted) {
            let after = place.after.filter(|_| division.first_seq == place.division);
            for entry in division.iter_behind(after) {
                let (id, value) = entry?;
                let here = ArchivePosition { division: division.first_seq, after: Some(id) };
                if visit(here, &value).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn divisions(&self) -> Vec<crate::archive::Division> {
        self.inner.divisions().iter().map(|division| division.info()).collect()
    }

    fn divide(&self) -> Result<(), TablesError> {
        let _writer = self.inner.writer();
        self.inner.flush()?;
        self.begin_division()
    }

    fn finish_upkeep(&self) -> Result<(), TablesError> {
        self.inner.keep_up()
    }

    fn for_each_in(
        &self,
        first_seq: u64,
        visit: &mut dyn FnMut(TransferId, &[u8]) -> ControlFlow<()>,
    ) -> Result<bool, TablesError> {
        self.sync()?;
        match self.inner.divisions().iter().find(|division| division.first_seq == first_seq) {
            None => Ok(false),
            Some(division) => division.visit(visit).map(|()| true),
        }
    }

    fn remove_to(&self, seq: u64) -> Result<u64, TablesError> {
        let inner = &*self.inner;
        let _writer = inner.writer();
        let divisions = inner.divisions();
        let is_over = |division: &&Arc<Division>| division.is_closed() && division.watermark() <= seq;
        let mut leaving = divisions.iter().take_while(is_over).count();
        // All transfers are removed, and later ones begin after them.
        let is_all = leaving + 1 == divisions.len() && inner.mark_applied().watermark <= seq;
        leaving += usize::from(is_all && inner.growing().first_seq <= seq);
        let Some(oldest) = divisions.get(..leaving).filter(|oldest| !oldest.is_empty()) else { return Ok(0) };
        let mut staying = divisions[leaving..].to_vec();
        let begins = staying.first().map_or(seq + 1, |first| first.first_seq);
        layout::set_begin(&inner.path, begins).map_err(|source| inner.fail(source))?;
        if staying.is_empty() {
            staying.push(inner.new_division(begins)?);
            inner.clear_pending();
            inner.watermark.store(seq, Ordering::Release);
            inner.watermark_applied.store(seq, Ordering::Release);
        }
        inner.set_divisions(staying);
        oldest.iter().for_each(|division| division.doom());
        Ok(leaving as u64)
    }
}
