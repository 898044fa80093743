//! Merges the recordings of several load generators that drove the same hub at the same time into one result.
//!
//! A result holds its generator's recordings: counters, histograms and the seconds of the run. Merging adds the
//! recordings. The figures are then computed from the sums, by the same functions as for one generator.
#![expect(clippy::float_arithmetic, reason = "rates and times of measurements; no money")]

#[path = "merge_seconds.rs"]
mod seconds;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use serde_json::{Value, json};
use upesi_sim::Phase;
use upesi_types::Timestamp;

use crate::judge::soak;
use crate::judge::thresholds::together;
use crate::observe::tally::Tally;
use crate::plan::load_profile::{Load, ParallelLoad, Stage};
use crate::plan::scenario::phase_name;
use crate::plan::targets::{Target, TargetKind};
use crate::result::audit::{AnswerCheck, AuditSummary};
use crate::result::file::{FileError, read_result};
use crate::result::latency::{LatencyMs, Phases, add, read_histogram};
use crate::result::schema::{HistogramResult, ProcessRow, Validity};
use crate::result::{LabResult, ProcessResult, ScheduleResult, SliceResult};
use crate::statistics::{median, ratio, rounded};

/// Members that must be equal in all results.
const SAME: [&str; 12] = [
    "/schema_version",
    "/kind",
    "/unit",
    "/scenario",
    "/options/scenario",
    "/options/duration_s",
    "/options/warm_up_s",
    "/options/cool_down_s",
    "/options/slices",
    "/options/security",
    "/timeline/interval_s",
    "/window/seconds",
];
/// Members that are left out if they differ. `differs_in` names them.
const AGREED: [&str; 22] = [
    "/name",
    "/title",
    "/description",
    "/parameters",
    "/environment/version",
    "/environment/build",
    "/environment/commit",
    "/environment/durability",
    "/options/parties",
    "/options/existing_transfers",
    "/options/fxps",
    "/options/payees_convert",
    "/options/bulk_items",
    "/options/settlement",
    "/options/amount",
    "/options/currency",
    "/options/unidirectional",
    "/options/pairs",
    "/options/hub_arguments",
    "/options/behaviour",
    "/options/trace",
    "/seed",
];
/// Members of a single generator's result. `generators` repeats some of them.
const OF_ONE: [&str; 13] = [
    "/http_ms",
    "/settlement",
    "/environment/hub",
    "/options/instance",
    "/options/baselines",
    "/baseline",
    "/ratio",
    "/more_baselines",
    "/repeated",
    "/loads",
    "/machine",
    "/window/idle_share",
    "/breakpoint",
];
/// Members of the environment that describe the machine: they are taken from the generator beside the hub.
const OF_MACHINE: [&str; 5] = ["cores", "cpu", "memory_mb", "kernel", "storage"];
/// Members of each generator's own result that `generators` repeats.
const OF_EACH: [&str; 15] = [
    "environment",
    "options",
    "load_began_at",
    "seed",
    "target",
    "completed",
    "failed",
    "throughput_per_s",
    "latency_ms",
    "http_ms",
    "schedule",
    "window",
    "machine",
    "validity",
    "loads",
];

/// Results that cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    #[error("give two or more results, each from a load generator of its own")]
    TooFew,
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{path} is not a result of this lab: {reason}")]
    NoResult { path: PathBuf, reason: String },
    #[error("{path} differs from the first result in {member}: they cannot be added up")]
    Different { path: PathBuf, member: &'static str },
    #[error("{path} cannot be merged: {reason}")]
    NotShared { path: PathBuf, reason: &'static str },
}

struct Recording {
    path: PathBuf,
    name: String,
    value: Value,
    result: LabResult,
    tally: Tally,
    /// Start of its load, in milliseconds since 1970.
    began_ms: Option<i64>,
}

/// Merges the results in directories (or of files). docs/lab/result.md describes the treatment of each member. Fails if
/// one cannot be read, or if their subjects differ.
pub fn merge(paths: &[PathBuf]) -> Result<Value, MergeError> {
    let mut all = paths.iter().map(|path| Recording::read(path)).collect::<Result<Vec<_>, _>>()?;
    if all.len() < 2 {
        return Err(MergeError::TooFew);
    }
    name_apart(&mut all);
    note_beginnings(&mut all);
    let load = check(&all)?;
    let beside = all.iter().find(|one| one.result.hub.is_some());
    let has_stages = |one: &&Recording| !one.result.stages.is_empty();
    let watching = beside.filter(has_stages).or_else(|| all.iter().find(has_stages));
    let merged = sum(&all, load, beside, watching);
    let mut value = serde_json::from_str(&merged.to_json()).unwrap_or_default();
    let differing = AGREED.into_iter().filter(|member| !agree(&all, member)).collect::<Vec<_>>();
    for member in differing.iter().chain(&OF_ONE) {
        remove(&mut value, member);
    }
    if beside.is_none() {
        OF_MACHINE.iter().for_each(|member| remove(&mut value, &format!("/environment/{member}")));
    }
    value["differs_in"] = differing.into();
    value["merged_from"] = all.len().into();
    value["generators"] = all.iter().map(Recording::summary).collect();
    let name = |one: Option<&Recording>| one.map(|one| one.name.clone());
    value["measured_by"] = json!({ "hub": name(beside), "stages": name(watching) });
    Ok(value)
}

impl Recording {
    fn read(given: &Path) -> Result<Self, MergeError> {
        let path = if given.is_dir() { given.join("result.json") } else { given.to_owned() };
        let value = read_result(&path)?;
        let no_result = |reason: String| MergeError::NoResult { path: path.clone(), reason };
        let result = LabResult::deserialize(&value).map_err(|error| no_result(error.to_string()))?;
        let tally = tally(&result).map_err(|what| no_result(format!("its histogram {what} is missing")))?;
        let name = match result.options.instance {
            Some(instance) => format!("instance {instance}"),
            None => given.display().to_string(),
        };
        Ok(Self { path, name, value, result, tally, began_ms: None })
    }

    /// The members of this generator's result that are repeated.
    fn summary(&self) -> Value {
        let members = OF_EACH.iter().map(|&member| (member.to_owned(), self.value[member].clone()));
        members
            .chain([("name".to_owned(), self.name.clone().into())])
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    /// CPU per operation of this generator, converted to operations of all generators.
    fn cpu_of_all(&self, cpu_us: Option<f64>, completed: u64) -> Option<f64> {
        ratio(cpu_us? * self.result.completed as f64, completed as f64).map(|cpu| rounded(cpu, 1))
    }

    fn process(&self, process: &ProcessResult, completed: u64) -> ProcessResult {
        ProcessResult {
            cpu_us_per_operation: self.cpu_of_all(process.cpu_us_per_operation, completed),
            cpu_us_per_transfer: self.cpu_of_all(process.cpu_us_per_transfer, completed),
            ..*process
        }
    }

    fn processes(&self, completed: u64, wanted: impl Fn(&str) -> bool) -> Vec<ProcessRow> {
        let rows = self.result.processes.iter().filter(|row| wanted(&row.name));
        let cpu = |row: &ProcessRow| self.cpu_of_all(row.cpu_us_per_operation, completed);
        rows.map(|row| ProcessRow { cpu_us_per_operation: cpu(row), ..row.clone() }).collect()
    }
}

/// Reads a generator's counts from its result. Fails with the name of a missing histogram.
fn tally(result: &LabResult) -> Result<Tally, String> {
    let histograms = result.histogram.as_ref().ok_or("of latency")?;
    let into = |sum: &mut _, text: Option<&String>, what: &str| -> Result<(), String> {
        add(sum, &text.and_then(|text| read_histogram(text)).ok_or(what)?);
        Ok(())
    };
    let mut tally = Tally { completed: result.completed, failed: result.failed, ..Tally::default() };
    into(&mut tally.latency, Some(&histograms.v2_deflate_base64), "of latency")?;
    if let Some(schedule) = &result.schedule {
        tally.skipped = schedule.skipped;
        into(&mut tally.lag, histograms.schedule_lag.as_ref(), "of lag")?;
    }
    let phases: Vec<Phase> =
        Phase::ALL.into_iter().filter(|phase| result.phases.get(*phase).is_some()).collect();
    for &phase in &phases {
        let place = &mut tally.phases[phase as usize];
        place.exchanges = result.phases.get(phase).unwrap_or_default().exchanges;
        // With one phase only, its latencies equal the latencies of the whole operation.
        let alone = (phases.len() == 1).then_some(&histograms.v2_deflate_base64);
        into(&mut place.latency, alone.or_else(|| histograms.phases.get(phase_name(phase))), "of a phase")?;
    }
    Ok(tally)
}

/// Checks that the results may be added. Returns the load of all together.
fn check(all: &[Recording]) -> Result<Load, MergeError> {
    for one in all {
        let refused = |reason| MergeError::NotShared { path: one.path.clone(), reason };
        if one.result.kind == "isolated" {
            return Err(refused("it measures one stage, which has a single load generator"));
        }
        if one.result.breakpoint.is_some() {
            return Err(refused(
                "it is a breakpoint search, which changes the load by itself: run the rate that it found from all \
                 generators, and merge these results",
            ));
        }
        let differs = |member: &&str| one.value.pointer(member) != all[0].value.pointer(member);
        if let Some(member) = SAME.into_iter().find(differs) {
            return Err(MergeError::Different { path: one.path.clone(), member });
        }
    }
    let mut load = all[0].result.options.load.clone();
    for one in &all[1..] {
        let different = || MergeError::Different { path: one.path.clone(), member: "/options/load" };
        load = plus(&load, &one.result.options.load).ok_or_else(different)?;
    }
    Ok(load)
}

/// The sum of two loads; `None` if their shapes differ: one open and one closed, or stages of other lengths.
fn plus(one: &Load, other: &Load) -> Option<Load> {
    let staged = |one: &[Stage], other: &[Stage]| {
        let same = one.iter().map(|stage| stage.length).eq(other.iter().map(|stage| stage.length));
        let sum = |(one, other): (&Stage, &Stage)| Stage { level: one.level + other.level, ..*one };
        same.then(|| one.iter().zip(other).map(sum).collect::<Vec<_>>())
    };
    Some(match (one, other) {
        (Load::Closed { users }, Load::Closed { users: more }) => Load::Closed { users: users + more },
        (Load::RampingUsers { start, stages }, Load::RampingUsers { start: more, stages: others }) => {
            Load::RampingUsers { start: start + more, stages: staged(stages, others)? }
        }
        (
            Load::Open { rate_per_s, outstanding_max },
            Load::Open { rate_per_s: more, outstanding_max: outstanding },
        ) => Load::Open { rate_per_s: rate_per_s + more, outstanding_max: outstanding_max + outstanding },
        (
            Load::Arrivals { start_per_s, stages, poisson, outstanding_max },
            Load::Arrivals {
                start_per_s: more,
                stages: others,
                poisson: random,
                outstanding_max: outstanding,
            },
        ) if poisson == random => Load::Arrivals {
            start_per_s: start_per_s + more,
            stages: staged(stages, others)?,
            poisson: *poisson,
            outstanding_max: outstanding_max + outstanding,
        },
        (Load::Parallel { loads }, Load::Parallel { loads: others }) if loads.len() == others.len() => {
            let sum = |(one, other): (&ParallelLoad, &ParallelLoad)| {
                let load = plus(&one.load, &other.load).filter(|_| one.operation == other.operation)?;
                Some(ParallelLoad { operation: one.operation, load })
            };
            Load::Parallel { loads: loads.iter().zip(others).map(sum).collect::<Option<_>>()? }
        }
        _ => return None,
    })
}

/// Adds the recordings and judges them as one run.
fn sum(all: &[Recording], load: Load, beside: Option<&Recording>, watching: Option<&Recording>) -> LabResult {
    let results = || all.iter().map(|one| &one.result);
    let mut tally = Tally::default();
    all.iter().for_each(|one| tally.add(&one.tally));
    let phases: Vec<Phase> = Phase::ALL
        .into_iter()
        .filter(|phase| results().any(|one| one.phases.get(*phase).is_some()))
        .collect();
    let schedules: Vec<ScheduleResult> = results().filter_map(|one| one.schedule).collect();
    let mut merged = all[0].result.clone();
    merged.options.load = load;
    merged.options.dfsps = results().map(|one| one.options.dfsps).sum();
    merged.options.workers = results().map(|one| one.options.workers).sum();
    if let Some(beside) = beside {
        merged.environment = beside.result.environment.clone();
    }
    merged.environment.started_at =
        results().map(|one| one.environment.started_at.clone()).min().unwrap_or_default();
    merged.load_began_at = results().filter_map(|one| one.load_began_at.clone()).min();
    let mut targets: Vec<&str> = Vec::new();
    for target in results().map(|one| one.target.as_str()) {
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    merged.target = targets.join(", ");
    merged.durable = all[0].result.durable.filter(|_| agree(all, "/durable"));
    merged.completed = tally.completed;
    merged.failed = tally.failed;
    merged.lost = results().map(|one| one.lost).sum();
    merged.late = results().map(|one| one.late).sum();
    for other in results().skip(1) {
        merged.simulators += other.simulators;
        merged.originated += other.originated;
    }
    slices(&mut merged, all);
    merged.latency_ms = LatencyMs::of(&tally.latency);
    merged.phases = Phases::of(&phases, &tally);
    merged.histogram = Some(HistogramResult::recorded(&tally, &phases, !schedules.is_empty()));
    merged.schedule = (!schedules.is_empty()).then(|| ScheduleResult {
        // Each generator had its own schedule.
        valid: schedules.iter().all(|schedule| schedule.valid),
        due: schedules.iter().map(|schedule| schedule.due).sum(),
        ..ScheduleResult::of(&tally)
    });
    processes(&mut merged, all, beside);
    merged.stages = watching.map(|one| one.result.stages.clone()).unwrap_or_default();
    merged.audit = audit(all);
    seconds::merge(&mut merged, all, beside, watching);
    merged.window.stolen_share = results().filter_map(|one| one.window.stolen_share).max_by(f64::total_cmp);
    let doubts = twice(all).into_iter().chain(apart(all));
    let findings = findings(all, |result| &result.validity.findings).chain(doubts).collect::<Vec<_>>();
    merged.validity =
        Validity { valid: findings.is_empty() && results().all(|one| one.validity.valid), findings };
    merged.thresholds =
        together(results().filter_map(|one| one.thresholds.clone()).collect::<Vec<_>>().iter());
    merged.targets =
        TargetKind::ALL.into_iter().filter_map(|kind| Some(target(all, kind)?.check(&merged))).collect();
    merged.drift = results().all(|one| one.drift.is_some()).then(|| soak::judge(&merged));
    merged
}

/// Slices and repetitions ran at the same time, so their completed operations are added.
fn slices(merged: &mut LabResult, all: &[Recording]) {
    let others = || all[1..].iter().map(|one| &one.result);
    for other in others() {
        let slices = merged.slices.iter().zip(&other.slices).map(|(one, other)| SliceResult {
            completed: one.completed + other.completed,
            throughput_per_s: rounded(one.throughput_per_s + other.throughput_per_s, 1),
            ..*one
        });
        merged.slices = slices.collect();
        let repetitions = merged.repetitions.iter().zip(&other.repetitions);
        merged.repetitions = repetitions.map(|(one, other)| rounded(one + other, 1)).collect();
        merged.throughput_per_s += other.throughput_per_s;
    }
    let throughput = median(merged.repetitions.iter().copied()).unwrap_or(merged.throughput_per_s);
    merged.throughput_per_s = rounded(throughput, 1);
}

/// The hub as measured by the generator on its machine, and each generator by its name.
fn processes(merged: &mut LabResult, all: &[Recording], beside: Option<&Recording>) {
    let completed = merged.completed;
    merged.hub = beside.and_then(|one| Some(one.process(one.result.hub.as_ref()?, completed)));
    let labs: Vec<ProcessResult> = all.iter().map(|one| one.process(&one.result.lab, completed)).collect();
    let total = |of: fn(&ProcessResult) -> Option<f64>| {
        labs.iter().filter_map(of).reduce(|one, other| one + other).map(|sum| rounded(sum, 2))
    };
    merged.lab = ProcessResult {
        cpu_us_per_operation: total(|lab| lab.cpu_us_per_operation),
        cpu_us_per_transfer: total(|lab| lab.cpu_us_per_transfer),
        cores: total(|lab| lab.cores),
        rss_mb: total(|lab| Some(lab.rss_mb)).unwrap_or(0.0),
        rss_peak_mb: total(|lab| Some(lab.rss_peak_mb)).unwrap_or(0.0),
    };
    let is_hub = |name: &str| name == "hub" || name.starts_with("hub, ");
    merged.processes = beside.map(|one| one.processes(completed, is_hub)).unwrap_or_default();
    for one in all {
        let labs = one.processes(completed, |name| name == "lab").into_iter();
        merged.processes.extend(labs.map(|row| ProcessRow { name: format!("lab, {}", one.name), ..row }));
    }
}

fn audit(all: &[Recording]) -> AuditSummary {
    let audits = || all.iter().map(|one| &one.result.audit);
    let sum = |count: fn(&AuditSummary) -> u64| audits().map(count).sum();
    let is_true = |is: fn(&AuditSummary) -> bool| audits().all(is);
    let mut answers: Vec<AnswerCheck> = Vec::new();
    for answer in audits().flat_map(|audit| &audit.answers) {
        match answers.iter_mut().find(|known| known.phase == answer.phase) {
            Some(known) => *known += answer,
            None => answers.push(answer.clone()),
        }
    }
    AuditSummary {
        ok: is_true(|audit| audit.ok),
        performed: is_true(|audit| audit.performed),
        positions_ok: is_true(|audit| audit.positions_ok),
        sum_ok: is_true(|audit| audit.sum_ok),
        accepted: sum(|audit| audit.accepted),
        finished: sum(|audit| audit.finished),
        in_flight: sum(|audit| audit.in_flight),
        lost: sum(|audit| audit.lost),
        doubled: sum(|audit| audit.doubled),
        contradictions: sum(|audit| audit.contradictions),
        callbacks_repeated: sum(|audit| audit.callbacks_repeated),
        answers,
        positions: audits().flat_map(|audit| audit.positions.clone()).collect(),
        findings: findings(all, |result| &result.audit.findings).collect(),
    }
}

fn findings<'all>(
    all: &'all [Recording],
    of: fn(&LabResult) -> &[String],
) -> impl Iterator<Item = String> + 'all {
    all.iter().flat_map(move |one| of(&one.result).iter().map(|text| format!("{}: {text}", one.name)))
}

/// A target that all results have. Limits that are a share of the load applied to each generator's own part.
fn target(all: &[Recording], kind: TargetKind) -> Option<Target> {
    let limit =
        |one: &Recording| Some(one.result.targets.iter().find(|target| target.name == kind.key())?.limit);
    let limits = all.iter().map(limit).collect::<Option<Vec<f64>>>()?;
    let limit = match kind {
        TargetKind::Throughput | TargetKind::Lost => limits.into_iter().sum(),
        _ => limits.into_iter().fold(f64::INFINITY, f64::min),
    };
    Some(Target { kind, limit })
}

/// Finds DFSPs that are in more than one of the results.
fn twice(all: &[Recording]) -> Option<String> {
    let mut seen = BTreeSet::new();
    let names = all.iter().flat_map(|one| &one.result.audit.positions).map(|position| &position.participant);
    let twice: BTreeSet<&String> = names.filter(|name| !seen.insert(*name)).collect();
    let name = twice.first()?;
    Some(format!(
        "{} DFSPs, such as {name}, are in more than one of the results: give each generator its own --instance",
        twice.len()
    ))
}

/// Finds loads that did not run at the same time.
fn apart(all: &[Recording]) -> Option<String> {
    let starts = || all.iter().filter_map(|one| one.began_ms);
    let apart_ms = starts().max()? - starts().min()?;
    // Nothing is counted within the warm-up, and a tenth of the measured time hardly changes the sum.
    let options = &all[0].result.options;
    let allowed_ms = options.warm_up_s.max(options.duration_s / 10.0) * 1e3;
    (apart_ms as f64 > allowed_ms).then(|| {
        format!(
            "the generators began {apart_ms} ms apart, so that their loads overlap in part only: start them together, or \
             with a longer --warm-up"
        )
    })
}

/// Notes the start of each load. If a result lacks it, the starts of the runs are used for all results.
fn note_beginnings(all: &mut [Recording]) {
    let ms = |text: &str| Timestamp::parse_iso(text).map(|at| at.as_ms());
    let loads: Option<Vec<i64>> = all.iter().map(|one| ms(one.result.load_began_at.as_deref()?)).collect();
    let runs = || all.iter().map(|one| ms(&one.result.environment.started_at)).collect();
    let Some(began) = loads.or_else(runs) else { return };
    all.iter_mut().zip(began).for_each(|(one, at)| one.began_ms = Some(at));
}

/// Adds the name of the file to generators with equal names.
fn name_apart(all: &mut [Recording]) {
    let names: Vec<String> = all.iter().map(|one| one.name.clone()).collect();
    for one in all {
        if names.iter().filter(|name| **name == one.name).count() > 1 {
            one.name = format!("{} of {}", one.name, one.path.display());
        }
    }
}

fn agree(all: &[Recording], member: &str) -> bool {
    let mut values = all.iter().filter_map(|one| one.value.pointer(member)).filter(|value| !value.is_null());
    values.next().is_none_or(|first| values.all(|value| value == first))
}

/// Removes a member, if it exists.
fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, member)) = pointer.rsplit_once('/') else { return };
    if let Some(parent) = value.pointer_mut(parent).and_then(Value::as_object_mut) {
        parent.remove(member);
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
