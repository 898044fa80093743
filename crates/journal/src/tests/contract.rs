//! Batches, frames, and what a caller must not do.

use crate::frame::{SECTOR_BYTES, is_unwritten};
use crate::sim_disk::script::{dynamic, time};
use crate::sim_disk::{Random, SimDisk};
use crate::{Batch, Durability, END, Options, Reader, Writer, open};

fn writer() -> Writer {
    open(dynamic(&SimDisk::new(0)), Options::default()).expect("opens").writer
}

fn batch(first_seq: u64, first_time_ns: i64) -> Batch {
    let mut batch = Batch::new(first_seq);
    batch.push(first_time_ns, |buffer| buffer.extend(b"record"));
    batch
}

#[test]
fn an_append_reports_what_was_written() {
    let mut writer = writer();
    let mut batch = batch(1, 10);
    assert_eq!(batch.push(11, |_| {}), 2);
    assert_eq!((batch.len(), batch.bytes(), batch.first_seq(), batch.next_seq()), (2, 30, 1, 3));
    let appended = writer.append(&mut batch).expect("appends");
    assert_eq!((appended.first_seq, appended.last_seq, appended.bytes, appended.rolled), (1, 2, 1024, true));
    assert_eq!((batch.bytes(), writer.next_seq(), writer.last_time_ns()), (30, 3, 11));
    assert_eq!(writer.durability(), Durability::Synced);
    batch.reset(3);
    assert!(batch.is_empty());
    batch.push(12, |_| {});
    let appended = writer.append(&mut batch).expect("appends");
    assert_eq!((appended.bytes, appended.rolled), (512, false));
}

#[test]
#[should_panic(expected = "strictly increase")]
fn a_batch_refuses_a_record_that_is_not_later() {
    batch(1, 10).push(10, |_| {});
}

#[test]
#[should_panic(expected = "strictly increase")]
fn a_writer_refuses_a_batch_that_is_not_later() {
    let mut writer = writer();
    writer.append(&mut batch(1, 10)).expect("appends");
    let _ = writer.append(&mut batch(2, 10));
}

#[test]
#[should_panic(expected = "continue the sequence")]
fn a_writer_refuses_a_gap() {
    let _ = writer().append(&mut batch(2, 10));
}

#[test]
#[should_panic(expected = "empty batch")]
fn a_writer_refuses_an_empty_batch() {
    let _ = writer().append(&mut Batch::new(1));
}

#[test]
#[should_panic(expected = "must be reset")]
fn an_appended_batch_is_reset_before_it_is_filled_again() {
    let mut batch = batch(1, 10);
    writer().append(&mut batch).expect("appends");
    batch.push(11, |_| {});
}

#[test]
#[should_panic(expected = "removed what it did not write")]
fn an_encoder_must_not_remove() {
    batch(1, 10).push(11, Vec::clear);
}

#[test]
fn no_sector_of_a_frame_looks_unwritten_whatever_it_contains() {
    let mut random = Random::new(1);
    for _ in 0..2_000 {
        let mut batch = Batch::new(1);
        let fill = random.below(4);
        let length = random.below(3_000) as usize;
        let mut bytes = vec![0; length];
        for byte in &mut bytes {
            // Nothing, few bits, or the very words that a mask consists of.
            *byte = if fill == 1 && random.one_in(20) { 1 << random.below(8) } else { 0 };
        }
        if fill == 2 {
            let word = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(random.below(3)).to_le_bytes();
            bytes = word.iter().copied().cycle().take(length).collect();
        }
        batch.push(time(1), |buffer| buffer.extend(&bytes));
        batch.seal(random.bits(), random.bits());
        for sector in batch.frame().chunks(SECTOR_BYTES) {
            assert!(!is_unwritten(sector));
            let tail = &sector[SECTOR_BYTES - 8..];
            assert!(tail.iter().map(|byte| byte.count_ones()).sum::<u32>() >= 8);
        }
    }
}

#[test]
fn a_record_of_six_mebibytes_gets_a_segment_of_its_own() {
    let disk = SimDisk::new(0);
    let options = Options { segment_bytes: 64 * 1024, ..Options::default() };
    let mut opened = open(dynamic(&disk), options.clone()).expect("opens");
    let large = vec![b'l'; 6 * 1024 * 1024];
    for seq in 1..=5 {
        let mut batch = Batch::new(seq);
        batch.push(time(seq), |buffer| buffer.extend(if seq == 3 { &large[..] } else { b"small" }));
        opened.writer.append(&mut batch).expect("appends");
        opened.writer.maintain().expect("maintains");
    }
    let recovered = open(dynamic(&disk), options).expect("opens").recovered;
    assert_eq!((recovered.last_seq, recovered.segments), (5, 3));
    let mut reader = Reader::new(dynamic(&disk), 2);
    let lengths: Vec<usize> =
        std::iter::from_fn(|| reader.next_record(END).expect("reads").map(|record| record.bytes.len()))
            .collect();
    assert_eq!(lengths, [5, large.len(), 5, 5]);
}

#[test]
fn a_volatile_writer_says_so_and_does_not_sync() {
    let disk = SimDisk::new(0);
    let options = Options { durability: Durability::Volatile, ..Options::default() };
    let mut writer = open(dynamic(&disk), options).expect("opens").writer;
    let before = disk.operations().len();
    writer.append(&mut batch(1, 10)).expect("appends");
    writer.append(&mut batch(2, 11)).expect("appends");
    assert_eq!(writer.durability(), Durability::Volatile);
    assert!(!disk.operations()[before..].contains(&crate::sim_disk::Operation::Sync));
}

#[test]
fn the_next_segment_is_ready_before_it_is_needed() {
    let disk = SimDisk::new(0);
    let options = Options { segment_bytes: 32 * 1024, ..Options::default() };
    let mut writer = open(dynamic(&disk), options).expect("opens").writer;
    writer.maintain().expect("maintains");
    let mut rolls = 0;
    for seq in 1..300 {
        let mut batch = Batch::new(seq);
        batch.push(time(seq), |buffer| buffer.extend([b'x'; 900]));
        let before = disk.operations().len();
        let appended = writer.append(&mut batch).expect("appends");
        assert!(!disk.operations()[before..].contains(&crate::sim_disk::Operation::Allocate));
        rolls += u32::from(appended.rolled);
        while writer.maintain().expect("maintains") == crate::Maintenance::Advanced {}
    }
    assert!(rolls > 5);
}
