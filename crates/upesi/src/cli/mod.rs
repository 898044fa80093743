//! The command line: what can be asked, and how it is answered. The help texts are the manual.

mod arguments;
mod behaviour;
mod directory;
mod lab;
mod lab_isolated;
mod lab_record;
mod lab_metrics;
mod oracle;
mod profile;
mod run;
mod scheme;
mod sim;
mod values;

pub use arguments::{AuditArguments, Cli, Command, ConfigArguments, JournalArguments, SettingsArguments};
pub use run::run;
