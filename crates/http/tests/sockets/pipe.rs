//! The server's loop over a pipe in memory, where a test advances the time.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use upesi_http::Limits;
use upesi_http::server::Direct;

use crate::common::Script;

const PIPE_BYTES: usize = 64 * 1024;
const SECOND: Duration = Duration::from_secs(1);
/// The time limits of one second pass in five checks; one more check detects that.
const LOOKS: usize = 6;

fn in_memory() -> Direct<Script> {
    let limits = Limits { head_deadline: SECOND, idle_timeout: SECOND, ..Limits::default() };
    Direct::new(&limits, Arc::new(Script::new()))
}

/// All bytes until the server closes.
async fn rest(mut peer: DuplexStream) -> String {
    let mut bytes = Vec::new();
    peer.read_to_end(&mut bytes).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn requests_are_answered_until_the_peer_ends() {
    let (in_memory, (mut peer, stream)) = (in_memory(), duplex(PIPE_BYTES));
    let asking = async {
        peer.write_all(b"GET /count HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2).as_slice()).await.unwrap();
        let mut answers = Vec::new();
        while !answers.ends_with(b"\r\n\r\n2") {
            assert_ne!(peer.read_buf(&mut answers).await.unwrap(), 0, "closed too early");
        }
        peer.shutdown().await.unwrap();
        assert_eq!(rest(peer).await, "");
    };
    tokio::join!(in_memory.serve(stream, false), asking);
}

#[tokio::test]
async fn request_above_the_limit_is_rejected() {
    let (in_memory, (mut peer, stream)) = (in_memory(), duplex(PIPE_BYTES));
    let asking = async {
        peer.write_all(b"GET /count HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2).as_slice()).await.unwrap();
        peer.shutdown().await.unwrap();
        rest(peer).await
    };
    let ((), answers) = tokio::join!(in_memory.serve(stream, true), asking);
    assert!(answers.starts_with("HTTP/1.1 503") && answers.matches("HTTP/1.1").count() == 1, "{answers}");
}

#[tokio::test]
async fn endless_head_times_out() {
    let (in_memory, (mut peer, stream)) = (in_memory(), duplex(PIPE_BYTES));
    let asking = async {
        peer.write_all(b"GET /count HT").await.unwrap();
        // By its second turn the server has read it.
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
        (0..LOOKS).for_each(|_| in_memory.sweep());
        rest(peer).await
    };
    let ((), answers) = tokio::join!(in_memory.serve(stream, false), asking);
    assert_eq!(answers, "");
}

#[tokio::test]
async fn idle_connection_ends_on_shutdown() {
    let (in_memory, (peer, stream)) = (in_memory(), duplex(PIPE_BYTES));
    let ending = async {
        in_memory.finish_all();
        rest(peer).await
    };
    let ((), answers) = tokio::join!(in_memory.serve(stream, false), ending);
    assert_eq!(answers, "");
}
