//! Callbacks that an operator resends while pages of the outbox arrive.

use std::collections::BTreeSet;

use tokio::time::Instant;
use upesi_ledger::CallbackKey;

use super::core::LaneCore;
use super::entry::Outcome;
use super::recall::SCANNED_KEYS_MAX;
use super::tests::{ITEMS_MAX, config, key, owed_callback};
use crate::lanes::CourierConfig;
use crate::lanes::backlog::Page;
use crate::lanes::callback::OwedCallback;

/// Searches an outbox with these callbacks, as the keeper does.
fn scan(core: &mut LaneCore, outbox: &[CallbackKey]) {
    while let Some(scan) = core.scan() {
        let behind =
            outbox.iter().filter(|key| scan.after().is_none_or(|after| (key.seq, key.index) > after));
        let keys: Vec<_> = behind.take(SCANNED_KEYS_MAX).copied().collect();
        core.scanned(scan, &keys, keys.len() >= SCANNED_KEYS_MAX);
    }
}

/// Loads the callbacks that the lane requests.
fn load(core: &mut LaneCore, now: Instant) -> Vec<u64> {
    let keys = core.take_loads(16, now);
    let load = |key: &CallbackKey| owed_callback((key.seq, key.index), (key.seq, 1));
    core.loaded(&keys, keys.iter().map(load).collect(), now);
    keys.into_iter().map(|key| key.seq).collect()
}

fn page(core: &mut LaneCore, seqs: impl IntoIterator<Item = u64>, now: Instant) {
    let (asked, _) = core.ask().unwrap();
    let items = seqs.into_iter().map(|seq| owed_callback((seq, 0), (seq, 1))).collect();
    core.page(asked, Page { items, more_after: None }, now);
}

/// Sends all callbacks that can be sent.
fn send(core: &mut LaneCore, now: Instant) -> Vec<u64> {
    let mut sent = Vec::new();
    while let Some(entry) = core.take(now) {
        sent.push(entry.callback.key.seq);
        core.finish(entry, Outcome::Delivered, now);
    }
    sent
}

pub(super) fn keys(seqs: impl IntoIterator<Item = u64>) -> Vec<CallbackKey> {
    seqs.into_iter().map(|seq| key((seq, 0))).collect()
}

#[test]
fn callbacks_beyond_the_capacity_are_fetched_again() {
    let mut core = LaneCore::new(config(), 1);
    let now = Instant::now();
    page(&mut core, [], now);
    // While the lane has caught up, more callbacks arrive than fit.
    for seq in 1..=2 {
        core.offer(owed_callback((seq, 0), (seq, 1)), now);
    }
    assert!(!core.is_behind());
    for seq in 3..=7 {
        core.offer(owed_callback((seq, 0), (seq, 1)), now);
    }
    assert_eq!((core.items(), core.is_behind()), (ITEMS_MAX, true));
    for _ in 0..3 {
        let entry = core.take(now).unwrap();
        core.finish(entry, Outcome::Delivered, now);
    }
    let (asked, room) = core.ask().unwrap();
    assert_eq!((asked.after, room.items), (Some((5, 0)), 3));
    let four = (6..=9).map(|seq| owed_callback((seq, 0), (seq, 1))).collect();
    core.page(asked, Page { items: four, more_after: None }, now);
    assert_eq!((core.items(), core.is_behind()), (ITEMS_MAX, true), "the last did not fit");
}

/// An operator resends it before the lane of a hub that has just started has caught up, so a page contains it.
#[test]
fn recalled_callback_is_sent_once_even_if_it_is_also_in_a_page() {
    let now = Instant::now();
    // A page contained it.
    let mut core = LaneCore::new(config(), 1);
    page(&mut core, 1..=2, now);
    core.recall(keys([2]));
    scan(&mut core, &keys(1..=2));
    assert_eq!(load(&mut core, now), Vec::<u64>::new(), "it is on its way");
    assert_eq!(send(&mut core, now), [1, 2]);

    // The next page will contain it.
    let mut core = LaneCore::new(config(), 1);
    core.recall(keys([2]));
    scan(&mut core, &keys(1..=3));
    assert_eq!(load(&mut core, now), Vec::<u64>::new());
    page(&mut core, 1..=3, now);
    assert_eq!(send(&mut core, now), [1, 2, 3]);

    // A page that was read before the callback was resent lacks it. No search begins while that page is on its way.
    let mut core = LaneCore::new(config(), 1);
    let (asked, _) = core.ask().unwrap();
    core.recall(keys([2]));
    assert!(core.scan().is_none());
    let items = [1, 3].map(|seq| owed_callback((seq, 0), (seq, 1))).into();
    core.page(asked, Page { items, more_after: None }, now);
    scan(&mut core, &keys(1..=3));
    assert_eq!(load(&mut core, now), [2]);
    assert_eq!(send(&mut core, now), [1, 3, 2]);

    // The lane has caught up, and has seen every undelivered callback.
    let mut core = LaneCore::new(config(), 1);
    page(&mut core, [1], now);
    core.recall(keys([2, 4]));
    scan(&mut core, &keys([1, 2, 4]));
    assert_eq!(load(&mut core, now), [2, 4]);
    assert_eq!(send(&mut core, now), [1, 2, 4]);
    // The lane falls behind, and no page contains them again.
    for seq in 5..=11 {
        core.offer(owed_callback((seq, 0), (seq, 1)), now);
    }
    assert!(core.is_behind());
    send(&mut core, now);
    let (asked, _) = core.ask().unwrap();
    assert_eq!(asked.after, Some((9, 0)));
}

#[test]
fn failed_loads_are_repeated_and_settled_callbacks_are_forgotten() {
    let (mut core, now) = (LaneCore::new(config(), 1), Instant::now());
    page(&mut core, [], now);
    core.recall(keys([2]));
    scan(&mut core, &keys([2]));
    let asked = core.take_loads(16, now);
    assert_eq!((asked.len(), core.take_loads(16, now).len()), (1, 0));
    core.load_failed(&asked);
    assert_eq!(core.take_loads(16, now), asked);
    core.loaded(&asked, Vec::new(), now);
    assert_eq!((core.take_loads(16, now).len(), core.items()), (0, 0));
    // If it is parked and resent another time, it is found again.
    core.recall(keys([2]));
    scan(&mut core, &keys([2]));
    assert_eq!(load(&mut core, now), [2]);
}

#[test]
fn full_or_draining_lane_loads_no_callbacks() {
    let config = CourierConfig { queue_bytes_max: 10, ..config() };
    let (mut core, now) = (LaneCore::new(config, 1), Instant::now());
    page(&mut core, [], now);
    core.recall(keys([2]));
    scan(&mut core, &keys([2]));
    core.offer(owed_callback((3, 0), (3, 10)), now);
    assert!(core.take_loads(16, now).is_empty());
    assert_eq!(send(&mut core, now), [3]);
    core.draining = true;
    assert!(core.take_loads(16, now).is_empty());
    core.draining = false;
    assert_eq!(core.take_loads(16, now), keys([2]));
}

/// A callback that is anywhere in the lane is not loaded a second time.
#[test]
fn callbacks_in_the_lane_are_not_loaded_again() {
    let config = CourierConfig { concurrency_max: 9, queue_max: 40, retrying_max: 1, ..config() };
    let (mut core, now) = (LaneCore::new(config, 1), Instant::now());
    page(&mut core, [], now);
    for seq in 1..=9 {
        let (order, awaits_answer) = (seq.max(3), seq == 6 || seq == 7);
        core.offer(OwedCallback { awaits_answer, ..owed_callback((seq, 0), (order, 1)) }, now);
    }
    // The first one is in flight, with one that waits for it here and one in the outbox. Of two that failed, one has
    // left memory. Of two that waited for an answer, one has it. One is delivered, and the last one is not begun.
    let taken: Vec<_> = (0..4).map(|_| core.take(now).unwrap()).collect();
    let mut taken = taken.into_iter();
    let _first = taken.next().unwrap();
    for _ in 0..2 {
        core.finish(taken.next().unwrap(), Outcome::refused("answered 500"), now);
    }
    core.finish(taken.next().unwrap(), Outcome::Delivered, now);
    core.answered(key((7, 0)));
    assert_eq!((core.followers.here, core.followers.away), (1, 1));
    assert_eq!(
        (core.retrying(), core.retrying_on_disk(), core.ready.len(), core.released.len()),
        (1, 1, 1, 1)
    );
    core.recall(keys(1..=9));
    scan(&mut core, &keys(1..=9));
    assert!(core.recall.is_none() && core.loads.is_empty(), "{:?}", core.loads);
}

#[test]
fn search_of_the_outbox_continues_after_the_last_search() {
    let (mut core, now) = (LaneCore::new(config(), 1), Instant::now());
    page(&mut core, [], now);
    let all = [(0, 0), (1, 254), (1, u8::MAX), (3, 0), (3, 1)].map(key);
    core.recall(all);
    // After no position, after one of the same record, after the last of a record, and after the last recalled one.
    for (after, found, more) in [
        (None, 0..1, true),
        (Some((0, 0)), 1..2, true),
        (Some((1, 254)), 2..3, true),
        (Some((1, u8::MAX)), 3..5, true),
    ] {
        let scan = core.scan().unwrap();
        assert_eq!(scan.after(), after);
        core.scanned(scan, &all[found.clone()], more);
        let asked = core.take_loads(16, now);
        assert_eq!(asked, all[found]);
        core.loaded(&asked, Vec::new(), now);
    }
    assert!(core.scan().is_none());
}

/// A search that began before an operator's last command may lack the callbacks of that command.
#[test]
fn resend_during_a_read_of_the_outbox_is_not_lost() {
    let (mut core, now) = (LaneCore::new(config(), 1), Instant::now());
    page(&mut core, [], now);
    core.recall(keys([1]));
    let early = core.scan().unwrap();
    core.recall(keys([1, 2]));
    core.scanned(early, &keys([1]), false);
    scan(&mut core, &keys([1, 2]));
    assert_eq!(load(&mut core, now), [1, 2]);
}

/// However many callbacks an operator resends, a lane sends all of them, within its memory limit.
#[test]
fn each_recalled_callback_is_sent_once() {
    const COUNT: u64 = 120_000;
    let (mut core, now) = (LaneCore::new(config(), 1), Instant::now());
    page(&mut core, [], now);
    let mut outbox: Vec<_> = keys((1..=COUNT).map(|number| number * 3));
    // In portions, as operators resend them, while the first ones are in flight.
    let mut calls = outbox.clone();
    let mut sent = BTreeSet::new();
    while sent.len() < COUNT as usize {
        let portion = calls.len().saturating_sub(10_000);
        core.recall(calls.drain(portion..));
        for _ in 0..400 {
            if let Some(scan) = core.scan() {
                let from = scan
                    .after()
                    .map_or(0, |after| outbox.partition_point(|key| (key.seq, key.index) <= after));
                let keys: Vec<_> = outbox[from..].iter().take(SCANNED_KEYS_MAX).copied().collect();
                core.scanned(scan, &keys, keys.len() >= SCANNED_KEYS_MAX);
            }
            load(&mut core, now);
            assert!(core.items() <= ITEMS_MAX + 16 && core.loads.len() <= SCANNED_KEYS_MAX);
            for seq in send(&mut core, now) {
                assert!(sent.insert(seq), "{seq} is sent twice");
            }
        }
        core.report_all();
        let delivered: BTreeSet<_> = core.actions().delivered.into_iter().collect();
        outbox.retain(|key| !delivered.contains(key));
    }
    assert!(outbox.is_empty() && core.recall.is_none());
}
