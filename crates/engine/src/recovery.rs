//! The way back: snapshot, journal, archive.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use upesi_journal::{DataDirectory, Disk, Maintenance, SnapshotStore, Writer, segments};
use upesi_ledger::{Ledger, LedgerConfig};
use upesi_tables::archive::{Archive, FjallArchive};
use upesi_types::Timestamp;

use crate::archivist::Archivist;
use crate::error::StartError;
use crate::fold::Fold;
use crate::options::EngineOptions;

/// The latest instant of a record that others can follow: what is left is enough for 2^53 of them.
const LAST_TIME: Timestamp = Timestamp::from_ns(i64::MAX - (1 << 53));

/// What a data directory held.
pub(crate) struct Recovered {
    /// Keeps the directory locked; absent in simulations.
    pub(crate) directory: Option<DataDirectory>,
    /// Of the journal and the snapshots.
    pub(crate) disk: Arc<dyn Disk>,
    /// The state after the last record.
    pub(crate) ledger: Ledger,
    /// Continues behind the last record.
    pub(crate) writer: Writer,
    /// The finished transfers.
    pub(crate) archive: Arc<dyn Archive>,
    /// Continues behind the snapshot.
    pub(crate) archivist: Archivist,
}

/// Opens a data directory and brings the state back.
pub(crate) fn recover(options: &EngineOptions) -> Result<Recovered, StartError> {
    let (directory, disk) = open_disk(options)?;
    let config = LedgerConfig { hash_seed: hash_seed(options), ..options.ledger.clone() };
    let snapshot = latest_snapshot(&disk, &config)?;
    let archive = open_archive(options)?;
    let journal_options = upesi_journal::Options {
        segment_bytes: options.segment_bytes,
        durability: options.durability,
        identity: options.clock.now().as_ns().unsigned_abs(),
        known_durable_seq: snapshot.last_seq().max(archive.watermark()),
        ..upesi_journal::Options::default()
    };
    let opened = upesi_journal::open(Arc::clone(&disk), journal_options)?;
    let mut writer = opened.writer;
    // So that the first batches find a segment that is written already.
    while writer.maintain()? == Maintenance::Advanced {}
    if let Some(torn) = &opened.recovered.torn {
        tracing::warn!(
            file = torn.file,
            offset = torn.offset,
            bytes = torn.bytes,
            "removed what was left of a batch that was never acknowledged"
        );
    }
    let ledger = Fold::new(Arc::clone(&disk), snapshot.clone(), archive.watermark()).finish()?;
    // A removal that is recorded, but that a crash kept from the archive; or this archive was lost and is made again.
    archive.remove_to(ledger.removed_to())?;
    if archive.watermark() < snapshot.last_seq() {
        rebuild_archive(&disk, &archive, &config, snapshot.last_seq(), options)?;
    }
    if ledger.last_time() > LAST_TIME {
        return Err(StartError::EndOfTime(ledger.last_time()));
    }
    tracing::info!(
        snapshot = snapshot.last_seq(),
        records = ledger.last_seq() - snapshot.last_seq(),
        reserved = ledger.reserved_len(),
        undelivered = ledger.outbox().len(),
        "recovered the ledger"
    );
    let mut archivist = Archivist::new(Arc::clone(&disk), Arc::clone(&archive), snapshot);
    archivist.snapshot_every_records = options.snapshot_every_records;
    archivist.keep_segments = options.keep_segments;
    Ok(Recovered { directory, disk, ledger, writer, archive, archivist })
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

/// Chosen anew at each start, so that nobody can learn it; in simulations as the options say.
fn hash_seed(options: &EngineOptions) -> u64 {
    match options.storage {
        Some(_) => options.ledger.hash_seed,
        None => RandomState::new().build_hasher().finish(),
    }
}

fn open_disk(options: &EngineOptions) -> Result<(Option<DataDirectory>, Arc<dyn Disk>), StartError> {
    if let Some(storage) = &options.storage {
        return Ok((None, Arc::clone(&storage.disk)));
    }
    let directory = DataDirectory::open(&options.data)?;
    let disk = directory.disk();
    Ok((Some(directory), disk))
}

fn open_archive(options: &EngineOptions) -> Result<Arc<dyn Archive>, StartError> {
    if let Some(storage) = &options.storage {
        return Ok(Arc::clone(&storage.archive));
    }
    Ok(Arc::new(FjallArchive::open(options.data.join("archive"), &options.archive)?))
}

/// The newest state that can be read, or that of a hub without history.
fn latest_snapshot(disk: &Arc<dyn Disk>, config: &LedgerConfig) -> Result<Ledger, StartError> {
    let latest = SnapshotStore::open(Arc::clone(disk))?.latest()?;
    for error in &latest.damaged {
        tracing::warn!(%error, "passed over a damaged snapshot");
    }
    match latest.snapshot {
        None => Ok(Ledger::new(config.clone())),
        Some(snapshot) => Ledger::decode_snapshot(&snapshot.bytes, config.clone())
            .map_err(|source| StartError::Snapshot { seq: snapshot.seq, source }),
    }
}

/// Fills a lost or outdated archive from the beginning of the journal up to the snapshot.
fn rebuild_archive(
    disk: &Arc<dyn Disk>,
    archive: &Arc<dyn Archive>,
    config: &LedgerConfig,
    goal: u64,
    options: &EngineOptions,
) -> Result<(), StartError> {
    let first = segments(&**disk)?.first().map_or(0, |segment| segment.first_seq);
    if first != 1 {
        return Err(StartError::ArchiveLost(options.data.join("archive")));
    }
    tracing::warn!(
        from = archive.watermark(),
        to = goal,
        "the archive is behind the snapshot: rebuilding it"
    );
    let mut archivist = Archivist::new(Arc::clone(disk), Arc::clone(archive), Ledger::new(config.clone()));
    archivist.fold_to(goal)?;
    archive.sync()?;
    Ok(())
}
