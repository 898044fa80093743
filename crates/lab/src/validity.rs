//! Whether a run's figures count: the gates that a run must pass beside its audit.
#![expect(clippy::float_arithmetic, reason = "ratios of counts; no money")]

use upesi_sim::Flavour;

use crate::cores::taken;
use crate::measured::{MachineResult, ProcessRow, StageResult, Validity};
use crate::options::RunOptions;
use crate::result::{LabResult, ScheduleResult};
use crate::scenario::Scenario;
use crate::thresholds::fails_on_purpose;

/// How far the ratios between stages may be from what they should be: 2 %, as in the validity gate of published runs.
const RATIO_TOLERANCE: f64 = 0.02;
/// The load generator's threads must be idle for a tenth of the time, or it may be what limits the run.
const GENERATOR_BUSY_MAX: f64 = 0.9;
/// Programs that have no part in the run may take a quarter of the cores before its figures say more about them.
const OTHERS_SHARE_MAX: f64 = 0.25;
/// The setting that sends payees a copy of their own answer: one more notification for each transfer.
const PAYEE_CONFIRMATION: &str = "--set=hub.payee_confirmation=";
/// In a closed loop nothing completes while nothing is sent; a run of fewer operations tells nothing about percentiles.
const OPERATIONS_MIN: u64 = 100;

/// What speaks against a result.
pub(crate) fn judge(options: &RunOptions, result: &LabResult) -> Validity {
    let mut findings = Vec::new();
    if !result.audit.ok {
        findings.push("the audit does not hold: see its findings".to_owned());
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
    let lab = result.processes.iter().find(|process| process.name == "lab");
    findings.extend(lab.and_then(|lab| saturation(lab, options.worker_count())));
    findings.extend(result.machine.as_ref().and_then(disturbed));
    let is_ceiling = options.alone.is_some();
    findings
        .extend(result.machine.as_ref().filter(|_| !is_ceiling && !options.load.is_open()).and_then(crowded));
    if options.scenario == Scenario::Transfers && behaves_well(options) {
        findings.extend(ratios(options, &result.stages));
    }
    Validity::of(findings)
}

fn schedule_findings(schedule: &ScheduleResult, machine: Option<&MachineResult>) -> Vec<String> {
    let mut findings = Vec::new();
    if schedule.skipped > 0 {
        findings.push(format!(
            "the load generator skipped {} arrivals, because as many operations as allowed were without outcome",
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

/// In a closed loop a generator that gets no core asks for less, and nothing else would tell. Where it shares the cores with the
/// hub they are what limits both, and that is a condition of the run: see docs/lab/README.md.
fn crowded(machine: &MachineResult) -> Option<String> {
    (machine.full && !machine.shared).then(|| {
        "the cores of the load generator's machine were full: it may be the limit; give it more cores or use several \
         generators (or, if the hub runs there too, give its --target-pid)"
            .to_owned()
    })
}

/// Whether something disturbed the run that may be gone at a second try: the generator lagged, or other programs took the cores.
pub(crate) fn was_disturbed(result: &LabResult) -> bool {
    result.schedule.is_some_and(|schedule| !schedule.valid)
        || result.machine.as_ref().and_then(disturbed).is_some()
}

/// Full cores that hub and generator share are theirs; what programs took that have no part in the run is in no figure.
fn disturbed(machine: &MachineResult) -> Option<String> {
    let share = machine.other_programs_share.filter(|share| *share > OTHERS_SHARE_MAX)?;
    Some(format!(
        "other programs {}: the figures are of what they left; stop them and measure again",
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

/// Whether no fault changes how often a stage is gone through.
fn behaves_well(options: &RunOptions) -> bool {
    !fails_on_purpose(options) && options.behaviour.duplicate_per_mille == 0
}

fn ratios(options: &RunOptions, stages: &[StageResult]) -> Vec<String> {
    let operations =
        |name: &str| stages.iter().find(|stage| stage.stage == name).map(|stage| stage.operations as f64);
    let Some(prepares) = operations("prepare").filter(|prepares| *prepares > 0.0) else { return Vec::new() };
    let mut findings = Vec::new();
    for (stage, wanted) in [("fulfil", &[1.0][..]), ("notification", notifications(options))] {
        let Some(count) = operations(stage) else { continue };
        let fits = |wanted: &f64| {
            // What is under way at either end of the window is on one side of the ratio only.
            let under_way = options.load.outstanding_max() as f64 * wanted;
            (count - prepares * wanted).abs() <= prepares * wanted * RATIO_TOLERANCE + under_way
        };
        if !wanted.iter().any(fits) {
            let wanted = wanted.iter().map(|wanted| format!("{wanted:.0}")).collect::<Vec<_>>().join(" or ");
            let ratio = count / prepares;
            findings.push(format!(
                "{ratio:.3} {stage}s per prepare instead of {wanted}: the window is not steady"
            ));
        }
    }
    findings
}

/// How many notifications a transfer may have: the prepare to the payee and the outcome to the payer, and in some schemes a
/// third, to the payee again.
fn notifications(options: &RunOptions) -> &'static [f64] {
    let confirmation =
        options.hub_arguments.iter().rev().find_map(|set| set.strip_prefix(PAYEE_CONFIRMATION));
    // The PATCH to a payee that waits for it is sent by every hub.
    if options.behaviour.flavour == Flavour::Reserved || confirmation == Some("true") {
        &[3.0]
    } else if options.target.is_some() {
        // How a hub is set up that was running before is not known.
        &[2.0, 3.0]
    } else {
        &[2.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Baseline;
    use crate::shape::Load;

    fn stage(name: &str, operations: u64) -> StageResult {
        StageResult { stage: name.to_owned(), operations, ..StageResult::default() }
    }

    fn good() -> LabResult {
        LabResult {
            completed: 10_000,
            stages: vec![stage("prepare", 10_000), stage("fulfil", 9_990), stage("notification", 20_100)],
            processes: vec![ProcessRow { name: "lab".to_owned(), cores: Some(1.0), ..ProcessRow::default() }],
            ..LabResult::default()
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
    fn each_gate_is_named_when_it_is_not_passed() {
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
    fn full_cores_speak_against_a_generator_that_has_them_alone_and_keeps_no_schedule() {
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
        // The ceiling of the generator is meant to be its own limit, and an open loop tells by its lag.
        let alone = RunOptions { alone: Some(Baseline::SimsOnly), ..RunOptions::default() };
        assert_eq!(judged(&alone, None), Vec::<String>::new());
        let load = Load::Open { rate_per_s: 100, outstanding_max: 1_000 };
        let open = RunOptions { load, ..RunOptions::default() };
        let lag = |lag_ms_p99| Some(ScheduleResult { lag_ms_p99, ..ScheduleResult::default() });
        assert_eq!(judged(&open, lag(9.0)), Vec::<String>::new());
        assert!(judged(&open, lag(11.0))[0].ends_with("11 ms late; the machine's cores were full"));
    }

    #[test]
    fn programs_without_a_part_in_the_run_may_not_take_much() {
        for (share, counts) in [(None, true), (Some(0.25), true), (Some(0.8), false)] {
            let other =
                MachineResult { shared: true, other_programs_share: share, ..MachineResult::default() };
            let findings = findings(|result| result.machine = Some(other));
            assert_eq!(findings.is_empty(), counts, "{findings:?}");
            assert!(findings.iter().all(|finding| finding.starts_with("other programs took 80.0 %")));
        }
    }

    #[test]
    fn payees_that_are_told_the_outcome_are_a_third_notification() {
        let reserved = |options: &mut RunOptions| options.behaviour.flavour = Flavour::Reserved;
        let confirmed = |options: &mut RunOptions| {
            options.hub_arguments = vec!["--set=hub.payee_confirmation=true".to_owned()];
        };
        let unconfirmed = |options: &mut RunOptions| {
            options.hub_arguments =
                ["true", "false"].map(|flag| format!("--set=hub.payee_confirmation={flag}")).to_vec();
        };
        let target = |options: &mut RunOptions| {
            let url = "http://127.0.0.1:1";
            options.target = Some(crate::target_hub::TargetHub::at(url, url));
        };
        type Change = fn(&mut RunOptions);
        for (change, notifications, valid) in [
            (reserved as Change, 30_000, true),
            (reserved, 20_000, false),
            (confirmed, 30_010, true),
            (confirmed, 20_000, false),
            (unconfirmed, 20_000, true),
            (unconfirmed, 30_000, false),
            (target, 20_000, true),
            (target, 30_000, true),
            (target, 25_000, false),
        ] {
            let mut options = RunOptions::default();
            change(&mut options);
            let mut result = good();
            result.stages[2].operations = notifications;
            let judged = judge(&options, &result);
            assert_eq!(judged.valid, valid, "{notifications}: {:?}", judged.findings);
        }
    }

    #[test]
    fn faults_and_missing_metrics_excuse_the_ratios() {
        let mut options = RunOptions::default();
        let mut result = good();
        result.stages.truncate(1);
        assert!(judge(&options, &result).valid);
        result.stages = vec![stage("prepare", 10_000), stage("fulfil", 5_000)];
        assert!(!judge(&options, &result).valid);
        options.behaviour.abort_per_mille = 500;
        assert!(judge(&options, &result).valid);
    }
}
