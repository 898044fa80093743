//! Whether a run's figures are valid: the gates that a run must pass in addition to its audit.
#![expect(clippy::float_arithmetic, reason = "shares of time; no money")]

mod stage_ratios;

use crate::observe::machine::taken;
use crate::plan::options::{Baseline, RunOptions};
use crate::result::schema::{MachineResult, ProcessRow, Validity};
use crate::result::{LabResult, ScheduleResult};

/// Maximum load of the load generator's threads. Above it, they may limit the run.
const GENERATOR_BUSY_MAX: f64 = 0.9;
/// Maximum share of the cores that programs outside the run may use. Above it, the figures are mostly about these
/// programs.
const OTHERS_SHARE_MAX: f64 = 0.25;
/// In a closed loop nothing completes while nothing is sent. A run with fewer operations has no meaningful percentiles.
const OPERATIONS_MIN: u64 = 100;

pub(crate) fn judge(options: &RunOptions, result: &LabResult) -> Validity {
    let mut findings = Vec::new();
    if !result.audit.ok {
        findings.push("the audit failed: see its findings".to_owned());
    }
    if let Some(schedule) = &result.schedule {
        findings.extend(schedule_findings(schedule, result.machine.as_ref()));
    }
    if result.completed < OPERATIONS_MIN {
        findings.push(format!(
            "only {} operations completed in the measured time: too few for percentiles, measure for longer",
            result.completed
        ));
    }
    // The limit of load generator and DFSPs alone is reached when they are busy all the time.
    let is_own_ceiling = options.alone == Some(Baseline::SimsOnly);
    let lab = result.processes.iter().find(|process| process.name == "lab" && !is_own_ceiling);
    findings.extend(lab.and_then(|lab| saturation(lab, options.worker_count())));
    findings.extend(result.machine.as_ref().and_then(disturbed));
    let is_ceiling = options.alone.is_some();
    findings
        .extend(result.machine.as_ref().filter(|_| !is_ceiling && !options.load.is_open()).and_then(crowded));
    findings.extend(stage_ratios::findings(options, result));
    Validity::of(findings)
}

fn schedule_findings(schedule: &ScheduleResult, machine: Option<&MachineResult>) -> Vec<String> {
    let mut findings = Vec::new();
    if schedule.skipped > 0 {
        findings.push(format!(
            "the load generator skipped {} arrivals, because the maximum number of operations had no outcome",
            schedule.skipped
        ));
    }
    if schedule.lag_ms_p99 > 10.0 {
        let full = machine.filter(|machine| machine.full);
        findings.push(format!(
            "the load generator lagged its schedule: 1 of 100 arrivals was sent more than {:.0} ms late{}",
            schedule.lag_ms_p99,
            full.map_or("", |_| "; the machine's cores were full")
        ));
    }
    findings
}

/// In a closed loop, a generator without a core sends less, and nothing else would show this. If it shares the cores
/// with the hub, the cores limit both, which is a condition of the run: see docs/lab/README.md.
fn crowded(machine: &MachineResult) -> Option<String> {
    (machine.full && !machine.shared).then(|| {
        "the cores of the load generator's machine were full: it may be the limit; give it more cores or use several \
         generators (or, if the hub runs there too, give its --target-pid)"
            .to_owned()
    })
}

/// Whether the run had a disturbance that a second run may not have: the generator lagged, or other programs used the
/// cores. A run whose audit failed shows a fault of the hub. It is not repeated until the fault disappears.
pub(crate) fn deserves_second_try(result: &LabResult) -> bool {
    let was_disturbed = result.schedule.is_some_and(|schedule| !schedule.valid)
        || result.machine.as_ref().and_then(disturbed).is_some();
    was_disturbed && result.audit.ok
}

/// The cores that hub and generator fill are a condition of the run. The share of programs outside the run appears in
/// no figure.
fn disturbed(machine: &MachineResult) -> Option<String> {
    let share = machine.other_programs_share.filter(|share| *share > OTHERS_SHARE_MAX)?;
    Some(format!(
        "other programs {}: the run had only the remaining time; stop them and measure again",
        taken(share)
    ))
}

fn saturation(lab: &ProcessRow, workers: usize) -> Option<String> {
    let busy = lab.cores? / workers as f64;
    (busy > GENERATOR_BUSY_MAX).then(|| {
        format!(
            "load generator and DFSPs kept their {workers} threads {:.0} % busy: they may be the limit; \
             give them more --workers or another machine",
            busy * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::load_profile::Load;
    use crate::result::schema::StageResult;

    fn stage(name: &str, operations: u64) -> StageResult {
        StageResult { stage: name.to_owned(), operations, ..StageResult::default() }
    }

    fn good() -> LabResult {
        LabResult {
            completed: 10_000,
            stages: vec![stage("prepare", 10_000), stage("fulfil", 9_990), stage("notification", 20_100)],
            processes: vec![ProcessRow { name: "lab".to_owned(), cores: Some(1.0), ..ProcessRow::default() }],
            ..LabResult::new()
        }
    }

    fn findings(change: impl FnOnce(&mut LabResult)) -> Vec<String> {
        let options =
            RunOptions { workers: Some(2), load: Load::Closed { users: 32 }, ..RunOptions::default() };
        let mut result = good();
        change(&mut result);
        judge(&options, &result).findings
    }

    #[test]
    fn failed_gate_is_named() {
        assert_eq!(findings(|_| ()), Vec::<String>::new());
        let schedule = ScheduleResult { lag_ms_p99: 14.0, skipped: 3, ..ScheduleResult::default() };
        type Change = Box<dyn FnOnce(&mut LabResult)>;
        let cases: [(&str, Change); 6] = [
            ("audit", Box::new(|result| result.audit.ok = false)),
            ("more than 14 ms late", Box::new(move |result| result.schedule = Some(schedule))),
            ("too few", Box::new(|result| result.completed = 99)),
            ("93 % busy", Box::new(|result| result.processes[0].cores = Some(1.86))),
            ("0.900 fulfils per prepare", Box::new(|result| result.stages[1].operations = 9_000)),
            ("1.900 notifications per prepare", Box::new(|result| result.stages[2].operations = 19_000)),
        ];
        for (text, change) in cases {
            let findings = findings(change);
            assert!(findings.iter().any(|finding| finding.contains(text)), "{text}: {findings:?}");
        }
    }

    #[test]
    fn full_cores_invalidate_a_closed_loop_that_does_not_share_them() {
        let machine = |shared, full| Some(MachineResult { shared, full, ..MachineResult::default() });
        let text = "cores of the load generator's machine were full";
        for (shared, full, counts) in
            [(false, true, false), (true, true, true), (false, false, true), (true, false, true)]
        {
            let findings = findings(|result| result.machine = machine(shared, full));
            assert_eq!(findings.is_empty(), counts, "{shared} {full}: {findings:?}");
            assert!(findings.iter().all(|finding| finding.contains(text)));
        }
        let judged = |options: &RunOptions, schedule| {
            judge(options, &LabResult { machine: machine(false, true), schedule, ..good() }).findings
        };
        // In an open loop, the lag shows that the generator is too slow.
        let load = Load::Open { rate_per_s: 100, outstanding_max: 1_000 };
        let open = RunOptions { load, ..RunOptions::default() };
        let lag = |lag_ms_p99| Some(ScheduleResult { lag_ms_p99, ..ScheduleResult::default() });
        assert_eq!(judged(&open, lag(9.0)), Vec::<String>::new());
        assert!(judged(&open, lag(11.0))[0].ends_with("11 ms late; the machine's cores were full"));
    }

    #[test]
    fn busy_generator_is_valid_only_if_its_own_limit_is_measured() {
        let load = Load::Closed { users: 32 };
        let busy = |alone| {
            let options = RunOptions { alone, workers: Some(2), load: load.clone(), ..RunOptions::default() };
            let mut result = good();
            result.processes[0].cores = Some(1.96);
            result.machine = Some(MachineResult { full: true, ..MachineResult::default() });
            judge(&options, &result).findings
        };
        // The limit of load generator and DFSPs is reached when all of their threads are busy.
        assert_eq!(busy(Some(Baseline::SimsOnly)), Vec::<String>::new());
        // The limit of the forwarder is not reached in that case.
        let forwarder = busy(Some(Baseline::Forwarder));
        assert!(forwarder.len() == 1 && forwarder[0].contains("98 % busy"), "{forwarder:?}");
        let hub = busy(None);
        assert!(hub.len() == 2 && hub[1].contains("cores of the load generator's machine"), "{hub:?}");
    }

    #[test]
    fn other_programs_above_the_limit_invalidate_the_run() {
        for (share, counts) in [(None, true), (Some(0.25), true), (Some(0.8), false)] {
            let other =
                MachineResult { shared: true, other_programs_share: share, ..MachineResult::default() };
            let findings = findings(|result| result.machine = Some(other));
            assert_eq!(findings.is_empty(), counts, "{findings:?}");
            assert!(findings.iter().all(|finding| finding.starts_with("other programs took 80.0 %")));
        }
    }
}
