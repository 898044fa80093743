//! Where the CPU time of this process goes, and its memory, asked for while it runs.
//!
//! Nothing here costs anything until it is asked for. [`profile`] then takes samples for a while: at each tick of the
//! process's CPU clock, the kernel interrupts the thread that is running, and a handler copies its registers and the
//! top of its stack into memory set aside for that. It takes no lock, allocates nothing and follows no pointer; what
//! the copies mean is found out afterwards, by an ordinary thread. [`memory::summary`] reads what the kernel and the
//! allocator count anyway.
//!
//! This is the one crate with `unsafe` code, in `signal.rs`, each block with its reason. It also brings the allocator
//! of the process, so that the numbers are those of the memory that the program really uses.

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

/// Watches the process for this long and says where its CPU time went. Blocks the thread that asks. `is_wanted` is
/// asked several times a second; where it says no, the profile ends, so that nobody waits for what nobody reads.
///
/// # Errors
///
/// When another profile is being taken, when the time is not 1 to 60 seconds, when the profile is no longer wanted, or
/// when the kernel refuses.
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

// Why there is no profile.

/// Why no profile was taken.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// One at a time.
    #[error("another profile is being taken, try again when it is done")]
    Busy,
    /// The time asked for.
    #[error("a profile takes 1 to 60 seconds")]
    Seconds,
    /// Who asked for it went away.
    #[error("the profile was not waited for")]
    Abandoned,
    /// The code knows no registers of this processor.
    #[error("profiles can be taken on Linux on x86-64 and AArch64 only")]
    Unsupported,
    /// This build leaves CPU profiles out, as that of `make demo` does.
    #[error("this build has no CPU profiles; the one of `make build` has")]
    NotBuilt,
    /// The kernel refused to send the signals.
    #[error("the kernel sends no profiling signals: {0}")]
    Kernel(#[source] io::Error),
}

/// The atomics that `gate` uses. The crate `models` compiles it against Loom's, which runs all orders of events.
#[cfg(feature = "cpu")]
mod sync {
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicUsize, fence};
    pub(crate) use std::thread::yield_now;
}
