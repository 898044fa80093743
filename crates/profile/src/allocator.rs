//! The allocator of every process that has this crate in it, and what it says of itself.
//!
//! jemalloc instead of the C library's: what an edge allocates, the engine's thread or the journal's lets go of, which
//! glibc answers with locks and searches (docs/decisions/0011-profile-on-demand.md).

use tikv_jemalloc_ctl::{Error, epoch, stats};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Bytes as the allocator counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allocator {
    /// Handed out to the program.
    pub(crate) in_use: u64,
    /// Returned by the program and kept for its next allocations.
    pub(crate) kept_free: u64,
    /// What it needs for itself.
    pub(crate) bookkeeping: u64,
}

/// Asks for the present numbers. It takes the lock of each arena in turn, for microseconds.
pub(crate) fn ask() -> Result<Allocator, Error> {
    // The numbers are those of the last epoch; each call begins one.
    epoch::advance()?;
    let (in_use, resident, bookkeeping) =
        (stats::allocated::read()?, stats::resident::read()?, stats::metadata::read()?);
    let kept_free = resident.saturating_sub(in_use).saturating_sub(bookkeeping);
    Ok(Allocator { in_use: in_use as u64, kept_free: kept_free as u64, bookkeeping: bookkeeping as u64 })
}
