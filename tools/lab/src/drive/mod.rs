//! Drives a hub and its baselines: starts them, sends load by schedule, and measures them.

pub(crate) mod assemble;
pub(crate) mod baselines;
pub(crate) mod child;
pub(crate) mod error;
pub mod forwarder;
pub(crate) mod keys;
pub(crate) mod load;
pub(crate) mod measure;
pub mod onboard;
pub(crate) mod operation;
pub(crate) mod output;
pub(crate) mod pacer;
pub(crate) mod parallel;
pub(crate) mod profile;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod session;
pub(crate) mod settling;
pub(crate) mod subject;
