//! The binary under test, as a user runs it.

use std::process::{Command, Stdio};

/// The command with these arguments, without stdin and without a developer's environment variables.
pub fn upesi(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_upesi"));
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("UPESI_")) {
        command.env_remove(name);
    }
    command
}
