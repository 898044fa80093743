//! What processes used from slice to slice: each by itself, and together.

use std::time::Duration;

use crate::observe::detail::Detail;
use crate::observe::process::Usage;
use crate::result::schema::ProcessRow;
use crate::result::statistics::{mebibytes, rounded};

/// The counters of one process at one moment. What cannot be read is nothing: a run is not given up for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moment {
    usage: Usage,
    detail: Detail,
}

impl Moment {
    pub fn of(pid: u32) -> Self {
        Self { usage: Usage::of(pid).unwrap_or_default(), detail: Detail::of(pid) }
    }
}

/// A process, or several as one, and what it used between moments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    pub pid: u32,
    /// The program's name, as the kernel has it.
    pub program: String,
    pub cpu: Duration,
    /// As it was at the last moment.
    pub last: Usage,
    pub detail: Detail,
}

impl Watched {
    pub fn new(pid: u32) -> Self {
        let program = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Self { pid, program: program.trim().to_owned(), ..Self::default() }
    }

    pub fn now(&self) -> Moment {
        Moment::of(self.pid)
    }

    /// Adds what passed between two moments.
    pub fn add(&mut self, before: &Moment, after: &Moment) {
        self.cpu += after.usage.cpu.saturating_sub(before.usage.cpu);
        self.last = after.usage;
        self.detail.add_growth(&before.detail, &after.detail);
    }

    /// What it used, as a row of a result. A process that is there has memory and threads: where none were read,
    /// nothing is said of them.
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

    /// Several as one, without a name. Memory that they share is in it as often as they are, and the most that each was
    /// as if it had been at one moment.
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
    fn processes_are_counted_each_by_itself_and_together() {
        let moment = |ms, resident_bytes, disk| {
            let usage = Usage {
                cpu: Duration::from_millis(ms),
                resident_bytes,
                resident_peak_bytes: 2 * resident_bytes,
            };
            let detail = Detail { disk_write_bytes: Some(disk), voluntary: 3, ..Detail::default() };
            Moment { usage, detail }
        };
        let mut both = [Watched::new(std::process::id()), Watched::new(u32::MAX)];
        assert!(!both[0].program.is_empty() && both[1].program.is_empty());
        both[0].add(&moment(100, 10, 1_000), &moment(150, 20, 1_500));
        both[0].add(&moment(150, 20, 1_500), &moment(160, 30, 1_600));
        both[1].add(&moment(7, 1, 0), &moment(8, 2, 10));
        // One that ended tells nothing more, and takes nothing away.
        both[1].add(&moment(8, 2, 10), &Moment::default());
        let sum = Watched::together(&both);
        assert_eq!((both[0].cpu, sum.cpu), (Duration::from_millis(60), Duration::from_millis(61)));
        assert_eq!((sum.last.resident_bytes, sum.last.resident_peak_bytes), (30, 60));
        assert_eq!(sum.detail.disk_write_bytes, Some(610));
        assert_eq!(Watched::together(&[]).detail, Detail::default());
    }

    #[test]
    fn a_row_says_what_was_measured_and_nothing_of_what_was_not() {
        let mut own = Watched::new(std::process::id());
        let before = own.now();
        let after = own.now();
        own.add(&before, &after);
        let row = own.row("lab", Some(1.5), None);
        assert_eq!((row.name.as_str(), row.cpu_us_per_operation, row.cores), ("lab", Some(1.5), None));
        assert!(row.rss_mb > Some(0.0) && row.rss_peak_mb > Some(0.0), "{row:?}");
        assert!(row.context_switches_voluntary.is_some() && row.context_switches_involuntary.is_some());
        let mut gone = Watched::new(u32::MAX);
        let nothing = gone.now();
        gone.add(&nothing, &nothing);
        let nothing = ProcessRow { name: "hub".to_owned(), ..ProcessRow::default() };
        assert_eq!(gone.row("hub", None, None), nothing);
    }
}
