//! The characterization lab: drives a hub with simulated DFSPs and measures it. It compares the hub with baselines that
//! make the same HTTP exchanges without a ledger, and audits the hub's positions against the DFSPs' own books.
//!
//! - [`run`] runs a [`Scenario`] as [`RunOptions`] specify, and returns a [`LabResult`].
//! - [`drive::forwarder`] is the baseline that only parses and forwards.
//! - [`judge::audit`] compares a hub with the simulators' books.
//! - [`drive::onboard`] onboards DFSPs at any compatible hub through the admin API.
//!
//! A module imports only from modules before it in the order that the README lists; `make tidy` checks this.

mod admin_client;
pub mod cli;
mod day;
pub mod drive;
mod failures;
pub mod figures;
pub mod fill;
mod grow;
pub mod isolated;
pub mod judge;
pub mod observe;
mod overload;
pub mod plan;
pub mod report;
pub mod result;
mod statistics;
mod suite;

pub use admin_client::{AdminClient, AdminError};
pub use drive::child::{ChildError, HubProcess, HubTls};
pub use drive::error::LabError;
pub use drive::run::run;
pub use judge::merge::{MergeError, merge};
pub use observe::hub_metrics::NoMetrics;
pub use observe::process::{ProcessError, Usage, allow_many_files};
pub use plan::load_profile::{Load, ParallelLoad, Stage};
pub use plan::options::{Baseline, Identity, OptionsError, Role, RunOptions};
pub use plan::pairs::{ListedPair, PairChoice};
pub use plan::scenario::{Scenario, phase_name};
pub use plan::security::{Security, Signatures, Transport};
pub use plan::suite_plan::{Group, LeftOut, SuitePlan, SuitePoint};
pub use plan::surroundings::RunContext;
pub use plan::target::TargetHub;
pub use result::audit::AuditSummary;
pub use result::environment::{Build, Environment, Storage, TargetRecord};
pub use result::exchanges::Exchanges;
pub use result::file::FileError;
pub use result::latency::{LatencyMs, PhaseResult, Phases};
pub use result::load::LoadResult;
pub use result::suite::{ClaimResult, ClaimVerdict, DifferenceResult, PairFigure, PairResult, SuiteResult};
pub use result::{BaselineResult, LabResult, OptionsEcho, ProcessResult, SCHEMA_VERSION, SliceResult};
pub use suite::execute::{ExecuteError, execute};
pub use suite::run::run_suite;
