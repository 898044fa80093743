//! The decisions of a lane, without IO: what is sent next, what waits, what is repeated, given up, reported.
//!
//! Every method takes the time; what must happen outside is left in [`Effects`] for the caller to carry out once it has
//! let go of the lock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hashbrown::HashMap;
use hashbrown::hash_map::Entry as MapEntry;
use tokio::time::Instant;
use upesi_ledger::NoticeKey;

use super::admission::{Admission, Asked, Live};
use crate::CourierConfig;
use crate::backoff::Jitter;
use crate::breaker::{Breaker, Passage};
use crate::contract::{Delivery, Page, Position, Room};
use crate::status::BreakerState;

/// Keys of recalled notices that a lane remembers; only the keys are in memory until there is room for what they name.
pub(super) const RECALLED_MAX: usize = 100_000;

/// A notice in the lane.
#[derive(Debug)]
pub(super) struct Entry<R> {
    pub(super) delivery: Delivery<R>,
    /// When it came into the lane.
    pub(super) since: Instant,
    attempts: u32,
    /// Set with the first attempt.
    deadline: Option<Instant>,
    is_probe: bool,
    /// Why the last attempt failed.
    reason: String,
}

impl<R> Entry<R> {
    fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

/// How an attempt ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Delivered,
    /// Answered, but not with 2xx.
    Refused(String),
    /// Not answered.
    Unreachable(String),
    /// Cannot be sent at all.
    Unroutable(String),
}

/// A notice that is given up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ParkedNotice {
    pub(super) key: NoticeKey,
    pub(super) reason: String,
    pub(super) attempts: u32,
}

/// What must happen outside.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// To report as parked.
    pub(super) parked: Vec<ParkedNotice>,
    /// To report as delivered.
    pub(super) delivered: Vec<NoticeKey>,
    /// The keeper has something new to do or to wait for.
    pub(super) wake_keeper: bool,
    /// The lane has fallen behind.
    pub(super) fell_behind: bool,
}

#[derive(Debug)]
pub(super) struct Core<R> {
    config: CourierConfig,
    admission: Admission,
    /// Not yet attempted, in order.
    ready: VecDeque<Entry<R>>,
    /// No longer held back by an earlier notice of their transfer; they go first.
    released: VecDeque<Entry<R>>,
    /// Transfers with a notice that is released, in flight or to be repeated, and the later notices that wait for it.
    busy: HashMap<u64, VecDeque<Entry<R>>, foldhash::fast::RandomState>,
    /// To be repeated, by time.
    retrying: BTreeMap<(Instant, NoticeKey), Entry<R>>,
    in_flight: Vec<NoticeKey>,
    /// Parked ones that an operator wants sent again, still to be loaded.
    recalled: BTreeSet<NoticeKey>,
    /// Recalled ones that are being loaded.
    loading: BTreeSet<NoticeKey>,
    /// Recalled ones that came in before the page that may bring them too.
    ahead: BTreeSet<Position>,
    items: usize,
    bytes: usize,
    breaker: Breaker,
    jitter: Jitter,
    reports: Vec<NoticeKey>,
    reports_due: Option<Instant>,
    pub(super) draining: bool,
    pub(super) last_error: Option<String>,
    effects: Effects,
}

impl<R> Core<R> {
    pub(super) fn new(config: CourierConfig, seed: u64) -> Self {
        let breaker =
            Breaker::new(config.breaker_failures, config.breaker_pause_first, config.breaker_pause_max);
        Self {
            config,
            admission: Admission::new(),
            ready: VecDeque::new(),
            released: VecDeque::new(),
            busy: HashMap::default(),
            retrying: BTreeMap::new(),
            in_flight: Vec::new(),
            recalled: BTreeSet::new(),
            loading: BTreeSet::new(),
            ahead: BTreeSet::new(),
            items: 0,
            bytes: 0,
            breaker,
            jitter: Jitter::new(seed),
            reports: Vec::new(),
            reports_due: None,
            draining: false,
            last_error: None,
            effects: Effects::default(),
        }
    }

    /// What happened since the last call and must now happen outside.
    pub(super) fn effects(&mut self) -> Effects {
        std::mem::take(&mut self.effects)
    }

    // ---- coming in ----

    /// Takes a notice that has just become durable, or leaves it to the outbox.
    pub(super) fn offer(&mut self, delivery: Delivery<R>, now: Instant) {
        if self.draining {
            return;
        }
        let has_room = self.items < self.config.queue_items_max
            && (self.items == 0 || self.bytes + delivery.bytes <= self.config.queue_bytes_max);
        match self.admission.live(delivery.position(), has_room) {
            Live::Admitted => self.admit(delivery, now),
            Live::Known => {}
            Live::Noted { fell_behind } => {
                self.effects.fell_behind |= fell_behind;
                self.effects.wake_keeper |= fell_behind;
            }
        }
    }

    fn admit(&mut self, delivery: Delivery<R>, now: Instant) {
        self.items += 1;
        self.bytes += delivery.bytes;
        self.ready.push_back(Entry {
            delivery,
            since: now,
            attempts: 0,
            deadline: None,
            is_probe: false,
            reason: String::new(),
        });
    }

    /// The page to fetch now, where the lane is behind and at least half empty.
    pub(super) fn ask(&mut self) -> Option<(Asked, Room)> {
        let room = self.room();
        if self.draining || room.items < self.config.queue_items_max.div_ceil(2) || room.bytes == 0 {
            return None;
        }
        self.admission.ask().map(|asked| (asked, room))
    }

    fn room(&self) -> Room {
        Room {
            items: self.config.queue_items_max.saturating_sub(self.items),
            bytes: self.config.queue_bytes_max.saturating_sub(self.bytes),
        }
    }

    /// Takes a page. More than was asked for is left to the next.
    pub(super) fn page(&mut self, asked: Asked, page: Page<R>, now: Instant) {
        let mut complete = !page.more;
        for delivery in page.items {
            let room = self.room();
            if room.items == 0 || (room.bytes == 0 && self.items > 0) {
                complete = false;
                break;
            }
            let position = delivery.position();
            if self.admission.fetched(position) && !self.ahead.remove(&position) {
                // Recalled, it is parked no more, and so on this page.
                self.recalled.remove(&delivery.key);
                self.loading.remove(&delivery.key);
                self.admit(delivery, now);
            }
        }
        while self.ahead.first().is_some_and(|first| !self.admission.may_fetch(*first)) {
            self.ahead.pop_first();
        }
        self.admission.page_done(asked, complete);
        self.effects.wake_keeper = true;
    }

    pub(super) const fn page_failed(&mut self) {
        self.admission.page_failed();
    }

    /// Notes parked notices that an operator wants sent again; gives how many of them are on their way now: as many as there
    /// is room for, and those that a page has brought already.
    pub(super) fn recall(&mut self, keys: impl IntoIterator<Item = NoticeKey>) -> usize {
        let here = self.keys();
        let mut accepted = 0;
        for key in keys {
            if !here.contains(&key) {
                if self.recalled.len() >= RECALLED_MAX {
                    break;
                }
                self.recalled.insert(key);
            }
            accepted += 1;
        }
        self.effects.wake_keeper = true;
        accepted
    }

    /// The notices of this lane whose delivery is not reported yet.
    fn keys(&self) -> BTreeSet<NoticeKey> {
        let waiting = self.busy.values().chain([&self.ready, &self.released]).flatten();
        let entries = waiting.chain(self.retrying.values()).map(|entry| entry.delivery.key);
        entries.chain(self.in_flight.iter().chain(&self.reports).chain(&self.loading).copied()).collect()
    }

    /// Recalled notices to load now. To be followed by [`Self::loaded`] or [`Self::load_failed`].
    pub(super) fn take_recalled(&mut self, items_max: usize) -> Vec<NoticeKey> {
        let room = self.room();
        let count = if self.draining || room.bytes == 0 { 0 } else { items_max.min(room.items) };
        let keys: Vec<_> = self.recalled.iter().take(count).copied().collect();
        for key in &keys {
            self.recalled.remove(key);
            self.loading.insert(*key);
        }
        keys
    }

    /// Takes recalled notices that were loaded, those of `asked` that are still owed. They stand outside the order of the others.
    pub(super) fn loaded(&mut self, asked: &[NoticeKey], deliveries: Vec<Delivery<R>>, now: Instant) {
        for delivery in deliveries {
            // A page may have brought it meanwhile.
            if !self.loading.contains(&delivery.key) {
                continue;
            }
            // Others may have come in since there was room for it.
            if self.room().items == 0 {
                self.recalled.insert(delivery.key);
            } else {
                if self.admission.may_fetch(delivery.position()) {
                    self.ahead.insert(delivery.position());
                }
                self.admit(delivery, now);
            }
        }
        for key in asked {
            self.loading.remove(key);
        }
    }

    /// They could not be loaded: later.
    pub(super) fn load_failed(&mut self, asked: &[NoticeKey]) {
        // Not those that a page has brought meanwhile.
        self.recalled.extend(asked.iter().filter(|key| self.loading.remove(key)));
    }

    // ---- going out ----

    /// The next notice to send, if one may be sent now.
    pub(super) fn take(&mut self, now: Instant) -> Option<Entry<R>> {
        if self.draining {
            return None;
        }
        let (mut entry, is_probe) = match self.breaker.passage(now) {
            Passage::Barred(_) => return None,
            Passage::Free => (self.next_free(now)?, false),
            Passage::Probe => (self.next_for_probe()?, true),
        };
        if is_probe {
            self.breaker.begin_probe();
        }
        entry.is_probe = is_probe;
        entry.attempts += 1;
        entry.deadline.get_or_insert(now + self.config.notice_deadline);
        self.in_flight.push(entry.delivery.key);
        Some(entry)
    }

    fn next_free(&mut self, now: Instant) -> Option<Entry<R>> {
        while let Some(first) = self.retrying.first_entry()
            && first.key().0 <= now
        {
            let entry = first.remove();
            if !entry.is_late(now) {
                return Some(entry);
            }
            self.park(entry);
        }
        if let Some(entry) = self.released.pop_front() {
            return Some(entry);
        }
        if self.retrying.len() >= self.config.retrying_max { None } else { self.next_ready() }
    }

    /// The oldest of those that failed, whether its time has come or not.
    fn next_for_probe(&mut self) -> Option<Entry<R>> {
        let oldest = self.retrying.keys().copied().min_by_key(|(_, key)| *key);
        match oldest.and_then(|at| self.retrying.remove(&at)) {
            Some(entry) => Some(entry),
            None => self.released.pop_front().or_else(|| self.next_ready()),
        }
    }

    fn next_ready(&mut self) -> Option<Entry<R>> {
        while let Some(entry) = self.ready.pop_front() {
            match self.busy.entry(entry.delivery.order) {
                MapEntry::Occupied(mut earlier) => earlier.get_mut().push_back(entry),
                MapEntry::Vacant(free) => {
                    free.insert(VecDeque::new());
                    return Some(entry);
                }
            }
        }
        None
    }

    /// Whether [`Self::take`] would probably give something.
    pub(super) fn has_work(&self, now: Instant) -> bool {
        if self.draining {
            return false;
        }
        let waiting = !self.released.is_empty() || !self.ready.is_empty();
        match self.breaker.passage(now) {
            Passage::Barred(_) => false,
            Passage::Probe => waiting || !self.retrying.is_empty(),
            Passage::Free => {
                !self.released.is_empty()
                    || self.retrying.first_key_value().is_some_and(|((due, _), _)| *due <= now)
                    || (!self.ready.is_empty() && self.retrying.len() < self.config.retrying_max)
            }
        }
    }

    /// Takes back a notice after its attempt.
    pub(super) fn finish(&mut self, mut entry: Entry<R>, outcome: Outcome, now: Instant) {
        let key = entry.delivery.key;
        if let Some(index) = self.in_flight.iter().position(|in_flight| *in_flight == key) {
            self.in_flight.swap_remove(index);
        }
        let was_probe = std::mem::take(&mut entry.is_probe);
        let opened_before = self.breaker.opened;
        match &outcome {
            Outcome::Delivered | Outcome::Refused(_) => self.breaker.answered(),
            Outcome::Unreachable(_) => self.breaker.failed(was_probe, now, &mut self.jitter),
            Outcome::Unroutable(_) if was_probe => self.breaker.probe_void(now),
            Outcome::Unroutable(_) => {}
        }
        self.effects.wake_keeper |= was_probe || self.breaker.opened != opened_before;
        match outcome {
            Outcome::Delivered => {
                self.release(&entry);
                self.report(key, now);
            }
            Outcome::Refused(reason) | Outcome::Unreachable(reason) => {
                self.last_error = Some(reason.clone());
                entry.reason = reason;
                self.repeat(entry, now);
            }
            Outcome::Unroutable(reason) => {
                self.last_error = Some(reason.clone());
                entry.reason = reason;
                self.park(entry);
            }
        }
    }

    fn report(&mut self, key: NoticeKey, now: Instant) {
        self.reports.push(key);
        if self.reports.len() >= self.config.report_items {
            self.take_reports();
        } else if self.reports_due.is_none() {
            self.reports_due = Some(now + self.config.report_interval);
            self.effects.wake_keeper = true;
        }
    }

    fn take_reports(&mut self) {
        self.effects.delivered.append(&mut self.reports);
        self.reports_due = None;
    }

    fn repeat(&mut self, entry: Entry<R>, now: Instant) {
        if entry.is_late(now) {
            return self.park(entry);
        }
        let doublings = entry.attempts.saturating_sub(1);
        let wait = self.jitter.wait(self.config.retry_wait_first, self.config.retry_wait_max, doublings);
        let due = now + wait;
        // At its deadline the keeper parks it.
        let due = entry.deadline.map_or(due, |deadline| due.min(deadline));
        self.effects.wake_keeper |= self.next_repetition(now).is_none_or(|next| due < next);
        self.retrying.insert((due, entry.delivery.key), entry);
    }

    /// When the first of those comes due that are not due yet. The keeper waits for it; those that are due belong to the
    /// slots, whether they have taken them already or not.
    fn next_repetition(&self, now: Instant) -> Option<Instant> {
        self.retrying.keys().map(|(due, _)| *due).find(|due| *due > now)
    }

    fn park(&mut self, entry: Entry<R>) {
        self.release(&entry);
        let key = entry.delivery.key;
        self.effects.parked.push(ParkedNotice { key, reason: entry.reason, attempts: entry.attempts });
    }

    /// The notice leaves the lane; the next of its transfer may go.
    fn release(&mut self, entry: &Entry<R>) {
        self.items -= 1;
        self.bytes -= entry.delivery.bytes;
        if let MapEntry::Occupied(mut waiting) = self.busy.entry(entry.delivery.order) {
            match waiting.get_mut().pop_front() {
                Some(next) => self.released.push_back(next),
                None => {
                    waiting.remove();
                }
            }
        }
        let half = self.config.queue_items_max.div_ceil(2);
        if self.admission.is_behind() || !self.recalled.is_empty() {
            self.effects.wake_keeper |= self.room().items >= half;
        }
    }

    // ---- beside the notices ----

    /// Whether a message that is no notice may be sent now: not (`None`), or as the one that probes (`Some(true)`).
    pub(super) fn begin_direct(&mut self, now: Instant) -> Option<bool> {
        if self.draining {
            return None;
        }
        match self.breaker.passage(now) {
            Passage::Barred(_) => None,
            Passage::Free => Some(false),
            Passage::Probe => {
                self.breaker.begin_probe();
                Some(true)
            }
        }
    }

    /// How such a message ended: `Ok` where there was an answer, `None` where it says nothing about the DFSP.
    pub(super) fn end_direct(&mut self, was_probe: bool, end: Option<Result<(), String>>, now: Instant) {
        let opened_before = self.breaker.opened;
        match end {
            Some(Ok(())) => self.breaker.answered(),
            Some(Err(reason)) => {
                self.last_error = Some(reason);
                self.breaker.failed(was_probe, now, &mut self.jitter);
            }
            None if was_probe => self.breaker.probe_void(now),
            None => {}
        }
        self.effects.wake_keeper |= was_probe || self.breaker.opened != opened_before;
    }

    // ---- with time ----

    /// Parks what is past its deadline and reports what has waited long enough.
    pub(super) fn at(&mut self, now: Instant) {
        let late: Vec<_> =
            self.retrying.iter().filter(|(_, entry)| entry.is_late(now)).map(|(at, _)| *at).collect();
        for at in late {
            if let Some(entry) = self.retrying.remove(&at) {
                self.park(entry);
            }
        }
        if self.reports_due.is_some_and(|due| due <= now) {
            self.take_reports();
        }
    }

    /// Reports everything that is delivered, due or not.
    pub(super) fn report_all(&mut self) {
        self.take_reports();
    }

    /// When [`Self::at`] is to be called next, or a slot to be woken.
    pub(super) fn next_time(&self, now: Instant) -> Option<Instant> {
        let retry = match self.breaker.passage(now) {
            Passage::Free => self.next_repetition(now),
            Passage::Probe => None,
            Passage::Barred(until) => {
                let deadline = self.retrying.values().filter_map(|entry| entry.deadline).min();
                let until = until.filter(|_| self.items > 0);
                until.into_iter().chain(deadline).min()
            }
        };
        let retry = retry.filter(|retry| *retry > now);
        retry.into_iter().chain(self.reports_due).min()
    }

    // ---- to be seen ----

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    pub(super) fn retrying(&self) -> usize {
        self.retrying.len()
    }

    pub(super) const fn items(&self) -> usize {
        self.items
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) const fn is_behind(&self) -> bool {
        self.admission.is_behind()
    }

    pub(super) const fn breaker(&self) -> BreakerState {
        self.breaker.state()
    }

    pub(super) const fn breaker_opened(&self) -> u64 {
        self.breaker.opened
    }

    pub(super) fn oldest(&self) -> Option<NoticeKey> {
        let of_queue = |queue: &VecDeque<Entry<R>>| queue.iter().map(|entry| entry.delivery.key).min();
        let in_flight = self.in_flight.iter().copied().min();
        let retrying = self.retrying.keys().map(|(_, key)| *key).min();
        [in_flight, retrying, of_queue(&self.released), self.ready.front().map(|entry| entry.delivery.key)]
            .into_iter()
            .flatten()
            .min()
    }
}
