//! One connection from its first byte to its end.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::supervision::{Order, Phase, Supervisor};
use super::transport::Transport;
use super::{Service, refusal};

/// The service as one connection sees it. Each connection has its own counted pointer to it: a count shared by all
/// would bounce between the workers' caches at every request.
pub(super) struct Serving<S> {
    pub(super) service: Arc<S>,
    pub(super) over_cap: bool,
}

pub(super) async fn serve<T, S>(
    stream: T,
    head_bytes_max: usize,
    serving: Arc<Serving<S>>,
    supervisor: &Arc<Supervisor>,
) where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service,
{
    let guard = supervisor.watch();
    let watched = guard.0.clone();
    let answer = service_fn(|request| {
        let (serving, watched) = (serving.clone(), watched.clone());
        watched.enter(Phase::Busy);
        async move {
            let response = if serving.over_cap {
                refusal(&*serving.service)
            } else {
                serving.service.call(request).await
            };
            watched.enter(Phase::Idle);
            Ok::<_, Infallible>(response)
        }
    });
    // No timer: the supervisor keeps the time limits. No `pipeline_flush`: it withholds an answer as long as unread bytes
    // follow its request, and loses it where the connection then closes.
    let connection = http1::Builder::new()
        .keep_alive(true)
        .half_close(false)
        .max_header_size(head_bytes_max)
        .max_buf_size(head_bytes_max)
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(Transport::new(stream, guard.0.clone())), answer);
    let mut connection = pin!(connection);
    let mut finishing = false;
    poll_fn(|context| {
        match guard.0.order(context) {
            Order::Serve => {}
            Order::Abort => return Poll::Ready(()),
            Order::Finish if finishing => {}
            Order::Finish => {
                finishing = true;
                connection.as_mut().graceful_shutdown();
            }
        }
        connection.as_mut().poll(context).map(|ended| {
            if let Err(error) = ended {
                // Peers vanish and send garbage all the time; hyper has answered what can be answered.
                tracing::debug!(%error, "a connection ended with an error");
            }
        })
    })
    .await;
}
