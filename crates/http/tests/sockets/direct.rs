//! The server's loop over a pipe in memory, where time passes when it is told to.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use crate::common::Script;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::Semaphore;
use upesi_http::Limits;
use upesi_http::server::Direct;

const PIPE_BYTES: usize = 64 * 1024;
const SECOND: Duration = Duration::from_secs(1);
/// The time limits, of which each is a second, pass in five looks; one more sees that.
const LOOKS: usize = 6;

fn direct() -> Direct<Script> {
    let script =
        Script { requests: AtomicUsize::new(0), holding: Semaphore::new(0), release: Semaphore::new(0) };
    let limits = Limits { head_deadline: SECOND, idle_timeout: SECOND, ..Limits::default() };
    Direct::new(&limits, Arc::new(script))
}

/// Everything that comes until the server closes.
async fn rest(mut peer: DuplexStream) -> String {
    let mut bytes = Vec::new();
    peer.read_to_end(&mut bytes).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn requests_are_answered_until_the_peer_ends() {
    let (direct, (mut peer, stream)) = (direct(), duplex(PIPE_BYTES));
    let asking = async {
        peer.write_all(b"GET /count HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2).as_slice()).await.unwrap();
        let mut answers = Vec::new();
        while !answers.ends_with(b"\r\n\r\n2") {
            assert_ne!(peer.read_buf(&mut answers).await.unwrap(), 0, "closed too early");
        }
        peer.shutdown().await.unwrap();
        assert_eq!(rest(peer).await, "");
    };
    tokio::join!(direct.serve(stream, false), asking);
}

#[tokio::test]
async fn over_the_cap_one_request_is_refused() {
    let (direct, (mut peer, stream)) = (direct(), duplex(PIPE_BYTES));
    let asking = async {
        peer.write_all(b"GET /count HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2).as_slice()).await.unwrap();
        peer.shutdown().await.unwrap();
        rest(peer).await
    };
    let ((), answers) = tokio::join!(direct.serve(stream, true), asking);
    assert!(answers.starts_with("HTTP/1.1 503") && answers.matches("HTTP/1.1").count() == 1, "{answers}");
}

#[tokio::test]
async fn a_head_that_never_ends_is_given_up_when_its_time_has_passed() {
    let (direct, (mut peer, stream)) = (direct(), duplex(PIPE_BYTES));
    let asking = async {
        peer.write_all(b"GET /count HT").await.unwrap();
        // By its second turn the server has read it.
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
        (0..LOOKS).for_each(|_| direct.sweep());
        rest(peer).await
    };
    let ((), answers) = tokio::join!(direct.serve(stream, false), asking);
    assert_eq!(answers, "");
}

#[tokio::test]
async fn an_idle_connection_ends_when_all_are_told_to_finish() {
    let (direct, (peer, stream)) = (direct(), duplex(PIPE_BYTES));
    let ending = async {
        direct.finish_all();
        rest(peer).await
    };
    let ((), answers) = tokio::join!(direct.serve(stream, false), ending);
    assert_eq!(answers, "");
}
