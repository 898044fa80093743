//! The `torture` command.

mod arguments;
mod real_hub;

use std::process::ExitCode;

use clap::Parser;

#[expect(clippy::print_stderr, reason = "a panic is a violation; its message is one line")]
fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    arguments::Arguments::parse().run()
}
