//! Judges a run: its audit, whether its figures count, whether objectives were met, and the drift over time.

pub mod answers;
pub(crate) mod assemble;
pub mod audit;
pub(crate) mod drift;
pub(crate) mod steady;
pub(crate) mod suite_pairs;
pub(crate) mod thresholds;
pub(crate) mod validity;
