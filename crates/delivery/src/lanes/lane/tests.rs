//! The decisions of a lane against a model: any interleaving of live callbacks, pages of the outbox, attempts and time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;
use upesi_engine::{DurableRecord, Payload};
use upesi_ledger::{CallbackKey, ParticipantId};
use upesi_types::Timestamp;

use super::catch_up::PageRequest;
use super::core::{Follower, LaneCore};
use super::entry::{Entry, Outcome};
use super::recall::Scan;
use crate::lanes::CourierConfig;
use crate::lanes::backlog::{LaneCapacity, Page};
use crate::lanes::callback::{OwedCallback, Position};

pub(super) const ITEMS_MAX: usize = 5;
const BYTES_MAX: usize = 40;
const BYTES_OF_ONE_MAX: usize = 15;
/// Number of keys that the keeper searches at a time.
const SCANNED: usize = 2;

pub(super) fn config() -> CourierConfig {
    CourierConfig {
        concurrency_max: 3,
        queue_max: ITEMS_MAX,
        queue_bytes_max: BYTES_MAX,
        retrying_max: 2,
        backoff_min: Duration::from_millis(10),
        backoff_max: Duration::from_millis(100),
        deadline: Duration::from_millis(400),
        breaker_threshold: 3,
        breaker_pause_min: Duration::from_millis(20),
        breaker_pause_max: Duration::from_millis(100),
        report_items: 3,
        report_interval: Duration::from_millis(5),
        ..CourierConfig::default()
    }
}

/// Any small bounds.
fn configs() -> impl Strategy<Value = CourierConfig> {
    let bounds = (3..=12_usize, 1..=6_usize, BYTES_OF_ONE_MAX..=80, 1..=4_usize);
    bounds.prop_map(|(queue_max, retrying_max, queue_bytes_max, concurrency_max)| CourierConfig {
        queue_max,
        retrying_max,
        queue_bytes_max,
        concurrency_max,
        ..config()
    })
}

#[derive(Clone, Debug)]
enum Step {
    /// A record with this many callbacks becomes durable. Each is about one of few transfers, and some wait for an
    /// answer.
    Record(Vec<(u64, usize, bool)>),
    /// The journal's thread offers this many of the durable callbacks.
    Offer(usize),
    Take,
    Finish(usize, Ending),
    /// The keeper requests a page. The outbox is read at a later step, and the page arrives at a still later one.
    Ask,
    ReadOutbox,
    PageArrives,
    PageFails,
    Time(u64),
    RecallParked,
    /// The keeper searches the outbox for recalled callbacks. The result arrives at a later step.
    Scan,
    ScanArrives,
    Load,
    /// The answer to the request of one of the waiting callbacks is written.
    Answer(usize),
    /// From now on another node delivers.
    Leave,
    /// The other node delivers the oldest callback that this one does not have in flight.
    OtherDelivers,
    /// From now on this node delivers.
    Begin,
}

#[derive(Clone, Copy, Debug)]
enum Ending {
    Delivered,
    Refused,
    Unreachable,
    Unroutable,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ending = prop_oneof![
        6 => Just(Ending::Delivered),
        2 => Just(Ending::Refused),
        2 => Just(Ending::Unreachable),
        1 => Just(Ending::Unroutable),
    ];
    let step = prop_oneof![
        4 => prop::collection::vec((0..4_u64, 1..=BYTES_OF_ONE_MAX, any::<bool>()), 1..3).prop_map(Step::Record),
        4 => (1..4_usize).prop_map(Step::Offer),
        6 => Just(Step::Take),
        6 => (any::<usize>(), ending).prop_map(|(which, ending)| Step::Finish(which, ending)),
        2 => Just(Step::Ask),
        2 => Just(Step::ReadOutbox),
        2 => Just(Step::PageArrives),
        1 => Just(Step::PageFails),
        3 => (0..80_u64).prop_map(Step::Time),
        1 => Just(Step::RecallParked),
        1 => Just(Step::Scan),
        1 => Just(Step::ScanArrives),
        2 => Just(Step::Load),
        3 => any::<usize>().prop_map(Step::Answer),
        1 => Just(Step::Leave),
        2 => Just(Step::OtherDelivers),
        1 => Just(Step::Begin),
    ];
    prop::collection::vec(step, 0..150)
}

/// The outbox, the journal's thread and the DFSP of one lane.
struct World {
    core: LaneCore,
    now: Instant,
    /// All durable callbacks with their order and size, as in the outbox and the offers.
    durable: BTreeMap<Position, (u64, usize)>,
    next_seq: u64,
    offered_up_to: Option<Position>,
    /// Callbacks that were reported as delivered.
    delivered: BTreeSet<Position>,
    /// Callbacks that were reported as parked, and not recalled.
    parked: BTreeSet<Position>,
    asked: Option<(PageRequest, LaneCapacity)>,
    page: Option<Page>,
    scan: Option<(Scan, Vec<CallbackKey>)>,
    /// Callbacks that wait for an answer, and those whose answer is not written.
    awaiting: BTreeSet<Position>,
    unanswered: Vec<Position>,
    in_hand: Vec<Entry>,
    /// Callbacks that were answered with success, reported or not.
    succeeded: BTreeSet<Position>,
    /// Callbacks that were parked at some time, and have left their place in the order.
    ever_parked: BTreeSet<Position>,
    /// Whether another node delivers.
    is_elsewhere: bool,
}

pub(super) fn key((seq, index): Position) -> CallbackKey {
    CallbackKey { target: ParticipantId::HUB, seq, index }
}

/// Lanes do not read the records of their callbacks.
fn record() -> Arc<DurableRecord> {
    static RECORD: LazyLock<Arc<DurableRecord>> = LazyLock::new(|| {
        Arc::new(DurableRecord {
            seq: 0,
            time: Timestamp::EPOCH,
            callbacks: Vec::new(),
            payload: Payload::default(),
            prepared_before: None,
            asker: None,
        })
    });
    RECORD.clone()
}

pub(super) fn owed_callback(position: Position, (order, bytes): (u64, usize)) -> OwedCallback {
    OwedCallback { key: key(position), order, bytes, awaits_answer: false, record: record() }
}

impl World {
    fn new(config: CourierConfig, seed: u64) -> Self {
        Self {
            core: LaneCore::new(config, seed),
            now: Instant::now(),
            durable: BTreeMap::new(),
            next_seq: 1,
            offered_up_to: None,
            delivered: BTreeSet::new(),
            parked: BTreeSet::new(),
            asked: None,
            page: None,
            scan: None,
            awaiting: BTreeSet::new(),
            unanswered: Vec::new(),
            in_hand: Vec::new(),
            succeeded: BTreeSet::new(),
            ever_parked: BTreeSet::new(),
            is_elsewhere: false,
        }
    }

    #[allow(clippy::too_many_lines, reason = "a table of cases")]
    fn step(&mut self, step: Step) {
        match step {
            Step::Record(callbacks) => {
                for (index, (order, bytes, awaits_answer)) in callbacks.into_iter().enumerate() {
                    let position = (self.next_seq, index as u8);
                    self.durable.insert(position, (order, bytes));
                    self.unanswered.extend(awaits_answer.then_some(position));
                    self.awaiting.extend(awaits_answer.then_some(position));
                }
                self.next_seq += 1;
            }
            Step::Offer(count) => self.offer(count),
            Step::Take => self.take(),
            Step::Finish(which, ending) => self.finish(which, ending),
            Step::Ask => {
                if let Some(asked) = self.core.ask() {
                    assert!(self.asked.is_none(), "one page at a time");
                    assert!(asked.1.items > 0 && asked.1.bytes > 0);
                    self.asked = Some(asked);
                }
            }
            Step::ReadOutbox => self.read_outbox(),
            Step::PageArrives => {
                if let Some(page) = self.page.take() {
                    let (asked, _) = self.asked.take().expect("a page was requested");
                    self.core.page(asked, page, self.now);
                }
            }
            Step::PageFails => {
                if self.asked.take().is_some() {
                    self.page = None;
                    self.core.page_failed();
                }
            }
            Step::Time(ms) => {
                self.now += Duration::from_millis(ms);
                self.core.at(self.now);
                let next = self.core.next_time(self.now);
                assert!(next.is_none_or(|next| next > self.now), "the keeper would not sleep");
            }
            Step::RecallParked => {
                let parked = std::mem::take(&mut self.parked);
                self.core.recall(parked.iter().map(|position| key(*position)));
            }
            Step::Scan => {
                if let Some(scan) = self.core.scan().filter(|_| self.scan.is_none()) {
                    let pending = self.pending(scan.after()).map(|(position, _)| key(*position));
                    self.scan = Some((scan, pending.take(SCANNED).collect()));
                }
            }
            Step::ScanArrives => {
                if let Some((scan, keys)) = self.scan.take() {
                    self.core.scanned(scan, &keys, keys.len() >= SCANNED);
                }
            }
            Step::Load => {
                let keys = self.core.take_loads(2, self.now);
                assert!(keys.len() <= 2);
                let owed: BTreeMap<_, _> = self.pending(None).collect();
                let load = |key: &CallbackKey| {
                    let position = (key.seq, key.index);
                    owed.get(&position).map(|callback| owed_callback(position, **callback))
                };
                let loaded = keys.iter().filter_map(load).collect();
                self.core.loaded(&keys, loaded, self.now);
            }
            Step::Answer(which) => {
                if !self.unanswered.is_empty() {
                    let position = self.unanswered.swap_remove(which % self.unanswered.len());
                    self.core.answered(key(position));
                    // The callback was offered before its answer was written.
                    if self.core.elsewhere {
                        self.offered_up_to = self.offered_up_to.max(Some(position));
                    }
                }
            }
            Step::Leave => {
                self.core.leave();
                self.is_elsewhere = true;
                // Durable callbacks are offered long before the lane begins again, in the ended term.
                let last = self.durable.keys().next_back().copied();
                self.offered_up_to = self.offered_up_to.max(last);
            }
            Step::OtherDelivers => self.deliver_elsewhere(),
            Step::Begin if self.is_elsewhere => {
                self.core.begin();
                self.is_elsewhere = false;
                // Callbacks that were offered earlier come from the outbox, long after their answers.
                let offered = self.offered_up_to;
                self.unanswered.retain(|position| offered.is_none_or(|offered| *position > offered));
            }
            Step::Begin => {}
        }
        self.outside();
        self.weigh();
    }

    /// The lane's counts agree with its content, and are within its limits.
    fn weigh(&self) {
        let core = &self.core;
        let weigh = |entries: Vec<&Entry>| {
            (entries.len(), entries.iter().map(|entry| entry.callback.bytes).sum::<usize>())
        };
        let followers = || core.busy.values().flatten();
        let here = followers().filter_map(|follower| match follower {
            Follower::Here(entry) => Some(entry),
            Follower::Away(_) => None,
        });
        let waiting = weigh(here.collect());
        assert_eq!((core.followers.here, core.followers.here_bytes), waiting);
        assert_eq!(core.followers.away, followers().count() - waiting.0);
        let repeats = weigh(core.repeats.here().collect());
        let new = weigh(core.ready.iter().chain(&core.released).chain(core.holds.entries()).collect());
        let in_hand = weigh(self.in_hand.iter().collect());
        let all = [waiting, repeats, new, in_hand];
        let sum = all.iter().fold((0, 0), |(items, bytes), part| (items + part.0, bytes + part.1));
        assert_eq!((core.items(), core.bytes()), sum);
        if core.recalls == 0 {
            let here = core.ready.iter().chain(&core.released).chain(core.holds.entries());
            let here = here.chain(core.repeats.here()).chain(&self.in_hand).map(|entry| entry.callback.key);
            let oldest = here.chain(core.repeats.away().map(|(key, _)| key)).min();
            assert_eq!(core.oldest(), oldest);
        }
        assert_eq!(core.in_flight(), in_hand.0);
        let repeated = self.in_hand.iter().filter(|entry| entry.is_repeated()).count();
        assert_eq!(core.repeats_in_flight, repeated);
        // Each of the two that are loaded together may exceed the limits, and so may the callback that reaches the byte
        // limit.
        let CourierConfig { queue_max, queue_bytes_max, retrying_max, .. } = core.config;
        assert!(core.items() <= queue_max + 2, "{} callbacks in memory", core.items());
        assert!(core.bytes() <= queue_bytes_max + 3 * BYTES_OF_ONE_MAX, "{} bytes in memory", core.bytes());
        let share = retrying_max.min(queue_max / 4);
        assert!(waiting.0 <= share && waiting.1 <= queue_bytes_max / 4, "{waiting:?} wait behind others");
    }

    fn offer(&mut self, count: usize) {
        let after = self.offered_up_to.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let next: Vec<_> = self.durable.range((after, std::ops::Bound::Unbounded)).take(count).collect();
        for (position, callback) in next {
            let awaits_answer = self.awaiting.contains(position);
            self.offered_up_to = Some(*position);
            if self.core.elsewhere {
                continue;
            }
            self.core.offer(OwedCallback { awaits_answer, ..owed_callback(*position, *callback) }, self.now);
        }
    }

    fn deliver_elsewhere(&mut self) {
        let in_hand: BTreeSet<_> = self.in_hand.iter().map(|entry| entry.callback.position()).collect();
        let next = self.pending(None).map(|(position, _)| *position).find(|it| !in_hand.contains(it));
        if let Some(position) = next.filter(|_| self.is_elsewhere) {
            self.succeeded.insert(position);
            self.delivered.insert(position);
            self.offered_up_to = self.offered_up_to.max(Some(position));
        }
    }

    /// Callbacks in the outbox after a position: durable, not reported as delivered, not parked.
    fn pending(&self, after: Option<Position>) -> impl Iterator<Item = (&Position, &(u64, usize))> {
        let after = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.durable
            .range((after, std::ops::Bound::Unbounded))
            .filter(|(position, _)| !self.delivered.contains(position) && !self.parked.contains(position))
    }

    /// A page of the outbox: durable callbacks after `after` that are not reported as delivered and not parked, at
    /// least one.
    fn read_outbox(&mut self) {
        let Some((asked, room)) = self.asked.filter(|_| self.page.is_none()) else { return };
        let mut page = Page { items: Vec::new(), more_after: None };
        let mut bytes = 0;
        // The journal's thread offers durable callbacks before the outbox can be read.
        let is_offered = |position: &Position| self.offered_up_to.is_some_and(|offered| *position <= offered);
        for (position, callback) in self.pending(asked.after) {
            if self.awaiting.contains(position) && !is_offered(position) {
                break;
            }
            if page.items.len() >= room.items || bytes >= room.bytes {
                page.more_after = page.items.last().map(OwedCallback::position);
                break;
            }
            bytes += callback.1;
            page.items.push(owed_callback(*position, *callback));
        }
        self.page = Some(page);
    }

    fn take(&mut self) {
        let had_work = self.core.has_work(self.now);
        let Some(entry) = self.core.take(self.now) else {
            return assert!(
                !self.core.has_work(self.now),
                "slots would be woken for nothing again and again"
            );
        };
        assert!(had_work, "work without a wake-up");
        let position = entry.callback.position();
        let order = entry.callback.order;
        assert!(!self.succeeded.contains(&position), "{position:?} is sent again after a success");
        assert!(!self.unanswered.contains(&position), "{position:?} goes out before the answer");
        assert!(
            self.in_hand.iter().all(|other| other.callback.order != order),
            "two callbacks of one transfer are in flight"
        );
        if !self.ever_parked.contains(&position) {
            for (earlier, _) in self.durable.range(..position).filter(|(_, callback)| callback.0 == order) {
                assert!(
                    self.succeeded.contains(earlier) || self.ever_parked.contains(earlier),
                    "{position:?} overtakes {earlier:?}"
                );
            }
        }
        self.in_hand.push(entry);
    }

    fn finish(&mut self, which: usize, ending: Ending) {
        if self.in_hand.is_empty() {
            return;
        }
        let entry = self.in_hand.swap_remove(which % self.in_hand.len());
        let outcome = match ending {
            Ending::Delivered => {
                self.succeeded.insert(entry.callback.position());
                Outcome::Delivered
            }
            Ending::Refused => Outcome::refused("answered 500"),
            Ending::Unreachable => Outcome::Unreachable("no connection".to_owned()),
            Ending::Unroutable => Outcome::Unroutable("no endpoint".to_owned()),
        };
        self.core.finish(entry, outcome, self.now);
    }

    fn outside(&mut self) {
        let actions = self.core.actions();
        for key in actions.delivered {
            let position = (key.seq, key.index);
            assert!(self.succeeded.contains(&position), "reported without a success");
            assert!(self.delivered.insert(position), "reported twice");
        }
        for parked in actions.parked {
            let position = (parked.key.seq, parked.key.index);
            assert!(parked.attempts > 0 && !parked.reason.is_empty(), "{parked:?}");
            assert!(self.parked.insert(position), "parked twice");
            self.ever_parked.insert(position);
        }
    }

    fn is_settled(&self) -> bool {
        let is_ended = |position| self.succeeded.contains(position) || self.parked.contains(position);
        let is_idle = self.core.items() == 0 && !self.core.is_behind() && self.core.recall.is_none();
        is_idle && self.asked.is_none() && self.scan.is_none() && self.durable.keys().all(is_ended)
    }

    /// With a DFSP that answers and a readable outbox, everything must end.
    fn settle(&mut self) {
        self.step(Step::Begin);
        let rounds_max = 20 * (self.durable.len() + 10);
        for _ in 0..rounds_max {
            for step in [
                Step::Offer(1),
                Step::Ask,
                Step::ReadOutbox,
                Step::PageArrives,
                Step::Scan,
                Step::ScanArrives,
                Step::Load,
                Step::Answer(0),
                Step::Take,
                Step::Finish(0, Ending::Delivered),
                Step::Time(20),
            ] {
                self.step(step);
            }
            if self.is_settled() {
                break;
            }
        }
        self.core.report_all();
        self.outside();
        assert_eq!(self.core.items(), 0, "something is left in memory");
        assert_eq!(self.core.bytes(), 0);
        assert!(!self.core.is_behind(), "the lane never became level");
        assert_eq!(self.core.next_time(self.now), None);
        for position in self.durable.keys() {
            let (delivered, parked) = (self.delivered.contains(position), self.parked.contains(position));
            assert!(delivered != parked, "{position:?} was missed (delivered {delivered}, parked {parked})");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lane_sends_each_callback_once_and_in_order(
        config in configs(),
        seed in any::<u64>(),
        steps in steps(),
    ) {
        let mut world = World::new(config, seed);
        for step in steps {
            world.step(step);
        }
        world.settle();
    }
}

mod bounds;
mod budget;
mod outcomes;
mod repeats;
mod wakes;

/// A lane that has caught up from the start.
fn level(config: CourierConfig) -> (LaneCore, Instant) {
    let mut core = LaneCore::new(config, 1);
    let (asked, _) = core.ask().unwrap();
    let now = Instant::now();
    core.page(asked, Page { items: Vec::new(), more_after: None }, now);
    (core, now)
}

fn unreachable() -> Outcome {
    Outcome::Unreachable("no connection".to_owned())
}

#[test]
fn new_callbacks_during_a_page_request_are_sent_exactly_once() {
    let mut core = LaneCore::new(config(), 1);
    let now = Instant::now();
    let (asked, _) = core.ask().unwrap();
    // The first one was read from the outbox; the second one became durable just afterwards.
    core.offer(owed_callback((1, 0), (1, 1)), now);
    core.offer(owed_callback((2, 0), (2, 1)), now);
    core.page(asked, Page { items: vec![owed_callback((1, 0), (1, 1))], more_after: None }, now);
    assert!(core.is_behind(), "the second is not in memory");
    let (asked, _) = core.ask().unwrap();
    core.page(
        asked,
        Page { items: vec![owed_callback((2, 0), (2, 1)), owed_callback((3, 0), (3, 1))], more_after: None },
        now,
    );
    assert!(!core.is_behind());
    // Offered after it was found in the outbox.
    core.offer(owed_callback((3, 0), (3, 1)), now);
    core.offer(owed_callback((4, 0), (4, 1)), now);
    assert_eq!(core.items(), 4);
}

#[test]
fn unreadable_page_is_requested_again() {
    let (mut core, now) = (LaneCore::new(config(), 1), Instant::now());
    let (first, _) = core.ask().unwrap();
    core.offer(owed_callback((2, 0), (2, 1)), now);
    core.page_failed();
    assert_eq!((core.items(), core.is_behind()), (0, true), "the owed callback is in the outbox");
    let (second, _) = core.ask().unwrap();
    assert_eq!(second.after, first.after);
    let both = (1..=2).map(|seq| owed_callback((seq, 0), (seq, 1))).collect();
    core.page(second, Page { items: both, more_after: None }, now);
    assert_eq!((core.items(), core.is_behind()), (2, false));
}

#[test]
fn unreachable_dfsp_is_probed_by_one_request_at_a_time() {
    let (mut core, mut now) =
        level(CourierConfig { concurrency_max: 10, queue_max: 40, retrying_max: 8, ..config() });
    for seq in 1..=5 {
        core.offer(owed_callback((seq, 0), (seq, 1)), now);
    }
    let taken: Vec<_> = std::iter::from_fn(|| core.take(now)).collect();
    assert_eq!(taken.len(), 5);
    for entry in taken {
        core.finish(entry, unreachable(), now);
    }
    for _ in 0..3 {
        assert!(core.take(now).is_none());
        now = core.next_time(now).unwrap();
        let probe = core.take(now).expect("the pause is over");
        assert!(core.take(now).is_none(), "one probe at a time");
        core.finish(probe, unreachable(), now);
    }
    now = core.next_time(now).unwrap();
    let probe = core.take(now).unwrap();
    assert_eq!(probe.callback.position(), (1, 0), "the oldest goes first");
    core.finish(probe, Outcome::refused("answered 500"), now);
    now += Duration::from_millis(100);
    assert_eq!(std::iter::from_fn(|| core.take(now)).count(), 5, "any answer ends the pause");
}

#[test]
fn a_callback_past_its_deadline_is_parked_even_while_the_lane_pauses() {
    let (mut core, mut now) = level(CourierConfig { breaker_threshold: 1, ..config() });
    core.offer(owed_callback((1, 0), (1, 1)), now);
    core.offer(owed_callback((2, 0), (1, 1)), now);
    let mut attempts = 0;
    let parked = loop {
        if let Some(entry) = core.take(now) {
            attempts += 1;
            core.finish(entry, unreachable(), now);
        }
        now = core.next_time(now).unwrap();
        core.at(now);
        if let Some(parked) = core.actions().parked.pop() {
            break parked;
        }
    };
    assert_eq!((parked.key.seq, parked.attempts, parked.reason.as_str()), (1, attempts, "no connection"));
    assert!(attempts > 2);
    assert_eq!(core.items(), 1, "the second callback of the transfer may go now");
}

#[test]
fn drained_lane_accepts_nothing_and_reports_its_deliveries() {
    let (mut core, now) = level(config());
    for seq in 1..=3 {
        core.offer(owed_callback((seq, 0), (seq, 1)), now);
    }
    let entry = core.take(now).unwrap();
    core.draining = true;
    assert!(core.take(now).is_none());
    core.offer(owed_callback((4, 0), (4, 1)), now);
    assert_eq!((core.items(), core.in_flight()), (3, 1));
    core.finish(entry, Outcome::Delivered, now);
    core.actions();
    core.report_all();
    assert_eq!(core.actions().delivered.len(), 1);
    assert_eq!(core.in_flight(), 0);
}
