//! Requests that the hub forwarded, and to whom: only those receivers may answer them.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use upesi_ledger::ParticipantId;
use upesi_types::FspId;

/// The latest forwarded requests: a bounded number of them, each for a bounded time. About 70 bytes each.
///
/// A receiver is noted by the participant that is liable for it. So a proxy may answer for each participant behind it,
/// and one behind it for another, as the far scheme decides.
#[derive(Debug)]
pub struct Forwarded {
    requests_max: usize,
    life: Duration,
    hasher: RandomState,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Until when an answer is accepted, by the hash of subject, sender and receiver.
    until: HashMap<u64, Instant>,
    /// The same in order of time. A request that was repeated is in it again.
    order: VecDeque<(Instant, u64)>,
}

impl Forwarded {
    /// Nothing forwarded yet. If there are more than `requests_max`, the oldest makes way.
    pub fn new(requests_max: usize, life: Duration) -> Self {
        Self { requests_max, life, hasher: RandomState::new(), state: Mutex::default() }
    }

    /// Notes a request that is forwarded; call it before the request leaves.
    pub fn note(&self, subject: impl Hash, sender: &FspId, receiver: ParticipantId) {
        let key = self.key(subject, sender, receiver);
        let now = Instant::now();
        let until = now + self.life;
        let mut state = self.state();
        while let Some((due, oldest)) = state.order.front().copied()
            && (due <= now || state.order.len() >= self.requests_max)
        {
            state.order.pop_front();
            if state.until.get(&oldest) == Some(&due) {
                state.until.remove(&oldest);
            }
        }
        state.order.push_back((until, key));
        state.until.insert(key, until);
    }

    /// Whether a request of `sender` about this was forwarded to `answering`.
    pub fn may_answer(&self, subject: impl Hash, sender: &FspId, answering: ParticipantId) -> bool {
        let key = self.key(subject, sender, answering);
        self.state().until.get(&key).is_some_and(|until| *until > Instant::now())
    }

    fn key(&self, subject: impl Hash, sender: &FspId, receiver: ParticipantId) -> u64 {
        self.hasher.hash_one((subject, sender.as_str(), receiver.number()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn fsp(name: &str) -> FspId {
        FspId::parse(name).unwrap()
    }

    fn sizes(forwarded: &Forwarded) -> (usize, usize) {
        let state = forwarded.state();
        (state.order.len(), state.until.len())
    }

    fn id(number: u32) -> ParticipantId {
        ParticipantId::new(number).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_receiver_answers_and_only_the_sender_about_the_same() {
        let forwarded = Forwarded::new(8, Duration::from_secs(40));
        forwarded.note("26097", &fsp("bluebank"), id(3));
        for (subject, sender, answering, expected) in [
            ("26097", "bluebank", 3, true),
            ("26097", "bluebank", 4, false),
            ("26097", "redbank", 3, false),
            ("26098", "bluebank", 3, false),
        ] {
            let found = forwarded.may_answer(subject, &fsp(sender), id(answering));
            assert_eq!(found, expected, "{subject} {sender} {answering}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_remembered_for_its_time_from_the_last_repetition_on() {
        let forwarded = Forwarded::new(8, Duration::from_secs(40));
        let (sender, receiver) = (fsp("bluebank"), id(3));
        for _ in 0..3 {
            forwarded.note("26097", &sender, receiver);
            advance(Duration::from_secs(39)).await;
            assert!(forwarded.may_answer("26097", &sender, receiver));
        }
        advance(Duration::from_secs(1)).await;
        assert!(!forwarded.may_answer("26097", &sender, receiver));
        forwarded.note("other", &sender, receiver);
        assert_eq!(sizes(&forwarded), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_makes_way() {
        let forwarded = Forwarded::new(4, Duration::from_secs(40));
        let (sender, receiver) = (fsp("bluebank"), id(3));
        for number in 0..100_usize {
            forwarded.note(number, &sender, receiver);
            let remembered = (number + 1).min(4);
            assert_eq!(sizes(&forwarded), (remembered, remembered));
        }
        let left: Vec<_> =
            (0..100_usize).filter(|number| forwarded.may_answer(*number, &sender, receiver)).collect();
        assert_eq!(left, [96, 97, 98, 99]);
    }
}
