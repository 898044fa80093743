//! What becomes of the machine's cores, as the kernel counts it in
//! `/proc/stat`, and how long threads wait for one (`schedstat`).
#![expect(clippy::float_arithmetic, reason = "a share of measured time; no money")]

use std::collections::BTreeMap;

use crate::result::statistics::{ratio, rounded};

/// Time of all cores, in the kernel's ticks: since the machine's start, or between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CoreTime {
    /// How many cores the kernel has: those of the machine, whatever a container may use of them.
    pub count: usize,
    all: u64,
    /// Of programs, whichever they are, with what the kernel did for them when asked.
    programs: u64,
    /// Without anything to do, or waiting for a disk.
    idle: u64,
    /// Wanted by this machine, and given to others by the hypervisor.
    stolen: u64,
}

impl CoreTime {
    /// Since the machine's start; `None` where `/proc` is not what Linux provides.
    pub fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    pub fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // User, nice, system, idle, waiting for IO, two kinds of interrupts, stolen. What follows is part of the first
        // two.
        let ticks = line.split_ascii_whitespace().take(8).map(str::parse);
        let ticks: Vec<u64> = ticks.collect::<Result<_, _>>().ok()?;
        let ticks: [u64; 8] = ticks.try_into().ok()?;
        let [user, nice, system, idle, disk, _, _, stolen] = ticks;
        let is_core = |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| !rest.starts_with(' '));
        Some(Self {
            count: stat.lines().filter(is_core).count(),
            all: ticks.iter().sum(),
            programs: user + nice + system,
            idle: idle + disk,
            stolen,
        })
    }

    /// Adds what has passed between two moments.
    pub fn add_growth(&mut self, before: Option<Self>, after: Option<Self>) {
        if let (Some(before), Some(after)) = (before, after) {
            self.count = after.count;
            self.all += after.all.saturating_sub(before.all);
            self.programs += after.programs.saturating_sub(before.programs);
            self.idle += after.idle.saturating_sub(before.idle);
            self.stolen += after.stolen.saturating_sub(before.stolen);
        }
    }

    /// The part that went to others; `None` where no time has passed.
    pub fn stolen_share(self) -> Option<f64> {
        self.share(self.stolen)
    }

    /// The part in which nobody wanted a core.
    pub fn idle_share(self) -> Option<f64> {
        self.share(self.idle)
    }

    /// The part that programs used, those of others included.
    pub fn programs_share(self) -> Option<f64> {
        self.share(self.programs)
    }

    fn share(self, part: u64) -> Option<f64> {
        ratio(part as f64, self.all as f64).map(|share| rounded(share, 4))
    }
}

/// What threads got of the cores, and how long they stood in line for one, in nanoseconds by thread: up to a moment, or
/// between two moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunQueue(BTreeMap<u32, (u64, u64)>);

impl RunQueue {
    /// Notes what a thread's `schedstat` says; nothing where the kernel keeps none.
    pub fn note(&mut self, thread: u32, schedstat: &str) {
        let mut fields = schedstat.split_ascii_whitespace().map(|field| field.parse().ok());
        if let (Some(Some(ran)), Some(Some(waited))) = (fields.next(), fields.next()) {
            self.0.insert(thread, (ran, waited));
        }
    }

    /// Adds what has passed between two moments. What a thread did that ended before the second is not known.
    pub fn add_growth(&mut self, before: &Self, after: &Self) {
        for (thread, (ran, waited)) in &after.0 {
            let earlier = before.0.get(thread).copied().unwrap_or_default();
            let sum = self.0.entry(*thread).or_default();
            sum.0 += ran.saturating_sub(earlier.0);
            sum.1 += waited.saturating_sub(earlier.1);
        }
    }

    /// Of the time in which the threads had something to do, the part in which they waited for a core.
    pub fn waited_share(&self) -> Option<f64> {
        let (ran, waited) = self.0.values().fold((0, 0), |sum, times| (sum.0 + times.0, sum.1 + times.1));
        ratio(waited as f64, (ran + waited) as f64).map(|share| rounded(share, 4))
    }
}

/// What a share that went to others means, for people.
pub(crate) fn taken(share: f64) -> String {
    format!("took {} of the cores' time", percent(share))
}

/// A share as people read it: `1.3 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_the_eighth_figure_and_guests_are_not_counted_twice() {
        let before = CoreTime::parse("cpu  100 0 50 800 10 0 20 20 40 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n");
        assert_eq!(before, Some(CoreTime { count: 2, all: 1_000, programs: 150, idle: 810, stolen: 20 }));
        let after = CoreTime::parse("cpu  150 0 60 1200 10 0 20 60 90 0\ncpu0 1\ncpu1 1\n");
        let mut passed = CoreTime::default();
        assert_eq!(passed.stolen_share(), None);
        passed.add_growth(before, after);
        assert_eq!(passed, CoreTime { count: 2, all: 500, programs: 60, idle: 400, stolen: 40 });
        assert_eq!((passed.idle_share(), passed.programs_share()), (Some(0.8), Some(0.12)));
        assert_eq!((passed.stolen_share(), percent(0.0801)), (Some(0.08), "8.0 %".to_owned()));
        // Kernels that tell less, and other systems.
        assert_eq!(CoreTime::parse("cpu  1 2 3 4\n"), None);
        passed.add_growth(before, None);
        assert_eq!(passed.all, 500);
    }

    #[test]
    fn waiting_is_told_of_the_threads_that_are_there_at_the_end() {
        let at = |threads: &[(u32, &str)]| {
            let mut queue = RunQueue::default();
            threads.iter().for_each(|(thread, text)| queue.note(*thread, text));
            queue
        };
        let before = at(&[(1, "1000 500 7\n"), (2, "9000 9000 1\n"), (4, "")]);
        // The second has ended, and its number is another's now; the third is new.
        let after = at(&[(1, "4000 1000 9\n"), (2, "10 0 1\n"), (3, "2000 1500 2\n"), (4, "broken")]);
        let mut passed = RunQueue::default();
        assert_eq!(passed.waited_share(), None);
        passed.add_growth(&before, &after);
        assert_eq!(passed.waited_share(), Some(rounded(2_000.0 / 7_000.0, 4)));
        passed.add_growth(&after, &at(&[(1, "7000 1000 9\n")]));
        assert_eq!(passed.waited_share(), Some(0.2));
    }
}
