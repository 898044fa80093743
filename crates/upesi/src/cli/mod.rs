//! The command line: what can be asked, and how it is answered. The help texts are the manual.

mod admin;
mod approvals;
mod arguments;
mod cluster;
mod directory;
mod install;
mod oracle;
mod people;
mod pki;
mod run;
mod scheme;
mod settlement;
mod sim;
mod tls;
mod trial;

pub use arguments::{AuditArguments, Cli, Command, ConfigArguments, JournalArguments, SettingsArguments};
pub use run::run;
