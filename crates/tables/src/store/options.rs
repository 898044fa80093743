//! How a store uses memory, disk and CPU.

/// Limits and sizes of a [`crate::store::Store`]. The defaults are those measured in the crate's README.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Updates that may wait for the writer; beyond that [`crate::TablesError::Busy`].
    pub queue_updates_max: usize,
    /// Updates that share one sync at most.
    pub batch_updates_max: usize,
    /// A batch takes no further update once its keys and values exceed this, in bytes.
    pub batch_bytes_max: usize,
    /// Keys and values that one update may write, in bytes, at most [`crate::store::UPDATE_BYTES_MAX`]. A batch takes
    /// so much more than `batch_bytes_max` at most: a cluster's log has a bound for both.
    pub update_bytes_max: usize,
    /// Below this room on the disk, in bytes, updates are refused with [`crate::TablesError::DiskFull`]. It has to
    /// suffice for what housekeeping writes on its own: two segments of the log and one merge of tables.
    pub free_bytes_min: u64,
    /// Changes that gather in memory before they are written as sorted tables, in bytes. A restart reads as much.
    pub pending_bytes: usize,
    /// Length of a segment of the log, in bytes.
    pub segment_bytes: u64,
    /// Block cache for values that are read again, in bytes.
    pub cache_bytes: u64,
    /// Size of a sorted table after merging, in bytes. Takes effect when a table is created.
    pub table_bytes: u64,
    /// Unmerged sorted tables that start a merge. Takes effect when a table is created.
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
