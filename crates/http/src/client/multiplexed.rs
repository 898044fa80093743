//! HTTP/2 of a pool: one connection that many exchanges share.

mod exchange;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{ResponseFuture, SendRequest};
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderName, HeaderValue, Method, Request, Response, Uri, Version};
use http_body_util::Full;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

pub use self::exchange::{Unanswered, exchange_http2};
use super::connector::Stream;
use super::live::Failure;
use super::outbound::ConnectionPermit;
use super::{Answer, PoolConfig, ResponseBody, interim};
use crate::body::{Pieces, bytes_of};
use crate::frames::FrameObservations;

/// Maximum number of concurrent exchanges over a connection, if its peer allows as many.
const STREAMS_MAX: usize = 100;
/// Maximum number of unread bytes of a response, and of all responses of a connection together.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// Longest head of a response, counted as in RFC 9113 §10.5.1.
const HEAD_BYTES_MAX: u32 = 64 * 1024;

/// Headers of a single connection, which HTTP/2 forbids (RFC 9113 §8.2.2).
const OF_CONNECTION: [HeaderName; 6] = [
    CONNECTION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// An open connection. A task reads and writes for it and ends with it.
pub(super) struct Multiplexed {
    sender: SendRequest<Bytes>,
    driver: JoinHandle<()>,
    state: Arc<State>,
    exchanges: AtomicUsize,
    is_used: AtomicBool,
    /// Whether no further exchange may begin.
    is_retired: AtomicBool,
    idle_since: Mutex<Instant>,
    /// Generation of the certificates that it was opened with.
    pub(super) generation: u64,
    noted: Arc<FrameObservations>,
    _place: ConnectionPermit,
}

/// State of a connection, recorded by the task that drives it.
#[derive(Debug)]
struct State {
    has_ended: AtomicBool,
    /// Number of concurrent streams that the peer allows now.
    streams_max: AtomicUsize,
}

impl std::fmt::Debug for Multiplexed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Multiplexed").field("exchanges", &self.exchanges()).finish_non_exhaustive()
    }
}

impl Drop for Multiplexed {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Multiplexed {
    /// Starts HTTP/2 on an open transport, and the task that drives it.
    pub(super) async fn handshake(
        stream: Stream,
        place: ConnectionPermit,
        generation: u64,
    ) -> Result<Arc<Self>, h2::Error> {
        let noted = stream.noted();
        let (sender, mut connection) = h2::client::Builder::new()
            .enable_push(false)
            .initial_max_send_streams(STREAMS_MAX)
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(HEAD_BYTES_MAX)
            .handshake(stream)
            .await?;
        let state =
            Arc::new(State { has_ended: AtomicBool::new(false), streams_max: AtomicUsize::new(STREAMS_MAX) });
        let shown = Arc::clone(&state);
        let driver = tokio::spawn(async move {
            let ended = poll_fn(|context| {
                let polled = Pin::new(&mut connection).poll(context);
                let streams_max = connection.max_concurrent_send_streams().clamp(1, STREAMS_MAX);
                shown.streams_max.store(streams_max, Ordering::Relaxed);
                polled
            });
            if let Err(error) = ended.await {
                tracing::debug!(%error, "a client connection ended with an error");
            }
            shown.has_ended.store(true, Ordering::Relaxed);
        });
        Ok(Arc::new(Self {
            sender,
            driver,
            state,
            exchanges: AtomicUsize::new(0),
            is_used: AtomicBool::new(false),
            is_retired: AtomicBool::new(false),
            idle_since: Mutex::new(Instant::now()),
            generation,
            noted,
            _place: place,
        }))
    }

    /// Whether exchanges may begin.
    pub(super) fn is_usable(&self) -> bool {
        let has_ended = self.state.has_ended.load(Ordering::Relaxed) || self.noted.has_farewell();
        !has_ended && !self.is_retired.load(Ordering::Relaxed)
    }

    /// Prevents further exchanges; the connection closes after the last one.
    pub(super) fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
    }

    pub(super) fn exchanges(&self) -> usize {
        self.exchanges.load(Ordering::Relaxed)
    }

    pub(super) fn has_room(&self) -> bool {
        self.exchanges() < self.state.streams_max.load(Ordering::Relaxed)
    }

    /// End of its last exchange; `None` during an exchange.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let since = *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner);
        (self.exchanges() == 0).then_some(since)
    }

    /// Reserves a slot for one exchange.
    pub(super) fn take(self: &Arc<Self>) -> ExchangeSlot {
        self.exchanges.fetch_add(1, Ordering::Relaxed);
        ExchangeSlot(Arc::clone(self))
    }
}

/// A slot of one exchange on a connection.
#[derive(Debug)]
pub(super) struct ExchangeSlot(Arc<Multiplexed>);

impl Drop for ExchangeSlot {
    fn drop(&mut self) {
        *self.0.idle_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.exchanges.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ExchangeSlot {
    /// Whether the connection has served an exchange before.
    pub(super) fn is_used(&self) -> bool {
        self.0.is_used.load(Ordering::Relaxed)
    }

    /// Sends a request and reads its response. After a failure that may be due to the connection, no other exchange
    /// begins on it.
    pub(super) async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        deadline: Instant,
        config: &PoolConfig,
    ) -> Result<Answer, Failure> {
        let kept = request.clone();
        let result = match timeout_at(deadline, self.attempt(request, config)).await {
            Ok(Ok(answer)) => {
                self.0.is_used.store(true, Ordering::Relaxed);
                self.0.noted.answered();
                Ok(answer)
            }
            Ok(Err(failed)) => Err(failed.into_failure(kept)),
            Err(_) => Err(Failure::Timeout),
        };
        let is_of_stream = match &result {
            Ok(_) | Err(Failure::TooLarge(_) | Failure::NotSent(_)) => true,
            Err(_) => false,
        };
        if !is_of_stream {
            self.0.retire();
        }
        result
    }

    async fn attempt(&self, request: Request<Full<Bytes>>, config: &PoolConfig) -> Result<Answer, Failed> {
        let (request, body) = as_http2(request).map_err(Failed::Malformed)?;
        let mut sender = self.0.sender.clone();
        poll_fn(|context| sender.poll_ready(context)).await?;
        let (response, mut stream) = sender.send_request(request, body.is_empty())?;
        if !body.is_empty() {
            stream.send_data(body, true)?;
        }
        let (head, body) = response_of(response).await?.into_parts();
        let mut answer = Answer { status: head.status, headers: head.headers, body: Bytes::new() };
        let read = read_body(body, config.response_body_bytes_max).await;
        match (config.response_body, read) {
            (ResponseBody::Keep | ResponseBody::KeepReadable, Ok(body)) => answer.body = body,
            (ResponseBody::Keep, Err(Unreadable::TooLarge)) => return Err(Failed::TooLarge(answer.status)),
            (ResponseBody::Keep, Err(Unreadable::Broken(error))) => return Err(error.into()),
            // The status is known, so only the stream is reset.
            (ResponseBody::Discard, _) | (ResponseBody::KeepReadable, Err(_)) => {}
        }
        Ok(answer)
    }
}

/// A request in the form of HTTP/2, and its body.
fn as_http2(request: Request<Full<Bytes>>) -> Result<(Request<()>, Bytes), http::Error> {
    let (mut parts, body) = request.into_parts();
    let body = bytes_of(body);
    let host = parts.headers.remove(HOST);
    for name in OF_CONNECTION {
        parts.headers.remove(name);
    }
    if !body.is_empty() || matches!(parts.method, Method::POST | Method::PUT | Method::PATCH) {
        parts.headers.entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(body.len()));
    }
    let mut uri = Uri::builder().scheme("https");
    if let Some(host) = &host {
        uri = uri.authority(host.as_bytes());
    }
    if let Some(target) = parts.uri.path_and_query() {
        uri = uri.path_and_query(target.clone());
    }
    parts.uri = uri.build()?;
    parts.version = Version::HTTP_2;
    Ok((Request::from_parts(parts, ()), body))
}

/// Waits for the final response. Few interim responses are allowed.
async fn response_of(mut response: ResponseFuture) -> Result<Response<RecvStream>, Failed> {
    let mut interim = 0;
    poll_fn(|context| {
        while let Poll::Ready(Some(one)) = response.poll_informational(context) {
            one?;
            interim += 1;
            if interim > interim::RESPONSES_MAX {
                return Poll::Ready(Err(Failed::Interim));
            }
        }
        Pin::new(&mut response).poll(context).map_err(Failed::from)
    })
    .await
}

enum Unreadable {
    TooLarge,
    Broken(h2::Error),
}

async fn read_body(mut body: RecvStream, bytes_max: usize) -> Result<Bytes, Unreadable> {
    let mut pieces = Pieces::default();
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(Unreadable::Broken)?;
        // Without this, the peer may not send more. It fails only if there is nothing more to receive.
        let _ = body.flow_control().release_capacity(piece.len());
        // A body in very many frames must not keep the worker from its other tasks.
        tokio::task::consume_budget().await;
        if pieces.len() + piece.len() > bytes_max {
            return Err(Unreadable::TooLarge);
        }
        pieces.add(piece);
    }
    Ok(pieces.whole())
}

/// Reason why an exchange failed, other than a timeout.
enum Failed {
    Http2(h2::Error),
    Interim,
    TooLarge(http::StatusCode),
    Malformed(http::Error),
}

impl From<h2::Error> for Failed {
    fn from(error: h2::Error) -> Self {
        Self::Http2(error)
    }
}

impl Failed {
    fn into_failure(self, request: Request<Full<Bytes>>) -> Failure {
        match self {
            Self::Interim => Failure::Interim,
            Self::TooLarge(status) => Failure::TooLarge(status),
            Self::Malformed(error) => Failure::Protocol(error.into()),
            Self::Http2(error) if is_not_taken(&error) => Failure::NotSent(Box::new(request)),
            Self::Http2(error) if error.is_io() => Failure::Closed,
            Self::Http2(error) => Failure::Protocol(error.into()),
        }
    }
}

/// Whether a peer reports that it has not processed the request: it refused the stream, or it is going away and had not
/// reached it (RFC 9113 §6.8, §8.7). The library reports the latter only for streams after the last one that the peer
/// names.
fn is_not_taken(error: &h2::Error) -> bool {
    error.is_remote() && (error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM))
}
