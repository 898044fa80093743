//! The journal as the engine uses it: behind the trait [`Log`].

use std::sync::Arc;

use crate::sim_disk::script::{dynamic, time};
use crate::sim_disk::{DiskFault, SimDisk};
use crate::{
    Appender, Batch, ClaimedLog, Damage, END, EmbeddedLog, JournalError, Log, Maintenance, Options, segments,
};

const RECORD: [u8; 900] = [b'r'; 900];

fn log(disk: &SimDisk) -> Arc<dyn Log> {
    let options = Options { segment_bytes: 8 * 1024, identity: 5, ..Options::default() };
    Arc::new(EmbeddedLog::new(dynamic(disk), options))
}

fn append(appender: &mut dyn Appender, seq: u64) -> Result<u64, JournalError> {
    let mut batch = Batch::new(seq);
    batch.push(time(seq), |buffer| buffer.extend(RECORD));
    appender.append(&mut batch).map(|appended| appended.last_seq)
}

fn with_records(disk: &SimDisk, last: u64) -> Box<dyn Appender> {
    let ClaimedLog { mut appender, last_seq, torn } = log(disk).claim(0).expect("claims");
    assert_eq!((last_seq, torn), (0, None));
    for seq in 1..=last {
        assert_eq!(append(&mut *appender, seq).expect("appends"), seq);
        while appender.maintain().expect("maintains") == Maintenance::Advanced {}
    }
    appender
}

#[test]
fn appended_records_are_read_trimmed_and_claimed() {
    let disk = SimDisk::new(0);
    with_records(&disk, 40).confirm().expect("nothing has failed");
    let log = log(&disk);
    for mut reader in [log.read_from(3), log.read_once_from(3)] {
        assert_eq!(reader.next_seq(), 3);
        let next = reader.next_record(40).expect("reads").map(|record| (record.seq, record.bytes.to_vec()));
        assert_eq!(next, Some((3, RECORD.to_vec())));
        let one = reader.read_record(30).expect("reads");
        assert_eq!((one.seq, one.time_ns, one.bytes), (30, time(30), &RECORD[..]));
        assert_eq!((reader.next_seq(), reader.torn()), (31, None));
        assert_eq!(reader.next_record(30).expect("reads"), None);
    }
    assert_eq!(log.oldest_seq().expect("lists"), Some(1));
    let all = segments(&disk).expect("lists");
    assert_eq!(log.trim(all[2].first_seq).expect("trims"), 2);
    assert_eq!(log.oldest_seq().expect("lists"), Some(all[2].first_seq));
    let claimed = log.claim(40).expect("claims");
    assert_eq!((claimed.last_seq, claimed.torn), (40, None));
    match log.claim(41) {
        Err(JournalError::Damaged { reason: Damage::Missing(41), .. }) => {}
        other => panic!("{:?}", other.map(|claimed| claimed.last_seq)),
    }
}

#[test]
fn remains_of_a_batch_are_reported_by_readers_and_by_the_next_claim() {
    let disk = SimDisk::new(0);
    with_records(&disk, 2);
    let file = &segments(&disk).expect("lists")[0].file;
    // The header's sector and two frames of two sectors each. The last sector of the first frame is missing.
    disk.corrupt(file, |bytes| bytes[4 * 512..5 * 512].fill(0));
    let log = log(&disk);
    let mut reader = log.read_from(1);
    while reader.next_record(END).expect("reads").is_some() {}
    let torn = reader.torn().cloned().expect("is torn");
    assert_eq!((&torn.file, torn.offset, torn.bytes), (file, 3 * 512, 512));
    let claimed = log.claim(1).expect("claims");
    assert_eq!((claimed.last_seq, claimed.torn), (1, Some(torn)));
}

#[test]
fn space_is_reserved_until_a_failure() {
    let disk = SimDisk::new(0);
    let mut appender = with_records(&disk, 1);
    let large = 1024 * 1024;
    disk.set_capacity(4 * large);
    assert!(appender.has_room_for(900) && !appender.has_room_for(large));
    appender.reserve(large).expect("there is room");
    assert!(appender.has_room_for(large));
    appender.hand_over(None).expect("a log of one node");
    disk.inject(disk.operations().len() as u64, DiskFault::Broken);
    assert!(matches!(append(&mut *appender, 2), Err(JournalError::Io { .. })));
    let later = [appender.confirm(), appender.reserve(large), appender.maintain().map(|_| ())];
    assert!(later.iter().all(|result| matches!(result, Err(JournalError::Poisoned))), "{later:?}");
}
