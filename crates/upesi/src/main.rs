//! The `upesi` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    upesi_hub::process::end_the_process();
    upesi_hub::raise_limit();
    upesi::cli::run(std::env::args_os()).into()
}
