//! Peers that send too much before an answer, or in place of one: the pool closes the connection, and its worker
//! stays free.

use crate::common;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::pin::pin;
use std::thread::JoinHandle;

use crate::common::ample;
use upesi_http::{Answer, Bytes, Full, Origin, Pool, PoolConfig, Request, SendError};

const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A peer on its own thread that does this on each connection, after a request.
fn peer(connections: usize, answer: impl Fn(&mut TcpStream) + Send + 'static) -> (Pool, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = Origin::new("127.0.0.1", listener.local_addr().unwrap().port());
    let thread = std::thread::spawn(move || {
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(common::AMPLE)).unwrap();
            stream.set_write_timeout(Some(common::AMPLE)).unwrap();
            answer(&mut stream);
        }
    });
    (Pool::new(origin, PoolConfig::default()), thread)
}

/// Reads a request without a body. Returns false if the connection was closed instead.
fn read_request(stream: &mut TcpStream) -> bool {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap() == 0 {
            return false;
        }
        bytes.extend_from_slice(&byte);
    }
    true
}

async fn get(pool: &Pool) -> Result<Answer, SendError> {
    pool.send(Request::get("/").body(Full::<Bytes>::default()).unwrap(), ample()).await
}

fn is_interim(result: Result<Answer, SendError>) -> bool {
    match result {
        Err(error @ SendError::InterimResponses { .. }) => {
            let text =
                "the peer sent more than 8 interim responses (1xx), or 16384 bytes of them, and no answer";
            error.to_string() == text
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn few_interim_responses_are_skipped_and_the_connection_is_kept() {
    let (pool, thread) = peer(1, |stream| {
        for _ in 0..3 {
            assert!(read_request(stream));
            let interim = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".to_owned() + CONTINUE;
            stream.write_all((interim.repeat(4) + OK).as_bytes()).unwrap();
        }
    });
    for _ in 0..3 {
        assert_eq!(get(&pool).await.unwrap().body, "ok");
    }
    thread.join().unwrap();
}

#[tokio::test]
async fn endless_interim_responses_end_the_connection() {
    let (pool, thread) = peer(2, |stream| {
        assert!(read_request(stream));
        // Interim responses are sent until the client closes the connection.
        while stream.write_all(CONTINUE.repeat(100).as_bytes()).is_ok() {}
    });
    for _ in 0..2 {
        assert!(is_interim(get(&pool).await));
        assert_eq!((pool.connections_idle(), pool.connections_busy()), (0, 0));
    }
    thread.join().unwrap();
}

#[tokio::test]
async fn interim_responses_above_the_limit_fail_and_the_pool_recovers() {
    for (interim, is_too_many) in [
        (CONTINUE.repeat(8), false),
        (CONTINUE.repeat(9), true),
        (format!("HTTP/1.1 102 x\r\na: {}\r\n\r\n", "y".repeat(16_000)), false),
        (format!("HTTP/1.1 102 x\r\na: {}\r\n\r\n", "y".repeat(17_000)), true),
    ] {
        let sent = interim.clone() + OK;
        let (pool, thread) = peer(1, move |stream| {
            assert!(read_request(stream));
            // In pieces that end at any byte.
            for piece in sent.as_bytes().chunks(7) {
                if stream.write_all(piece).is_err() {
                    return;
                }
            }
            let _ = stream.shutdown(Shutdown::Write);
        });
        let answer = get(&pool).await;
        if is_too_many {
            assert!(is_interim(answer));
        } else {
            assert_eq!(answer.unwrap().body, "ok");
        }
        thread.join().unwrap();
    }
}

#[tokio::test]
async fn endless_final_head_is_rejected() {
    let (pool, thread) = peer(1, |stream| {
        assert!(read_request(stream));
        stream.write_all(b"HTTP/1.1 200 OK\r\na: ").unwrap();
        while stream.write_all(&[b'x'; 10_000]).is_ok() {}
    });
    let error = get(&pool).await.unwrap_err();
    assert!(matches!(error, SendError::Protocol(_)), "{error}");
    thread.join().unwrap();
}

/// The number of polls of a task shows how often other tasks could run.
#[tokio::test]
async fn body_in_many_chunks_does_not_block_other_tasks() {
    const CHUNKS: usize = 300_000;
    let (pool, thread) = peer(1, |stream| {
        assert!(read_request(stream));
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
        stream.write_all("1\r\nx\r\n".repeat(CHUNKS).as_bytes()).unwrap();
        stream.write_all(b"0\r\n\r\n").unwrap();
    });
    let (mut exchange, mut turns) = (pin!(get(&pool)), 0);
    let answer = std::future::poll_fn(|context| {
        turns += 1;
        exchange.as_mut().poll(context)
    });
    assert_eq!(answer.await.unwrap().body.len(), CHUNKS);
    // A task may do 128 operations per turn.
    assert!(turns >= CHUNKS / 128, "{turns} turns");
    thread.join().unwrap();
}
