//! The command line: what can be asked, and how it is answered. The help texts are the manual.

mod arguments;
mod behaviour;
mod directory;
mod install;
mod lab;
mod lab_characterize;
mod lab_isolated;
mod lab_metrics;
mod lab_record;
mod lab_results;
mod lab_run;
mod lab_suite;
mod oracle;
mod profile;
mod profile_tables;
mod run;
mod scheme;
mod sim;
mod target;
mod values;

pub use arguments::{AuditArguments, Cli, Command, ConfigArguments, JournalArguments, SettingsArguments};
pub(crate) use lab_run::lab_exit;
pub use run::{run, write_out};
