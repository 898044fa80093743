//! Restarts, crashes, and readers beside a writer, on disk.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::support::{entries, entry, small_options};
use crate::support::{copy_directory, crash_directory, report_durable, run_and_kill};
use upesi_tables::TablesError;
use upesi_tables::archive::{Archive, ArchiveOptions, FjallArchive};

const BATCH: u64 = 70;
const TABLE: usize = 200;
/// The test that runs as the process to be killed.
const CHILD: &str = "archive::crash::killed_while_writing";

/// The invariant: every transfer up to the durable watermark is there, with its value.
fn assert_complete(archive: &dyn Archive) -> u64 {
    let watermark = archive.watermark();
    assert_eq!(
        archive.watermark_applied(),
        watermark,
        "after opening, the applied watermark is the one on disk"
    );
    for index in 0..watermark {
        let (id, value) = entry(index);
        assert!(archive.may_contain(&id), "transfer {index} below watermark {watermark} is filtered out");
        assert_eq!(archive.get(&id).unwrap(), Some(value), "transfer {index} below watermark {watermark}");
    }
    watermark
}

#[test]
fn reopened_archive_has_all_synced_transfers() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let archive = FjallArchive::open(directory.path(), &small_options(TABLE)).unwrap();
        assert_eq!(assert_complete(&archive), round * 500);
        // Transfers that were added without a change of the watermark.
        assert!((0..round).all(|round| archive.get(&entry(1_000_000 + round).0).unwrap().is_some()));
        archive.apply(&entries(round * 500..(round + 1) * 500), (round + 1) * 500).unwrap();
        archive.apply(&[entry(1_000_000 + round)], (round + 1) * 500).unwrap();
        assert_eq!(archive.sync().unwrap(), (round + 1) * 500);
    }
}

#[test]
fn archive_closed_without_sync_is_complete_up_to_its_watermark() {
    let directory = tempfile::tempdir().unwrap();
    let (live, copy) = (directory.path().join("live"), directory.path().join("copy"));
    let options = small_options(TABLE);
    let mut watermarks = Vec::new();
    for batches in 1..=6 {
        let archive = FjallArchive::open(&live, &options).unwrap();
        let start = assert_complete(&archive);
        let end = start + batches * BATCH;
        for at in (start..end).step_by(BATCH as usize) {
            archive.apply(&entries(at..at + BATCH), at + BATCH).unwrap();
        }
        let durable = archive.watermark();
        // Closing writes nothing: pending transfers are lost, as after a crash.
        drop(archive);
        copy_directory(&live, &copy);
        let copied = FjallArchive::open(&copy, &options).unwrap();
        assert_eq!(assert_complete(&copied), durable);
        // The same journal range again, as after a crash: lost transfers return.
        copied.apply(&entries(start..end), end).unwrap();
        assert_eq!(copied.sync().unwrap(), end);
        drop(copied);
        assert_eq!(assert_complete(&FjallArchive::open(&copy, &options).unwrap()), end);
        std::fs::remove_dir_all(&copy).unwrap();
        watermarks.push(durable);
    }
    assert_eq!(
        watermarks,
        [0, 0, 210, 420, 630, 1050],
        "a table is written when 200 transfers have gathered"
    );
}

/// Few large values take as much memory as many small ones.
#[test]
fn table_is_written_when_it_reaches_its_size() {
    let directory = tempfile::tempdir().unwrap();
    let options = ArchiveOptions { pending_bytes: 10_000, ..small_options(TABLE) };
    let archive = FjallArchive::open(directory.path(), &options).unwrap();
    for at in 1..=35 {
        archive.apply(&[(entry(at).0, vec![0; 1_000])], at).unwrap();
        assert_eq!(archive.watermark(), at / 10 * 10);
    }
    archive.remove_to(35).unwrap();
    for at in 36..=50 {
        archive.apply(&[(entry(at).0, vec![0; 1_000])], at).unwrap();
        assert_eq!(archive.watermark(), if at < 45 { 35 } else { 45 }, "removed transfers count as synced");
    }
}

#[test]
fn a_batch_larger_than_a_table_is_stored_whole() {
    let directory = tempfile::tempdir().unwrap();
    let archive = FjallArchive::open(directory.path(), &small_options(10)).unwrap();
    archive.apply(&entries(0..1001), 1001).unwrap();
    assert_eq!(archive.watermark(), 1001);
    drop(archive);
    assert_eq!(assert_complete(&FjallArchive::open(directory.path(), &small_options(10)).unwrap()), 1001);
}

/// Runs this program again as the process to be killed; see [`killed_while_writing`].
#[test]
#[ignore = "the child of watermark_is_correct_after_a_kill_at_any_moment"]
fn killed_while_writing() {
    let Some(directory) = crash_directory() else { return };
    let archive = FjallArchive::open(directory, &small_options(TABLE)).unwrap();
    let mut at = archive.watermark();
    // The parent kills this process long before the limit, which applies if the parent has ended first.
    while at < 10_000_000 {
        archive.apply(&entries(at..at + BATCH), at + BATCH).unwrap();
        at += BATCH;
        report_durable(archive.watermark());
    }
}

#[test]
fn watermark_is_correct_after_a_kill_at_any_moment() {
    let directory = tempfile::tempdir().unwrap();
    let mut before = 0;
    for round in 1..=8 {
        let reported = run_and_kill(CHILD, directory.path(), before + round * 450);
        let archive = FjallArchive::open(directory.path(), &small_options(TABLE)).unwrap();
        let watermark = assert_complete(&archive);
        assert!(watermark >= reported, "reported durable up to {reported}, found {watermark}");
        before = watermark;
    }
}

#[test]
fn readers_find_all_applied_transfers_during_writes() {
    let directory = tempfile::tempdir().unwrap();
    let archive = FjallArchive::open(directory.path(), &small_options(TABLE)).unwrap();
    /// Ends the readers, also if the writer panics.
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Ends(&done);
        for reader in 0..2 {
            let (archive, done) = (&archive, &done);
            scope.spawn(move || {
                let mut index = reader;
                while !done.load(Ordering::Relaxed) {
                    let applied = archive.watermark_applied();
                    index = (index * 31 + 17) % applied.max(1);
                    let (id, value) = entry(index);
                    if index < applied {
                        assert_eq!(archive.get(&id).unwrap(), Some(value), "transfer {index} of {applied}");
                    }
                    assert_eq!(archive.get(&entry(1_000_000 + index).0).unwrap(), None);
                }
            });
        }
        for batch in 0..150 {
            archive.apply(&entries(batch * BATCH..(batch + 1) * BATCH), (batch + 1) * BATCH).unwrap();
        }
    });
}

#[test]
fn a_large_archive_answers_before_and_after_its_filter_is_rebuilt() {
    let directory = tempfile::tempdir().unwrap();
    let options = ArchiveOptions { pending_transfers: 32_768, ..ArchiveOptions::default() };
    let count = 60_000;
    let archive = FjallArchive::open(directory.path(), &options).unwrap();
    archive.apply(&entries(0..count), count).unwrap();
    drop(archive);
    let kept = directory.path().join("00000000000000000001.filter");
    std::fs::remove_file(&kept).unwrap();
    // Closed while the filter is being rebuilt, then opened again.
    drop(FjallArchive::open(directory.path(), &options).unwrap());
    let _ = std::fs::remove_file(&kept);
    let archive = FjallArchive::open(directory.path(), &options).unwrap();
    assert_eq!(archive.watermark(), count);
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        assert!(Instant::now() < until, "the filter is not rebuilt");
        let ready = archive.stats().filter_ready;
        assert!(!ready || !archive.may_contain(&entry(1 << 40).0));
        for index in (0..count).step_by(100) {
            assert_eq!(archive.get(&entry(index).0).unwrap(), Some(entry(index).1));
            assert_eq!(archive.get(&entry(1_000_000 + index).0).unwrap(), None);
        }
        if ready {
            break;
        }
        archive.apply(&[], archive.watermark_applied() + 1).unwrap();
        std::thread::yield_now();
    }
    assert_eq!(archive.stats().transfers_estimate / 1000, 60);
}

/// Its filter is read before any lookup: a thread would take some milliseconds.
#[test]
fn small_archive_has_its_filter_as_soon_as_it_is_open() {
    let directory = tempfile::tempdir().unwrap();
    let options = ArchiveOptions { pending_transfers: 10_000, ..ArchiveOptions::default() };
    let archive = FjallArchive::open(directory.path(), &options).unwrap();
    archive.apply(&entries(0..40_000), 40_000).unwrap();
    drop(archive);
    let archive = FjallArchive::open(directory.path(), &options).unwrap();
    assert!(archive.stats().filter_ready);
    assert!(!archive.may_contain(&entry(1 << 40).0));
}

#[test]
fn second_process_that_opens_the_files_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let first = FjallArchive::open(directory.path(), &small_options(TABLE)).unwrap();
    let second = FjallArchive::open(directory.path(), &small_options(TABLE));
    assert!(matches!(second, Err(TablesError::InUse { .. })));
    drop(first);
    assert!(FjallArchive::open(directory.path(), &small_options(TABLE)).is_ok());
}
