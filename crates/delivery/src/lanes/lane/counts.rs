//! Counts of a lane, for its status.

use std::time::Duration;

use tokio::time::Instant;
use upesi_ledger::CallbackKey;

use super::core::LaneCore;
use super::entry::{AttemptHistory, Entry, Reason};
use super::recall::Load;
use upesi_http::BreakerState;

/// Minimum time of rejections before a callback counts as rejected in the status.
const REFUSED_LONG: Duration = Duration::from_secs(10);

impl LaneCore {
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Number of callbacks in memory that wait for repetition.
    pub(super) fn retrying(&self) -> usize {
        self.repeats.here_len()
    }

    /// Number of callbacks that wait for repetition and are not in memory.
    pub(super) fn retrying_on_disk(&self) -> usize {
        self.away().count()
    }

    fn away(&self) -> impl Iterator<Item = (CallbackKey, &AttemptHistory)> {
        let loading = self.loading.iter().filter_map(|(key, load)| match load {
            Load::Repeat(away) => Some((*key, &away.tries)),
            Load::Follower(_) | Load::Recalled => None,
        });
        self.repeats.away().map(|(key, away)| (key, &away.tries)).chain(loading)
    }

    /// Number of callbacks that the DFSP has rejected for long and that are not parked yet.
    pub(super) fn refused_long(&self, now: Instant) -> usize {
        let is_long = |first_at: Option<Instant>| first_at.is_some_and(|first| now >= first + REFUSED_LONG);
        let waiting =
            self.repeats.here().map(|entry| &entry.tries).chain(self.away().map(|(_, tries)| tries));
        let in_flight = self.in_flight.iter().filter(|in_flight| in_flight.was_refused);
        waiting.filter(|tries| tries.was_refused && is_long(tries.first_at)).count()
            + in_flight.filter(|in_flight| is_long(Some(in_flight.first_at))).count()
    }

    /// The callbacks that have failed so far, with their number of attempts and the reason of the last failure.
    pub(super) fn failed(&self) -> impl Iterator<Item = (CallbackKey, u32, &Reason)> {
        let here = self.repeats.here().map(|entry: &Entry| (entry.callback.key, &entry.tries));
        let waiting = here.chain(self.away());
        let waiting = waiting.filter_map(|(key, tries)| Some((key, tries.attempts, tries.reason.as_ref()?)));
        let in_flight = self.in_flight.iter();
        waiting.chain(in_flight.filter_map(|one| Some((one.key, one.attempts, one.reason.as_ref()?))))
    }

    pub(super) const fn items(&self) -> usize {
        self.items
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) const fn is_behind(&self) -> bool {
        self.catch_up.is_behind()
    }

    pub(super) const fn breaker(&self) -> BreakerState {
        self.breaker.state()
    }

    /// Whether new callbacks are held back because the DFSP rejected many in a row.
    pub(super) const fn refuses_new(&self) -> bool {
        !matches!(self.refusals.state(), BreakerState::Closed)
    }

    pub(super) const fn breaker_opened(&self) -> u64 {
        self.breaker.opened
    }

    pub(super) fn oldest(&self) -> Option<CallbackKey> {
        let entries = self.repeats.here().chain(&self.released).chain(self.ready.front());
        let keys = entries.chain(self.holds.entries()).map(|entry| entry.callback.key);
        let keys = keys.chain(self.in_flight.iter().map(|in_flight| in_flight.key));
        keys.chain(self.away().map(|(key, _)| key)).min()
    }
}
