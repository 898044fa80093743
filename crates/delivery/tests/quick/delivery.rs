//! Delivery to DFSPs over real sockets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{AMPLE, Dfsp, ENDPOINT, MOOT_SEQ, World, config, participant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;
use upesi_delivery::OutgoingRequest;
use upesi_delivery::lanes::{CallbackKey, CourierConfig, Failure, Histogram, OwedCallback};
use upesi_http::{BreakerState, Bytes, HeaderMap, Method, Target};

#[tokio::test]
async fn a_callback_is_delivered_and_reported() {
    let mut world = World::start(config());
    let target = participant(2);
    let dfsp = world.dfsp(target, Dfsp::open(), |_, _| 200);
    world.notify(target, 7, &[41]);
    world.outbox.until_delivered(1).await;
    let received = &dfsp.received()[0];
    assert_eq!((received.method.clone(), received.path.as_str()), (Method::PUT, "/callbacks/41"));
    assert_eq!(received.body, "41/7");
    let status = world.courier.lane(target).unwrap();
    assert_eq!((status.delivered, status.failed, status.parked, status.queued), (1, 0, 0, 0));
    assert_eq!(
        (status.breaker, status.catching_up, status.oldest_pending),
        (BreakerState::Closed, false, None)
    );
    let metrics = world.courier.metrics(target).unwrap();
    assert_eq!(metrics.delivery_duration.counts().iter().sum::<u64>(), 1);
    assert_eq!(world.courier.lanes(), [status]);
}

#[tokio::test]
async fn any_2xx_is_delivered_and_anything_else_is_repeated_with_the_same_bytes() {
    let mut world = World::start(config());
    let target = participant(2);
    let dfsp = world.dfsp(target, Dfsp::open(), |seq, before| match (seq, before) {
        (1, 0) => 500,
        (1, 1) => 503,
        (1, _) => 200,
        (2, 0) => 404,
        (2, _) => 202,
        (3, 0) => 302,
        _ => 204,
    });
    world.notify(target, 1, &[1, 2, 3]);
    world.outbox.until_delivered(3).await;
    for (seq, statuses) in [(1, &[500, 503, 200][..]), (2, &[404, 202]), (3, &[302, 204])] {
        let received: Vec<_> = dfsp.received().into_iter().filter(|received| received.seq == seq).collect();
        assert_eq!(received.iter().map(|received| received.status).collect::<Vec<_>>(), statuses);
        assert!(
            received.iter().all(|other| other.body == received[0].body && other.path == received[0].path)
        );
    }
    let status = world.courier.lane(target).unwrap();
    assert_eq!((status.delivered, status.failed, status.parked), (3, 4, 0));
    assert!(status.last_error.unwrap().starts_with("answered "));
}

#[tokio::test]
async fn waiting_time_of_a_party_is_recorded_once_at_delivery() {
    let mut world = World::start(config());
    let target = participant(2);
    world.dfsp(target, Dfsp::open(), |_, before| if before < 2 { 500 } else { 200 });
    // This callback does not originate from a DFSP. From then on the lane has caught up.
    world.notify(target, 3, &[3]);
    world.outbox.until_delivered(1).await;
    for seq in 4..=9 {
        let callback = world.outbox.add(target, seq, seq);
        world.outlet.offer(callback);
    }
    world.outlet.flush();
    world.outbox.until_delivered(7).await;
    let metrics = world.courier.metrics(target).unwrap();
    let observed = |histogram: &Histogram| (histogram.counts().iter().sum::<u64>(), histogram.sum_us());
    assert_eq!(observed(&metrics.prepare_duration), (2, 2 * 2_000));
    assert_eq!(observed(&metrics.fulfil_duration), (2, 2 * 3_000));
    assert_eq!(observed(&metrics.transfer_duration), (1, 43_000));
    assert_eq!(observed(&metrics.delivery_duration).0, 7);
    assert_eq!((observed(&metrics.failure_duration).0, observed(&metrics.attempt_duration).0), (14, 21));
}

#[tokio::test]
async fn waiting_and_failed_callbacks_are_shown() {
    let mut world = World::start(CourierConfig {
        concurrency_max: 1,
        queue_max: 8,
        retrying_max: 8,
        backoff_min: AMPLE * 1_000,
        backoff_max: AMPLE * 1_000,
        deadline: AMPLE * 10_000,
        ..config()
    });
    let target = participant(2);
    let dfsp = world.dfsp(target, 5, |_, _| 500);
    world.notify(target, 1, &[1, 2, 3, 4, 5, 6, 7]);
    dfsp.until_at_gate(6).await;
    let status = world.courier.lane(target).unwrap();
    assert_eq!((status.in_flight, status.queued, status.failed), (1, 1, 5));
    assert_eq!((status.retrying, status.retrying_on_disk, status.bytes), (5, 3, 4 * 3));
    assert_eq!((status.refused, status.refuses_new), (0, false));
    let keys: Vec<_> = [2, 3, 7].into_iter().map(|seq| CallbackKey { target, seq, index: 0 }).collect();
    let mut failures = world.courier.failures(&keys);
    failures.sort_by_key(|failure| failure.key);
    let reason = "answered 500 Internal Server Error".to_owned();
    let failed = |key: &CallbackKey| Failure { key: *key, attempts: 1, reason: reason.clone() };
    assert_eq!(failures, keys[..2].iter().map(failed).collect::<Vec<_>>());
}

#[tokio::test]
async fn callback_is_sent_once_the_answer_to_its_request_is_written() {
    let mut world = World::start(config());
    let target = participant(2);
    let dfsp = world.dfsp(target, Dfsp::open(), |_, _| 200);
    world.courier.open(target);
    world.until_level(target).await;
    let waits = world.outbox.add(target, 1, 1);
    let key = waits.key;
    world.outlet.offer(OwedCallback { awaits_answer: true, ..waits });
    world.notify(target, 2, &[2]);
    world.outbox.until_delivered(1).await;
    assert_eq!(dfsp.received()[0].seq, 2);
    world.courier.answered([key]);
    world.outbox.until_delivered(2).await;
    assert_eq!(dfsp.received()[1].seq, 1);
}

#[tokio::test]
async fn expired_callback_is_not_repeated_after_a_rejection() {
    let mut world = World::start(config());
    let (refuses, breaks_off) = (participant(2), participant(3));
    let dfsp = world.dfsp(refuses, Dfsp::open(), |_, _| 500);
    world.notify(refuses, MOOT_SEQ, &[1]);
    world.outbox.until_parked(1).await;
    let (_, reason, attempts) = world.outbox.parked()[0].clone();
    assert_eq!((&*reason, attempts), ("answered 500 Internal Server Error; too late", 2));
    assert_eq!(dfsp.received().len(), 1);
    // Otherwise it is not known whether it arrived.
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    scripted_peer(&world, 3, move |index| if index == 0 { "" } else { ok }).await;
    world.notify(breaks_off, MOOT_SEQ + 1, &[2]);
    world.outbox.until_delivered(1).await;
}

/// A peer that answers one request, and then waits for the end of the connection.
async fn until_closed(listener: TcpListener) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = [0; 4096];
    assert!(stream.read(&mut request).await.unwrap() > 0);
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    let closed = timeout(AMPLE, stream.read(&mut request)).await.expect("it stays open");
    assert_eq!(closed.unwrap(), 0);
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let mut world = World::start(CourierConfig { idle_timeout: Duration::from_millis(20), ..config() });
    let target = participant(2);
    for seq in 1..=2 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        world.endpoints.set(target, listener.local_addr().unwrap());
        let peer = tokio::spawn(until_closed(listener));
        if seq == 1 {
            world.notify(target, seq, &[seq]);
            world.outbox.until_delivered(1).await;
        } else {
            let request = OutgoingRequest {
                target: Target::parse(&world.endpoints.url(target).unwrap()).unwrap(),
                method: Method::GET,
                headers: HeaderMap::new(),
                body: Bytes::new(),
                is_hub_made: false,
                sender: None,
            };
            assert_eq!(world.courier.send(target, request).await.unwrap().status, 200);
        }
        peer.await.unwrap();
    }
}

#[tokio::test]
async fn callbacks_of_a_transfer_arrive_in_order_despite_failures() {
    let mut world = World::start(CourierConfig { concurrency_max: 8, ..config() });
    let target = participant(2);
    let dfsp =
        world.dfsp(
            target,
            Dfsp::open(),
            |seq, before| if (seq + before as u64).is_multiple_of(3) { 500 } else { 200 },
        );
    const COUNT: u64 = 400;
    for batch in 0..COUNT / 8 {
        let transfers: Vec<_> = (0..8).map(|index| (batch * 8 + index) * 7 % 25).collect();
        world.notify(target, batch * 8 + 1, &transfers);
    }
    world.outbox.until_delivered(COUNT as usize).await;
    let mut last_of_transfer = BTreeMap::new();
    let mut successes = 0;
    for received in dfsp.received() {
        let last = last_of_transfer.entry(received.path.clone()).or_insert(0);
        assert!(received.seq >= *last, "{} after {last} on {}", received.seq, received.path);
        *last = received.seq;
        successes += u64::from(received.status == 200);
    }
    assert_eq!(successes, COUNT, "each exactly once");
    assert!(dfsp.present_max.load(Ordering::Relaxed) > 1, "never two at a time");
}

#[tokio::test]
async fn requests_in_flight_are_limited() {
    let mut world = World::start(CourierConfig { concurrency_max: 3, ..config() });
    let target = participant(2);
    let dfsp = world.dfsp(target, 0, |_, _| 200);
    world.notify(target, 1, &(1..=20).collect::<Vec<_>>());
    dfsp.until_at_gate(3).await;
    let status = world.courier.lane(target).unwrap();
    assert_eq!((status.in_flight, status.queued), (3, 17));
    assert_eq!(status.oldest_pending.map(|key| key.seq), Some(1));
    dfsp.gate.add_permits(20);
    world.outbox.until_delivered(20).await;
    assert_eq!(dfsp.present_max.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn unresponsive_dfsp_does_not_delay_others() {
    let mut world = World::start(CourierConfig { concurrency_max: 2, ..config() });
    let (stuck, healthy) = (participant(2), participant(3));
    let stuck_dfsp = world.dfsp(stuck, 0, |_, _| 200);
    world.dfsp(healthy, Dfsp::open(), |_, _| 200);
    world.notify(stuck, 1, &[1, 2, 3, 4]);
    stuck_dfsp.until_at_gate(2).await;
    world.notify(healthy, 5, &(1..=50).collect::<Vec<_>>());
    world.outbox.until_delivered(50).await;
    assert!(world.outbox.delivered().iter().all(|key| key.target == healthy));
    assert_eq!(world.courier.lane(stuck).unwrap().in_flight, 2);
    stuck_dfsp.gate.add_permits(4);
    world.outbox.until_delivered(54).await;
}

#[tokio::test]
async fn slow_answers_time_out_and_the_callback_is_repeated() {
    let mut world = World::start(CourierConfig { request_timeout: Duration::from_millis(30), ..config() });
    let target = participant(2);
    let dfsp = world.dfsp(target, 0, |_, _| 200);
    world.notify(target, 1, &[1]);
    dfsp.until_at_gate(2).await;
    dfsp.gate.add_permits(Dfsp::open());
    world.outbox.until_delivered(1).await;
    assert!(world.courier.lane(target).unwrap().failed >= 1);
}

/// Accepts connections, and treats the n-th by its script: reads the request, sends a part of an answer, closes.
async fn scripted_peer(
    world: &World,
    target: u32,
    script: impl Fn(usize) -> &'static str + Send + 'static,
) -> Arc<AtomicUsize> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    world.endpoints.set(participant(target), listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let count = connections.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let answer = script(count.fetch_add(1, Ordering::Relaxed));
            let mut request = Vec::new();
            while !request.windows(4).any(|window| window == b"\r\n\r\n") {
                if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                    break;
                }
            }
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    connections
}

#[tokio::test]
async fn callback_is_repeated_until_an_answer_is_complete() {
    let mut world = World::start(CourierConfig { breaker_threshold: 1000, ..config() });
    let answers = [
        "",
        "HTTP/1.1 20",
        "SMTP ready\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-le",
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nbroken",
    ];
    let connections = scripted_peer(&world, 2, move |index| answers[index]).await;
    world.notify(participant(2), 1, &[1]);
    world.outbox.until_delivered(1).await;
    // The last one answered 200 before it closed, which counts as delivered.
    assert_eq!(connections.load(Ordering::Relaxed), 5);
    assert_eq!(world.courier.lane(participant(2)).unwrap().failed, 4);
}

#[tokio::test]
async fn unreachable_dfsp_is_probed_one_request_at_a_time_until_it_answers() {
    let mut world = World::start(CourierConfig { breaker_threshold: 3, concurrency_max: 4, ..config() });
    let target = participant(2);
    let ok = "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let connections = scripted_peer(&world, 2, move |index| if index < 30 { "" } else { ok }).await;
    world.notify(target, 1, &(1..=100).collect::<Vec<_>>());
    world.outbox.until_delivered(100).await;
    assert!(connections.load(Ordering::Relaxed) >= 130);
    let status = world.courier.lane(target).unwrap();
    assert_eq!((status.breaker, status.parked), (BreakerState::Closed, 0));
    let metrics = world.courier.metrics(target).unwrap();
    assert_eq!(metrics.breaker_opened.load(Ordering::Relaxed), 1);
    assert_eq!(metrics.unreachable.load(Ordering::Relaxed), 30);
}

#[tokio::test]
async fn address_without_a_listener_pauses_the_lane_visibly() {
    let mut world = World::start(CourierConfig {
        breaker_threshold: 2,
        breaker_pause_min: AMPLE,
        breaker_pause_max: AMPLE,
        concurrency_max: 1,
        deadline: Duration::from_millis(40),
        ..config()
    });
    let target = participant(2);
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    world.endpoints.set(target, unused);
    world.notify(target, 1, &[1, 2, 3]);
    // Callbacks with an attempt are parked at their deadline although the lane is paused. The others have no attempt.
    world.outbox.until_parked(1).await;
    let status = world.courier.lane(target).unwrap();
    assert_eq!(status.breaker, BreakerState::Open);
    assert!(status.last_error.unwrap().contains("cannot connect"));
    assert!(status.queued >= 1);
    let (_, reason, attempts) = world.outbox.parked()[0].clone();
    assert!(reason.contains("cannot connect") && attempts >= 1, "{reason} after {attempts}");
}

#[tokio::test]
async fn callback_rejected_until_its_deadline_is_parked_and_can_be_redelivered() {
    let mut world = World::start(CourierConfig { deadline: Duration::from_millis(30), ..config() });
    let target = participant(2);
    let healed = Arc::new(AtomicUsize::new(0));
    let script = healed.clone();
    let dfsp = world.dfsp(target, Dfsp::open(), move |seq, _| {
        if seq == 1 && script.load(Ordering::Relaxed) == 0 { 500 } else { 200 }
    });
    // The second callback is about the same transfer, and waits until the first one is parked.
    world.notify(target, 1, &[5, 5, 6]);
    world.outbox.until_parked(1).await;
    world.outbox.until_delivered(2).await;
    let (key, reason, attempts) = world.outbox.parked()[0].clone();
    assert_eq!((key.seq, reason.as_str()), (1, "answered 500 Internal Server Error"));
    // On a slow machine, the callback may be attempted only once.
    assert_eq!(dfsp.received().iter().filter(|received| received.seq == 1).count(), attempts as usize);
    assert_eq!(world.courier.lane(target).unwrap().parked, 1);

    healed.store(1, Ordering::Relaxed);
    let keys = world.outbox.unpark();
    world.courier.redeliver(&keys);
    world.outbox.until_delivered(3).await;
    assert_eq!(world.outbox.delivered()[2], key);
}

#[tokio::test]
async fn a_missing_endpoint_parks_at_once_and_a_later_one_is_used() {
    let mut world = World::start(config());
    let target = participant(2);
    world.notify(target, 1, &[1]);
    world.outbox.until_parked(1).await;
    let (_, reason, attempts) = world.outbox.parked()[0].clone();
    assert_eq!((reason, attempts), (format!("no endpoint of type {ENDPOINT}"), 1));
    world.endpoints.set_url(target, "ftp://nowhere".to_owned());
    world.courier.redeliver(&world.outbox.unpark());
    world.outbox.until_parked(1).await;
    assert!(world.outbox.parked()[0].1.contains("cannot be called"));
    world.dfsp(target, Dfsp::open(), |_, _| 200);
    world.courier.redeliver(&world.outbox.unpark());
    world.outbox.until_delivered(1).await;
}

#[tokio::test]
async fn a_changed_endpoint_counts_for_repetitions() {
    let mut world = World::start(config());
    let target = participant(2);
    let old = world.dfsp(target, 0, |_, _| 500);
    world.notify(target, 1, &[1]);
    old.until_at_gate(1).await;
    let new = world.dfsp(target, Dfsp::open(), |_, _| 200);
    old.gate.add_permits(1);
    world.outbox.until_delivered(1).await;
    assert_eq!((old.received().len(), new.received().len()), (1, 1));
}

#[tokio::test]
async fn closed_idle_connection_is_not_a_failure() {
    let mut world = World::start(config());
    let target = participant(2);
    // Announces keep-alive, then closes without an answer.
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    scripted_peer(&world, 2, move |_| ok).await;
    for seq in 1..=20 {
        world.notify(target, seq, &[seq]);
        world.outbox.until_delivered(seq as usize).await;
    }
    let status = world.courier.lane(target).unwrap();
    assert_eq!((status.failed, status.delivered), (0, 20));
}
