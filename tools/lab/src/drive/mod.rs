//! Drives a hub and its baselines: starts them, sends load by schedule, runs the points of a suite.

pub(crate) mod admin_client;
pub(crate) mod child;
pub(crate) mod execute;
pub mod forwarder;
pub(crate) mod load;
pub(crate) mod measure;
pub mod onboard;
pub(crate) mod operation;
pub(crate) mod pacer;
pub(crate) mod parallel;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod settling;
pub(crate) mod suite_run;
pub(crate) mod suite_turns;
pub(crate) mod system;
