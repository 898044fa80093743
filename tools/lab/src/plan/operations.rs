//! The operations of a run: one kind, or one for each of several parallel loads.

use upesi_sim::Phase;

use crate::plan::load_profile::{LOADS_MAX, Load, ParallelLoad};
use crate::plan::options::RunOptions;
use crate::plan::scenario::Scenario;

/// The kinds of operations: one, or one for each of several loads.
pub(crate) fn operations_of(scenario: Scenario, load: &Load) -> Vec<Scenario> {
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
    fn parallel_loads_are_open_loops_with_all_their_phases() {
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
    fn loads_that_cannot_run_in_parallel_are_rejected() {
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
}
