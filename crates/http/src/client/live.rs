//! One connection and one exchange over it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, Sleep, sleep_until};

use super::connector::Stream;
use super::outbound::ConnectionPermit;
use super::{Answer, PoolConfig, ResponseBody, fault, interim};
use crate::body::Pieces;

/// Size of the read buffer, and so the longest head of a response.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// An open connection. It makes progress only while an exchange over it is polled, so a request costs no hop between
/// tasks.
pub(super) struct LiveConnection {
    sender: SendRequest<Full<Bytes>>,
    /// `None` once the connection has ended.
    connection: Option<Connection<TokioIo<Stream>, Full<Bytes>>>,
    /// Whether it has carried a request before.
    pub(super) used: bool,
    /// End of its last exchange.
    pub(super) idle_since: Instant,
    /// Generation of the certificates that it was opened with.
    pub(super) generation: u64,
    _place: ConnectionPermit,
}

/// Reason why an exchange failed.
pub(super) enum Failure {
    /// The connection ended before a byte of the request was written; the request is returned.
    NotSent(Box<Request<Full<Bytes>>>),
    Timeout,
    Closed,
    /// Too many interim responses.
    Interim,
    Protocol(Box<dyn std::error::Error + Send + Sync>),
    /// The peer's alert on a connection that has not carried a request before.
    Tls(rustls::Error),
    TooLarge(http::StatusCode),
}

impl std::fmt::Debug for LiveConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("used", &self.used).finish_non_exhaustive()
    }
}

impl LiveConnection {
    /// Starts HTTP on an open transport.
    pub(super) async fn handshake(
        stream: Stream,
        place: ConnectionPermit,
        generation: u64,
    ) -> hyper::Result<Box<Self>> {
        let (sender, connection) =
            http1::Builder::new().max_buf_size(BUFFER_BYTES_MAX).handshake(TokioIo::new(stream)).await?;
        let (connection, idle_since) = (Some(connection), Instant::now());
        Ok(Box::new(Self { sender, connection, used: false, idle_since, generation, _place: place }))
    }

    /// Lets the connection read and write as much as it can.
    fn drive(&mut self, context: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && let Poll::Ready(ended) = Pin::new(connection).poll(context)
        {
            if let Err(error) = ended {
                tracing::debug!(%error, "a client connection ended with an error");
            }
            self.connection = None;
        }
    }

    /// Whether the connection can accept a request; checks whether the peer has closed it meanwhile.
    ///
    /// The check registers no waker, because an idle connection needs none. Passing a request to a connection wakes the
    /// task that polled it last. With a waker, that would be the sender itself, once more for every request.
    pub(super) fn is_usable(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.connection.is_some() && self.sender.is_ready()
    }

    /// Sends a request and reads its response.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        deadline: Instant,
        config: &PoolConfig,
    ) -> Result<Answer, Failure> {
        let mut late = pin!(sleep_until(deadline));
        let response = self.response(request, late.as_mut()).await?;
        let (head, body) = response.into_parts();
        let mut answer = Answer { status: head.status, headers: head.headers, body: Bytes::new() };
        if !body.is_end_stream() {
            let read = self.read_body(body, late.as_mut(), config.response_body_bytes_max).await;
            match (config.response_body, read) {
                (ResponseBody::Keep | ResponseBody::KeepReadable, Ok(body)) => answer.body = body,
                (ResponseBody::Keep, Err(Failure::TooLarge(_))) => {
                    return Err(Failure::TooLarge(answer.status));
                }
                (ResponseBody::Keep, Err(failure)) => return Err(failure),
                (ResponseBody::Discard, Ok(_)) => {}
                // The status is known, so only the connection cannot be reused.
                (ResponseBody::KeepReadable | ResponseBody::Discard, Err(_)) => self.connection = None,
            }
        }
        Ok(answer)
    }

    async fn response(
        &mut self,
        request: Request<Full<Bytes>>,
        mut late: Pin<&mut Sleep>,
    ) -> Result<Response<Incoming>, Failure> {
        let mut response = pin!(self.sender.try_send_request(request));
        let received = poll_fn(|context| {
            self.drive(context);
            match response.as_mut().poll(context) {
                Poll::Ready(received) => Poll::Ready(Some(received)),
                Poll::Pending => late.as_mut().poll(context).map(|()| None),
            }
        });
        match received.await {
            None => Err(Failure::Timeout),
            Some(Ok(response)) => Ok(response),
            Some(Err(mut refused)) => Err(match (self.alert(refused.error()), refused.take_message()) {
                (Some(alert), _) => Failure::Tls(alert),
                (None, Some(request)) => Failure::NotSent(Box::new(request)),
                (None, None) => Failure::from_hyper(refused.into_error()),
            }),
        }
    }

    /// The alert of a peer that rejects the connection. With TLS 1.3 it arrives after the handshake.
    fn alert(&self, error: &hyper::Error) -> Option<rustls::Error> {
        if self.used { None } else { fault::alert(error) }
    }

    async fn read_body(
        &mut self,
        mut body: Incoming,
        mut late: Pin<&mut Sleep>,
        bytes_max: usize,
    ) -> Result<Bytes, Failure> {
        let too_large = Failure::TooLarge(http::StatusCode::OK);
        if body.size_hint().lower() > bytes_max as u64 {
            return Err(too_large);
        }
        let mut pieces = Pieces::default();
        loop {
            let frame = poll_fn(|context| {
                if let Poll::Ready(frame) = Pin::new(&mut body).poll_frame(context) {
                    return Poll::Ready(Ok(frame));
                }
                // The request for the frame made the connection read on.
                self.drive(context);
                if let Poll::Ready(frame) = Pin::new(&mut body).poll_frame(context) {
                    return Poll::Ready(Ok(frame));
                }
                late.as_mut().poll(context).map(|()| Err(Failure::Timeout))
            });
            let Some(frame) = frame.await? else { break };
            // A body in very many chunks must not keep the worker from its other tasks.
            tokio::task::consume_budget().await;
            let Ok(piece) = frame.map_err(Failure::from_hyper)?.into_data() else { continue };
            if pieces.len() + piece.len() > bytes_max {
                return Err(too_large);
            }
            pieces.add(piece);
        }
        Ok(pieces.whole())
    }
}

impl Failure {
    fn from_hyper(error: hyper::Error) -> Self {
        let by_transport =
            std::error::Error::source(&error).and_then(|source| source.downcast_ref::<std::io::Error>());
        if by_transport.is_some_and(interim::is_too_many) {
            return Self::Interim;
        }
        if error.is_incomplete_message() || error.is_closed() || error.is_canceled() || by_transport.is_some()
        {
            Self::Closed
        } else {
            Self::Protocol(error.into())
        }
    }
}
