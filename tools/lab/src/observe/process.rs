//! The resource usage of a process, as the kernel counts it in `/proc`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::machine::RunQueue;
use crate::result::schema::ProcessRow;
use crate::statistics::{mebibytes, rounded};

/// CPU and memory of a process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// User and system time since its start, in the kernel's ticks of mostly 10 ms.
    pub cpu: Duration,
    pub resident_bytes: u64,
    pub resident_peak_bytes: u64,
}

/// A process whose usage cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the CPU and memory of process {pid} from /proc (has it ended?)")]
pub struct ProcessError {
    pub pid: u32,
}

impl Usage {
    /// Reads the usage of a process on this machine. Fails if the process has ended, or `/proc` does not have Linux's
    /// format.
    pub fn of(pid: u32) -> Result<Self, ProcessError> {
        let read = |file: &str| std::fs::read_to_string(PathBuf::from(format!("/proc/{pid}/{file}"))).ok();
        let usage = || {
            let ticks = cpu_ticks(&read("stat")?)?;
            let status = read("status")?;
            Some(Self {
                cpu: cpu_time(ticks),
                resident_bytes: status_bytes(&status, "VmRSS:").unwrap_or(0),
                resident_peak_bytes: status_bytes(&status, "VmHWM:").unwrap_or(0),
            })
        };
        usage().ok_or(ProcessError { pid })
    }

    /// The usage of several processes of this machine together; `None` if there are none, or one cannot be read.
    pub(crate) fn of_all(pids: &[u32]) -> Option<Self> {
        let all = pids.iter().map(|pid| Self::of(*pid).ok()).collect::<Option<Vec<_>>>()?;
        all.into_iter().reduce(Self::plus)
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu + other.cpu,
            resident_bytes: self.resident_bytes + other.resident_bytes,
            resident_peak_bytes: self.resident_peak_bytes + other.resident_peak_bytes,
        }
    }

    /// Reads the usage of this process. Fails if `/proc` does not have Linux's format.
    pub fn own() -> Result<Self, ProcessError> {
        Self::of(std::process::id())
    }
}

/// Raises the number of files (and so connections) that this process and its children may open, as far as the system
/// allows it without privilege.
pub fn allow_many_files() {
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limits.maximum, maximum: limits.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, "the limit on open files stays as it is");
    }
}

pub(crate) fn cpu_time(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_micros(ticks.saturating_mul(1_000_000) / per_second)
}

/// Fields 14 and 15 of `stat`. The second field, the program's name, may contain blanks and parentheses.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

fn status_bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// The counters of one process at one moment. They only grow, except when threads end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Detail {
    /// Bytes that the process caused to be written to storage; `None` if the kernel does not report them.
    pub disk_write_bytes: Option<u64>,
    pub voluntary: u64,
    pub involuntary: u64,
    /// CPU by kind of thread: its name without the number at its end.
    pub threads: BTreeMap<String, Duration>,
    /// Time that its threads waited for a core.
    pub run_queue: RunQueue,
}

impl Detail {
    /// Reads a process of this machine. Values that cannot be read are empty.
    pub fn of(pid: u32) -> Self {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let mut detail = Self {
            disk_write_bytes: read(&process, "io").and_then(|text| number(&text, "write_bytes:")),
            ..Self::default()
        };
        for thread in std::fs::read_dir(process.join("task")).into_iter().flatten().flatten() {
            detail.add_thread(&thread.path());
        }
        detail
    }

    fn add_thread(&mut self, thread: &Path) {
        // A thread may end while it is read.
        let (Some(name), Some(stat)) = (read(thread, "comm"), read(thread, "stat")) else { return };
        let cpu = cpu_ticks(&stat).map(cpu_time).unwrap_or_default();
        *self.threads.entry(kind_of(name.trim()).to_owned()).or_default() += cpu;
        let number_of = thread.file_name().and_then(|name| name.to_str()?.parse().ok());
        if let Some((id, schedstat)) = number_of.zip(read(thread, "schedstat")) {
            self.run_queue.note(id, &schedstat);
        }
        if let Some(status) = read(thread, "status") {
            self.voluntary += number(&status, "voluntary_ctxt_switches:").unwrap_or(0);
            self.involuntary += number(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0);
        }
    }

    /// Adds the counters of another process at the same moment.
    pub fn add(&mut self, other: &Self) {
        // Threads of different processes have different numbers.
        let nothing = Self { disk_write_bytes: Some(0), ..Self::default() };
        self.add_growth(&nothing, other);
    }

    /// Adds the growth between two moments.
    pub fn add_growth(&mut self, before: &Self, after: &Self) {
        let written = after.disk_write_bytes.zip(before.disk_write_bytes);
        if let Some((after, before)) = written {
            *self.disk_write_bytes.get_or_insert(0) += after.saturating_sub(before);
        }
        self.voluntary += after.voluntary.saturating_sub(before.voluntary);
        self.involuntary += after.involuntary.saturating_sub(before.involuntary);
        self.run_queue.add_growth(&before.run_queue, &after.run_queue);
        for (kind, cpu) in &after.threads {
            let earlier = before.threads.get(kind).copied().unwrap_or_default();
            *self.threads.entry(kind.clone()).or_default() += cpu.saturating_sub(earlier);
        }
    }
}

/// Bytes of the files below a directory, as far as it can be read. Spare space at the end of files counts only if it is
/// allocated.
pub(crate) fn directory_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => directory_bytes(&entry.path()),
        // A block is 512 bytes here for every file system.
        Ok(found) => found.blocks() * 512,
        Err(_) => 0,
    };
    entries.map(bytes).sum()
}

/// The kind of a thread: `upesi-edge-1` is an `upesi-edge`.
fn kind_of(name: &str) -> &str {
    let name = name.strip_prefix("upesi-").unwrap_or(name);
    name.trim_end_matches(|character: char| character.is_ascii_digit() || "-#:".contains(character))
}

fn read(directory: &Path, file: &str) -> Option<String> {
    std::fs::read_to_string(directory.join(file)).ok()
}

fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

/// The counters of one process at one moment. Values that cannot be read are empty, because a run must not fail for
/// them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessReading {
    usage: Usage,
    detail: Detail,
}

impl ProcessReading {
    pub fn of(pid: u32) -> Self {
        Self { usage: Usage::of(pid).unwrap_or_default(), detail: Detail::of(pid) }
    }
}

/// A process, or several combined, and its usage between moments.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchedProcess {
    pub pid: u32,
    /// The program's name, as the kernel has it.
    pub program: String,
    pub cpu: Duration,
    /// Its usage at the last moment.
    pub last: Usage,
    pub detail: Detail,
}

impl WatchedProcess {
    pub fn new(pid: u32) -> Self {
        let program = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Self { pid, program: program.trim().to_owned(), ..Self::default() }
    }

    pub fn now(&self) -> ProcessReading {
        ProcessReading::of(self.pid)
    }

    /// Adds the usage between two moments.
    pub fn add(&mut self, before: &ProcessReading, after: &ProcessReading) {
        self.cpu += after.usage.cpu.saturating_sub(before.usage.cpu);
        self.last = after.usage;
        self.detail.add_growth(&before.detail, &after.detail);
    }

    /// Its usage as a row of a result. Memory and number of threads are absent if they could not be read.
    pub fn row(&self, name: &str, cpu_us_per_operation: Option<f64>, cores: Option<f64>) -> ProcessRow {
        let Self { last, detail, .. } = self;
        let memory = |bytes: u64| (bytes > 0).then(|| rounded(mebibytes(bytes), 1));
        let switches = |count: u64| (!detail.threads.is_empty()).then_some(count);
        ProcessRow {
            name: name.to_owned(),
            cpu_us_per_operation,
            cores,
            rss_mb: memory(last.resident_bytes),
            rss_peak_mb: memory(last.resident_peak_bytes),
            disk_write_mb: detail.disk_write_bytes.map(|bytes| rounded(mebibytes(bytes), 2)),
            context_switches_voluntary: switches(detail.voluntary),
            context_switches_involuntary: switches(detail.involuntary),
            waited_share: detail.run_queue.waited_share(),
        }
    }

    /// Combines several processes, without a name. Memory that they share is counted once for each, and their peaks are
    /// added as if they had occurred at one moment.
    pub fn together(all: &[Self]) -> Self {
        let mut sum = Self::default();
        for one in all {
            sum.cpu += one.cpu;
            sum.last = sum.last.plus(one.last);
            sum.detail.add(&one.detail);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_for_any_program_name() {
        let stat = "4242 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 111 222 13 14 15 16 17 18 19";
        assert_eq!(cpu_ticks(stat), Some(333));
        assert_eq!(cpu_ticks("4242 (x) S 1"), None);
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(status_bytes(status, "VmRSS:"), Some(1024 * 1024));
        assert_eq!(status_bytes(status, "VmHWM:"), Some(2048 * 1024));
        assert_eq!(status_bytes(status, "VmSwap:"), None);
    }

    #[test]
    fn usage_of_an_ended_process_cannot_be_read() {
        let own = Usage::own().unwrap();
        assert!(own.resident_bytes > 0 && own.resident_peak_bytes >= own.resident_bytes / 2);
        // Process ids are far smaller than this.
        assert!(Usage::of(u32::MAX).is_err());
        let pid = std::process::id();
        assert!(Usage::of_all(&[pid, pid]).is_some_and(|both| both.resident_bytes >= own.resident_bytes));
        assert_eq!((Usage::of_all(&[pid, u32::MAX]), Usage::of_all(&[])), (None, None));
    }

    #[test]
    fn threads_of_a_kind_are_combined() {
        for (name, kind) in [
            ("upesi-edge-0", "edge"),
            ("upesi-edge-12", "edge"),
            ("upesi-engine", "engine"),
            ("fjall:compactor", "fjall:compactor"),
            ("7", ""),
        ] {
            assert_eq!(kind_of(name), kind);
        }
    }

    #[test]
    fn growth_is_summed_and_never_negative() {
        let at = |bytes, switches, ms| Detail {
            disk_write_bytes: bytes,
            voluntary: switches,
            involuntary: 1,
            threads: BTreeMap::from([("edge".to_owned(), Duration::from_millis(ms))]),
            run_queue: RunQueue::default(),
        };
        let mut sum = Detail::default();
        sum.add_growth(&at(Some(100), 10, 5), &at(Some(300), 30, 25));
        sum.add_growth(&at(Some(300), 30, 25), &at(Some(400), 20, 30));
        sum.add_growth(&at(None, 0, 0), &at(None, 0, 0));
        assert_eq!((sum.disk_write_bytes, sum.voluntary, sum.involuntary), (Some(300), 20, 0));
        assert_eq!(sum.threads["edge"], Duration::from_millis(25));
    }

    #[test]
    fn this_process_has_threads_and_a_directory_has_a_size() {
        assert!(!Detail::of(std::process::id()).threads.is_empty());
        assert_eq!(Detail::of(u32::MAX), Detail::default());
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("inner")).unwrap();
        std::fs::write(directory.path().join("inner/file"), [1; 10_000]).unwrap();
        assert!((10_000..1_000_000).contains(&directory_bytes(directory.path())));
        assert_eq!(directory_bytes(Path::new("/nonexistent")), 0);
    }

    #[test]
    fn processes_are_counted_separately_and_together() {
        let moment = |ms, resident_bytes, disk| {
            let usage = Usage {
                cpu: Duration::from_millis(ms),
                resident_bytes,
                resident_peak_bytes: 2 * resident_bytes,
            };
            let detail = Detail { disk_write_bytes: Some(disk), voluntary: 3, ..Detail::default() };
            ProcessReading { usage, detail }
        };
        let mut both = [WatchedProcess::new(std::process::id()), WatchedProcess::new(u32::MAX)];
        assert!(!both[0].program.is_empty() && both[1].program.is_empty());
        both[0].add(&moment(100, 10, 1_000), &moment(150, 20, 1_500));
        both[0].add(&moment(150, 20, 1_500), &moment(160, 30, 1_600));
        both[1].add(&moment(7, 1, 0), &moment(8, 2, 10));
        // A process that ended has no new counts, and the earlier ones stay.
        both[1].add(&moment(8, 2, 10), &ProcessReading::default());
        let sum = WatchedProcess::together(&both);
        assert_eq!((both[0].cpu, sum.cpu), (Duration::from_millis(60), Duration::from_millis(61)));
        assert_eq!((sum.last.resident_bytes, sum.last.resident_peak_bytes), (30, 60));
        assert_eq!(sum.detail.disk_write_bytes, Some(610));
        assert_eq!(WatchedProcess::together(&[]).detail, Detail::default());
    }

    #[test]
    fn row_has_only_measured_members() {
        let mut own = WatchedProcess::new(std::process::id());
        let before = own.now();
        let after = own.now();
        own.add(&before, &after);
        let row = own.row("lab", Some(1.5), None);
        assert_eq!((row.name.as_str(), row.cpu_us_per_operation, row.cores), ("lab", Some(1.5), None));
        assert!(row.rss_mb > Some(0.0) && row.rss_peak_mb > Some(0.0), "{row:?}");
        assert!(row.context_switches_voluntary.is_some() && row.context_switches_involuntary.is_some());
        let mut gone = WatchedProcess::new(u32::MAX);
        let nothing = gone.now();
        gone.add(&nothing, &nothing);
        let nothing = ProcessRow { name: "hub".to_owned(), ..ProcessRow::default() };
        assert_eq!(gone.row("hub", None, None), nothing);
    }
}
