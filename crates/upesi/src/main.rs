//! The `upesi` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    upesi::panics::tell_damage();
    upesi::cli::run(std::env::args_os()).into()
}
