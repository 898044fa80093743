//! The command line: what can be asked, and how it is answered. The help texts are the manual.

mod admin;
mod arguments;
mod cluster;
mod directory;
mod install;
mod people;
mod pki;
mod run;
mod scheme;
mod settlement;
mod sim;
mod tls;

pub use arguments::{AuditArguments, Cli, Command, ConfigArguments, JournalArguments, SettingsArguments};
pub use run::run;
