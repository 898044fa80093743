//! Batches, frames, and invalid calls.

use crate::frame::{SECTOR_BYTES, is_unwritten};
use crate::sim_disk::script::{dynamic, time};
use crate::sim_disk::{Operation, Random, SimDisk};
use crate::{Batch, Durability, END, Maintenance, Options, Reader, Writer, open};

fn writer() -> Writer {
    open(dynamic(&SimDisk::new(0)), Options::default()).expect("opens").writer
}

fn batch(first_seq: u64, first_time_ns: i64) -> Batch {
    let mut batch = Batch::new(first_seq);
    batch.push(first_time_ns, |buffer| buffer.extend(b"record"));
    batch
}

#[test]
fn append_reports_the_written_batch() {
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
fn batch_rejects_a_record_that_is_not_later() {
    batch(1, 10).push(10, |_| {});
}

#[test]
#[should_panic(expected = "strictly increase")]
fn writer_rejects_a_batch_that_is_not_later() {
    let mut writer = writer();
    writer.append(&mut batch(1, 10)).expect("appends");
    let _ = writer.append(&mut batch(2, 10));
}

#[test]
#[should_panic(expected = "continue the sequence")]
fn writer_rejects_a_gap() {
    let _ = writer().append(&mut batch(2, 10));
}

#[test]
#[should_panic(expected = "empty batch")]
fn writer_rejects_an_empty_batch() {
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
#[should_panic(expected = "removed existing bytes")]
fn an_encoder_must_not_remove() {
    batch(1, 10).push(11, Vec::clear);
}

const MASK_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[test]
fn no_sector_of_a_frame_looks_unwritten() {
    let mut random = Random::new(1);
    for _ in 0..2_000 {
        let mut batch = Batch::new(1);
        let fill = random.below(4);
        let length = random.below(3_000) as usize;
        let mut bytes = vec![0; length];
        for byte in &mut bytes {
            // The sectors contain zeros, a few bits, or the words of masks, chosen per sector.
            *byte = if fill == 1 && random.one_in(20) { 1 << random.below(8) } else { 0 };
        }
        if fill == 2 {
            let words: Vec<_> =
                (0..8).map(|_| MASK_STEP.wrapping_mul(random.below(4)).to_le_bytes()).collect();
            // The headers of frame and record come before.
            let places = (64 + 12..).take(length);
            bytes = places.map(|place| words[place / SECTOR_BYTES][place % 8]).collect();
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
fn record_of_six_mebibytes_has_its_own_segment() {
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
fn volatile_writer_reports_it_and_does_not_sync() {
    let disk = SimDisk::new(0);
    let options = Options { durability: Durability::Volatile, ..Options::default() };
    let mut writer = open(dynamic(&disk), options).expect("opens").writer;
    let before = disk.operations().len();
    writer.append(&mut batch(1, 10)).expect("appends");
    writer.append(&mut batch(2, 11)).expect("appends");
    assert_eq!(writer.durability(), Durability::Volatile);
    assert!(!disk.operations()[before..].contains(&Operation::Sync));
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
        assert!(!disk.operations()[before..].contains(&Operation::Allocate));
        rolls += u32::from(appended.rolled);
        while writer.maintain().expect("maintains") == Maintenance::Advanced {}
    }
    assert!(rolls > 5);
}

/// Small and large bodies are aligned, whatever the history of the buffer, so that they can be written with direct IO.
#[test]
fn frames_begin_at_aligned_offsets() {
    let mut kept = Batch::new(1);
    for records in (0..40_u64).chain((41..400).step_by(7)) {
        let mut new = Batch::new(1);
        kept.reset(1);
        for batch in [&mut new, &mut kept] {
            for number in 0..=records {
                batch.push(time(number), |buffer| buffer.extend([number as u8; 500]));
            }
            batch.seal(3, 4);
            assert_eq!(batch.frame().as_ptr().align_offset(4096), 0, "{records} records");
        }
        assert!(new.frame() == kept.frame(), "{records} records");
    }
}

fn append(writer: &mut Writer, body_bytes: usize) -> crate::AppendedBatch {
    let seq = writer.next_seq();
    let mut batch = Batch::new(seq);
    // The record's own header is part of the body.
    batch.push(time(seq), |buffer| buffer.resize(buffer.len() + body_bytes - 12, b'a'));
    assert_eq!(batch.bytes(), body_bytes);
    writer.append(&mut batch).expect("appends")
}

#[test]
fn an_append_is_one_write_and_one_sync() {
    let disk = SimDisk::new(0);
    let mut writer = open(dynamic(&disk), Options::default()).expect("opens").writer;
    append(&mut writer, 100);
    for body_bytes in [12, 100, 5_000] {
        let before = disk.operations().len();
        append(&mut writer, body_bytes);
        assert_eq!(disk.operations()[before..], [Operation::Write, Operation::Sync]);
    }
}

#[test]
fn free_space_is_counted_exactly() {
    let disk = SimDisk::new(0);
    let options = Options { segment_bytes: 4096, ..Options::default() };
    let mut writer = open(dynamic(&disk), options).expect("opens").writer;
    assert!(!writer.has_room_for(1), "no segment exists yet");
    // After the header of a frame or of a segment. The padding also fits.
    let room = |writer: &Writer, bytes: u64| {
        assert!(writer.has_room_for(bytes - 64) && !writer.has_room_for(bytes - 63), "{bytes} bytes");
    };
    append(&mut writer, 100);
    room(&writer, 4096 - 1024);
    append(&mut writer, 2048 - 64);
    room(&writer, 1024);
    writer.reserve(1024 - 64).expect("there is room");
    room(&writer, 1024);
    // The next segment has its own header.
    writer.reserve(1024 - 63).expect("there is room");
    room(&writer, 4096 - 512);
    for length in [4096 - 512 - 63, 9_999] {
        writer.reserve(length).expect("there is room");
        room(&writer, (length + 64).next_multiple_of(512));
    }
    let before = disk.operations().len();
    assert!(append(&mut writer, 9_999).rolled);
    assert!(!disk.operations()[before..].contains(&Operation::Allocate));
}

#[test]
fn the_next_segment_is_prepared_from_half_full_on() {
    let disk = SimDisk::new(0);
    let options = Options { segment_bytes: 4096, zero_ahead: false, ..Options::default() };
    let mut writer = open(dynamic(&disk), options).expect("opens").writer;
    assert_eq!(writer.maintain().expect("maintains"), Maintenance::Advanced, "no segment is prepared");
    for used in [1024, 1536, 2048, 2560, 3072] {
        append(&mut writer, 100);
        let prepares = used == 2048;
        let expected = if prepares { Maintenance::Advanced } else { Maintenance::Idle };
        let before = disk.operations().len();
        assert_eq!(writer.maintain().expect("maintains"), expected, "{used} bytes are used");
        assert_eq!(disk.operations()[before..].contains(&Operation::Allocate), prepares);
        assert_eq!(writer.maintain().expect("maintains"), Maintenance::Idle);
    }
}

#[test]
fn failed_preparation_is_retried_a_sixteenth_later() {
    const SEGMENT_BYTES: u64 = 32 * 1024;
    let disk = SimDisk::new(0);
    let options = Options { segment_bytes: SEGMENT_BYTES, ..Options::default() };
    let mut writer = open(dynamic(&disk), options).expect("opens").writer;
    append(&mut writer, SEGMENT_BYTES as usize / 2);
    disk.set_capacity(disk.used_bytes());
    let mut tried = Vec::new();
    for number in 0..20 {
        let before = disk.operations().len();
        match writer.maintain().expect("maintains") {
            Maintenance::DiskFull => tried.push(number),
            other => assert_eq!((other, disk.operations().len()), (Maintenance::Idle, before)),
        }
        append(&mut writer, 100);
    }
    // Frames of 512 bytes: four for each sixteenth.
    assert_eq!(tried, [0, 4, 8, 12, 16]);
}

/// When a segment is half full, the next one is filled with zeros at twice the speed, so that it is completed in time.
/// The zeros are written in steps, so that an append never waits long.
#[test]
fn zeros_are_written_ahead_of_small_frames() {
    const SEGMENT_BYTES: u64 = 4 * 1024 * 1024;
    const CHUNK_BYTES: u64 = 256 * 1024;
    for (frame_bytes, zero_ahead) in
        [(4096, true), (100 * 1024, true), (CHUNK_BYTES, true), (CHUNK_BYTES + 512, true), (4096, false)]
    {
        let disk = SimDisk::new(0);
        let options = Options { segment_bytes: SEGMENT_BYTES, zero_ahead, ..Options::default() };
        let mut writer = open(dynamic(&disk), options).expect("opens").writer;
        let (mut zeroed, mut used) = (0, 512);
        loop {
            used += frame_bytes;
            if used > SEGMENT_BYTES {
                break;
            }
            append(&mut writer, frame_bytes as usize - 64);
            loop {
                let before = disk.operations().len();
                let advanced = writer.maintain().expect("maintains") == Maintenance::Advanced;
                let operations = &disk.operations()[before..];
                let writes = operations.iter().filter(|operation| **operation == Operation::Write).count();
                assert!(writes <= 4, "{writes} chunks in one step");
                assert_eq!(advanced, !operations.is_empty());
                zeroed += writes as u64 * CHUNK_BYTES;
                if !advanced {
                    break;
                }
            }
            let due = (2 * used).saturating_sub(SEGMENT_BYTES);
            let expected = if zero_ahead && frame_bytes <= CHUNK_BYTES { due } else { 0 };
            assert_eq!(zeroed, expected.next_multiple_of(CHUNK_BYTES).min(SEGMENT_BYTES), "{used} bytes");
        }
    }
}

/// After a very large frame, many zeros are due at once.
#[test]
fn zeros_that_are_due_are_written_in_steps_of_a_mebibyte() {
    let disk = SimDisk::new(0);
    let options = Options { segment_bytes: 8 * 1024 * 1024, ..Options::default() };
    let mut writer = open(dynamic(&disk), options).expect("opens").writer;
    append(&mut writer, 7 * 1024 * 1024);
    assert_eq!(writer.maintain().expect("maintains"), Maintenance::Advanced);
    assert_eq!(writer.maintain().expect("maintains"), Maintenance::Idle, "the frame was large");
    append(&mut writer, 100);
    let mut steps = Vec::new();
    loop {
        let before = disk.operations().len();
        if writer.maintain().expect("maintains") != Maintenance::Advanced {
            break;
        }
        steps.push(disk.operations().len() - before);
    }
    // Four chunks, each with a sync. Six MiB and a chunk are due.
    assert_eq!(steps, [5, 5, 5, 5, 5, 5, 2]);
}

/// A segment that was made for a large batch also takes small ones, and the next segment has the usual length.
#[test]
fn a_shorter_segment_is_filled_with_zeros_in_proportion() {
    const NEXT_BYTES: u64 = 1024 * 1024;
    const CHUNK_BYTES: u64 = 256 * 1024;
    let disk = SimDisk::new(0);
    let options = Options { segment_bytes: NEXT_BYTES, ..Options::default() };
    let mut writer = open(dynamic(&disk), options).expect("opens").writer;
    let length = 8 * NEXT_BYTES;
    writer.reserve(length - 1024 - 64).expect("there is room");
    let (mut zeroed, mut used) = (0, 512);
    let length = length - 512;
    while used + 64 * 1024 <= length {
        append(&mut writer, 64 * 1024 - 64);
        used += 64 * 1024;
        let before = disk.operations().len();
        while writer.maintain().expect("maintains") == Maintenance::Advanced {}
        let writes =
            disk.operations()[before..].iter().filter(|operation| **operation == Operation::Write).count();
        zeroed += writes as u64 * CHUNK_BYTES;
        let due = (2 * used).saturating_sub(length) * NEXT_BYTES / length;
        assert_eq!(zeroed, due.next_multiple_of(CHUNK_BYTES), "{used} bytes");
    }
    assert_eq!(zeroed, NEXT_BYTES);
}
