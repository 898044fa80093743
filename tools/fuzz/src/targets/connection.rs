//! Whole connections: bytes in pieces, through the server's own loop to the gateway, and the answers.
//!
//! An input is a story. Its first byte describes the connection and its end, and the number of steps that follow. Each
//! step is a piece of the bytes on the wire, time that passes, or an order to finish. The rest of the input is the
//! wire. The target uses no socket, no clock and no other thread. So a story has only one course, and a connection that
//! would wait forever is detected.

mod calls;

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::runtime::{Builder, Runtime};
use upesi_delivery::{Accepted, Handler, Request};
use upesi_engine::Clock;
use upesi_fspiop::{Resource, SyncError};
use upesi_gateway::{AdmissionSettings, Gateway, GatewayConfig, GatewayContext};
use upesi_http::server::Direct;
use upesi_http::{Limits, Service};
use upesi_transfers::Transfers;
use upesi_types::Timestamp;

use self::calls::{Call, Calls, Due, NotingService, check, check_same, due};

/// Bits of the first byte: the number of steps.
pub(crate) const STEPS: u8 = 0x0F;
/// The connection exceeds the limit of connections.
pub(crate) const OVER_CAP: u8 = 0x10;
/// The peer is silent at the end and waits, before it ends its side.
pub(crate) const FALLS_SILENT: u8 = 0x20;
/// The steps are repeated.
pub(crate) const AGAIN: u8 = 0x40;
/// Each [`STRETCH`] on the wire stands for a thousand of them, so that short inputs reach long limits.
pub(crate) const STRETCHED: u8 = 0x80;
/// See [`STRETCHED`].
const STRETCH: u8 = b'~';

/// A step up to this value is a piece of that many bytes plus one.
const PIECE_STEP_MAX: u8 = 0xEF;
/// This step is an order to finish. The steps between the two are this many checks of the supervisor.
pub(crate) const FINISH: u8 = 0xFF;

const STEPS_MAX: usize = 64;
const STRETCH_TIMES: usize = 1000;
const WIRE_BYTES_MAX: usize = 48 * 1024;
/// Maximum length of a body that reaches the service.
const BODY_BYTES_MAX: usize = 1024;
/// More than the longest response, which is a part of the page of documents. So a connection only waits for the
/// service.
const PIPE_BYTES: usize = 4 * 1024 * 1024;
/// Number of supervisor checks until all time limits together have passed.
const SILENCE: usize = 32;
/// Number of stories after which the gateway's background tasks are run.
const STORIES_PER_TURN: u32 = 64;

/// The shortest possible limits, or nearly the shortest.
pub(super) const LIMITS: Limits = Limits {
    streams_per_connection_max: 4,
    head_bytes_max: 8 * 1024,
    head_deadline: Duration::from_secs(1),
    idle_timeout: Duration::from_secs(1),
    unread_timeout: Duration::from_secs(1),
    connections_max: 1,
    anonymous_per_address_max: 1,
    connections_per_participant_max: 1,
};

/// Runs a connection from its first byte to its end.
pub(crate) fn connection(input: &[u8]) {
    thread_local! {
        static EDGE: RefCell<GatewayUnderTest> = RefCell::new(GatewayUnderTest::open(BODY_BYTES_MAX));
    }
    if let Some(story) = Story::read(input) {
        EDGE.with_borrow_mut(|edge| edge.withstand(&story));
    }
}

/// The content of an input.
#[derive(Clone, Debug)]
struct Story {
    is_over_cap: bool,
    falls_silent: bool,
    steps: Vec<u8>,
    wire: Vec<u8>,
}

impl Story {
    /// Reads an input; `None` if it has fewer steps than declared.
    fn read(input: &[u8]) -> Option<Self> {
        let (&first, rest) = input.split_first()?;
        let (steps, wire) = rest.split_at_checked(usize::from(first & STEPS))?;
        let has = |bit: u8| first & bit != 0;
        Some(Self {
            is_over_cap: has(OVER_CAP),
            falls_silent: has(FALLS_SILENT),
            steps: match has(AGAIN) {
                true => steps.iter().copied().cycle().take(STEPS_MAX).collect(),
                false => steps.to_vec(),
            },
            wire: if has(STRETCHED) { stretch(wire) } else { wire.to_vec() },
        })
    }

    /// The same bytes in one piece, from a peer that then ends.
    fn in_one_piece(&self) -> Self {
        Self { falls_silent: false, steps: Vec::new(), ..self.clone() }
    }

    /// Answers to HEAD requests have no body.
    fn begins_with_head(&self) -> bool {
        let is_blank = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let begin = self.wire.iter().position(|byte| !is_blank(byte)).unwrap_or(0);
        self.wire[begin..].starts_with(b"HEAD ")
    }

    /// Runs the story. Returns the bytes that the peer has received.
    fn live<S: Service>(&self, service: &Arc<NotingService<S>>) -> Vec<u8> {
        let server = Direct::new(&LIMITS, Arc::clone(service));
        let (peer, stream) = tokio::io::duplex(PIPE_BYTES);
        let mut exchange = Exchange::begin(server.serve(stream, self.is_over_cap), peer);
        let mut rest = &self.wire[..];
        for &step in &self.steps {
            match step {
                0..=PIECE_STEP_MAX => {
                    let (piece, later) = rest.split_at(rest.len().min(usize::from(step) + 1));
                    exchange.send(piece);
                    rest = later;
                }
                FINISH => {
                    server.finish_all();
                    exchange.settle();
                }
                looks => (PIECE_STEP_MAX..looks).for_each(|_| {
                    server.sweep();
                    exchange.settle();
                }),
            }
        }
        exchange.send(rest);
        if self.falls_silent {
            exchange.fall_silent(|| server.sweep(), || service.calls.is_busy());
        }
        exchange.end()
    }
}

fn stretch(wire: &[u8]) -> Vec<u8> {
    let mut stretched = Vec::with_capacity(wire.len());
    for &byte in wire {
        let is_stretched = byte == STRETCH && stretched.len() < WIRE_BYTES_MAX;
        let times = if is_stretched { STRETCH_TIMES } else { 1 };
        stretched.resize(stretched.len() + times, byte);
    }
    stretched
}

/// The gateway behind the server's loop, without sockets.
struct GatewayUnderTest {
    runtime: Runtime,
    service: Arc<NotingService<Gateway<(Transfers, TakesAll)>>>,
    stories: u32,
}

impl GatewayUnderTest {
    fn open(body_bytes_max: usize) -> Self {
        let calls = Calls::default();
        let config = GatewayConfig {
            body_bytes_max,
            // Durations must not affect the outcome.
            admission: AdmissionSettings {
                delay_target: Duration::ZERO,
                refusal_hold: Duration::ZERO,
                ..AdmissionSettings::default()
            },
            ..GatewayConfig::default()
        };
        // A stopped engine reports at once that it is not running, so that no request waits for another thread.
        let (ended, engine, _directory) = super::start();
        ended.shutdown();
        let handlers = (Transfers::new(engine.clone()), TakesAll);
        let context = GatewayContext {
            clock: Arc::new(StandingClock),
            authenticator: Box::new(calls.clone()),
            ..GatewayContext::new(engine, handlers)
        };
        let gateway = Gateway::new(context, config, &mut Registry::default());
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        Self { runtime, service: Arc::new(NotingService { service: gateway, calls }), stories: 0 }
    }

    /// Judges a story, and checks that every cut of its bytes leads to the same requests.
    fn withstand(&mut self, story: &Story) {
        let (_, calls) = self.live(story);
        if !story.is_over_cap && !story.steps.is_empty() {
            let (_, of_one_piece) = self.live(&story.in_one_piece());
            let same = check_same(&calls, &of_one_piece);
            assert_eq!(same, Ok(()));
        }
        self.stories += 1;
        if self.stories.is_multiple_of(STORIES_PER_TURN) {
            self.runtime.block_on(tokio::task::yield_now());
        }
    }

    /// Runs a story and judges the bytes that the peer received. Returns these and the gateway's requests.
    fn live(&self, story: &Story) -> (Vec<u8>, Vec<Call>) {
        let _runtime = self.runtime.enter();
        // Remove the calls of a story that panicked.
        self.service.calls.take();
        let received = story.live(&self.service);
        let calls = self.service.calls.take();
        let checked = if story.is_over_cap {
            assert!(calls.is_empty(), "a request on a connection above the limit reached the service");
            let refusal =
                Due { status: 503, is_head_only: story.begins_with_head(), has_error: true, is_last: true };
            check(&received, &[refusal], false)
        } else {
            check(&received, &due(&calls), true)
        };
        if let Err(why) = checked {
            panic!("{why}\ncalls {calls:?}\nanswers {:?}", String::from_utf8_lossy(&received));
        }
        (received, calls)
    }
}

/// A clock that always shows the time of the requests.
struct StandingClock;

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        Timestamp::parse_iso(super::edge::NOW).expect("a valid instant")
    }
}

/// Accepts everything that has passed the gateway's checks.
struct TakesAll;

impl Handler for TakesAll {
    fn serves(&self, _resource: Resource) -> bool {
        true
    }

    async fn handle(&self, request: Request) -> Result<Accepted, SyncError> {
        assert!(
            request.body.len() <= BODY_BYTES_MAX,
            "a body of {} bytes reached the service",
            request.body.len()
        );
        Ok(Accepted)
    }
}

// A connection and its peer on one thread, turn by turn: neither has a turn while it waits for the other.

/// Number of turns after which the two must have made progress.
const TURNS_MAX: usize = 100_000;
const READ_BYTES: usize = 4096;

/// Only the two can wake each other, so a turn without a wake-up is the last.
#[derive(Default)]
struct WokenFlag(AtomicBool);

impl Wake for WokenFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A connection that is served, and the bytes that its peer has received.
pub(in crate::targets) struct Exchange<F> {
    /// `None` once it has ended.
    serving: Option<Pin<Box<F>>>,
    peer: DuplexStream,
    woken: Arc<WokenFlag>,
    waker: Waker,
    received: Vec<u8>,
}

impl<F: Future<Output = ()>> Exchange<F> {
    pub(in crate::targets) fn begin(serving: F, peer: DuplexStream) -> Self {
        let woken = Arc::new(WokenFlag::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut exchange =
            Self { serving: Some(Box::pin(serving)), peer, woken, waker, received: Vec::new() };
        exchange.settle();
        exchange
    }

    /// Lets the peer send this, and runs both until they wait.
    pub(in crate::targets) fn send(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while !rest.is_empty() {
            let mut context = Context::from_waker(&self.waker);
            match Pin::new(&mut self.peer).poll_write(&mut context, rest) {
                Poll::Ready(Ok(length)) => rest = &rest[length..],
                // The connection has ended.
                Poll::Ready(Err(_)) => break,
                Poll::Pending => panic!("the pipe is full, because the connection does not read"),
            }
        }
        self.settle();
    }

    /// Runs both until they wait.
    pub(in crate::targets) fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            self.woken.0.store(false, Ordering::Relaxed);
            let mut context = Context::from_waker(&self.waker);
            let poll = |serving: &mut Pin<Box<F>>| serving.as_mut().poll(&mut context).is_ready();
            if self.serving.as_mut().is_some_and(poll) {
                self.serving = None;
            }
            self.receive();
            if !self.woken.0.load(Ordering::Relaxed) {
                return;
            }
        }
        panic!("the connection is woken again and again without progress");
    }

    /// Lets all time limits pass, after which the connection must have ended. A service that waits for a body is busy,
    /// because it has its own deadline.
    pub(in crate::targets) fn fall_silent(&mut self, sweep: impl Fn(), is_busy: impl FnOnce() -> bool) {
        for _ in 0..SILENCE {
            sweep();
            self.settle();
        }
        let is_let_go = self.has_ended() || is_busy();
        assert!(is_let_go, "the peer is silent and its time has passed, but its connection is kept");
    }

    const fn has_ended(&self) -> bool {
        self.serving.is_none()
    }

    /// Lets the peer end its side, after which the connection must end. Returns the bytes that the peer has received.
    pub(in crate::targets) fn end(mut self) -> Vec<u8> {
        let mut context = Context::from_waker(&self.waker);
        let closed = Pin::new(&mut self.peer).poll_shutdown(&mut context);
        assert!(closed.is_ready(), "a pipe is closed at once");
        self.settle();
        assert!(self.has_ended(), "the peer has ended, but its connection is kept");
        self.received
    }

    fn receive(&mut self) {
        let mut context = Context::from_waker(&self.waker);
        let mut space = [0; READ_BYTES];
        loop {
            let mut buffer = ReadBuf::new(&mut space);
            match Pin::new(&mut self.peer).poll_read(&mut context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.received.extend_from_slice(buffer.filled());
                }
                Poll::Ready(Ok(())) | Poll::Pending => return,
                Poll::Ready(Err(error)) => panic!("a pipe cannot be read: {error}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::seeds;

    fn breaks(edge: &mut GatewayUnderTest, story: &Story) -> bool {
        catch_unwind(AssertUnwindSafe(|| edge.withstand(story))).is_err()
    }

    #[test]
    fn seeds_get_every_kind_of_answer() {
        let mut edge = GatewayUnderTest::open(BODY_BYTES_MAX);
        let mut answers = String::new();
        for seed in seeds::connections() {
            let story = Story::read(&seed).expect("a story");
            edge.withstand(&story);
            answers.push_str(&String::from_utf8_lossy(&edge.live(&story).0));
        }
        for begin in [
            "HTTP/1.1 100 Continue\r\n",
            "HTTP/1.0 200 OK\r\n",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 202 Accepted\r\n",
            "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n",
            "HTTP/1.1 404 Not Found\r\n",
            "HTTP/1.1 431 ",
            "HTTP/1.1 503 ",
            r#"{"errorInformation":{"errorCode":"2003""#,
            r#"{"errorInformation":{"errorCode":"2005""#,
            r#"{"errorInformation":{"errorCode":"3104""#,
        ] {
            assert!(answers.contains(begin), "none of the seeds is answered {begin}");
        }
    }

    #[test]
    fn story_is_read_as_it_is_written() {
        let story =
            Story::read(&[OVER_CAP | STRETCHED | 2, 7, FINISH, b'a', STRETCH, b'b']).expect("a story");
        assert!(story.is_over_cap && !story.falls_silent);
        assert_eq!((&*story.steps, story.wire.len()), (&[7, FINISH][..], STRETCH_TIMES + 2));
        let story = Story::read(&[FALLS_SILENT | AGAIN | 1, 3, STRETCH]).expect("a story");
        assert!(!story.is_over_cap && story.falls_silent);
        assert_eq!((story.steps.len(), &*story.wire), (STEPS_MAX, &[STRETCH][..]));
        assert!(Story::read(&[2, 0]).is_none() && Story::read(&[]).is_none());
    }

    #[test]
    fn body_over_the_limit_that_reaches_the_service_is_found() {
        let request = seeds::quote_of(BODY_BYTES_MAX + 1);
        let story = Story::read(&[&[0_u8][..], &request].concat()).expect("a story");
        assert!(!breaks(&mut GatewayUnderTest::open(BODY_BYTES_MAX), &story), "it is refused");
        assert!(
            breaks(&mut GatewayUnderTest::open(BODY_BYTES_MAX + 1), &story),
            "the body reaches the service, and the target must detect it"
        );
    }

    #[test]
    fn connection_that_outlives_its_peer_is_found() {
        let (peer, _stream) = tokio::io::duplex(PIPE_BYTES);
        let ending = catch_unwind(AssertUnwindSafe(|| Exchange::begin(pending(), peer).end()));
        assert!(ending.is_err(), "it is taken for ended");
    }
}
