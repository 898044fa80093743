//! Callbacks that an operator sends again, while pages from the outbox come in.

use tokio::time::Instant;

use super::core::{Core, Outcome};
use super::tests::{ITEMS_MAX, config, delivery, key};
use crate::contract::Page;

#[test]
fn what_a_page_brings_beyond_the_room_is_fetched_again() {
    let mut core = Core::<()>::new(config(), 1);
    let now = Instant::now();
    let (asked, room) = core.ask().unwrap();
    assert_eq!(room.items, ITEMS_MAX);
    // Recalled notices have taken a part of the room meanwhile.
    let recalled = [delivery((1, 0), (1, 1)), delivery((2, 0), (2, 1))];
    core.recall(recalled.iter().map(|delivery| delivery.key));
    let keys = core.take_recalled(16);
    assert_eq!(keys.len(), 2);
    core.loaded(&keys, recalled.into(), now);
    let five = (3..=7).map(|seq| delivery((seq, 0), (seq, 1))).collect();
    core.page(asked, Page { items: five, more: false }, now);
    assert_eq!((core.items(), core.is_behind()), (ITEMS_MAX, true));
    for _ in 0..3 {
        let entry = core.take(now).unwrap();
        core.finish(entry, Outcome::Delivered, now);
    }
    let (asked, _) = core.ask().unwrap();
    assert_eq!(asked.after, Some((5, 0)));
    core.page(
        asked,
        Page { items: vec![delivery((6, 0), (6, 1)), delivery((7, 0), (7, 1))], more: false },
        now,
    );
    assert!(!core.is_behind());
}

#[test]
fn a_recalled_notice_that_the_next_page_brings_too_is_sent_once() {
    let (mut core, now) = (Core::new(config(), 1), Instant::now());
    core.recall([key((2, 0))]);
    assert_eq!(core.take_recalled(16), [key((2, 0))]);
    core.loaded(&[key((2, 0))], vec![delivery((2, 0), (2, 1))], now);
    let (asked, _) = core.ask().unwrap();
    let three = (1..=3).map(|seq| delivery((seq, 0), (seq, 1))).collect();
    core.page(asked, Page { items: three, more: false }, now);
    let sent: Vec<_> = std::iter::from_fn(|| core.take(now)).map(|entry| entry.delivery.key.seq).collect();
    assert_eq!(sent, [2, 1, 3]);
}

/// An operator sends it again before the lane of a hub that has just started has caught up: a page has it, and so has the load.
#[test]
fn a_recalled_notice_that_a_page_brought_first_is_sent_once() {
    let recalled = [key((2, 0))];
    let page = |core: &mut Core<()>, now| {
        let (asked, _) = core.ask().unwrap();
        let items = (1..=3).map(|seq| delivery((seq, 0), (seq, 1))).collect();
        core.page(asked, Page { items, more: false }, now);
    };
    let send = |core: &mut Core<()>, now| {
        let sent: Vec<_> = std::iter::from_fn(|| core.take(now)).collect();
        assert_eq!(sent.iter().map(|entry| entry.delivery.key.seq).collect::<Vec<_>>(), [1, 2, 3]);
        sent.into_iter().for_each(|entry| core.finish(entry, Outcome::Delivered, now));
    };
    let nothing_more = |mut core: Core<()>, now| {
        assert_eq!(core.take_recalled(16), []);
        assert!(core.take(now).is_none());
        // Known again once it is gone, should it be parked another time.
        core.report_all();
        assert_eq!((core.recall(recalled), core.take_recalled(16)), (1, recalled.to_vec()));
    };
    let fresh = || (Core::new(config(), 1), Instant::now());

    let (mut core, now) = fresh();
    page(&mut core, now);
    assert_eq!((core.recall(recalled), core.take_recalled(16)), (1, Vec::new()), "it is on its way");
    send(&mut core, now);
    nothing_more(core, now);

    let (mut core, now) = fresh();
    core.recall(recalled);
    page(&mut core, now);
    send(&mut core, now);
    nothing_more(core, now);

    for load_fails in [false, true] {
        let (mut core, now) = fresh();
        core.recall(recalled);
        assert_eq!(core.take_recalled(16), recalled);
        page(&mut core, now);
        send(&mut core, now);
        if load_fails {
            core.load_failed(&recalled);
        } else {
            core.loaded(&recalled, vec![delivery((2, 0), (2, 1))], now);
        }
        nothing_more(core, now);
    }

    // A load that fails is tried again, and what is no longer owed is forgotten.
    let (mut core, now) = fresh();
    core.recall(recalled);
    assert_eq!(core.take_recalled(16), recalled);
    core.load_failed(&recalled);
    assert_eq!(core.take_recalled(16), recalled);
    core.loaded(&recalled, Vec::new(), now);
    nothing_more(core, now);
}
