//! The command line. The help texts are the manual.

mod admin;
mod approvals;
mod arguments;
mod bindings;
mod callback;
mod calls;
mod cluster;
mod context;
mod dfsp;
mod directory;
mod funds;
mod help;
mod hub;
mod install;
mod models;
mod operators;
mod people;
mod pki;
mod policy;
mod position;
mod process;
mod rotation;
mod run;
mod scheme;
mod settings;
mod settlement;
mod sim;
mod spelling;
mod table;
mod trail;
mod transfer;

pub use arguments::{AuditArguments, Cli, Command, ConfigArguments, JournalArguments};
pub use run::run;
pub use settings::SettingsArguments;
