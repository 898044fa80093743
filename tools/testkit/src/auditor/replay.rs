//! The live state and the snapshots against a replay of the journal (I7).

use std::sync::Arc;

use upesi_engine::Fold;
use upesi_journal::{Disk, END, EmbeddedLog, SnapshotStore};
use upesi_ledger::{Ledger, LedgerConfig, Record};
use upesi_types::Timestamp;

/// Compares; the disk must be readable and nobody may write to it meanwhile.
pub(super) fn compare(disk: &Arc<dyn Disk>, live: &Ledger) -> Result<(), String> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let store = SnapshotStore::open_for_reading(Arc::clone(disk));
    let mut snapshots = Vec::new();
    for info in store.list().map_err(|error| said(&error))? {
        snapshots.push(store.read(info.seq).map_err(|error| said(&error))?);
    }
    let log = EmbeddedLog::for_reading(disk);
    let fold = Fold::earliest(&log, &snapshots, LedgerConfig::default());
    let mut fold = fold.map_err(|error| said(&error))?;
    while fold.next(END).map_err(|error| said(&error))? {
        let (seq, ledger) = (fold.ledger.last_seq(), &fold.ledger);
        if snapshots
            .iter()
            .any(|snapshot| snapshot.seq == seq && snapshot.bytes != ledger.encode_unfinished())
        {
            return Err(format!("snapshot {seq} is not what the journal gives"));
        }
    }
    let ledger = fold.ledger;
    if ledger.last_seq() != live.last_seq() {
        return Err(format!("the journal ends at {}, the state at {}", ledger.last_seq(), live.last_seq()));
    }
    if ledger.encode_unfinished() != live.encode_unfinished() {
        return Err("the live state is not what the journal gives".to_owned());
    }
    Ok(())
}

/// Compares with the fold of records that were copied when they became durable.
pub(super) fn compare_with(records: &[(Timestamp, Vec<u8>)], live: &Ledger) -> Result<(), String> {
    let mut ledger = Ledger::new(LedgerConfig::default());
    for (seq, (time, bytes)) in (1..).zip(records) {
        let record = Record::decode(bytes).map_err(|error| error.to_string())?;
        ledger.evolve(seq, *time, record.events, &record.callbacks);
    }
    if ledger.encode_unfinished() != live.encode_unfinished() {
        return Err(format!("the state at {} was never the truth", live.last_seq()));
    }
    Ok(())
}
