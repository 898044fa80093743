//! Tuning of keyspaces, and the wait of writers for merging, for both archive and store.

use std::sync::Arc;
use std::time::Duration;

use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    PartitioningPolicy, PinningPolicy,
};
use fjall::{CompressionType, Keyspace, KeyspaceCreateOptions};

/// A writer waits for merging to catch up in steps of this length ...
const MERGE_WAIT_STEP: Duration = Duration::from_millis(5);
/// ... but not for more steps than this, because only the next table makes the store merge again.
const MERGE_WAIT_STEPS_MAX: usize = 200;

/// Options of a keyspace. They take effect when it is created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// Size of the unit that a lookup reads, in bytes.
    pub(crate) block_bytes: u32,
    /// Whether blocks are compressed with LZ4.
    pub(crate) compress: bool,
    /// Number of unmerged tables that start a merge.
    pub(crate) unmerged_tables: u8,
    /// Size of a table after merging, in bytes.
    pub(crate) table_bytes: u64,
}

impl Tuning {
    /// The options in fjall's form.
    pub(crate) fn options(self) -> KeyspaceCreateOptions {
        let compression = if self.compress { CompressionType::Lz4 } else { CompressionType::None };
        let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0));
        KeyspaceCreateOptions::default()
            .data_block_size_policy(BlockSizePolicy::all(self.block_bytes))
            .data_block_compression_policy(CompressionPolicy::all(compression))
            // On every level, including the last: an absent key costs no read.
            .filter_policy(FilterPolicy::all(bloom))
            // Filters and indexes stay in memory (less than two bytes per key), so that a lookup reads one block.
            .filter_block_pinning_policy(PinningPolicy::all(true))
            .filter_block_partitioning_policy(PartitioningPolicy::all(false))
            .index_block_pinning_policy(PinningPolicy::all(true))
            .index_block_partitioning_policy(PartitioningPolicy::all(false))
            .compaction_strategy(Arc::new(
                fjall::compaction::Leveled::default()
                    .with_l0_threshold(self.unmerged_tables)
                    .with_table_target_size(self.table_bytes),
            ))
    }
}

/// Waits for a limited time while a keyspace has more unmerged tables than `tables_max`. `check` runs before each check
/// of the number; its error ends the wait.
pub(crate) fn wait_for_merging<E>(
    keyspace: &Keyspace,
    tables_max: usize,
    mut check: impl FnMut() -> Result<(), E>,
) -> Result<(), E> {
    for _ in 0..MERGE_WAIT_STEPS_MAX {
        check()?;
        if keyspace.l0_table_count() <= tables_max {
            break;
        }
        std::thread::sleep(MERGE_WAIT_STEP);
    }
    Ok(())
}
