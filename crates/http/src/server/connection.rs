//! Serves one connection from its first byte to its end.

mod direct;

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use upesi_tls::Peer;

pub use self::direct::Direct;
use super::holders::Holder;
use super::room::ConnectionRoom;
use super::streams::{self, InFlight, Streams};
use super::supervision::{Guard, Order, Phase, SupervisedConnection};
use super::transport::Transport;
use super::turns::FairTurns;
use super::{Limits, Service, last, strict};

/// The connection of a request.
#[derive(Debug)]
pub struct Connection {
    address: Option<IpAddr>,
    /// The server's counts; `None` without a socket.
    room: Option<Arc<ConnectionRoom>>,
    watched: Arc<SupervisedConnection>,
    /// [`ANONYMOUS`], [`NAMED`], or the number of a participant from [`PARTICIPANTS`] on.
    known_as: AtomicU64,
    /// The time until which the requests of [`Pace::keep_probe`](super::Pace::keep_probe) have used up their rate.
    pub(super) probed_until_ns: AtomicU64,
    identity: OnceLock<PeerIdentity>,
    /// Generation of the service's knowledge when the identity was looked up.
    looked_up_at: AtomicU64,
    /// With HTTP/2, its requests.
    streams: Option<Arc<Streams>>,
}

/// The authenticated participant of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    /// Its number in the ledger.
    pub number: u32,
    pub name: Box<str>,
}

/// The peer of a connection was another participant before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherIdentity;

/// The party of a request on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownAs {
    /// A participant that a request names without proof or through a gateway. The connection counts for its
    /// certificate, or otherwise for its address.
    Named,
    /// The authenticated participant with this number. If requests of one connection authenticate several participants,
    /// the connection counts as above.
    Participant(u32),
}

const ANONYMOUS: u64 = 0;
const NAMED: u64 = 1;
const PARTICIPANTS: u64 = 2;

/// No lookup has this generation.
const NEVER: u64 = u64::MAX;

impl Connection {
    pub(super) const fn new(
        address: Option<IpAddr>,
        room: Option<Arc<ConnectionRoom>>,
        watched: Arc<SupervisedConnection>,
        streams: Option<Arc<Streams>>,
    ) -> Self {
        Self {
            address,
            room,
            watched,
            known_as: AtomicU64::new(ANONYMOUS),
            probed_until_ns: AtomicU64::new(0),
            identity: OnceLock::new(),
            looked_up_at: AtomicU64::new(NEVER),
            streams,
        }
    }

    /// The address of the peer; for IPv6 only the network half. `None` without a socket.
    pub const fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The certificate of the peer; `None` without TLS, or if the listener requires none.
    pub fn peer(&self) -> Option<&Peer> {
        self.watched.peer()
    }

    /// The identity recorded by [`Self::identify`] with this generation, which may be none; `None` if it must be looked
    /// up.
    pub fn identity(&self, generation: u64) -> Option<Option<&PeerIdentity>> {
        (self.looked_up_at.load(Ordering::Relaxed) == generation).then(|| self.identity.get())
    }

    /// Records the participant of the peer, or that it is not a participant, as the service knows at a generation.
    ///
    /// # Errors
    /// The peer was another participant before: the connection should be closed.
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

    /// Whether [`Self::become_known`] has assigned the connection to a party.
    pub fn is_known(&self) -> bool {
        self.known_as.load(Ordering::Relaxed) != ANONYMOUS
    }

    /// Records that the connection carried a request of this party. From now on it counts for the party, and
    /// unidentified connections make room before it. If the party has reached its limit of connections, and none of
    /// them can make room, the connection counts as before, and ends with its next answer.
    pub fn become_known(&self, known_as: KnownAs) {
        // One task serves all requests of a connection, so this value has no concurrent changes.
        let before = self.known_as.load(Ordering::Relaxed);
        let wanted = match known_as {
            KnownAs::Participant(number) => PARTICIPANTS + u64::from(number),
            KnownAs::Named => NAMED,
        };
        if before == wanted || before == NAMED {
            return;
        }
        let (now, number) = match known_as {
            KnownAs::Participant(number) if before == ANONYMOUS => (wanted, Some(number)),
            _ => (NAMED, None),
        };
        if let Some(room) = &self.room {
            let holder = number.map(Holder::Participant).or_else(|| self.unproven_holder());
            if let Some(holder) = holder {
                room.move_to(&self.watched, holder);
            }
        }
        self.known_as.store(now, Ordering::Relaxed);
    }

    /// Whether the connection ends with its next answer, because its party has reached its limit of connections.
    pub(super) fn is_over_share(&self) -> bool {
        self.watched.is_over_share()
    }

    fn unproven_holder(&self) -> Option<Holder> {
        let certificate = self.peer().map(|peer| Holder::Certificate(peer.facts().spki_sha256));
        certificate.or(self.address.map(Holder::Address))
    }

    /// Key for rate limits: its address, certificate or participant.
    pub(super) fn holder(&self) -> Option<Holder> {
        match self.known_as.load(Ordering::Relaxed) {
            ANONYMOUS => self.address.map(Holder::Anonymous),
            NAMED => self.unproven_holder(),
            number => u32::try_from(number - PARTICIPANTS).ok().map(Holder::Participant),
        }
    }

    /// Ends it after the requests in flight, and accepts no further one.
    pub(super) fn distrust(&self) {
        self.watched.tell(Order::Distrust);
    }

    /// Marks the connection as waiting for its peer, or its request as held back. Until the result is dropped, the
    /// connection may be closed to make room, as if it were idle.
    pub fn wait(&self) -> WaitingRequest<'_> {
        WaitingRequest(match &self.streams {
            Some(streams) => Ok(streams.wait()),
            None => {
                self.watched.enter(Phase::Waiting);
                Err(&self.watched)
            }
        })
    }
}

/// Marks a request that waits for its peer, or is held back, until it is dropped.
#[derive(Debug)]
pub struct WaitingRequest<'a>(Result<streams::WaitingStream<'a>, &'a SupervisedConnection>);

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        if let Err(watched) = self.0 {
            watched.enter(Phase::Busy);
        }
    }
}

/// The service for one connection. Each connection has its own reference count: a count shared by all would bounce
/// between the workers' caches at every request.
struct ConnectionService<S> {
    service: Arc<S>,
    over_cap: bool,
    connection: Connection,
}

/// The limits of a server that its connections need.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    pub(super) head_bytes_max: usize,
    pub(super) streams_max: u32,
    pub(super) in_flight: Arc<InFlight>,
}

impl Bounds {
    pub(super) fn of(limits: &Limits) -> Self {
        Self {
            head_bytes_max: limits.head_bytes_max,
            streams_max: limits.streams_per_connection_max,
            // At most as many as with HTTP/1.1, where a connection has one request at a time.
            in_flight: Arc::new(InFlight::new(limits.connections_max)),
        }
    }
}

/// A connection that has been accepted.
pub(super) struct Accepted<S> {
    pub(super) service: Arc<S>,
    pub(super) over_cap: bool,
    pub(super) address: Option<IpAddr>,
    /// The server's counts; `None` without a socket.
    pub(super) room: Option<Arc<ConnectionRoom>>,
    pub(super) guard: Guard,
    pub(super) bounds: Bounds,
    /// Turns of the HTTP/2 connections on its worker.
    pub(super) turns: Arc<FairTurns<Holder>>,
}

pub(super) async fn serve<T, S>(stream: T, accepted: Accepted<S>)
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service,
{
    let Accepted { service, over_cap, address, room, guard, bounds, .. } = accepted;
    let head_bytes_max = bounds.head_bytes_max;
    let connection = Connection::new(address, room, guard.0.clone(), None);
    service.meet(&connection);
    let serving = Arc::new(ConnectionService { service, over_cap, connection });
    let has_asked = AtomicBool::new(false);
    let answer = service_fn(|request| {
        has_asked.store(true, Ordering::Relaxed);
        let serving = serving.clone();
        serving.connection.watched.enter(Phase::Busy);
        async move {
            let response = if serving.over_cap {
                last(serving.service.refuse())
            } else if let Some(refusal) = strict::refusal_of(&request) {
                serving.service.hold_back(&serving.connection).await;
                last(serving.service.reject(&request, refusal))
            } else {
                let response = serving.service.call(request, &serving.connection).await;
                if serving.connection.is_over_share() { last(response) } else { response }
            };
            serving.connection.watched.enter(Phase::Idle);
            Ok::<_, Infallible>(response)
        }
    });
    // No timer, because the supervisor enforces the time limits. No `pipeline_flush`: it withholds an answer while
    // unread bytes follow its request, and loses it if the connection then closes.
    let connection = http1::Builder::new()
        .keep_alive(true)
        .half_close(false)
        .max_header_size(head_bytes_max)
        .max_buf_size(head_bytes_max)
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(Transport::new(stream, guard.0.clone())), answer);
    let mut connection = pin!(connection);
    let mut poll = |context: &mut Context<'_>, finish: bool| {
        if finish {
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(context).map(|ended| {
            if let Err(error) = ended {
                // Peers often disappear or send garbage; hyper has already answered if possible.
                tracing::debug!(%error, "a connection ended with an error");
            }
        })
    };
    let mut finishing = false;
    poll_fn(|context| {
        let order = guard.0.order(context);
        match order {
            Order::Serve => return poll(context, false),
            Order::Abort => return Poll::Ready(()),
            // A request may have arrived that was not read yet. Its peer would lose it.
            Order::Yield | Order::Finish if !finishing && poll(context, false).is_ready() => {
                return Poll::Ready(());
            }
            Order::Yield | Order::Finish | Order::Distrust => {}
        }
        let ended = poll(context, !finishing);
        finishing = true;
        let waits = match guard.0.phase() {
            Phase::Busy | Phase::Closing => false,
            Phase::Head | Phase::Waiting => true,
            // Only a connection without a request does not end by itself.
            Phase::Idle => !has_asked.load(Ordering::Relaxed),
        };
        if order == Order::Yield && waits { Poll::Ready(()) } else { ended }
    })
    .await;
}
