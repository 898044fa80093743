//! The parts of a result that are computed from a tally.

use upesi_sim::Phase;

use crate::observe::tally::{PhaseTally, Tally};
use crate::plan::options::RunOptions;
use crate::plan::scenario::phase_name;
use crate::result::ScheduleResult;
use crate::result::latency::{LatencyMs, PhaseResult, Phases, written};
use crate::result::schema::HistogramResult;
use crate::statistics::milliseconds;

/// Open loop: maximum 99th percentile of the lag for a valid run.
const LAG_US_MAX: u64 = 10_000;

impl Phases {
    /// The results of these phases.
    pub(crate) fn of(all: &[Phase], tally: &Tally) -> Self {
        let mut phases = Self::default();
        for &phase in all {
            let PhaseTally { latency, exchanges } = &tally.phases[phase as usize];
            let result = PhaseResult { latency_ms: LatencyMs::of(latency), exchanges: *exchanges };
            *phases.place(phase) = Some(result);
        }
        phases
    }
}

impl HistogramResult {
    /// All recorded latencies, also by phase, and the lag of an open loop.
    pub(crate) fn recorded(tally: &Tally, phases: &[Phase], is_open: bool) -> Self {
        // With one phase only, its latencies equal the latencies of the whole operation.
        let several = phases.iter().filter(|_| phases.len() > 1);
        let of_phase =
            |phase: &Phase| (phase_name(*phase).into(), written(&tally.phases[*phase as usize].latency));
        Self {
            phases: several.map(of_phase).collect(),
            schedule_lag: is_open.then(|| written(&tally.lag)),
            ..Self::of(&tally.latency)
        }
    }
}

pub(crate) fn schedule(options: &RunOptions, tally: &Tally) -> Option<ScheduleResult> {
    if !options.load.is_open() {
        return None;
    }
    Some(ScheduleResult::of(tally))
}

impl ScheduleResult {
    /// Computes a slice's result from a tally.
    pub(crate) fn of(tally: &Tally) -> Self {
        let lag = |quantile| tally.lag.value_at_quantile(quantile);
        Self {
            due: tally.lag.len() + tally.skipped,
            lag_ms_p50: milliseconds(lag(0.5)),
            lag_ms_p99: milliseconds(lag(0.99)),
            lag_ms_max: milliseconds(tally.lag.max()),
            skipped: tally.skipped,
            valid: tally.skipped == 0 && lag(0.99) <= LAG_US_MAX,
        }
    }
}
