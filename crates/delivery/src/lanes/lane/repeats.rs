//! Failed callbacks that wait for repetition, within a budget of their own.
//!
//! Callbacks above the budget leave memory, those with the most attempts first. Only the key and the attempts are
//! retained; the content is loaded from the outbox when the callback is due. So a DFSP that rejects some callbacks for
//! long costs little memory, and its other callbacks are not affected.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;
use upesi_ledger::{CallbackKey, ParticipantId};

use super::entry::{AttemptHistory, Entry};

/// Maximum number of failed callbacks of a lane that are not in memory. Each needs about 150 bytes.
pub(super) const AWAY_MAX: usize = 16_384;

/// A callback that left memory.
#[derive(Debug)]
pub(super) struct UnloadedCallback {
    pub(super) order: u64,
    pub(super) tries: AttemptHistory,
    due: Instant,
}

#[derive(Debug)]
pub(super) struct Repeats {
    items_max: usize,
    bytes_max: usize,
    /// Callbacks in memory, by due time.
    here: BTreeMap<(Instant, CallbackKey), Entry>,
    here_bytes: usize,
    /// Callbacks that are in memory again, because they are due.
    loaded: VecDeque<Entry>,
    /// Callbacks that are not in memory.
    away: BTreeMap<CallbackKey, UnloadedCallback>,
    away_due: BTreeSet<(Instant, CallbackKey)>,
}

impl Repeats {
    pub(super) const fn new(items_max: usize, bytes_max: usize) -> Self {
        Self {
            items_max,
            bytes_max,
            here: BTreeMap::new(),
            here_bytes: 0,
            loaded: VecDeque::new(),
            away: BTreeMap::new(),
            away_due: BTreeSet::new(),
        }
    }

    /// Adds a callback that is repeated at `due`.
    pub(super) fn insert(&mut self, due: Instant, entry: Entry) {
        self.here_bytes += entry.callback.bytes;
        self.here.insert((due, entry.callback.key), entry);
    }

    /// The callback that must leave memory, if there are too many: the one with the most attempts; of several, the
    /// oldest.
    pub(super) fn excess(&mut self) -> Option<(Instant, Entry)> {
        if self.here.len() <= self.items_max && (self.here_bytes <= self.bytes_max || self.here.len() <= 1) {
            return None;
        }
        let most = self.here.iter().max_by_key(|(at, entry)| (entry.tries.attempts, Reverse(at.1)));
        let at = most.map(|(at, _)| *at)?;
        Some((at.0, self.remove(at)?))
    }

    fn remove(&mut self, at: (Instant, CallbackKey)) -> Option<Entry> {
        let entry = self.here.remove(&at)?;
        self.here_bytes -= entry.callback.bytes;
        Some(entry)
    }

    /// Records a callback that left memory until `due`.
    pub(super) fn leave(&mut self, key: CallbackKey, order: u64, tries: AttemptHistory, due: Instant) {
        self.away_due.insert((due, key));
        self.away.insert(key, UnloadedCallback { order, tries, due });
    }

    /// The oldest callback outside memory, if there are too many of them; it is parked.
    pub(super) fn crowded_out(&mut self) -> Option<(CallbackKey, UnloadedCallback)> {
        if self.away.len() <= AWAY_MAX {
            return None;
        }
        let (key, away) = self.away.pop_first()?;
        self.away_due.remove(&(away.due, key));
        Some((key, away))
    }

    /// Callbacks to load now, at most `items_max`; callbacks that were loaded before come first.
    pub(super) fn take_away(
        &mut self,
        now: Instant,
        items_max: usize,
    ) -> Vec<(CallbackKey, UnloadedCallback)> {
        let count = items_max.saturating_sub(self.loaded.len());
        let due: Vec<_> =
            self.away_due.iter().take_while(|(due, _)| *due <= now).take(count).copied().collect();
        due.into_iter().filter_map(|at| self.return_of(at)).collect()
    }

    fn return_of(&mut self, at: (Instant, CallbackKey)) -> Option<(CallbackKey, UnloadedCallback)> {
        self.away_due.remove(&at);
        self.away.remove(&at.1).map(|away| (at.1, away))
    }

    /// Postpones a callback that could not be loaded.
    pub(super) fn put_away(&mut self, key: CallbackKey, away: UnloadedCallback) {
        self.away_due.insert((away.due, key));
        self.away.insert(key, away);
    }

    /// Adds a callback that is in memory again.
    pub(super) fn come_back(&mut self, entry: Entry) {
        self.loaded.push_back(entry);
    }

    /// Whether a callback in memory is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.loaded.is_empty() || self.here.first_key_value().is_some_and(|((due, _), _)| *due <= now)
    }

    /// Whether a callback outside memory is due.
    pub(super) fn is_away_due(&self, now: Instant) -> bool {
        self.away_due.first().is_some_and(|(due, _)| *due <= now)
    }

    /// The next due callback.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Entry> {
        if let Some(entry) = self.loaded.pop_front() {
            return Some(entry);
        }
        let at = *self.here.first_key_value()?.0;
        if at.0 <= now { self.remove(at) } else { None }
    }

    /// The oldest callback in memory, due or not.
    pub(super) fn take_oldest(&mut self) -> Option<Entry> {
        let oldest = self.here.keys().copied().min_by_key(|(_, key)| *key);
        oldest.and_then(|at| self.remove(at)).or_else(|| self.loaded.pop_front())
    }

    /// Removes the callbacks past their deadline, in memory and outside.
    pub(super) fn take_late(&mut self, now: Instant) -> (Vec<Entry>, Vec<(CallbackKey, UnloadedCallback)>) {
        let late = |tries: &AttemptHistory| tries.is_late(now);
        // No callback is due after its deadline.
        let due = self.here.iter().take_while(|((due, _), _)| *due <= now);
        let here: Vec<_> = due.filter(|(_, entry)| late(&entry.tries)).map(|(at, _)| *at).collect();
        let mut here: Vec<_> = here.into_iter().filter_map(|at| self.remove(at)).collect();
        if self.loaded.iter().any(|entry| late(&entry.tries)) {
            let (gone, left): (VecDeque<_>, VecDeque<_>) =
                self.loaded.drain(..).partition(|entry| late(&entry.tries));
            self.loaded = left;
            here.extend(gone);
        }
        let due = self.away_due.iter().take_while(|(due, _)| *due <= now);
        let away: Vec<_> = due.filter(|(_, key)| late(&self.away[key].tries)).copied().collect();
        (here, away.into_iter().filter_map(|at| self.return_of(at)).collect())
    }

    /// When the next callback becomes due, for the keeper. Callbacks in memory that are already due belong to
    /// the slots.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let here = self.here.range(behind(now)..).next().map(|((due, _), _)| *due);
        here.into_iter().chain(self.next_away(now)).min()
    }

    fn next_away(&self, now: Instant) -> Option<Instant> {
        self.away_due.range(behind(now)..).next().map(|(due, _)| *due)
    }

    /// The earliest deadline; for callbacks outside memory, a lower bound.
    pub(super) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let here = self.here().filter_map(|entry| entry.tries.deadline).min();
        here.into_iter().chain(self.next_away(now)).min()
    }

    /// Callbacks in memory.
    pub(super) fn here(&self) -> impl Iterator<Item = &Entry> {
        self.here.values().chain(&self.loaded)
    }

    /// Callbacks outside memory.
    pub(super) fn away(&self) -> impl Iterator<Item = (CallbackKey, &UnloadedCallback)> {
        self.away.iter().map(|(key, away)| (*key, away))
    }

    pub(super) fn here_len(&self) -> usize {
        self.here.len() + self.loaded.len()
    }

    pub(super) fn away_len(&self) -> usize {
        self.away.len()
    }
}

/// The first key after all that are due at `now`.
fn behind(now: Instant) -> (Instant, CallbackKey) {
    (now + Duration::from_nanos(1), CallbackKey { target: ParticipantId::HUB, seq: 0, index: 0 })
}
