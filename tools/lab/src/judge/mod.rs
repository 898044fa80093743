//! Judges a run: its audit, whether its figures count, whether objectives were met, and, for a soak, whether it held
//! its load and its figures. Also judges several runs together.

pub mod answers;
pub mod audit;
pub(crate) mod merge;
pub(crate) mod objectives;
pub(crate) mod soak;
pub(crate) mod suite_pairs;
pub(crate) mod targets;
pub(crate) mod thresholds;
pub(crate) mod turns;
pub(crate) mod validity;
