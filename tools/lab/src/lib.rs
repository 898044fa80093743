//! The characterization lab: drives a hub with simulated DFSPs and measures it. It compares the hub with baselines that
//! make the same HTTP exchanges without a ledger, and audits the hub's positions against the DFSPs' own books.
//!
//! - [`run`] runs a [`Scenario`] as [`RunOptions`] specify, and returns a [`LabResult`].
//! - [`drive::forwarder`] is the baseline that only parses and forwards.
//! - [`judge::audit`] compares a hub with the simulators' books.
//! - [`drive::onboard`] onboards DFSPs at any compatible hub through the admin API.
#![expect(missing_docs, reason = "a field whose name says it has no comment")]

pub mod cli;
pub mod drive;
pub mod fill;
mod grow;
pub mod isolated;
pub mod judge;
pub mod observe;
mod overload;
pub mod plan;
pub mod report;
pub mod result;

pub use drive::admin_client::{AdminClient, AdminError};
pub use drive::child::{ChildError, HubProcess, HubTls};
pub use drive::execute::{Surroundings, execute};
pub use drive::parallel::LoadResult;
pub use drive::run::{LabError, run};
pub use drive::suite_run::{LeftOut, SuitePlan, SuitePoint, SuiteResult, run_suite};
pub use drive::suite_turns::Group;
pub use drive::system::{TargetHub, TargetRecord};
pub use judge::suite_pairs::{ClaimResult, ClaimVerdict, DifferenceResult, PairFigure, PairResult};
pub use observe::machine::{Build, Environment, Storage};
pub use observe::process::{ProcessError, Usage, allow_many_files};
pub use observe::tally::Exchanges;
pub use plan::load_profile::{Load, ParallelLoad, Stage};
pub use plan::options::{Baseline, Identity, OptionsError, Role, RunOptions};
pub use plan::pairs::{ListedPair, PairChoice};
pub use plan::scenario::{Scenario, phase_name};
pub use plan::section::{Security, Signatures, Transport};
pub use result::latency::{LatencyMs, PhaseResult, Phases};
pub use result::merge::{MergeError, merge};
pub use result::{
    AuditSummary, BaselineResult, LabResult, OptionsEcho, ProcessResult, SCHEMA_VERSION, SliceResult,
};

pub use crate::observe::hub_metrics::NoMetrics;
