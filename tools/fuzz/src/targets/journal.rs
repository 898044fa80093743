//! Data that the hub reads back from its own disk: the journal's segments and snapshots, and behind their checksums
//! records, snapshots of the ledger and entries of tables.

use std::cell::RefCell;

use upesi_journal::sim_disk::SimDisk;
use upesi_journal::sim_disk::script::{Script, dynamic};
use upesi_journal::{
    Disk, END, JournalError, Options, Reader, SECTOR_BYTES, SnapshotStore, open, segments, verify,
};
use upesi_ledger::codec::{Decoder, Encoder};
use upesi_ledger::{Ledger, LedgerConfig, Record, Stored as _, Transfer};

/// A frame with fewer changed bits than this never looks like an unfinished write (see `frame.rs` of the journal).
const ROT_BITS_MAX: u32 = 8;

thread_local! {
    /// A finished journal and its files. A copy costs less than a new one.
    static JOURNAL: RefCell<Option<(Script, SimDisk, Vec<String>)>> = const { RefCell::new(None) };
}

/// The input changes bytes of a whole journal. Each change has four bytes: file, place (16 bits) and value.
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
        let mut changed_bits = 0;
        for patch in input.as_chunks::<4>().0 {
            let file = &files[usize::from(patch[0]) % files.len()];
            let at = usize::from(u16::from_le_bytes([patch[1], patch[2]]));
            rotten.corrupt(file, |bytes| {
                if let Some(byte) = bytes.get_mut(at) {
                    changed_bits += (*byte ^ patch[3]).count_ones();
                    *byte = patch[3];
                }
            });
        }
        match verify(dynamic(&rotten)) {
            Ok(recovered) => {
                // Enough changed bytes can look like an unfinished write. Everything before it must be unchanged.
                assert!(recovered.last_seq <= script.last_seq());
                assert!(
                    changed_bits >= ROT_BITS_MAX || recovered.last_seq == script.last_seq(),
                    "{changed_bits} bits cost the records from {} on",
                    recovered.last_seq + 1
                );
                assert_eq!(script.read(&rotten).expect("a verified journal can be read"), recovered.last_seq);
            }
            Err(JournalError::Damaged { .. }) => {
                assert!(changed_bits > 0, "an undamaged journal is rejected")
            }
            Err(error) => panic!("{error}"),
        }
    });
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

fn disk_with(directory: &str, file: &str, bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new(0);
    disk.create_directory(directory).expect("a directory");
    let file = disk.create(&format!("{directory}/{file}")).expect("a file");
    file.allocate(bytes.len() as u64).expect("room");
    file.write_at(0, bytes).expect("is written");
    disk
}

/// A whole segment. Its checksums are corrected first, so that the data behind them are read too, because a fuzzer does
/// not find checksums.
pub(crate) fn segment(input: &[u8]) {
    let mut bytes = input.to_vec();
    bytes.resize(bytes.len().max(2 * SECTOR_BYTES).next_multiple_of(SECTOR_BYTES), 0);
    seal_segment(&mut bytes);
    let first_seq = u64_at(&bytes, 16);
    let disk = disk_with("journal", &format!("{first_seq:020}.seg"), &bytes);
    let Ok(found) = verify(dynamic(&disk)) else { return };
    let records = records(&disk, first_seq);
    assert_eq!((found.first_seq, found.last_seq), (first_seq, first_seq + records.len() as u64 - 1));
    assert!(records.is_sorted_by(|one, next| one.0 < next.0), "time does not increase");
    // A valid journal can be continued, and its content does not change.
    let opened = open(dynamic(&disk), Options::default()).expect("a verified journal can be opened");
    assert_eq!(opened.recovered, found);
    assert!(self::records(&disk, first_seq) == records, "opening changed a record");
}

/// The records from `first_seq` on: the time and content of each.
fn records(disk: &SimDisk, first_seq: u64) -> Vec<(i64, Vec<u8>)> {
    let mut reader = Reader::new(dynamic(disk), first_seq);
    let mut records = Vec::new();
    while let Some(record) = reader.next_record(END).expect("a verified journal can be read") {
        records.push((record.time_ns, record.bytes.to_vec()));
    }
    records
}

/// Corrects magic, length, sequence, chain and checksums of a segment and its frames. A frame whose seventh byte is odd
/// keeps its chain and sequence.
fn seal_segment(bytes: &mut [u8]) {
    let length = bytes.len();
    put(bytes, 0, b"UPESISEG");
    put(bytes, 40, &(length as u64).to_le_bytes());
    // Real numbers are far from the maximum.
    put(bytes, 20, &[0; 4]);
    let crc = crc32c::crc32c(&bytes[..SECTOR_BYTES - 4]);
    put(bytes, SECTOR_BYTES - 4, &crc.to_le_bytes());
    let identity = crc32c::crc32c(&bytes[56..64]);
    let (mut chain, mut next_seq) = (u64_at(bytes, 24), u64_at(bytes, 16));
    let mut at = SECTOR_BYTES;
    while at < length {
        let frame = &mut bytes[at..];
        let end = (64 + u32_at(frame, 12) as usize).next_multiple_of(SECTOR_BYTES);
        if !frame.starts_with(b"\xf5UJ\0") || end > frame.len() {
            at += SECTOR_BYTES;
            continue;
        }
        if frame[6] & 1 == 0 {
            put(frame, 16, &next_seq.to_le_bytes());
            put(frame, 40, &chain.to_le_bytes());
        }
        let body_crc = crc32c::crc32c(&frame[64..end]);
        put(frame, 56, &body_crc.to_le_bytes());
        let header_crc = crc32c::crc32c_append(identity, &frame[..60]);
        put(frame, 60, &header_crc.to_le_bytes());
        chain = u64::from(header_crc) << 32 | u64::from(body_crc);
        next_seq = u64_at(frame, 16).wrapping_add(u64::from(u32_at(frame, 8)));
        at += end;
    }
}

/// A whole snapshot file. Its checksums are corrected unless its thirteenth byte is odd.
pub(crate) fn snapshot_file(input: &[u8]) {
    const HEADER_BYTES: usize = 64;
    let mut bytes = input.to_vec();
    bytes.resize(bytes.len().max(HEADER_BYTES), 0);
    if bytes[12] & 1 == 0 {
        let body_bytes = (bytes.len() - HEADER_BYTES) as u64;
        put(&mut bytes, 0, b"UPESISNP");
        // A wrong length is tried, too.
        if bytes[12] & 2 == 0 {
            put(&mut bytes, 32, &body_bytes.to_le_bytes());
        }
        let body_crc = crc32c::crc32c(&bytes[HEADER_BYTES..]);
        put(&mut bytes, 40, &body_crc.to_le_bytes());
        let header_crc = crc32c::crc32c(&bytes[..60]);
        put(&mut bytes, 60, &header_crc.to_le_bytes());
    }
    let seq = u64_at(&bytes, 16);
    let store =
        SnapshotStore::open_for_reading(dynamic(&disk_with("snapshots", &format!("{seq:020}.snap"), &bytes)));
    let latest = store.latest().expect("the disk can be read");
    match store.read(seq) {
        Ok(snapshot) => {
            assert_eq!((snapshot.seq, snapshot.time_ns as u64), (seq, u64_at(&bytes, 24)));
            assert!(snapshot.bytes == bytes[HEADER_BYTES..], "the snapshot differs from the file");
            assert_eq!(latest.snapshot, Some(snapshot));
        }
        Err(JournalError::Damaged { .. }) => {
            assert!(latest.snapshot.is_none() && latest.damaged.len() == 1, "{latest:?}");
        }
        Err(error) => panic!("{error}"),
    }
}

/// The payload of a record of the journal.
pub(crate) fn ledger_record(input: &[u8]) {
    let Ok(record) = Record::decode(input) else { return };
    let mut written = Vec::new();
    Record::encode(record.actor, &record.events, &record.callbacks, record.payload, &mut written);
    assert_eq!(Record::decode(&written).as_ref(), Ok(&record));
}

pub(crate) fn ledger_snapshot(input: &[u8]) {
    let Ok(ledger) = Ledger::decode_snapshot(input, LedgerConfig::default()) else { return };
    upesi_ledger::audit::check(&ledger);
    let mut written = Vec::new();
    ledger.encode_snapshot(&mut written);
    let read = Ledger::decode_snapshot(&written, LedgerConfig::default()).expect("its own snapshot");
    let mut again = Vec::new();
    read.encode_snapshot(&mut again);
    assert!(written == again, "a snapshot differs from the output of its own state");
}

pub(crate) fn archived_transfer(input: &[u8]) {
    let Ok(transfer) = Transfer::decode(&mut Decoder(input)) else { return };
    let mut written = Vec::new();
    transfer.encode(&mut Encoder(&mut written));
    let mut rest = Decoder(&written);
    assert_eq!(Transfer::decode(&mut rest).as_ref(), Ok(&transfer));
    assert!(rest.0.is_empty(), "{} bytes are left", rest.0.len());
}

/// A record of the log of the tables that hold no money.
pub(crate) fn store_record(input: &[u8]) {
    let Some(changes) = upesi_tables::store::read_record(input) else { return };
    let written = upesi_tables::store::write_record(&changes);
    assert!(written.len() <= input.len(), "the encoding is longer than the input");
    assert_eq!(upesi_tables::store::read_record(&written), Some(changes));
}
