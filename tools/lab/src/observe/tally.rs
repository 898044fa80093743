//! Counts of the outcomes of operations and of their phases.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use upesi_sim::Phase;

use crate::observe::window::Window;
use crate::result::exchanges::Exchanges;
use crate::statistics::{LATENCY_US_MAX, latency_histogram};

/// The outcome of one phase of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Step {
    /// An earlier phase did not succeed, or the scenario has no such phase.
    #[default]
    Unreached,
    /// Nothing was sent, because the id was used before.
    Repeated,
    /// The hub rejected the request.
    Refused,
    /// The request got no answer; a callback may still come.
    Unanswered,
    /// The request was accepted, and its callback did not come before the user's timeout; it may still come.
    Late,
    /// The callback was an error, or an abort.
    Error,
    /// The callback had a content that cannot be right.
    Wrong,
    /// The callback came and was right.
    Done(Instant),
}

/// The outcomes of the phases of one operation, by [`Phase`].
pub(crate) type Steps = [Step; Phase::ALL.len()];

/// Time until the response to each request of one operation, by [`Phase`]; `None` if none was sent.
pub(crate) type PhaseWaits = [Option<Duration>; Phase::ALL.len()];

impl Exchanges {
    fn count(&mut self, step: Step) {
        let end = match step {
            Step::Unreached | Step::Repeated => return,
            Step::Refused => &mut self.originated.refused,
            Step::Unanswered => &mut self.originated.unanswered,
            Step::Late => &mut self.late,
            Step::Error => &mut self.errors,
            Step::Wrong => &mut self.wrong,
            Step::Done(_) => &mut self.completed,
        };
        *end += 1;
        self.originated.sent += 1;
        self.originated.accepted += u64::from(!matches!(step, Step::Refused | Step::Unanswered));
    }

    fn add(&mut self, other: &Self) {
        self.originated += other.originated;
        self.completed += other.completed;
        self.errors += other.errors;
        self.wrong += other.wrong;
        self.late += other.late;
    }
}

/// One phase of the operations of a slice.
#[derive(Clone, Debug)]
pub(crate) struct PhaseTally {
    /// Latency from the end of the previous phase, of operations that began inside the window, in microseconds.
    pub latency: Histogram<u64>,
    pub exchanges: Exchanges,
}

/// The result of one slice.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Latency of operations that began inside the window and completed, in microseconds.
    pub latency: Histogram<u64>,
    /// Lag of open-loop arrivals inside the window, in microseconds.
    pub lag: Histogram<u64>,
    /// Time until a request's response, for operations that began inside the window, in microseconds.
    pub waits: Histogram<u64>,
    /// Time until the response of rejected requests.
    pub refusals: Histogram<u64>,
    /// By [`Phase`].
    pub phases: [PhaseTally; Phase::ALL.len()],
    /// Operations that completed inside the window, whenever they began.
    pub completed: u64,
    /// Operations that began inside the window and did not complete.
    pub failed: u64,
    /// Arrivals inside the window that were not sent because too many were outstanding.
    pub skipped: u64,
}

impl Default for Tally {
    fn default() -> Self {
        let phase = |_| PhaseTally { latency: latency_histogram(), exchanges: Exchanges::default() };
        Self {
            latency: latency_histogram(),
            lag: latency_histogram(),
            waits: latency_histogram(),
            refusals: latency_histogram(),
            phases: Phase::ALL.map(phase),
            completed: 0,
            failed: 0,
            skipped: 0,
        }
    }
}

impl Tally {
    /// Counts an operation that began at `began` and went through `phases`. Returns its latency in microseconds if it
    /// completed.
    pub fn count(&mut self, phases: &[Phase], steps: &Steps, began: Instant, window: &Window) -> Option<u64> {
        let counts = window.counts(began);
        let (mut from, mut is_complete) = (began, true);
        for &phase in phases {
            let (tally, step) = (&mut self.phases[phase as usize], steps[phase as usize]);
            tally.exchanges.count(step);
            if let Step::Done(at) = step {
                if counts {
                    tally.latency.saturating_record(microseconds_between(from, at));
                }
                from = at;
            } else {
                is_complete = false;
            }
        }
        if is_complete {
            let latency_us = microseconds_between(began, from);
            self.completed += u64::from(window.counts(from));
            if counts {
                self.latency.saturating_record(latency_us);
            }
            Some(latency_us)
        } else {
            self.failed += u64::from(counts);
            None
        }
    }

    /// Counts the times until the responses to an operation's requests.
    pub fn count_waits(&mut self, steps: &Steps, waits: &PhaseWaits) {
        for (step, wait) in steps.iter().zip(waits) {
            let Some(wait) = wait else { continue };
            self.waits.saturating_record(microseconds(*wait));
            if *step == Step::Refused {
                self.refusals.saturating_record(microseconds(*wait));
            }
        }
    }

    /// Adds the figures of another slice or worker.
    pub fn add(&mut self, other: &Self) {
        // Cannot fail: all histograms have the same bounds.
        let _ = self.latency.add(&other.latency);
        let _ = self.lag.add(&other.lag);
        let _ = self.waits.add(&other.waits);
        let _ = self.refusals.add(&other.refusals);
        for (phase, more) in self.phases.iter_mut().zip(&other.phases) {
            let _ = phase.latency.add(&more.latency);
            phase.exchanges.add(&more.exchanges);
        }
        self.completed += other.completed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// The outcomes of the requests of a phase.
    pub const fn exchanges(&self, phase: Phase) -> &Exchanges {
        &self.phases[phase as usize].exchanges
    }
}

/// A latency in the unit of the histograms.
pub(crate) fn microseconds_between(from: Instant, to: Instant) -> u64 {
    microseconds(to.saturating_duration_since(from))
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(LATENCY_US_MAX).clamp(1, LATENCY_US_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::exchanges::GeneratorCounts;

    #[test]
    fn phase_starts_at_the_end_of_the_previous_one() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let window = Window { from: start, measure_from: at(10), measure_until: at(100), until: at(100) };
        let mut tally = Tally::default();
        let of_payment = |[discovery, agreement, transfer]: [Step; 3]| -> Steps {
            [discovery, agreement, Step::Unreached, transfer]
        };
        let mut count = |steps: [Step; 3], began| {
            let steps = of_payment(steps);
            let _ = tally.count(&Phase::OF_PAYMENT, &steps, at(began), &window);
        };
        count([Step::Done(at(13)), Step::Done(at(20)), Step::Done(at(25))], 11);
        // This operation began inside and completed outside: its latency counts, its completion does not.
        count([Step::Done(at(98)), Step::Done(at(99)), Step::Done(at(101))], 97);
        // This operation began outside and completed inside: its completion counts, its latency does not.
        count([Step::Done(at(9)), Step::Done(at(10)), Step::Done(at(11))], 8);
        count([Step::Done(at(30)), Step::Late, Step::Unreached], 20);
        count([Step::Refused, Step::Unreached, Step::Unreached], 5);
        let maxima = tally.phases.each_ref().map(|phase| phase.latency.max() / 1000);
        assert_eq!((maxima, tally.latency.max() / 1000), ([10, 7, 0, 5], 14));
        assert_eq!((tally.latency.len(), tally.completed, tally.failed), (2, 2, 1));
        let originated = GeneratorCounts { sent: 5, accepted: 4, refused: 1, unanswered: 0 };
        let discovery = Exchanges { originated, completed: 4, ..Exchanges::default() };
        let originated = GeneratorCounts { sent: 4, accepted: 4, ..GeneratorCounts::default() };
        let agreement = Exchanges { originated, completed: 3, late: 1, ..Exchanges::default() };
        assert_eq!((*tally.exchanges(Phase::Lookup), *tally.exchanges(Phase::Quote)), (discovery, agreement));
        let mut sum = tally.clone();
        sum.add(&tally);
        assert_eq!((sum.exchanges(Phase::Transfer).completed, sum.latency.len()), (6, 4));
        let steps = of_payment([Step::Unreached, Step::Refused, Step::Late]);
        let waits = [None, Some(Duration::from_millis(2)), None, Some(Duration::from_secs(1))];
        sum.count_waits(&steps, &waits);
        sum.add(&sum.clone());
        assert_eq!((sum.waits.len(), sum.waits.max() / 1000), (4, 1000));
        assert_eq!((sum.refusals.len(), sum.refusals.max() / 1000), (2, 2));
    }

    #[test]
    fn each_end_of_a_request_is_counted_once() {
        let mut exchanges = Exchanges::default();
        let ends = [
            Step::Unreached,
            Step::Repeated,
            Step::Refused,
            Step::Unanswered,
            Step::Late,
            Step::Error,
            Step::Wrong,
            Step::Done(Instant::now()),
        ];
        ends.into_iter().for_each(|step| exchanges.count(step));
        let Exchanges { originated, completed, errors, wrong, late } = exchanges;
        let GeneratorCounts { sent, accepted, refused, unanswered } = originated;
        assert_eq!((sent, refused + unanswered, completed + errors + wrong + late), (6, 2, accepted));
    }
}
