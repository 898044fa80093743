//! The live state and the snapshots against a replay of the journal (I7).

use std::sync::Arc;

use upesi_journal::{Disk, END, Reader, SnapshotStore, segments};
use upesi_ledger::{Ledger, LedgerConfig, Record};
use upesi_types::Timestamp;

/// The state without what only the archive has to remember.
fn state(ledger: &Ledger) -> Vec<u8> {
    let mut copy = ledger.clone();
    copy.drain_finished(u64::MAX).for_each(drop);
    let mut bytes = Vec::new();
    copy.encode_snapshot(&mut bytes);
    bytes
}

/// Compares; the disk must be readable and nobody may write to it meanwhile.
pub(super) fn compare(disk: &Arc<dyn Disk>, live: &Ledger) -> Result<(), String> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let first = segments(&**disk).map_err(|error| said(&error))?.first().map_or(0, |one| one.first_seq);
    let store = SnapshotStore::open_for_reading(Arc::clone(disk));
    let mut snapshots = Vec::new();
    for info in store.list().map_err(|error| said(&error))? {
        snapshots.push(store.read(info.seq).map_err(|error| said(&error))?);
    }
    let mut ledger = Ledger::new(LedgerConfig::default());
    if first > 1 {
        let Some(oldest) = snapshots.first() else {
            return Err(format!("the journal begins with {first} and there is no snapshot"));
        };
        let decoded = Ledger::decode_snapshot(&oldest.bytes, LedgerConfig::default());
        ledger = decoded.map_err(|error| said(&error))?;
    }
    let mut reader = Reader::new(Arc::clone(disk), ledger.last_seq() + 1);
    while let Some(found) = reader.next_record(END).map_err(|error| said(&error))? {
        let (seq, time) = (found.seq, found.time);
        let record = Record::decode(found.bytes).map_err(|error| said(&error))?;
        ledger.evolve(seq, time, record.events, &record.callbacks);
        if snapshots.iter().any(|snapshot| snapshot.seq == seq && snapshot.bytes != state(&ledger)) {
            return Err(format!("snapshot {seq} is not what the journal gives"));
        }
    }
    if ledger.last_seq() != live.last_seq() {
        return Err(format!("the journal ends at {}, the state at {}", ledger.last_seq(), live.last_seq()));
    }
    if state(&ledger) != state(live) {
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
    if state(&ledger) != state(live) {
        return Err(format!("the state at {} was never the truth", live.last_seq()));
    }
    Ok(())
}
