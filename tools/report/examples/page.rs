//! Writes the page of results: `cargo run -p upesi-report --example page -- PAGE.html DIR…`.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if paths.len() < 2 {
        eprintln!("usage: page PAGE.html DIR…");
        return ExitCode::from(64);
    }
    let page = paths.remove(0);
    if let Ok(comparison) = upesi_report::compare(&paths) {
        eprintln!("{comparison}");
    }
    match upesi_report::write_html(&paths, &page) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
