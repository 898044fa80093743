//! Whether the hub met the thresholds of Mojaloop's performance work.
//!
//! The validity of a run's figures is a separate question. A run that drives a hub beyond its limits measures something
//! true, and a hub that rejects a quarter of the load has not met the thresholds.

#![expect(clippy::float_arithmetic, reason = "shares of counts; no money")]

use crate::plan::options::RunOptions;
use crate::plan::scenario::phase_name;
use crate::result::LabResult;
use crate::result::latency::LatencyMs;
use crate::result::schema::{ThresholdCheck, Thresholds};
use crate::statistics::{ratio, rounded};

/// Minimum share of the operations that must succeed, exclusive.
const SUCCESS_SHARE: f64 = 0.99;
/// Open loop: minimum share of the due arrivals that must complete in the same time.
const COMPLETED_SHARE: f64 = 0.99;
/// Limit of the 99th percentile of operations, from the first request to the last callback.
const END_TO_END_P99_MS: f64 = 15_000.0;
/// Limit of the 99th percentile of each of their phases.
const PHASE_P99_MS: f64 = 3_000.0;
/// Limit of the 99th percentile of the time until the response to a request.
const HTTP_P99_MS: f64 = 5_000.0;

/// The threshold that shows whether the hub kept up with an open loop.
pub(crate) const COMPLETED_OF_DUE: &str = "completed_share_of_due";

/// Compares a run with the thresholds that apply to it.
pub(crate) fn thresholds(options: &RunOptions, result: &LabResult) -> Thresholds {
    let mut checks = Vec::new();
    if !fails_on_purpose(options) {
        checks.push(success(result));
        checks.extend(completed(result));
    }
    checks.push(latency("end_to_end_p99_ms", "operations", &result.latency_ms, END_TO_END_P99_MS));
    for phase in options.phases() {
        let Some(found) = result.phases.get(phase) else { continue };
        let name = phase_name(phase);
        let what = format!("operations in the phase {name}");
        checks.push(latency(&format!("{name}_p99_ms"), &what, &found.latency_ms, PHASE_P99_MS));
    }
    checks.push(latency("http_p99_ms", "requests, until their own answer,", &result.http_ms, HTTP_P99_MS));
    let (checked, findings): (Vec<_>, Vec<_>) = checks.into_iter().unzip();
    Thresholds {
        met: checked.iter().all(|check: &ThresholdCheck| check.met),
        findings: findings.into_iter().flatten().collect(),
        checked,
    }
}

impl Thresholds {
    pub(crate) fn add(&mut self, (check, finding): CheckedThreshold) {
        self.met &= check.met;
        self.findings.extend(finding);
        self.checked.push(check);
    }
}

/// Combines several runs: a threshold that one of them did not meet is not met.
pub(crate) fn together<'all>(all: impl Iterator<Item = &'all Thresholds>) -> Option<Thresholds> {
    let mut all = all.cloned();
    let mut sum = all.next()?;
    for other in all {
        for check in other.checked {
            match sum.checked.iter_mut().find(|known| known.name == check.name) {
                Some(known) if known.met && !check.met => *known = check,
                Some(_) => {}
                None => sum.checked.push(check),
            }
        }
        let new = other.findings.into_iter().filter(|finding| !sum.findings.contains(finding));
        sum.findings.extend(new.collect::<Vec<_>>());
        sum.met &= other.met;
    }
    Some(sum)
}

/// A check, and its finding if it is not met.
pub(crate) type CheckedThreshold = (ThresholdCheck, Option<String>);

fn checked(
    name: &str,
    limit: f64,
    value: f64,
    met: bool,
    finding: impl FnOnce() -> String,
) -> CheckedThreshold {
    let check = ThresholdCheck { name: name.to_owned(), limit, value, met };
    (check, (!met).then(finding))
}

/// Whether the payees were configured to fail operations, which is then not a failure of the hub.
pub(crate) fn fails_on_purpose(options: &RunOptions) -> bool {
    let behaviour = &options.behaviour;
    [
        behaviour.drop_per_mille,
        behaviour.wrong_fulfilment_per_mille,
        behaviour.abort_per_mille,
        behaviour.http_error_per_mille,
    ] != [0; 4]
}

fn success(result: &LabResult) -> CheckedThreshold {
    let ended = (result.completed + result.failed) as f64;
    let share = ratio(result.completed as f64, ended).unwrap_or(0.0);
    checked("success_share", SUCCESS_SHARE, rounded(share, 6), share > SUCCESS_SHARE, || {
        match result.completed {
            0 => "no operation completed".to_owned(),
            _ => format!(
                "{} of the operations failed; it must be less than {}",
                percent(1.0 - share),
                percent(1.0 - SUCCESS_SHARE)
            ),
        }
    })
}

/// The check of an open loop with operations that were due.
fn completed(result: &LabResult) -> Option<CheckedThreshold> {
    let schedule = result.schedule.as_ref()?;
    let share = ratio(result.completed as f64, schedule.due as f64)?;
    let met = share >= COMPLETED_SHARE;
    Some(checked(COMPLETED_OF_DUE, COMPLETED_SHARE, rounded(share, 6), met, || {
        format!(
            "{} completed of {} that were due: {}; it must be {} at least",
            result.completed,
            schedule.due,
            percent(share),
            percent(COMPLETED_SHARE)
        )
    }))
}

/// Checks a latency. Latencies of a run without completed operations are zero, and meet no threshold.
fn latency(name: &str, what: &str, latency: &LatencyMs, limit: f64) -> CheckedThreshold {
    let value = latency.p99;
    checked(name, limit, value, value > 0.0 && value < limit, || {
        if value > 0.0 {
            format!("1 of 100 {what} took {} or longer; the limit is {}", seconds(value), seconds(limit))
        } else {
            format!("no latency of {what} could be measured")
        }
    })
}

fn seconds(milliseconds: f64) -> String {
    format!("{} s", rounded(milliseconds / 1e3, 2))
}

/// A share as a percentage. Close to the bound, it has enough digits to differ from the bound.
fn percent(share: f64) -> String {
    format!("{} %", rounded(share * 100.0, 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::load_profile::Load;
    use crate::plan::scenario::Scenario;
    use crate::result::ScheduleResult;
    use crate::result::latency::{PhaseResult, Phases};

    fn p99(p99: f64) -> LatencyMs {
        LatencyMs { p99, ..LatencyMs::default() }
    }

    fn phase(p99_ms: f64) -> Option<PhaseResult> {
        Some(PhaseResult { latency_ms: p99(p99_ms), ..PhaseResult::default() })
    }

    /// A run of payments that meets every threshold, most of them only just.
    fn good() -> LabResult {
        LabResult {
            completed: 9_910,
            failed: 100,
            schedule: Some(ScheduleResult { due: 10_010, ..ScheduleResult::default() }),
            latency_ms: p99(8_000.0),
            phases: Phases {
                discovery: phase(2_999.0),
                agreement: phase(2_000.0),
                conversion: None,
                transfer: phase(1.0),
            },
            http_ms: p99(4_999.0),
            ..LabResult::new()
        }
    }

    fn of(options: &RunOptions, change: impl FnOnce(&mut LabResult)) -> Thresholds {
        let mut result = good();
        change(&mut result);
        thresholds(options, &result)
    }

    #[test]
    fn missed_threshold_is_named() {
        let options = RunOptions {
            scenario: Scenario::Payments,
            load: Load::Open { rate_per_s: 100, outstanding_max: 1_000 },
            ..RunOptions::default()
        };
        let names = [
            "success_share",
            "completed_share_of_due",
            "end_to_end_p99_ms",
            "discovery_p99_ms",
            "agreement_p99_ms",
            "transfer_p99_ms",
            "http_p99_ms",
        ];
        let good = of(&options, |_| ());
        assert_eq!(good.checked.iter().map(|check| check.name.as_str()).collect::<Vec<_>>(), names);
        assert!(
            good.met && good.findings.is_empty() && good.checked.iter().all(|check| check.met),
            "{good:?}"
        );
        type Change = fn(&mut LabResult);
        let cases: [(&str, &str, Change); 9] = [
            ("success_share", "1.01 % of the operations failed", |result| result.failed = 101),
            ("completed_share_of_due", "9909 completed of 10010", |result| result.completed = 9_909),
            ("end_to_end_p99_ms", "15 s or longer; the limit is 15 s", |result| {
                result.latency_ms = p99(15_000.0);
            }),
            ("discovery_p99_ms", "in the phase discovery took 3.5 s", |result| {
                result.phases.discovery = phase(3_500.0);
            }),
            ("agreement_p99_ms", "agreement", |result| result.phases.agreement = phase(3_000.0)),
            ("transfer_p99_ms", "transfer", |result| result.phases.transfer = phase(30_000.0)),
            ("http_p99_ms", "until their own answer", |result| result.http_ms = p99(5_000.0)),
            ("success_share", "no operation completed", |result| result.completed = 0),
            ("end_to_end_p99_ms", "could be measured", |result| result.latency_ms = p99(0.0)),
        ];
        for (name, text, change) in cases {
            let found = of(&options, change);
            assert!(!found.met && found.findings.iter().any(|finding| finding.contains(text)), "{found:?}");
            let check = found.checked.iter().find(|check| check.name == name).unwrap();
            assert!(!check.met, "{check:?}");
            assert_eq!(found.findings.len(), found.checked.iter().filter(|check| !check.met).count());
        }
    }

    #[test]
    fn threshold_that_does_not_apply_is_not_checked() {
        let closed = |result: &mut LabResult| result.schedule = None;
        let names = |thresholds: &Thresholds| {
            thresholds.checked.iter().map(|check| check.name.clone()).collect::<Vec<_>>().join(" ")
        };
        // One phase only, and nothing was due at any time.
        let mut options = RunOptions::default();
        let found = of(&options, closed);
        assert_eq!(names(&found), "success_share end_to_end_p99_ms transfer_p99_ms http_p99_ms");
        // A hub that rejects a quarter does not meet the thresholds, in any loop.
        assert!(!of(&options, |result| (result.schedule, result.failed) = (None, 3_300)).met);
        // These payees abort on purpose.
        options.behaviour.abort_per_mille = 20;
        let found = of(&options, |result| result.failed = 5_000);
        assert_eq!(names(&found), "end_to_end_p99_ms transfer_p99_ms http_p99_ms");
        assert!(found.met);
    }

    #[test]
    fn several_runs_miss_a_threshold_that_one_misses() {
        let options = RunOptions::default();
        let good = of(&options, |_| ());
        let shedding = of(&options, |result| result.failed = 3_300);
        let slow = of(&options, |result| result.latency_ms = p99(16_000.0));
        let sum = together([&good, &shedding, &slow, &shedding].into_iter()).unwrap();
        assert_eq!((sum.met, sum.findings.len(), sum.checked.len()), (false, 2, good.checked.len()));
        let not_met: Vec<_> = sum.checked.iter().filter(|check| !check.met).collect();
        assert_eq!((not_met.len(), not_met[0], not_met[1].value), (2, &shedding.checked[0], 16_000.0));
        assert_eq!(together([&good, &good].into_iter()).as_ref(), Some(&good));
        assert_eq!(together(std::iter::empty()), None);
    }
}
