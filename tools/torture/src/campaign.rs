//! Campaigns: many seeds, on several threads, until a number or a time is reached.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::trials::{Tally, Trial};
use crate::evidence::{EvidenceError, Provenance, Run, TrialEvidence, Violation};

/// Interval between two updates of the report.
const REPORT_INTERVAL: Duration = Duration::from_secs(20);

/// The options of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The first seed; `None` continues the report, or starts at 0.
    pub from: Option<u64>,
    pub count: u64,
    /// Maximum duration; `None` for no limit.
    pub time_max: Option<Duration>,
    pub jobs: usize,
    /// The directory of the evidence to add to.
    pub report: Option<PathBuf>,
}

/// The result of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub tally: Tally,
    /// The first seed and the one after the last.
    pub seeds: [u64; 2],
    /// Broken promises, with the seeds that break them.
    pub violations: Vec<Violation>,
}

/// State that the threads share during one leg of a campaign. Results are reported at the end of each leg.
struct Leg<'a> {
    trial: &'a Trial,
    ends_at: Instant,
    count: u64,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    next: u64,
    reached: Outcome,
}

/// Runs a trial. Results are reported regularly, so that a run that is stopped can be continued.
pub fn run(trial: &Trial, plan: &Plan) -> Result<Outcome, EvidenceError> {
    let known =
        plan.report.as_ref().map(|directory| TrialEvidence::read(directory, trial.name)).transpose()?;
    let first = plan.from.unwrap_or_else(|| known.map_or(0, |known| known.next_seed()));
    let ends_at = plan.time_max.map(|limit| Instant::now() + limit);
    let mut total = Outcome { seeds: [first, first], ..Outcome::default() };
    while total.tally.units() < plan.count && ends_at.is_none_or(|end| Instant::now() < end) {
        let begun = Instant::now();
        let next_report = begun + REPORT_INTERVAL;
        let leg = Leg {
            trial,
            ends_at: ends_at.map_or(next_report, |end| end.min(next_report)),
            count: plan.count - total.tally.units(),
            progress: Mutex::new(Progress { next: total.seeds[1], reached: Outcome::default() }),
        };
        let reached = leg.run(plan.jobs.max(1), total.seeds[1]);
        if let Some(directory) = &plan.report {
            add_to(directory, trial, &reached, begun.elapsed())?;
        }
        total.tally.merge(&reached.tally);
        total.violations.extend(reached.violations);
        total.seeds[1] = reached.seeds[1];
    }
    Ok(total)
}

impl Leg<'_> {
    /// Runs the leg. Every seed that was started is finished when this returns.
    fn run(self, jobs: usize, first: u64) -> Outcome {
        std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(|| self.work()))));
        let Progress { next, mut reached } =
            self.progress.into_inner().unwrap_or_else(PoisonError::into_inner);
        reached.seeds = [first, next];
        // The order does not depend on the threads.
        reached.violations.sort_by_key(|violation| violation.seed);
        reached
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(seed) = self.take() {
            let outcome = catch_unwind(AssertUnwindSafe(|| (self.trial.run)(seed)));
            let reached = &mut self.progress().reached;
            match outcome {
                Ok(tally) => reached.tally.merge(&tally),
                Err(panic) => {
                    let message = said(&*panic);
                    report_violation(self.trial.name, seed, &message);
                    reached.violations.push(Violation { seed, message });
                }
            }
        }
    }

    fn take(&self) -> Option<u64> {
        let mut progress = self.progress();
        if progress.reached.tally.units() >= self.count || Instant::now() >= self.ends_at {
            return None;
        }
        progress.next += 1;
        Some(progress.next - 1)
    }
}

fn add_to(
    directory: &Path,
    trial: &Trial,
    reached: &Outcome,
    duration: Duration,
) -> Result<(), EvidenceError> {
    let run = Run {
        // A trial without its program reports only that.
        provenance: Provenance {
            build: (trial.build)().unwrap_or_else(|error| error),
            ..Provenance::now(duration)
        },
        from: reached.seeds[0],
        to: reached.seeds[1],
        count: reached.tally.units(),
        details: reached.tally.details().map(|(name, count)| (name.to_owned(), count)).collect(),
        violations: reached.violations.len() as u64,
        violated: reached.violations.clone(),
    };
    TrialEvidence::record(directory, &trial.subject(), run)
}

#[expect(clippy::print_stderr, reason = "a broken promise must be seen at once, not at the end of hours")]
fn report_violation(name: &str, seed: u64, message: &str) {
    eprintln!("VIOLATION {message}\n  repeat with: torture {name} --from {seed} --count 1");
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trial with three units per seed. Each tenth seed breaks a promise.
    const INVENTED: Trial = Trial {
        name: "invented",
        what: "invented things",
        goal: 100,
        build: crate::trials::own_build,
        run: |seed| {
            assert!(seed % 10 != 9, "seed {seed} is bad");
            let mut tally = Tally::default();
            (0..3).for_each(|_| tally.unit("thing"));
            tally
        },
    };

    fn plan(directory: &std::path::Path, count: u64, jobs: usize) -> Plan {
        Plan { count, jobs, report: Some(directory.to_owned()), ..Plan::default() }
    }

    #[test]
    fn campaign_reaches_its_count_and_is_continued() {
        for jobs in [1, 3] {
            let directory = tempfile::tempdir().unwrap();
            let first = run(&INVENTED, &plan(directory.path(), 60, jobs)).unwrap();
            assert!(first.tally.units() >= 60);
            assert!(!first.violations.is_empty() && first.violations[0].seed == 9);
            let second = run(&INVENTED, &plan(directory.path(), 30, jobs)).unwrap();
            assert_eq!(second.seeds[0], first.seeds[1]);
            let evidence = TrialEvidence::read(directory.path(), "invented").unwrap();
            assert_eq!(evidence.count, first.tally.units() + second.tally.units());
            assert_eq!(evidence.seeds, [[0, second.seeds[1]]]);
            assert_eq!(evidence.violations, (first.violations.len() + second.violations.len()) as u64);
            assert_eq!(evidence.runs.iter().map(|run| run.details["thing"]).sum::<u64>(), evidence.count);
        }
    }

    #[test]
    fn seeds_that_were_run_are_rejected() {
        let directory = tempfile::tempdir().unwrap();
        run(&INVENTED, &plan(directory.path(), 10, 1)).unwrap();
        let again = Plan { from: Some(0), ..plan(directory.path(), 10, 1) };
        assert!(matches!(run(&INVENTED, &again), Err(EvidenceError::Overlap { .. })));
    }
}
