//! Where a run took place.

use std::path::Path;

use serde::{Deserialize, Serialize};
use upesi_http::available_cores;

use crate::drive::target_hub::TargetRecord;
use crate::result::schema::Name;

/// What the files of a hub are on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Storage {
    /// The device, such as `/dev/vda1`.
    pub device: String,
    /// The file system, such as `ext4`.
    pub filesystem: String,
}

/// How this program was built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Build {
    /// `release` or `debug`. Figures of a debug build say nothing.
    pub profile: Name,
    /// Version of this program.
    pub version: Name,
}

impl Default for Build {
    fn default() -> Self {
        let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
        Self { profile: profile.into(), version: env!("CARGO_PKG_VERSION").into() }
    }
}

/// The machine and the program, as far as they explain figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// Cores this process may use.
    pub cores: usize,
    /// The processor's name.
    pub cpu: Option<String>,
    /// Memory in mebibytes.
    pub memory_mb: Option<u64>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Version of this program.
    pub version: String,
    /// How it was built.
    pub build: Build,
    /// Commit this program was built from.
    pub commit: Option<String>,
    /// What the hub's data, or the results, are written to.
    pub storage: Option<Storage>,
    /// When the hub makes transfers durable, in words; absent when unknown.
    pub durability: Option<String>,
    /// How the hub was reached, where it ran already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub: Option<TargetRecord>,
    /// When the run began, ISO 8601.
    pub started_at: String,
}

/// What durable means of a hub of ours, in words.
pub(crate) const fn durability(is_durable: bool) -> &'static str {
    if is_durable {
        "every batch is synced to storage before its answers leave"
    } else {
        "none: answers leave before anything is on disk"
    }
}

impl Environment {
    /// Looks around; `directory` is where data is written to.
    pub fn detect(commit: Option<String>, started_at: String, directory: &Path) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let value_of = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = read("/proc/meminfo").and_then(|text| value_of(&text, "MemTotal"));
        let kibibytes = memory.and_then(|text| text.trim_end_matches("kB").trim().parse::<u64>().ok());
        Self {
            cores: available_cores(),
            cpu: read("/proc/cpuinfo").and_then(|text| value_of(&text, "model name")),
            memory_mb: kibibytes.map(|kibibytes| kibibytes / 1024),
            kernel: read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: Build::default(),
            commit,
            storage: storage_of(directory),
            durability: None,
            hub: None,
            started_at,
        }
    }

    /// Processor, cores and kernel in one line, as the evidence names machines.
    pub fn machine(&self) -> String {
        let (cpu, kernel) = (self.cpu.as_deref(), self.kernel.as_deref());
        let (cpu, kernel) = (cpu.unwrap_or("unknown processor"), kernel.unwrap_or("of unknown version"));
        format!("{cpu}, {} cores, Linux {kernel}", self.cores)
    }

    /// The program that runs and its arguments, as a person would type them.
    pub fn command() -> String {
        let mut words = std::env::args();
        let program = words.next().unwrap_or_default();
        let program = Path::new(&program).file_name().map(|name| name.to_string_lossy().into_owned());
        program.into_iter().chain(words).collect::<Vec<_>>().join(" ")
    }
}

/// The mount that a directory is on: the last one with the longest matching path.
fn storage_of(directory: &Path) -> Option<Storage> {
    let directory = std::fs::canonicalize(directory).ok()?;
    let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
    mount_of(&mounts, &directory)
}

fn mount_of(mounts: &str, directory: &Path) -> Option<Storage> {
    let fields = |line: &str| {
        let mut fields = line.split_ascii_whitespace().map(str::to_owned);
        Some((fields.next()?, fields.next()?, fields.next()?))
    };
    let found = mounts.lines().filter_map(fields).filter(|(_, path, _)| directory.starts_with(path));
    let (device, _, filesystem) = found.max_by_key(|(_, path, _)| path.len())?;
    Some(Storage { device, filesystem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_counts() {
        let mounts =
            "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/vdb /tmp/data xfs rw 0 0\nbroken\n";
        for (path, device) in [("/home", "/dev/vda"), ("/tmp/x", "tmpfs"), ("/tmp/data/1", "/dev/vdb")] {
            assert_eq!(mount_of(mounts, Path::new(path)).unwrap().device, device);
        }
        assert_eq!(mount_of("", Path::new("/")), None);
        assert!(storage_of(Path::new("/nonexistent/upesi")).is_none());
    }
}
