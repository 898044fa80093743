//! The environment of a run: the machine, the program, and the hub if it was already running.

use std::path::Path;

use serde::{Deserialize, Serialize};
use upesi_http::available_cores;
use upesi_sim::ServiceUrls;

use crate::plan::target::TargetHub;
use crate::result::schema::Name;

/// The storage of a hub's files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Storage {
    /// The device, such as `/dev/vda1`.
    pub device: String,
    /// The file system, such as `ext4`.
    pub filesystem: String,
}

/// The build of this program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Build {
    /// `release` or `debug`. Figures of a debug build are meaningless.
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

/// The machine and the program, to explain differences between figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// Number of cores that this process may use.
    pub cores: usize,
    /// The processor's name.
    pub cpu: Option<String>,
    /// Memory in mebibytes.
    pub memory_mb: Option<u64>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Version of this program.
    pub version: String,
    /// Its build.
    pub build: Build,
    /// Commit this program was built from.
    pub commit: Option<String>,
    /// The storage of the hub's data, or of the results.
    pub storage: Option<Storage>,
    /// When the hub makes transfers durable, in words; absent if unknown.
    pub durability: Option<String>,
    /// The addresses of the hub, if it was already running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub: Option<TargetRecord>,
    /// Time of the run's start, ISO 8601.
    pub started_at: String,
}

/// The meaning of durable for a hub of the lab, in words.
pub(crate) const fn durability(is_durable: bool) -> &'static str {
    if is_durable {
        "every batch is synced to storage before its answers leave"
    } else {
        "none: answers leave before anything is on disk"
    }
}

impl Environment {
    /// Detects the environment. `directory` is the directory for data.
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

    /// Processor, cores and kernel in one line, for the evidence.
    pub fn machine(&self) -> String {
        let (cpu, kernel) = (self.cpu.as_deref(), self.kernel.as_deref());
        let (cpu, kernel) = (cpu.unwrap_or("unknown processor"), kernel.unwrap_or("of unknown version"));
        format!("{cpu}, {} cores, Linux {kernel}", self.cores)
    }

    /// The running program and its arguments, as a user would type them.
    pub fn command() -> String {
        let mut words = std::env::args();
        let program = words.next().unwrap_or_default();
        let program = Path::new(&program).file_name().map(|name| name.to_string_lossy().into_owned());
        program.into_iter().chain(words).collect::<Vec<_>>().join(" ")
    }
}

/// The mount of a directory: the last one with the longest matching path.
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

/// The addresses of a hub that was already running, as in results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetRecord {
    /// Base URL for lookups.
    pub lookups: String,
    /// Base URL for quotes.
    pub quotes: String,
    /// Base URL for transfers.
    pub transfers: String,
    /// Base URL of the admin API.
    pub admin: String,
    /// Places of the metrics.
    pub metrics: Vec<String>,
    /// The processes that were measured.
    pub pids: Vec<u32>,
}

impl TargetRecord {
    pub(crate) fn of(target: &TargetHub) -> Self {
        let ServiceUrls { lookups, quotes, transfers, .. } = target.services();
        let metrics = if target.metrics_urls.is_empty() {
            vec![target.admin_url.clone()]
        } else {
            target.metrics_urls.clone()
        };
        let (admin, pids) = (target.admin_url.clone(), target.pids.clone());
        Self { lookups, quotes, transfers, admin, metrics, pids }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_without_service_urls_uses_the_main_one() {
        let whole = TargetHub::at("http://hub:4000", "http://hub:4001");
        assert_eq!(whole.fspiop_urls(), ["http://hub:4000"]);
        assert_eq!(TargetRecord::of(&whole).metrics, ["http://hub:4001"]);
        let parts = TargetHub {
            quotes_url: Some("http://quoting:3002".to_owned()),
            transfers_url: Some("http://ml:3000".to_owned()),
            metrics_urls: vec!["http://ml:3000".to_owned(), "http://quoting:3002".to_owned()],
            pids: vec![4, 7],
            ..whole
        };
        let record = TargetRecord::of(&parts);
        assert_eq!(
            [record.lookups.as_str(), &record.quotes, &record.transfers],
            ["http://hub:4000", "http://quoting:3002", "http://ml:3000"]
        );
        assert_eq!((record.metrics.len(), record.pids), (2, vec![4, 7]));
        assert_eq!(parts.fspiop_urls().len(), 3);
    }

    #[test]
    fn storage_is_the_innermost_mount() {
        let mounts =
            "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/vdb /tmp/data xfs rw 0 0\nbroken\n";
        for (path, device) in [("/home", "/dev/vda"), ("/tmp/x", "tmpfs"), ("/tmp/data/1", "/dev/vdb")] {
            assert_eq!(mount_of(mounts, Path::new(path)).unwrap().device, device);
        }
        assert_eq!(mount_of("", Path::new("/")), None);
        assert!(storage_of(Path::new("/nonexistent/upesi")).is_none());
    }
}
