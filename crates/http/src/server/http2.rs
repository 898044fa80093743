//! HTTP/2 of a server, by the same service and within the same limits as HTTP/1.1.
//!
//! Requests of a connection are polled by its own task, right before what they answered is written: an answer is on its
//! way before anything that the same event caused elsewhere, as with HTTP/1.1.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

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

use super::connection::{Accepted, Connection};
use super::streams::{NotServed, Streams, Unread};
use super::supervision::Order;
use super::transport::Transport;
use super::{Service, strict};
use crate::body::bytes_of;

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

/// An answer that is being read, piece by piece: of each piece the library keeps what its peer does not read yet.
struct AnswerBody {
    left: Bytes,
    _unread: Option<Unread>,
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
}

impl<S: Service> Serving<S> {
    async fn answer(
        self: Arc<Self>,
        mut request: Request<Incoming>,
    ) -> Result<Response<AnswerBody>, h2::Error> {
        let serving = match self.streams.begin() {
            Ok(serving) => serving,
            Err(NotServed::Ending) => return Err(h2::Reason::REFUSED_STREAM.into()),
            Err(NotServed::Busy) => return Ok(as_http2(self.service.refuse(), None)),
        };
        let is_head = request.method() == Method::HEAD;
        let mut response = match strict::normalise(&mut request) {
            Some(refusal) => self.service.reject(&request, refusal),
            None => self.service.call(request, &self.connection).await,
        };
        let is_last = response.headers().get(CONNECTION).is_some_and(|value| value == "close");
        if is_head {
            leave_body(&mut response);
        }
        let response = as_http2(response, Some(serving.answered()));
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

fn as_http2(response: Response<Full<Bytes>>, unread: Option<Unread>) -> Response<AnswerBody> {
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONNECTION);
    Response::from_parts(parts, AnswerBody { left: bytes_of(body), _unread: unread })
}

pub(super) async fn serve<T, S>(stream: T, accepted: Accepted<S>)
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service,
{
    let Accepted { service, address, guard, bounds, .. } = accepted;
    let streams = Streams::new(guard.0.clone(), bounds.in_flight);
    let connection = Connection::new(address, guard.0.clone(), Some(streams.clone()));
    let serving = Arc::new(Serving { service, connection, streams: streams.clone() });
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
        loop {
            let before = std::mem::replace(&mut order, guard.0.order(context));
            if order == Order::Abort {
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
