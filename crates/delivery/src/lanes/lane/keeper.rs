//! The keeper of a lane: waits for due times, fetches from the outbox, reports.

use std::future::pending;
use std::sync::Arc;

use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::Lane;
use super::recall::SCANNED_KEYS_MAX;
use crate::lanes::backlog::BacklogError;
use crate::lanes::metrics::add;

/// Number of callbacks that are loaded together by their keys.
const LOADED_ITEMS_MAX: usize = 16;

pub(super) async fn run(lane: Arc<Lane>) {
    let mut backlog_rests_until = None;
    let mut sweep = interval(lane.config.idle_timeout);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        if backlog_rests_until.is_none_or(|until| until <= Instant::now()) {
            backlog_rests_until = match lane.fetch().await {
                Ok(()) => None,
                Err(error) => Some(lane.backlog_failed(&error)),
            };
        }
        let next = lane.keep(Instant::now()).into_iter().chain(backlog_rests_until).min();
        let sleep = async {
            match next {
                Some(next) => sleep_until(next).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = sweep.tick() => {
                lane.pools.close_expired();
                lane.direct.close_expired();
            }
            () = lane.keeper.notified() => {}
            () = sleep => {}
        }
    }
}

impl Lane {
    /// Does everything that is due; returns the next due time.
    fn keep(self: &Arc<Self>, now: Instant) -> Option<Instant> {
        let mut state = self.state();
        state.core.at(now);
        let wake = state.wake(now, &self.config);
        let next = state.core.next_time(now);
        let actions = state.core.actions();
        drop(state);
        self.perform(actions, wake);
        next
    }

    /// Fetches pages until the lane has caught up or is full, then loads callbacks by their keys.
    async fn fetch(self: &Arc<Self>) -> Result<(), BacklogError> {
        loop {
            let asked = self.state().core.ask();
            let Some((asked, room)) = asked else { break };
            match self.backlog.pending(self.target, asked.after, room).await {
                Ok(page) => self.take_in(|core, now| core.page(asked, page, now)),
                Err(error) => {
                    self.state().core.page_failed();
                    return Err(error);
                }
            }
        }
        loop {
            let scan = self.state().core.scan();
            if let Some(scan) = scan {
                let keys = self.backlog.keys(self.target, scan.after(), SCANNED_KEYS_MAX).await?;
                self.state().core.scanned(scan, &keys, keys.len() >= SCANNED_KEYS_MAX);
            }
            let keys = self.state().core.take_loads(LOADED_ITEMS_MAX, Instant::now());
            if keys.is_empty() {
                if scan.is_some() {
                    continue;
                }
                return Ok(());
            }
            match self.backlog.load(keys.clone()).await {
                Ok(callbacks) => self.take_in(|core, now| core.loaded(&keys, callbacks, now)),
                Err(error) => {
                    self.state().core.load_failed(&keys);
                    return Err(error);
                }
            }
        }
    }

    fn take_in(self: &Arc<Self>, admit: impl FnOnce(&mut super::core::LaneCore, Instant)) {
        let now = Instant::now();
        let mut state = self.state();
        admit(&mut state.core, now);
        let (wake, actions) = (state.wake(now, &self.config), state.core.actions());
        drop(state);
        self.perform(actions, wake);
    }

    fn backlog_failed(&self, error: &BacklogError) -> Instant {
        add(&self.metrics.backlog_failures, 1);
        tracing::warn!(participant = %self.renderer.name(self.target), %error, "the lane cannot read its backlog yet");
        Instant::now() + self.config.backlog_retry_wait
    }
}
