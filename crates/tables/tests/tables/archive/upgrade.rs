//! Archives of versions before b38fa8d: one store in the directory itself, with a watermark that has no time. They
//! are written here as those versions wrote them, through the embedded store.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::support::{entries, entry, small_options};
use crate::support::copy_directory;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    PartitioningPolicy, PinningPolicy,
};
use fjall::{CompressionType, Database, KeyspaceCreateOptions};
use upesi_tables::TablesError;
use upesi_tables::archive::{Archive, ArchiveEntry, ArchiveOptions, FjallArchive, first_seq_of};
use upesi_types::Timestamp;

/// Transfers of the old archive, and those of one of its tables.
const OLD: u64 = 90;
const OLD_TABLE: u64 = 30;
/// The directory of the first division.
const FIRST: &str = "00000000000000000001";

fn old_options() -> KeyspaceCreateOptions {
    let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0));
    KeyspaceCreateOptions::default()
        .data_block_size_policy(BlockSizePolicy::all(4096))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .filter_policy(FilterPolicy::all(bloom))
        .filter_block_pinning_policy(PinningPolicy::all(true))
        .filter_block_partitioning_policy(PartitioningPolicy::all(false))
        .index_block_pinning_policy(PinningPolicy::all(true))
        .index_block_partitioning_policy(PartitioningPolicy::all(false))
        .compaction_strategy(Arc::new(
            fjall::compaction::Leveled::default().with_l0_threshold(8).with_table_target_size(16 << 20),
        ))
}

/// An archive of old, whose tables each end with the watermark, encoded so.
fn write_old(path: &Path, encoded: &dyn Fn(u64) -> Vec<u8>) {
    let database = Database::builder(path).worker_threads(1).open().unwrap();
    let keyspace = database.keyspace("transfers", old_options).unwrap();
    for from in (0..OLD).step_by(OLD_TABLE as usize) {
        let end = from + OLD_TABLE;
        let mut rows = entries(from..end);
        rows.sort_by_key(|(id, _)| id.to_bytes());
        let mut table = keyspace.start_ingestion().unwrap();
        for (id, value) in rows {
            table.write(id.to_bytes(), value).unwrap();
        }
        table.write([0xff_u8], encoded(end)).unwrap();
        table.finish().unwrap();
    }
}

/// Eight bytes, little-endian.
fn of_old(watermark: u64) -> Vec<u8> {
    watermark.to_le_bytes().to_vec()
}

/// Divisions of 100 transfers.
fn options() -> ArchiveOptions {
    ArchiveOptions { division_transfers: 100, ..small_options(10) }
}

fn open(path: &Path, what: &str) -> FjallArchive {
    FjallArchive::open(path, &options()).unwrap_or_else(|error| panic!("{what}: {error}"))
}

fn all(archive: &FjallArchive) -> Vec<ArchiveEntry> {
    let mut all = Vec::new();
    let mut take = |id, value: &[u8]| {
        all.push((id, value.to_vec()));
        ControlFlow::Continue(())
    };
    archive.for_each(&mut take).unwrap();
    all
}

/// The transfers of these numbers, each found by a look-up, and no others.
fn expect_exactly(archive: &FjallArchive, from: u64, to: u64, what: &str) {
    for (index, (id, value)) in (0..to + 20).map(|index| (index, entry(index))) {
        let expected = (from..to).contains(&index).then_some(value);
        assert_eq!(archive.get(&id).unwrap(), expected, "{what}, transfer {index}");
    }
    let mut expected = entries(from..to);
    expected.sort_by_key(|(id, _)| id.to_bytes());
    assert!(all(archive) == expected, "{what}: a scan sees others");
}

fn firsts(archive: &FjallArchive) -> Vec<u64> {
    archive.divisions().iter().map(|division| division.first_seq).collect()
}

fn beside(archive: &Path) -> PathBuf {
    archive.with_extension("divided")
}

/// So many of the changes by which an archive of old becomes the first division, in their order.
fn change(archive: &Path, changes: usize) {
    let beside = beside(archive);
    let all: [&dyn Fn() -> std::io::Result<()>; 3] =
        [&|| fs::create_dir(&beside), &|| fs::rename(archive, beside.join(FIRST)), &|| {
            fs::rename(&beside, archive)
        }];
    for change in &all[..changes] {
        change().unwrap();
    }
}

/// What it holds is what it held; it goes on growing, with times, and its divisions leave like any other's.
fn expect_upgraded(path: &Path, what: &str) {
    let archive = open(path, what);
    assert_eq!(
        (archive.watermark(), archive.watermark_applied(), archive.first_seq()),
        (OLD, OLD, 1),
        "{what}"
    );
    let [division] = archive.divisions()[..] else { panic!("{what}: {:?}", archive.divisions()) };
    assert_eq!((division.watermark, division.last_time, division.is_closed), (OLD, None, false), "{what}");
    expect_exactly(&archive, 0, OLD, what);
    drop(archive);
    assert!(!beside(path).exists() && first_seq_of(path) == Some(1), "{what}");

    let archive = open(path, what);
    for from in (OLD..200).step_by(10) {
        let end = from + 10;
        archive.apply_at(&entries(from..end), end, Timestamp::from_ms(end as i64 * 1000)).unwrap();
    }
    drop(archive);
    let archive = open(path, what);
    assert_eq!((archive.watermark(), firsts(&archive)), (200, vec![1, 101, 201]), "{what}");
    assert_eq!(archive.divisions()[0].last_time, Some(Timestamp::from_ms(100_000)), "{what}");
    expect_exactly(&archive, 0, 200, what);
    assert_eq!(archive.remove_to(100).unwrap(), 1, "{what}");
    expect_exactly(&archive, 100, 200, what);
}

#[test]
fn wherever_an_upgrade_stopped_all_of_the_old_archive_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let old = directory.path().join("old");
    write_old(&old, &of_old);
    assert_eq!(first_seq_of(&old), None, "it has no divisions");
    for (changes, state) in
        ["as it was", "made, and not yet filled", "filled, and not yet in its place", "done"]
            .iter()
            .enumerate()
    {
        let archive = directory.path().join(changes.to_string());
        copy_directory(&old, &archive);
        change(&archive, changes);
        expect_upgraded(&archive, state);
    }
    // An upgrade that never was: the archive was made anew beside what one had begun.
    let archive = directory.path().join("done");
    copy_directory(&old, &archive);
    change(&archive, 3);
    fs::create_dir(beside(&archive)).unwrap();
    expect_upgraded(&archive, "done, and begun once more");
}

/// What stands in the way is told, and nothing is lost.
#[test]
fn an_upgrade_that_cannot_go_on_leaves_the_old_archive_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let archive = directory.path().join("archive");
    write_old(&archive, &of_old);
    fs::create_dir(beside(&archive)).unwrap();
    let foreign = beside(&archive).join("mine");
    fs::write(&foreign, "mine").unwrap();
    let refused = FjallArchive::open(&archive, &options()).err();
    assert!(matches!(refused, Some(TablesError::Io { .. })), "{refused:?}");
    fs::remove_file(&foreign).unwrap();
    expect_upgraded(&archive, "without it");
}

#[test]
fn a_watermark_of_another_length_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    for length in [0, 7, 12, 24] {
        let archive = directory.path().join(length.to_string());
        write_old(&archive, &|_| vec![1; length]);
        let refused = FjallArchive::open(&archive, &options()).err();
        let Some(TablesError::Damaged { detail, .. }) = &refused else {
            panic!("{length} bytes: {refused:?}")
        };
        assert!(detail.contains("the watermark is malformed"), "{length} bytes: {detail}");
    }
}
