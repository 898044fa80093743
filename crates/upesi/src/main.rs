//! The `upesi` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    upesi_process::panics::end_the_process();
    upesi_node::raise_limit();
    upesi::cli::run(std::env::args_os()).into()
}
