//! The `upesi` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    upesi::cli::run(std::env::args_os()).into()
}
