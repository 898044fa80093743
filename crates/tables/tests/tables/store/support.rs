//! Small stores.
#![allow(dead_code)]

use std::path::Path;

use upesi_tables::store::StoreOptions;

/// Many small files from few entries, and no demands on the disk's room.
pub fn small_options() -> StoreOptions {
    StoreOptions {
        pending_bytes: 24 << 10,
        segment_bytes: 16 << 10,
        table_bytes: 32 << 10,
        unmerged_tables: 4,
        cache_bytes: 1 << 20,
        free_bytes_min: 0,
        ..StoreOptions::default()
    }
}

/// Everything stays in the log.
pub fn options_without_flushes() -> StoreOptions {
    StoreOptions { pending_bytes: usize::MAX, segment_bytes: 1 << 20, ..small_options() }
}

pub fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
}

/// Copies a directory tree, as it lies on disk: what a process that is killed now would leave.
pub fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let target = to.join(file.file_name());
        if file.file_type().unwrap().is_dir() {
            copy_directory(&file.path(), &target);
        } else {
            std::fs::copy(file.path(), target).unwrap();
        }
    }
}
