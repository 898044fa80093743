//! Why there is no profile.

use std::io;

use thiserror::Error;

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
    /// The kernel refused to send the signals.
    #[error("the kernel sends no profiling signals: {0}")]
    Kernel(#[source] io::Error),
}
