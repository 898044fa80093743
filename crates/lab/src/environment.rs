//! Where a run took place.

use serde::Serialize;

/// The machine and the program, as far as they explain figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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
    /// Commit this program was built from.
    pub commit: Option<String>,
    /// When the run began, ISO 8601.
    pub started_at: String,
}

impl Environment {
    /// Looks around.
    pub fn detect(commit: Option<String>, started_at: String) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let value_of = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = read("/proc/meminfo").and_then(|text| value_of(&text, "MemTotal"));
        let kibibytes = memory.and_then(|text| text.trim_end_matches("kB").trim().parse::<u64>().ok());
        Self {
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            cpu: read("/proc/cpuinfo").and_then(|text| value_of(&text, "model name")),
            memory_mb: kibibytes.map(|kibibytes| kibibytes / 1024),
            kernel: read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit,
            started_at,
        }
    }
}
