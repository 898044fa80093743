//! One exchange over HTTP/2 without a socket, for tests and fuzzers.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::Multiplexed;
use crate::client::connector::given;
use crate::client::live::Failure;
use crate::client::{Answer, Outbound, PoolConfig};

/// Reason why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The deadline has passed.
    Late,
    /// The peer violated the protocol, or closed the connection.
    Failed,
}

/// Sends a request over any stream, by the same code as a [`Pool`](crate::client::Pool) over its connections.
///
/// # Errors
/// The request has no answer.
pub async fn exchange_http2<T>(
    stream: T,
    request: Request<Full<Bytes>>,
    deadline: Instant,
    config: &PoolConfig,
) -> Result<Answer, Unanswered>
where
    T: AsyncRead + AsyncWrite + std::fmt::Debug + Send + Unpin + 'static,
{
    let place = Outbound::default().place(0).await;
    let opened = Multiplexed::handshake(given(Box::new(stream)), place, 0).await;
    let shared = opened.map_err(|_| Unanswered::Failed)?.take();
    shared.exchange(request, deadline, config).await.map_err(|failure| match failure {
        Failure::Timeout => Unanswered::Late,
        _ => Unanswered::Failed,
    })
}
