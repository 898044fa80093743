//! CPU profile and memory summary of the running process, on demand.
//!
//! No profile costs anything before it is requested. [`profile`] takes samples for a while. At each tick of the
//! process's CPU clock, the kernel interrupts the running thread. A signal handler then copies the thread's registers
//! and the top of its stack into preallocated memory. The handler takes no lock, allocates nothing and follows no
//! pointer. An ordinary thread interprets the copies afterwards. [`memory::summary`] reads counters that the kernel and
//! the allocator maintain anyway.
//!
//! This is the only crate with `unsafe` code, in `signal.rs`; each block states its reason. The crate also sets the
//! allocator of the process, so that the summary shows the memory that the program really uses.

mod flame;
#[cfg(feature = "cpu")]
mod gate;
pub mod memory;
#[cfg(feature = "cpu")]
mod resolve;
#[cfg(feature = "cpu")]
mod sampler;
mod shares;
#[cfg(feature = "cpu")]
mod signal;
mod stacks;
#[cfg(feature = "cpu")]
mod symbols;
#[cfg(all(test, feature = "cpu"))]
mod tests;
#[cfg(feature = "cpu")]
mod unwind;

use std::io;

pub use memory::{Holder, MemorySummary};
pub use shares::{StageShare, StageShares};
pub use stacks::Profile;
use thiserror::Error;

/// Longest profile, in seconds.
pub const SECONDS_MAX: u64 = 60;

/// Takes a CPU profile of the process for this long. Blocks the calling thread. Calls `is_wanted` several times a
/// second and ends the profile when it returns false, for example because the client has disconnected.
///
/// # Errors
///
/// If another profile is running, if the time is not 1 to 60 seconds, if the profile is no longer wanted, or if the
/// kernel rejects the timer or the signal handler.
pub fn profile(seconds: u64, is_wanted: impl Fn() -> bool) -> Result<Profile, ProfileError> {
    if !(1..=SECONDS_MAX).contains(&seconds) {
        return Err(ProfileError::Seconds);
    }
    take(seconds, is_wanted)
}

#[cfg(feature = "cpu")]
fn take(seconds: u64, is_wanted: impl Fn() -> bool) -> Result<Profile, ProfileError> {
    let samples = sampler::sample(std::time::Duration::from_secs(seconds), is_wanted)?;
    Ok(resolve::resolve(&samples))
}

#[cfg(not(feature = "cpu"))]
fn take(_: u64, _: impl Fn() -> bool) -> Result<Profile, ProfileError> {
    Err(ProfileError::NotBuilt)
}

/// The reason why no profile was taken.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// Another profile is running.
    #[error("another profile is being taken, try again when it is done")]
    Busy,
    /// The time is not 1 to 60 seconds.
    #[error("a profile takes 1 to 60 seconds")]
    Seconds,
    /// The profile is no longer wanted.
    #[error("the profile ended because it is no longer wanted")]
    Abandoned,
    /// The code cannot read the registers of this processor.
    #[error("profiles are available only on Linux on x86-64 and AArch64")]
    Unsupported,
    /// The build has no CPU profiles, like the build of `make demo`.
    #[error("this build has no CPU profiles; a build by `make build` has them")]
    NotBuilt,
    /// The kernel rejected the timer or the signal handler.
    #[error("the kernel does not send profiling signals: {0}")]
    Kernel(#[source] io::Error),
}

/// The atomics that `gate` uses. The crate `models` compiles `gate` with the atomics of Loom, which runs all orders
/// of events.
#[cfg(feature = "cpu")]
mod sync {
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicUsize, fence};
    pub(crate) use std::thread::yield_now;
}
