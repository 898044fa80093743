//! Executes scenarios, and suites of several scenarios.

pub(crate) mod execute;
pub(crate) mod run;
