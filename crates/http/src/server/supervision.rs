//! Time limits of connections without a timer per request.
//!
//! Every connection notes in which phase it is and at which tick it entered it: two relaxed stores. One task per worker
//! advances the tick, looks through the worker's connections and tells those that took too long to finish or to end.
//! The limits are therefore exact to one sweep interval, which is enough for limits of seconds.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use super::Limits;
use crate::sync::{AtomicBool, AtomicU8, AtomicU32, Mutex, MutexGuard, OnceLock, fence};

/// Longest time between two sweeps.
const SWEEP_INTERVAL_MAX: Duration = Duration::from_millis(250);
/// How long a connection that the server closes in the middle of a request goes on reading, so that the answer is not
/// lost in a reset.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// Between requests.
    Idle,
    /// Part of a head has arrived.
    Head,
    /// The service has a request; it has its own deadlines.
    Busy,
    /// The server has closed its side and reads what the peer still sends.
    Closing,
}

/// What a connection is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Order {
    Serve,
    /// End after the request in flight, at once where there is none.
    Finish,
    /// End now.
    Abort,
}

/// One connection as its supervisor sees it.
#[derive(Debug)]
pub(super) struct Watched {
    supervisor: Arc<Supervisor>,
    phase: AtomicU8,
    since_tick: AtomicU32,
    order: AtomicU8,
    ended: AtomicBool,
    waker: OnceLock<Waker>,
}

impl Watched {
    pub(super) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Idle,
            1 => Phase::Head,
            2 => Phase::Busy,
            _ => Phase::Closing,
        }
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.since_tick.store(self.supervisor.tick.load(Ordering::Relaxed), Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Read at each poll of the connection's task. The first call notes whom to wake: the task, which stays the same.
    pub(super) fn order(&self, context: &Context<'_>) -> Order {
        if self.waker.get().is_none() {
            let _ = self.waker.set(context.waker().clone());
            // With the fence in `tell`: either this poll reads the order, or who gives it finds whom to wake.
            fence(Ordering::SeqCst);
        }
        match self.order.load(Ordering::Acquire) {
            0 => Order::Serve,
            1 => Order::Finish,
            _ => Order::Abort,
        }
    }

    fn tell(&self, order: Order) {
        if self.order.fetch_max(order as u8, Ordering::AcqRel) >= order as u8 {
            return;
        }
        fence(Ordering::SeqCst);
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }
}

/// Marks the connection as ended when its task ends, however it ends.
pub(super) struct Guard(pub(super) Arc<Watched>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
    }
}

/// Watches the connections of one server on one worker.
#[derive(Debug)]
pub(super) struct Supervisor {
    interval: Duration,
    head_ticks: u32,
    idle_ticks: u32,
    linger_ticks: u32,
    tick: AtomicU32,
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    watched: Vec<Arc<Watched>>,
    finishing: bool,
}

impl Supervisor {
    pub(super) fn new(limits: &Limits) -> Self {
        let shortest = limits.head_timeout.min(limits.idle_timeout);
        let interval = (shortest / 4).clamp(Duration::from_millis(5), SWEEP_INTERVAL_MAX);
        // One more than fits, since the first tick comes early by up to an interval.
        let ticks = |limit: Duration| {
            u32::try_from(limit.as_nanos() / interval.as_nanos()).map_or(u32::MAX, |ticks| ticks + 1)
        };
        Self {
            interval,
            head_ticks: ticks(limits.head_timeout),
            idle_ticks: ticks(limits.idle_timeout),
            linger_ticks: ticks(LINGER_TIMEOUT),
            tick: AtomicU32::new(0),
            connections: Mutex::default(),
        }
    }

    /// Begins to watch a new connection.
    pub(super) fn watch(self: &Arc<Self>) -> Guard {
        let watched = Arc::new(Watched {
            supervisor: self.clone(),
            phase: AtomicU8::new(Phase::Idle as u8),
            since_tick: AtomicU32::new(self.tick.load(Ordering::Relaxed)),
            order: AtomicU8::new(Order::Serve as u8),
            ended: AtomicBool::new(false),
            waker: OnceLock::new(),
        });
        let mut connections = self.connections();
        if connections.finishing {
            watched.tell(Order::Finish);
        }
        connections.watched.push(watched.clone());
        Guard(watched)
    }

    /// Tells all connections, and those to come, to finish.
    pub(super) fn finish_all(&self) {
        let mut connections = self.connections();
        connections.finishing = true;
        for watched in &connections.watched {
            watched.tell(Order::Finish);
        }
    }

    /// Sweeps until the runtime ends, or until the last connection has ended after [`Self::finish_all`].
    pub(super) async fn run(self: Arc<Self>) {
        let mut interval = tokio::time::interval(self.interval);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            if self.sweep() {
                return;
            }
        }
    }

    /// Judges all connections and forgets those that have ended; whether none is left after [`Self::finish_all`].
    pub(super) fn sweep(&self) -> bool {
        let now = self.tick.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let mut connections = self.connections();
        connections.watched.retain(|watched| {
            self.judge(watched, now);
            !watched.ended.load(Ordering::Acquire)
        });
        connections.finishing && connections.watched.is_empty()
    }

    fn judge(&self, watched: &Watched, now: u32) {
        let age = now.wrapping_sub(watched.since_tick.load(Ordering::Relaxed));
        match watched.phase() {
            Phase::Busy => {}
            Phase::Head if age > self.head_ticks => watched.tell(Order::Abort),
            Phase::Closing if age > self.linger_ticks => watched.tell(Order::Abort),
            // It should have ended by itself: the peer does not read the last answer.
            Phase::Idle if age > self.idle_ticks.saturating_add(self.head_ticks) => {
                watched.tell(Order::Abort)
            }
            Phase::Idle if age > self.idle_ticks => watched.tell(Order::Finish),
            Phase::Idle | Phase::Head | Phase::Closing => {}
        }
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
