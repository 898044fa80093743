//! Limits of retries, waiting of new callbacks, and the visibility of both.

use std::time::Duration;

use super::{config, key, level, owed_callback, unreachable};
use crate::lanes::CourierConfig;
use crate::lanes::callback::OwedCallback;
use crate::lanes::lane::core::LaneCore;
use crate::lanes::lane::entry::Outcome;

/// Retries may use half of the slots. If both kinds wait, they alternate.
#[test]
fn repeats_and_new_callbacks_do_not_wait_for_each_other() {
    let config = CourierConfig { concurrency_max: 4, queue_max: 40, retrying_max: 8, ..config() };
    let (mut core, mut now) = level(config);
    for seq in 1..=6 {
        core.offer(owed_callback((seq, 0), (seq, 1)), now);
    }
    for _ in 1..=6 {
        let entry = core.take(now).unwrap();
        core.finish(entry, Outcome::Delivered, now);
    }
    for seq in 11..=13 {
        core.offer(owed_callback((seq, 0), (seq, 1)), now);
    }
    for _ in 11..=13 {
        let entry = core.take(now).unwrap();
        core.finish(entry, Outcome::refused("answered 500"), now);
    }
    assert_eq!((core.retrying(), core.items()), (3, 3));
    now += Duration::from_millis(200);
    for seq in 21..=24 {
        core.offer(owed_callback((seq, 0), (seq, 1)), now);
    }
    let kinds: Vec<_> = std::iter::from_fn(|| core.take(now)).map(|entry| entry.is_repeated()).collect();
    assert_eq!(kinds, [true, false, true, false, false, false], "two repeats at a time");
    assert!(!core.has_work(now));
}

/// If a DFSP rejects many new callbacks in a row, new ones are tried one at a time. Rejected retries do not have this
/// effect.
#[test]
fn new_callbacks_wait_only_after_rejections_of_new_ones() {
    let (mut core, mut now) = level(CourierConfig { queue_max: 40, retrying_max: 8, ..config() });
    for seq in 1..=9 {
        core.offer(owed_callback((seq, 0), (seq, 1)), now);
    }
    for _ in 0..3 {
        let entry = core.take(now).unwrap();
        core.finish(entry, Outcome::refused("answered 500"), now);
    }
    assert!(core.take(now).is_none() && core.refuses_new());
    // Retries continue. If they are rejected again, this has no effect on new callbacks.
    let mut begun = 0;
    while core.refuses_new() && begun < 2 {
        now = core.next_time(now).unwrap();
        while let Some(entry) = core.take(now) {
            begun += usize::from(!entry.is_repeated());
            core.finish(entry, Outcome::refused("answered 500"), now);
        }
    }
    assert_eq!(begun, 2, "one at a time");
    loop {
        now = core.next_time(now).unwrap();
        if let Some(entry) = core.take(now) {
            let is_new = !entry.is_repeated();
            core.finish(
                entry,
                if is_new { Outcome::Delivered } else { Outcome::refused("answered 500") },
                now,
            );
            if is_new {
                break;
            }
        }
    }
    assert!(!core.refuses_new());
    let new = std::iter::from_fn(|| core.take(now)).filter(|entry| !entry.is_repeated()).count();
    assert_eq!(new, 3);
}

/// The attempts of a callback that is not parked are visible, wherever the callback is.
#[test]
fn pending_callback_shows_attempts_and_reasons() {
    let (mut core, mut now) = level(CourierConfig { breaker_threshold: 9, ..config() });
    for seq in 1..=4 {
        core.offer(owed_callback((seq, 0), (seq, 1)), now);
    }
    assert_eq!(core.failed().count(), 0);
    for seq in 1..=3 {
        let entry = core.take(now).unwrap();
        core.finish(entry, Outcome::refused(&format!("answered {}", 500 + seq)), now);
    }
    let unanswered = core.take(now).unwrap();
    assert_eq!(core.refused_long(now + Duration::from_secs(10)), 3, "a first attempt is not refused");
    let seen = |core: &LaneCore| {
        let mut seen: Vec<_> =
            core.failed().map(|(key, attempts, reason)| (key.seq, attempts, reason.to_string())).collect();
        seen.sort();
        seen
    };
    let all: Vec<_> = (1..=3).map(|seq| (seq, 1, format!("answered {}", 500 + seq))).collect();
    assert_eq!((seen(&core), core.retrying(), core.retrying_on_disk()), (all.clone(), 1, 2));
    let long = now + Duration::from_secs(10);
    assert_eq!((core.refused_long(long - Duration::from_nanos(1)), core.refused_long(long)), (0, 3));
    // While it is in flight again, the last failure is still visible.
    now += Duration::from_millis(50);
    let entry = std::iter::from_fn(|| core.take(now)).find(|entry| entry.is_repeated()).unwrap();
    assert_eq!((seen(&core), core.refused_long(long)), (all, 3));
    core.finish(entry, Outcome::Delivered, now);
    assert_eq!((seen(&core).len(), core.refused_long(long)), (2, 2));
    core.finish(unanswered, unreachable(), now);
    assert_eq!((seen(&core).len(), core.refused_long(long)), (3, 2), "not answered is not refused");
}

#[test]
fn a_callback_waits_for_the_answer_to_its_request_and_its_followers_wait_with_it() {
    let (mut core, now) = level(config());
    let awaiting = |seq, order| OwedCallback { awaits_answer: true, ..owed_callback((seq, 0), (order, 1)) };
    core.offer(awaiting(1, 9), now);
    core.offer(owed_callback((2, 0), (9, 1)), now);
    core.offer(owed_callback((3, 0), (8, 1)), now);
    let taken = core.take(now).unwrap();
    assert_eq!(taken.callback.key.seq, 3, "one of another transfer does not wait");
    assert!(core.take(now).is_none() && !core.has_work(now));
    assert_eq!((core.items(), core.oldest()), (3, Some(key((1, 0)))));
    core.answered(key((1, 0)));
    assert!(core.has_work(now));
    let first = core.take(now).unwrap();
    assert_eq!(first.callback.key.seq, 1);
    assert!(core.take(now).is_none());
    core.finish(first, Outcome::Delivered, now);
    assert_eq!(core.take(now).unwrap().callback.key.seq, 2);
    // Answered before the lane has received it.
    core.answered(key((4, 0)));
    core.offer(awaiting(4, 7), now);
    assert_eq!(core.take(now).unwrap().callback.key.seq, 4);
}
