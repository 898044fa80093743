//! Frames with a correct checksum in the wrong place, and remains that a torn write cannot leave.

use crate::frame::{self, FrameHeader, HEADER_BYTES, SECTOR_BYTES};
use crate::sim_disk::script::{dynamic, time};
use crate::sim_disk::{DiskFault, SimDisk, SurvivingData};
use crate::{Batch, Damage, END, JournalError, Options, Reader, RecoveredJournal, Writer, open, verify};

const IDENTITY: u64 = 77;
const FILE: &str = "journal/00000000000000000001.seg";
/// Position of the third frame.
const END_AT: usize = 3 * SECTOR_BYTES;

fn options() -> Options {
    Options { segment_bytes: 16 * 1024, identity: IDENTITY, ..Options::default() }
}

fn append(writer: &mut Writer, length: usize) -> Result<u64, JournalError> {
    let seq = writer.next_seq();
    let mut batch = Batch::new(seq);
    batch.push(time(seq), |buffer| buffer.resize(buffer.len() + length, b'r'));
    writer.append(&mut batch).map(|appended| appended.last_seq)
}

/// A journal of two records in two frames of one sector each, and its chain value.
fn journal() -> (SimDisk, u64) {
    let disk = SimDisk::new(0);
    let mut writer = open(dynamic(&disk), options()).expect("opens").writer;
    append(&mut writer, 100).expect("appends");
    append(&mut writer, 100).expect("appends");
    let chain = verify(dynamic(&disk)).expect("verifies").chain;
    (disk, chain)
}

/// Adds a frame with `body` after the two.
fn with_frame(identity: u64, body: &[u8], change: impl FnOnce(&mut FrameHeader)) -> SimDisk {
    let (disk, chain) = journal();
    let mut header = FrameHeader {
        record_count: 1,
        body_bytes: 0,
        first_seq: 3,
        first_time_ns: time(3),
        last_time_ns: time(3),
        previous_chain: chain,
        mask: 0,
        body_crc: 0,
        header_crc: 0,
    };
    change(&mut header);
    let mut bytes = vec![0; HEADER_BYTES];
    bytes.extend_from_slice(body);
    frame::seal(&mut bytes, 0, header, identity);
    disk.corrupt(FILE, |file| {
        let length = bytes.len().min(file.len() - END_AT);
        file[END_AT..END_AT + length].copy_from_slice(&bytes[..length]);
    });
    disk
}

fn record(seq: u64, length: usize) -> Vec<u8> {
    let mut bytes = (length as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&time(seq).to_le_bytes());
    bytes.resize(bytes.len() + length, b'f');
    bytes
}

fn judge(disk: &SimDisk) -> Result<RecoveredJournal, Damage> {
    let options = options();
    match (verify(dynamic(disk)), open(dynamic(disk), options)) {
        (Ok(verified), Ok(opened)) => {
            assert_eq!(verified, opened.recovered);
            Ok(verified)
        }
        (Err(JournalError::Damaged { reason, .. }), Err(JournalError::Damaged { reason: also, .. })) => {
            assert_eq!(reason, also);
            Err(reason)
        }
        other => panic!("{other:?}"),
    }
}

/// Description, body, change to the correct header, and the last record or the detected damage.
type Case<'a> = (&'a str, &'a [u8], fn(&mut FrameHeader), Result<u64, Damage>);

#[test]
fn a_frame_must_continue_its_predecessor() {
    let body = record(3, 10);
    let two = [record(3, 10), record(4, 10)].concat();
    let swapped = [record(3, 10), record(5, 10), record(4, 10), record(6, 10)].concat();
    let with_rest = [&record(3, 10)[..], b"rest"].concat();
    let cases: [Case<'_>; 13] = [
        ("the right frame", &body, |_| {}, Ok(3)),
        ("a gap", &body, |header| header.first_seq = 4, Err(Damage::Sequence { expected: 3, found: 4 })),
        (
            "a repetition",
            &body,
            |header| header.first_seq = 2,
            Err(Damage::Sequence { expected: 3, found: 2 }),
        ),
        ("another chain", &body, |header| header.previous_chain ^= 1, Err(Damage::Chain)),
        ("the time before", &body, |header| header.first_time_ns = time(2), Err(Damage::Time)),
        ("time running back", &body, |header| header.last_time_ns = time(1), Err(Damage::Time)),
        ("no record", &[], |header| header.record_count = 0, Err(Damage::Malformed)),
        ("too few records", &body, |header| header.record_count = 2, Err(Damage::Malformed)),
        ("too many records", &two, |header| header.last_time_ns = time(4), Err(Damage::Malformed)),
        ("another first time", &body, |header| header.last_time_ns = time(4), Err(Damage::Malformed)),
        ("a cut record", &body[..20], |_| {}, Err(Damage::Malformed)),
        ("less than a record behind it", &with_rest, |_| {}, Err(Damage::Malformed)),
        (
            "records out of order",
            &swapped,
            |header| (header.record_count, header.last_time_ns) = (4, time(6)),
            Err(Damage::Malformed),
        ),
    ];
    for (name, body, change, expected) in cases {
        let found = judge(&with_frame(IDENTITY, body, change)).map(|recovered| recovered.last_seq);
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn chain_covers_both_checksums() {
    let mut batch = Batch::new(1);
    batch.push(time(1), |_| {});
    let header = FrameHeader { header_crc: 0x1234_5678, body_crc: 0x9abc_def0, ..batch.seal(0, IDENTITY) };
    assert_eq!(header.chain(), 0x1234_5678_9abc_def0);
}

#[test]
fn frame_of_another_journal_is_ignored() {
    assert_eq!(judge(&with_frame(IDENTITY + 1, &record(3, 10), |_| {})), Err(Damage::FrameHeader));
}

#[test]
fn frame_that_does_not_fit_its_segment_is_not_torn() {
    assert_eq!(judge(&with_frame(IDENTITY, &record(3, 16 * 1024), |_| {})), Err(Damage::Malformed));
}

#[test]
fn torn_frame_may_contain_bytes_like_a_frame() {
    // A record that contains another journal's frames at every sector.
    let mut stranger = Batch::new(4);
    stranger.push(time(4), |buffer| buffer.extend([b'x'; 100]));
    stranger.seal(0, IDENTITY + 1);
    let mut body = record(3, SECTOR_BYTES - HEADER_BYTES - 12 + 4 * SECTOR_BYTES);
    for sector in 1..4 {
        let start = sector * SECTOR_BYTES - HEADER_BYTES;
        body[start..start + SECTOR_BYTES].copy_from_slice(stranger.frame());
    }
    let disk = with_frame(IDENTITY, &body, |_| {});
    assert_eq!(judge(&disk.after_kill()).map(|recovered| recovered.last_seq), Ok(3));
    for lost in [0, 4] {
        let torn = disk.after_kill();
        torn.corrupt(FILE, |file| file[END_AT + lost * SECTOR_BYTES..][..SECTOR_BYTES].fill(0));
        let verified = verify(dynamic(&torn)).expect("is torn");
        assert_eq!((verified.last_seq, verified.torn.map(|torn| torn.offset)), (2, Some(END_AT as u64)));
    }
}

#[test]
fn remains_of_several_writes_are_damage() {
    let disk = with_frame(IDENTITY, &record(3, 2_000), |_| {});
    let tear = |file: &mut Vec<u8>| file[END_AT + SECTOR_BYTES..END_AT + 2 * SECTOR_BYTES].fill(0);
    let torn = disk.after_kill();
    torn.corrupt(FILE, tear);
    assert_eq!(judge(&torn.after_kill()).map(|recovered| recovered.last_seq).err(), None);
    let with_more = disk.after_kill();
    with_more.corrupt(FILE, |file| {
        tear(file);
        file[END_AT + 8 * SECTOR_BYTES] = 1;
    });
    assert_eq!(judge(&with_more), Err(Damage::DataAfterEnd));
    let (only, _) = journal();
    for first in [true, false] {
        let lost = only.after_kill();
        let at = if first { SECTOR_BYTES } else { 2 * SECTOR_BYTES };
        lost.corrupt(FILE, |file| file[at..].fill(0));
        // A segment has at least one frame. Further frames that vanish completely leave no trace.
        assert_eq!(judge(&lost).err(), first.then_some(Damage::Missing(1)));
    }
    let before_others = only.after_kill();
    before_others.corrupt(FILE, |file| file[SECTOR_BYTES..2 * SECTOR_BYTES].fill(0));
    assert_eq!(judge(&before_others), Err(Damage::Missing(1)));
}

#[test]
fn missing_frame_before_another_is_damage() {
    let (disk, _) = journal();
    let mut writer = open(dynamic(&disk), options()).expect("opens").writer;
    append(&mut writer, 100).expect("appends");
    disk.corrupt(FILE, |file| file[2 * SECTOR_BYTES..3 * SECTOR_BYTES].fill(0));
    assert_eq!(judge(&disk), Err(Damage::FrameLost));
}

#[test]
fn batch_after_a_full_disk_may_reuse_the_place() {
    // In the present segment (1,000 bytes) and at the beginning of the next one (15,000 bytes).
    let mut refused = 0;
    for length in [1_000, 15_000] {
        for (seed, without_room) in (0..200).zip((0..8).cycle()) {
            let disk = SimDisk::new(seed);
            let mut writer = open(dynamic(&disk), options()).expect("opens").writer;
            append(&mut writer, 1_500).expect("appends");
            disk.inject(disk.operations().len() as u64 + without_room, DiskFault::Full);
            match append(&mut writer, length) {
                Err(JournalError::DiskFull { .. }) => refused += 1,
                // A sync is never repeated, and later operations have no effect here.
                Err(_) => continue,
                Ok(_) => continue,
            }
            append(&mut writer, if length == 15_000 { 14_500 } else { 3 }).expect("there is room again");
            let after = disk.after_power_loss(SurvivingData::Nothing);
            let mut reader = Reader::new(dynamic(&after), 1);
            while reader.next_record(END).expect("reads").is_some() {}
            assert_eq!(reader.torn(), None);
            assert_eq!(reader.next_seq(), writer.next_seq());
        }
    }
    assert!(refused > 50, "{refused} batches were refused");
}

/// A range that is larger than one read of the disk.
#[test]
fn bytes_far_after_the_end_are_checked() {
    let options = Options { segment_bytes: 256 * 1024, ..options() };
    for at in [END_AT + 9, 64 * 1024 + END_AT, 200_000, 256 * 1024 - 1] {
        let disk = SimDisk::new(0);
        let mut writer = open(dynamic(&disk), options.clone()).expect("opens").writer;
        append(&mut writer, 100).expect("appends");
        append(&mut writer, 100).expect("appends");
        disk.corrupt(FILE, |file| file[at] = 1);
        let torn = verify(dynamic(&disk)).expect("is torn").torn.expect("is torn");
        let end = at / SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES;
        assert_eq!((torn.offset, torn.bytes), (END_AT as u64, (end - END_AT) as u64), "{at}");
    }
}

#[test]
fn first_frame_after_a_lost_one_is_reported_and_older_ones_are_ignored() {
    let (disk, _) = journal();
    let mut writer = open(dynamic(&disk), options()).expect("opens").writer;
    for _ in 3..=5 {
        append(&mut writer, 100).expect("appends");
    }
    disk.corrupt(FILE, |file| file[END_AT..END_AT + SECTOR_BYTES].fill(0));
    match verify(dynamic(&disk)) {
        Err(JournalError::Damaged { reason: Damage::FrameLost, offset, .. }) => {
            assert_eq!(offset, (END_AT + SECTOR_BYTES) as u64);
        }
        other => panic!("{other:?}"),
    }
    // A copy of an earlier frame is in the place of a batch that was being written.
    let (disk, _) = journal();
    disk.corrupt(FILE, |file| file.copy_within(SECTOR_BYTES..2 * SECTOR_BYTES, END_AT + SECTOR_BYTES));
    let found = judge(&disk).expect("is torn");
    assert_eq!((found.last_seq, found.torn.map(|torn| torn.bytes)), (2, Some(2 * SECTOR_BYTES as u64)));
}
