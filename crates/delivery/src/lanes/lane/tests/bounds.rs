//! The number of callbacks that a lane takes into memory, and the time of its search for more.

use std::time::Duration;

use tokio::time::Instant;
use upesi_http::BreakerState;

use super::{ITEMS_MAX, config, key, level, owed_callback};
use crate::lanes::CourierConfig;
use crate::lanes::backlog::Page;
use crate::lanes::callback::{OwedCallback, Refusal, Repetition};
use crate::lanes::lane::core::LaneCore;
use crate::lanes::lane::entry::{Outcome, ParkedCallback};
use crate::lanes::lane::recall_tests::keys;
use crate::lanes::lane::repeats::AWAY_MAX;

fn bounded(queue_max: usize, queue_bytes_max: usize) -> CourierConfig {
    CourierConfig { queue_max, queue_bytes_max, retrying_max: queue_max, ..config() }
}

/// Callbacks of these sizes, each of its own transfer.
fn sized(sizes: &[usize]) -> Vec<OwedCallback> {
    (1..).zip(sizes).map(|(seq, bytes)| owed_callback((seq, 0), (seq, *bytes))).collect()
}

/// Callbacks of this transfer arrive one after the other.
fn offer(core: &mut LaneCore, seqs: std::ops::RangeInclusive<u64>, order: impl Fn(u64) -> u64, now: Instant) {
    for seq in seqs {
        core.offer(owed_callback((seq, 0), (order(seq), 1)), now);
    }
}

#[test]
fn lane_leaves_callbacks_above_its_capacity_in_the_outbox() {
    // Numbers of live and of paged callbacks. The last one of a page may exceed the byte limit.
    for (queue_max, bytes_max, sizes, live, paged) in [
        (3, 100, &[1, 1, 1][..], 3, 3),
        (3, 100, &[1, 1, 1, 1], 3, 3),
        (9, 10, &[4, 6], 2, 2),
        (9, 10, &[4, 6, 1], 2, 2),
        (9, 10, &[4, 7, 1], 1, 2),
        // A single callback may be larger than the limit.
        (9, 10, &[11], 1, 1),
        (9, 10, &[11, 1], 1, 1),
    ] {
        let what = format!("{queue_max}, {bytes_max}, {sizes:?}");
        let bytes = |count| sizes[..count].iter().sum::<usize>();
        let (mut core, now) = level(bounded(queue_max, bytes_max));
        for callback in sized(sizes) {
            core.offer(callback, now);
        }
        let seen = (core.items(), core.bytes(), core.is_behind());
        assert_eq!(seen, (live, bytes(live), live < sizes.len()), "live: {what}");

        let mut core = LaneCore::new(bounded(queue_max, bytes_max), 1);
        let (asked, room) = core.ask().unwrap();
        assert_eq!((room.items, room.bytes), (queue_max, bytes_max));
        core.page(asked, Page { items: sized(sizes), more_after: None }, now);
        let seen = (core.items(), core.bytes(), core.is_behind());
        assert_eq!(seen, (paged, bytes(paged), paged < sizes.len()), "a page: {what}");
    }
}

/// Callbacks behind others of their transfer may use a quarter of the memory. If there are more, they are dropped and
/// read from the outbox later.
#[test]
fn callbacks_waiting_behind_their_transfer_have_a_share_of_the_memory() {
    for (queue_max, retrying_max, bytes_max, bytes, here) in
        [(14, 9, 400, 1, 3), (14, 2, 400, 1, 2), (23, 23, 54, 4, 3), (23, 23, 54, 5, 2), (23, 23, 24, 6, 1)]
    {
        let (mut core, now) = level(CourierConfig { retrying_max, ..bounded(queue_max, bytes_max) });
        core.offer(owed_callback((1, 0), (9, 1)), now);
        let first = core.take(now).unwrap();
        for seq in 2..=6 {
            core.offer(owed_callback((seq, 0), (9, bytes)), now);
            assert!(core.take(now).is_none());
        }
        let away = 5 - here;
        assert_eq!((core.followers.here, core.followers.away), (here, away), "{queue_max} {bytes_max}");
        assert_eq!((core.items(), core.bytes()), (1 + here, 1 + here * bytes));
        core.finish(first, Outcome::Delivered, now);
        let mut sent = vec![1];
        while let Some(entry) = core.take(now) {
            sent.push(entry.callback.key.seq);
            core.finish(entry, Outcome::Delivered, now);
            let keys = core.take_loads(16, now);
            let loaded = keys.iter().map(|key| owed_callback((key.seq, 0), (9, bytes))).collect();
            core.loaded(&keys, loaded, now);
        }
        assert_eq!((sent, core.items()), ((1..=6).collect(), 0));
    }

    let (mut core, now) = level(bounded(4, 400));
    core.offer(owed_callback((1, 0), (9, 1)), now);
    let _first = core.take(now).unwrap();
    let most = 2 + AWAY_MAX as u64;
    for seq in 2..=most + 1 {
        core.offer(owed_callback((seq, 0), (9, 1)), now);
        assert!(core.take(now).is_none());
    }
    assert_eq!((core.followers.here, core.followers.away, core.items()), (1, AWAY_MAX, 2));
    let reason = "too many callbacks wait behind others of the same transfer".to_owned();
    let parked = ParkedCallback { key: key((most + 1, 0)), reason, attempts: 0 };
    assert_eq!(core.actions().parked, [parked]);
}

/// The lane continues to read the outbox when half of the memory is free, without callbacks that wait for others.
#[test]
fn a_lane_reads_on_once_half_of_its_memory_is_free() {
    for (queue_max, followers, repeats, items_max) in
        [(16, 0, 0, 8), (17, 0, 0, 8), (16, 4, 0, 10), (16, 0, 4, 10), (17, 4, 4, 12), (16, 3, 1, 10)]
    {
        let config = CourierConfig { breaker_threshold: 99, ..bounded(queue_max, 4_000) };
        let (mut core, now) = level(config);
        // One is in flight while the others of its transfer wait, and some are rejected.
        offer(&mut core, 1..=followers + 1, |_| 1, now);
        let first = core.take(now).unwrap();
        offer(&mut core, 21..=20 + repeats, |seq| seq, now);
        while let Some(entry) = core.take(now) {
            core.finish(entry, Outcome::refused("answered 500"), now);
        }
        assert_eq!((core.followers.here as u64, core.retrying() as u64), (followers, repeats));
        offer(&mut core, 101..=199, |seq| seq, now);
        assert_eq!((core.items(), core.is_behind()), (queue_max, true));
        core.actions();
        while core.items() > items_max {
            assert!(core.ask().is_none() && !core.actions().wake_keeper, "{} of {queue_max}", core.items());
            let entry = core.take(now).unwrap();
            core.finish(entry, Outcome::Unroutable("no endpoint".to_owned()), now);
        }
        assert!(core.actions().wake_keeper);
        assert!(core.ask().is_some());
        drop(first);
    }
    // Not before space for a single byte is free.
    let (mut core, now) = level(bounded(16, 10));
    for callback in sized(&[10, 1]) {
        core.offer(callback, now);
    }
    assert!(core.is_behind() && core.ask().is_none());
}

/// The lane looks for resent callbacks as soon as there is space, even if it has caught up.
#[test]
fn space_for_resent_callbacks_wakes_the_keeper() {
    let (mut core, now) = level(bounded(4, 400));
    offer(&mut core, 2..=5, |seq| seq, now);
    core.recall(keys([1]));
    assert!(core.actions().wake_keeper);
    let end = |core: &mut LaneCore| {
        let entry = core.take(now).unwrap();
        core.finish(entry, Outcome::Unroutable("no endpoint".to_owned()), now);
        core.actions().wake_keeper
    };
    assert!(core.scan().is_none() && !end(&mut core));
    assert!(end(&mut core));
    let scan = core.scan().unwrap();
    core.scanned(scan, &keys([1]), false);
    offer(&mut core, 6..=7, |seq| seq, now);
    assert!(core.take_loads(16, now).is_empty(), "others have come in since");
    assert!(end(&mut core));
    assert_eq!(core.take_loads(16, now), keys([1]));
}

/// A pause ends by the clock if a callback waits. If none waits, no task is woken.
#[test]
fn the_end_of_a_pause_wakes_a_lane_that_has_something_to_send() {
    let pause = Duration::from_secs(10);
    let config = CourierConfig {
        breaker_threshold: 1,
        breaker_pause_min: pause,
        breaker_pause_max: pause,
        backoff_min: pause * 9,
        backoff_max: pause * 9,
        deadline: pause * 99,
        ..bounded(4, 400)
    };
    let pauses = |core: &mut LaneCore, now| {
        core.end_direct(false, Some(Err("no connection".to_owned())), now);
        assert_eq!(core.breaker(), BreakerState::Open);
        core.next_time(now)
    };
    let is_end = |next: Option<Instant>, now| (now + pause / 2..=now + pause).contains(&next.unwrap());
    let (mut core, now) = level(config.clone());
    assert_eq!(pauses(&mut core, now), None);
    assert!(!core.has_work(now) && !core.has_work(now + pause));
    core.offer(owed_callback((1, 0), (1, 1)), now);
    assert!(is_end(core.next_time(now), now), "it waits");
    assert!(!core.has_work(now) && core.has_work(now + pause));

    // The same while new callbacks are held back, until another one is tried.
    let (mut core, now) = level(CourierConfig { concurrency_max: 1, ..config.clone() });
    core.offer(owed_callback((1, 0), (1, 1)), now);
    let entry = core.take(now).unwrap();
    let (reason, repetition) = ("answered 400".to_owned(), Repetition::AFewTimes);
    let refusal = Refusal { reason, repetition, retry_after: None };
    core.finish(entry, Outcome::Refused(refusal), now);
    assert!(core.refuses_new() && core.next_time(now).unwrap() > now + pause);
    core.offer(owed_callback((2, 0), (2, 1)), now);
    assert!(is_end(core.next_time(now), now));

    // Only a callback that has left memory waits.
    let (mut core, now) = level(CourierConfig { breaker_threshold: 9, ..config });
    offer(&mut core, 1..=2, |seq| seq, now);
    for _ in 0..2 {
        let entry = core.take(now).unwrap();
        core.finish(entry, Outcome::refused("answered 500"), now);
    }
    let soon = now + pause * 9;
    let entry = core.take(soon).unwrap();
    core.finish(entry, Outcome::Delivered, soon);
    core.report_all();
    for _ in 0..9 {
        core.end_direct(false, Some(Err("no connection".to_owned())), soon);
    }
    assert_eq!((core.items(), core.retrying_on_disk(), core.breaker()), (0, 1, BreakerState::Open));
    assert!(is_end(core.next_time(soon), soon));
    assert!(!core.has_work(soon + pause), "it is not in memory yet");
}

#[test]
fn full_lane_falls_behind_once_and_catches_up() {
    let (mut core, now) = level(config());
    core.actions();
    let mut fell_behind = 0;
    for seq in 1..=10 {
        core.offer(owed_callback((seq, 0), (seq, 1)), now);
        let actions = core.actions();
        fell_behind += usize::from(actions.fell_behind);
        assert_eq!(actions.wake_keeper, actions.fell_behind);
    }
    assert_eq!((core.items(), fell_behind, core.is_behind()), (ITEMS_MAX, 1, true));
    assert!(core.ask().is_none(), "no space is free yet");
    for _ in 0..3 {
        let entry = core.take(now).unwrap();
        core.finish(entry, Outcome::Delivered, now);
    }
    assert!(core.actions().wake_keeper);
    let (asked, room) = core.ask().unwrap();
    assert_eq!((asked.after, room.items), (Some((5, 0)), 3));
    let rest = (6..=8).map(|seq| owed_callback((seq, 0), (seq, 1))).collect();
    core.page(asked, Page { items: rest, more_after: Some((8, 0)) }, now);
    assert!(core.is_behind());
}

#[test]
fn reading_of_the_outbox_continues_after_damaged_records() {
    let (mut core, now) = (LaneCore::new(config(), 1), Instant::now());
    let (asked, _) = core.ask().unwrap();
    core.page(asked, Page { items: Vec::new(), more_after: Some((3, 0)) }, now);
    let (asked, _) = core.ask().unwrap();
    assert_eq!(asked.after, Some((3, 0)));
    core.page(asked, Page { items: vec![owed_callback((4, 0), (4, 1))], more_after: Some((6, 0)) }, now);
    let (asked, _) = core.ask().unwrap();
    assert_eq!((asked.after, core.items(), core.is_behind()), (Some((6, 0)), 1, true));
    core.page(asked, Page { items: Vec::new(), more_after: None }, now);
    assert!(!core.is_behind());
}
