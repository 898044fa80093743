//! The command line, the files of an installation, and what the documents say about them.

mod backup;
mod command;
mod docs;
mod export;
mod packaging;
#[path = "../support_command/mod.rs"]
mod support_command;
#[path = "../support_trial/mod.rs"]
mod support_trial;
mod trial;
mod upgrade;
