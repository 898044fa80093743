//! Divisions are filled one after the other, look like one archive to readers, and are removed by age.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::support::{entries, entry, small_options, wait_until};
use crate::support::copy_directory;
use upesi_tables::TablesError;
use upesi_tables::archive::{
    Archive, ArchiveEntry, ArchiveOptions, ArchivePosition, Division, DivisionOrder, FjallArchive,
};
use upesi_types::Timestamp;

/// Tables of 10 transfers, divisions of 100, which are not merged while they grow.
fn options() -> ArchiveOptions {
    ArchiveOptions { division_transfers: 100, unmerged_tables: 100, ..small_options(10) }
}

fn open(path: &Path) -> FjallArchive {
    FjallArchive::open(path, &options()).unwrap()
}

/// Applies the transfers in steps of ten. The record `n` was made at `n` seconds.
fn apply(archive: &FjallArchive, from: u64, to: u64) {
    for at in (from..to).step_by(10) {
        let end = (at + 10).min(to);
        archive.apply_at(&entries(at..end), end, Timestamp::from_ms(end as i64 * 1000)).unwrap();
    }
}

fn all(archive: &FjallArchive) -> Vec<ArchiveEntry> {
    let mut all = Vec::new();
    archive
        .for_each(&mut |id, value| {
            all.push((id, value.to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
    all
}

fn sorted(mut entries: Vec<ArchiveEntry>) -> Vec<ArchiveEntry> {
    entries.sort_by_key(|(id, _)| id.to_bytes());
    entries
}

fn firsts(archive: &FjallArchive) -> Vec<u64> {
    archive.divisions().iter().map(|division| division.first_seq).collect()
}

fn expect_exactly(archive: &FjallArchive, from: u64, to: u64) {
    for index in 0..to + 50 {
        let (id, value) = entry(index);
        let expected = (from..to).contains(&index).then_some(value);
        assert_eq!(archive.get(&id).unwrap(), expected, "transfer {index}");
    }
    assert_eq!(all(archive), sorted(entries(from..to)));
}

#[test]
fn divisions_form_one_archive() {
    let directory = tempfile::tempdir().unwrap();
    let archive = open(directory.path());
    apply(&archive, 0, 350);
    assert_eq!(firsts(&archive), [1, 101, 201, 301]);
    expect_exactly(&archive, 0, 350);
    archive.sync().unwrap();
    drop(archive);
    let archive = open(directory.path());
    assert_eq!(archive.watermark(), 350);
    assert_eq!(firsts(&archive), [1, 101, 201, 301]);
    assert!(archive.stats().filter_ready, "so few are read at once");
    expect_exactly(&archive, 0, 350);
    let second = archive.divisions()[1];
    let expected = Division {
        first_seq: 101,
        watermark: 200,
        last_time: Some(Timestamp::from_ms(200_000)),
        transfers_estimate: second.transfers_estimate,
        is_closed: true,
    };
    assert_eq!(second, expected);
    assert!((100..=110).contains(&second.transfers_estimate));
    assert!(!archive.divisions()[3].is_closed);
}

#[test]
fn empty_division_has_the_time_of_the_previous_one() {
    let directory = tempfile::tempdir().unwrap();
    apply(&open(directory.path()), 0, 100);
    let archive = open(directory.path());
    assert_eq!(archive.divisions()[1].last_time, None);
    // Without a time of its own.
    archive.apply(&entries(100..110), 110).unwrap();
    assert_eq!(archive.divisions()[1].last_time, Some(Timestamp::from_ms(100_000)));
}

/// Visits transfers that finished at that second or later, as far as divisions show: one after the other.
#[test]
fn visit_skips_older_divisions() {
    let directory = tempfile::tempdir().unwrap();
    let archive = open(directory.path());
    apply(&archive, 0, 350);
    let firsts = [1, 101, 201, 301];
    let of = |first_seq: u64| sorted(entries(first_seq - 1..(first_seq + 99).min(350)));
    for (place, since, visited) in [
        (0, 0, 0..4),
        (0, 100, 0..4),
        (0, 101, 1..4),
        (0, 200, 1..4),
        (0, 201, 2..4),
        (0, 350, 3..4),
        (0, 351, 4..4),
        (101, 0, 1..4),
        (101, 201, 2..4),
        (301, 0, 3..4),
    ] {
        let found = visited_behind(&archive, place, since, DivisionOrder::OldestFirst);
        let expected =
            firsts[visited].iter().flat_map(|first| of(*first).into_iter().map(|one| (*first, one)));
        assert_eq!(found, expected.collect::<Vec<_>>(), "since {since} s from {place:?}");
    }
}

/// Everything that a visit finds, each with its division.
fn visited_behind(
    archive: &FjallArchive,
    division: u64,
    since: i64,
    order: DivisionOrder,
) -> Vec<(u64, ArchiveEntry)> {
    let mut found = Vec::new();
    let place = ArchivePosition { division, after: None };
    let mut visit = |here: ArchivePosition, value: &[u8]| {
        found.push((here.division, (here.after.unwrap(), value.to_vec())));
        ControlFlow::Continue(())
    };
    archive.visit_behind(place, Timestamp::from_ms(since * 1000), order, &mut visit).unwrap();
    found
}

#[test]
fn visit_from_the_youngest_division_goes_back_to_the_oldest() {
    let directory = tempfile::tempdir().unwrap();
    let archive = open(directory.path());
    apply(&archive, 0, 350);
    for (place, since, expected) in [
        (0, 0, &[301, 201, 101, 1][..]),
        (301, 0, &[301, 201, 101, 1]),
        (201, 0, &[201, 101, 1]),
        (0, 201, &[301, 201]),
        (201, 201, &[201]),
        (1, 101, &[]),
    ] {
        let found = visited_behind(&archive, place, since, DivisionOrder::YoungestFirst);
        let mut divisions: Vec<_> = found.iter().map(|(division, _)| *division).collect();
        divisions.dedup();
        assert_eq!(divisions, expected, "since {since} s from {place}");
        let in_each = |division: &u64| found.iter().filter(|(of, _)| of == division).count();
        assert!(expected.iter().all(|division| in_each(division) == if *division == 301 { 50 } else { 100 }));
    }
}

#[test]
fn oldest_divisions_are_removed_permanently() {
    let directory = tempfile::tempdir().unwrap();
    let archive = open(directory.path());
    apply(&archive, 0, 350);
    assert_eq!(archive.remove_to(99).unwrap(), 0, "the oldest division extends beyond that");
    assert_eq!(archive.remove_to(199).unwrap(), 1, "the second, too");
    assert_eq!(archive.remove_to(199).unwrap(), 0, "it is gone");
    assert_eq!(archive.first_seq(), 101);
    expect_exactly(&archive, 100, 350);
    apply(&archive, 350, 400);
    drop(archive);
    let archive = open(directory.path());
    assert_eq!(archive.first_seq(), 101);
    expect_exactly(&archive, 100, 400);
    assert_eq!(archive.remove_to(400).unwrap(), 3);
    assert_eq!((archive.remove_to(400).unwrap(), archive.divisions().len()), (0, 1), "an empty one stays");
    assert_eq!((archive.watermark(), archive.first_seq()), (400, 401));
    drop(archive);
    let archive = open(directory.path());
    assert_eq!((archive.watermark(), archive.first_seq()), (400, 401), "what left is not missed");
    drop(archive);
    let left: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "no files are left behind but the mark of the beginning: {left:?}");
}

/// A copy right after the removal is the worst result of a crash: the files are still there.
#[test]
fn removed_division_does_not_reappear_after_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let (path, crashed) = (directory.path().join("archive"), directory.path().join("crashed"));
    let archive = open(&path);
    apply(&archive, 0, 350);
    archive.finish_upkeep().unwrap();
    let mut seen = 0;
    // A reader keeps the files.
    let visited = archive.for_each_in(1, &mut |_, _| {
        if seen == 0 {
            assert_eq!(archive.remove_to(200).unwrap(), 2);
            assert!(directory_of(&path, 1).exists() && directory_of(&path, 101).exists());
            copy_directory(&path, &crashed);
            // The divisions may be removed in any order.
            std::fs::remove_dir_all(directory_of(&crashed, 101)).unwrap();
        }
        seen += 1;
        ControlFlow::Continue(())
    });
    assert!(visited.unwrap());
    assert_eq!(seen, 100);
    drop(archive);
    for path in [crashed, path] {
        let archive = open(&path);
        assert_eq!((firsts(&archive), archive.first_seq()), (vec![201, 301], 201));
        expect_exactly(&archive, 200, 350);
        assert!(!directory_of(&path, 1).exists());
    }
}

#[test]
fn archive_continues_if_files_cannot_be_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("archive");
    let archive = open(&path);
    apply(&archive, 0, 350);
    archive.finish_upkeep().unwrap();
    // A directory to be removed is renamed first. Here an obstacle is in the way.
    let mut obstacle = directory_of(&path, 1).into_os_string();
    obstacle.push(".removed");
    std::fs::write(&obstacle, "in the way").unwrap();
    assert_eq!(archive.remove_to(200).unwrap(), 2);
    assert_eq!(firsts(&archive), [201, 301]);
    drop(archive);
    assert_eq!(firsts(&open(&path)), [201, 301], "a removed division reappeared");
    assert!(directory_of(&path, 1).exists());
    std::fs::remove_file(&obstacle).unwrap();
    assert_eq!(firsts(&open(&path)), [201, 301]);
    assert!(!directory_of(&path, 1).exists(), "it goes with the next start");
}

/// A lost archive is created again after the removed transfers, and an archive that is completely older is removed.
#[test]
fn archive_begins_after_the_removed_divisions() {
    let directory = tempfile::tempdir().unwrap();
    for (name, applied) in [("empty", 0), ("older", 40)] {
        let path = directory.path().join(name);
        let archive = open(&path);
        apply(&archive, 0, applied);
        assert_eq!(archive.remove_to(70).unwrap(), 1, "{name}");
        assert_eq!((archive.watermark(), archive.watermark_applied()), (70, 70), "{name}");
        assert_eq!(firsts(&archive), [71], "{name}");
        apply(&archive, 70, 90);
        expect_exactly(&archive, 70, 90);
        drop(archive);
        // Begun, and not completed before a crash.
        std::fs::remove_dir_all(directory_of(&path, 71)).unwrap();
        let archive = open(&path);
        assert_eq!((archive.watermark(), firsts(&archive)), (70, vec![71]), "{name}");
    }
}

#[test]
fn lost_oldest_division_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let archive = open(directory.path());
    apply(&archive, 0, 350);
    archive.remove_to(100).unwrap();
    drop(archive);
    std::fs::remove_dir_all(directory_of(directory.path(), 101)).unwrap();
    let error = FjallArchive::open(directory.path(), &options()).err().unwrap();
    assert!(matches!(error, TablesError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("begins at record 101, its first division at 201"), "{error}");
}

/// The directory of a division, whether complete or not.
fn directory_of(archive: &Path, first_seq: u64) -> PathBuf {
    let settled = archive.join(format!("{first_seq:020}.sorted"));
    if settled.exists() { settled } else { archive.join(format!("{first_seq:020}")) }
}

#[test]
fn closed_divisions_are_rewritten_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let archive = open(path);
    apply(&archive, 0, 350);
    let is_settled = |first_seq: u64| path.join(format!("{first_seq:020}.sorted")).exists();
    wait_until("the last closed division is in order", || is_settled(201));
    expect_exactly(&archive, 0, 350);
    drop(archive);
    let archive = open(path);
    expect_exactly(&archive, 0, 350);
    assert_eq!(archive.watermark(), 350);
    drop(archive);
    // Stopped before the old one was removed.
    copy_directory(&directory_of(path, 101), &path.join("00000000000000000101"));
    assert!(is_settled(101));
    let archive = open(path);
    assert!(!path.join("00000000000000000101").exists());
    expect_exactly(&archive, 0, 350);
}

#[test]
fn finished_upkeep_leaves_nothing_to_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("archive");
    let archive = open(&path);
    apply(&archive, 0, 320);
    archive.finish_upkeep().unwrap();
    let is_settled = |first_seq: u64| path.join(format!("{first_seq:020}.sorted")).exists();
    assert!([1, 101, 201].into_iter().all(is_settled), "all that are closed are in order");
    assert!(!is_settled(301) && archive.stats().filter_ready);
    archive.sync().unwrap();
    drop(archive);
    // Nothing is written again: the same directories with the same tables.
    let archive = open(&path);
    let before = archive.stats();
    archive.finish_upkeep().unwrap();
    assert_eq!(archive.stats().unmerged_tables, before.unmerged_tables);
    expect_exactly(&archive, 0, 320);
}

#[test]
fn a_division_can_be_closed_before_it_is_full() {
    let directory = tempfile::tempdir().unwrap();
    let archive = open(directory.path());
    archive.divide().unwrap();
    assert_eq!(firsts(&archive), [1], "an empty one is not closed");
    apply(&archive, 0, 37);
    archive.divide().unwrap();
    archive.divide().unwrap();
    assert_eq!(firsts(&archive), [1, 38]);
    assert_eq!(archive.watermark(), 37, "pending transfers are written first");
    apply(&archive, 37, 38);
    archive.divide().unwrap();
    assert_eq!(firsts(&archive), [1, 38, 39], "one transfer is enough");
    apply(&archive, 38, 60);
    expect_exactly(&archive, 0, 60);
}

/// A division with few tables is not changed.
#[test]
fn divisions_of_many_tables_are_rewritten_in_order() {
    for (tables, is_settled) in [(8, false), (60, true)] {
        let directory = tempfile::tempdir().unwrap();
        let options =
            ArchiveOptions { division_transfers: 10_000, unmerged_tables: 250, ..small_options(10) };
        let archive = FjallArchive::open(directory.path(), &options).unwrap();
        apply(&archive, 0, tables * 10);
        archive.divide().unwrap();
        archive.finish_upkeep().unwrap();
        assert_eq!(directory.path().join("00000000000000000001.sorted").exists(), is_settled, "{tables}");
        expect_exactly(&archive, 0, tables * 10);
        let passed = (1 << 32..(1 << 32) + 1_000).filter(|index| archive.may_contain(&entry(*index).0));
        assert!(passed.count() < 20, "its filter is incomplete or saturated");
    }
}

/// Closed, and stopped before it was sorted.
#[test]
fn start_rewrites_divisions_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let [path, other] = ["archive", "other"].map(|name| directory.path().join(name));
    let options = ArchiveOptions { division_transfers: 10_000, ..options() };
    let archive = FjallArchive::open(&path, &options).unwrap();
    apply(&archive, 0, 120);
    drop(archive);
    // An empty division follows it.
    assert_eq!(open(&other).remove_to(120).unwrap(), 1);
    copy_directory(&directory_of(&other, 121), &directory_of(&path, 121));
    let archive = FjallArchive::open(&path, &options).unwrap();
    wait_until("it is in order", || path.join("00000000000000000001.sorted").exists());
    expect_exactly(&archive, 0, 120);
}

#[test]
fn archive_stats_report_its_size() {
    let directory = tempfile::tempdir().unwrap();
    let archive = open(directory.path());
    let empty = archive.stats();
    apply(&archive, 0, 65);
    let first = archive.stats();
    assert_eq!(first.transfers_estimate, 65, "five are pending");
    // The store may move the first of its tables at any time.
    assert!((5..=6).contains(&first.unmerged_tables), "{first:?}");
    assert!(first.disk_bytes > empty.disk_bytes && first.filter_ready);
    archive.sync().unwrap();
    let synced = archive.stats().unmerged_tables;
    archive.sync().unwrap();
    assert!(archive.stats().unmerged_tables <= synced, "a sync without pending transfers wrote a table");
    archive.divide().unwrap();
    apply(&archive, 65, 105);
    let second = archive.stats();
    assert_eq!(
        (second.transfers_estimate, second.filter_bytes),
        (105, 2 * 7 * 32),
        "16 of 100 share 32 bytes"
    );
    assert!(second.disk_bytes > first.disk_bytes);
}

/// From the second division on, its filter has the size of the expected transfers. After a start it has the same size.
#[test]
fn filters_have_the_size_of_divisions() {
    const MIB: u64 = 1 << 20;
    let directory = tempfile::tempdir().unwrap();
    let options = ArchiveOptions { division_transfers: 3 * MIB, ..small_options(10) };
    let bytes = |archive: &FjallArchive| archive.stats().filter_bytes;
    let archive = FjallArchive::open(directory.path(), &options).unwrap();
    assert_eq!(bytes(&archive), 2 * MIB);
    apply(&archive, 0, 30);
    archive.divide().unwrap();
    assert_eq!(bytes(&archive), (2 + 6) * MIB);
    drop(archive);
    let archive = FjallArchive::open(directory.path(), &options).unwrap();
    archive.finish_upkeep().unwrap();
    assert_eq!(bytes(&archive), (2 + 6) * MIB, "the first was kept when it was closed");
    expect_exactly(&archive, 0, 30);
}

#[test]
fn range_applied_again_is_stored_once() {
    let directory = tempfile::tempdir().unwrap();
    let archive = open(directory.path());
    apply(&archive, 0, 250);
    apply(&archive, 50, 150);
    apply(&archive, 250, 300);
    archive.sync().unwrap();
    assert_eq!(archive.watermark(), 300);
    assert_eq!(all(&archive), sorted(entries(0..300)));
}

#[test]
fn missing_division_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    apply(&open(directory.path()), 0, 350);
    std::fs::remove_dir_all(directory_of(directory.path(), 201)).unwrap();
    let error = FjallArchive::open(directory.path(), &options()).err().unwrap();
    assert!(matches!(error, TablesError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("a division ends at record 200, the next begins at 301"), "{error}");
}

#[test]
fn interrupted_division_changes_are_finished_or_undone() {
    let directory = tempfile::tempdir().unwrap();
    apply(&open(directory.path()), 0, 350);
    let file = |name: &str| directory.path().join(name);
    // A division that was being made, and one that was being removed.
    copy_directory(&file("00000000000000000301"), &file("00000000000000000401.new"));
    std::fs::rename(directory_of(directory.path(), 1), file("00000000000000000001.removed")).unwrap();
    let archive = open(directory.path());
    assert_eq!(firsts(&archive), [101, 201, 301]);
    assert!(!file("00000000000000000401.new").exists() && !file("00000000000000000001.removed").exists());
    assert_eq!(archive.watermark(), 350);
}

#[test]
fn filters_are_stored_and_never_outdated() {
    let directory = tempfile::tempdir().unwrap();
    let options =
        ArchiveOptions { division_transfers: 60_000, pending_transfers: 32_768, ..ArchiveOptions::default() };
    let (mut at, mut kept) = (0, 0);
    for round in 0..4 {
        let archive = FjallArchive::open(directory.path(), &options).unwrap();
        kept += u64::from(round < 3 && archive.stats().filter_ready);
        // In every other round, transfers are written that the stored filter does not have.
        let end = at + if round % 2 == 0 { 55_000 } else { 0 };
        archive.apply(&entries(at..end), end).unwrap();
        at = end;
        for index in (0..at).step_by(997) {
            assert!(archive.get(&entry(index).0).unwrap().is_some(), "transfer {index} of {at}");
        }
        wait_until("its filters are ready", || archive.stats().filter_ready);
        assert!(!archive.may_contain(&entry(1 << 40).0));
    }
    assert_eq!(
        kept, 3,
        "the first copy must be empty, two have the kept transfers, and the last has two divisions"
    );
    assert!(directory.path().join("00000000000000000001.filter").exists());
}
