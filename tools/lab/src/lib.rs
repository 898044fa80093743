//! The characterization lab (L4): drives a hub with simulated DFSPs, measures it, compares it with baselines that do the
//! same HTTP exchanges without a ledger, and audits the hub's positions against the DFSPs' own books.
//!
//! - [`run`] runs a [`Scenario`]; [`RunOptions`] says how, [`LabResult`] what came out.
//! - [`forwarder`] is the baseline that only parses and forwards.
//! - [`audit`] compares a hub with the simulators' books.
//! - [`onboard`] brings DFSPs into a hub of any make through the admin API.

mod admin_client;
mod aim;
pub mod answers;
pub mod audit;
mod child;
pub mod cli;
mod cores;
mod detail;
mod distribution;
mod drift;
mod environment;
mod evidence;
mod execute;
mod figure;
pub mod fill;
pub mod forwarder;
mod grow;
mod hub_metrics;
mod interval;
pub mod isolated;
mod latency;
mod load;
pub mod look;
mod machine;
mod measure;
pub mod measured;
mod merge;
pub mod messages;
pub mod onboard;
mod operation;
mod options;
mod outcome;
mod overload;
mod pacer;
mod pairs;
mod parallel;
pub mod plan;
mod process;
mod registration;
mod result;
mod run;
mod scenario;
mod schedule;
mod scrape;
mod search;
mod shape;
pub mod statistics;
mod steady;
mod subject;
mod subjects;
mod suite_pairs;
mod suite_run;
mod suite_turns;
mod sustained;
mod table;
mod tally;
mod target_hub;
pub mod targets;
mod thresholds;
mod timeline;
mod validity;
mod watched;

pub use admin_client::{AdminClient, AdminError};
pub use child::{ChildError, HubProcess};
pub use environment::{Build, Environment, Storage};
pub use execute::{Surroundings, execute};
pub use latency::{LatencyMs, PhaseResult, Phases};
pub use merge::{MergeError, merge};
pub use options::{Baseline, Identity, OptionsError, Role, RunOptions};
pub use pairs::{ListedPair, PairChoice};
pub use parallel::LoadResult;
pub use process::{ProcessError, Usage, allow_many_files};
pub use result::{
    AuditSummary, BaselineResult, LabResult, OptionsEcho, ProcessResult, SCHEMA_VERSION, SliceResult,
};
pub use run::{LabError, run};
pub use scenario::{Scenario, phase_name};
pub use scrape::NoMetrics;
pub use shape::{Load, ParallelLoad, Stage};
pub use suite_pairs::{ClaimResult, ClaimVerdict, DifferenceResult, PairFigure, PairResult};
pub use suite_run::{LeftOut, SuitePlan, SuitePoint, SuiteResult, run_suite};
pub use suite_turns::Group;
pub use tally::Exchanges;
pub use target_hub::{TargetHub, TargetRecord};
