//! The way back: snapshot, journal, archive.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use upesi_journal::{Appender, Claimed, DataDirectory, Disk, EmbeddedLog, Log, Maintenance, SnapshotStore};
use upesi_ledger::{Event, Ledger, LedgerConfig};
use upesi_tables::archive::{Archive, FjallArchive};
use upesi_types::Timestamp;

use crate::archivist::{Archivist, remove_recorded};
use crate::error::StartError;
use crate::fold::Fold;
use crate::options::EngineOptions;
use crate::participants::{Participants, SharedParticipants};

/// The latest instant of a record that others can follow: what is left is enough for 2^53 of them.
const LAST_TIME: Timestamp = Timestamp::from_ns(i64::MAX - (1 << 53));

/// What a data directory held.
pub(crate) struct Recovered {
    /// Keeps the directory locked; absent in simulations.
    pub(crate) directory: Option<DataDirectory>,
    /// The journal.
    pub(crate) log: Arc<dyn Log>,
    /// The state after the last record.
    pub(crate) ledger: Ledger,
    /// Continues behind the last record.
    pub(crate) appender: Box<dyn Appender>,
    /// The finished transfers.
    pub(crate) archive: Arc<dyn Archive>,
    /// Continues behind the snapshot.
    pub(crate) archivist: Archivist,
}

/// Opens a data directory and brings the state back.
pub(crate) fn recover(options: &EngineOptions) -> Result<Recovered, StartError> {
    let (directory, disk) = open_disk(options)?;
    let config = ledger_config(options);
    let snapshots = SnapshotStore::open(Arc::clone(&disk))?;
    let snapshot = latest_snapshot(&snapshots, &config)?;
    let archive = open_archive(options)?;
    let log = open_log(options, disk);
    let Claimed { mut appender, last_seq, torn } = log.claim(snapshot.last_seq().max(archive.watermark()))?;
    // So that the first batches find a segment that is written already.
    while appender.maintain()? == Maintenance::Advanced {}
    if let Some(torn) = &torn {
        tracing::warn!(
            file = torn.file,
            offset = torn.offset,
            bytes = torn.bytes,
            "removed the remains of a batch that was never acknowledged"
        );
    }
    let ledger = Fold::new(&log, snapshot.clone(), archive.watermark()).finish_at(last_seq)?;
    // A removal that is recorded, but that a crash kept from the archive; or this archive was lost and is made again.
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
    Ok(Recovered { directory, log, ledger, appender, archive, archivist })
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

/// State, archive and snapshots of a node that stands by. They follow its copy of the journal, so that it takes over
/// in a time that does not depend on their size.
pub struct StandbyEngine {
    /// Keeps the directory locked; absent in simulations.
    directory: Option<DataDirectory>,
    disk: Arc<dyn Disk>,
    archivist: Archivist,
    /// That of the engine to be, up to the last record.
    state: Fold,
    fold_every_records: u64,
    /// Those of the state, for edges that serve meanwhile.
    participants: SharedParticipants,
}

impl StandbyEngine {
    /// Opens state, archive and snapshots on the disk of a data directory. `log` reads the copy. `participants` are
    /// kept as the state has them.
    ///
    /// # Errors
    /// What a start would fail with.
    pub fn open(
        options: &EngineOptions,
        (directory, disk): (Option<DataDirectory>, Arc<dyn Disk>),
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
        let state = Fold::new(log, snapshot.clone(), archive.watermark());
        participants.set(Arc::new(Participants::of(&state.ledger)));
        let archivist = archivist_of(options, log, snapshots, &archive, snapshot);
        let fold_every_records = options.fold_every_records;
        Ok(Self { directory, disk, archivist, state, fold_every_records, participants })
    }

    /// Folds the records up to `seq`, which the copy has; archive and snapshots follow if they are enough to be worth
    /// it. A lack of room leaves them for the next call.
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

    /// The state up to the last record that was followed.
    pub(crate) const fn ledger(&self) -> &Ledger {
        &self.state.ledger
    }

    pub(crate) const fn archive(&self) -> &Arc<dyn Archive> {
        &self.archivist.archive
    }

    /// The archive has all that finished up to this record.
    pub(crate) fn archived_to(&self) -> u64 {
        self.archivist.fold.ledger.last_seq()
    }

    /// What a start brings back, once this node leads.
    pub(crate) fn take_over(self, options: &EngineOptions) -> Result<Recovered, StartError> {
        let Self { directory, disk, mut archivist, state, .. } = self;
        let log = open_log(options, disk);
        let archive = Arc::clone(&archivist.archive);
        let Claimed { mut appender, last_seq, .. } =
            log.claim(archivist.snapshot_seq.max(archive.watermark()))?;
        while appender.maintain()? == Maintenance::Advanced {}
        let before = state.ledger.last_seq();
        let ledger = state.finish_at(last_seq)?;
        remove_recorded(&*archive, ledger.removed_to(), options.defers_removals)?;
        archivist.fold.skip_to(archive.watermark());
        expect_time_is_left(&ledger)?;
        tell(&ledger, before);
        archivist.log = Arc::clone(&log);
        Ok(Recovered { directory, log, ledger, appender, archive, archivist })
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

/// The states that a start would come to.
#[derive(Debug)]
pub struct Rehearsal {
    /// The engine's, after the last record.
    pub ledger: Ledger,
    /// The archivist's, once it has folded all that it finds.
    pub archived: Ledger,
}

/// Does what a start does, up to the first command, and what the archivist then does, up to its first snapshot.
///
/// # Errors
/// What a start would fail with.
pub fn rehearse(options: &EngineOptions) -> Result<Rehearsal, StartError> {
    let Recovered { directory: _directory, ledger, mut archivist, .. } = recover(options)?;
    archivist.fold_to(ledger.last_seq())?;
    archivist.write_snapshot()?;
    Ok(Rehearsal { ledger, archived: archivist.fold.ledger })
}

/// Ids are hashed by a seed that is chosen anew at each start, so that nobody can learn it; in simulations as the
/// options say.
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

/// The journal in the files of the disk, unless the options bring another.
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

/// The newest state that can be read, or that of a hub without history.
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
    fn nobody_can_know_how_ids_are_hashed_but_a_simulation() {
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
            // Its identity, by which frames of other journals are told from its own: the instant of its beginning.
            let header = disk.contents(&segment.file).unwrap();
            let identity = u64::from_le_bytes(header[56..64].try_into().unwrap());
            assert!(identity >= before.as_ns().unsigned_abs());
        }
    }

    #[test]
    fn records_end_before_time_does() {
        let mut ledger = Ledger::new(LedgerConfig::default());
        ledger.evolve(1, LAST_TIME, [], &[]);
        assert!(expect_time_is_left(&ledger).is_ok());
        let later = Timestamp::from_ns(LAST_TIME.as_ns() + 1);
        ledger.evolve(2, later, [], &[]);
        assert!(matches!(expect_time_is_left(&ledger), Err(StartError::EndOfTime(time)) if time == later));
    }
}
