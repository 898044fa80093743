#![doc = include_str!("../README.md")]
#![allow(clippy::print_stdout, reason = "the output of a command")]

pub mod all;
pub mod change;
pub mod hang;
pub mod profile;
pub mod program;
pub mod quick;
pub mod run;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root")
}

/// Cargo, in the root of the repository.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}
