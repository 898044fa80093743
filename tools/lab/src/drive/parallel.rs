//! Several loads at the same time: their generators, their schedules, and the result of each.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use upesi_http::Workers;
use upesi_sim::{Phase, mix};

use crate::drive::load::{self, Running, Window};
use crate::drive::operation::Generator;
use crate::drive::system::{Subject, schedule};
use crate::judge::audit::Originated;
use crate::observe::tally::Tally;
use crate::observe::timeline::Interval;
use crate::plan::load_profile::{Load, ParallelLoad};
use crate::plan::options::RunOptions;
use crate::plan::scenario::Scenario;
use crate::result::latency::{LatencyMs, Phases};
use crate::result::statistics::{per_second, rounded};
use crate::result::{OptionsEcho, ScheduleResult};

/// Maximum number of parallel loads.
pub(crate) const LOADS_MAX: usize = 8;

/// The result of one of several parallel loads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadResult {
    /// The kind of its operations.
    pub operation: Scenario,
    /// Its load shape.
    pub load: Load,
    /// Operations that completed in the measured time.
    pub completed: u64,
    /// Operations that began in it and did not complete.
    pub failed: u64,
    /// Completed operations per second, over all slices.
    pub throughput_per_s: f64,
    /// Latency of its operations.
    pub latency_ms: LatencyMs,
    /// Latency by phase.
    pub phases: Phases,
    /// Accuracy of its schedule.
    pub schedule: Option<ScheduleResult>,
}

impl LoadResult {
    /// A line for a terminal.
    pub(crate) fn words(&self) -> String {
        let latency = &self.latency_ms;
        format!(
            "{:.0}/s, {} failed, p50 {:.2} ms, p99 {:.2} ms ({})",
            self.throughput_per_s, self.failed, latency.p50, latency.p99, self.load
        )
    }
}

/// The kinds of operations: one, or one for each of several loads.
fn operations_of(scenario: Scenario, load: &Load) -> Vec<Scenario> {
    match load {
        Load::Parallel { loads } => loads.iter().map(|part| part.operation).collect(),
        _ => vec![scenario],
    }
}

/// The phases of any of these operations, in order.
pub(crate) fn phases_of(operations: impl IntoIterator<Item = Scenario>) -> Vec<Phase> {
    let all: Vec<&[Phase]> = operations.into_iter().map(Scenario::phases).collect();
    Phase::ALL.into_iter().filter(|phase| all.iter().any(|phases| phases.contains(phase))).collect()
}

impl RunOptions {
    /// The kinds of operations: one, or one for each of the parallel loads.
    pub fn operations(&self) -> Vec<Scenario> {
        operations_of(self.scenario, &self.load)
    }

    /// The phases of any operation, in order.
    pub fn phases(&self) -> Vec<Phase> {
        phases_of(self.operations())
    }

    /// Whether parties are looked up, so that a directory must know them.
    pub fn looks_up(&self) -> bool {
        self.operations().into_iter().any(Scenario::looks_up)
    }

    /// Whether FXPs convert, for payers or for payees.
    pub fn converts(&self) -> bool {
        self.payees_convert || self.payers_convert()
    }

    pub fn payers_convert(&self) -> bool {
        self.operations().into_iter().any(Scenario::converts)
    }

    pub fn has_bulks(&self) -> bool {
        self.operations().contains(&Scenario::Bulks)
    }

    /// Number of transfers in an operation that moves money.
    pub fn transfers_per_operation(&self) -> u64 {
        if self.scenario == Scenario::Bulks { self.bulk_items as u64 } else { 1 }
    }

    pub fn moves_money(&self) -> bool {
        self.operations().into_iter().any(Scenario::moves_money)
    }

    /// Whether there are several loads exactly if the scenario is parallel, and each is an open loop.
    pub(crate) fn is_parallel_right(&self) -> bool {
        let is_right = |part: &ParallelLoad| {
            let is_loop = matches!(part.load, Load::Open { .. } | Load::Arrivals { .. });
            is_loop
                && !matches!(part.operation, Scenario::Parallel | Scenario::Bulks)
                && part.load.rate_per_s_max() > Some(0)
        };
        match (&self.load, self.scenario) {
            (Load::Parallel { loads }, Scenario::Parallel) => {
                (2..=LOADS_MAX).contains(&loads.len()) && loads.iter().all(is_right)
            }
            (Load::Parallel { .. }, _) | (_, Scenario::Parallel) => false,
            _ => true,
        }
    }
}

impl OptionsEcho {
    pub(crate) fn moves_money(&self) -> bool {
        operations_of(self.scenario, &self.load).into_iter().any(Scenario::moves_money)
    }
}

/// The loads of one slice in progress: one, or several at the same time.
pub(crate) struct Loads(Vec<Running>);

impl Loads {
    /// Starts the loads, one for each generator, each with its own schedule.
    pub fn start(
        workers: &Arc<Workers>,
        generators: &[Arc<Generator>],
        load: &Load,
        seed: u64,
        window: Window,
    ) -> Self {
        let start = |(place, generator): (usize, &Arc<Generator>)| {
            let (load, seed) = match load {
                Load::Parallel { loads } => (&loads[place].load, schedule_seed(seed, place)),
                load => (load, seed),
            };
            load::start(workers, generator, load, seed, window)
        };
        Self(generators.iter().enumerate().map(start).collect())
    }

    /// Number of operations that have completed inside the window so far.
    pub fn completed(&self) -> u64 {
        self.0.iter().map(Running::completed).sum()
    }

    /// The counts since the last call.
    pub fn interval(&self) -> Interval {
        let mut sum = Interval::default();
        self.0.iter().for_each(|running| running.interval().drain_into(&mut sum));
        sum
    }

    /// Waits until every sent operation has ended or timed out. Returns the tally of each load.
    pub async fn finish(self) -> Vec<Tally> {
        let mut tallies = Vec::with_capacity(self.0.len());
        for running in self.0 {
            tallies.push(running.finish().await);
        }
        tallies
    }
}

/// The seed of a load's schedule. Random arrivals of parallel loads must not fall on the same moments.
const fn schedule_seed(seed: u64, place: usize) -> u64 {
    if place == 0 { seed } else { mix(seed ^ ((place as u64) << 32)) }
}

/// The answers to the first requests of all operations.
pub(crate) fn originated(subject: &Subject) -> Originated {
    let mut sum = Originated::default();
    for (generator, tally) in subject.generators.iter().zip(&subject.tallies) {
        let Some(first) = generator.scenario.phases().first() else { continue };
        sum += tally.exchanges(*first).originated;
    }
    sum
}

/// The result of each load, if there are several.
pub(crate) fn loads_of(options: &RunOptions, subject: &Subject) -> Vec<LoadResult> {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::plan::load_profile::Stage;
    use crate::plan::options::OptionsError;

    fn part(operation: Scenario, load: Load) -> ParallelLoad {
        ParallelLoad { operation, load }
    }

    fn open(rate_per_s: u32) -> Load {
        Load::Open { rate_per_s, outstanding_max: 10 }
    }

    fn options(loads: Vec<ParallelLoad>) -> RunOptions {
        RunOptions { scenario: Scenario::Parallel, load: Load::Parallel { loads }, ..RunOptions::default() }
    }

    #[test]
    fn several_loads_are_open_loops_and_what_they_are_made_of_adds_up() {
        let stages = vec![Stage { level: 70, length: Duration::from_secs(9) }];
        let ramp = Load::Arrivals { start_per_s: 5, stages, poisson: false, outstanding_max: 30 };
        let both = options(vec![part(Scenario::Lookups, open(20)), part(Scenario::Transfers, ramp)]);
        assert_eq!(both.validate(), Ok(()));
        assert_eq!(both.phases(), [Phase::Lookup, Phase::Transfer]);
        assert!(both.looks_up() && both.moves_money() && both.load.is_open());
        assert_eq!((both.load.outstanding_max(), both.load.rate_per_s_max()), (40, Some(90)));
        assert_eq!(both.load.stages_length(), Some(Duration::from_secs(9)));
        assert_eq!(both.load.to_string(), "lookups 20 arrivals/s + transfers 5 → 70 arrivals/s");
        let json = serde_json::to_value(&both.load).unwrap();
        assert_eq!(json["parallel"]["loads"][0]["operation"], "lookups");
        assert_eq!(json["parallel"]["loads"][1]["load"]["arrivals"]["start_per_s"], 5);

        let questions = options(vec![part(Scenario::Quotes, open(1)), part(Scenario::Quotes, open(2))]);
        assert!(questions.validate().is_ok() && !questions.looks_up() && !questions.moves_money());
        let one = RunOptions { scenario: Scenario::Payments, ..RunOptions::default() };
        assert_eq!((one.operations(), one.phases()), (vec![Scenario::Payments], Phase::OF_PAYMENT.to_vec()));
    }

    #[test]
    fn loads_that_cannot_be_in_parallel_are_refused() {
        let transfers = || part(Scenario::Transfers, open(1));
        let nested = Load::Parallel { loads: vec![transfers(), transfers()] };
        for loads in [
            vec![transfers()],
            vec![transfers(); LOADS_MAX + 1],
            vec![transfers(), part(Scenario::Quotes, Load::Closed { users: 1 })],
            vec![transfers(), part(Scenario::Parallel, open(1))],
            vec![transfers(), part(Scenario::Quotes, nested)],
        ] {
            assert_eq!(options(loads.clone()).validate(), Err(OptionsError::Parallel), "{loads:?}");
        }
        // The form that flags of the command line produce.
        let closed =
            RunOptions { load: Load::Closed { users: 2 }, ..options(vec![transfers(), transfers()]) };
        assert_eq!(closed.validate(), Err(OptionsError::Parallel));
        let transfers_only =
            RunOptions { scenario: Scenario::Transfers, ..options(vec![transfers(), transfers()]) };
        assert_eq!(transfers_only.validate(), Err(OptionsError::Parallel));
    }

    #[test]
    fn each_load_has_a_schedule_of_its_own() {
        let seeds: Vec<u64> = (0..LOADS_MAX).map(|place| schedule_seed(7, place)).collect();
        assert_eq!(seeds[0], 7, "the first is as it would be alone");
        assert!(seeds.iter().enumerate().all(|(place, seed)| !seeds[..place].contains(seed)));
    }
}
