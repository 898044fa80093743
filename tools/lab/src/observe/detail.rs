//! What a process did to the machine beyond CPU and memory: storage, context switches, and the CPU of its threads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::observe::cores::RunQueue;
use crate::observe::process::{cpu_ticks, cpu_time};

/// The counters of one process at one moment; they only grow, except by threads that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Detail {
    /// Bytes that the process caused to be written to storage; `None` where the kernel does not tell.
    pub disk_write_bytes: Option<u64>,
    pub voluntary: u64,
    pub involuntary: u64,
    /// CPU by kind of thread: its name without the number at its end.
    pub threads: BTreeMap<String, Duration>,
    /// How long its threads waited for a core.
    pub run_queue: RunQueue,
}

impl Detail {
    /// Reads a process of this machine; what cannot be read is nothing.
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
        // A thread may end while it is looked at.
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

    /// Adds what another process counted.
    pub fn add(&mut self, other: &Self) {
        if let Some(written) = other.disk_write_bytes {
            *self.disk_write_bytes.get_or_insert(0) += written;
        }
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
        // Threads of different processes have different numbers.
        self.run_queue.add_growth(&RunQueue::default(), &other.run_queue);
        for (kind, cpu) in &other.threads {
            *self.threads.entry(kind.clone()).or_default() += *cpu;
        }
    }

    /// Adds what happened between two moments.
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

/// Bytes of the files below a directory, as far as it can be read; spare room at the end of files counts only where it
/// is allocated.
pub(crate) fn directory_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => directory_bytes(&entry.path()),
        // A block is 512 bytes here whatever the file system's.
        Ok(found) => found.blocks() * 512,
        Err(_) => 0,
    };
    entries.map(bytes).sum()
}

/// `upesi-edge-1` is one of the edges.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_kind_are_one() {
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
    fn growth_adds_up_and_never_goes_below_nothing() {
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
}
