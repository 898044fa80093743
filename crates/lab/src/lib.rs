//! The characterization lab (L4): drives a hub with simulated DFSPs, measures it, compares it with baselines that do the
//! same HTTP exchanges without a ledger, and audits the hub's positions against the DFSPs' own books.
//!
//! - [`run`] runs a [`Scenario`]; [`RunOptions`] says how, [`LabResult`] what came out.
//! - [`forwarder`] is the baseline that only parses and forwards.
//! - [`audit`] compares a hub with the simulators' books.
//! - [`onboard`] brings DFSPs into a hub of any make through the admin API.

mod admin_client;
pub mod answers;
pub mod audit;
mod child;
mod environment;
pub mod forwarder;
mod latency;
mod load;
pub mod measured;
pub mod onboard;
mod operation;
mod options;
mod process;
mod registration;
mod result;
mod run;
mod scenario;
mod schedule;
pub mod statistics;
mod subject;
mod table;
mod tally;

pub use admin_client::{AdminClient, AdminError};
pub use child::{ChildError, HubProcess};
pub use environment::Environment;
pub use latency::{LatencyMs, PhaseResult, Phases};
pub use options::{Baseline, Load, OptionsError, RunOptions, TargetHub};
pub use process::{ProcessError, Usage};
pub use result::{
    AuditSummary, BaselineResult, LabResult, OptionsEcho, ProcessResult, SCHEMA_VERSION, SliceResult,
};
pub use run::{LabError, run};
pub use scenario::{Scenario, phase_name};
pub use tally::Exchanges;
