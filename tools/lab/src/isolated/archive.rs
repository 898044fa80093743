//! The archive alone: finished transfers are stored as the archivist does it, then looked for, there and not there.

use std::path::Path;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use upesi_sim::mix;
use upesi_tables::archive::{Archive, ArchiveEntry, ArchiveOptions, FjallArchive, VALUE_BYTES_MAX};
use upesi_types::TransferId;

use super::measurement::{
    Measurement, ThreadTimes, UsedCpu, nanosecond_histogram, parts_of_this_process, record, timed_stage,
};
use super::settings::Keys;
use super::source::number;
use super::{Context, IsolatedError, scratch};
use crate::result::schema::Parameter;

/// An encoded finished transfer, in bytes.
const VALUE_BYTES: usize = 200;
/// Ids from here on are never stored.
const ABSENT_FROM: u64 = 1 << 40;

#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// Which figures are the result's; the others are among its stages.
    what: What,
    transfers: u64,
    value_bytes: usize,
    batch: usize,
    lookups: u64,
    cache_bytes: u64,
    repetitions: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Insert,
    Hit,
    Miss,
}

/// One kind of operation, repeated.
struct Timed {
    repetitions: Vec<(Duration, u64, Histogram<u64>)>,
    cpu: UsedCpu,
    failed: u64,
}

impl Settings {
    pub fn read(keys: &mut Keys<'_>) -> Self {
        let settings = Self {
            what: match keys.choice("what", &["insert", "hit", "miss"]) {
                "hit" => What::Hit,
                "miss" => What::Miss,
                _ => What::Insert,
            },
            transfers: keys.integer("transfers", 1..=1_000_000_000, 200_000),
            value_bytes: keys.size("value_bytes", 1..=VALUE_BYTES_MAX, VALUE_BYTES),
            batch: keys.size("batch", 1..=1_000_000, 16_384),
            lookups: keys.integer("lookups", 1..=100_000_000, 50_000),
            cache_bytes: keys.integer("cache_bytes", 1 << 20..=64 << 30, 32 << 20),
            repetitions: keys.size("repetitions", 1..=1_000, 5),
        };
        let repetitions = settings.repetitions as u64;
        if settings.transfers < repetitions || settings.lookups < repetitions {
            keys.contradiction("give at least as many transfers and lookups as repetitions".to_owned());
        }
        settings
    }

    pub fn run(&self, context: &Context) -> Result<Measurement, IsolatedError> {
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
        let mut measurement = Measurement::new("record", "an archive in this process");
        let headline = match self.what {
            What::Insert => &insert,
            What::Hit => &hit,
            What::Miss => &miss,
        };
        for (took, completed, latency_ns) in &headline.repetitions {
            measurement.repeat(*took, *completed, latency_ns);
        }
        measurement.failed = insert.failed + hit.failed + miss.failed;
        measurement.stages = [("archive_insert", &insert), ("archive_hit", &hit), ("archive_miss", &miss)]
            .map(|(name, timed)| {
                let times = timed.times();
                let mut stage = timed_stage(name, &times, timed.took());
                // Of an insert the applies are timed, each of a batch.
                let operations: u64 = timed.repetitions.iter().map(|(_, count, _)| count).sum();
                stage.batch_mean = crate::result::statistics::ratio(operations as f64, times.len() as f64);
                stage
            })
            .into();
        measurement.stages.push(timed_stage("archive_sync", &sync_ns, synced.elapsed()));
        let (wall, completed) = (measurement.took(), measurement.completed());
        measurement.processes = parts_of_this_process(&[("hub", headline.cpu.total())], wall, completed);
        measurement.parameters = vec![
            ("what", Parameter::from(["insert", "hit", "miss"][self.what as usize])),
            ("transfers", number(usize::try_from(self.transfers).unwrap_or(usize::MAX))),
            ("value_bytes", number(self.value_bytes)),
            ("batch", number(self.batch)),
        ];
        Ok(measurement)
    }

    fn open(&self, path: &Path) -> Result<FjallArchive, IsolatedError> {
        let options = ArchiveOptions { cache_bytes: self.cache_bytes, ..ArchiveOptions::default() };
        Ok(FjallArchive::open(path, &options)?)
    }

    /// Stores all transfers, in as many repetitions as asked for. Making the entries up is not timed.
    fn insert(&self, archive: &FjallArchive, seed: u64) -> Result<Timed, IsolatedError> {
        let mut timed = Timed { repetitions: Vec::new(), cpu: UsedCpu::default(), failed: 0 };
        let mut at = 0;
        for repetition in 1..=self.repetitions as u64 {
            let end = self.transfers * repetition / self.repetitions as u64;
            let (mut latency_ns, mut took, first) = (nanosecond_histogram(), Duration::ZERO, at);
            while at < end {
                let until = (at + self.batch as u64).min(end);
                let entries: Vec<ArchiveEntry> =
                    (at..until).map(|index| (id(seed, index), value(index, self.value_bytes))).collect();
                let before = ThreadTimes::now();
                let started = Instant::now();
                archive.apply(&entries, until)?;
                let elapsed = started.elapsed();
                timed.cpu.add(&before.since());
                record(&mut latency_ns, elapsed);
                took += elapsed;
                at = until;
            }
            timed.repetitions.push((took, end - first, latency_ns));
        }
        Ok(timed)
    }

    /// Looks transfers up as an edge does: the filter first, then the store.
    fn look_up(
        &self,
        archive: &FjallArchive,
        index_of: impl Fn(u64) -> u64,
        seed: u64,
        is_there: bool,
    ) -> Result<Timed, IsolatedError> {
        let mut timed = Timed { repetitions: Vec::new(), cpu: UsedCpu::default(), failed: 0 };
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
            timed.cpu.add(&before.since());
            timed.repetitions.push((last - started, count, latency_ns));
        }
        Ok(timed)
    }
}

impl Timed {
    fn took(&self) -> Duration {
        self.repetitions.iter().map(|(took, ..)| *took).sum()
    }

    fn times(&self) -> Histogram<u64> {
        let mut times = nanosecond_histogram();
        for (_, _, latency_ns) in &self.repetitions {
            // Cannot fail: all have the same bounds.
            let _ = times.add(latency_ns);
        }
        times
    }
}

fn id(seed: u64, index: u64) -> TransferId {
    let (high, low) = (mix(seed ^ index), mix(!seed ^ index));
    TransferId::from_random_bytes(((u128::from(high) << 64) | u128::from(low)).to_be_bytes())
}

/// Half of a value varies (hashes, ids, times), half repeats (participants, currency, codes).
fn value(index: u64, bytes: usize) -> Vec<u8> {
    let word = |at: usize| if at.is_multiple_of(2) { mix(index ^ (at as u64) << 50) } else { at as u64 };
    let mut value: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|at| word(at).to_le_bytes()).collect();
    value.truncate(bytes);
    value
}
