//! The archive alone: finished transfers are stored as the archivist stores them, then looked up, both existing and
//! unknown ones.

use std::path::Path;
use std::time::{Duration, Instant};

use upesi_sim::{id_of, mix};
use upesi_tables::archive::{Archive, ArchiveEntry, ArchiveOptions, FjallArchive};
use upesi_types::TransferId;

use super::measurement::{Measurement, ThreadTimes, UsedCpu, nanosecond_histogram, record, timed_stage};
use super::{Context, IsolatedError, scratch};
use crate::plan::stage::archive::Settings;
use crate::result::schema::StageResult;
use crate::result::statistics::ratio;

/// Ids from here on are never stored.
const ABSENT_FROM: u64 = 1 << 40;

const STAGES: [&str; 3] = ["archive_insert", "archive_hit", "archive_miss"];

impl Settings {
    pub(super) fn run(&self, context: &Context) -> Result<Measurement, IsolatedError> {
        let scratch = scratch(&context.scratch)?;
        let archive = self.open(&scratch.path().join("archive"))?;
        let insert = self.insert(&archive, context.seed)?;
        let synced = Instant::now();
        archive.sync()?;
        let mut sync_ns = nanosecond_histogram();
        record(&mut sync_ns, synced.elapsed());
        let hit =
            self.look_up(&archive, |index| mix(context.seed ^ index) % self.transfers, context.seed, true)?;
        let miss = self.look_up(&archive, |index| ABSENT_FROM + index, context.seed, false)?;
        let mut timed = vec![insert, hit, miss];
        let stage = |(name, timed): (&str, &Measurement)| StageResult {
            // For an insert, the applies of batches are timed.
            batch_mean: ratio(timed.completed() as f64, timed.latency_ns.len() as f64),
            ..timed_stage(name, &timed.latency_ns, timed.took())
        };
        let mut stages: Vec<_> = STAGES.into_iter().zip(&timed).map(stage).collect();
        stages.push(timed_stage("archive_sync", &sync_ns, synced.elapsed()));
        let failed = timed.iter().map(|timed| timed.failed).sum();
        let mut measurement = timed.swap_remove(self.what);
        (measurement.stages, measurement.failed) = (stages, failed);
        Ok(measurement)
    }

    fn open(&self, path: &Path) -> Result<FjallArchive, IsolatedError> {
        let options = ArchiveOptions { cache_bytes: self.cache_bytes, ..ArchiveOptions::default() };
        Ok(FjallArchive::open(path, &options)?)
    }

    /// Stores all transfers, in the requested number of repetitions. Creating the entries is not timed.
    fn insert(&self, archive: &FjallArchive, seed: u64) -> Result<Measurement, IsolatedError> {
        let mut timed = measurement();
        let mut at = 0;
        for repetition in 1..=self.repetitions as u64 {
            let end = self.transfers * repetition / self.repetitions as u64;
            let (mut latency_ns, mut took, first) = (nanosecond_histogram(), Duration::ZERO, at);
            let mut used = UsedCpu::default();
            while at < end {
                let until = (at + self.batch as u64).min(end);
                let entries: Vec<ArchiveEntry> =
                    (at..until).map(|index| (id(seed, index), value(index, self.value_bytes))).collect();
                let before = ThreadTimes::now();
                let started = Instant::now();
                archive.apply(&entries, until)?;
                let elapsed = started.elapsed();
                used.add(&before.since());
                record(&mut latency_ns, elapsed);
                took += elapsed;
                at = until;
            }
            timed.repeat(took, end - first, &latency_ns, &used);
        }
        Ok(timed)
    }

    /// Looks transfers up as the hub's edge does: the filter first, then the store.
    fn look_up(
        &self,
        archive: &FjallArchive,
        index_of: impl Fn(u64) -> u64,
        seed: u64,
        is_there: bool,
    ) -> Result<Measurement, IsolatedError> {
        let mut timed = measurement();
        let count = self.lookups / self.repetitions as u64;
        for repetition in 0..self.repetitions as u64 {
            let ids: Vec<_> =
                (0..count).map(|lookup| id(seed, index_of(repetition * count + lookup))).collect();
            let mut latency_ns = nanosecond_histogram();
            let before = ThreadTimes::now();
            let started = Instant::now();
            let mut last = started;
            for id in &ids {
                let found = archive.may_contain(id) && archive.get(id)?.is_some();
                timed.failed += u64::from(found != is_there);
                let now = Instant::now();
                record(&mut latency_ns, now - last);
                last = now;
            }
            timed.repeat(last - started, count, &latency_ns, &before.since());
        }
        Ok(timed)
    }
}

fn measurement() -> Measurement {
    Measurement::new("record", "an archive in this process")
}

fn id(seed: u64, index: u64) -> TransferId {
    id_of(mix(seed ^ index), mix(!seed ^ index))
}

/// Half of a value varies (hashes, ids, times), half repeats (participants, currency, codes).
fn value(index: u64, bytes: usize) -> Vec<u8> {
    let word = |at: usize| if at.is_multiple_of(2) { mix(index ^ (at as u64) << 50) } else { at as u64 };
    let mut value: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|at| word(at).to_le_bytes()).collect();
    value.truncate(bytes);
    value
}
