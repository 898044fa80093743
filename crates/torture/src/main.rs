//! The `torture` command.

mod arguments;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    arguments::Arguments::parse().run()
}
