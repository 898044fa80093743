//! What the C library's allocator says of itself.

#![allow(unsafe_code, reason = "the standard library has no way to ask the allocator")]

/// Bytes as the allocator counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allocator {
    /// Handed out to the program, its large allocations included.
    pub(crate) in_use: u64,
    /// Returned by the program and kept for its next allocations.
    pub(crate) kept_free: u64,
    /// Handed out as mappings of their own, because they are large.
    pub(crate) mapped: u64,
}

/// Asks glibc. It takes the lock of each arena in turn, for microseconds.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn ask() -> Option<Allocator> {
    // SAFETY: takes no arguments and gives a structure of numbers by value.
    let info = unsafe { libc::mallinfo2() };
    Some(Allocator {
        in_use: (info.uordblks + info.hblkhd) as u64,
        kept_free: info.fordblks as u64,
        mapped: info.hblkhd as u64,
    })
}

/// Other C libraries have no such question.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn ask() -> Option<Allocator> {
    None
}
