//! The archivist: applies the journal after the engine, to the archive and to snapshots.
//!
//! The archivist has its own ledger, built only from the journal. Archive and snapshots therefore equal the result of a
//! replay, and creating them never blocks the engine.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use upesi_journal::{Log, SnapshotStore};
use upesi_ledger::codec::Encoder;
use upesi_ledger::{Event, Ledger, Stored as _};
use upesi_tables::TablesError;
use upesi_tables::archive::{Archive, ArchiveEntry, Division};

use crate::error::StartError;
use crate::fold::LedgerFold;
use crate::metrics::EngineMetrics;
use crate::progress::ArchiveProgress;

/// Maximum number of finished transfers passed to the archive in one call.
const ENTRIES_PER_APPLY_MAX: usize = 4_096;
/// Number of retained snapshots. If the newest one is damaged, an older one is used.
const SNAPSHOTS_KEPT: usize = 2;

/// Applies journal records to its own ledger.
pub(crate) struct Archivist {
    pub(crate) log: Arc<dyn Log>,
    snapshots: SnapshotStore,
    pub(crate) archive: Arc<dyn Archive>,
    pub(crate) fold: LedgerFold,
    pub(crate) snapshot_seq: u64,
    pub(crate) snapshot_every_records: u64,
    pub(crate) keep_segments: bool,
    pub(crate) defers_removals: bool,
    pub(crate) metrics: EngineMetrics,
    entries: Vec<ArchiveEntry>,
    /// Whether the last applied record ends a division of the archive.
    ends_division: bool,
    /// Whether the last attempt found the disk full.
    is_held_up: bool,
}

impl Archivist {
    /// Starts after the last record of `ledger`. Records whose transfers the archive already received are not archived
    /// again, because a part of them may have been exported or removed since.
    pub(crate) fn new(
        log: Arc<dyn Log>,
        snapshots: SnapshotStore,
        archive: Arc<dyn Archive>,
        ledger: Ledger,
    ) -> Self {
        let snapshot_seq = ledger.last_seq();
        Self {
            fold: LedgerFold::once(&log, ledger.without_order_of_deadlines(), archive.watermark()),
            log,
            snapshots,
            archive,
            snapshot_seq,
            snapshot_every_records: u64::MAX,
            keep_segments: true,
            defers_removals: false,
            metrics: EngineMetrics::default(),
            entries: Vec::new(),
            ends_division: false,
            is_held_up: false,
        }
    }

    /// Runs until the progress is closed. A full disk only delays the archivist, because the journal contains
    /// everything.
    pub(crate) fn run(mut self, progress: &ArchiveProgress) -> Result<(), StartError> {
        loop {
            let seq = self.fold.ledger.last_seq();
            let (goal, is_last) =
                if self.is_held_up { progress.wait_for_room(seq) } else { progress.wait_for_more(seq) };
            self.attempt(progress, goal, is_last)?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// Applies the available records without waiting. Returns whether these were the last ones.
    pub(crate) fn step(&mut self, progress: &ArchiveProgress) -> Result<bool, StartError> {
        let seq = self.fold.ledger.last_seq();
        let held_up = self.is_held_up.then_some((seq, false));
        let Some((goal, is_last)) = progress.more(seq).or(held_up) else { return Ok(false) };
        self.attempt(progress, goal, is_last)?;
        Ok(is_last)
    }

    fn attempt(&mut self, progress: &ArchiveProgress, goal: u64, is_last: bool) -> Result<(), StartError> {
        match self.advance(progress, goal, is_last) {
            Err(error) if error.is_lack_of_room() => {
                if !self.is_held_up {
                    tracing::warn!(%error, "archive and snapshots wait for free space on the disk");
                }
                self.is_held_up = true;
            }
            other => {
                other?;
                if self.is_held_up {
                    tracing::info!("archive and snapshots have enough space again");
                }
                self.is_held_up = false;
            }
        }
        Ok(())
    }

    fn advance(&mut self, progress: &ArchiveProgress, goal: u64, is_last: bool) -> Result<(), StartError> {
        self.fold_to(goal)?;
        progress.publish(self.fold.ledger.last_seq());
        let since_snapshot = self.fold.ledger.last_seq() - self.snapshot_seq;
        if since_snapshot >= self.snapshot_distance() || (is_last && since_snapshot > 0) {
            self.write_snapshot()?;
        }
        Ok(())
    }

    /// Number of records between snapshots. It is at least the number of entries in the state, so that writing a
    /// snapshot costs little per record.
    fn snapshot_distance(&self) -> u64 {
        let ledger = &self.fold.ledger;
        let entries = ledger.reserved_len()
            + ledger.live_fx_transfers_len()
            + ledger.live_bulks_len()
            + ledger.outbox().len();
        self.snapshot_every_records.max(entries as u64)
    }

    /// Applies records up to `goal` on a node without an engine. It also executes removals and writes snapshots.
    pub(crate) fn follow_to(&mut self, goal: u64) -> Result<(), StartError> {
        self.fold_to(goal)?;
        remove_recorded(&*self.archive, self.fold.ledger.removed_to(), self.defers_removals)?;
        if self.fold.ledger.last_seq() - self.snapshot_seq >= self.snapshot_distance() {
            self.write_snapshot()?;
        }
        Ok(())
    }

    /// Applies all records up to `goal` and passes finished transfers, FX transfers and bulk transfers to the archive.
    pub(crate) fn fold_to(&mut self, goal: u64) -> Result<(), StartError> {
        // First archive the entries that remain from an attempt that found the disk full.
        self.archive_finished()?;
        while self
            .fold
            .next_seen(goal, |events| self.ends_division = matches!(events, [.., Event::ArchiveDivided]))?
        {
            let ledger = &self.fold.ledger;
            let others = ledger.finished_fx_transfers_len() + ledger.finished_bulks_len();
            if self.ends_division || ledger.finished_len() + others >= ENTRIES_PER_APPLY_MAX {
                self.archive_finished()?;
            }
        }
        self.archive_finished()
    }

    /// Passes finished entries to the archive. After a failure they stay for the next attempt.
    fn archive_finished(&mut self) -> Result<(), StartError> {
        let seq = self.fold.ledger.last_seq();
        self.entries.extend(self.fold.ledger.drain_finished(seq).map(|transfer| {
            let mut value = Vec::with_capacity(256);
            transfer.encode(&mut Encoder(&mut value));
            (transfer.id, value)
        }));
        self.entries.extend(self.fold.ledger.take_finished_fx_transfers(seq).map(|(_, fx_transfer)| {
            let mut value = Vec::with_capacity(256);
            fx_transfer.encode(&mut Encoder(&mut value));
            (fx_transfer.id.archive_key(), value)
        }));
        self.entries.extend(self.fold.ledger.take_finished_bulks(seq).map(|(_, bulk)| {
            let mut value = Vec::with_capacity(64 * bulk.items.len() + 256);
            bulk.encode(&mut Encoder(&mut value));
            (bulk.id.archive_key(), value)
        }));
        let started = Instant::now();
        self.archive.apply_at(&self.entries, seq, self.fold.ledger.last_time())?;
        if !self.entries.is_empty() {
            self.metrics.archive_apply_seconds.observe(started.elapsed().as_secs_f64());
        }
        self.entries.clear();
        if self.ends_division {
            // A fold that starts again processes records after which the archive already has further entries.
            if self.archive.watermark_applied() == seq {
                self.archive.divide()?;
            }
            self.ends_division = false;
        }
        Ok(())
    }

    /// Writes a snapshot after syncing the archive, which must contain everything that the snapshot leaves out.
    pub(crate) fn write_snapshot(&mut self) -> Result<(), StartError> {
        let (seq, started) = (self.fold.ledger.last_seq(), Instant::now());
        let archived = self.archive.sync()?;
        assert!(archived >= seq, "the archive is synced to {archived}, but the snapshot is of {seq}");
        let mut bytes = Vec::new();
        self.fold.ledger.encode_snapshot(&mut bytes);
        self.snapshots.write(seq, self.fold.ledger.last_time().as_ns(), |sink| sink.write_all(&bytes))?;
        self.snapshots.prune(SNAPSHOTS_KEPT)?;
        self.snapshot_seq = seq;
        self.metrics.snapshot_seconds.observe(started.elapsed().as_secs_f64());
        self.metrics.snapshot_bytes.set(bytes.len() as i64);
        self.metrics.snapshot_seq.set(seq as i64);
        tracing::debug!(seq, bytes = bytes.len(), "snapshot written");
        self.trim_log()
    }

    /// Deletes the segments that neither the older snapshot nor an undelivered callback nor an open reservation needs.
    /// If segments are retained, only those are deleted whose transfers have left the archive; retention decides when
    /// they leave.
    fn trim_log(&self) -> Result<(), StartError> {
        let retained = if self.keep_segments { self.archive.first_seq() } else { u64::MAX };
        if retained <= 1 {
            return Ok(());
        }
        let oldest_snapshot = self.snapshots.list()?.iter().map(|snapshot| snapshot.seq).min().unwrap_or(0);
        let oldest_callback = self.fold.ledger.outbox().oldest_seq().unwrap_or(u64::MAX);
        let oldest_reserved = self.fold.ledger.oldest_reserved_seq().unwrap_or(u64::MAX);
        let needed = (oldest_snapshot + 1).min(oldest_callback).min(oldest_reserved).min(retained);
        let deleted = self.log.trim(needed)?;
        if deleted > 0 {
            tracing::info!(deleted, needed, "deleted journal segments that are archived");
        }
        Ok(())
    }
}

/// Executes a removal that the journal records, unless removals are deferred. If the archive has no such transfers, it
/// starts after the record in either case. Returns the number of removed divisions.
pub(crate) fn remove_recorded(
    archive: &dyn Archive,
    to_seq: u64,
    defers_removals: bool,
) -> Result<u64, TablesError> {
    let is_leaving = |division: &Division| division.first_seq <= to_seq && division.transfers_estimate > 0;
    if defers_removals && archive.divisions().iter().any(is_leaving) {
        return Ok(0);
    }
    archive.remove_to(to_seq)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use upesi_tables::archive::{ArchiveOptions, FjallArchive};
    use upesi_types::{Timestamp, TransferId};

    use super::*;
    use crate::progress::Eviction;

    #[test]
    fn deferred_removal_waits_unless_the_archive_is_rebuilt() {
        let directory = tempfile::tempdir().unwrap();
        let open =
            |name| FjallArchive::open(directory.path().join(name), &ArchiveOptions::default()).unwrap();
        let archive = open("full");
        for seq in 1..=2 {
            let id = TransferId::from_random_bytes([seq as u8; 16]);
            archive.apply_at(&[(id, vec![0; 10])], seq, Timestamp::EPOCH).unwrap();
            archive.divide().unwrap();
        }
        assert_eq!((remove_recorded(&archive, 1, true).unwrap(), archive.first_seq()), (0, 1));
        assert_eq!((remove_recorded(&archive, 1, false).unwrap(), archive.first_seq()), (1, 2));
        // A lost archive is rebuilt from the journal, which begins later.
        let lost = open("lost");
        remove_recorded(&lost, 7, true).unwrap();
        assert_eq!((lost.watermark(), lost.first_seq()), (7, 8));
    }

    #[test]
    fn archivist_continues_until_the_requested_or_closing_record() {
        let progress = ArchiveProgress::new(1, 0);
        assert_eq!(progress.more(0), None);
        progress.ask(9);
        assert_eq!([8, 9, 10].map(|seq| progress.more(seq)), [Some((9, false)), None, None]);
        progress.close(9);
        assert_eq!([8, 9, 10].map(|seq| progress.more(seq)), [9, 9, 10].map(|goal| Some((goal, true))));
    }

    #[test]
    fn archivist_waits_for_space_until_a_timeout_or_the_end() {
        let (progress, began) = (ArchiveProgress::new(1, 0), Instant::now());
        assert_eq!(progress.wait_for_room(7), (7, false));
        assert!(began.elapsed() > Duration::from_millis(500), "it would try again and again without a break");
        progress.close(9);
        assert_eq!((progress.wait_for_room(7), progress.wait_for_room(12)), ((9, true), (12, true)));
    }

    #[test]
    fn archivist_is_woken_by_enough_new_entries() {
        let progress = ArchiveProgress::new(10, 100);
        let reached = |seq, folded| {
            progress.journal_reached(seq);
            progress.more(folded).map(|(goal, _)| goal)
        };
        // After the archived record, and after the goal of the last wake-up.
        assert_eq!((reached(109, 100), reached(110, 100)), (None, Some(110)));
        assert_eq!((reached(119, 110), reached(120, 110)), (None, Some(120)));
        progress.publish(125);
        assert_eq!(progress.watermark(), 125);
        assert_eq!((reached(134, 125), reached(135, 125)), (None, Some(135)));
        // On request it has at least this much to do, however little it is.
        progress.ask(136);
        assert_eq!((progress.wait_for_more(135), progress.more(136)), ((136, false), None));
        progress.ask(3);
        assert_eq!((reached(145, 136), reached(146, 136)), (None, Some(146)));
        progress.close(140);
        assert_eq!((progress.wait_for_more(140), progress.wait_for_more(150)), ((146, true), (150, true)));
    }

    #[test]
    fn transfers_leave_memory_once_lookups_find_them_in_the_archive() {
        let (progress, mut eviction) = (ArchiveProgress::new(1, 50), Eviction::default());
        assert_eq!(progress.epoch_and_watermark(), (0, 50));
        let mut published = |watermark| {
            progress.publish(watermark);
            let due = eviction.due(&progress);
            (due.map(|due| (due.forget_to, due.watermark)), [0, 1, 2].map(|epoch| eviction.outdates(epoch)))
        };
        // A lookup of an earlier epoch may have missed removed transfers.
        assert_eq!(published(60), (None, [false, false, false]));
        assert_eq!(published(70), (Some((0, 70)), [true, false, false]));
        assert_eq!(published(80), (Some((70, 80)), [true, true, false]));
        assert_eq!(eviction.due(&progress), None);
        assert_eq!((progress.epoch(), progress.epoch_and_watermark()), (3, (3, 80)));
    }
}
