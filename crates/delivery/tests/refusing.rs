//! A DFSP that rejects a part of its callbacks for a long time, in virtual time: the others are sent as they come, and
//! none is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use upesi_delivery::lanes::{
    CallbackKey, CourierConfig, DeliveryAttempt, Done, OwedCallback, Page, ParkedCallback, ParticipantId,
    Position, Refusal, Repetition, SteppedLane,
};
use upesi_engine::{DurableRecord, Payload};
use upesi_http::BreakerState;
use upesi_types::Timestamp;

/// The DFSP's response time.
const ANSWERS_AFTER: Duration = Duration::from_millis(5);
/// Maximum time of a callback that is not rejected.
const PROMPT: Duration = Duration::from_millis(100);

fn key(seq: u64) -> CallbackKey {
    CallbackKey { target: ParticipantId::new(7).unwrap(), seq, index: 0 }
}

fn callback(seq: u64) -> OwedCallback {
    let record = DurableRecord {
        seq,
        time: Timestamp::EPOCH,
        callbacks: Vec::new(),
        payload: Payload::default(),
        prepared_before: None,
        asker: None,
    };
    OwedCallback { key: key(seq), order: seq, bytes: 1_000, awaits_answer: false, record: Arc::new(record) }
}

/// The DFSP's reaction to an attempt: the callback's number, the number of earlier attempts, and the elapsed time.
type Manner = fn(seq: u64, attempt: u32, at: Duration) -> Option<Repetition>;

struct World {
    lane: SteppedLane,
    manner: Manner,
    start: Instant,
    now: Instant,
    /// Callbacks that are not delivered and not parked, with their times.
    outbox: BTreeMap<u64, Instant>,
    parked: BTreeMap<u64, (String, u32)>,
    attempts: BTreeMap<u64, u32>,
    in_flight: BTreeMap<(Instant, u64), DeliveryAttempt>,
    delivered: BTreeSet<u64>,
    /// The longest time until a delivery.
    slowest: Duration,
    items_max: usize,
    alarm: Option<Instant>,
    begun: u64,
    came: u64,
    /// Reads of the outbox. Every third one fails.
    reads: u64,
}

impl World {
    fn new(manner: Manner) -> Self {
        let now = Instant::now();
        let mut world = Self {
            lane: SteppedLane::new(CourierConfig::default(), 1),
            manner,
            start: now,
            now,
            outbox: BTreeMap::new(),
            parked: BTreeMap::new(),
            attempts: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            delivered: BTreeSet::new(),
            slowest: Duration::ZERO,
            items_max: 0,
            alarm: None,
            begun: 0,
            came: 0,
            reads: 0,
        };
        world.pump();
        world
    }

    fn can_read(&mut self) -> bool {
        self.reads += 1;
        !self.reads.is_multiple_of(3)
    }

    /// The keys of undelivered callbacks after a position, up to a limit, and whether there are more.
    fn owed(&self, after: Option<Position>, limit: usize) -> (Vec<CallbackKey>, bool) {
        let after = after.map_or(Bound::Unbounded, |(seq, _)| Bound::Excluded(seq));
        let mut behind = self.outbox.range((after, Bound::Unbounded)).map(|(seq, _)| key(*seq));
        (behind.by_ref().take(limit).collect(), behind.next().is_some())
    }

    /// Work of the keeper and the slots between two waits.
    fn pump(&mut self) {
        while let Some((after, room)) = self.lane.ask() {
            let (keys, more) = self.owed(after, room.items);
            let items: Vec<_> = keys.iter().map(|key| callback(key.seq)).collect();
            let more_after = items.last().filter(|_| more).map(OwedCallback::position);
            let page = self.can_read().then_some(Page { items, more_after });
            self.lane.page(page, self.now);
        }
        loop {
            let scan = self.lane.scan();
            if let Some((after, limit)) = scan {
                let (keys, _) = self.owed(after, limit);
                let keys = self.can_read().then_some(keys);
                self.lane.scanned(keys.as_deref());
            }
            let keys = self.lane.take_loads(16, self.now);
            if keys.is_empty() && scan.is_none() {
                break;
            }
            let owed = keys.iter().filter(|key| self.outbox.contains_key(&key.seq));
            let loaded = owed.map(|key| callback(key.seq)).collect();
            let loaded = self.can_read().then_some(loaded);
            self.lane.loaded(&keys, loaded, self.now);
        }
        while let Some(sending) = self.lane.take(self.now) {
            self.begun += 1;
            let seq = sending.callback().key.seq;
            // Ordered by time, then by the start of the attempt.
            self.in_flight.insert((self.now + ANSWERS_AFTER, self.begun), sending);
            *self.attempts.entry(seq).or_default() += 1;
        }
        self.alarm = self.lane.at(self.now);
        let settled = self.lane.settled();
        for key in settled.delivered {
            self.outbox.remove(&key.seq);
        }
        for ParkedCallback { key, reason, attempts } in settled.parked {
            assert!(self.outbox.remove(&key.seq).is_some(), "{key:?} is parked twice, or after its callback");
            self.parked.insert(key.seq, (reason, attempts));
        }
        self.items_max = self.items_max.max(self.lane.items());
    }

    /// An operator resends parked callbacks.
    fn redeliver(&mut self) {
        let parked: Vec<_> = std::mem::take(&mut self.parked).into_keys().collect();
        self.outbox.extend(parked.iter().map(|seq| (*seq, self.now)));
        self.lane.recall(parked.into_iter().map(key));
        self.pump();
    }

    fn answer(&mut self) {
        let ((_, _), sending) = self.in_flight.pop_first().unwrap();
        let seq = sending.callback().key.seq;
        let done = match (self.manner)(seq, self.attempts[&seq], self.now - self.start) {
            None => {
                self.slowest = self.slowest.max(self.now - self.outbox[&seq]);
                assert!(self.delivered.insert(seq), "{seq} is delivered twice");
                Done::Delivered
            }
            Some(repetition) => {
                let reason = "answered 500".to_owned();
                Done::Refused(Refusal { reason, repetition, retry_after: None })
            }
        };
        self.lane.finish(sending, done, self.now);
    }

    /// Advances the time, with this many callbacks per second.
    fn run(&mut self, per_second: u32, during: Duration) {
        let end = self.now + during;
        let interval = (per_second > 0).then(|| Duration::from_secs(1) / per_second);
        let mut arrival = interval.map(|interval| self.now + interval);
        loop {
            let answer = self.in_flight.keys().next().map(|(at, _)| *at);
            let next = [Some(end), arrival, answer, self.alarm].into_iter().flatten().min().unwrap();
            self.now = self.now.max(next);
            if self.now >= end {
                return;
            }
            if answer.is_some_and(|at| at <= self.now) {
                self.answer();
            }
            if let (Some(at), Some(interval)) = (arrival, interval)
                && at <= self.now
            {
                self.came += 1;
                self.outbox.insert(self.came, self.now);
                self.lane.offer(callback(self.came), self.now);
                arrival = Some(at + interval);
            }
            self.pump();
        }
    }
}

fn one_in_ten_always(seq: u64, _: u32, _: Duration) -> Option<Repetition> {
    seq.is_multiple_of(10).then_some(Repetition::UntilDeadline)
}

#[test]
fn permanently_rejected_callbacks_do_not_delay_others() {
    let mut world = World::new(one_in_ten_always);
    world.run(30, Duration::from_secs(20 * 60));
    assert!(world.came >= 30 * 20 * 60 - 1);
    // All except the last ones.
    let good = world.came - world.came / 10;
    assert!(world.delivered.len() as u64 >= good - 1, "{} of {good}", world.delivered.len());
    assert!(world.slowest <= PROMPT, "one took {:?}", world.slowest);
    assert!(!world.lane.is_behind());
    // A limited number of retried callbacks is in memory; the rest waits on disk.
    assert!(world.items_max <= 1_024 + 100, "{} in memory", world.items_max);
    let waiting = world.outbox.len();
    assert!((2_500..=2_800).contains(&waiting), "{waiting} wait to be repeated");
    // Nothing is lost: callbacks that were rejected until their deadline are parked.
    world.run(0, Duration::from_secs(16 * 60));
    assert_eq!((world.outbox.len(), world.lane.items()), (0, 0));
    assert_eq!(world.delivered.len() + world.parked.len(), world.came as usize);
    for (seq, (reason, attempts)) in &world.parked {
        assert!(seq.is_multiple_of(10) && reason == "answered 500", "{seq}: {reason}");
        // Callbacks on disk are retried more slowly than callbacks in memory, but they are not abandoned.
        assert_eq!(*attempts, world.attempts[seq]);
        assert!((15..100).contains(attempts), "{seq} was tried {attempts} times");
    }
}

#[test]
fn callbacks_beyond_the_limit_are_parked_early_with_the_reason() {
    let manner: Manner = |seq, _, _| seq.is_multiple_of(2).then_some(Repetition::UntilDeadline);
    let mut world = World::new(manner);
    world.run(120, Duration::from_secs(6 * 60));
    assert!(world.slowest <= PROMPT, "one took {:?}", world.slowest);
    assert!(world.items_max <= 1_024 + 100, "{} in memory", world.items_max);
    assert!(world.outbox.len() <= 16_384 + 1_024 + 100, "{} wait", world.outbox.len());
    assert!(!world.parked.is_empty());
    for (seq, (reason, attempts)) in &world.parked {
        assert!(seq.is_multiple_of(2) && *attempts >= 5, "{seq} after {attempts}");
        assert_eq!(
            reason,
            "answered 500; parked early, because more than 16384 callbacks wait for repetition"
        );
    }
}

#[test]
fn rejection_of_every_tenth_callback_loses_none() {
    // Which callbacks are rejected depends on their number and attempt, so a repetition is accepted.
    let manner: Manner = |seq, attempt, _| {
        (seq * 7 + u64::from(attempt) * 3).is_multiple_of(10).then_some(Repetition::UntilDeadline)
    };
    let mut world = World::new(manner);
    world.run(200, Duration::from_secs(2 * 60));
    world.run(0, Duration::from_secs(60));
    assert_eq!(world.delivered.len() as u64, world.came);
    assert!(world.parked.is_empty() && world.outbox.is_empty());
    assert!(world.attempts.values().all(|attempts| *attempts <= 2));
}

#[test]
fn dfsp_that_rejects_everything_for_ten_minutes_gets_all_callbacks_afterwards() {
    const OUTAGE: Duration = Duration::from_secs(10 * 60);
    let manner: Manner = |_, _, at| (at < OUTAGE).then_some(Repetition::UntilDeadline);
    let mut world = World::new(manner);
    world.run(100, OUTAGE);
    assert!(world.delivered.is_empty() && world.parked.is_empty());
    // The hub does not send rejected callbacks continuously: at first those in flight, then one from time to time.
    let tried = world.attempts.len();
    assert!(tried < 100, "{tried} callbacks were begun");
    assert!(world.lane.is_behind());
    world.run(100, Duration::from_secs(120));
    world.run(0, Duration::from_secs(60));
    assert_eq!(world.delivered.len() as u64, world.came);
    assert!(world.parked.is_empty() && world.outbox.is_empty());
}

#[test]
fn permanent_rejection_is_repeated_a_few_times() {
    let manner: Manner = |seq, _, _| seq.is_multiple_of(4).then_some(Repetition::AFewTimes);
    let mut world = World::new(manner);
    world.run(40, Duration::from_secs(5 * 60));
    assert!(world.slowest <= PROMPT, "one took {:?}", world.slowest);
    world.run(0, Duration::from_secs(4 * 60));
    assert_eq!(world.parked.len() as u64, world.came / 4);
    assert!(world.parked.values().all(|(_, attempts)| *attempts == 5));
    assert!(world.outbox.is_empty());
    // The DFSP has been repaired, and the hub's operator resends the callbacks.
    world.manner = |_, _, _| None;
    world.redeliver();
    world.run(0, Duration::from_secs(60));
    assert_eq!(world.delivered.len() as u64, world.came);
    assert!(world.parked.is_empty() && world.outbox.is_empty());
}

#[test]
fn held_callbacks_are_delivered_despite_failures() {
    let mut world = World::new(|_, _, _| None);
    let (lane, now) = (&mut world.lane, world.now);
    lane.offer(OwedCallback { awaits_answer: true, ..callback(1) }, now);
    assert!(lane.take(now).is_none());
    lane.answered(key(1));
    let sending = lane.take(now).unwrap();
    lane.finish(sending, Done::Unroutable("no endpoint".to_owned()), now);
    let parked = ParkedCallback { key: key(1), reason: "no endpoint".to_owned(), attempts: 1 };
    assert_eq!(lane.settled().parked, [parked]);
    for seq in 2..=50 {
        lane.offer(callback(seq), now);
    }
    let mut taken: Vec<_> = std::iter::from_fn(|| lane.take(now)).collect();
    let CourierConfig { concurrency_max, breaker_threshold, .. } = CourierConfig::default();
    assert_eq!(taken.len(), concurrency_max);
    for sending in taken.drain(..breaker_threshold as usize) {
        assert_eq!(lane.breaker(), BreakerState::Closed);
        lane.finish(sending, Done::Unreachable("no connection".to_owned()), now);
    }
    assert_eq!((lane.breaker(), lane.items()), (BreakerState::Open, 49));
}
