//! The `upesi` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    upesi::panics::end_the_process();
    upesi::cli::run(std::env::args_os()).into()
}
