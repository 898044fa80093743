//! Disks that report errors or are full.

use crate::sim_disk::script::{Script, dynamic, payload, time};
use crate::sim_disk::{DiskFault, Operation, SimDisk, SurvivingData};
use crate::{Batch, Damage, JournalError, Maintenance, Options, open};

const SCRIPTS: u64 = 12;

/// Runs a script that meets `fault` at every operation after opening, and passes on the result.
fn at_each_operation(
    seeds: std::ops::Range<u64>,
    fault: DiskFault,
    mut judge: impl FnMut(&Script, &SimDisk, u64, Operation),
) {
    for seed in seeds {
        let script = Script::new(seed);
        let whole = SimDisk::new(seed);
        assert!(script.run(&whole).error.is_none());
        for (ordinal, operation) in (0_u64..).zip(whole.operations()) {
            let disk = SimDisk::new(seed);
            disk.inject(ordinal, fault);
            judge(&script, &disk, ordinal, operation);
        }
    }
}

#[test]
fn error_stops_acknowledgements_and_loses_no_acknowledged_record() {
    at_each_operation(0..SCRIPTS, DiskFault::Broken, |script, disk, ordinal, operation| {
        let context = format!("seed {}, {operation:?} {ordinal}", script.seed);
        let progress = script.run(disk);
        match progress.error {
            Some(JournalError::Io { .. }) => {}
            // A leftover that does not exist need not be removed, but its existence must be known.
            ref other => panic!("{context}: {other:?}"),
        }
        // After a restart of the process or of the machine, recovery finds all acknowledged records, and they stay.
        for after in [
            disk.after_kill(),
            disk.after_power_loss(SurvivingData::Nothing),
            disk.after_power_loss(SurvivingData::Some(ordinal)),
        ] {
            let recovered = script.expect_recovered(&after, &progress);
            let later = after.after_power_loss(SurvivingData::Nothing);
            script.expect_records(&later, recovered.last_seq);
            assert!(script.run(&later).error.is_none(), "{context}");
            script.expect_records(&later, script.last_seq());
        }
    });
}

#[test]
fn a_poisoned_writer_does_not_touch_the_disk() {
    let disk = SimDisk::new(1);
    let mut writer = open(dynamic(&disk), Options::default()).expect("opens").writer;
    let mut batch = Batch::new(1);
    batch.push(time(1), |buffer| buffer.push(b'x'));
    writer.append(&mut batch).expect("appends");
    batch.reset(2);
    batch.push(time(2), |buffer| buffer.push(b'x'));
    let next = disk.operations().len() as u64;
    disk.inject(next + 1, DiskFault::Broken);
    assert!(matches!(writer.append(&mut batch), Err(JournalError::Io { operation: "sync", .. })));
    assert!(writer.is_poisoned());
    let operations = disk.operations().len();
    for _ in 0..3 {
        assert!(matches!(writer.append(&mut batch), Err(JournalError::Poisoned)));
        assert!(matches!(writer.maintain(), Err(JournalError::Poisoned)));
    }
    assert_eq!(disk.operations().len(), operations);
    assert_eq!(writer.next_seq(), 2);
}

/// Appends a script's batches, and repeats each batch after a full disk.
fn append_stubbornly(script: &Script, disk: &SimDisk) -> Result<u64, JournalError> {
    let mut repeated = 0;
    let mut writer = open(dynamic(disk), script.options.clone())?.writer;
    let mut batch = Batch::new(1);
    while writer.next_seq() <= script.last_seq() {
        script.fill(&mut batch, writer.next_seq(), 1);
        loop {
            match writer.append(&mut batch) {
                Err(JournalError::DiskFull { .. }) => repeated += 1,
                other => {
                    other?;
                    break;
                }
            }
        }
        while writer.maintain()? == Maintenance::Advanced {}
    }
    Ok(repeated)
}

#[test]
fn full_disk_at_any_operation_can_be_retried() {
    let mut repeated = 0;
    for seed in 50..50 + SCRIPTS {
        let script = Script::new(seed);
        let whole = SimDisk::new(seed);
        append_stubbornly(&script, &whole).expect("appends");
        for (ordinal, operation) in (0_u64..).zip(whole.operations()) {
            let disk = SimDisk::new(seed);
            disk.inject(ordinal, DiskFault::Full);
            match append_stubbornly(&script, &disk) {
                Ok(times) => {
                    assert!(!matches!(operation, Operation::Sync | Operation::SyncDirectory));
                    repeated += times;
                }
                // Before the first append, the caller can open again. A failed sync is never repeated.
                Err(JournalError::DiskFull { .. }) => {
                    assert!(ordinal < 6, "seed {seed}, {operation:?} {ordinal}")
                }
                Err(JournalError::Io { .. }) => {
                    assert!(matches!(operation, Operation::Sync | Operation::SyncDirectory));
                }
                Err(error) => panic!("seed {seed}, {operation:?} {ordinal}: {error}"),
            }
            let after = disk.after_power_loss(SurvivingData::Some(ordinal));
            append_stubbornly(&script, &after).expect("goes on");
            script.expect_records(&after, script.last_seq());
        }
    }
    assert!(repeated > 100, "only {repeated} batches were repeated");
}

#[test]
fn crash_on_a_full_disk_leaves_no_damage() {
    for seed in 80..80 + SCRIPTS {
        let script = Script::new(seed);
        let whole = SimDisk::new(seed);
        append_stubbornly(&script, &whole).expect("appends");
        for (ordinal, operation) in (0_u64..).zip(whole.operations()) {
            if operation != Operation::Write {
                continue;
            }
            for crash in 1..4 {
                let disk = SimDisk::new(seed);
                disk.inject(ordinal, DiskFault::Full);
                disk.inject(ordinal + crash, DiskFault::Crash);
                let _ = append_stubbornly(&script, &disk);
                for kept in [
                    SurvivingData::Everything,
                    SurvivingData::Nothing,
                    SurvivingData::Some(ordinal),
                    SurvivingData::Some(crash),
                ] {
                    let after = disk.after_power_loss(kept);
                    append_stubbornly(&script, &after).unwrap_or_else(|error| {
                        panic!("seed {seed}, operation {ordinal} + {crash}, {kept:?}: {error}")
                    });
                    script.expect_records(&after, script.last_seq());
                }
            }
        }
    }
}

#[test]
fn full_disk_rejects_appends_until_space_is_free() {
    let script = Script::new(7);
    let disk = SimDisk::new(7);
    disk.set_capacity(3 * script.options.segment_bytes);
    let mut writer = open(dynamic(&disk), script.options.clone()).expect("opens").writer;
    let mut batch = Batch::new(1);
    let mut refused_at = 0;
    let mut warned = false;
    for seq in 1..=200 {
        batch.reset(seq);
        batch.push(time(seq), |buffer| buffer.extend(payload(script.seed, seq)));
        if let Err(error) = writer.append(&mut batch) {
            assert!(matches!(error, JournalError::DiskFull { .. }), "{error}");
            assert!(matches!(writer.append(&mut batch), Err(JournalError::DiskFull { .. })));
            refused_at = seq;
            break;
        }
        warned |= writer.maintain().expect("maintains") == Maintenance::DiskFull;
    }
    assert!(refused_at > 3 && warned);
    assert_eq!(script.read(&disk).expect("reads"), refused_at - 1);
    disk.set_capacity(u64::MAX);
    writer.append(&mut batch).expect("there is room again");
    script.expect_records(&disk.after_power_loss(SurvivingData::Nothing), refused_at);
}

/// Reserved records fit on a full disk. Records without space are rejected before they are attempted.
#[test]
fn reserved_bytes_fit_on_a_full_disk() {
    for seed in 120..120 + SCRIPTS {
        let script = Script::new(seed);
        let disk = SimDisk::new(seed);
        let capacity = 3 * script.options.segment_bytes;
        let mut writer = open(dynamic(&disk), script.options.clone()).expect("opens").writer;
        let mut batch = Batch::new(1);
        let mut seq = 1;
        loop {
            let record = payload(script.seed, seq);
            // More than a frame adds to it.
            let body_bytes = record.len() as u64 + 64;
            disk.set_capacity(capacity);
            match writer.reserve(body_bytes) {
                Ok(()) => assert!(writer.has_room_for(body_bytes), "seed {seed}, record {seq}"),
                Err(JournalError::DiskFull { .. }) => break,
                Err(error) => panic!("seed {seed}, record {seq}: {error}"),
            }
            disk.set_capacity(disk.used_bytes());
            batch.reset(seq);
            batch.push(time(seq), |buffer| buffer.extend(record));
            writer.append(&mut batch).unwrap_or_else(|error| panic!("seed {seed}, record {seq}: {error}"));
            seq += 1;
            assert!(seq < 1_000, "seed {seed}: the disk is never full");
        }
        assert!(seq > 1 && !writer.has_room_for(script.options.segment_bytes), "seed {seed}: full at {seq}");
        assert!(!writer.is_poisoned());
        disk.set_capacity(u64::MAX);
        writer
            .reserve(10 * script.options.segment_bytes)
            .expect("there is room again, for a large batch too");
        batch.reset(seq);
        batch.push(time(seq), |buffer| buffer.extend(payload(script.seed, seq)));
        writer.append(&mut batch).expect("there is room again");
        script.expect_records(&disk.after_power_loss(SurvivingData::Nothing), seq);
    }
}

#[test]
fn error_during_a_reservation_poisons_the_writer() {
    let disk = SimDisk::new(4);
    let script = Script::new(4);
    let mut writer = open(dynamic(&disk), script.options.clone()).expect("opens").writer;
    disk.inject(disk.operations().len() as u64, DiskFault::Broken);
    let large = 10 * script.options.segment_bytes;
    assert!(matches!(writer.reserve(large), Err(JournalError::Io { .. })));
    assert!(writer.is_poisoned());
    assert!(matches!(writer.reserve(1), Err(JournalError::Poisoned)));
}

#[test]
fn unreadable_sector_is_an_error_and_not_the_end() {
    let script = Script::new(9);
    let disk = SimDisk::new(9);
    script.run(&disk);
    let fails = |ordinal: u64| {
        let copy = disk.after_kill();
        copy.inject_read_error(ordinal);
        open(dynamic(&copy), script.options.clone()).map(|opened| opened.recovered.last_seq)
    };
    let mut errors = 0;
    for ordinal in 0..64 {
        match fails(ordinal) {
            Ok(last_seq) => assert_eq!(last_seq, script.last_seq()),
            Err(JournalError::Io { .. }) => errors += 1,
            Err(error) => panic!("read {ordinal}: {error}"),
        }
    }
    assert!(errors > 3);
}

#[test]
fn lost_write_is_detected_by_later_writes() {
    let (mut found, mut harmless) = (0, 0);
    for fault in [DiskFault::LostWrite, DiskFault::MisdirectedWrite { sectors: 3 }] {
        at_each_operation(0..SCRIPTS, fault, |script, disk, ordinal, operation| {
            if operation != Operation::Write {
                return;
            }
            assert!(script.run(disk).error.is_none());
            let after = disk.after_power_loss(SurvivingData::Nothing);
            match crate::verify(dynamic(&after)) {
                Err(JournalError::Damaged { .. }) => found += 1,
                Err(error) => panic!("seed {}, operation {ordinal}: {error}", script.seed),
                Ok(recovered) if recovered.last_seq == script.last_seq() => harmless += 1,
                // Nothing follows the last frame, so only external knowledge detects its loss.
                Ok(_) => {
                    let options = Options { known_durable_seq: script.last_seq(), ..script.options.clone() };
                    let error =
                        open(dynamic(&after), options).map(|_| ()).expect_err("it is known to be missing");
                    assert!(matches!(error, JournalError::Damaged { reason: Damage::Missing(_), .. }));
                }
            }
        });
    }
    // A lost write of zeros is harmless, because the sector contains zeros anyway.
    assert!(found > 200 && harmless > 0, "{found} found, {harmless} harmless");
}
