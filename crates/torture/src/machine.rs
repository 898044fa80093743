//! Where and with what something was tried.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use upesi_types::Timestamp;

/// The commit that this program was built from: `UPESI_COMMIT`, or what git says, with a `+` where files differ from it.
pub fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output =
            Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let named = std::env::var("UPESI_COMMIT").ok().filter(|text| !text.is_empty());
    let Some(commit) = named.or_else(|| git(&["rev-parse", "--short", "HEAD"])) else {
        return "unknown".into();
    };
    // Evidence and documents may differ: they are what is being written.
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", "crates", "Cargo.lock"]);
    if changed.is_some_and(|text| !text.is_empty()) { format!("{commit}+") } else { commit }
}

/// Processor, cores, kernel.
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let model = processors.lines().find(|line| line.starts_with("model name"));
    let model =
        model.and_then(|line| line.split_once(':')).map_or("unknown processor", |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{model}, {cores} cores, Linux {}", read("/proc/sys/kernel/osrelease").trim())
}

/// How this program was built.
pub fn build() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "release" }
}

/// Now, as ISO 8601 in seconds.
pub fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Timestamp::from_ms(i64::try_from(seconds).unwrap_or(i64::MAX / 1_000) * 1_000).to_string()
}
