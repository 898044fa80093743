//! HTTP/2 connections: frames in pieces, through the server's own loop and through the client's.
//!
//! An input consists of frames in a short form: kind, flags, stream and length, one byte each, then the payload. Its
//! first byte describes their arrival.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;
use upesi_http::client::{Unanswered, exchange_http2};
use upesi_http::server::{Direct, Refusal};
use upesi_http::{
    Bytes, Connection, Full, Incoming, Limits, PoolConfig, Request, Response, Service, StatusCode, body,
};

use super::connection;
use super::connection::Exchange;

/// Bits of the first byte: the frames come in pieces of seven times this many bytes, or in one piece if zero.
pub(crate) const PIECES: u8 = 0x0F;
/// The hub receives the order to finish before the last piece.
pub(crate) const FINISH: u8 = 0x10;
/// The peer is silent at the end, before it ends its side.
pub(crate) const FALLS_SILENT: u8 = 0x20;
/// The frames are sent repeatedly.
pub(crate) const AGAIN: u8 = 0x40;
/// The rest is raw bytes instead of frames.
pub(crate) const RAW: u8 = 0x80;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADER_BYTES: usize = 9;
const FRAME_BYTES_MAX: usize = 16 * 1024;
const REPEATS: usize = 60;
const WIRE_BYTES_MAX: usize = 64 * 1024;
const BODY_BYTES_MAX: usize = 1024;
const PIPE_BYTES: usize = 4 * 1024 * 1024;
/// No request waits this long, because the peer ends its side.
const DEADLINE: Duration = Duration::from_secs(20);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;

const LIMITS: Limits = Limits { connections_max: 4, ..connection::LIMITS };

/// Frames in their form on the wire.
struct Frames {
    how: u8,
    wire: Vec<u8>,
    streams: Streams,
}

/// Streams of a peer's frames.
#[derive(Default)]
struct Streams {
    are_unknown: bool,
    /// Streams of any frame. The hub may reset these.
    named: BTreeSet<u32>,
    /// Streams of frames that start a head. The hub may answer these.
    opened: BTreeSet<u32>,
}

impl Frames {
    fn read(input: &[u8]) -> Option<Self> {
        let (&how, mut rest) = input.split_first()?;
        let (mut wire, mut streams) = (Vec::new(), Streams::default());
        if how & RAW != 0 {
            // The streams that it opens are not tracked.
            let streams = Streams { are_unknown: true, ..Streams::default() };
            return Some(Self { how, wire: rest.to_vec(), streams });
        }
        while let [kind, flags, stream, length, payload @ ..] = rest {
            let (payload, later) = payload.split_at(payload.len().min(usize::from(*length)));
            wire.extend_from_slice(&[0, 0, payload.len() as u8, *kind, *flags, 0, 0, 0, *stream]);
            wire.extend_from_slice(payload);
            streams.named.insert(u32::from(*stream));
            if *kind == HEADERS {
                streams.opened.insert(u32::from(*stream));
            }
            rest = later;
        }
        if how & AGAIN != 0 {
            let times = REPEATS.min(WIRE_BYTES_MAX / wire.len().max(1));
            wire = wire.repeat(times.max(1));
        }
        Some(Self { how, wire, streams })
    }

    fn has(&self, bit: u8) -> bool {
        self.how & bit != 0
    }

    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let bytes = usize::from(self.how & PIECES) * 7;
        self.wire.chunks(if bytes == 0 { self.wire.len().max(1) } else { bytes })
    }
}

/// Answers with the request's body.
#[derive(Default)]
struct Echo {
    calls: AtomicUsize,
    ended: AtomicUsize,
}

impl Echo {
    fn is_busy(&self) -> bool {
        self.calls.load(Ordering::Relaxed) > self.ended.load(Ordering::Relaxed)
    }
}

impl Service for Echo {
    async fn call(&self, request: Request<Incoming>, _connection: &Connection) -> Response<Full<Bytes>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let read = body::read(request.into_body(), BODY_BYTES_MAX, Instant::now() + DEADLINE).await;
        self.ended.fetch_add(1, Ordering::Relaxed);
        let (status, body) = match read {
            Ok(body) => (StatusCode::OK, body),
            Err(_) => (StatusCode::BAD_REQUEST, Bytes::new()),
        };
        assert!(body.len() <= BODY_BYTES_MAX, "a body of {} bytes reached the service", body.len());
        answer(status, body)
    }

    fn reject(&self, _request: &Request<Incoming>, refusal: Refusal) -> Response<Full<Bytes>> {
        answer(refusal.status, Bytes::new())
    }
}

fn answer(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
}

fn with_runtime<T>(work: impl FnOnce(&Runtime) -> T) -> T {
    thread_local! {
        static RUNTIME: RefCell<Runtime> =
            RefCell::new(Builder::new_current_thread().enable_time().build().expect("a runtime"));
    }
    RUNTIME.with_borrow(work)
}

/// Messages of a client to the hub.
pub(crate) fn requests(input: &[u8]) {
    let Some(frames) = Frames::read(input) else { return };
    with_runtime(|runtime| {
        let _entered = runtime.enter();
        let service = Arc::new(Echo::default());
        let server = Direct::new(&LIMITS, Arc::clone(&service));
        let (peer, stream) = tokio::io::duplex(PIPE_BYTES);
        let mut exchange = Exchange::begin(server.serve_http2(stream), peer);
        exchange.send(PREFACE);
        if !frames.has(RAW) {
            exchange.send(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
        }
        for piece in frames.pieces() {
            exchange.send(piece);
        }
        if frames.has(FINISH) {
            server.finish_all();
            exchange.settle();
        }
        if frames.has(FALLS_SILENT) {
            exchange.fall_silent(|| server.sweep(), || service.is_busy());
        }
        let received = exchange.end();
        if let Err(why) = check(&received, &frames.streams) {
            panic!("{why}\nreceived {received:?}");
        }
    });
}

/// Checks that the hub sends whole frames, for streams that its peer has opened, and none after its end.
fn check(mut received: &[u8], streams: &Streams) -> Result<(), String> {
    let mut ended = BTreeSet::new();
    while let Some((header, rest)) = received.split_at_checked(HEADER_BYTES) {
        let length = usize::from(header[0]) << 16 | usize::from(header[1]) << 8 | usize::from(header[2]);
        let (kind, flags) = (header[3], header[4]);
        let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        let Some((_, rest)) = rest.split_at_checked(length) else {
            // An aborted connection ends anywhere.
            return Ok(());
        };
        if length > FRAME_BYTES_MAX || kind > CONTINUATION {
            return Err(format!("a frame of kind {kind} has {length} bytes"));
        }
        let of_peer = if kind == RST_STREAM { &streams.named } else { &streams.opened };
        if matches!(kind, DATA | HEADERS | RST_STREAM | CONTINUATION)
            && !streams.are_unknown
            && !of_peer.contains(&stream)
        {
            return Err(format!("a frame of kind {kind} is of stream {stream}, which the peer did not open"));
        }
        if matches!(kind, DATA | HEADERS) && ended.contains(&stream) {
            return Err(format!("a frame of kind {kind} follows the end of stream {stream}"));
        }
        if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 || kind == RST_STREAM {
            ended.insert(stream);
        }
        debug_assert!(kind != WINDOW_UPDATE || length == 4);
        received = rest;
    }
    Ok(())
}

/// Answers of a DFSP to the hub.
pub(crate) fn answers(input: &[u8]) {
    let Some(frames) = Frames::read(input) else { return };
    let config = PoolConfig { response_body_bytes_max: BODY_BYTES_MAX, ..PoolConfig::default() };
    let ended = with_runtime(|runtime| {
        runtime.block_on(async {
            let (mut peer, stream) = tokio::io::duplex(PIPE_BYTES);
            if !frames.has(RAW) {
                peer.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await?;
            }
            let request =
                Request::post("/transfers").header("host", "dfsp").body(Full::new(Bytes::from("{}")));
            let request = request.map_err(|error| Error::new(ErrorKind::InvalidInput, error))?;
            let deadline = Instant::now() + DEADLINE;
            let sending = async {
                for piece in frames.pieces() {
                    peer.write_all(piece).await?;
                    tokio::task::yield_now().await;
                }
                // The peer sends the end of its output, but keeps its input open.
                peer.shutdown().await
            };
            let (answer, _sent) = tokio::join!(exchange_http2(stream, request, deadline, &config), sending);
            Ok::<_, Error>(answer)
        })
    });
    match ended {
        Ok(Ok(answer)) => {
            assert!(answer.body.len() <= BODY_BYTES_MAX, "an answer of {} bytes", answer.body.len());
            assert!(!answer.status.is_informational(), "{} is not an answer", answer.status);
        }
        Ok(Err(Unanswered::Failed)) => {}
        Ok(Err(Unanswered::Late)) => panic!("the peer has ended, but the hub waits"),
        Err(error) => panic!("a pipe cannot be written: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        [&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream], payload].concat()
    }

    #[test]
    fn forbidden_frames_of_the_hub_are_found() {
        let of = |stream| Streams {
            are_unknown: false,
            named: BTreeSet::from([stream]),
            opened: BTreeSet::from([stream]),
        };
        let answer = [frame(HEADERS, 4, 1, b"\x88"), frame(DATA, END_STREAM, 1, b"x")].concat();
        assert_eq!(check(&answer, &of(1)), Ok(()));
        assert!(check(&answer, &of(3)).is_err());
        assert!(check(&answer.repeat(2), &of(1)).is_err());
        assert!(check(&frame(10, 0, 0, b""), &of(1)).is_err());
    }
}
