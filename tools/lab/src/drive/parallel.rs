//! The loads of one slice: one, or several at the same time.

use std::sync::Arc;

use upesi_http::Workers;
use upesi_sim::mix;

use crate::drive::load::{self, Running};
use crate::drive::operation::Generator;
use crate::observe::tally::Tally;
use crate::observe::timeline::Interval;
use crate::observe::window::Window;
use crate::plan::load_profile::Load;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::load_profile::LOADS_MAX;

    #[test]
    fn parallel_loads_have_separate_schedules() {
        let seeds: Vec<u64> = (0..LOADS_MAX).map(|place| schedule_seed(7, place)).collect();
        assert_eq!(seeds[0], 7, "the first is as it would be alone");
        assert!(seeds.iter().enumerate().all(|(place, seed)| !seeds[..place].contains(seed)));
    }
}
