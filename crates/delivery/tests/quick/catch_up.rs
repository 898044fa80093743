//! Catching up from the outbox, limits, and shutdown.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{AMPLE, Dfsp, World, config, participant};
use futures_util::FutureExt as _;
use tokio::time::{Instant, timeout};
use upesi_delivery::lanes::CourierConfig;

#[tokio::test]
async fn callbacks_in_the_outbox_at_the_start_are_delivered_in_order() {
    let world =
        World::start(CourierConfig { queue_max: 16, concurrency_max: 1, retrying_max: 4, ..config() });
    let target = participant(2);
    let dfsp = world.dfsp(target, Dfsp::open(), |_, _| 200);
    for seq in 1..=500 {
        world.outbox.add(target, seq, seq);
    }
    world.outbox.failures.store(3, Ordering::Relaxed);
    world.courier.open(target);
    world.outbox.until_delivered(500).await;
    let seqs: Vec<_> = dfsp.received().iter().map(|received| received.seq).collect();
    assert_eq!(seqs, (1..=500).collect::<Vec<_>>());
    assert!(world.outbox.page_items_max() <= 16);
    let metrics = world.courier.metrics(target).unwrap();
    assert_eq!(metrics.backlog_failures.load(Ordering::Relaxed), 3);
    assert_eq!(metrics.catch_ups.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn burst_above_the_limit_is_delivered_from_the_outbox() {
    let config = CourierConfig {
        queue_max: 32,
        queue_bytes_max: 150,
        concurrency_max: 4,
        retrying_max: 8,
        ..config()
    };
    let mut world = World::start(config);
    let target = participant(2);
    let dfsp = world.dfsp(target, 0, |seq, before| if seq % 50 == 0 && before == 0 { 500 } else { 200 });
    const COUNT: u64 = 2000;
    let within_bounds = |world: &World| {
        let status = world.courier.lane(target).unwrap();
        assert!(status.queued + status.retrying + status.in_flight <= 32, "{status:?}");
        assert!(status.bytes <= 150 + 10, "{status:?}");
        status
    };
    for batch in 0..COUNT / 20 {
        let first = batch * 20 + 1;
        world.notify(target, first, &(first..first + 20).collect::<Vec<_>>());
        within_bounds(&world);
        // Some callbacks are delivered during the burst, so that catching up and live callbacks overlap.
        dfsp.gate.add_permits(7);
        tokio::task::yield_now().await;
    }
    assert!(within_bounds(&world).catching_up);
    dfsp.gate.add_permits(Dfsp::open());
    world.outbox.until_delivered(COUNT as usize).await;
    let mut delivered: Vec<_> = world.outbox.delivered().iter().map(|key| key.seq).collect();
    delivered.sort_unstable();
    assert_eq!(delivered, (1..=COUNT).collect::<Vec<_>>());
    let successes = dfsp.received().iter().filter(|received| received.status == 200).count();
    assert_eq!(successes, COUNT as usize, "delivered more than once");
    assert!(!world.courier.lane(target).unwrap().catching_up);
    // The lane has caught up: new callbacks are taken live.
    world.notify(target, COUNT + 1, &[1]);
    world.outbox.until_delivered(COUNT as usize + 1).await;
}

#[tokio::test]
async fn unreadable_outbox_is_read_again_after_a_pause() {
    let config = CourierConfig { backlog_retry_wait: 1_000 * AMPLE, ..config() };
    let mut world = World::start(config);
    let [target, other] = [2, 3].map(participant);
    world.dfsp(target, Dfsp::open(), |_, _| 200);
    world.dfsp(other, Dfsp::open(), |_, _| 200);
    let key = world.outbox.add(target, 1, 1).key;
    world.outbox.failures.store(1, Ordering::Relaxed);
    world.courier.open(target);
    let failed = async {
        while world.courier.lane(target).unwrap().backlog_failures == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(AMPLE, failed).await.unwrap();
    // The keeper is woken before another lane has delivered anything.
    world.courier.redeliver(&[key]);
    world.notify(other, 2, &[2]);
    world.outbox.until_delivered(1).await;
    assert_eq!(world.outbox.pages(target), 1);
}

/// More than the keeper reads at a time, and half of its reads fail at first.
#[tokio::test]
async fn any_number_of_parked_callbacks_can_be_sent_again() {
    const COUNT: u64 = 1_100;
    let mut world = World::start(config());
    let target = participant(2);
    world.notify(target, 1, &(1..=COUNT).collect::<Vec<_>>());
    world.outbox.until_parked(COUNT as usize).await;
    world.until_level(target).await;
    let dfsp = world.dfsp(target, Dfsp::open(), |_, _| 200);
    let parked = world.outbox.unpark();
    world.outbox.failures.store(4, Ordering::Relaxed);
    world.courier.redeliver(&parked);
    world.outbox.until_delivered(COUNT as usize).await;
    assert_eq!(dfsp.received().len(), COUNT as usize);
    let status = world.courier.lane(target).unwrap();
    assert_eq!((status.backlog_failures, status.parked), (4, COUNT));
}

#[tokio::test]
async fn drain_finishes_requests_in_flight_and_leaves_the_rest_in_the_outbox() {
    let config = CourierConfig { concurrency_max: 2, report_interval: AMPLE, ..config() };
    let mut world = World::start(config);
    let target = participant(2);
    let dfsp = world.dfsp(target, 0, |_, _| 200);
    world.notify(target, 1, &[1, 2, 3, 4, 5]);
    dfsp.until_at_gate(2).await;
    assert_eq!(
        world.courier.drain(Instant::now() + Duration::from_millis(1)).await,
        2,
        "no DFSP has answered"
    );
    world.notify(target, 6, &[6]);
    dfsp.gate.add_permits(Dfsp::open());
    assert_eq!(world.courier.drain(Instant::now() + 10 * AMPLE).await, 0);
    assert_eq!(dfsp.received().len(), 2);
    assert_eq!(world.outbox.delivered().len(), 2, "reported although not yet due");
    // A lane that is opened now also accepts nothing.
    let late = participant(3);
    world.dfsp(late, Dfsp::open(), |_, _| 200);
    world.notify(late, 7, &[7]);
    assert_eq!(world.courier.lane(late).unwrap().queued, 0);
}

/// The end of the only request in flight ends the wait. Nothing else would, before the deadline.
#[tokio::test]
async fn a_drain_ends_with_the_last_request_in_flight() {
    let mut world = World::start(config());
    let target = participant(2);
    let dfsp = world.dfsp(target, 0, |_, _| 200);
    world.notify(target, 1, &[1]);
    dfsp.until_at_gate(1).await;
    let mut drain = pin!(world.courier.drain(Instant::now() + 10 * AMPLE));
    assert_eq!(drain.as_mut().now_or_never(), None, "one is in flight");
    dfsp.gate.add_permits(1);
    assert_eq!(timeout(AMPLE, drain).await, Ok(0));
}
