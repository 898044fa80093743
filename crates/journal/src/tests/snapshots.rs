//! Snapshots: whole or not at all, and a damaged one is passed over.

use std::io::Write;

use crate::sim_disk::script::{dynamic, time};
use crate::sim_disk::{DiskFault, Operation, Random, SimDisk, SurvivingData};
use crate::{Damage, JournalError, Snapshot, SnapshotStore};

fn state(seq: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(seq);
    (0..length).map(|_| random.bits() as u8).collect()
}

fn write(store: &SnapshotStore, seq: u64, length: usize) -> Result<(), JournalError> {
    let bytes = state(seq, length);
    let info = store.write(seq, time(seq), |sink| {
        for piece in bytes.chunks(700) {
            sink.write_all(piece)?;
        }
        Ok(())
    })?;
    assert_eq!((info.seq, info.bytes), (seq, length as u64 + 64));
    Ok(())
}

fn latest(disk: &SimDisk) -> Option<Snapshot> {
    let latest = SnapshotStore::open_for_reading(dynamic(disk)).latest().expect("reads");
    assert!(latest.damaged.is_empty());
    latest.snapshot
}

#[test]
fn newest_snapshot_is_found_and_old_ones_are_pruned() {
    let disk = SimDisk::new(0);
    assert_eq!(latest(&disk), None);
    let store = SnapshotStore::open(dynamic(&disk)).expect("opens");
    for (seq, length) in [(5, 3_000_000), (70, 0), (600, 1024 * 1024), (8_000, 10)] {
        write(&store, seq, length).expect("writes");
        assert_eq!(latest(&disk), Some(Snapshot { seq, time_ns: time(seq), bytes: state(seq, length) }));
    }
    assert_eq!(store.read(5).expect("reads").bytes.len(), 3_000_000);
    assert_eq!(store.prune(2).expect("prunes"), 2);
    for disk in [disk.clone(), disk.after_power_loss(SurvivingData::Nothing)] {
        let left = SnapshotStore::open_for_reading(dynamic(&disk)).list().expect("lists");
        assert_eq!(left.iter().map(|info| info.seq).collect::<Vec<_>>(), [600, 8_000]);
    }
    assert_eq!(store.prune(0).expect("prunes"), 1);
    assert_eq!(
        latest(&disk.after_power_loss(SurvivingData::Nothing)).map(|snapshot| snapshot.seq),
        Some(8_000)
    );
}

#[test]
fn power_loss_or_error_leaves_the_old_or_the_new_snapshot() {
    for fault in [DiskFault::Crash, DiskFault::Broken, DiskFault::Full] {
        for seed in 0..40 {
            for ordinal in 0..6 {
                let disk = SimDisk::new(seed);
                let store = SnapshotStore::open(dynamic(&disk)).expect("opens");
                write(&store, 10, 2_000).expect("writes");
                let next = disk.operations().len() as u64;
                disk.inject(next + 1 + ordinal, fault);
                let result = write(&store, 20, 3_000);
                let found = latest(&disk.after_power_loss(SurvivingData::Some(seed))).expect("a snapshot");
                let expected = state(found.seq, if found.seq == 10 { 2_000 } else { 3_000 });
                assert!(found.bytes == expected && found.time_ns == time(found.seq));
                assert!(found.seq == 20 || result.is_err(), "{fault:?} at {ordinal}: it was acknowledged");
                if fault != DiskFault::Crash {
                    write(&store, 30, 100).expect("the next attempt works");
                    assert_eq!(
                        latest(&disk.after_power_loss(SurvivingData::Nothing)).map(|found| found.seq),
                        Some(30)
                    );
                }
            }
        }
    }
}

#[test]
fn damaged_snapshot_is_skipped_and_reported() {
    let disk = SimDisk::new(0);
    let store = SnapshotStore::open(dynamic(&disk)).expect("opens");
    write(&store, 1, 500).expect("writes");
    write(&store, 2, 600).expect("writes");
    let newest = "snapshots/00000000000000000002.snap";
    for at in 0..664 {
        let rotten = disk.after_kill();
        rotten.corrupt(newest, |bytes| bytes[at] ^= 1 << (at % 8));
        let found = SnapshotStore::open_for_reading(dynamic(&rotten)).latest().expect("reads");
        assert_eq!(found.snapshot.map(|snapshot| snapshot.seq), Some(1), "a flip at {at} was not noticed");
        assert!(matches!(&found.damaged[..], [JournalError::Damaged { file, .. }] if file == newest));
    }
    for length in [0, 63, 64, 663, 700] {
        let rotten = disk.after_kill();
        rotten.corrupt(newest, |bytes| bytes.resize(length, 0));
        let error = SnapshotStore::open_for_reading(dynamic(&rotten)).read(2).expect_err("is damaged");
        assert!(matches!(
            error,
            JournalError::Damaged { reason: Damage::Length { .. } | Damage::FileHeader, .. }
        ));
    }
    let misnamed = disk.after_kill();
    crate::Disk::rename(&misnamed, newest, "snapshots/00000000000000000003.snap").expect("renames");
    let found = SnapshotStore::open_for_reading(dynamic(&misnamed)).latest().expect("reads");
    assert_eq!((found.snapshot.map(|snapshot| snapshot.seq), found.damaged.len()), (Some(1), 1));
    disk.corrupt(newest, Vec::clear);
    disk.corrupt("snapshots/00000000000000000001.snap", |bytes| bytes[70] ^= 1);
    let found = store.latest().expect("reads");
    assert!(found.snapshot.is_none() && found.damaged.len() == 2);
}

#[test]
fn failing_producer_leaves_no_file() {
    let disk = SimDisk::new(0);
    let store = SnapshotStore::open(dynamic(&disk)).expect("opens");
    let result = store.write(1, time(1), |_| Err(std::io::Error::other("the state is gone")));
    assert!(matches!(result, Err(JournalError::Io { operation: "write", .. })));
    assert_eq!(crate::Disk::list(&disk, "snapshots").expect("lists"), Vec::<String>::new());
    disk.set_capacity(1_000);
    assert!(matches!(write(&store, 1, 2_000), Err(JournalError::DiskFull { .. })));
    assert!(disk.operations().contains(&Operation::Remove));
    write(&store, 1, 900).expect("this fits");
}

#[test]
fn large_snapshot_is_written_in_large_pieces() {
    let disk = SimDisk::new(0);
    let store = SnapshotStore::open(dynamic(&disk)).expect("opens");
    write(&store, 1, 3_000_000).expect("writes");
    let writes = disk.operations().iter().filter(|operation| **operation == Operation::Write).count();
    assert_eq!(writes, 4, "three of the body, each up to a mebibyte, and the header");
}

#[test]
fn failure_to_list_or_remove_is_an_error() {
    let disk = SimDisk::new(0);
    let store = SnapshotStore::open(dynamic(&disk)).expect("opens");
    write(&store, 1, 10).expect("writes");
    disk.inject(disk.operations().len() as u64, DiskFault::Broken);
    assert!(matches!(write(&store, 2, 10), Err(JournalError::Io { operation: "remove", .. })));
    disk.inject_read_error(disk.reads());
    assert!(matches!(store.latest(), Err(JournalError::Io { operation: "list", .. })));
    assert_eq!(latest(&disk).map(|found| found.seq), Some(1));
}
