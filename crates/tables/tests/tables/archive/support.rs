//! Transfers made from numbers, and a helper that waits.

use std::ops::Range;
use std::time::{Duration, Instant};

use upesi_tables::archive::{ArchiveEntry, ArchiveOptions};
use upesi_types::TransferId;

/// The transfer that finished at journal sequence number `index + 1`. Its id is distributed like random ids, and the
/// same in each run.
pub fn entry(index: u64) -> ArchiveEntry {
    let mixed = (u128::from(index) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    let id = TransferId::from_random_bytes((mixed ^ (mixed >> 64)).to_be_bytes());
    (id, format!("outcome of transfer {index} {}", "x".repeat(index as usize % 150)).into_bytes())
}

pub fn entries(range: Range<u64>) -> Vec<ArchiveEntry> {
    range.map(entry).collect()
}

/// Tables of `pending_transfers`, merged four at a time into tables of 64 KiB: many files from few transfers.
pub fn small_options(pending_transfers: usize) -> ArchiveOptions {
    ArchiveOptions {
        pending_transfers,
        table_bytes: 64 << 10,
        unmerged_tables: 4,
        cache_bytes: 1 << 20,
        ..ArchiveOptions::default()
    }
}

/// Waits for the work of a thread of an archive.
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < until, "waited in vain until {what}");
        std::thread::yield_now();
    }
}
