//! The machine's spare capacity during a run. If hub and load generator share its cores and these are full, the machine
//! is the limit: the figures are true, and the hub would reach more elsewhere.

#![expect(clippy::float_arithmetic, reason = "shares of measured time; no money")]

use std::collections::BTreeMap;

use crate::plan::options::{Baseline, Role, RunOptions};
use crate::result::LabResult;
use crate::result::schema::MachineResult;
use crate::statistics::{ratio, rounded};

/// Cores with less idle time than this are full: runnable threads wait.
pub(crate) const IDLE_SHARE_FULL: f64 = 0.1;
/// A smaller share of other programs is not reported.
const OTHERS_SHARE_TOLD: f64 = 0.1;
/// The generator's row in `processes`.
const LAB: &str = "lab";

/// The condition of the machine, with the usage of the cores in the measured time. `None` if the kernel does not report
/// it, or reports more cores than this process may use: idle time is then not available to the hub.
pub(crate) fn machine(options: &RunOptions, result: &LabResult, cores: CoreTime) -> Option<MachineResult> {
    let idle_share = cores.idle_share().filter(|_| cores.count == result.environment.cores)?;
    let subject = subject(options);
    let full = idle_share < IDLE_SHARE_FULL;
    let other_programs_share = cores.programs_share().and_then(|all| others(options, result, all));
    let count = match cores.count {
        1 => "1 core".to_owned(),
        count => format!("{count} cores"),
    };
    let idle = percent(idle_share);
    let mut words = match subject {
        Some(name) => format!("{name} and load generator shared {count}, idle for {idle} of the time"),
        None => format!("the load generator had {count}, idle for {idle} of the time"),
    };
    words.push_str(&waits(result, subject));
    if let Some(share) = other_programs_share.filter(|share| *share >= OTHERS_SHARE_TOLD) {
        words.push_str(&format!("; other programs {}", taken(share)));
    }
    if let Some(name) = subject.filter(|_| full) {
        words.push_str(&format!(": on a separate machine the {name} would reach more"));
    }
    Some(MachineResult { shared: subject.is_some(), full, other_programs_share, words })
}

/// The measured program on this machine: the hub, or the baseline that is a process.
fn subject(options: &RunOptions) -> Option<&'static str> {
    match (options.alone, &options.target) {
        (Some(Baseline::SimsOnly), _) => None,
        (Some(Baseline::Forwarder), _) => Some(Baseline::Forwarder.name()),
        (None, None) => Some("hub"),
        (None, Some(target)) => target.is_local().then_some("hub"),
    }
}

/// The time that runnable threads waited for a core, in words; empty if the kernel does not report it.
fn waits(result: &LabResult, subject: Option<&str>) -> String {
    let of = |name: &str| result.processes.iter().find(|row| row.name == name)?.waited_share.map(percent);
    match (subject.and_then(|name| Some((name, of(name)?))), of(LAB)) {
        (Some((name, share)), Some(own)) => format!(
            "; the {name}'s threads spent {share} of their busy time waiting for a core, the generator's {own}"
        ),
        (None, Some(own)) => {
            format!("; the generator's threads spent {own} of their busy time waiting for a core")
        }
        (_, None) => String::new(),
    }
}

/// The share of programs other than the hub and the lab. `None` if it cannot be determined: a process of the hub on
/// this machine is unknown, or there are further generators.
fn others(options: &RunOptions, result: &LabResult, all: f64) -> Option<f64> {
    if options.role == Role::Load {
        return None;
    }
    let names = subject(options).into_iter().chain([LAB]);
    let cores = |name: &str| result.processes.iter().find(|row| row.name == name)?.cores;
    let own: f64 = names.map(cores).sum::<Option<f64>>()?;
    let own_share = own / result.environment.cores.max(1) as f64;
    Some(rounded((all - own_share).max(0.0), 4))
}

/// Time of all cores, in the kernel's ticks: since the machine's start, or between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CoreTime {
    /// Number of the machine's cores, even if a container may use fewer.
    pub count: usize,
    all: u64,
    /// Time of all programs, including the kernel's work for them.
    programs: u64,
    /// Time without work, or waiting for a disk.
    idle: u64,
    /// Time that this machine requested and the hypervisor assigned to others.
    stolen: u64,
}

impl CoreTime {
    /// Time since the machine's start; `None` if `/proc` does not have Linux's format.
    pub fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// Reads the first line of `/proc/stat`.
    pub fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // User, nice, system, idle, waiting for IO, two kinds of interrupts, stolen. The following fields are part of
        // the first two.
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

    /// Adds the growth between two moments; nothing if one of them is unknown.
    pub fn add_growth(&mut self, before: Option<Self>, after: Option<Self>) {
        if let (Some(before), Some(after)) = (before, after) {
            self.count = after.count;
            self.all += after.all.saturating_sub(before.all);
            self.programs += after.programs.saturating_sub(before.programs);
            self.idle += after.idle.saturating_sub(before.idle);
            self.stolen += after.stolen.saturating_sub(before.stolen);
        }
    }

    /// The part that the hypervisor assigned to other machines; `None` if no time has passed.
    pub fn stolen_share(self) -> Option<f64> {
        self.share(self.stolen)
    }

    /// The idle part of the cores' time.
    pub fn idle_share(self) -> Option<f64> {
        self.share(self.idle)
    }

    /// The part that all programs used.
    pub fn programs_share(self) -> Option<f64> {
        self.share(self.programs)
    }

    fn share(self, part: u64) -> Option<f64> {
        ratio(part as f64, self.all as f64).map(|share| rounded(share, 4))
    }
}

/// Time of threads on the cores, and their time in the run queue, in nanoseconds by thread: up to a moment, or between
/// two moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunQueue(BTreeMap<u32, (u64, u64)>);

impl RunQueue {
    /// Notes a thread's `schedstat`; nothing if the kernel keeps none.
    pub fn note(&mut self, thread: u32, schedstat: &str) {
        let mut fields = schedstat.split_ascii_whitespace().map(|field| field.parse().ok());
        if let (Some(Some(ran)), Some(Some(waited))) = (fields.next(), fields.next()) {
            self.0.insert(thread, (ran, waited));
        }
    }

    /// Adds the growth between two moments. A thread that ended before the second moment is not counted.
    pub fn add_growth(&mut self, before: &Self, after: &Self) {
        for (thread, (ran, waited)) in &after.0 {
            let earlier = before.0.get(thread).copied().unwrap_or_default();
            let sum = self.0.entry(*thread).or_default();
            sum.0 += ran.saturating_sub(earlier.0);
            sum.1 += waited.saturating_sub(earlier.1);
        }
    }

    /// The part of the threads' busy time that was spent waiting for a core.
    pub fn waited_share(&self) -> Option<f64> {
        let (ran, waited) = self.0.values().fold((0, 0), |sum, times| (sum.0 + times.0, sum.1 + times.1));
        ratio(waited as f64, (ran + waited) as f64).map(|share| rounded(share, 4))
    }
}

/// A share of time that others took, in words.
pub(crate) fn taken(share: f64) -> String {
    format!("took {} of the cores' time", percent(share))
}

/// A share for people: `1.3 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::target::TargetHub;
    use crate::result::schema::ProcessRow;

    fn row(name: &str, cores: f64, waited_share: f64) -> ProcessRow {
        let (cores, waited_share) = (Some(cores), Some(waited_share));
        ProcessRow { name: name.to_owned(), cores, waited_share, ..ProcessRow::default() }
    }

    fn result() -> LabResult {
        let mut result = LabResult::new();
        result.environment.cores = 2;
        result.processes = vec![row("hub", 1.1, 0.31), row(LAB, 0.7, 0.12), row("forwarder", 1.0, 0.5)];
        result
    }

    /// Two cores, with these per mille of use and of idle time.
    fn cores(used: u64, idle: u64) -> CoreTime {
        let interrupts = 1_000 - used - idle;
        let stat = format!("cpu  {used} 0 0 {idle} 0 {interrupts} 0 0 0 0\ncpu0\ncpu1\n");
        let mut cores = CoreTime::default();
        cores.add_growth(CoreTime::parse("cpu  0 0 0 0 0 0 0 0\n"), CoreTime::parse(&stat));
        cores
    }

    fn target(url: &str, pid: Option<u32>) -> RunOptions {
        let pids = pid.into_iter().collect();
        RunOptions { target: Some(TargetHub { pids, ..TargetHub::at(url, url) }), ..RunOptions::default() }
    }

    #[test]
    fn full_shared_cores_are_reported_as_the_limit() {
        let options = RunOptions::default();
        let found = machine(&options, &result(), cores(950, 31)).unwrap();
        assert_eq!(
            found.words,
            "hub and load generator shared 2 cores, idle for 3.1 % of the time; the hub's threads spent 31.0 % of their busy \
             time waiting for a core, the generator's 12.0 %: on a separate machine the hub would reach more"
        );
        assert_eq!((found.shared, found.full, found.other_programs_share), (true, true, Some(0.05)));
        let spare = machine(&options, &result(), cores(850, 100)).unwrap();
        assert!(spare.shared && !spare.full && !spare.words.contains("more"), "{spare:?}");
        // Unknown shares are not estimated, and neither are a container's.
        assert_eq!(machine(&options, &result(), CoreTime::default()), None);
        let mut contained = result();
        contained.environment.cores = 1;
        assert_eq!(machine(&options, &contained, cores(950, 31)), None);
    }

    #[test]
    fn other_programs_are_reported() {
        let found = machine(&RunOptions::default(), &result(), cores(1_000, 0)).unwrap();
        assert!(found.words.contains("; other programs took 10.0 % of the cores' time"), "{found:?}");
        // A hub on this machine whose process is not known does not count as another program.
        let mut unknown = result();
        unknown.processes.remove(0);
        let found = machine(&target("http://127.0.0.1:4000", None), &unknown, cores(1_000, 0)).unwrap();
        assert_eq!((found.shared, found.other_programs_share), (true, None));
        // Another generator does not count as another program.
        let options = RunOptions { role: Role::Load, ..RunOptions::default() };
        assert_eq!(machine(&options, &result(), cores(1_000, 0)).unwrap().other_programs_share, None);
    }

    #[test]
    fn hub_on_another_machine_shares_no_cores() {
        for (url, pid, shared) in [
            ("http://10.0.0.7:4000", None, false),
            ("http://10.0.0.7:4000", Some(7), true),
            ("http://localhost:4000", None, true),
            ("http://[::1]:4000", None, true),
        ] {
            let found = machine(&target(url, pid), &result(), cores(1_000, 0)).unwrap();
            assert_eq!((found.shared, found.full), (shared, true), "{url}");
        }
        let alone = |baseline| RunOptions { alone: Some(baseline), ..RunOptions::default() };
        let found = machine(&alone(Baseline::SimsOnly), &result(), cores(350, 650)).unwrap();
        assert_eq!(
            found.words,
            "the load generator had 2 cores, idle for 65.0 % of the time; the generator's threads spent 12.0 % of their busy \
             time waiting for a core"
        );
        let found = machine(&alone(Baseline::Forwarder), &result(), cores(1_000, 0)).unwrap();
        assert!(found.shared && found.words.contains("the forwarder would reach more"), "{found:?}");
    }

    #[test]
    fn core_time_reads_eight_fields_and_ignores_guests() {
        let before = CoreTime::parse("cpu  100 0 50 800 10 0 20 20 40 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n");
        assert_eq!(before, Some(CoreTime { count: 2, all: 1_000, programs: 150, idle: 810, stolen: 20 }));
        let after = CoreTime::parse("cpu  150 0 60 1200 10 0 20 60 90 0\ncpu0 1\ncpu1 1\n");
        let mut passed = CoreTime::default();
        assert_eq!(passed.stolen_share(), None);
        passed.add_growth(before, after);
        assert_eq!(passed, CoreTime { count: 2, all: 500, programs: 60, idle: 400, stolen: 40 });
        assert_eq!((passed.idle_share(), passed.programs_share()), (Some(0.8), Some(0.12)));
        assert_eq!((passed.stolen_share(), percent(0.0801)), (Some(0.08), "8.0 %".to_owned()));
        // Kernels that report less, and other systems.
        assert_eq!(CoreTime::parse("cpu  1 2 3 4\n"), None);
        passed.add_growth(before, None);
        assert_eq!(passed.all, 500);
    }

    #[test]
    fn run_queue_counts_threads_that_exist_at_the_end() {
        let at = |threads: &[(u32, &str)]| {
            let mut queue = RunQueue::default();
            threads.iter().for_each(|(thread, text)| queue.note(*thread, text));
            queue
        };
        let before = at(&[(1, "1000 500 7\n"), (2, "9000 9000 1\n"), (4, "")]);
        // The second has ended, and its number now belongs to another thread; the third is new.
        let after = at(&[(1, "4000 1000 9\n"), (2, "10 0 1\n"), (3, "2000 1500 2\n"), (4, "broken")]);
        let mut passed = RunQueue::default();
        assert_eq!(passed.waited_share(), None);
        passed.add_growth(&before, &after);
        assert_eq!(passed.waited_share(), Some(rounded(2_000.0 / 7_000.0, 4)));
        passed.add_growth(&after, &at(&[(1, "7000 1000 9\n")]));
        assert_eq!(passed.waited_share(), Some(0.2));
    }
}
