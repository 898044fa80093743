//! Small stores.

use upesi_tables::store::StoreOptions;

/// Many small files from few entries, without requirements on free disk space.
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

/// Options with which all changes stay in the journal.
pub fn options_without_flushes() -> StoreOptions {
    StoreOptions { pending_bytes: usize::MAX, segment_bytes: 1 << 20, ..small_options() }
}

pub fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
}
