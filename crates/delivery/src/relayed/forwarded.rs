//! Forwarded requests and their receivers: only those receivers may answer them. The answers are timed.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use upesi_engine::{Clock, RequestKind, Response, ResponseOutcome, ResponseTimes};
use upesi_ledger::ParticipantId;
use upesi_types::FspId;

/// Time after which a request counts as unanswered; the end of its life if that is earlier.
const UNANSWERED_AFTER: Duration = Duration::from_secs(60);

/// The latest forwarded requests, limited in number and in time. Each needs about 90 bytes.
///
/// The receiver is recorded as the participant that is liable for it. So a proxy may answer for each participant behind
/// it, and one of these for another, as the other scheme decides.
pub struct Forwarded {
    requests_max: usize,
    life: Duration,
    timed: Option<ResponseCounters>,
    hasher: RandomState,
    state: Mutex<State>,
}

/// Counters for the outcomes of forwarded requests.
#[derive(Clone)]
pub struct ResponseCounters {
    pub kind: RequestKind,
    pub responses: ResponseTimes,
    /// The hub's time.
    pub clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct State {
    /// The forwarded requests, by the hash of subject, sender and receiver.
    notes: HashMap<u64, OpenRequest>,
    /// The keys in order of time. A repeated request occurs again.
    order: VecDeque<(Instant, u64)>,
    /// Number of entries at the front that were already checked for being unanswered.
    looked_at: usize,
}

/// A forwarded request.
#[derive(Clone, Copy)]
struct OpenRequest {
    /// Time until which an answer is accepted.
    until: Instant,
    /// Time of the first forwarding, until the outcome is counted.
    open_since: Option<Instant>,
    asker: Option<ParticipantId>,
    receiver: ParticipantId,
}

impl Forwarded {
    /// Starts empty. If there are more than `requests_max`, the oldest is dropped.
    pub fn new(requests_max: usize, life: Duration, timed: Option<ResponseCounters>) -> Self {
        Self { requests_max, life, timed, hasher: RandomState::new(), state: Mutex::default() }
    }

    /// Records a request of `sender`; `asker` is liable for it. Call it before the request is sent. Also counts
    /// expired requests as unanswered.
    pub fn note(
        &self,
        subject: impl Hash,
        sender: &FspId,
        asker: Option<ParticipantId>,
        receiver: ParticipantId,
    ) {
        let key = self.key(subject, sender, receiver);
        let now = Instant::now();
        let until = now + self.life;
        let mut state = self.state();
        self.count_unanswered(&mut state, now);
        while let Some((due, oldest)) = state.order.front().copied()
            && (due <= now || state.order.len() >= self.requests_max)
        {
            state.order.pop_front();
            state.looked_at = state.looked_at.saturating_sub(1);
            if state.notes.get(&oldest).is_some_and(|note| note.until == due) {
                state.notes.remove(&oldest);
            }
        }
        state.order.push_back((until, key));
        // A repetition does not restart the receiver's time.
        let open_before = state.notes.get(&key).and_then(|note| note.open_since);
        let note = OpenRequest { until, open_since: Some(open_before.unwrap_or(now)), asker, receiver };
        state.notes.insert(key, note);
    }

    /// Whether such a request of `sender` was forwarded to `answering`, which answers it now. The first answer is
    /// counted, as a failure if it is an error.
    pub fn take_answer(
        &self,
        subject: impl Hash,
        sender: &FspId,
        answering: ParticipantId,
        is_failure: bool,
    ) -> bool {
        let now = Instant::now();
        let Some((note, since)) = self.close(self.key(subject, sender, answering), now) else { return false };
        if let Some(took) = since.map(|since| now.saturating_duration_since(since)) {
            self.count(
                &note,
                if is_failure { ResponseOutcome::Failed(took) } else { ResponseOutcome::Answered(took) },
            );
        }
        true
    }

    /// Counts a recorded request that was not delivered to its receiver. The receiver may still answer it.
    pub fn undelivered(&self, subject: impl Hash, sender: &FspId, receiver: ParticipantId) {
        if let Some((note, Some(_))) = self.close(self.key(subject, sender, receiver), Instant::now()) {
            self.count(&note, ResponseOutcome::Undelivered);
        }
    }

    /// Counts and closes the requests whose time for an answer is over.
    fn count_unanswered(&self, state: &mut State, now: Instant) {
        let after = UNANSWERED_AFTER.min(self.life);
        while let Some((until, key)) = state.order.get(state.looked_at).copied()
            && until + after <= now + self.life
        {
            state.looked_at += 1;
            // A repeated request occurs again later in the order.
            let note = state.notes.get_mut(&key).filter(|note| note.until == until);
            if let Some(note) = note
                && note.open_since.take().is_some()
            {
                self.count(note, ResponseOutcome::Unanswered);
            }
        }
    }

    /// A request that may still be answered, and the time since which it has been open, if it is.
    fn close(&self, key: u64, now: Instant) -> Option<(OpenRequest, Option<Instant>)> {
        let mut state = self.state();
        self.count_unanswered(&mut state, now);
        let note = state.notes.get_mut(&key).filter(|note| note.until > now)?;
        let open_since = note.open_since.take();
        Some((*note, open_since))
    }

    fn count(&self, note: &OpenRequest, outcome: ResponseOutcome) {
        let Some(ResponseCounters { kind, responses, clock }) = &self.timed else { return };
        let response = Response { asker: note.asker, asked: note.receiver, kind: *kind, outcome };
        responses.observe(&response, clock.now());
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
    use upesi_engine::Counts;
    use upesi_types::Timestamp;

    use super::*;

    fn fsp(name: &str) -> FspId {
        FspId::parse(name).unwrap()
    }

    fn sizes(forwarded: &Forwarded) -> (usize, usize) {
        let state = forwarded.state();
        (state.order.len(), state.notes.len())
    }

    fn id(number: u32) -> ParticipantId {
        ParticipantId::new(number).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn answer_is_accepted_only_from_the_receiver_about_the_same_subject() {
        let forwarded = Forwarded::new(8, Duration::from_secs(40), None);
        forwarded.note("26097", &fsp("bluebank"), None, id(3));
        for (subject, sender, answering, expected) in [
            ("26097", "bluebank", 3, true),
            ("26097", "bluebank", 4, false),
            ("26097", "redbank", 3, false),
            ("26098", "bluebank", 3, false),
        ] {
            let found = forwarded.take_answer(subject, &fsp(sender), id(answering), false);
            assert_eq!(found, expected, "{subject} {sender} {answering}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn request_is_remembered_since_its_last_repetition() {
        let forwarded = Forwarded::new(8, Duration::from_secs(40), None);
        let (sender, receiver) = (fsp("bluebank"), id(3));
        for _ in 0..3 {
            forwarded.note("26097", &sender, None, receiver);
            advance(Duration::from_secs(39)).await;
            assert!(forwarded.take_answer("26097", &sender, receiver, false));
        }
        advance(Duration::from_secs(1)).await;
        assert!(!forwarded.take_answer("26097", &sender, receiver, false));
        forwarded.note("other", &sender, None, receiver);
        assert_eq!(sizes(&forwarded), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn oldest_remembered_requests_are_replaced() {
        let forwarded = Forwarded::new(4, Duration::from_secs(40), None);
        let (sender, receiver) = (fsp("bluebank"), id(3));
        for number in 0..100_usize {
            forwarded.note(number, &sender, None, receiver);
            let remembered = (number + 1).min(4);
            assert_eq!(sizes(&forwarded), (remembered, remembered));
        }
        let left: Vec<_> = (0..100_usize)
            .filter(|number| forwarded.take_answer(*number, &sender, receiver, false))
            .collect();
        assert_eq!(left, [96, 97, 98, 99]);
    }

    /// Counts the outcomes of requests to participant 2, at a fixed instant.
    fn timed(requests_max: usize, life_s: u64) -> (Forwarded, ResponseTimes) {
        struct Standing;
        impl Clock for Standing {
            fn now(&self) -> Timestamp {
                Timestamp::from_ms(1_893_456_000_000)
            }
        }
        let (kind, responses) = (RequestKind::Quote, ResponseTimes::default());
        let timed = ResponseCounters { kind, responses: responses.clone(), clock: Arc::new(Standing) };
        (Forwarded::new(requests_max, Duration::from_secs(life_s), Some(timed)), responses)
    }

    fn counted(responses: &ResponseTimes) -> (Counts, Option<u64>) {
        let found = responses.summaries(Timestamp::from_ms(1_893_456_000_000));
        let Some(of_receiver) = found.first() else { return (Counts::default(), None) };
        assert_eq!((of_receiver.asked, of_receiver.pairs[0].asker), (id(3), id(2)));
        (of_receiver.kinds[0].recent, of_receiver.kinds[0].p99.map(|took| took.as_secs()))
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_answer_is_timed_from_the_first_request() {
        let (forwarded, responses) = timed(8, 40);
        let (sender, receiver) = (fsp("bluebank"), id(3));
        let note = |subject| forwarded.note(subject, &sender, Some(id(2)), receiver);
        let answer = |subject, is_failure| forwarded.take_answer(subject, &sender, receiver, is_failure);
        note("a");
        advance(Duration::from_secs(4)).await;
        note("a");
        advance(Duration::from_secs(4)).await;
        assert!(answer("a", false));
        assert_eq!(counted(&responses), ([1, 0, 0, 0], Some(8)), "the repetition does not count");
        assert!(answer("a", false));
        assert_eq!(counted(&responses).0, [1, 0, 0, 0], "a second answer does not count");
        note("a");
        assert!(answer("a", true));
        assert_eq!(counted(&responses).0, [1, 1, 0, 0], "a repeated request");
        assert!(!answer("b", false));
        assert_eq!(counted(&responses).0, [1, 1, 0, 0], "no request was forwarded");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_without_an_answer_are_counted_once() {
        let (forwarded, responses) = timed(2, 40);
        let (sender, receiver) = (fsp("bluebank"), id(3));
        let note = |subject| forwarded.note(subject, &sender, Some(id(2)), receiver);
        note("undelivered");
        forwarded.undelivered("undelivered", &sender, receiver);
        forwarded.undelivered("undelivered", &sender, receiver);
        forwarded.undelivered("never sent", &sender, receiver);
        assert_eq!(counted(&responses), ([0, 0, 0, 1], None));
        note("unanswered");
        advance(Duration::from_secs(41)).await;
        note("c");
        assert_eq!(counted(&responses), ([0, 0, 1, 1], None));
        note("d");
        note("e");
        assert_eq!(counted(&responses).0, [0, 0, 1, 1], "a dropped request may still be answered");
    }

    #[tokio::test(start_paused = true)]
    async fn late_answer_is_forwarded_but_the_request_counts_as_unanswered() {
        let (forwarded, responses) = timed(8, 86_400);
        let (sender, receiver) = (fsp("bluebank"), id(3));
        let note = |subject| forwarded.note(subject, &sender, Some(id(2)), receiver);
        let answer = |subject| forwarded.take_answer(subject, &sender, receiver, false);
        (0..7).for_each(note);
        advance(Duration::from_secs(50)).await;
        assert!(answer(0) && answer(5));
        note(1);
        advance(Duration::from_secs(10)).await;
        assert!(answer(2));
        assert_eq!(counted(&responses), ([2, 0, 4, 0], Some(50)), "the second was requested again");
        assert!(answer(1));
        assert_eq!(counted(&responses).0, [3, 0, 4, 0]);
        // Each of the replaced ones was read.
        (10..20).for_each(note);
        advance(Duration::from_secs(60)).await;
        assert!(!answer(0) && answer(19));
        assert_eq!(counted(&responses).0, [3, 0, 12, 0], "eight of ten are remembered");
    }
}
