//! The effect of an attempt's end on the DFSP's state, the time of the next attempt, and wake-ups.

use std::time::Duration;

use tokio::time::Instant;
use upesi_http::BreakerState;

use super::{config, level, owed_callback, unreachable};
use crate::lanes::CourierConfig;
use crate::lanes::callback::{Refusal, Repetition};
use crate::lanes::lane::core::LaneCore;
use crate::lanes::lane::entry::{Entry, Outcome};

const PAUSE: Duration = Duration::from_secs(10);
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// A lane with this many callbacks, which pauses after this many failures.
fn lane(breaker_threshold: u32, count: u64) -> (LaneCore, Instant) {
    let (mut core, now) = level(CourierConfig {
        queue_max: 40,
        retrying_max: 40,
        breaker_threshold,
        breaker_pause_min: PAUSE,
        breaker_pause_max: PAUSE,
        backoff_min: Duration::from_millis(2),
        backoff_max: BACKOFF_MAX,
        deadline: 100 * BACKOFF_MAX,
        ..config()
    });
    for seq in 1..=count {
        core.offer(owed_callback((seq, 0), (seq, 1)), now);
    }
    core.actions();
    (core, now)
}

fn unroutable() -> Outcome {
    Outcome::Unroutable("no endpoint".to_owned())
}

fn refused_for_good() -> Outcome {
    let reason = "answered 400".to_owned();
    Outcome::Refused(Refusal { reason, repetition: Repetition::AFewTimes, retry_after: None })
}

/// Ends an attempt. Returns whether the keeper was woken.
fn end(core: &mut LaneCore, entry: Entry, outcome: Outcome, now: Instant) -> bool {
    core.finish(entry, outcome, now);
    core.actions().wake_keeper
}

/// `Retry-After` of a DFSP is a minimum delay: it can be longer than the lane's own, but not beyond the deadline.
#[test]
fn callback_is_not_repeated_before_the_retry_after_time() {
    for (repetition, asked_s, waits_s) in [
        (Repetition::UntilDeadline, 90, 90),
        (Repetition::AFewTimes, 90, 90),
        // The lane's deadline is 100 minutes.
        (Repetition::UntilDeadline, 7_000, 6_000),
    ] {
        let (mut core, now) = lane(9, 1);
        let entry = core.take(now).unwrap();
        let retry_after = Some(Duration::from_secs(asked_s));
        let refusal = Refusal { reason: "answered 503".to_owned(), repetition, retry_after };
        core.finish(entry, Outcome::Refused(refusal), now);
        let at = |seconds| now + Duration::from_secs(seconds);
        assert!(core.take(at(waits_s - 1)).is_none(), "{asked_s}");
        core.at(at(waits_s));
        let is_parked = !core.actions().parked.is_empty();
        assert_eq!((core.take(at(waits_s)).is_some(), is_parked), (waits_s == asked_s, waits_s != asked_s));
    }
}

/// With a temporary error, `Retry-After` applies to the DFSP: nothing is sent to it before, not even new callbacks.
#[test]
fn nothing_is_sent_before_a_busy_dfsps_retry_after_time() {
    let at = |now: Instant, seconds| now + Duration::from_secs(seconds);
    for (repetition, is_paused) in [(Repetition::UntilDeadline, true), (Repetition::AFewTimes, false)] {
        let (mut core, now) = lane(9, 3);
        let refused = |asked_s| {
            let retry_after = Some(Duration::from_secs(asked_s));
            Outcome::Refused(Refusal { reason: "answered 503".to_owned(), repetition, retry_after })
        };
        let [first, second] = std::array::from_fn(|_| core.take(now).unwrap());
        assert!(end(&mut core, first, refused(90), now));
        assert_eq!(core.has_work(now), !is_paused);
        if !is_paused {
            assert!(core.take(now).is_some());
            continue;
        }
        assert_eq!(core.next_time(now), Some(at(now, 90)));
        assert!(core.take(at(now, 89)).is_none());
        // A shorter delay of another answer does not shorten it.
        end(&mut core, second, refused(10), now);
        assert_eq!(core.next_time(now), Some(at(now, 90)));
        // Other messages cannot wait, and are tried.
        assert_eq!(core.begin_direct(now), Some(false));
        // A callback that was rejected, and the new one.
        let again: Vec<_> = std::iter::from_fn(|| core.take(at(now, 90))).collect();
        let is_new = |entry: &Entry| !entry.is_repeated();
        assert_eq!((again.len(), again.iter().filter(|entry| is_new(entry)).count()), (2, 1));
    }
}

#[test]
fn inconclusive_probe_is_followed_by_another() {
    let (mut core, now) = lane(1, 9);
    let [first, early] = std::array::from_fn(|_| core.take(now).unwrap());
    assert!(end(&mut core, first, unreachable(), now), "a pause has begun");
    assert!(core.take(now).is_none() && core.begin_direct(now).is_none());
    let now = now + PAUSE;
    let probe = core.take(now).unwrap();
    assert!(probe.is_probe && core.take(now).is_none() && core.begin_direct(now).is_none());
    // An attempt that began before the pause also has no effect.
    assert!(!end(&mut core, early, unroutable(), now));
    assert_eq!(core.breaker(), BreakerState::Probing);
    assert!(end(&mut core, probe, unroutable(), now));
    assert_eq!(core.breaker(), BreakerState::Open);
    // Messages that are not callbacks behave in the same way.
    assert_eq!(core.begin_direct(now), Some(true));
    core.end_direct(false, None, now);
    assert!(core.breaker() == BreakerState::Probing && !core.actions().wake_keeper);
    core.end_direct(true, None, now);
    assert!(core.breaker() == BreakerState::Open && core.actions().wake_keeper);
    assert_eq!(core.begin_direct(now), Some(true));
    core.end_direct(true, Some(Ok(())), now);
    assert!(core.breaker() == BreakerState::Closed && core.actions().wake_keeper);
    assert_eq!((core.begin_direct(now), core.breaker_opened()), (Some(false), 1));
    core.end_direct(false, Some(Ok(())), now);
    assert!(!core.actions().wake_keeper);
    core.end_direct(false, Some(Err("no connection".to_owned())), now);
    assert!(core.breaker() == BreakerState::Open && core.actions().wake_keeper);
    core.draining = true;
    assert_eq!(core.begin_direct(now + PAUSE), None);
}

#[test]
fn inconclusive_trial_is_followed_by_another() {
    let (mut core, now) = lane(2, 9);
    let [early, first, second, third] = std::array::from_fn(|_| core.take(now).unwrap());
    let mut early = Some(early);
    // The rejected callback is due again long before the others.
    end(&mut core, first, Outcome::refused("answered 500"), now);
    assert!(!end(&mut core, second, refused_for_good(), now), "nothing new to wait for");
    assert!(end(&mut core, third, refused_for_good(), now), "as many as may be under way");
    assert!(core.refuses_new() && core.breaker_opened() == 0);
    let now = now + PAUSE;
    let again = core.take(now).unwrap();
    assert!(again.is_repeated() && !again.is_trial, "repetitions continue");
    end(&mut core, again, Outcome::Unroutable("given up".to_owned()), now);
    for outcome in [unroutable(), unreachable()] {
        let trial = core.take(now).unwrap();
        assert!(trial.is_trial && core.take(now).is_none());
        if let Some(early) = early.take() {
            assert!(!end(&mut core, early, unroutable(), now));
            assert!(core.take(now).is_none(), "the trial is still under way");
        }
        assert!(end(&mut core, trial, outcome, now));
        assert!(core.refuses_new());
    }
    let trial = core.take(now).unwrap();
    assert!(end(&mut core, trial, refused_for_good(), now));
    assert!(core.take(now).is_none(), "the next after another pause");
    let now = now + PAUSE;
    let trial = std::iter::from_fn(|| core.take(now)).find(|entry| entry.is_trial).unwrap();
    assert!(end(&mut core, trial, Outcome::Delivered, now));
    assert!(!core.refuses_new());
}

#[test]
fn repeated_rejection_of_one_callback_does_not_hold_back_new_ones() {
    let (mut core, mut now) = lane(1, 1);
    for _ in 0..5 {
        let entry = core.take(now).unwrap();
        core.finish(entry, Outcome::refused("answered 500"), now);
        now = core.next_time(now).unwrap();
    }
    assert!(!core.refuses_new());
}

#[test]
fn keeper_wakes_for_an_earlier_due_time() {
    let (mut core, now) = lane(99, 3);
    let [first, earlier, later] = std::array::from_fn(|_| core.take(now).unwrap());
    assert!(end(&mut core, first, refused_for_good(), now));
    assert!(end(&mut core, earlier, Outcome::refused("answered 500"), now));
    assert!(!end(&mut core, later, refused_for_good(), now));
}

/// Deliveries are reported when there are enough of them, or when they have waited long enough.
#[test]
fn deliveries_are_reported_together() {
    let (mut core, now) = lane(99, 6);
    let CourierConfig { report_items, report_interval, .. } = core.config;
    let deliver = |core: &mut LaneCore, now| {
        let entry = core.take(now).unwrap();
        core.finish(entry, Outcome::Delivered, now);
        core.actions()
    };
    assert!(deliver(&mut core, now).wake_keeper);
    for delivered in 2..report_items {
        let actions = deliver(&mut core, now);
        assert!(actions.delivered.is_empty() && !actions.wake_keeper, "{delivered} wait already");
    }
    assert_eq!(core.next_time(now), Some(now + report_interval));
    assert_eq!(deliver(&mut core, now).delivered.len(), report_items);
    assert_eq!(core.next_time(now), None);
    deliver(&mut core, now);
    core.at(now + report_interval - Duration::from_nanos(1));
    assert!(core.actions().delivered.is_empty());
    core.at(now + report_interval);
    assert_eq!((core.actions().delivered.len(), core.next_time(now)), (1, None));
}

#[test]
fn delays_grow_with_the_attempts_and_end_at_the_deadline() {
    let refused = || Outcome::refused("answered 500");
    for (outcome, attempts, from, to) in [
        (refused as fn() -> Outcome, 1, Duration::from_millis(1), Duration::from_millis(2)),
        (refused, 2, Duration::from_millis(1), Duration::from_millis(4)),
        (refused, 5, Duration::from_millis(1), Duration::from_millis(32)),
        (unreachable, 5, Duration::from_millis(1), Duration::from_millis(32)),
        (refused_for_good, 1, BACKOFF_MAX / 2, BACKOFF_MAX),
        (refused_for_good, 4, BACKOFF_MAX / 2, BACKOFF_MAX),
    ] {
        let mut longest = Duration::ZERO;
        for seed in 0..40 {
            let (mut core, mut now) = lane(99, 1);
            core.jitter = upesi_http::Jitter::new(seed);
            for _ in 1..attempts {
                let entry = core.take(now).unwrap();
                core.finish(entry, outcome(), now);
                now = core.next_time(now).unwrap();
            }
            let entry = core.take(now).unwrap();
            core.finish(entry, outcome(), now);
            let wait = core.next_time(now).unwrap() - now;
            assert!((from..=to).contains(&wait), "{wait:?} after {attempts}");
            longest = longest.max(wait);
        }
        assert!(longest > to * 3 / 4, "{longest:?} after {attempts}");
    }
    // The attempt ends exactly at the deadline of the callback.
    let (mut core, start) = lane(99, 1);
    let mut now = start;
    let parked = loop {
        if let Some(entry) = core.take(now) {
            core.finish(entry, Outcome::refused("answered 500"), now);
        }
        now = core.next_time(now).unwrap();
        core.at(now);
        if let Some(parked) = core.actions().parked.pop() {
            break parked;
        }
    };
    assert_eq!((now - start, parked.reason.as_str()), (100 * BACKOFF_MAX, "answered 500"));
    // An attempt that ends after the deadline is the last one.
    let (mut core, now) = lane(99, 1);
    let entry = core.take(now).unwrap();
    core.finish(entry, unreachable(), now + 100 * BACKOFF_MAX);
    assert_eq!((core.actions().parked.len(), core.items()), (1, 0));
}

/// Of the callbacks beyond the limit, the one with the most attempts leaves memory. It returns after the longest delay.
#[test]
fn callback_that_left_memory_returns_after_the_longest_delay() {
    let (mut core, now) = lane(99, 12);
    let all: Vec<_> = (1..=12).filter_map(|_| core.take(now)).collect();
    assert_eq!(all.len(), 12);
    for entry in all {
        core.finish(entry, Outcome::refused("answered 500"), now);
    }
    let left: Vec<_> = core.repeats.away().map(|(key, _)| key.seq).collect();
    assert_eq!(
        (core.retrying(), left),
        (10, vec![1, 2]),
        "a quarter of the memory, the oldest with the most attempts"
    );
    let longest = now + 2 * BACKOFF_MAX;
    assert!(core.take_loads(16, now + BACKOFF_MAX - Duration::from_nanos(1)).is_empty());
    core.draining = true;
    assert!(core.take_loads(16, longest).is_empty());
    core.draining = false;
    for _ in 0..99 {
        core.end_direct(false, Some(Err("no connection".to_owned())), longest - PAUSE);
    }
    assert!(core.take_loads(16, longest - PAUSE / 2).is_empty(), "not while the lane pauses");
    assert_eq!(core.take_loads(16, longest).len(), 2);
}
