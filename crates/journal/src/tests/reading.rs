//! Readers: in order, record by record, behind a live writer, and after retention.

use crate::sim_disk::script::{Script, dynamic, payload, time};
use crate::sim_disk::{DiskFault, Random, SimDisk, SurvivingData};
use crate::{Batch, END, JournalError, Reader, delete_segments_below, open, segments};

#[test]
fn reader_follows_the_writer_up_to_the_durable_record() {
    for seed in 0..30 {
        let script = Script::new(seed);
        let disk = SimDisk::new(seed);
        let mut random = Random::new(seed);
        let mut writer = open(dynamic(&disk), script.options.clone()).expect("opens").writer;
        let mut readers = [Reader::new(dynamic(&disk), 1), Reader::new(dynamic(&disk), 7)];
        let mut batch = Batch::new(1);
        while writer.next_seq() < 60 {
            script.fill(&mut batch, writer.next_seq(), 1 + random.below(3));
            let durable = writer.append(&mut batch).expect("appends").last_seq;
            writer.maintain().expect("maintains");
            for reader in &mut readers {
                while random.below(4) > 0 {
                    let expected = reader.next_seq();
                    match reader.next_record(durable).expect("reads") {
                        Some(record) => {
                            assert_eq!((record.seq, record.time_ns), (expected, time(expected)));
                            assert!(record.bytes == payload(seed, expected), "seed {seed}");
                        }
                        None => {
                            assert!(
                                expected > durable,
                                "seed {seed}: record {expected} of {durable} not found"
                            );
                            break;
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn records_can_be_read_in_any_order() {
    for seed in 0..30 {
        let script = Script::new(seed);
        let disk = SimDisk::new(seed);
        assert!(script.run(&disk).error.is_none());
        let mut random = Random::new(seed);
        let mut reader = Reader::new(dynamic(&disk), 1);
        for _ in 0..200 {
            let seq = 1 + random.below(script.last_seq());
            let record = reader.read_record(seq).expect("reads");
            assert_eq!((record.seq, record.time_ns), (seq, time(seq)));
            assert!(record.bytes == payload(seed, seq), "seed {seed}, record {seq}");
            if random.one_in(3) && seq < script.last_seq() {
                let next = reader.next_record(END).expect("reads").expect("there is one more");
                assert_eq!(next.seq, seq + 1);
            }
        }
    }
}

#[test]
fn ascending_reads_do_not_start_from_the_beginning() {
    let disk = SimDisk::new(0);
    let mut writer = open(dynamic(&disk), crate::Options::default()).expect("opens").writer;
    let mut batch = Batch::new(1);
    for seq in 1..=4_000 {
        batch.reset(seq);
        batch.push(time(seq), |buffer| buffer.extend([b'x'; 900]));
        writer.append(&mut batch).expect("appends");
    }
    let mut reader = Reader::new(dynamic(&disk), 1);
    reader.read_record(1_000).expect("reads");
    let before = disk.reads();
    for seq in (1_000..4_000).step_by(30) {
        assert_eq!(reader.read_record(seq).expect("reads").seq, seq);
    }
    // About 4 MB in pieces of 256 KiB, and for each long jump a read of the list of segments.
    assert!(disk.reads() - before < 150, "{} reads", disk.reads() - before);
}

#[test]
fn missing_record_is_an_error() {
    let script = Script::new(3);
    let disk = SimDisk::new(3);
    let mut empty = Reader::new(dynamic(&disk), 1);
    open(dynamic(&disk), script.options.clone()).expect("opens");
    assert!(empty.next_record(0).expect("nothing is durable").is_none());
    assert!(empty.next_record(END).expect("the journal is empty").is_none());
    assert!(matches!(empty.read_record(0), Err(JournalError::NoSuchRecord { seq: 0, oldest: 0 })));
    assert!(matches!(empty.read_record(1), Err(JournalError::NoSuchRecord { seq: 1, oldest: 0 })));
    assert_eq!(empty.next_seq(), 1, "its position is unchanged");
    let mut beyond = Reader::new(dynamic(&disk), 2);
    assert!(matches!(beyond.next_record(END), Err(JournalError::NoSuchRecord { seq: 2, oldest: 0 })));
    assert!(script.run(&disk).error.is_none());
    let last_seq = script.last_seq();
    let mut reader = Reader::new(dynamic(&disk), last_seq + 1);
    assert!(reader.next_record(last_seq).expect("nothing new").is_none());
    assert!(reader.next_record(END).expect("nothing new").is_none());
    // The record is reported as durable, and does not exist.
    assert!(matches!(reader.next_record(last_seq + 1), Err(JournalError::Damaged { .. })));
    reader.seek(last_seq + 2);
    assert!(matches!(reader.next_record(END), Err(JournalError::NoSuchRecord { .. })));
    assert_eq!(reader.read_record(1).expect("the reader can still be used").seq, 1);
}

#[test]
fn retention_deletes_whole_segments_from_the_front() {
    let script = Script::new(8);
    let disk = SimDisk::new(8);
    assert!(script.run(&disk).error.is_none());
    let all = segments(&disk).expect("lists");
    assert!(all.len() > 3);
    assert_eq!(all[0].last_seq, Some(all[1].first_seq - 1));
    assert_eq!(all[all.len() - 1].last_seq, None);
    let mut reader = Reader::new(dynamic(&disk), 1);
    reader.next_record(END).expect("reads");
    assert_eq!(delete_segments_below(&disk, all[2].first_seq - 1).expect("deletes"), 1);
    assert_eq!(segments(&disk).expect("lists")[..], all[1..]);
    // A reader that has the deleted segment open continues with the next one.
    assert_eq!(reader.next_record(END).expect("reads").map(|record| record.seq), Some(2));
    while reader.next_record(END).expect("reads").is_some() {}
    assert_eq!(reader.next_seq(), script.last_seq() + 1);
    let gone = reader.read_record(1).map(|record| record.seq);
    let oldest = all[1].first_seq;
    assert!(matches!(gone, Err(JournalError::NoSuchRecord { seq: 1, oldest: found }) if found == oldest));
    let gone = Reader::new(dynamic(&disk), 1).next_record(END).map(|_| ());
    assert!(matches!(gone, Err(JournalError::NoSuchRecord { seq: 1, oldest: found }) if found == oldest));
    // The last segment stays, so that the journal knows its position.
    assert_eq!(delete_segments_below(&disk, u64::MAX).expect("deletes"), all.len() - 2);
    let recovered = open(dynamic(&disk), script.options.clone()).expect("opens").recovered;
    assert_eq!((recovered.first_seq, recovered.last_seq), (all[all.len() - 1].first_seq, script.last_seq()));
}

#[test]
fn a_power_loss_during_retention_leaves_no_gap() {
    for seed in 0..40 {
        for ordinal in 0..8 {
            let script = Script::new(8);
            let disk = SimDisk::new(seed);
            assert!(script.run(&disk).error.is_none());
            disk.inject(disk.operations().len() as u64 + ordinal, DiskFault::Crash);
            let _ = delete_segments_below(&disk, u64::MAX);
            let after = disk.after_power_loss(SurvivingData::Some(seed));
            assert_eq!(crate::verify(dynamic(&after)).expect("no gap").last_seq, script.last_seq());
        }
    }
}

/// A journal with this many segments. Its frames have three sectors, so no read ends at the end of a frame.
fn journal_of(segments: u64, segment_bytes: u64) -> (SimDisk, u64) {
    let disk = SimDisk::new(0);
    let options = crate::Options { segment_bytes, ..crate::Options::default() };
    let mut writer = open(dynamic(&disk), options).expect("opens").writer;
    let mut batch = Batch::new(1);
    let last_seq = segments * ((segment_bytes - 512) / 1536);
    for seq in 1..=last_seq {
        batch.reset(seq);
        batch.push(time(seq), |buffer| buffer.extend((0..1_400).map(|at| (at + seq) as u8)));
        writer.append(&mut batch).expect("appends");
    }
    (disk, last_seq)
}

fn reads_of(disk: &SimDisk, read: impl FnOnce()) -> u64 {
    let before = disk.reads();
    read();
    disk.reads() - before
}

#[test]
fn reads_that_end_within_frames_are_joined() {
    let (disk, last_seq) = journal_of(1, 2 * 1024 * 1024);
    // List, headers, and 2 MB in pieces of 256 KiB; then as much in pieces of 64 KiB for the bytes after the end.
    let reads = reads_of(&disk, || {
        let recovered = open(dynamic(&disk), crate::Options::default()).expect("opens").recovered;
        assert_eq!((recovered.last_seq, recovered.torn), (last_seq, None));
    });
    assert!(reads < 20, "{reads} reads");
    let mut reader = Reader::new(dynamic(&disk), 1);
    let reads = reads_of(&disk, || while reader.next_record(last_seq).expect("reads").is_some() {});
    assert_eq!(reader.next_seq(), last_seq + 1);
    assert!(reads < 15, "{reads} reads");
}

#[test]
fn long_jumps_do_not_read_the_records_between() {
    let (disk, last_seq) = journal_of(1, 4 * 1024 * 1024);
    let mut reader = Reader::new(dynamic(&disk), 1);
    reader.read_record(last_seq).expect("reads");
    for seq in (1..last_seq).rev().step_by(300) {
        let reads = reads_of(&disk, || assert_eq!(reader.read_record(seq).expect("reads").seq, seq));
        assert!(reads <= 3, "{reads} reads to go back to {seq}");
    }
    let (disk, last_seq) = journal_of(20, 256 * 1024);
    let mut reader = Reader::new(dynamic(&disk), 1);
    for seq in [1, last_seq, last_seq - 100, 1] {
        let reads = reads_of(&disk, || assert_eq!(reader.read_record(seq).expect("reads").seq, seq));
        assert!(reads <= 3, "{reads} reads to go to {seq}");
    }
    // Data that was read ahead serves the following records. A record that is not the next one needs a read of the
    // segments.
    assert_eq!(reads_of(&disk, || assert!(reader.next_record(last_seq).expect("reads").is_some())), 0);
    assert_eq!(reads_of(&disk, || assert_eq!(reader.read_record(9).expect("reads").seq, 9)), 1);
}

#[test]
fn unreadable_segment_is_an_error_and_not_the_end() {
    let script = Script::new(9);
    let disk = SimDisk::new(9);
    assert!(script.run(&disk).error.is_none());
    let mut errors = 0;
    for ordinal in 0..64 {
        let copy = disk.after_kill();
        copy.inject_read_error(ordinal);
        match script.read(&copy) {
            Ok(last_seq) => assert_eq!(last_seq, script.last_seq()),
            Err(JournalError::Io { .. }) => errors += 1,
            Err(error) => panic!("read {ordinal}: {error}"),
        }
    }
    assert!(errors > 3);
}
