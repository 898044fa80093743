//! Callbacks that a lane loads from the outbox by key: callbacks that an operator sends again, or that left memory.

use std::collections::BTreeSet;

use tokio::time::Instant;
use upesi_ledger::CallbackKey;

use super::core::{Follower, LaneCore};
use super::entry::{AttemptHistory, Entry};
use super::repeats::UnloadedCallback;
use crate::lanes::callback::{OwedCallback, Position};
use upesi_http::BreakerDecision;

/// Number of keys that one scan searches for callbacks that an operator sends again.
pub(crate) const SCANNED_KEYS_MAX: usize = 1024;

/// Range of the outbox with callbacks that an operator sends again. Only the range is stored, however many there are.
#[derive(Debug)]
pub(super) struct ResendRange {
    from: Position,
    to: Position,
    /// Number of the operator's calls: a read before the last call may lack callbacks of that call.
    calls: u64,
}

/// A part of the outbox that is searched for such callbacks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    from: Position,
    calls: u64,
}

impl Scan {
    /// Position after which the requested keys begin.
    pub(super) fn after(&self) -> Option<Position> {
        let (seq, index) = self.from;
        match index.checked_sub(1) {
            Some(index) => Some((seq, index)),
            None => seq.checked_sub(1).map(|seq| (seq, u8::MAX)),
        }
    }
}

/// The reason to load a callback by its key.
#[derive(Debug)]
pub(super) enum Load {
    /// The callback is due for repetition.
    Repeat(UnloadedCallback),
    /// The callback of the same order that it waited for has left the lane.
    Follower(u64),
    /// An operator sends it again.
    Recalled,
}

impl LaneCore {
    /// Records parked callbacks that an operator sends again; they are undelivered in the outbox.
    pub(super) fn recall(&mut self, keys: impl IntoIterator<Item = CallbackKey>) {
        for key in keys {
            let at = key.age();
            let recall = self.recall.get_or_insert(ResendRange { from: at, to: at, calls: 0 });
            recall.from = recall.from.min(at);
            recall.to = recall.to.max(at);
        }
        self.recalls += 1;
        if let Some(recall) = &mut self.recall {
            recall.calls = self.recalls;
        }
        self.actions.wake_keeper = true;
    }

    /// The part of the outbox to search now for callbacks that an operator sends again. Call [`Self::scanned`]
    /// afterwards.
    pub(super) fn scan(&self) -> Option<Scan> {
        let may = !self.rests() && self.has_room() && self.loads.is_empty() && !self.catch_up.is_fetching();
        let recall = self.recall.as_ref().filter(|_| may)?;
        Some(Scan { from: recall.from, calls: recall.calls })
    }

    /// Accepts the keys of the undelivered callbacks of that part, oldest first, and whether there may be more after
    /// them.
    pub(super) fn scanned(&mut self, scan: Scan, keys: &[CallbackKey], more: bool) {
        let fetching = self.catch_up.is_fetching();
        let Some(recall) = self.recall.as_mut().filter(|recall| recall.calls == scan.calls && !fetching)
        else {
            return;
        };
        let to = recall.to;
        let position = |key: &CallbackKey| key.age();
        match keys.last().map(position).filter(|last| more && *last < to) {
            Some(last) => recall.from = behind(last),
            None => self.recall = None,
        }
        let here = self.keys();
        for key in keys.iter().take_while(|key| position(key) <= to) {
            if !here.contains(key) && self.catch_up.recalled(position(key)) {
                self.loads.insert(*key, Load::Recalled);
            }
        }
    }

    /// The callbacks that the lane holds, in memory or by their keys.
    fn keys(&self) -> BTreeSet<CallbackKey> {
        let followers = self.busy.values().flatten().map(Follower::key);
        let waiting = self.ready.iter().chain(&self.released).chain(self.repeats.here());
        let entries = waiting.chain(self.holds.entries()).map(|entry| entry.callback.key);
        let away = self.repeats.away().map(|(key, _)| key);
        let in_flight = self.in_flight.iter().map(|in_flight| in_flight.key);
        let loads = self.loads.keys().chain(self.loading.keys()).copied();
        let reports = self.reports.iter().copied();
        followers.chain(entries).chain(away).chain(in_flight).chain(loads).chain(reports).collect()
    }

    /// The callbacks to load now, at most `items_max`. Call [`Self::loaded`] or [`Self::load_failed`] afterwards.
    pub(super) fn take_loads(&mut self, items_max: usize, now: Instant) -> Vec<CallbackKey> {
        let room = self.room();
        let count = if self.rests() || room.bytes == 0 { 0 } else { items_max.min(room.items) };
        let mut keys: Vec<_> = self.loads.keys().take(count).copied().collect();
        for key in &keys {
            self.loading.extend(self.loads.remove_entry(key));
        }
        // Repetitions alternate with new callbacks, however many of those there are; few are loaded at a time.
        if !self.rests() && !matches!(self.passage(now), BreakerDecision::Barred(_)) {
            for (key, away) in self.repeats.take_away(now, items_max - keys.len()) {
                keys.push(key);
                self.loading.insert(key, Load::Repeat(away));
            }
        }
        keys
    }

    /// Accepts the loaded callbacks of `asked`: the callbacks that are still owed.
    pub(super) fn loaded(&mut self, asked: &[CallbackKey], callbacks: Vec<OwedCallback>, now: Instant) {
        for callback in callbacks {
            let Some(load) = self.loading.remove(&callback.key) else { continue };
            // Other callbacks may have used the capacity meanwhile.
            if matches!(load, Load::Recalled) && self.room().items == 0 {
                self.loads.insert(callback.key, load);
                continue;
            }
            self.items += 1;
            self.bytes += callback.bytes;
            match load {
                Load::Repeat(away) => self.repeats.come_back(Entry::new(callback, away.tries)),
                Load::Follower(_) => self.released.push_back(Entry::new(callback, AttemptHistory::none(now))),
                Load::Recalled => self.ready.push_back(Entry::new(callback, AttemptHistory::none(now))),
            }
        }
        for key in asked {
            match self.loading.remove(key) {
                // The callback is no longer owed, so the next callback behind it may be sent.
                Some(Load::Repeat(UnloadedCallback { order, .. }) | Load::Follower(order)) => {
                    self.release_order(order)
                }
                Some(Load::Recalled) | None => {}
            }
        }
        self.actions.wake_keeper = true;
    }

    /// Records that they could not be loaded; they are loaded later.
    pub(super) fn load_failed(&mut self, asked: &[CallbackKey]) {
        for key in asked {
            match self.loading.remove(key) {
                Some(Load::Repeat(away)) => self.repeats.put_away(*key, away),
                Some(load) => drop(self.loads.insert(*key, load)),
                None => {}
            }
        }
    }
}

/// The first position after this one.
const fn behind((seq, index): Position) -> Position {
    match index.checked_add(1) {
        Some(index) => (seq, index),
        None => (seq + 1, 0),
    }
}
