//! Use of memory, disk and CPU by a store.

/// Limits and sizes of a [`crate::store::Store`]. The defaults are those measured in the crate's README.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Maximum number of updates that wait for the writer; further ones return [`crate::TablesError::Busy`].
    pub queue_updates_max: usize,
    /// Maximum number of updates that share one sync.
    pub batch_updates_max: usize,
    /// Size in bytes of keys and values after which a batch accepts no further update.
    pub batch_bytes_max: usize,
    /// Maximum size of the keys and values that one update writes, in bytes, at most
    /// [`crate::store::UPDATE_BYTES_MAX`]. A batch may exceed `batch_bytes_max` by this size; a cluster's log has a
    /// limit for both.
    pub update_bytes_max: usize,
    /// Free space on the disk in bytes below which updates are rejected with [`crate::TablesError::DiskFull`]. It must
    /// be sufficient for housekeeping: two segments of the log and one merge of tables.
    pub free_bytes_min: u64,
    /// Size in bytes of changes that gather in memory before they are written as sorted tables. A restart reads as
    /// much.
    pub pending_bytes: usize,
    /// Length of a segment of the log, in bytes.
    pub segment_bytes: u64,
    /// Block cache for values that are read repeatedly, in bytes.
    pub cache_bytes: u64,
    /// Size of a sorted table after merging, in bytes. Takes effect when a table is created.
    pub table_bytes: u64,
    /// Number of unmerged sorted tables that start a merge. Takes effect when a table is created.
    pub unmerged_tables: u8,
    /// Size of the unit that a lookup reads, in bytes. Takes effect when a table is created.
    pub block_bytes: u32,
    /// Whether blocks are compressed with LZ4. Takes effect when a table is created.
    pub compress: bool,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            queue_updates_max: 1024,
            batch_updates_max: 1024,
            batch_bytes_max: 8 << 20,
            update_bytes_max: super::UPDATE_BYTES_MAX,
            free_bytes_min: 512 << 20,
            pending_bytes: 24 << 20,
            segment_bytes: 32 << 20,
            cache_bytes: 16 << 20,
            table_bytes: 16 << 20,
            unmerged_tables: 8,
            block_bytes: 2048,
            compress: true,
        }
    }
}
