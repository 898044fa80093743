//! Observations while a hub is driven: its metrics, its processes, the machine, the second-by-second record.

pub(crate) mod hub_metrics;
pub(crate) mod machine;
pub(crate) mod process;
pub(crate) mod profile;
pub(crate) mod tally;
pub(crate) mod tally_results;
pub(crate) mod timeline;
pub(crate) mod window;
