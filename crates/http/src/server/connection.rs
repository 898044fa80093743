//! One connection from its first byte to its end.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use upesi_tls::Peer;

use super::supervision::{Guard, Order, Phase, Watched};
use super::transport::Transport;
use super::{Service, last, strict};

/// The connection that a request came by.
#[derive(Debug)]
pub struct Connection {
    address: Option<IpAddr>,
    watched: Arc<Watched>,
    identity: OnceLock<PeerIdentity>,
    /// Generation of the service's knowledge by which the identity was looked up.
    looked_up_at: AtomicU64,
}

/// The participant that the peer of a connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: Box<str>,
}

/// A connection's peer is another participant than before, or none any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherIdentity;

/// No look-up has this generation.
const NEVER: u64 = u64::MAX;

impl Connection {
    /// The address of the peer; an IPv6 address only by its network half. `None` without a socket.
    pub const fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The peer by the certificate that it has proven to hold; `None` without TLS, or if the listener asks for none.
    pub fn peer(&self) -> Option<&Peer> {
        self.watched.peer()
    }

    /// The identity noted by [`Self::identify`] with this generation, which may be none; `None` if it must be looked
    /// up.
    pub fn identity(&self, generation: u64) -> Option<Option<&PeerIdentity>> {
        (self.looked_up_at.load(Ordering::Relaxed) == generation).then(|| self.identity.get())
    }

    /// Notes who the peer is, or that it is no participant, by the service's knowledge of a generation.
    ///
    /// # Errors
    /// It was somebody else: the connection should end.
    pub fn identify(&self, identity: Option<PeerIdentity>, generation: u64) -> Result<(), OtherIdentity> {
        let is_same = match (self.identity.get(), identity) {
            (None, Some(first)) => self.identity.set(first).is_ok(),
            (before, now) => before == now.as_ref(),
        };
        if !is_same {
            return Err(OtherIdentity);
        }
        self.looked_up_at.store(generation, Ordering::Relaxed);
        Ok(())
    }

    /// Whether [`Self::become_known`] was called.
    pub fn is_known(&self) -> bool {
        self.watched.is_known()
    }

    /// Says that it carried a request of somebody known. Where connections are short, strangers make room first.
    pub fn become_known(&self) {
        self.watched.become_known();
    }

    /// Waits for the peer, or holds a request back: meanwhile the connection may have to make room, as if it were idle.
    pub async fn wait_for<F: Future>(&self, what: F) -> F::Output {
        self.watched.enter(Phase::Waiting);
        let output = what.await;
        self.watched.enter(Phase::Busy);
        output
    }
}

/// The service as one connection sees it. Each connection has its own counted pointer to it: a count shared by all
/// would bounce between the workers' caches at every request.
struct Serving<S> {
    service: Arc<S>,
    over_cap: bool,
    connection: Connection,
}

/// A connection that has been accepted.
pub(super) struct Accepted<S> {
    pub(super) service: Arc<S>,
    pub(super) over_cap: bool,
    pub(super) address: Option<IpAddr>,
    pub(super) guard: Guard,
}

pub(super) async fn serve<T, S>(stream: T, head_bytes_max: usize, accepted: Accepted<S>)
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service,
{
    let Accepted { service, over_cap, address, guard } = accepted;
    let connection = Connection {
        address,
        watched: guard.0.clone(),
        identity: OnceLock::new(),
        looked_up_at: AtomicU64::new(NEVER),
    };
    let serving = Arc::new(Serving { service, over_cap, connection });
    let answer = service_fn(|request| {
        let serving = serving.clone();
        serving.connection.watched.enter(Phase::Busy);
        async move {
            let response = if serving.over_cap {
                last(serving.service.refuse())
            } else if let Some(refusal) = strict::refusal_of(&request) {
                last(serving.service.reject(&request, refusal))
            } else {
                serving.service.call(request, &serving.connection).await
            };
            serving.connection.watched.enter(Phase::Idle);
            Ok::<_, Infallible>(response)
        }
    });
    // No timer: the supervisor keeps the time limits. No `pipeline_flush`: it withholds an answer as long as unread
    // bytes follow its request, and loses it where the connection then closes.
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
