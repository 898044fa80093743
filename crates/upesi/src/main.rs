//! The `upesi` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    upesi::panics::end_the_process();
    upesi::hub::raise_limit();
    upesi::cli::run(std::env::args_os()).into()
}
