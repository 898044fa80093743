//! HTTP/2 of a server, by the same service and within the same limits as HTTP/1.1.
//!
//! Requests of a connection are polled by its own task, right before what they answered is written: an answer is on its
//! way before anything that the same event caused elsewhere, as with HTTP/1.1.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::header::{CONNECTION, CONTENT_LENGTH};
use http::{HeaderValue, Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep};

use super::connection::{Accepted, Connection};
use super::holders::{RequestOfHolder, Seat};
use super::supervision::{Order, Phase, Watched};
use super::transport::Transport;
use super::{Service, strict};
use crate::body::bytes_of;
use crate::frames::Noted;

/// Bytes of a body that a peer may send before they are read, and of all bodies of a connection together.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 512 * 1024;
/// What is taken from an answer before its peer reads it.
const PIECE_BYTES_MAX: usize = 16 * 1024;
const SEND_BUFFER_BYTES_MAX: usize = 64 * 1024;
/// Requests that the peer has reset before they were looked at, and that the library has refused as malformed; with
/// more of them the connection ends.
const RESET_EARLY_MAX: usize = 20;
const MALFORMED_MAX: usize = 100;
/// How long the refusal of a request beyond a bound waits, so that a flood of them takes little of a worker's time.
const REFUSAL_HOLD: Duration = Duration::from_millis(250);

/// An answer that is being read, piece by piece: of each piece the library keeps what its peer does not read yet.
struct AnswerBody {
    left: Bytes,
    unread: Unread,
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.left.len().min(PIECE_BYTES_MAX);
        let piece = self.left.split_to(length);
        self.unread.goes_on();
        Poll::Ready((length > 0).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

type Stream = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where the library puts the requests that have come.
#[derive(Clone, Default)]
struct Arrivals(Arc<Mutex<Vec<Stream>>>);

impl Arrivals {
    fn all(&self) -> MutexGuard<'_, Vec<Stream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Arrivals {
    fn execute(&self, stream: F) {
        self.all().push(Box::pin(stream));
    }
}

struct Serving<S> {
    service: Arc<S>,
    connection: Connection,
    streams: Arc<Streams>,
    is_over_share: bool,
}

impl<S: Service> Serving<S> {
    async fn answer(
        self: Arc<Self>,
        mut request: Request<Incoming>,
    ) -> Result<Response<AnswerBody>, h2::Error> {
        let begun = self.streams.begin().map_err(|Ending| h2::Reason::REFUSED_STREAM)?;
        if self.is_over_share {
            self.connection.distrust();
        }
        if self.is_over_share || !begun.has_place {
            let waiting = self.connection.wait();
            sleep(REFUSAL_HOLD).await;
            drop(waiting);
            return Ok(as_http2(self.service.refuse(), begun.answered()));
        }
        let is_head = request.method() == Method::HEAD;
        let mut response = match strict::normalise(&mut request) {
            Some(refusal) => {
                self.service.hold_back(&self.connection).await;
                self.service.reject(&request, refusal)
            }
            None => self.service.call(request, &self.connection).await,
        };
        let is_last = response.headers().get(CONNECTION).is_some_and(|value| value == "close");
        if is_head {
            leave_body(&mut response);
        }
        let response = as_http2(response, begun.answered());
        if is_last {
            self.connection.distrust();
        }
        Ok(response)
    }
}

/// An answer to `HEAD` tells the length of a body that it does not have.
fn leave_body(response: &mut Response<Full<Bytes>>) {
    let bytes = response.body().size_hint().lower();
    response.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(bytes));
    *response.body_mut() = Full::default();
}

fn as_http2(response: Response<Full<Bytes>>, unread: Unread) -> Response<AnswerBody> {
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONNECTION);
    Response::from_parts(parts, AnswerBody { left: bytes_of(body), unread })
}

pub(super) async fn serve<T, S>(stream: T, accepted: Accepted<S>)
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service,
{
    let Accepted { service, address, room, guard, bounds, turns, .. } = accepted;
    let watched = guard.0.clone();
    let holder = || watched.seat().as_ref().map(Seat::holder);
    let mut turn = turns.turn();
    // Declared first, so that it includes the drop of the connection's requests.
    let mut last_step = None;
    let streams = Streams::new(guard.0.clone(), bounds.in_flight);
    let connection = Connection::new(address, room, guard.0.clone(), Some(streams.clone()));
    let is_over_share = service.meet(&connection).is_err();
    let serving = Arc::new(Serving { service, connection, streams: streams.clone(), is_over_share });
    let arrivals = Arrivals::default();
    let header_list_bytes_max = u32::try_from(bounds.head_bytes_max).unwrap_or(u32::MAX);
    // No timer and no pings: the supervisor keeps the time limits.
    let connection = http2::Builder::new(arrivals.clone())
        .max_concurrent_streams(bounds.streams_max)
        .max_header_list_size(header_list_bytes_max)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES_MAX)
        .max_pending_accept_reset_streams(RESET_EARLY_MAX)
        .max_local_error_reset_streams(MALFORMED_MAX)
        .serve_connection(
            TokioIo::new(Transport::multiplexed(stream, guard.0.clone(), streams.clone())),
            service_fn(move |request| serving.clone().answer(request)),
        );
    let mut connection = pin!(connection);
    let mut requests = FuturesUnordered::new();
    let mut order = Order::Serve;
    poll_fn(|context| {
        // Answers wait for no turn: what the same events cause elsewhere would overtake them.
        let (step, has_turn) = match turn.poll(holder(), context) {
            Poll::Ready(step) => (step, true),
            Poll::Pending => (turn.step(holder()), false),
        };
        streams.may_read.store(has_turn, Ordering::Relaxed);
        loop {
            let before = std::mem::replace(&mut order, guard.0.order(context));
            if order == Order::Abort {
                if !has_turn {
                    return Poll::Pending;
                }
                last_step = Some(step);
                return Poll::Ready(());
            }
            if order != before {
                streams.end(order == Order::Distrust);
            }
            if order != Order::Serve && before == Order::Serve {
                connection.as_mut().graceful_shutdown();
            }
            while let Poll::Ready(Some(())) = requests.poll_next_unpin(context) {}
            if let Poll::Ready(ended) = connection.as_mut().poll(context) {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended with an error");
                }
                last_step = Some(step);
                return Poll::Ready(());
            }
            let mut arrived = arrivals.all();
            if arrived.is_empty() {
                return Poll::Pending;
            }
            requests.extend(arrived.drain(..));
        }
    })
    .await;
}

// The requests of one HTTP/2 connection: how many at a time, what the connection does meanwhile, and which answers its
// peer does not read.

/// How long a connection that is to finish takes requests that are on their way: until its peer knows.
const LAST_REQUESTS_TIME: Duration = Duration::from_secs(1);

/// Requests of all HTTP/2 connections of a server, from their head until their answer is known. The first one of each
/// connection is not counted, so that every connection can have one, as with HTTP/1.1.
#[derive(Debug)]
pub(super) struct InFlight {
    count: AtomicUsize,
    max: usize,
}

impl InFlight {
    pub(super) const fn new(max: usize) -> Self {
        Self { count: AtomicUsize::new(0), max }
    }

    fn take(self: &Arc<Self>) -> Option<Place> {
        let place = Place(Arc::clone(self));
        (self.count.fetch_add(1, Ordering::AcqRel) < self.max).then_some(place)
    }
}

/// A place among them.
#[derive(Debug)]
struct Place(Arc<InFlight>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Places of a request.
#[derive(Debug)]
enum Places {
    /// The place of its connection.
    Own,
    /// A place of the server, and one of the connection's holder. Without a socket there is no holder.
    Shared { _all: Place, _of_holder: Option<RequestOfHolder> },
    /// None: server or holder has as many requests as it may.
    None,
}

/// The connection ends: the request was not served, and may be repeated on another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ending;

/// The requests of one connection.
#[derive(Debug)]
pub(super) struct Streams {
    watched: Arc<Watched>,
    all: Arc<InFlight>,
    state: Mutex<State>,
    pub(super) noted: Noted,
    /// Whether the connection has its turn.
    pub(super) may_read: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    serving: usize,
    /// Of these, how many wait for the peer or are held back.
    waiting: usize,
    /// Whether a request has the place of its connection.
    is_own_taken: bool,
    /// Answers that wait to be read, the oldest first.
    unread: VecDeque<UnreadSince>,
    answers: u64,
    /// Since which tick bytes wait for the peer to read those before them; 0 if none do.
    blocked_since_tick: u32,
    is_head_open: bool,
    end: Option<End>,
    is_closing: bool,
}

/// An answer that waits to be read.
#[derive(Clone, Copy, Debug)]
struct UnreadSince {
    number: u64,
    tick: u32,
    /// When a piece of it was last taken.
    moved_tick: u32,
}

#[derive(Clone, Copy, Debug)]
enum End {
    /// Requests are taken until then.
    At(Instant),
    Now,
}

impl Streams {
    pub(super) fn new(watched: Arc<Watched>, all: Arc<InFlight>) -> Arc<Self> {
        let (state, noted, may_read) = (Mutex::default(), Noted::default(), AtomicBool::new(true));
        Arc::new(Self { watched, all, state, noted, may_read })
    }

    /// A request has come.
    pub(super) fn begin(self: &Arc<Self>) -> Result<Begun, Ending> {
        let mut state = self.state();
        match state.end {
            Some(End::Now) => return Err(Ending),
            Some(End::At(last)) if Instant::now() >= last => return Err(Ending),
            Some(End::At(_)) | None => {}
        }
        let places = if state.is_own_taken { self.take_shared() } else { Places::Own };
        state.is_own_taken = true;
        state.serving += 1;
        self.settle(&state);
        drop(state);
        let has_place = !matches!(places, Places::None);
        Ok(Begun { streams: Arc::clone(self), places, has_place })
    }

    fn take_shared(&self) -> Places {
        let of_holder = match self.watched.seat().as_ref().map(Seat::request) {
            Some(None) => return Places::None,
            of_holder => of_holder.flatten(),
        };
        match self.all.take() {
            Some(all) => Places::Shared { _all: all, _of_holder: of_holder },
            None => Places::None,
        }
    }

    /// A request waits for its peer, or is held back, until what this returns is dropped.
    pub(super) fn wait(&self) -> Waiting<'_> {
        let mut state = self.state();
        state.waiting += 1;
        self.settle(&state);
        Waiting(self)
    }

    /// Whether part of a head is here.
    pub(super) fn head(&self, is_open: bool) {
        let mut state = self.state();
        if state.is_head_open != is_open {
            state.is_head_open = is_open;
            self.settle(&state);
        }
    }

    /// The connection is to end: takes no further requests, at once or when the peer knows.
    pub(super) fn end(&self, is_at_once: bool) {
        let mut state = self.state();
        let end = if is_at_once { End::Now } else { End::At(Instant::now() + LAST_REQUESTS_TIME) };
        if is_at_once || state.end.is_none() {
            state.end = Some(end);
        }
        self.settle(&state);
    }

    /// Since this tick bytes wait for the peer to read those before them; 0 if none do.
    pub(super) fn blocked_since(&self, tick: u32) {
        let mut state = self.state();
        state.blocked_since_tick = tick;
        self.settle(&state);
    }

    /// The sending side is closed.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closing = true;
        self.settle(&state);
    }

    /// Notes what the connection does now.
    fn settle(&self, state: &State) {
        if state.is_closing {
            // Its time runs from the first moment on.
            if self.watched.phase() != Phase::Closing {
                self.watched.enter(Phase::Closing);
            }
            return;
        }
        self.watched.unread_since(state.unread.front().map_or(0, |unread| unread.tick));
        let blocked = Some(state.blocked_since_tick).filter(|tick| *tick != 0);
        let stalled = state.unread.iter().map(|unread| unread.moved_tick).chain(blocked).min();
        self.watched.stalled_since(stalled.unwrap_or(0));
        self.watched.enter(match state {
            State { serving: 1.., .. } if state.waiting < state.serving => Phase::Busy,
            State { serving: 1.., .. } => Phase::Waiting,
            State { is_head_open: true, .. } => Phase::Head,
            State { end: Some(_), .. } if state.unread.is_empty() => Phase::Closing,
            _ => Phase::Idle,
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request whose answer is not known yet.
#[derive(Debug)]
pub(super) struct Begun {
    streams: Arc<Streams>,
    places: Places,
    /// Whether it may be served.
    pub(super) has_place: bool,
}

impl Begun {
    /// The answer is known, so that others get its places; it waits to be read until what this returns is dropped.
    pub(super) fn answered(self) -> Unread {
        let mut state = self.streams.state();
        state.answers += 1;
        let (number, tick) = (state.answers, self.streams.watched.tick());
        state.unread.push_back(UnreadSince { number, tick, moved_tick: tick });
        drop(state);
        self.streams.noted.answered();
        Unread { streams: Arc::clone(&self.streams), number }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut state = self.streams.state();
        state.serving -= 1;
        if matches!(self.places, Places::Own) {
            state.is_own_taken = false;
        }
        self.streams.settle(&state);
    }
}

/// An answer that its peer has not read.
#[derive(Debug)]
pub(super) struct Unread {
    streams: Arc<Streams>,
    number: u64,
}

impl Unread {
    /// Another piece of it was taken: the peer reads.
    fn goes_on(&self) {
        let tick = self.streams.watched.tick();
        let mut state = self.streams.state();
        let own = state.unread.iter_mut().find(|unread| unread.number == self.number);
        if let Some(own) = own.filter(|own| own.moved_tick != tick) {
            own.moved_tick = tick;
            self.streams.settle(&state);
        }
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let mut state = self.streams.state();
        state.unread.retain(|unread| unread.number != self.number);
        self.streams.settle(&state);
    }
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiting<'a>(&'a Streams);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.waiting -= 1;
        self.0.settle(&state);
    }
}
