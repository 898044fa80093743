//! One lane: its decisions ([`core`]), the tasks that carry them out, and its connections.
//!
//! A lane lives on one worker. Up to `concurrency_max` *slots* each send one callback at a time. They are started when
//! needed and sleep while there is nothing to send. The slot that worked last is woken first, so a light load needs few
//! connections. One *keeper* waits for due times, fetches from the outbox and reports.

mod catch_up;
mod core;
mod counts;
pub(crate) mod direct;
mod entry;
mod holds;
mod keeper;
mod outcome;
mod pools;
mod recall;
mod repeats;
mod retry_after;
mod slot;
pub(crate) mod stepped;

#[cfg(test)]
mod recall_tests;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use upesi_http::WorkerHandle;
use upesi_ledger::{CallbackKey, ParticipantId};

use self::core::LaneCore;
use self::entry::LaneActions;
use crate::lanes::backlog::Backlog;
use crate::lanes::callback::OwedCallback;
use crate::lanes::metrics::{LaneMetrics, add};
use crate::lanes::renderer::Renderer;
use crate::lanes::{CourierConfig, Failure, LaneStatus};

pub(crate) struct Lane {
    target: ParticipantId,
    config: CourierConfig,
    worker: WorkerHandle,
    state: Mutex<State>,
    keeper: Notify,
    /// Notified when the last request in flight ends while the lane drains.
    drained: Notify,
    /// The core's term, for the threads that bring callbacks: 0 while another node delivers.
    term: AtomicU64,
    backlog: Arc<dyn Backlog>,
    renderer: Arc<dyn Renderer>,
    pools: pools::Pools,
    direct: direct::Direct,
    metrics: Arc<LaneMetrics>,
}

/// A period of deliveries by this node to a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term(u64);

struct State {
    core: LaneCore,
    slots: Vec<Arc<Notify>>,
    /// Indices of the sleeping slots; the last one fell asleep last.
    asleep: Vec<usize>,
}

/// A slot to wake or to start.
enum SlotWake {
    Nothing,
    Slot(Arc<Notify>),
    New(usize, Arc<Notify>),
}

impl Lane {
    /// A lane that begins with the callbacks in the outbox, unless another node delivers those.
    pub(crate) fn start(
        target: ParticipantId,
        config: &CourierConfig,
        elsewhere: bool,
        worker: WorkerHandle,
        backlog: Arc<dyn Backlog>,
        renderer: Arc<dyn Renderer>,
    ) -> Arc<Self> {
        // Lanes must not retry in step with each other.
        let seed = config.seed ^ u64::from(target.number()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let metrics = Arc::new(LaneMetrics::default());
        add(&metrics.catch_ups, u64::from(!elsewhere));
        let mut core = LaneCore::new(config.clone(), seed);
        core.elsewhere = elsewhere;
        let term = AtomicU64::new(core.term());
        let state = State { core, slots: Vec::new(), asleep: Vec::new() };
        let lane = Arc::new(Self {
            target,
            config: config.clone(),
            worker,
            state: Mutex::new(state),
            keeper: Notify::new(),
            drained: Notify::new(),
            term,
            backlog,
            renderer,
            pools: pools::Pools::new(config),
            direct: direct::Direct::new(config),
            metrics,
        });
        lane.worker.spawn(keeper::run(lane.clone()));
        lane
    }

    /// Accepts callbacks that became durable in this term, in order, and wakes the lane once. In a later term they come
    /// from the outbox.
    pub(crate) fn offer(self: &Arc<Self>, term: Term, callbacks: impl Iterator<Item = OwedCallback>) {
        let now = Instant::now();
        let mut state = self.state();
        if state.core.term() != term.0 {
            return;
        }
        for callback in callbacks {
            state.core.offer(callback, now);
        }
        let (wake, actions) = (state.wake(now, &self.config), state.core.actions());
        drop(state);
        self.perform(actions, wake);
    }

    pub(crate) fn recall(self: &Arc<Self>, keys: impl IntoIterator<Item = CallbackKey>) {
        self.change(|core| core.recall(keys));
    }

    /// Releases callbacks whose target has the answer to the request that caused them.
    pub(crate) fn answered(self: &Arc<Self>, keys: &[CallbackKey]) {
        let mut state = self.state();
        for key in keys {
            state.core.answered(*key);
        }
        let (wake, actions) = (state.wake(Instant::now(), &self.config), state.core.actions());
        drop(state);
        self.perform(actions, wake);
    }

    /// Failures of the given callbacks that are still being repeated.
    pub(crate) fn failures(&self, keys: &BTreeSet<CallbackKey>) -> Vec<Failure> {
        let state = self.state();
        let failed = state.core.failed().filter(|(key, _, _)| keys.contains(key));
        failed.map(|(key, attempts, reason)| Failure { key, attempts, reason: reason.to_string() }).collect()
    }

    /// The current term of this node; `None` while another node delivers.
    pub(crate) fn term(&self) -> Option<Term> {
        Some(Term(self.term.load(Ordering::Acquire))).filter(|term| term.0 > 0)
    }

    /// From now on, another node delivers.
    pub(crate) fn leave(self: &Arc<Self>) {
        self.change(LaneCore::leave);
    }

    /// From now on, this node delivers.
    pub(crate) fn begin(self: &Arc<Self>) {
        add(&self.metrics.catch_ups, 1);
        self.change(LaneCore::begin);
    }

    /// Makes a change after which no slot has something to send immediately.
    fn change(self: &Arc<Self>, change: impl FnOnce(&mut LaneCore)) {
        let mut state = self.state();
        change(&mut state.core);
        self.term.store(state.core.term(), Ordering::Release);
        let actions = state.core.actions();
        drop(state);
        self.perform(actions, SlotWake::Nothing);
    }

    /// Begins nothing more; queued callbacks remain in the outbox.
    pub(crate) fn stop_taking(&self) {
        self.state().core.draining = true;
    }

    /// Waits until no request is in flight, reports all deliveries, and returns the number of requests still in flight.
    pub(crate) async fn drain(self: &Arc<Self>, deadline: Instant) -> usize {
        let none_in_flight = async {
            loop {
                let told = self.drained.notified();
                if self.state().core.in_flight() == 0 {
                    return;
                }
                told.await;
            }
        };
        let _ = timeout_at(deadline, none_in_flight).await;
        let mut state = self.state();
        state.core.report_all();
        let (in_flight, actions) = (state.core.in_flight(), state.core.actions());
        drop(state);
        self.perform(actions, SlotWake::Nothing);
        in_flight
    }

    pub(crate) fn status(&self) -> LaneStatus {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let state = self.state();
        let core = &state.core;
        LaneStatus {
            target: self.target,
            elsewhere: core.elsewhere,
            queued: core.items() - core.retrying() - core.in_flight(),
            retrying: core.retrying() + core.retrying_on_disk(),
            retrying_on_disk: core.retrying_on_disk(),
            refused: core.refused_long(Instant::now()),
            refuses_new: core.refuses_new(),
            in_flight: core.in_flight(),
            bytes: core.bytes(),
            catching_up: core.is_behind() && !core.elsewhere,
            breaker: core.breaker(),
            delivered: count(&self.metrics.delivered),
            failed: count(&self.metrics.refused) + count(&self.metrics.unreachable),
            breaker_opened: count(&self.metrics.breaker_opened),
            catch_ups: count(&self.metrics.catch_ups),
            backlog_failures: count(&self.metrics.backlog_failures),
            parked: count(&self.metrics.parked),
            relayed: count(&self.metrics.relayed),
            relay_failures: count(&self.metrics.relay_failures),
            last_error: core.last_error.as_deref().map(str::to_owned),
            oldest_pending: core.oldest(),
        }
    }

    pub(crate) const fn worker(&self) -> &WorkerHandle {
        &self.worker
    }

    pub(crate) const fn metrics(&self) -> &Arc<LaneMetrics> {
        &self.metrics
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out the actions of decisions, without the lock.
    fn perform(self: &Arc<Self>, actions: LaneActions, wake: SlotWake) {
        if actions.wake_keeper {
            self.keeper.notify_one();
        }
        match wake {
            SlotWake::Nothing => {}
            SlotWake::Slot(slot) => slot.notify_one(),
            SlotWake::New(index, slot) => {
                self.worker.spawn(slot::run(self.clone(), index, slot));
            }
        }
        if actions.fell_behind {
            add(&self.metrics.catch_ups, 1);
            tracing::info!(
                participant = %self.renderer.name(self.target),
                "the lane is full; further callbacks wait in the outbox"
            );
        }
        for parked in actions.parked {
            add(&self.metrics.parked, 1);
            let (key, attempts) = (parked.key, parked.attempts);
            tracing::warn!(
                participant = %self.renderer.name(self.target),
                record = key.seq,
                attempts,
                reason = %parked.reason,
                "a callback is parked"
            );
            self.backlog.parked(key, parked.reason, attempts);
        }
        if !actions.delivered.is_empty() {
            self.backlog.delivered(actions.delivered);
        }
    }
}

impl State {
    /// The slot to wake if there is work: one, which wakes the next if there is more.
    fn wake(&mut self, now: Instant, config: &CourierConfig) -> SlotWake {
        if !self.core.has_work(now) {
            return SlotWake::Nothing;
        }
        if let Some(index) = self.asleep.pop() {
            return SlotWake::Slot(self.slots[index].clone());
        }
        if self.slots.len() >= config.concurrency_max {
            return SlotWake::Nothing;
        }
        let slot = Arc::new(Notify::new());
        self.slots.push(slot.clone());
        SlotWake::New(self.slots.len() - 1, slot)
    }
}
