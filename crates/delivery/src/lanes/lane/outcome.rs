//! The consequence of an attempt: the callback is reported, repeated or parked.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use upesi_ledger::CallbackKey;

use super::core::LaneCore;
use super::entry::{Entry, Outcome, ParkedCallback};
use super::repeats::{AWAY_MAX, UnloadedCallback};
use crate::lanes::callback::Repetition;

/// Number of attempts at a callback that is repeated only a few times.
pub(super) const ATTEMPTS_FEW: u32 = 5;

impl LaneCore {
    /// Accepts a callback after its attempt.
    pub(super) fn finish(&mut self, mut entry: Entry, outcome: Outcome, now: Instant) {
        let key = entry.callback.key;
        if let Some(index) = self.in_flight.iter().position(|in_flight| in_flight.key == key) {
            self.in_flight.swap_remove(index);
        }
        self.repeats_in_flight -= usize::from(entry.is_repeated());
        self.judge(&mut entry, &outcome, now);
        let retry_after = match &outcome {
            Outcome::Refused(refusal) => refusal.retry_after.unwrap_or_default(),
            _ => Duration::ZERO,
        };
        let failure = outcome.failure();
        if failure.is_none() {
            self.report(key, now);
        }
        if self.elsewhere {
            self.release(&entry);
            return self.ended_elsewhere();
        }
        let Some(failure) = failure else { return self.release(&entry) };
        let reason = Arc::from(failure.reason);
        self.last_error = Some(Arc::clone(&reason));
        entry.tries.reason = Some(reason);
        entry.tries.was_refused = failure.is_answered;
        match failure.repetition {
            None => self.park(entry),
            Some(Repetition::AFewTimes) if entry.tries.attempts >= ATTEMPTS_FEW => self.park(entry),
            Some(_) if entry.tries.is_late(now) => self.park(entry),
            Some(repetition) => self.repeat(entry, repetition, retry_after, now),
        }
    }

    /// Updates the breakers by what the outcome says about the DFSP.
    fn judge(&mut self, entry: &mut Entry, outcome: &Outcome, now: Instant) {
        let was_probe = std::mem::take(&mut entry.is_probe);
        let was_trial = std::mem::take(&mut entry.is_trial);
        let opened_before = self.breaker.opened + self.refusals.opened;
        match outcome {
            Outcome::Delivered | Outcome::Refused(_) => self.breaker.answered(),
            Outcome::Unreachable(_) => self.breaker.failed(was_probe, now, &mut self.jitter),
            Outcome::Unroutable(_) if was_probe => self.breaker.probe_void(now),
            Outcome::Unroutable(_) => {}
        }
        if let Outcome::Refused(refusal) = outcome
            && let Some(until) = refusal.pause().map(|pause| now + pause)
        {
            self.paused_until = self.paused_until.max(Some(until));
            self.actions.wake_keeper = true;
        }
        match outcome {
            Outcome::Delivered => self.refusals.answered(),
            // Callbacks that were rejected before say nothing about new ones.
            Outcome::Refused(_) if !entry.is_repeated() => {
                self.refusals.failed(was_trial, now, &mut self.jitter);
            }
            _ if was_trial => self.refusals.probe_void(now),
            _ => {}
        }
        let opened = self.breaker.opened + self.refusals.opened != opened_before;
        self.actions.wake_keeper |= was_probe || was_trial || opened;
    }

    pub(super) fn report(&mut self, key: CallbackKey, now: Instant) {
        self.reports.push(key);
        if self.reports.len() >= self.config.report_items {
            self.take_reports();
        } else if self.reports_due.is_none() {
            self.reports_due = Some(now + self.config.report_interval);
            self.actions.wake_keeper = true;
        }
    }

    pub(super) fn take_reports(&mut self) {
        self.actions.delivered.append(&mut self.reports);
        self.reports_due = None;
    }

    fn repeat(&mut self, entry: Entry, repetition: Repetition, retry_after: Duration, now: Instant) {
        let (first, longest) = (self.config.backoff_min, self.config.backoff_max);
        let wait = match repetition {
            Repetition::UntilDeadline => {
                self.jitter.wait(first, longest, entry.tries.attempts.saturating_sub(1))
            }
            Repetition::AFewTimes => self.jitter.pause(longest, longest, 0),
        };
        let due = now + wait.max(retry_after);
        // The keeper parks a callback at its deadline.
        let due = entry.tries.deadline.map_or(due, |deadline| due.min(deadline));
        self.actions.wake_keeper |= self.repeats.next(now).is_none_or(|next| due < next);
        self.repeats.insert(due, entry);
        self.keep_within_budget(now);
    }

    /// Removes the callbacks with the most attempts from memory, while there are too many. They return after the
    /// longest delay.
    fn keep_within_budget(&mut self, now: Instant) {
        while let Some((due, entry)) = self.repeats.excess() {
            let wait = self.jitter.pause(2 * self.config.backoff_max, 2 * self.config.backoff_max, 0);
            let later = now + wait;
            let later = entry.tries.deadline.map_or(later, |deadline| deadline.min(later));
            self.items -= 1;
            self.bytes -= entry.callback.bytes;
            self.repeats.leave(entry.callback.key, entry.callback.order, entry.tries, due.max(later));
        }
        while let Some((key, away)) = self.repeats.crowded_out() {
            self.park_away(
                key,
                away,
                &format!("; parked early, because more than {AWAY_MAX} callbacks wait for repetition"),
            );
        }
    }

    pub(super) fn park(&mut self, entry: Entry) {
        self.release(&entry);
        let reason = entry.tries.reason.as_deref().unwrap_or_default().to_owned();
        let (key, attempts) = (entry.callback.key, entry.tries.attempts);
        self.actions.parked.push(ParkedCallback { key, reason, attempts });
    }

    /// Parks a callback that is not in memory.
    pub(super) fn park_away(&mut self, key: CallbackKey, away: UnloadedCallback, why: &str) {
        let reason = format!("{}{why}", away.tries.reason.as_deref().unwrap_or_default());
        self.actions.parked.push(ParkedCallback { key, reason, attempts: away.tries.attempts });
        self.release_order(away.order);
    }

    /// The callback leaves the lane, so the next of its transfer may be sent.
    fn release(&mut self, entry: &Entry) {
        self.items -= 1;
        self.bytes -= entry.callback.bytes;
        self.release_order(entry.callback.order);
        if self.catch_up.is_behind() || self.recall.is_some() {
            self.actions.wake_keeper |= self.has_room();
        }
        self.actions.wake_keeper |= !self.loads.is_empty();
    }

    // ---- other messages ----

    /// Whether a message other than a callback may be sent now: no (`None`), or as the probe (`Some(true)`).
    pub(super) fn begin_direct(&mut self, now: Instant) -> Option<bool> {
        use upesi_http::BreakerDecision;
        if self.draining {
            return None;
        }
        match self.breaker.passage(now) {
            BreakerDecision::Barred(_) => None,
            BreakerDecision::Free => Some(false),
            BreakerDecision::Probe => {
                self.breaker.begin_probe();
                Some(true)
            }
        }
    }

    /// Records the end of such a message: `Ok` if there was an answer, `None` if it says nothing about the DFSP.
    pub(super) fn end_direct(&mut self, was_probe: bool, end: Option<Result<(), String>>, now: Instant) {
        let opened_before = self.breaker.opened;
        match end {
            Some(Ok(())) => self.breaker.answered(),
            Some(Err(reason)) => {
                self.last_error = Some(reason.into());
                self.breaker.failed(was_probe, now, &mut self.jitter);
            }
            None if was_probe => self.breaker.probe_void(now),
            None => {}
        }
        self.actions.wake_keeper |= was_probe || self.breaker.opened != opened_before;
    }
}
