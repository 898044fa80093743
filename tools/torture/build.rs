//! Notes the commit that the program is built from, so that evidence names what was tried and not what happens to be
//! checked out when it is written.

use std::env;
use std::path::Path;
use std::process::Command;

/// From this crate's directory: what a build of it depends on. Evidence and documents may differ, they are what is
/// being written.
const SOURCES: [&str; 4] = ["../../crates", "../../tools", "../../Cargo.toml", "../../Cargo.lock"];
/// Where git keeps what is checked out, in its own directory.
const HEADS: [&str; 3] = ["HEAD", "refs/heads", "packed-refs"];

fn main() {
    println!("cargo::rerun-if-env-changed=UPESI_COMMIT");
    let named = env::var("UPESI_COMMIT").ok().filter(|text| !text.is_empty());
    let commit = named.or_else(checked_out).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=UPESI_BUILT_FROM={commit}");
}

/// The commit, with a `+` where sources differ from it; `None` outside of a git checkout.
fn checked_out() -> Option<String> {
    let directory = git(&["rev-parse", "--git-common-dir"])?;
    let worktree = git(&["rev-parse", "--git-dir"])?;
    for file in
        HEADS.iter().flat_map(|name| [&directory, &worktree].map(|parent| Path::new(parent).join(name)))
    {
        // Cargo would build anew each time for a file that is not there.
        if file.exists() {
            println!("cargo::rerun-if-changed={}", file.display());
        }
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
