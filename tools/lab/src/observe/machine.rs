//! What the machine had left while a run was measured. Where hub and load generator share its cores and these are full,
//! the machine is the limit: the figures are true, and the hub would reach more elsewhere.
#![expect(clippy::float_arithmetic, reason = "shares of measured time; no money")]

use crate::observe::cores::{CoreTime, percent, taken};
use crate::plan::options::{Baseline, Role, RunOptions};
use crate::result::LabResult;
use crate::result::schema::MachineResult;
use crate::result::statistics::rounded;

/// Cores that are idle for less than this are full: what is runnable waits.
pub(crate) const IDLE_SHARE_FULL: f64 = 0.1;
/// Other programs that took less than this of the cores are not worth a word.
const OTHERS_SHARE_TOLD: f64 = 0.1;
/// The generator's row in `processes`.
const LAB: &str = "lab";

/// The condition, with what became of the cores in the measured time. `None` where the kernel does not tell, and where
/// it tells of more cores than this process may use: what is idle then is not for the hub to have.
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
        words.push_str(&format!(": on a machine of its own the {name} would reach more"));
    }
    Some(MachineResult { shared: subject.is_some(), full, other_programs_share, words })
}

/// What is measured on this machine beside the load generator: the hub, or the baseline that is a process.
fn subject(options: &RunOptions) -> Option<&'static str> {
    match (options.alone, &options.target) {
        (Some(Baseline::SimsOnly), _) => None,
        (Some(Baseline::Forwarder), _) => Some(Baseline::Forwarder.name()),
        (None, None) => Some("hub"),
        (None, Some(target)) => target.is_local().then_some("hub"),
    }
}

/// How long threads that had work waited for a core, in words; nothing where the kernel does not tell.
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

/// What programs used but neither the hub nor the lab; `None` where these cannot be told from others: a hub on this
/// machine, or further generators.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::target_hub::TargetHub;
    use crate::result::schema::ProcessRow;

    fn row(name: &str, cores: f64, waited_share: f64) -> ProcessRow {
        let (cores, waited_share) = (Some(cores), Some(waited_share));
        ProcessRow { name: name.to_owned(), cores, waited_share, ..ProcessRow::default() }
    }

    fn result() -> LabResult {
        let mut result = LabResult::default();
        result.environment.cores = 2;
        result.processes = vec![row("hub", 1.1, 0.31), row(LAB, 0.7, 0.12), row("forwarder", 1.0, 0.5)];
        result
    }

    /// Two cores, of which programs used so many per mille and nobody so many.
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
    fn full_cores_that_are_shared_are_told_as_what_keeps_the_hub_from_more() {
        let options = RunOptions::default();
        let found = machine(&options, &result(), cores(950, 31)).unwrap();
        assert_eq!(
            found.words,
            "hub and load generator shared 2 cores, idle for 3.1 % of the time; the hub's threads spent 31.0 % of their busy \
             time waiting for a core, the generator's 12.0 %: on a machine of its own the hub would reach more"
        );
        assert_eq!((found.shared, found.full, found.other_programs_share), (true, true, Some(0.05)));
        let spare = machine(&options, &result(), cores(850, 100)).unwrap();
        assert!(spare.shared && !spare.full && !spare.words.contains("more"), "{spare:?}");
        // What is not told is not guessed, nor what a container may have of its machine.
        assert_eq!(machine(&options, &result(), CoreTime::default()), None);
        let mut contained = result();
        contained.environment.cores = 1;
        assert_eq!(machine(&options, &contained, cores(950, 31)), None);
    }

    #[test]
    fn what_else_runs_on_the_machine_is_told() {
        let found = machine(&RunOptions::default(), &result(), cores(1_000, 0)).unwrap();
        assert!(found.words.contains("; other programs took 10.0 % of the cores' time"), "{found:?}");
        // A hub on this machine whose process is not known is no other program.
        let mut unknown = result();
        unknown.processes.remove(0);
        let found = machine(&target("http://127.0.0.1:4000", None), &unknown, cores(1_000, 0)).unwrap();
        assert_eq!((found.shared, found.other_programs_share), (true, None));
        // Nor is another generator.
        let options = RunOptions { role: Role::Load, ..RunOptions::default() };
        assert_eq!(machine(&options, &result(), cores(1_000, 0)).unwrap().other_programs_share, None);
    }

    #[test]
    fn a_hub_elsewhere_shares_nothing() {
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
}
