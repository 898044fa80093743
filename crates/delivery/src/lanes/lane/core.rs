//! The decisions of a lane, without IO: which callback is sent next, waits, is repeated, parked or reported.
//!
//! Every method takes the time as an argument. External actions are stored in [`LaneActions`]; the caller carries them
//! out after releasing the lock.

use std::collections::{BTreeMap, VecDeque};

use hashbrown::HashMap;
use hashbrown::hash_map::Entry as MapEntry;
use tokio::time::Instant;
use upesi_ledger::CallbackKey;

use super::catch_up::{CatchUp, LiveOutcome, PageRequest};
use super::entry::{AttemptHistory, Entry, InFlight, LaneActions, ParkedCallback, Reason};
use super::holds::HeldCallbacks;
use super::recall::{Load, ResendRange};
use super::repeats::{AWAY_MAX, Repeats};
use crate::lanes::CourierConfig;
use crate::lanes::backlog::{LaneCapacity, Page};
use crate::lanes::callback::OwedCallback;
use upesi_http::{Breaker, BreakerDecision, Jitter};

/// Divisor for the share of a lane's memory for callbacks that wait for repetition. Callbacks that wait behind others
/// have the same share.
const REPEATS_SHARE: usize = 4;

/// A later callback of a transfer that waits for an earlier one.
#[derive(Debug)]
pub(super) enum Follower {
    Here(Entry),
    /// Remains in the outbox.
    Away(CallbackKey),
}

impl Follower {
    pub(super) const fn key(&self) -> CallbackKey {
        match self {
            Self::Here(entry) => entry.callback.key,
            Self::Away(key) => *key,
        }
    }
}

/// Number of callbacks that wait behind others.
#[derive(Debug, Default)]
pub(super) struct Followers {
    pub(super) here: usize,
    pub(super) here_bytes: usize,
    pub(super) away: usize,
}

/// The kind of callback that may be sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Repeat,
    New,
    Nothing,
}

#[derive(Debug)]
pub(super) struct LaneCore {
    pub(super) config: CourierConfig,
    pub(super) catch_up: CatchUp,
    /// Callbacks that have not been attempted, in order.
    pub(super) ready: VecDeque<Entry>,
    /// Callbacks that have not been attempted and are no longer held back. They are sent first.
    pub(super) released: VecDeque<Entry>,
    /// Callbacks that wait for the answer to the request that caused them.
    pub(super) holds: HeldCallbacks,
    /// Transfers with a callback that is held, released, in flight or waiting for repetition, and the later ones that
    /// wait for it.
    pub(super) busy: HashMap<u64, VecDeque<Follower>, foldhash::fast::RandomState>,
    pub(super) followers: Followers,
    pub(super) repeats: Repeats,
    /// Whether the callback that was taken last was a repetition.
    last_was_repeat: bool,
    pub(super) in_flight: Vec<InFlight>,
    pub(super) repeats_in_flight: usize,
    pub(super) loads: BTreeMap<CallbackKey, Load>,
    /// Callbacks that are being loaded.
    pub(super) loading: BTreeMap<CallbackKey, Load>,
    pub(super) recall: Option<ResendRange>,
    /// Number of times that an operator has sent parked callbacks again.
    pub(super) recalls: u64,
    pub(super) items: usize,
    pub(super) bytes: usize,
    pub(super) breaker: Breaker,
    /// Opens when consecutive new callbacks are rejected.
    pub(super) refusals: Breaker,
    /// End of the pause of all callbacks that the DFSP requested.
    pub(super) paused_until: Option<Instant>,
    pub(super) jitter: Jitter,
    pub(super) reports: Vec<CallbackKey>,
    pub(super) reports_due: Option<Instant>,
    pub(super) draining: bool,
    /// Whether another node delivers to the participant.
    pub(super) elsewhere: bool,
    /// Whether this node delivers again as soon as nothing is in flight from its previous term.
    returns: bool,
    pub(super) last_error: Option<Reason>,
    pub(super) actions: LaneActions,
}

fn no_repeats(config: &CourierConfig) -> Repeats {
    let max = config.retrying_max.min(config.queue_max / REPEATS_SHARE).max(1);
    Repeats::new(max, config.queue_bytes_max / REPEATS_SHARE)
}

impl LaneCore {
    pub(super) fn new(config: CourierConfig, seed: u64) -> Self {
        let breaker = |failures| Breaker::new(failures, config.breaker_pause_min, config.breaker_pause_max);
        // All callbacks that were in flight when a DFSP began to reject count as one failure.
        let concurrency_max = u32::try_from(config.concurrency_max).unwrap_or(u32::MAX);
        Self {
            catch_up: CatchUp::new(),
            ready: VecDeque::new(),
            released: VecDeque::new(),
            holds: HeldCallbacks::new(),
            busy: HashMap::default(),
            followers: Followers::default(),
            repeats: no_repeats(&config),
            last_was_repeat: false,
            in_flight: Vec::new(),
            repeats_in_flight: 0,
            loads: BTreeMap::new(),
            loading: BTreeMap::new(),
            recall: None,
            recalls: 0,
            items: 0,
            bytes: 0,
            breaker: breaker(config.breaker_threshold),
            refusals: breaker(config.breaker_threshold.max(concurrency_max)),
            paused_until: None,
            jitter: Jitter::new(seed),
            reports: Vec::new(),
            reports_due: None,
            draining: false,
            elsewhere: false,
            returns: false,
            last_error: None,
            actions: LaneActions::default(),
            config,
        }
    }

    /// Whether the lane accepts and sends nothing now.
    pub(super) const fn rests(&self) -> bool {
        self.draining || self.elsewhere
    }

    /// Number of times that this node has begun; 0 while another node delivers.
    pub(super) const fn term(&self) -> u64 {
        if self.elsewhere { 0 } else { self.catch_up.term() }
    }

    /// From now on, another node delivers: requests in flight complete, and waiting callbacks remain in the outbox.
    pub(super) fn leave(&mut self) {
        (self.elsewhere, self.returns) = (true, false);
        let waiting = self.ready.iter().chain(&self.released).chain(self.repeats.here());
        for entry in waiting.chain(self.holds.entries()) {
            self.items -= 1;
            self.bytes -= entry.callback.bytes;
        }
        self.items -= self.followers.here;
        self.bytes -= self.followers.here_bytes;
        self.ready.clear();
        self.released.clear();
        self.holds = HeldCallbacks::new();
        self.busy.clear();
        self.followers = Followers::default();
        self.repeats = no_repeats(&self.config);
        self.loads.clear();
        self.loading.clear();
        self.recall = None;
        self.take_reports();
    }

    /// From now on, this node delivers, beginning with the oldest callback in the outbox.
    pub(super) fn begin(&mut self) {
        self.returns = !self.in_flight.is_empty();
        if self.returns {
            return;
        }
        self.elsewhere = false;
        self.catch_up = self.catch_up.anew();
        self.actions.wake_keeper = true;
    }

    /// Records the end of a request that was in flight when the node left.
    pub(super) fn ended_elsewhere(&mut self) {
        self.take_reports();
        if self.returns {
            self.begin();
        }
    }

    /// The actions since the last call, to be carried out outside.
    pub(super) fn actions(&mut self) -> LaneActions {
        std::mem::take(&mut self.actions)
    }

    // ---- incoming callbacks ----

    /// Accepts a callback that has just become durable, or leaves it in the outbox.
    pub(super) fn offer(&mut self, callback: OwedCallback, now: Instant) {
        if self.rests() {
            return;
        }
        if callback.awaits_answer {
            self.holds.hold(callback.key);
        }
        let has_room = self.items < self.config.queue_max
            && (self.items == 0 || self.bytes + callback.bytes <= self.config.queue_bytes_max);
        match self.catch_up.live(callback.position(), has_room) {
            LiveOutcome::Admitted => self.admit(callback, now),
            LiveOutcome::Known => {}
            LiveOutcome::Noted { fell_behind } => {
                self.actions.fell_behind |= fell_behind;
                self.actions.wake_keeper |= fell_behind;
            }
        }
    }

    /// Records that the target has the answer to the request that caused this callback.
    pub(super) fn answered(&mut self, key: CallbackKey) {
        if !self.rests() {
            self.released.extend(self.holds.answered(key));
        }
    }

    fn admit(&mut self, callback: OwedCallback, now: Instant) {
        self.items += 1;
        self.bytes += callback.bytes;
        self.ready.push_back(Entry::new(callback, AttemptHistory::none(now)));
    }

    /// The page to fetch now, if the lane is behind and at least half empty, apart from callbacks that wait for
    /// repetition.
    pub(super) fn ask(&mut self) -> Option<(PageRequest, LaneCapacity)> {
        let room = self.room();
        if self.rests() || !self.has_room() {
            return None;
        }
        self.catch_up.ask().map(|asked| (asked, room))
    }

    pub(super) fn room(&self) -> LaneCapacity {
        LaneCapacity {
            items: self.config.queue_max.saturating_sub(self.items),
            bytes: self.config.queue_bytes_max.saturating_sub(self.bytes),
        }
    }

    /// Whether enough of the memory for new callbacks is free to make reading the outbox worthwhile.
    pub(super) fn has_room(&self) -> bool {
        let waiting = self.repeats.here_len() + self.followers.here;
        let room = self.room();
        room.bytes > 0 && room.items >= self.config.queue_max.saturating_sub(waiting).div_ceil(2).max(1)
    }

    /// Accepts a page. Callbacks that exceed the requested number are left to the next page.
    pub(super) fn page(&mut self, asked: PageRequest, page: Page, now: Instant) {
        if self.elsewhere || !self.catch_up.is_of(asked) {
            return self.catch_up.page_failed();
        }
        let mut has_room = true;
        for callback in page.items {
            let room = self.room();
            has_room = room.items > 0 && room.bytes > 0;
            if !has_room {
                break;
            }
            if self.catch_up.fetched(callback.position()) {
                self.admit(callback, now);
            }
        }
        if let Some(last) = page.more_after.filter(|_| has_room) {
            self.catch_up.fetched(last);
        }
        self.catch_up.page_done(asked, has_room && page.more_after.is_none());
        self.actions.wake_keeper = true;
    }

    pub(super) const fn page_failed(&mut self) {
        self.catch_up.page_failed();
    }

    // ---- outgoing callbacks ----

    /// The next callback to send, if one may be sent now.
    pub(super) fn take(&mut self, now: Instant) -> Option<Entry> {
        if self.rests() {
            return None;
        }
        let mut entry = match self.passage(now) {
            BreakerDecision::Barred(_) => return None,
            BreakerDecision::Free => self.next_free(now)?,
            BreakerDecision::Probe => {
                let entry = self.next_for_probe()?;
                self.breaker.begin_probe();
                Entry { is_probe: true, ..entry }
            }
        };
        let tries = &mut entry.tries;
        let (attempts, reason, was_refused) = (tries.attempts, tries.reason.clone(), tries.was_refused);
        tries.attempts += 1;
        let first_at = *tries.first_at.get_or_insert(now);
        tries.deadline.get_or_insert(first_at + self.config.deadline);
        self.repeats_in_flight += usize::from(entry.is_repeated());
        let key = entry.callback.key;
        self.in_flight.push(InFlight { key, attempts, first_at, reason, was_refused });
        Some(entry)
    }

    /// Whether callbacks may be sent now: not while the DFSP cannot be reached, and not before the end of its
    /// `Retry-After`.
    pub(super) fn passage(&self, now: Instant) -> BreakerDecision {
        match self.paused_until.filter(|until| now < *until) {
            Some(until) => BreakerDecision::Barred(Some(until)),
            None => self.breaker.passage(now),
        }
    }

    /// Whether a new callback or a repetition is sent next. Neither kind delays the other: repetitions have at most
    /// half of the slots, and if both wait they alternate.
    fn choice(&self, now: Instant) -> Choice {
        let repeats_max = (self.config.concurrency_max / 2).max(1);
        let repeat = self.repeats_in_flight < repeats_max && self.repeats.is_due(now);
        let new = self.has_new() && !matches!(self.refusals.passage(now), BreakerDecision::Barred(_));
        match (repeat, new) {
            (true, false) => Choice::Repeat,
            (true, true) if !self.last_was_repeat => Choice::Repeat,
            (_, true) => Choice::New,
            (false, false) => Choice::Nothing,
        }
    }

    fn next_free(&mut self, now: Instant) -> Option<Entry> {
        loop {
            match self.choice(now) {
                Choice::Nothing => return None,
                Choice::Repeat => {
                    self.last_was_repeat = true;
                    let entry = self.repeats.take_due(now)?;
                    self.actions.wake_keeper |= self.repeats.is_away_due(now);
                    if !entry.tries.is_late(now) {
                        return Some(entry);
                    }
                    self.park(entry);
                }
                Choice::New => {
                    self.last_was_repeat = false;
                    // All retried callbacks may be waiting for something. In that case a new callback is taken.
                    if let Some(mut entry) = self.next_new() {
                        entry.is_trial = self.refusals.passage(now) == BreakerDecision::Probe;
                        if entry.is_trial {
                            self.refusals.begin_probe();
                        }
                        return Some(entry);
                    }
                }
            }
        }
    }

    /// The oldest failed callback, whether it is due or not.
    fn next_for_probe(&mut self) -> Option<Entry> {
        self.repeats.take_oldest().or_else(|| self.next_new())
    }

    pub(super) fn has_new(&self) -> bool {
        !(self.released.is_empty() && self.ready.is_empty())
    }

    fn next_new(&mut self) -> Option<Entry> {
        loop {
            let entry = match self.released.pop_front() {
                Some(entry) => entry,
                None => self.next_ready()?,
            };
            if let Some(entry) = self.holds.keep(entry) {
                return Some(entry);
            }
        }
    }

    fn next_ready(&mut self) -> Option<Entry> {
        while let Some(entry) = self.ready.pop_front() {
            match self.busy.entry(entry.callback.order) {
                MapEntry::Occupied(_) => self.follow(entry),
                MapEntry::Vacant(free) => {
                    free.insert(VecDeque::new());
                    return Some(entry);
                }
            }
        }
        None
    }

    /// Lets a callback wait behind the earlier ones of its transfer; above a share of the memory, in the outbox.
    fn follow(&mut self, entry: Entry) {
        let OwedCallback { key, order, bytes, .. } = entry.callback;
        let followers = &mut self.followers;
        let fits = followers.here < self.config.retrying_max.min(self.config.queue_max / REPEATS_SHARE)
            && followers.here_bytes + bytes <= self.config.queue_bytes_max / REPEATS_SHARE;
        let follower = if fits {
            followers.here += 1;
            followers.here_bytes += bytes;
            Follower::Here(entry)
        } else {
            self.items -= 1;
            self.bytes -= bytes;
            if followers.away >= AWAY_MAX {
                let reason = "too many callbacks wait behind others of the same transfer".to_owned();
                return self.actions.parked.push(ParkedCallback { key, reason, attempts: 0 });
            }
            followers.away += 1;
            Follower::Away(key)
        };
        self.busy.entry(order).or_default().push_back(follower);
    }

    /// The first callback of this order has left the lane, so the next may be sent.
    pub(super) fn release_order(&mut self, order: u64) {
        let MapEntry::Occupied(mut waiting) = self.busy.entry(order) else { return };
        match waiting.get_mut().pop_front() {
            Some(Follower::Here(next)) => {
                self.followers.here -= 1;
                self.followers.here_bytes -= next.callback.bytes;
                self.released.push_back(next);
            }
            Some(Follower::Away(key)) => {
                self.followers.away -= 1;
                self.loads.insert(key, Load::Follower(order));
                self.actions.wake_keeper = true;
            }
            None => drop(waiting.remove()),
        }
    }

    /// Whether [`Self::take`] would probably return a callback.
    pub(super) fn has_work(&self, now: Instant) -> bool {
        if self.rests() {
            return false;
        }
        match self.passage(now) {
            BreakerDecision::Barred(_) => false,
            BreakerDecision::Probe => self.has_new() || self.repeats.here_len() > 0,
            BreakerDecision::Free => self.choice(now) != Choice::Nothing,
        }
    }

    // ---- due times ----

    /// Parks callbacks past their deadline, and reports deliveries that are due.
    pub(super) fn at(&mut self, now: Instant) {
        let (here, away) = self.repeats.take_late(now);
        here.into_iter().for_each(|entry| self.park(entry));
        away.into_iter().for_each(|(key, away)| self.park_away(key, away, ""));
        if self.reports_due.is_some_and(|due| due <= now) {
            self.take_reports();
        }
    }

    /// Reports all deliveries, due or not.
    pub(super) fn report_all(&mut self) {
        self.take_reports();
    }

    /// Time of the next call of [`Self::at`], or of the next wake-up of a slot.
    pub(super) fn next_time(&self, now: Instant) -> Option<Instant> {
        let next = match self.passage(now) {
            BreakerDecision::Free => {
                let trial = match self.refusals.passage(now) {
                    BreakerDecision::Barred(until) if self.has_new() => until,
                    _ => None,
                };
                self.repeats.next(now).into_iter().chain(trial).min()
            }
            BreakerDecision::Probe => self.repeats.next(now),
            BreakerDecision::Barred(until) => {
                let until = until.filter(|_| self.items > 0 || self.repeats.away_len() > 0);
                until.into_iter().chain(self.repeats.next_deadline(now)).min()
            }
        };
        next.into_iter().chain(self.reports_due).min()
    }
}
