//! CPU by thread of this process, and what the process as a whole uses.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// CPU that the threads of this process had used at one moment, by thread id.
#[derive(Clone, Debug)]
pub(super) struct ThreadTimes {
    at: Instant,
    threads: BTreeMap<u32, (String, u64)>,
}

impl ThreadTimes {
    /// Reads `/proc`; empty where that is not what Linux provides.
    pub fn now() -> Self {
        let mut threads = BTreeMap::new();
        for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
            let Some(id) = task.file_name().to_str().and_then(|text| text.parse().ok()) else { continue };
            // Nanoseconds on a core come first.
            let ns = read("schedstat").split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
            threads.insert(id, (read("comm").trim().to_owned(), ns));
        }
        Self { at: Instant::now(), threads }
    }

    /// What has been used since, by thread. Threads that have ended since are not counted.
    pub fn since(&self) -> UsedCpu {
        let now = Self::now();
        let used = now.threads.iter().map(|(id, (name, ns))| {
            let before = self.threads.get(id).map_or(0, |(_, before)| *before);
            (name.clone(), ns.saturating_sub(before))
        });
        UsedCpu { wall: now.at - self.at, by_thread: used.collect() }
    }
}

/// CPU used during a time.
#[derive(Clone, Debug, Default)]
pub(super) struct UsedCpu {
    pub wall: Duration,
    by_thread: Vec<(String, u64)>,
}

impl UsedCpu {
    /// CPU of all threads.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.by_thread.iter().map(|(_, ns)| ns).sum())
    }

    /// CPU of the threads whose name begins so. The kernel keeps 15 bytes of a name.
    pub fn of(&self, prefix: &str) -> Duration {
        let named = self.by_thread.iter().filter(|(name, _)| name.starts_with(prefix));
        Duration::from_nanos(named.map(|(_, ns)| ns).sum())
    }

    /// Adds another time.
    pub fn add(&mut self, other: &Self) {
        self.wall += other.wall;
        self.by_thread.extend(other.by_thread.iter().cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_apart_by_name() {
        let before = ThreadTimes::now();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let (spun, ready) = std::sync::mpsc::channel();
        let busy = std::thread::Builder::new().name("meter-busy".to_owned()).spawn(move || {
            let started = Instant::now();
            while started.elapsed() < Duration::from_millis(5) {
                std::hint::spin_loop();
            }
            spun.send(()).unwrap();
            let _ = stopped.recv();
        });
        ready.recv().unwrap();
        let used = before.since();
        drop(stop);
        busy.unwrap().join().unwrap();
        assert!(used.of("meter-busy") > Duration::ZERO);
        assert!(used.total() >= used.of("meter-busy"));
        assert_eq!(used.of("no such thread"), Duration::ZERO);
    }
}
