//! What the hub reads back from its own disk, behind the checksums.

use upesi_ledger::codec::{Decoder, Encoder};
use upesi_ledger::{Ledger, LedgerConfig, Record, Stored as _, Transfer};

/// The payload of a record of the journal.
pub(crate) fn ledger_record(input: &[u8]) {
    let Ok(record) = Record::decode(input) else { return };
    let mut written = Vec::new();
    Record::encode(record.actor, &record.events, &record.callbacks, record.payload, &mut written);
    assert_eq!(Record::decode(&written).as_ref(), Ok(&record));
}

/// A state of the ledger.
pub(crate) fn ledger_snapshot(input: &[u8]) {
    let Ok(ledger) = Ledger::decode_snapshot(input, LedgerConfig::default()) else { return };
    upesi_ledger::audit::check(&ledger);
    let mut written = Vec::new();
    ledger.encode_snapshot(&mut written);
    let read = Ledger::decode_snapshot(&written, LedgerConfig::default()).expect("its own snapshot");
    let mut again = Vec::new();
    read.encode_snapshot(&mut again);
    assert!(written == again, "a snapshot is not what its own state writes");
}

/// A transfer as the archive keeps it.
pub(crate) fn archived_transfer(input: &[u8]) {
    let Ok(transfer) = Transfer::decode(&mut Decoder(input)) else { return };
    let mut written = Vec::new();
    transfer.encode(&mut Encoder(&mut written));
    let mut rest = Decoder(&written);
    assert_eq!(Transfer::decode(&mut rest).as_ref(), Ok(&transfer));
    assert!(rest.0.is_empty(), "{} bytes are left", rest.0.len());
}

/// A record of the log of the tables that are not money.
pub(crate) fn store_record(input: &[u8]) {
    let Some(changes) = upesi_tables::store::read_record(input) else { return };
    let written = upesi_tables::store::write_record(&changes);
    assert!(written.len() <= input.len(), "more is understood than is there");
    assert_eq!(upesi_tables::store::read_record(&written), Some(changes));
}
