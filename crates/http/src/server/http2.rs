//! HTTP/2 of a server, with the same service and the same limits as HTTP/1.1.
//!
//! The task of a connection polls its requests, right before it writes their answers. So an answer is sent before other
//! effects of the same event are processed, as with HTTP/1.1.

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

/// Maximum number of unread bytes of a body, and of all bodies of a connection together.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 512 * 1024;
/// Maximum number of bytes that are taken from an answer before its peer reads them.
const PIECE_BYTES_MAX: usize = 16 * 1024;
const SEND_BUFFER_BYTES_MAX: usize = 64 * 1024;
/// Number of requests that the peer reset before they were processed, or that the library rejected as malformed. If
/// there are more, the connection is closed.
const RESET_EARLY_MAX: usize = 20;
const MALFORMED_MAX: usize = 100;
/// Delay before a request above a limit is rejected, so that a flood of such requests takes little of a worker's time.
const REFUSAL_HOLD: Duration = Duration::from_millis(250);

/// An answer that is read in pieces, because the library buffers what its peer has not read yet.
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

/// Requests that the library passes on.
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

/// An answer to `HEAD` states the length of a body but does not contain it.
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
    // No timer and no pings: the supervisor enforces the time limits.
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
        // Answers do not wait for a turn, because other effects of the same events would overtake them.
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

// The requests of one HTTP/2 connection: their number, the phase of the connection, and unread answers.

/// How long a finishing connection still accepts requests that are on their way, until its peer knows.
const LAST_REQUESTS_TIME: Duration = Duration::from_secs(1);

/// Requests of all HTTP/2 connections of a server, from their head until their answer is known. The first request of
/// each connection is not counted, so that every connection can have one, as with HTTP/1.1.
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

/// A slot among them.
#[derive(Debug)]
struct Place(Arc<InFlight>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Slots of a request.
#[derive(Debug)]
enum Places {
    /// The free slot of its connection.
    Own,
    /// A slot of the server, and one of the connection's holder. Without a socket there is no holder.
    Shared { _all: Place, _of_holder: Option<RequestOfHolder> },
    /// No slot: the server or the holder has reached its limit of requests.
    None,
}

/// The connection is ending: the request was not served, and may be repeated on another connection.
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
    /// Number of these requests that wait for the peer or are held back.
    waiting: usize,
    /// Whether a request uses the free slot of its connection.
    is_own_taken: bool,
    /// Answers that the peer has not read completely, the oldest first.
    unread: VecDeque<UnreadSince>,
    answers: u64,
    /// Tick since which written bytes wait for the peer to read; 0 if none wait.
    blocked_since_tick: u32,
    is_head_open: bool,
    end: Option<End>,
    is_closing: bool,
}

/// An answer that the peer has not read completely.
#[derive(Clone, Copy, Debug)]
struct UnreadSince {
    number: u64,
    tick: u32,
    /// Tick at which a piece of it was last taken.
    moved_tick: u32,
}

#[derive(Clone, Copy, Debug)]
enum End {
    /// Requests are accepted until this time.
    At(Instant),
    Now,
}

impl Streams {
    pub(super) fn new(watched: Arc<Watched>, all: Arc<InFlight>) -> Arc<Self> {
        let (state, noted, may_read) = (Mutex::default(), Noted::default(), AtomicBool::new(true));
        Arc::new(Self { watched, all, state, noted, may_read })
    }

    /// Records a new request.
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

    /// Marks a request as waiting for its peer, or as held back, until the result is dropped.
    pub(super) fn wait(&self) -> Waiting<'_> {
        let mut state = self.state();
        state.waiting += 1;
        self.settle(&state);
        Waiting(self)
    }

    /// Records whether a part of a head has arrived.
    pub(super) fn head(&self, is_open: bool) {
        let mut state = self.state();
        if state.is_head_open != is_open {
            state.is_head_open = is_open;
            self.settle(&state);
        }
    }

    /// Ends the connection: it accepts no further requests, immediately or once the peer knows.
    pub(super) fn end(&self, is_at_once: bool) {
        let mut state = self.state();
        let end = if is_at_once { End::Now } else { End::At(Instant::now() + LAST_REQUESTS_TIME) };
        if is_at_once || state.end.is_none() {
            state.end = Some(end);
        }
        self.settle(&state);
    }

    /// Records the tick since which written bytes wait for the peer to read; 0 if none wait.
    pub(super) fn blocked_since(&self, tick: u32) {
        let mut state = self.state();
        state.blocked_since_tick = tick;
        self.settle(&state);
    }

    /// Records that the sending side is closed.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closing = true;
        self.settle(&state);
    }

    /// Updates the phase of the connection.
    fn settle(&self, state: &State) {
        if state.is_closing {
            // The time of the phase counts from its first moment.
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
    /// Whether a slot is free, so that the request may be served.
    pub(super) has_place: bool,
}

impl Begun {
    /// Releases the slots, because the answer is known. The answer counts as unread until the result is dropped.
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
    /// Records that another piece was taken, because the peer reads.
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

/// A request that waits for its peer or is held back.
#[derive(Debug)]
pub(super) struct Waiting<'a>(&'a Streams);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.waiting -= 1;
        self.0.settle(&state);
    }
}
