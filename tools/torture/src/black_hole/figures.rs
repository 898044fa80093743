//! What is measured, in three phases: before, while the DFSP is lost, and after.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::watching::Sample;

/// A part of the trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Before,
    During,
    /// It is back, and gets what it has missed.
    After,
}

/// The figures of one phase. Latency is that of transfers between the other DFSPs, from when they should have been
/// sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseResult {
    pub phase: Phase,
    pub seconds: u64,
    /// Transfers of the others that ended as they should.
    pub completed: u64,
    pub failed: u64,
    /// Half of them took at most so long.
    pub p50_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
    pub hub_rss_kib_max: u64,
    /// Commands in the hub's queue at most, as seen once a second.
    pub engine_queue_max: u64,
    /// Callbacks of the lost DFSP in its lane at most, in memory.
    pub lane_items_max: u64,
    /// Callbacks owed to all DFSPs at most.
    pub owed_max: u64,
    /// Of these given up at most, to be sent again by an operator.
    pub parked_max: u64,
}

#[derive(Debug)]
struct Counting {
    phase: Phase,
    begun: Instant,
    lasted: Option<Duration>,
    latencies_us: Vec<u64>,
    failed: u64,
    most: Sample,
}

/// Counts by phase.
#[derive(Debug, Default)]
pub struct Figures(Mutex<Vec<Counting>>);

impl Figures {
    fn phases(&self) -> MutexGuard<'_, Vec<Counting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the present phase and begins the next.
    pub fn begin(&self, phase: Phase) {
        let (mut phases, begun) = (self.phases(), Instant::now());
        if let Some(last) = phases.last_mut() {
            last.lasted = Some(begun - last.begun);
        }
        let most = Sample::default();
        phases.push(Counting { phase, begun, lasted: None, latencies_us: Vec::new(), failed: 0, most });
    }

    /// A transfer between the other DFSPs has ended; it belongs to the phase in which it should have been sent.
    pub fn ended(&self, intended: Instant, ended: Option<Instant>) {
        let mut phases = self.phases();
        let Some(phase) = phases.iter_mut().rev().find(|phase| phase.begun <= intended) else { return };
        match ended {
            Some(ended) => {
                let us = ended.saturating_duration_since(intended).as_micros();
                phase.latencies_us.push(u64::try_from(us).unwrap_or(u64::MAX));
            }
            None => phase.failed += 1,
        }
    }

    /// What was seen of the hub.
    pub fn sample(&self, sample: Sample) {
        if let Some(phase) = self.phases().last_mut() {
            phase.most = phase.most.most(sample);
        }
    }

    /// The results so far.
    pub fn results(&self) -> Vec<PhaseResult> {
        self.phases().iter_mut().map(Counting::result).collect()
    }
}

impl Counting {
    fn result(&mut self) -> PhaseResult {
        self.latencies_us.sort_unstable();
        let Sample { rss_kib, engine_queue, lane_items, owed, parked } = self.most;
        PhaseResult {
            phase: self.phase,
            seconds: self.lasted.unwrap_or_else(|| self.begun.elapsed()).as_secs(),
            completed: self.latencies_us.len() as u64,
            failed: self.failed,
            p50_us: of_hundred(&self.latencies_us, 50),
            p99_us: of_hundred(&self.latencies_us, 99),
            max_us: self.latencies_us.last().copied().unwrap_or(0),
            hub_rss_kib_max: rss_kib,
            engine_queue_max: engine_queue,
            lane_items_max: lane_items,
            owed_max: owed,
            parked_max: parked,
        }
    }
}

/// The least value that so many of a hundred do not exceed; 0 without any.
pub(crate) fn of_hundred(sorted: &[u64], part: usize) -> u64 {
    let rank = (sorted.len() * part).div_ceil(100);
    rank.checked_sub(1).map_or(0, |index| sorted[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_values() {
        let hundred: Vec<u64> = (1..=100).collect();
        for (values, part, expected) in [
            (&hundred[..], 50, 50),
            (&hundred[..], 99, 99),
            (&hundred[..], 100, 100),
            (&hundred[..1], 99, 1),
            (&hundred[..2], 50, 1),
            (&[], 99, 0),
        ] {
            assert_eq!(of_hundred(values, part), expected, "{part} of {}", values.len());
        }
    }

    #[test]
    fn a_transfer_counts_where_it_should_have_been_sent() {
        let figures = Figures::default();
        let early = Instant::now();
        figures.begin(Phase::Before);
        let intended = Instant::now();
        figures.begin(Phase::During);
        let ms = Duration::from_millis;
        figures.ended(intended, Some(intended + ms(3)));
        figures.ended(early, Some(early + ms(9)));
        figures.ended(Instant::now(), None);
        figures.sample(Sample { owed: 3, ..Sample::default() });
        figures.sample(Sample { owed: 2, parked: 1, ..Sample::default() });
        let results = figures.results();
        assert_eq!((results[0].completed, results[0].p99_us, results[0].failed), (1, 3_000, 0));
        assert_eq!((results[1].completed, results[1].failed), (0, 1));
        assert_eq!((results[1].owed_max, results[1].parked_max), (3, 1));
    }
}
