//! The simulated disk itself: how it tears, and how it lies.

use std::collections::BTreeSet;

use crate::disk::Disk;
use crate::frame::{SECTOR_BYTES, TAIL_BYTES};
use crate::sim_disk::{DiskFault, FaultedOperation, FileView, SimDisk, SurvivingData};

const FILE: &str = "file";
const OLD: u8 = 1;
const NEW: u8 = 2;
const SECTORS: usize = 4;

/// A disk with a file of old bytes, all durable.
fn disk() -> SimDisk {
    let disk = SimDisk::new(0);
    let file = disk.create(FILE).expect("creates");
    file.write_at(0, &[OLD; SECTORS * SECTOR_BYTES]).expect("writes");
    file.sync().expect("syncs");
    disk.sync_directory("").expect("syncs");
    disk
}

fn write(disk: &SimDisk, bytes: &[u8]) {
    let file = disk.open(FILE, crate::Access::Write).expect("opens");
    file.write_at(0, bytes).expect("writes");
}

fn sync(disk: &SimDisk) {
    disk.open(FILE, crate::Access::Write).expect("opens").sync().expect("syncs");
}

#[test]
fn sectors_tear_at_any_byte_except_the_last_eight() {
    let disk = disk();
    write(&disk, &[NEW; SECTORS * SECTOR_BYTES]);
    let mut ends = BTreeSet::new();
    for seed in 0..20_000 {
        let contents = disk.after_power_loss(SurvivingData::Some(seed)).contents(FILE).expect("is there");
        for sector in contents.chunks(SECTOR_BYTES) {
            let end = sector.iter().position(|byte| *byte == OLD).unwrap_or(SECTOR_BYTES);
            assert!(sector[end..].iter().all(|byte| *byte == OLD), "more than a beginning is kept");
            ends.insert(end);
        }
    }
    let last = SECTOR_BYTES - TAIL_BYTES;
    assert!(ends.iter().all(|end| *end <= last || *end == SECTOR_BYTES));
    assert_eq!(ends.len(), last + 2, "every other byte is met");
}

#[test]
fn failed_write_may_be_done_up_to_any_byte() {
    let mut ends = BTreeSet::new();
    for seed in 0..4_000 {
        let disk = SimDisk::new(seed);
        let file = disk.create(FILE).expect("creates");
        disk.inject(1, DiskFault::Broken);
        file.write_at(0, &[NEW; 2 * SECTOR_BYTES]).expect_err("is broken");
        ends.insert(disk.contents(FILE).map_or(0, |contents| contents.len()));
        assert_eq!(disk.befallen(), 1);
    }
    assert!(ends.iter().any(|end| end % TAIL_BYTES != 0));
    assert!(ends.iter().all(|end| end % SECTOR_BYTES <= SECTOR_BYTES - TAIL_BYTES));
}

/// Which sectors are new on the medium, after the write was reported and synced.
fn kept_of(fault: DiskFault) -> Vec<bool> {
    let disk = disk();
    disk.inject_into(FILE, 1, fault);
    write(&disk, &[OLD; SECTOR_BYTES]);
    assert_eq!(disk.deceptions(), []);
    let bytes = [NEW; 2 * SECTOR_BYTES];
    write(&disk, &bytes);
    sync(&disk);
    assert_eq!(disk.deceptions(), [fault]);
    assert_eq!(disk.lies(), [bytes.to_vec()]);
    // The process still sees its write, until the page cache drops it or the power is lost.
    assert!(disk.contents(FILE).is_some_and(|contents| contents.starts_with(&bytes)));
    let after = disk.after_power_loss(SurvivingData::Everything);
    disk.evict();
    assert_eq!(disk.contents(FILE), after.contents(FILE));
    assert_eq!(after.lies(), disk.lies());
    // A later write of the same makes it true, once it is synced.
    write(&after, &bytes);
    assert_eq!(after.lies().len(), 1);
    sync(&after);
    assert_eq!(after.lies().len(), 0);
    assert!(
        after
            .after_power_loss(SurvivingData::Nothing)
            .contents(FILE)
            .is_some_and(|now| now.starts_with(&bytes))
    );
    let contents = disk.contents(FILE).expect("is there");
    contents.chunks(SECTOR_BYTES).map(|sector| sector.iter().all(|byte| *byte == NEW)).collect()
}

#[test]
fn falsely_reported_write_is_not_on_the_medium() {
    assert_eq!(kept_of(DiskFault::LostWrite), [false; SECTORS]);
    assert_eq!(kept_of(DiskFault::StaleWrite { sector: 0 }), [false, true, false, false]);
    assert_eq!(kept_of(DiskFault::StaleWrite { sector: 3 }), [true, false, false, false]);
    assert_eq!(kept_of(DiskFault::MisdirectedWrite { sectors: 2 }), [false, false, true, true]);
}

fn seen(disk: &SimDisk) -> FileView {
    disk.view().files.into_iter().next().expect("a file")
}

/// The view shows the data that the next power loss may destroy, and the armed faults.
#[test]
fn view_shows_unsynced_data_and_armed_faults() {
    let disk = disk();
    let whole = FileView {
        path: FILE.to_owned(),
        bytes: Some((SECTORS * SECTOR_BYTES) as u64),
        unsynced_bytes: 0,
        unsynced_changes: 0,
        is_on_medium: true,
        is_name_synced: true,
        lies: 0,
    };
    assert_eq!(seen(&disk), whole);
    write(&disk, &[NEW; SECTOR_BYTES]);
    let unsynced = FileView {
        unsynced_bytes: SECTOR_BYTES as u64,
        unsynced_changes: 1,
        is_on_medium: false,
        ..whole.clone()
    };
    assert_eq!(seen(&disk), unsynced);

    let next = disk.operations().len() as u64;
    disk.inject(next, DiskFault::Crash);
    disk.inject(next + 1, DiskFault::Broken);
    assert_eq!(disk.view().armed_operations, [(next, DiskFault::Crash), (next + 1, DiskFault::Broken)]);
    let file = disk.open(FILE, crate::Access::Write).expect("opens");
    file.sync().expect_err("crashes");
    assert_eq!(disk.strikes(), [FaultedOperation::Operation { ordinal: next, fault: DiskFault::Crash }]);
    assert!(disk.view().is_crashed);
    assert_eq!(disk.view().armed_operations, [(next + 1, DiskFault::Broken)]);
    assert_eq!(seen(&disk.after_kill()), unsynced);

    let after = disk.after_power_loss(SurvivingData::Nothing);
    assert_eq!((seen(&after), after.view().armed_operations), (whole, Vec::new()));
    after.inject_read_error(0);
    assert_eq!(after.view().armed_reads, [0]);
    let file = after.open(FILE, crate::Access::Read).expect("opens");
    file.read_at(0, &mut [0]).expect_err("is broken");
    assert_eq!(after.strikes()[1..], [FaultedOperation::Read { ordinal: 0 }]);
    assert_eq!((after.view().armed_reads, after.befallen()), (Vec::new(), 2));

    after.remove(FILE).expect("removes");
    assert_eq!((seen(&after).bytes, seen(&after).is_name_synced), (None, false));
    after.sync_directory("").expect("syncs");
    assert_eq!(after.view().files, []);
}
