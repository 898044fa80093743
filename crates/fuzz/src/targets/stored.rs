//! What the hub reads back from its own disk.

use std::cell::RefCell;

use upesi_journal::sim_disk::SimDisk;
use upesi_journal::sim_disk::script::{Script, dynamic};
use upesi_journal::{segments, verify};
use upesi_ledger::{Ledger, LedgerConfig, Record};

/// The payload of a record of the journal.
pub(crate) fn ledger_record(input: &[u8]) {
    let Ok(record) = Record::decode(input) else { return };
    let mut written = Vec::new();
    Record::encode(&record.events, &record.notices, record.payload, &mut written);
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

thread_local! {
    /// A finished journal and its files; thrown away bytes cost less than making it again.
    static JOURNAL: RefCell<Option<(Script, SimDisk, Vec<String>)>> = const { RefCell::new(None) };
}

/// The input says which bytes of a whole journal are changed to what: four bytes each, file, place (16 bits), value.
pub(crate) fn journal(input: &[u8]) {
    JOURNAL.with_borrow_mut(|made| {
        let (script, disk, files) = made.get_or_insert_with(|| {
            let script = Script::new(7);
            let disk = SimDisk::new(7);
            assert!(script.run(&disk).error.is_none());
            let files = segments(&disk).expect("lists").into_iter().map(|segment| segment.file).collect();
            (script, disk, files)
        });
        let rotten = disk.after_kill();
        for patch in input.as_chunks::<4>().0 {
            let file = &files[usize::from(patch[0]) % files.len()];
            let at = usize::from(u16::from_le_bytes([patch[1], patch[2]]));
            rotten.corrupt(file, |bytes| {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = patch[3];
                }
            });
        }
        if let Ok(recovered) = verify(dynamic(&rotten)) {
            // Enough bytes changed can look like a write that never came to an end; all before it is what was written.
            assert!(recovered.last_seq <= script.last_seq());
            assert_eq!(script.read(&rotten).expect("reads what was verified"), recovered.last_seq);
        }
    });
}
