//! How the archive uses memory, disk and CPU.

/// How the archive uses memory, disk and CPU. The defaults are those measured in
/// `docs/decisions/0003-archive-store.md`.
#[derive(Clone, Debug)]
pub struct ArchiveOptions {
    /// Block cache for values that are read again, in bytes; all divisions share it.
    pub cache_bytes: u64,
    /// Transfers that gather in memory before they are written as one table.
    pub pending_transfers: usize,
    /// Bytes of values after which they are written, however few they are.
    pub pending_bytes: usize,
    /// Transfers after which a division is closed and the next begins. Bounds what merging costs, however many there
    /// are.
    pub division_transfers: u64,
    /// Size of a table after merging, in bytes. Takes effect when a division is created.
    pub table_bytes: u64,
    /// Tables beside each other that start a merge while a division grows: more than it has, as a rule, because it is
    /// written anew in order once it is closed. Takes effect when a division is created.
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
