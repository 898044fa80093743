//! Records the commit that the binary is built from, for `upesi --version`.

use std::env;
use std::path::Path;
use std::process::Command;

/// The sources of the build, relative to this crate's directory.
const SOURCES: [&str; 4] = ["../../crates", "../../tools", "../../Cargo.toml", "../../Cargo.lock"];
/// The file in which git records each checkout and commit: the log of a worktree's HEAD.
const CHECKED_OUT: &str = "logs/HEAD";

fn main() {
    println!("cargo::rerun-if-env-changed=UPESI_COMMIT");
    let named = env::var("UPESI_COMMIT").ok().filter(|text| !text.is_empty());
    // A debug build does not ask git. Otherwise, each commit would compile all tests of this crate again.
    let commit = named.or_else(|| is_release().then(checked_out).flatten()).unwrap_or_default();
    let number = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = match (&*commit, is_release()) {
        ("", false) => format!("{number} (debug build)"),
        ("", true) => format!("{number} (commit unknown)"),
        (commit, _) => format!("{number} ({commit})"),
    };
    println!("cargo::rustc-env=UPESI_BUILT_FROM={commit}");
    println!("cargo::rustc-env=UPESI_VERSION={version}");
}

fn is_release() -> bool {
    env::var("PROFILE").is_ok_and(|profile| profile == "release")
}

/// The commit, with a `+` where sources differ from it; `None` outside of a git checkout.
fn checked_out() -> Option<String> {
    let log = git(&["rev-parse", "--git-path", CHECKED_OUT])?;
    // Cargo would build again each time for a file that does not exist.
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    SOURCES.iter().for_each(|path| println!("cargo::rerun-if-changed={path}"));
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    let [crates, tools, manifest, lock] = SOURCES;
    let changed =
        git(&["status", "--porcelain", "--untracked-files=no", "--", crates, tools, manifest, lock])?;
    Some(if changed.is_empty() { commit } else { format!("{commit}+") })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
