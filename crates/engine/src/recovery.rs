//! Recovery of the state from snapshot, journal and archive.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use upesi_journal::{
    Appender, ClaimedLog, DataDirectory, Disk, EmbeddedLog, Log, Maintenance, SnapshotStore,
};
use upesi_ledger::{Event, Ledger, LedgerConfig};
use upesi_tables::archive::{Archive, FjallArchive};
use upesi_types::Timestamp;

use crate::archivist::{Archivist, remove_recorded};
use crate::error::StartError;
use crate::fold::LedgerFold;
use crate::options::EngineOptions;
use crate::participants::{Participants, SharedParticipants};

/// The latest record time after which further records are possible: 2^53 of them can follow.
const LAST_TIME: Timestamp = Timestamp::from_ns(i64::MAX - (1 << 53));

/// The recovered content of a data directory.
pub(crate) struct RecoveredEngine {
    /// Keeps the directory locked; `None` in simulations.
    pub(crate) directory: Option<DataDirectory>,
    pub(crate) log: Arc<dyn Log>,
    /// The state after the last record.
    pub(crate) ledger: Ledger,
    /// Appends after the last record.
    pub(crate) appender: Box<dyn Appender>,
    /// The finished transfers.
    pub(crate) archive: Arc<dyn Archive>,
    /// Continues after the snapshot.
    pub(crate) archivist: Archivist,
}

/// Opens a data directory and recovers the state.
pub(crate) fn recover(options: &EngineOptions) -> Result<RecoveredEngine, StartError> {
    let (directory, disk) = open_disk(options)?;
    let config = ledger_config(options);
    let snapshots = SnapshotStore::open(Arc::clone(&disk))?;
    let snapshot = latest_snapshot(&snapshots, &config)?;
    let archive = open_archive(options)?;
    let log = open_log(options, disk);
    let ClaimedLog { mut appender, last_seq, torn } =
        log.claim(snapshot.last_seq().max(archive.watermark()))?;
    // Prepares a segment, so that the first batches need not wait for it.
    while appender.maintain()? == Maintenance::Advanced {}
    if let Some(torn) = &torn {
        tracing::warn!(
            file = torn.file,
            offset = torn.offset,
            bytes = torn.bytes,
            "removed the remains of a batch that was never acknowledged"
        );
    }
    let ledger = LedgerFold::new(&log, snapshot.clone(), archive.watermark()).finish_at(last_seq)?;
    // Executes a recorded removal that a crash kept from the archive, or that precedes the loss of the archive.
    let removed_to = ledger.removed_to();
    if remove_recorded(&*archive, removed_to, options.defers_removals)? > 0 {
        tracing::info!(
            last = removed_to,
            "old transfers were removed from the archive, as recorded before the restart"
        );
    }
    if archive.watermark() < snapshot.last_seq() {
        rebuild_archive(&log, &snapshots, &archive, &config, snapshot.last_seq(), options)?;
    }
    expect_time_is_left(&ledger)?;
    tell(&ledger, snapshot.last_seq());
    let archivist = archivist_of(options, &log, snapshots, &archive, snapshot);
    Ok(RecoveredEngine { directory, log, ledger, appender, archive, archivist })
}

fn archivist_of(
    options: &EngineOptions,
    log: &Arc<dyn Log>,
    snapshots: SnapshotStore,
    archive: &Arc<dyn Archive>,
    snapshot: Ledger,
) -> Archivist {
    let mut archivist = Archivist::new(Arc::clone(log), snapshots, Arc::clone(archive), snapshot);
    archivist.snapshot_every_records = options.snapshot_every_records;
    archivist.keep_segments = options.keep_segments;
    archivist.defers_removals = options.defers_removals;
    archivist
}

/// State, archive and snapshots of a standby. They follow its copy of the journal, so the time of a takeover does not
/// depend on their size.
pub struct StandbyEngine {
    /// Keeps the directory locked; `None` in simulations.
    directory: Option<DataDirectory>,
    disk: Arc<dyn Disk>,
    archivist: Archivist,
    /// The state of the future engine, up to the last record.
    state: LedgerFold,
    fold_every_records: u64,
    /// The participants of the state, for edges that serve on the standby.
    participants: SharedParticipants,
}

impl StandbyEngine {
    /// Opens state, archive and snapshots on the disk of a data directory. A simulated disk has no directory. `log`
    /// reads the local copy. `participants` is kept up to date with the state.
    ///
    /// # Errors
    /// The errors of a start.
    pub fn open(
        options: &EngineOptions,
        directory: Option<DataDirectory>,
        disk: Arc<dyn Disk>,
        log: &Arc<dyn Log>,
        participants: SharedParticipants,
    ) -> Result<Self, StartError> {
        let config = ledger_config(options);
        let snapshots = SnapshotStore::open(Arc::clone(&disk))?;
        let snapshot = latest_snapshot(&snapshots, &config)?;
        let archive = open_archive(options)?;
        if archive.watermark() < snapshot.last_seq() {
            rebuild_archive(log, &snapshots, &archive, &config, snapshot.last_seq(), options)?;
        }
        let state = LedgerFold::new(log, snapshot.clone(), archive.watermark());
        participants.set(Arc::new(Participants::of(&state.ledger)));
        let archivist = archivist_of(options, log, snapshots, &archive, snapshot);
        let fold_every_records = options.fold_every_records;
        Ok(Self { directory, disk, archivist, state, fold_every_records, participants })
    }

    /// Applies the records up to `seq`, which the copy must contain. Archive and snapshots follow when there are enough
    /// records. A full disk leaves them for the next call.
    ///
    /// # Errors
    /// The copy cannot be read, or archive or snapshots cannot be written.
    pub fn follow_to(&mut self, seq: u64) -> Result<(), StartError> {
        let mut has_others = false;
        let mut see = |events: &[Event]| has_others |= events.iter().any(Participants::is_changed_by);
        while self.state.next_seen(seq, &mut see)? {}
        if has_others {
            self.participants.set(Arc::new(Participants::of(&self.state.ledger)));
        }
        if seq < self.archivist.fold.ledger.last_seq() + self.fold_every_records {
            return Ok(());
        }
        let followed = self.follow_archive_to(seq);
        self.state.forget_to(self.archivist.archive.watermark());
        followed
    }

    fn follow_archive_to(&mut self, seq: u64) -> Result<(), StartError> {
        match self.archivist.follow_to(seq) {
            Err(error) if error.is_lack_of_room() => {
                tracing::warn!(%error, "archive and snapshots wait for free space on the disk");
                Ok(())
            }
            other => other,
        }
    }

    /// The state up to the last applied record.
    pub(crate) const fn ledger(&self) -> &Ledger {
        &self.state.ledger
    }

    pub(crate) const fn archive(&self) -> &Arc<dyn Archive> {
        &self.archivist.archive
    }

    /// The archive contains everything that finished up to this record.
    pub(crate) fn archived_to(&self) -> u64 {
        self.archivist.fold.ledger.last_seq()
    }

    /// Returns the recovered content for an engine, after this node became the leader.
    pub(crate) fn take_over(self, options: &EngineOptions) -> Result<RecoveredEngine, StartError> {
        let Self { directory, disk, mut archivist, state, .. } = self;
        let log = open_log(options, disk);
        let archive = Arc::clone(&archivist.archive);
        let ClaimedLog { mut appender, last_seq, .. } =
            log.claim(archivist.snapshot_seq.max(archive.watermark()))?;
        while appender.maintain()? == Maintenance::Advanced {}
        let before = state.ledger.last_seq();
        let ledger = state.finish_at(last_seq)?;
        remove_recorded(&*archive, ledger.removed_to(), options.defers_removals)?;
        archivist.fold.skip_to(archive.watermark());
        expect_time_is_left(&ledger)?;
        tell(&ledger, before);
        archivist.log = Arc::clone(&log);
        Ok(RecoveredEngine { directory, log, ledger, appender, archive, archivist })
    }
}

fn expect_time_is_left(ledger: &Ledger) -> Result<(), StartError> {
    if ledger.last_time() > LAST_TIME { Err(StartError::EndOfTime(ledger.last_time())) } else { Ok(()) }
}

fn tell(ledger: &Ledger, snapshot: u64) {
    tracing::info!(
        snapshot,
        records = ledger.last_seq() - snapshot,
        reserved = ledger.reserved_len(),
        undelivered = ledger.outbox().len(),
        "recovered the ledger"
    );
}

/// The states that a start would produce.
#[derive(Debug)]
pub struct Rehearsal {
    /// The engine's state after the last record.
    pub ledger: Ledger,
    /// The archivist's state after all records that it finds.
    pub archived: Ledger,
}

/// Performs the steps of a start up to the first command, and the archivist's work up to its first snapshot.
///
/// # Errors
/// The errors of a start.
pub fn rehearse(options: &EngineOptions) -> Result<Rehearsal, StartError> {
    let RecoveredEngine { directory: _directory, ledger, mut archivist, .. } = recover(options)?;
    archivist.fold_to(ledger.last_seq())?;
    archivist.write_snapshot()?;
    Ok(Rehearsal { ledger, archived: archivist.fold.ledger })
}

/// Ids are hashed with a seed that is chosen at each start, so that no client can learn it. Simulations use the seed of
/// the options.
fn ledger_config(options: &EngineOptions) -> LedgerConfig {
    let mut config = options.ledger.clone();
    if options.storage.is_none() {
        config.hash_seed = RandomState::new().build_hasher().finish();
    }
    config
}

fn open_disk(options: &EngineOptions) -> Result<(Option<DataDirectory>, Arc<dyn Disk>), StartError> {
    if let Some(storage) = &options.storage {
        return Ok((None, Arc::clone(&storage.disk)));
    }
    let directory = DataDirectory::open(&options.data)?;
    let disk = directory.disk();
    Ok((Some(directory), disk))
}

/// The journal in the files of the disk, unless the options contain another one.
fn open_log(options: &EngineOptions, disk: Arc<dyn Disk>) -> Arc<dyn Log> {
    if let Some(log) = &options.log {
        return Arc::clone(log);
    }
    let journal_options = upesi_journal::Options {
        segment_bytes: options.segment_bytes,
        durability: options.durability,
        identity: options.clock.now().as_ns().unsigned_abs(),
        ..upesi_journal::Options::default()
    };
    Arc::new(EmbeddedLog::new(disk, journal_options))
}

fn open_archive(options: &EngineOptions) -> Result<Arc<dyn Archive>, StartError> {
    if let Some(storage) = &options.storage {
        return Ok(Arc::clone(&storage.archive));
    }
    Ok(Arc::new(FjallArchive::open(options.data.join("archive"), &options.archive)?))
}

/// The newest readable state, or the state of a new hub.
fn latest_snapshot(snapshots: &SnapshotStore, config: &LedgerConfig) -> Result<Ledger, StartError> {
    let latest = snapshots.latest()?;
    for error in &latest.damaged {
        tracing::warn!(%error, "skipped a damaged snapshot");
    }
    match latest.snapshot {
        None => Ok(Ledger::new(config.clone())),
        Some(snapshot) => Ledger::decode_snapshot(&snapshot.bytes, config.clone())
            .map_err(|source| StartError::Snapshot { seq: snapshot.seq, source }),
    }
}

/// Fills a lost or outdated archive from the beginning of the journal up to the snapshot.
fn rebuild_archive(
    log: &Arc<dyn Log>,
    snapshots: &SnapshotStore,
    archive: &Arc<dyn Archive>,
    config: &LedgerConfig,
    goal: u64,
    options: &EngineOptions,
) -> Result<(), StartError> {
    if log.oldest_seq()? != Some(1) {
        return Err(StartError::ArchiveLost(options.data.join("archive")));
    }
    tracing::warn!(
        from = archive.watermark(),
        to = goal,
        "the archive is older than the snapshot; rebuilding it"
    );
    let ledger = Ledger::new(config.clone());
    let mut archivist = Archivist::new(Arc::clone(log), snapshots.clone(), Arc::clone(archive), ledger);
    archivist.fold_to(goal)?;
    archive.sync()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use upesi_journal::sim_disk::{Operation, SimDisk};
    use upesi_journal::{Batch, Durability, segments};
    use upesi_tables::archive::MemoryArchive;

    use super::*;
    use crate::options::Storage;

    fn simulated(disk: &SimDisk) -> EngineOptions {
        let storage = Storage { disk: Arc::new(disk.clone()), archive: Arc::new(MemoryArchive::new()) };
        let ledger = LedgerConfig { hash_seed: 7, ..LedgerConfig::default() };
        EngineOptions { storage: Some(storage), ledger, ..EngineOptions::new("nowhere") }
    }

    #[test]
    fn hash_keys_are_random_except_in_simulations() {
        let options = EngineOptions::new("nowhere");
        assert_ne!(ledger_config(&options).hash_seed, ledger_config(&options).hash_seed);
        assert_eq!(ledger_config(&simulated(&SimDisk::new(1))).hash_seed, 7);
    }

    #[test]
    fn a_new_journal_is_as_the_options_say() {
        for (segment_bytes, durability) in [(4096, Durability::Synced), (8192, Durability::Volatile)] {
            let disk = SimDisk::new(1);
            let options = EngineOptions { segment_bytes, durability, ..simulated(&disk) };
            let before = options.clock.now();
            let log = open_log(&options, Arc::new(disk.clone()));
            let mut appender = log.claim(0).unwrap().appender;
            let operations = disk.operations().len();
            let mut batch = Batch::new(1);
            batch.push(1, |_| ());
            appender.append(&mut batch).unwrap();
            let is_synced = disk.operations()[operations..].contains(&Operation::Sync);
            assert_eq!(is_synced, durability == Durability::Synced);
            let segment = &segments(&disk).unwrap()[0];
            assert_eq!(segment.bytes, segment_bytes);
            // The identity of a journal distinguishes its frames from the frames of other journals. It is the instant
            // at which the journal began.
            let header = disk.contents(&segment.file).unwrap();
            let identity = u64::from_le_bytes(header[56..64].try_into().unwrap());
            assert!(identity >= before.as_ns().unsigned_abs());
        }
    }

    #[test]
    fn journal_at_the_latest_time_is_an_error() {
        let mut ledger = Ledger::new(LedgerConfig::default());
        ledger.evolve(1, LAST_TIME, [], &[]);
        assert!(expect_time_is_left(&ledger).is_ok());
        let later = Timestamp::from_ns(LAST_TIME.as_ns() + 1);
        ledger.evolve(2, later, [], &[]);
        assert!(matches!(expect_time_is_left(&ledger), Err(StartError::EndOfTime(time)) if time == later));
    }
}
