//! The journal alone: batches of records of one size, appended one after the other.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use upesi_journal::{
    Batch, DataDirectory, Disk, Durability, Maintenance, Options, Writer, delete_segments_below, open,
};
use upesi_sim::mix;

use super::measurement::{Measurement, ThreadTimes, nanosecond_histogram, record, timed_stage};
use super::{Context, IsolatedError, scratch};
use crate::plan::stage::journal::Settings;
use crate::result::schema::StageResult;
use crate::statistics::{per_second, rounded};

struct Journal<'settings> {
    settings: &'settings Settings,
    disk: Arc<dyn Disk>,
    writer: Writer,
    batch: Batch,
    bytes: Vec<u8>,
}

/// Durations of the parts of appends, in nanoseconds, and the written bytes.
struct Parts {
    write: Histogram<u64>,
    sync: Histogram<u64>,
    maintain: Histogram<u64>,
    bytes: u64,
}

impl Settings {
    pub(super) fn run(&self, context: &Context) -> Result<Measurement, IsolatedError> {
        let scratch = scratch(&context.scratch)?;
        let mut journal = Journal::open(self, &scratch.path().join("data"), context.seed)?;
        let mut measurement = Measurement::new("record", "a journal in this process");
        // The first segment was not filled with zeros, and the disk's caches are cold.
        journal.append(self.batches.div_ceil(10), &mut Parts::new())?;
        let mut sum = Parts::new();
        for _ in 0..self.repetitions {
            let before = ThreadTimes::now();
            let (took, append_ns) = journal.append(self.batches, &mut sum)?;
            let used = before.since();
            measurement.repeat(took, (self.batch * self.batches) as u64, &append_ns, &used);
        }
        let wall = measurement.took();
        measurement.stages = vec![
            timed_stage("journal_write", &sum.write, wall),
            StageResult {
                batch_mean: Some(self.batch as f64),
                ..timed_stage("journal_sync", &sum.sync, wall)
            },
            timed_stage("journal_maintain", &sum.maintain, wall),
            StageResult {
                stage: "journal_bytes".to_owned(),
                operations: sum.bytes,
                per_s: rounded(per_second(sum.bytes, wall), 0),
                ..StageResult::default()
            },
        ];
        measurement.durable = Some(self.durable);
        Ok(measurement)
    }
}

impl<'settings> Journal<'settings> {
    fn open(settings: &'settings Settings, data: &Path, seed: u64) -> Result<Self, IsolatedError> {
        let disk = DataDirectory::open(data)?.disk();
        let options = Options {
            segment_bytes: settings.segment_bytes,
            durability: if settings.durable { Durability::Synced } else { Durability::Volatile },
            zero_ahead: settings.zero_ahead,
            identity: seed,
            ..Options::default()
        };
        let mut writer = open(Arc::clone(&disk), options)?.writer;
        while writer.maintain()? == Maintenance::Advanced {}
        let words = (0..settings.record_bytes.div_ceil(8)).map(|word| mix(seed ^ word as u64));
        let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        bytes.truncate(settings.record_bytes);
        let batch = Batch::new(writer.next_seq());
        Ok(Self { settings, disk, writer, batch, bytes })
    }

    /// Makes this many appends, and measures their total and individual times.
    fn append(
        &mut self,
        batches: usize,
        parts: &mut Parts,
    ) -> Result<(Duration, Histogram<u64>), IsolatedError> {
        let (mut took, mut append_ns) = (Duration::ZERO, nanosecond_histogram());
        for _ in 0..batches {
            self.batch.reset(self.writer.next_seq());
            for _ in 0..self.settings.batch {
                let time_ns = self.batch.next_seq() as i64;
                self.batch.push(time_ns, |buffer| buffer.extend_from_slice(&self.bytes));
            }
            let started = Instant::now();
            let appended = self.writer.append(&mut self.batch)?;
            let durable = Instant::now();
            self.writer.maintain()?;
            let maintained = durable.elapsed();
            record(&mut append_ns, durable - started);
            record(&mut parts.write, Duration::from_nanos(appended.write_ns));
            record(&mut parts.sync, Duration::from_nanos(appended.sync_ns));
            record(&mut parts.maintain, maintained);
            took += durable - started + maintained;
            parts.bytes += appended.bytes;
            if appended.rolled {
                // Not timed: a hub does it on another thread.
                delete_segments_below(&*self.disk, appended.first_seq)?;
            }
        }
        Ok((took, append_ns))
    }
}

impl Parts {
    fn new() -> Self {
        let [write, sync, maintain] = std::array::from_fn(|_| nanosecond_histogram());
        Self { write, sync, maintain, bytes: 0 }
    }
}
