//! A slot: sends one callback at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::Notify;
use tokio::time::Instant;
use upesi_http::{Answer, Pool, SendError};

use super::Lane;
use super::entry::{Entry, Outcome};
use super::retry_after::retry_after;
use crate::Unroutable;
use crate::lanes::callback::{HopTiming, OwedCallback};
use crate::lanes::metrics::add;

pub(super) async fn run(lane: Arc<Lane>, index: usize, wake: Arc<Notify>) {
    let mut pool = None;
    let mut done = None;
    loop {
        match lane.step(index, done.take()) {
            Some(entry) => {
                let outcome = lane.attempt(&entry, &mut pool).await;
                done = Some((entry, outcome));
            }
            None => wake.notified().await,
        }
    }
}

impl Lane {
    /// Finishes the last callback and takes the next; lets the slot sleep if there is none.
    fn step(self: &Arc<Self>, index: usize, done: Option<(Entry, Outcome)>) -> Option<Entry> {
        let now = Instant::now();
        if let Some((entry, outcome)) = &done {
            self.count(entry, outcome, now);
        }
        let mut state = self.state();
        if let Some((entry, outcome)) = done {
            let opened = state.core.breaker_opened();
            state.core.finish(entry, outcome, now);
            self.term.store(state.core.term(), Ordering::Release);
            add(&self.metrics.breaker_opened, state.core.breaker_opened() - opened);
        }
        let next = state.core.take(now);
        if next.is_none() {
            state.asleep.push(index);
        }
        let wake = if next.is_some() { state.wake(now, &self.config) } else { super::SlotWake::Nothing };
        let actions = state.core.actions();
        let drained = state.core.draining && state.core.in_flight() == 0;
        drop(state);
        self.perform(actions, wake);
        if drained {
            self.drained.notify_waiters();
        }
        next
    }

    fn count(&self, entry: &Entry, outcome: &Outcome, now: Instant) {
        let metrics = &self.metrics;
        let (counter, durations) = match outcome {
            Outcome::Delivered => (&metrics.delivered, &metrics.delivery_duration),
            Outcome::Refused(_) => (&metrics.refused, &metrics.failure_duration),
            Outcome::Unreachable(_) => (&metrics.unreachable, &metrics.failure_duration),
            Outcome::Unroutable(_) => return,
        };
        add(counter, 1);
        if self.config.records_metrics {
            durations.observe(now.duration_since(entry.tries.since));
            if *outcome == Outcome::Delivered {
                self.observe_hop(&entry.callback);
            }
        }
    }

    /// Records the time that the parties of the transfer have waited for the callback.
    fn observe_hop(&self, callback: &OwedCallback) {
        let metrics = &self.metrics;
        match self.renderer.hop_timing(callback.key, &callback.record) {
            None => {}
            Some(HopTiming::Prepare(took)) => metrics.prepare_duration.observe(took),
            Some(HopTiming::Fulfil { took, in_all }) => {
                metrics.fulfil_duration.observe(took);
                in_all.into_iter().for_each(|in_all| metrics.transfer_duration.observe(in_all));
            }
        }
    }

    async fn attempt(&self, entry: &Entry, pool: &mut Option<Arc<Pool>>) -> Outcome {
        if entry.is_repeated()
            && entry.tries.was_refused
            && let Some(why) = self.renderer.is_moot(entry.callback.key, &entry.callback.record)
        {
            let last = entry.tries.reason.as_deref().unwrap_or_default();
            return Outcome::Unroutable(format!("{last}; {why}"));
        }
        let started = Instant::now();
        let deadline = started + self.config.request_timeout;
        let mut result = match self.send(entry, pool, deadline).await {
            Ok(result) => result,
            Err(unroutable) => return Outcome::Unroutable(unroutable.to_string()),
        };
        if let Err(SendError::Closed { reused: true }) = result {
            // The DFSP closed an idle connection just as it was reused, which is not a failure. The request may have
            // arrived, but delivery is at least once anyway.
            result = match self.send(entry, pool, deadline).await {
                Ok(result) => result,
                Err(unroutable) => return Outcome::Unroutable(unroutable.to_string()),
            };
        }
        if self.config.records_metrics {
            self.metrics.attempt_duration.observe(started.elapsed());
        }
        match result {
            Ok(answer) if answer.status.is_success() => Outcome::Delivered,
            Ok(answer) => {
                let mut refusal = self.renderer.refusal(answer.status, &answer.body);
                if let Some(wait) = retry_after(&answer.headers) {
                    refusal.retry_after = Some(wait);
                    refusal.reason.push_str(&format!(", Retry-After {} s", wait.as_secs()));
                }
                Outcome::Refused(refusal)
            }
            Err(error) => Outcome::Unreachable(error.to_string()),
        }
    }

    async fn send(
        &self,
        entry: &Entry,
        pool: &mut Option<Arc<Pool>>,
        deadline: Instant,
    ) -> Result<Result<Answer, SendError>, Unroutable> {
        let outgoing = self.renderer.render(entry.callback.key, &entry.callback.record)?;
        let origin = &outgoing.target.origin;
        let pool = match pool {
            Some(used) if used.origin() == origin => used,
            other => other.insert(self.pools.of(origin, || self.renderer.name(self.target))),
        };
        let request = outgoing.into_http(self.config.signer.as_ref()).await;
        Ok(pool.send(request, deadline).await)
    }
}
