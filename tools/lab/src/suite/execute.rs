//! Executes a scenario: one run, a search, a soak, or one stage alone.

use std::path::Path;

use crate::drive::error::LabError;
use crate::drive::output::{create, write};
use crate::drive::run::run;
use crate::isolated::{self, Context, IsolatedError};
use crate::judge::soak;
use crate::judge::thresholds::fails_on_purpose;
use crate::judge::validity::deserves_second_try;
use crate::plan::load_profile::Load;
use crate::plan::options::RunOptions;
use crate::plan::parameter::Parameter;
use crate::plan::surroundings::RunContext;
use crate::plan::{Search, Test, Work};
use crate::result::LabResult;
use crate::result::schema::{BreakpointResult, Limit, Probe};

/// The reason why a scenario has no result.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    #[error(transparent)]
    Run(#[from] LabError),
    #[error(transparent)]
    Isolated(#[from] IsolatedError),
}

/// Executes the work. Blocks until it has ended; must not be called from an async runtime. Fails if something that it
/// needs cannot be started, prepared or queried.
pub fn execute(work: &Work, surroundings: &RunContext) -> Result<LabResult, ExecuteError> {
    match work {
        Work::EndToEnd { options, test } => {
            let mut options = (**options).clone();
            options.out.clone_from(&surroundings.out);
            options.commit.clone_from(&surroundings.commit);
            let result = match test {
                Test::Breakpoint(search) => breakpoint(&options, *search),
                Test::Soak => soak(&options),
                Test::Smoke | Test::Average | Test::Stress | Test::Spike => run(&options),
            };
            Ok(result?)
        }
        Work::Isolated { stage, table, hub_arguments, seed } => {
            let out = surroundings.out.as_deref();
            let context = Context {
                surroundings: surroundings.clone(),
                scratch: out.map_or_else(std::env::temp_dir, Path::to_owned),
                hub_arguments: hub_arguments.clone(),
                seed: *seed,
            };
            create(out)?;
            let mut result = isolated::run(stage, table.as_ref(), &context)?;
            result.parameters.extend(surroundings.parameters.clone());
            write(&result, out)?;
            Ok(result)
        }
    }
}

/// Searches the highest rate that meets the targets. Returns the result of the highest rate that met them, or of the
/// last probe if none did. The result contains every probe.
fn breakpoint(options: &RunOptions, search: Search) -> Result<LabResult, LabError> {
    let mut searching = Searching::new(search);
    let mut best: Option<(u32, LabResult)> = None;
    let mut last = None;
    while let Some(rate_per_s) = searching.next_rate() {
        let again = if searching.is_known(rate_per_s) { "-again" } else { "" };
        let name = format!("rate-{rate_per_s}{again}");
        let out = options.out.as_ref().map(|out| out.join("probes").join(name));
        let load = match &options.load {
            Load::Arrivals { poisson, outstanding_max, .. } => Load::Arrivals {
                start_per_s: rate_per_s,
                stages: Vec::new(),
                poisson: *poisson,
                outstanding_max: *outstanding_max,
            },
            other => Load::Open { rate_per_s, outstanding_max: other.outstanding_max().max(OUTSTANDING_MIN) },
        };
        let mut probe = RunOptions { load, out, ..options.clone() };
        let rate = Parameter::Number(i64::from(rate_per_s));
        probe.identity.parameters.insert("rate_per_s".to_owned(), rate);
        let result = run(&probe)?;
        let is_met = searching.note(rate_per_s, &result);
        let is_best = is_met && best.as_ref().is_none_or(|(rate, _)| *rate < rate_per_s);
        if is_best {
            best = Some((rate_per_s, result));
        } else {
            last = Some(result);
        }
    }
    let found = searching.finish();
    // A search tries at least one rate, unless its limit of probes is zero.
    let mut result = best.map(|(_, result)| result).or(last).unwrap_or_default();
    result.parameters.remove("rate_per_s");
    result.breakpoint = Some(found);
    write(&result, options.out.as_deref())?;
    Ok(result)
}

/// Minimum number of operations that a probe may have without an outcome. A hub that falls behind must show this in its
/// latency first.
const OUTSTANDING_MIN: usize = 10_000;

/// Executes a long run. The result shows the slopes of the hub's figures, and whether the load was held all the time.
fn soak(options: &RunOptions) -> Result<LabResult, LabError> {
    let mut result = run(options)?;
    let found = soak::judge(&result);
    if let Some(thresholds) = &mut result.thresholds
        && !fails_on_purpose(options)
    {
        thresholds.add(soak::check(result.window.seconds, found.held_s));
    }
    result.drift = Some(found);
    write(&result, options.out.as_deref())?;
    Ok(result)
}

/// Chooses the next rate from the results so far. The rate rises by a factor until one misses, or falls if the first
/// one misses. Then the next rate is halfway between the last met and the first missed rate, until they are close.
#[derive(Clone, Debug)]
struct Searching {
    search: Search,
    result: BreakpointResult,
    /// A rate to be tried once more, because the load generator lagged or other programs used its cores.
    again: Option<u32>,
}

/// Maximum rate of a search.
const RATE_PER_S_MAX: u32 = 1_000_000;

impl Searching {
    pub fn new(search: Search) -> Self {
        Self { search, result: BreakpointResult::default(), again: None }
    }

    /// The next rate to try; `None` if the search has ended.
    pub fn next_rate(&self) -> Option<u32> {
        let Self { search, result, again } = self;
        if result.probes.len() as u64 >= u64::from(search.probes_max) {
            return None;
        }
        if again.is_some() {
            return *again;
        }
        let scaled = |rate: u32, percent: u32| {
            u32::try_from(u64::from(rate) * u64::from(percent) / 100).unwrap_or(RATE_PER_S_MAX)
        };
        let next = match (result.highest_met_per_s, result.lowest_missed_per_s) {
            (None, None) => search.start_per_s,
            (Some(met), None) => scaled(met, search.factor_percent).max(met + 1).min(RATE_PER_S_MAX),
            (None, Some(missed)) => {
                u32::try_from(u64::from(missed) * 100 / u64::from(search.factor_percent)).unwrap_or(1)
            }
            (Some(met), Some(missed)) => {
                let is_close = missed.saturating_sub(met) <= scaled(met, search.precision_percent).max(1);
                if is_close {
                    return None;
                }
                met + (missed - met) / 2
            }
        };
        (next > 0 && !self.is_known(next)).then_some(next)
    }

    pub fn is_known(&self, rate_per_s: u32) -> bool {
        self.result.probes.iter().any(|probe| probe.rate_per_s == rate_per_s)
    }

    /// Notes the result of a rate. Returns whether it was met by a valid run.
    pub fn note(&mut self, rate_per_s: u32, result: &LabResult) -> bool {
        let missed_targets = result.targets.iter().filter(|target| !target.met);
        let mut reasons: Vec<String> = missed_targets
            .map(|target| format!("{} {} instead of {}", target.name, target.measured, target.limit))
            .collect();
        let limit = if reasons.is_empty() && result.audit.ok { Limit::Generator } else { Limit::Target };
        // The findings include a failed audit.
        reasons.extend(result.validity.findings.iter().cloned());
        let met = reasons.is_empty() && result.validity.valid;
        // A momentary disturbance must not end the search. A second disturbance is not momentary.
        let has_room = self.result.probes.len() as u64 + 1 < u64::from(self.search.probes_max);
        self.again =
            (deserves_second_try(result) && has_room && !self.is_known(rate_per_s)).then_some(rate_per_s);
        if self.again.is_some() {
            reasons.push("tried once more".to_owned());
        }
        self.result.probes.push(Probe {
            rate_per_s,
            throughput_per_s: result.throughput_per_s,
            p99_ms: result.latency_ms.p99,
            lost: result.lost,
            met,
            valid: result.validity.valid,
            idle_share: result.window.idle_share,
            reasons,
        });
        if self.again.is_some() {
            return false;
        }
        let found = &mut self.result;
        if met {
            found.highest_met_per_s = found.highest_met_per_s.max(Some(rate_per_s));
        } else if found.lowest_missed_per_s.is_none_or(|lowest| rate_per_s < lowest) {
            (found.lowest_missed_per_s, found.limited_by) = (Some(rate_per_s), Some(limit));
        }
        met
    }

    pub fn finish(self) -> BreakpointResult {
        self.result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::ScheduleResult;
    use crate::result::schema::{MachineResult, TargetCheck, Validity};

    fn result(met: bool) -> LabResult {
        let target = TargetCheck {
            name: "p99_ms".into(),
            limit: 1_000.0,
            measured: if met { 5.0 } else { 2_000.0 },
            met,
        };
        LabResult { targets: vec![target], ..LabResult::new() }
    }

    /// Searches a hub that can handle up to `capacity`.
    fn search(search: Search, capacity: u32) -> BreakpointResult {
        let mut searching = Searching::new(search);
        while let Some(rate) = searching.next_rate() {
            searching.note(rate, &result(rate <= capacity));
        }
        searching.finish()
    }

    #[test]
    fn search_finds_the_capacity_within_its_precision() {
        for capacity in [3, 90, 499, 500, 501, 799, 800, 3_117, 250_000] {
            let usual = Search { probes_max: 60, ..Search::default() };
            let found = search(usual, capacity);
            let (met, missed) = (found.highest_met_per_s.unwrap(), found.lowest_missed_per_s.unwrap());
            assert!(met <= capacity && capacity < missed, "{capacity}: {met} to {missed}");
            assert!(missed - met <= (met / 20).max(1), "{capacity}: {met} to {missed}");
            assert!(found.probes.len() < 40, "{capacity}: {} probes", found.probes.len());
        }
    }

    #[test]
    fn search_ends_at_its_bounds() {
        let few = Search { probes_max: 3, ..Search::default() };
        let found = search(few, 1_000_000);
        assert_eq!(found.probes.len(), 3);
        assert_eq!((found.highest_met_per_s, found.lowest_missed_per_s), (Some(1_280), None));
        let many = Search { probes_max: 100, ..Search::default() };
        assert_eq!(search(many, u32::MAX).highest_met_per_s, Some(RATE_PER_S_MAX));
        assert_eq!(search(many, 0).highest_met_per_s, None);
    }

    #[test]
    fn lagging_generator_misses_the_rate() {
        let mut searching = Searching::new(Search::default());
        let lagged = || Validity::of(vec!["the load generator lagged its schedule".to_owned()]);
        assert!(!searching.note(500, &LabResult { validity: lagged(), ..result(true) }));
        assert!(searching.note(250, &result(true)));
        let found = searching.clone().finish();
        assert_eq!((found.highest_met_per_s, found.lowest_missed_per_s), (Some(250), Some(500)));
        assert_eq!(found.limited_by, Some(Limit::Generator), "the hub may handle more");
        assert_eq!((found.probes[0].met, found.probes[0].valid), (false, false));
        assert!(found.probes[0].reasons[0].contains("schedule"));
        // A lower rate that the hub misses is more informative than a higher one that the generator could not send.
        assert!(!searching.note(400, &LabResult { validity: lagged(), ..result(false) }));
        assert_eq!(searching.finish().limited_by, Some(Limit::Target));
    }

    fn lagging() -> LabResult {
        let schedule = ScheduleResult { lag_ms_p99: 12.0, ..ScheduleResult::default() };
        let validity = Validity::of(vec!["the load generator lagged its schedule".to_owned()]);
        LabResult { schedule: Some(schedule), validity, ..result(true) }
    }

    #[test]
    fn rate_with_a_lagging_generator_is_tried_twice() {
        let mut searching = Searching::new(Search::default());
        assert!(!searching.note(500, &lagging()));
        assert_eq!(searching.next_rate(), Some(500));
        assert!(searching.note(500, &result(true)), "it was the machine");
        assert_eq!(searching.next_rate(), Some(800));
        let mut crowded = result(true);
        crowded.validity = Validity::of(vec!["other programs took 80.0 % of the cores' time".to_owned()]);
        crowded.machine = Some(MachineResult { other_programs_share: Some(0.8), ..MachineResult::default() });
        assert!(!searching.note(800, &crowded));
        assert_eq!(searching.next_rate(), Some(800));
        assert!(!searching.note(800, &lagging()));
        assert_eq!(searching.next_rate(), Some(650), "twice is enough");
        let found = searching.finish();
        let ends = (found.highest_met_per_s, found.lowest_missed_per_s, found.limited_by);
        assert_eq!(ends, (Some(500), Some(800), Some(Limit::Generator)));
        let again: Vec<bool> = found
            .probes
            .iter()
            .map(|probe| probe.reasons.iter().any(|reason| reason == "tried once more"))
            .collect();
        assert_eq!(again, [true, false, true, false]);
    }

    #[test]
    fn last_probe_and_failed_audit_are_not_tried_twice() {
        let one = Search { probes_max: 1, ..Search::default() };
        let mut searching = Searching::new(one);
        assert!(!searching.note(500, &lagging()));
        assert_eq!(searching.next_rate(), None);
        assert_eq!(searching.finish().lowest_missed_per_s, Some(500));
        let mut searching = Searching::new(Search::default());
        let mut failed = lagging();
        failed.audit.ok = false;
        assert!(!searching.note(500, &failed));
        assert_eq!(searching.next_rate(), Some(312));
        // A generator that lags at every rate gets two tries for each, and the search ends.
        let mut searching = Searching::new(Search { probes_max: 60, ..Search::default() });
        while let Some(rate) = searching.next_rate() {
            searching.note(rate, &lagging());
        }
        let found = searching.finish();
        assert_eq!((found.highest_met_per_s, found.lowest_missed_per_s), (None, Some(1)));
        assert!(found.probes.len() < 40, "{} probes", found.probes.len());
    }

    #[test]
    fn failed_audit_counts_against_the_hub() {
        let mut searching = Searching::new(Search::default());
        let mut failed = result(true);
        failed.audit.ok = false;
        failed.validity = Validity::of(vec!["the audit failed: see its findings".to_owned()]);
        assert!(!searching.note(500, &failed));
        assert_eq!(searching.finish().limited_by, Some(Limit::Target));
    }
}
