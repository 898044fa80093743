//! Messages that are not callbacks, over real sockets.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{AMPLE, Dfsp, World, config, participant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;
use upesi_delivery::OutgoingRequest;
use upesi_delivery::lanes::{CourierConfig, TransportError};
use upesi_http::{BreakerState, Bytes, HeaderMap, HeaderValue, Method, Target};

fn request(world: &World, seq: u64) -> OutgoingRequest {
    let mut headers = HeaderMap::new();
    headers.insert("x-seq", HeaderValue::from(seq));
    let url = world.endpoints.url(participant(2)).unwrap();
    OutgoingRequest {
        target: Target::parse(&format!("{url}/direct")).unwrap(),
        method: Method::GET,
        headers,
        body: Bytes::new(),
        is_hub_made: false,
        sender: None,
    }
}

#[tokio::test]
async fn answer_is_returned_with_any_status() {
    let world = World::start(config());
    let dfsp = world.dfsp(participant(2), Dfsp::open(), |seq, _| seq as u16);
    for status in [200, 202, 404, 500] {
        let answer = world.courier.send(participant(2), request(&world, status)).await.unwrap();
        assert_eq!(u64::from(answer.status.as_u16()), status);
    }
    assert_eq!(dfsp.received().len(), 4);
    assert_eq!(dfsp.received()[0].path, "/callbacks/direct");
    let status = world.courier.lane(participant(2)).unwrap();
    assert_eq!((status.relayed, status.relay_failures, status.delivered), (4, 0, 0));
    assert_eq!(status.breaker, BreakerState::Closed, "a DFSP that rejects messages is reachable");
}

#[tokio::test]
async fn unreachable_dfsp_gets_no_messages_until_a_probe_succeeds() {
    // No server listens here until the DFSP starts on another port.
    let pause = Duration::from_secs(3600);
    let world = World::start(CourierConfig {
        breaker_threshold: 2,
        breaker_pause_min: pause,
        breaker_pause_max: pause,
        ..config()
    });
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    world.endpoints.set(participant(2), closed.local_addr().unwrap());
    drop(closed);
    for _ in 0..2 {
        let error = world.courier.send(participant(2), request(&world, 200)).await.unwrap_err();
        assert!(matches!(error, TransportError::Unreachable(_)), "{error:?}");
    }
    let error = world.courier.send(participant(2), request(&world, 200)).await.unwrap_err();
    assert_eq!(error, TransportError::Barred);
    let status = world.courier.lane(participant(2)).unwrap();
    assert_eq!((status.breaker, status.relay_failures), (BreakerState::Open, 3));
}

#[tokio::test]
async fn first_message_after_the_pause_detects_a_recovered_dfsp() {
    let world = World::start(CourierConfig {
        breaker_threshold: 1,
        breaker_pause_min: Duration::from_nanos(1),
        breaker_pause_max: Duration::from_nanos(1),
        ..config()
    });
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    world.endpoints.set(participant(2), closed.local_addr().unwrap());
    drop(closed);
    let error = world.courier.send(participant(2), request(&world, 200)).await.unwrap_err();
    assert!(matches!(error, TransportError::Unreachable(_)), "{error:?}");
    let _dfsp = world.dfsp(participant(2), Dfsp::open(), |_, _| 200);
    // The pause lasts a millisecond.
    let until_back = async {
        loop {
            match world.courier.send(participant(2), request(&world, 200)).await {
                Err(TransportError::Barred) => tokio::task::yield_now().await,
                sent => return sent,
            }
        }
    };
    let answer = timeout(AMPLE, until_back).await.expect("it stays barred").unwrap();
    assert_eq!(answer.status, 200);
    let status = world.courier.lane(participant(2)).unwrap();
    assert_eq!((status.breaker, status.breaker_opened), (BreakerState::Closed, 1));
}

/// The status shows whether the DFSP accepted the message. An unreadable body changes nothing.
#[tokio::test]
async fn status_is_returned_even_if_the_body_is_incomplete() {
    for (status, head) in
        [(202, "content-length: 50"), (200, "transfer-encoding: chunked"), (503, "content-length: 9")]
    {
        let world = World::start(config());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        world.endpoints.set(participant(2), listener.local_addr().unwrap());
        let dfsp = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            let answer = format!("HTTP/1.1 {status} X\r\n{head}\r\n\r\n5");
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        let answer = world.courier.send(participant(2), request(&world, 1)).await.unwrap();
        assert_eq!((answer.status.as_u16(), &*answer.body), (status, &b""[..]));
        let lane = world.courier.lane(participant(2)).unwrap();
        assert_eq!((lane.relayed, lane.relay_failures, lane.breaker), (1, 0, BreakerState::Closed));
        dfsp.await.unwrap();
    }
}

#[tokio::test]
async fn messages_above_the_limit_are_rejected_at_once() {
    let world = World::start(CourierConfig {
        relay_concurrency_max: 2,
        relay_waiting_max: 3,
        relay_sender_share_percent: 100,
        ..config()
    });
    let world = Arc::new(world);
    let dfsp = world.dfsp(participant(2), 0, |_, _| 200);
    let mut sending = JoinSet::new();
    for seq in 0..5 {
        let world = world.clone();
        sending.spawn(async move { world.courier.send(participant(2), request(&world, seq)).await });
    }
    dfsp.until_at_gate(2).await;
    let error = world.courier.send(participant(2), request(&world, 9)).await.unwrap_err();
    assert_eq!(error, TransportError::Busy);
    dfsp.gate.add_permits(6);
    for sent in sending.join_all().await {
        assert_eq!(sent.unwrap().status, 200);
    }
    // The slots are free again.
    assert_eq!(world.courier.send(participant(2), request(&world, 10)).await.unwrap().status, 200);
    assert_eq!(dfsp.received().len(), 6);
}

#[tokio::test]
async fn messages_and_callbacks_do_not_wait_for_each_other() {
    let mut world =
        World::start(CourierConfig { concurrency_max: 1, queue_max: 16, retrying_max: 16, ..config() });
    let dfsp = world.dfsp(participant(2), 0, |_, _| 200);
    world.notify(participant(2), 1, &[1]);
    dfsp.until_at_gate(1).await;
    // The only slot is busy, but the message is delivered nevertheless.
    let (courier, message) = (world.courier.clone(), request(&world, 200));
    let sending = tokio::spawn(async move { courier.send(participant(2), message).await });
    dfsp.until_at_gate(1).await;
    dfsp.gate.add_permits(2);
    assert_eq!(sending.await.unwrap().unwrap().status, 200);
    world.outbox.until_delivered(1).await;
}

#[tokio::test]
async fn connection_closed_on_reuse_is_a_separate_error() {
    let world = World::start(config());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    world.endpoints.set(participant(2), listener.local_addr().unwrap());
    let dfsp = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        // The connection ends in place of an answer to the second request.
        assert!(stream.read(&mut request).await.unwrap() > 0);
    });
    assert_eq!(world.courier.send(participant(2), request(&world, 1)).await.unwrap().status, 202);
    let again = world.courier.send(participant(2), request(&world, 2)).await;
    assert_eq!(again.unwrap_err(), TransportError::Stale);
    assert_eq!(world.courier.lane(participant(2)).unwrap().breaker, BreakerState::Closed);
    dfsp.await.unwrap();
}
