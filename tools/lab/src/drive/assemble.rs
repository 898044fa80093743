//! Assembles the result of a run from its measurements.

use upesi_types::Timestamp;

use crate::drive::session::Run;
use crate::drive::subject::Subject;
use crate::judge::audit::{Evidence, audit};
use crate::judge::thresholds::thresholds;
use crate::judge::validity::judge;
use crate::observe::hub_metrics;
use crate::observe::machine::machine;
use crate::observe::tally::Tally;
use crate::observe::tally_results::schedule;
use crate::observe::timeline::Timeline;
use crate::plan::load_profile::{Load, ParallelLoad};
use crate::plan::options::RunOptions;
use crate::result::environment::{Environment, TargetRecord, durability};
use crate::result::exchanges::GeneratorCounts;
use crate::result::latency::{LatencyMs, Phases};
use crate::result::load::LoadResult;
use crate::result::schema::{HistogramResult, ProcessRow, StageResult, WindowResult};
use crate::result::{LabResult, OptionsEcho, SCHEMA_VERSION};
use crate::statistics::{per_second, ratio, rounded};

impl Run<'_> {
    pub(crate) fn result(
        &self,
        hub: &Subject,
        baselines: &[Subject],
        evidence: &Evidence,
        timeline: &Timeline,
        target: String,
        started_at: Timestamp,
    ) -> LabResult {
        let hub_throughput = hub.throughput();
        let mut compared = baselines.iter().map(|baseline| baseline.as_baseline(hub_throughput));
        let baseline = compared.next();
        let scenario = self.options.scenario;
        let audit = audit(evidence).with_answers(&self.answers(hub), self.options.moves_money());
        let phases = self.options.phases();
        let identity = &self.options.identity;
        let mut result = LabResult {
            schema_version: SCHEMA_VERSION,
            name: identity.name.clone().unwrap_or_else(|| scenario.name().to_owned()),
            title: identity.title.clone(),
            description: identity.description.clone(),
            kind: "end-to-end".into(),
            unit: scenario.operation().into(),
            parameters: identity.parameters.clone(),
            scenario: scenario.name().into(),
            environment: self.environment(started_at),
            options: OptionsEcho::of(self.options),
            seed: self.options.seed,
            target,
            completed: hub.tally.completed,
            failed: hub.tally.failed,
            lost: audit.lost,
            late: phases.iter().map(|phase| hub.tally.exchanges(*phase).late).sum(),
            originated: originated(hub),
            loads: loads_of(self.options, hub),
            throughput_per_s: rounded(hub_throughput, 1),
            latency_ms: LatencyMs::of(&hub.tally.latency),
            phases: Phases::of(&phases, &hub.tally),
            http_ms: LatencyMs::of(&hub.tally.waits),
            refusals: hub.tally.refusals.len(),
            refusal_ms: LatencyMs::of(&hub.tally.refusals),
            schedule: schedule(self.options, &hub.tally),
            hub: hub.process(),
            lab: hub.lab(),
            durable: self.options.durable(),
            ratio: baseline.as_ref().and_then(|baseline| baseline.ratio),
            baseline,
            more_baselines: compared.collect(),
            slices: hub.slices.clone(),
            simulators: evidence.counters,
            settlement: evidence.settlement,
            audit,
            load_began_at: timeline.began_at.map(|at| at.to_string()),
            timeline: Some(timeline.result()),
            histogram: Some(HistogramResult::recorded(&hub.tally, &phases, self.options.load.is_open())),
            stages: stages(hub, timeline),
            processes: process_rows(hub, baselines),
            window: self.window(hub),
            repetitions: hub.slices.iter().map(|slice| slice.throughput_per_s).collect(),
            ..LabResult::new()
        };
        result.machine = machine(self.options, &result, hub.cores);
        result.validity = judge(self.options, &result);
        result.thresholds = Some(thresholds(self.options, &result));
        result.targets = identity.targets.iter().map(|target| target.check(&result)).collect();
        result
    }

    fn environment(&self, started_at: Timestamp) -> Environment {
        let directory = self.options.out.clone().unwrap_or_else(std::env::temp_dir);
        let mut environment =
            Environment::detect(self.options.commit.clone(), started_at.to_string(), &directory);
        environment.durability = self.options.durable().map(|durable| durability(durable).to_owned());
        environment.hub = self.options.target.as_ref().map(TargetRecord::of);
        environment
    }

    fn window(&self, hub: &Subject) -> WindowResult {
        WindowResult {
            trimmed_start_s: self.options.warm_up.as_secs_f64(),
            trimmed_end_s: self.options.cool_down.as_secs_f64(),
            seconds: self.options.duration.as_secs_f64(),
            stolen_share: hub.cores.stolen_share(),
            idle_share: hub.cores.idle_share(),
        }
    }
}

/// The hub's stages, and its kinds of threads with their shares of its CPU.
fn stages(hub: &Subject, timeline: &Timeline) -> Vec<StageResult> {
    let mut stages = hub_metrics::stages(&hub.metrics, hub.measured.as_secs_f64(), &timeline.queues());
    let threads = hub.together().unwrap_or_default().detail.threads;
    let all: f64 = threads.values().map(std::time::Duration::as_secs_f64).sum();
    for (kind, cpu) in &threads {
        let Some(share) = ratio(cpu.as_secs_f64(), all).map(|share| rounded(share, 4)) else { continue };
        if share <= 0.0 {
            continue;
        }
        match stages.iter_mut().find(|stage| stage.stage == *kind) {
            Some(stage) => stage.cpu_share = Some(share),
            None => stages.push(StageResult {
                stage: format!("threads: {kind}"),
                cpu_share: Some(share),
                ..StageResult::default()
            }),
        }
    }
    stages
}

/// The hub, the lab while it drove the hub, and the baselines that are processes.
fn process_rows(hub: &Subject, baselines: &[Subject]) -> Vec<ProcessRow> {
    let mut rows = hub.process_rows();
    let of_baselines = baselines.iter().flat_map(Subject::process_rows);
    rows.extend(of_baselines.filter(|row| row.name != "lab"));
    rows
}

/// The responses to the first requests of all operations.
fn originated(subject: &Subject) -> GeneratorCounts {
    let mut sum = GeneratorCounts::default();
    for (generator, tally) in subject.generators.iter().zip(&subject.tallies) {
        let Some(first) = generator.scenario.phases().first() else { continue };
        sum += tally.exchanges(*first).originated;
    }
    sum
}

/// The result of each load, if there are several.
fn loads_of(options: &RunOptions, subject: &Subject) -> Vec<LoadResult> {
    let Load::Parallel { loads } = &options.load else { return Vec::new() };
    let result = |(part, tally): (&ParallelLoad, &Tally)| LoadResult {
        operation: part.operation,
        load: part.load.clone(),
        completed: tally.completed,
        failed: tally.failed,
        throughput_per_s: rounded(per_second(tally.completed, options.duration), 1),
        latency_ms: LatencyMs::of(&tally.latency),
        phases: Phases::of(part.operation.phases(), tally),
        schedule: schedule(options, tally),
    };
    loads.iter().zip(&subject.tallies).map(result).collect()
}
