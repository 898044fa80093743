//! Use of memory, disk and CPU by the archive.

/// Use of memory, disk and CPU by the archive. The defaults are those measured in
/// `docs/decisions/0003-archive-store.md`.
#[derive(Clone, Debug)]
pub struct ArchiveOptions {
    /// Block cache for values that are read repeatedly, in bytes; all divisions share it.
    pub cache_bytes: u64,
    /// Number of transfers that gather in memory before they are written as one table.
    pub pending_transfers: usize,
    /// Size of values in bytes after which they are written, however few they are.
    pub pending_bytes: usize,
    /// Number of transfers after which a division is closed and the next begins. It limits the cost of merging, however
    /// many there are.
    pub division_transfers: u64,
    /// Size of a table after merging, in bytes. Takes effect when a division is created.
    pub table_bytes: u64,
    /// Number of unmerged tables that start a merge while a division grows. A division usually has fewer, because it is
    /// rewritten in order once it is closed. Takes effect when a division is created.
    pub unmerged_tables: u8,
    /// Size of the unit that a lookup reads, in bytes. Takes effect when a division is created.
    pub block_bytes: u32,
    /// Whether blocks are compressed with LZ4. Takes effect when a division is created.
    pub compress: bool,
    /// Threads per division that merge tables.
    pub merge_threads: usize,
}

impl Default for ArchiveOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 32 << 20,
            pending_transfers: 65_536,
            pending_bytes: 64 << 20,
            division_transfers: 8 << 20,
            table_bytes: 16 << 20,
            unmerged_tables: 160,
            block_bytes: 4096,
            compress: true,
            merge_threads: 1,
        }
    }
}
