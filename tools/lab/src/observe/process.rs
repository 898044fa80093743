//! What a process used, as the kernel counts it in `/proc`.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// CPU and memory of a process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// User and system time since its start, in the kernel's ticks of mostly 10 ms.
    pub cpu: Duration,
    pub resident_bytes: u64,
    pub resident_peak_bytes: u64,
}

/// A process that cannot be looked at.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the CPU and memory of process {pid} from /proc (has it ended?)")]
pub struct ProcessError {
    pub pid: u32,
}

impl Usage {
    /// Reads the usage of a process on this machine.
    ///
    /// # Errors
    /// When the process has ended or `/proc` is not what Linux provides.
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

    /// Several processes of this machine together; `None` where there are none, or one cannot be read.
    pub(crate) fn of_all(pids: &[u32]) -> Option<Self> {
        let all = pids.iter().map(|pid| Self::of(*pid).ok()).collect::<Option<Vec<_>>>()?;
        all.into_iter().reduce(Self::plus)
    }

    /// Two processes together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu + other.cpu,
            resident_bytes: self.resident_bytes + other.resident_bytes,
            resident_peak_bytes: self.resident_peak_bytes + other.resident_peak_bytes,
        }
    }

    /// Reads the usage of this process.
    ///
    /// # Errors
    /// When `/proc` is not what Linux provides.
    pub fn own() -> Result<Self, ProcessError> {
        Self::of(std::process::id())
    }
}

/// Raises the number of files (and so connections) this process and the ones it starts may open, as far as the system
/// lets it without privilege.
pub fn allow_many_files() {
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limits.maximum, maximum: limits.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, "the limit on open files stays as it is");
    }
}

/// Ticks of the kernel as time.
pub(crate) fn cpu_time(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_micros(ticks.saturating_mul(1_000_000) / per_second)
}

/// Fields 14 and 15 of `stat`. The second field, the program's name, may contain blanks and parentheses.
pub(crate) fn cpu_ticks(stat: &str) -> Option<u64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_and_status_are_read_whatever_the_program_is_called() {
        let stat = "4242 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 111 222 13 14 15 16 17 18 19";
        assert_eq!(cpu_ticks(stat), Some(333));
        assert_eq!(cpu_ticks("4242 (x) S 1"), None);
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(status_bytes(status, "VmRSS:"), Some(1024 * 1024));
        assert_eq!(status_bytes(status, "VmHWM:"), Some(2048 * 1024));
        assert_eq!(status_bytes(status, "VmSwap:"), None);
    }

    #[test]
    fn this_process_uses_memory_and_an_ended_one_cannot_be_read() {
        let own = Usage::own().unwrap();
        assert!(own.resident_bytes > 0 && own.resident_peak_bytes >= own.resident_bytes / 2);
        // Process ids end far below this.
        assert!(Usage::of(u32::MAX).is_err());
        let pid = std::process::id();
        assert!(Usage::of_all(&[pid, pid]).is_some_and(|both| both.resident_bytes >= own.resident_bytes));
        assert_eq!((Usage::of_all(&[pid, u32::MAX]), Usage::of_all(&[])), (None, None));
    }
}
