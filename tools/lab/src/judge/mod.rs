//! Judges a run: its audit, whether its figures count, whether objectives were met, and the drift over time. Also
//! judges several runs together.

pub mod answers;
pub mod audit;
pub(crate) mod drift;
pub(crate) mod merge;
pub(crate) mod statistics;
pub(crate) mod steady;
pub(crate) mod suite_pairs;
pub(crate) mod targets;
pub(crate) mod thresholds;
pub(crate) mod turns;
pub(crate) mod validity;
