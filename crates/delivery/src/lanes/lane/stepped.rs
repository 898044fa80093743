//! A lane without tasks or connections: only its decisions, which the caller carries out.

use tokio::time::Instant;
use upesi_ledger::CallbackKey;

use super::core::LaneCore;
pub use super::entry::ParkedCallback;
use super::entry::{Entry, Outcome};
use super::recall::{SCANNED_KEYS_MAX, Scan};
use crate::lanes::CourierConfig;
use crate::lanes::backlog::{LaneCapacity, Page};
use crate::lanes::callback::{OwedCallback, Position, Refusal};
use crate::lanes::lane::catch_up::PageRequest;
use upesi_http::BreakerState;

/// The decisions of a lane, step by step, for simulations. Each action of a lane's slots and keeper between two waits
/// is one call here. The caller provides all instants.
#[derive(Debug)]
pub struct SteppedLane {
    core: LaneCore,
    config: CourierConfig,
    asked: Option<PageRequest>,
    scan: Option<Scan>,
}

/// A callback that is being sent.
#[derive(Debug)]
pub struct DeliveryAttempt(Entry);

impl DeliveryAttempt {
    pub const fn callback(&self) -> &OwedCallback {
        &self.0.callback
    }
}

/// Outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// Answered with 2xx.
    Delivered,
    /// Answered with another status.
    Refused(Refusal),
    /// Not answered.
    Unreachable(String),
    /// The callback cannot be sent, for this reason.
    Unroutable(String),
}

/// Reports for the outbox.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct OutboxReports {
    pub delivered: Vec<CallbackKey>,
    pub parked: Vec<ParkedCallback>,
}

impl SteppedLane {
    /// A lane that begins with the callbacks in the outbox; the seed determines its delays.
    pub fn new(config: CourierConfig, seed: u64) -> Self {
        Self { core: LaneCore::new(config.clone(), seed), config, asked: None, scan: None }
    }

    /// Accepts a callback that has just become durable.
    pub fn offer(&mut self, callback: OwedCallback, now: Instant) {
        self.core.offer(callback, now);
    }

    /// The page to fetch now: the position after which it begins, and its size. Call [`Self::page`] afterwards.
    pub fn ask(&mut self) -> Option<(Option<Position>, LaneCapacity)> {
        let (asked, room) = self.core.ask()?;
        self.asked = Some(asked);
        Some((asked.after, room))
    }

    /// Accepts the requested page; `None` if it could not be read.
    pub fn page(&mut self, page: Option<Page>, now: Instant) {
        match (self.asked.take(), page) {
            (Some(asked), Some(page)) => self.core.page(asked, page, now),
            _ => self.core.page_failed(),
        }
    }

    /// From now on, another node delivers.
    pub fn leave(&mut self) {
        self.core.leave();
    }

    /// From now on, this node delivers.
    pub fn begin(&mut self) {
        self.core.begin();
    }

    /// Whether another node delivers.
    pub const fn is_elsewhere(&self) -> bool {
        self.core.elsewhere
    }

    /// Records that the target has the answer to the request that caused this callback.
    pub fn answered(&mut self, key: CallbackKey) {
        self.core.answered(key);
    }

    /// Records parked callbacks that an operator sends again.
    pub fn recall(&mut self, keys: impl IntoIterator<Item = CallbackKey>) {
        self.core.recall(keys);
    }

    /// The keys to read now from the outbox: the position after which they begin, and their maximum number. Call
    /// [`Self::scanned`] afterwards.
    pub fn scan(&mut self) -> Option<(Option<Position>, usize)> {
        let scan = self.scan.is_none().then(|| self.core.scan()).flatten()?;
        self.scan = Some(scan);
        Some((scan.after(), SCANNED_KEYS_MAX))
    }

    /// Accepts the requested keys; `None` if they could not be read.
    pub fn scanned(&mut self, keys: Option<&[CallbackKey]>) {
        if let (Some(scan), Some(keys)) = (self.scan.take(), keys) {
            self.core.scanned(scan, keys, keys.len() >= SCANNED_KEYS_MAX);
        }
    }

    /// The callbacks to load now by their keys. Call [`Self::loaded`] afterwards.
    pub fn take_loads(&mut self, items_max: usize, now: Instant) -> Vec<CallbackKey> {
        self.core.take_loads(items_max, now)
    }

    /// Accepts the loaded callbacks that are still owed; `None` if they could not be read.
    pub fn loaded(&mut self, asked: &[CallbackKey], callbacks: Option<Vec<OwedCallback>>, now: Instant) {
        match callbacks {
            Some(callbacks) => self.core.loaded(asked, callbacks, now),
            None => self.core.load_failed(asked),
        }
    }

    /// The next callback to send, if one may be sent now and a slot is free.
    pub fn take(&mut self, now: Instant) -> Option<DeliveryAttempt> {
        if self.core.in_flight() >= self.config.concurrency_max {
            return None;
        }
        self.core.take(now).map(DeliveryAttempt)
    }

    /// Accepts a callback after its attempt.
    pub fn finish(&mut self, sending: DeliveryAttempt, done: Done, now: Instant) {
        let outcome = match done {
            Done::Delivered => Outcome::Delivered,
            Done::Refused(refusal) => Outcome::Refused(refusal),
            Done::Unreachable(reason) => Outcome::Unreachable(reason),
            Done::Unroutable(reason) => Outcome::Unroutable(reason),
        };
        self.core.finish(sending.0, outcome, now);
    }

    /// Advances the time; returns the next due time.
    pub fn at(&mut self, now: Instant) -> Option<Instant> {
        self.core.at(now);
        self.core.next_time(now)
    }

    /// The reports since the last call.
    pub fn settled(&mut self) -> OutboxReports {
        let actions = self.core.actions();
        OutboxReports { delivered: actions.delivered, parked: actions.parked }
    }

    /// Number of callbacks in memory, including those in flight.
    pub const fn items(&self) -> usize {
        self.core.items()
    }

    /// Whether the outbox may hold more than is in memory.
    pub const fn is_behind(&self) -> bool {
        self.core.is_behind()
    }

    pub const fn breaker(&self) -> BreakerState {
        self.core.breaker()
    }
}
