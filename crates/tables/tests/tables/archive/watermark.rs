//! The watermark of a division, written through the embedded store.

use std::path::Path;

use super::support::small_options;
use fjall::{Database, KeyspaceCreateOptions};
use upesi_tables::TablesError;
use upesi_tables::archive::{Archive, FjallArchive};

/// An archive whose first division has no transfer, with these bytes as its watermark and after it.
fn write(archive: &Path, watermark: &[u8], behind: Option<&[u8]>) {
    std::fs::create_dir(archive).unwrap();
    let database = Database::builder(archive.join("00000000000000000001")).worker_threads(1).open().unwrap();
    let keyspace = database.keyspace("transfers", KeyspaceCreateOptions::default).unwrap();
    let mut table = keyspace.start_ingestion().unwrap();
    table.write([0xff_u8], watermark).unwrap();
    if let Some(behind) = behind {
        table.write([0xff_u8, 0], behind).unwrap();
    }
    table.finish().unwrap();
}

#[test]
fn a_watermark_of_another_length_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    for length in [0, 7, 8, 12, 24] {
        let archive = directory.path().join(length.to_string());
        write(&archive, &vec![1; length], None);
        let refused = FjallArchive::open(&archive, &small_options(10)).err();
        let Some(TablesError::Damaged { detail, .. }) = &refused else {
            panic!("{length} bytes: {refused:?}")
        };
        assert!(detail.contains("the watermark is malformed"), "{length} bytes: {detail}");
    }
    let watermark = [7_u64.to_le_bytes(), 1_000_u64.to_le_bytes()].concat();
    for (name, behind) in [("same", &watermark[..]), ("other", b"other")] {
        let archive = directory.path().join(name);
        write(&archive, &watermark, Some(behind));
        let refused = FjallArchive::open(&archive, &small_options(10)).err().unwrap();
        assert!(refused.to_string().contains("lookups and scans see different states"), "{refused}");
    }
    let archive = directory.path().join("sound");
    write(&archive, &watermark, None);
    assert_eq!(FjallArchive::open(&archive, &small_options(10)).unwrap().watermark(), 7);
}
