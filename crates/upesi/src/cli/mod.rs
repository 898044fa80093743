//! The command line: what can be asked, and how it is answered. The help texts are the manual.

mod arguments;
mod directory;
mod install;
mod oracle;
mod run;
mod scheme;
mod sim;

pub use arguments::{AuditArguments, Cli, Command, ConfigArguments, JournalArguments, SettingsArguments};
pub use run::run;
