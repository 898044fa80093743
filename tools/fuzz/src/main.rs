//! `cargo run -p upesi-fuzz -- TARGET FILE…`: runs the target over these files, to show the reason of a failure.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let target = arguments.next().and_then(|name| upesi_fuzz::target(&name));
    let Some(target) = target else {
        let names: Vec<_> = upesi_fuzz::TARGETS.iter().map(|target| target.name).collect();
        eprintln!("give a target and files; the targets are {}", names.join(", "));
        return ExitCode::from(64);
    };
    for path in arguments {
        match std::fs::read(&path) {
            Ok(input) => (target.run)(&input),
            Err(error) => {
                eprintln!("{path}: {error}");
                return ExitCode::from(66);
            }
        }
        eprintln!("{path}: {} holds", target.name);
    }
    ExitCode::SUCCESS
}
