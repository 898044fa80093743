//! What is tried, one file for each.

mod crash_images;
mod journal_images;

pub use crash_images::CrashImages;

use crate::trial::Trial;

/// All trials that need nothing but this program.
pub const TRIALS: &[&dyn Trial] = &[&CrashImages];
