//! HTTP/2 of a server, with the same service and the same limits as HTTP/1.1.
//!
//! The task of a connection polls its requests, right before it writes their answers. So an answer is sent before other
//! effects of the same event are processed, as with HTTP/1.1.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
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
use tokio::time::sleep;

use super::connection::{Accepted, Bounds, Connection};
use super::holders::HolderSlot;
use super::streams::{ConnectionEnding, Streams, UnreadResponse};
use super::supervision::Order;
use super::transport::Transport;
use super::{Service, strict};
use crate::body::bytes_of;

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
    unread: UnreadResponse,
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

struct Http2Service<S> {
    service: Arc<S>,
    connection: Connection,
    streams: Arc<Streams>,
}

impl<S: Service> Http2Service<S> {
    async fn answer(
        self: Arc<Self>,
        mut request: Request<Incoming>,
    ) -> Result<Response<AnswerBody>, h2::Error> {
        let begun = self.streams.begin().map_err(|ConnectionEnding| h2::Reason::REFUSED_STREAM)?;
        if self.connection.is_over_share() {
            self.connection.distrust();
        }
        if !begun.has_place {
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
        if is_last || self.connection.is_over_share() {
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

fn as_http2(response: Response<Full<Bytes>>, unread: UnreadResponse) -> Response<AnswerBody> {
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONNECTION);
    Response::from_parts(parts, AnswerBody { left: bytes_of(body), unread })
}

fn builder(bounds: &Bounds, arrivals: &Arrivals) -> http2::Builder<Arrivals> {
    // No timer and no pings: the supervisor enforces the time limits.
    let mut builder = http2::Builder::new(arrivals.clone());
    builder
        .max_concurrent_streams(bounds.streams_max)
        .max_header_list_size(u32::try_from(bounds.head_bytes_max).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES_MAX)
        .max_pending_accept_reset_streams(RESET_EARLY_MAX)
        .max_local_error_reset_streams(MALFORMED_MAX);
    builder
}

pub(super) async fn serve<T, S>(stream: T, accepted: Accepted<S>)
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service,
{
    let Accepted { service, address, room, guard, bounds, turns, .. } = accepted;
    let watched = guard.0.clone();
    let holder = || watched.seat().as_ref().map(HolderSlot::holder);
    let mut turn = turns.turn();
    // Declared first, so that it includes the drop of the connection's requests.
    let mut last_step = None;
    let streams = Streams::new(guard.0.clone(), bounds.in_flight.clone());
    let connection = Connection::new(address, room, guard.0.clone(), Some(streams.clone()));
    service.meet(&connection);
    let serving = Arc::new(Http2Service { service, connection, streams: streams.clone() });
    let arrivals = Arrivals::default();
    let connection = builder(&bounds, &arrivals).serve_connection(
        TokioIo::new(Transport::multiplexed(stream, guard.0.clone(), streams.clone())),
        service_fn(move |request| serving.clone().answer(request)),
    );
    let mut connection = pin!(connection);
    let mut requests = FuturesUnordered::new();
    let mut order = Order::Serve;
    let mut finishing = false;
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
            if order != before && order != Order::Yield {
                streams.end(order == Order::Distrust);
                if !std::mem::replace(&mut finishing, true) {
                    connection.as_mut().graceful_shutdown();
                }
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
            if !arrived.is_empty() {
                requests.extend(arrived.drain(..));
                continue;
            }
            // Whatever has arrived has been read.
            if order != Order::Yield || finishing || !has_turn {
                return Poll::Pending;
            }
            if streams.is_quiet() {
                last_step = Some(step);
                return Poll::Ready(());
            }
            finishing = true;
            streams.end(false);
            connection.as_mut().graceful_shutdown();
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;
    use crate::server::Limits;
    use crate::server::supervision::Supervisor;

    struct Answers;

    impl Service for Answers {
        async fn call(&self, _: Request<Incoming>, _: &Connection) -> Response<Full<Bytes>> {
            Response::new(Full::from("answered"))
        }
    }

    /// The preface of HTTP/2 with empty settings, and a request on stream 1.
    const OPENING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\
        \0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01x";
    /// `GET /` on stream 3.
    const REQUEST: &[u8] = b"\0\0\x06\x01\x05\0\0\0\x03\x82\x86\x84\x41\x01x";

    /// Whether a request is answered that arrives just before the order to yield.
    async fn is_answered(arrived: &[u8]) -> bool {
        let limits = Limits::default();
        let guard = Arc::new(Supervisor::new(&limits)).watch(0, None, None);
        let watched = guard.0.clone();
        let accepted = Accepted {
            service: Arc::new(Answers),
            over_cap: false,
            address: None,
            room: None,
            guard,
            bounds: Bounds::of(&limits),
            turns: Arc::default(),
        };
        let (mut peer, stream) = duplex(4096);
        peer.write_all(OPENING).await.unwrap();
        let mut serving = pin!(serve(stream, accepted));
        let mut answers = Vec::new();
        let count = |answers: &[u8]| answers.windows(8).filter(|bytes| bytes == b"answered").count();
        while count(&answers) < 1 {
            tokio::select! {
                biased;
                () = &mut serving => panic!("the connection ended"),
                read = peer.read_buf(&mut answers) => assert_ne!(read.unwrap(), 0),
            }
        }
        peer.write_all(arrived).await.unwrap();
        watched.tell(Order::Yield);
        while count(&answers) < 2 {
            tokio::select! {
                biased;
                () = &mut serving => {
                    peer.read_to_end(&mut answers).await.unwrap();
                    return count(&answers) == 2;
                }
                read = peer.read_buf(&mut answers) => assert_ne!(read.unwrap(), 0),
            }
        }
        true
    }

    #[tokio::test]
    async fn request_that_has_arrived_is_answered_before_the_connection_ends() {
        assert!(is_answered(REQUEST).await);
        assert!(!is_answered(b"").await);
    }
}
