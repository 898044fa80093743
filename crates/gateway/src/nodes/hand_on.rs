//! The handler of a node that follows: hands requests on to the one that leads.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Request as HttpRequest, Uri};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};
use upesi_delivery::{Accepted, Handler, Request};
use upesi_fspiop::{Resource, SyncError};
use upesi_http::{Bytes, ClientTls, Full, Origin, Pool, PoolConfig, SendError, header_block};
use upesi_types::ErrorCode;

use super::answer::{BYTES_MAX, NodeAnswer};
use crate::answer;

/// How long a request waits for a node that leads and answers it. A leader that falls silent is followed within three
/// seconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at a leader that does not answer yet: it may have just been elected.
const LOOK_EVERY: Duration = Duration::from_millis(25);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Kept connections, and so requests at a time, to the node that leads.
pub const CONNECTIONS_PER_NODE: usize = 256;
/// Requests that wait for the leader at a time; further ones are answered 503 with 2005.
const WAITING_MAX: usize = 4 * CONNECTIONS_PER_NODE;

/// The node that leads, as far as this one has read the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lead {
    /// Counts the changes of leadership.
    pub epoch: u64,
    /// `None`: none does.
    pub node: Option<u32>,
}

/// What became of requests that were handed on.
#[derive(Debug, Default)]
pub struct HandOnCounts {
    /// The leader answered.
    pub answered: AtomicU64,
    /// Attempts that were repeated, as another node may lead.
    pub repeated: AtomicU64,
    /// Answered 503, as no node that leads could be reached.
    pub unreachable: AtomicU64,
    /// Answered 503, as the leader may have taken them or not.
    pub unknown: AtomicU64,
}

/// The ports of the nodes of a cluster, by number.
#[derive(Debug)]
pub struct Peers(BTreeMap<u32, Pool>);

impl Peers {
    /// Connections with this TLS, which shows a certificate; without it they are plain, for tests.
    pub fn new(origins: impl IntoIterator<Item = (u32, Origin)>, tls: Option<&ClientTls>) -> Self {
        let config = PoolConfig {
            connections_max: CONNECTIONS_PER_NODE,
            connect_timeout: CONNECT_TIMEOUT,
            response_body_bytes_max: BYTES_MAX,
            tls: tls.cloned(),
            ..PoolConfig::default()
        };
        let pools = origins.into_iter().map(|(node, origin)| (node, Pool::new(origin, config.clone())));
        Self(pools.collect())
    }
}

/// Why an attempt has no answer.
enum NoAnswer {
    /// It reached no handler, or one that may do it twice.
    Again,
    /// The leader may have taken it or not.
    Unknown,
}

/// Hands requests on. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HandOn {
    shared: Arc<Shared>,
}

struct Shared {
    leads: watch::Receiver<Lead>,
    peers: Peers,
    waiting: Semaphore,
    counts: Arc<HandOnCounts>,
}

impl Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("leads", &*self.leads.borrow()).finish_non_exhaustive()
    }
}

impl HandOn {
    /// To the node that leads by `leads`.
    pub fn new(leads: watch::Receiver<Lead>, peers: Peers, counts: Arc<HandOnCounts>) -> Self {
        let waiting = Semaphore::new(WAITING_MAX);
        Self { shared: Arc::new(Shared { leads, peers, waiting, counts }) }
    }
}

impl Handler for HandOn {
    /// What the leader does not serve it says itself.
    fn serves(&self, _resource: Resource) -> bool {
        true
    }

    async fn handle(&self, request: Request) -> Result<Accepted, SyncError> {
        let shared = &*self.shared;
        let Ok(_place) = shared.waiting.try_acquire() else { return Err(answer::busy()) };
        shared.hand_on(&Outgoing::of(request)?).await
    }
}

impl Shared {
    async fn hand_on(&self, request: &Outgoing) -> Result<Accepted, SyncError> {
        let deadline = Instant::now() + PATIENCE;
        let mut leads = self.leads.clone();
        loop {
            let lead = *leads.borrow_and_update();
            let no_answer = match lead.node.and_then(|node| self.peers.0.get(&node)) {
                None => NoAnswer::Again,
                Some(pool) => match self.attempt(pool, request, deadline, &mut leads).await {
                    Ok(answered) => {
                        self.counts.answered.fetch_add(1, Ordering::Relaxed);
                        return answered;
                    }
                    Err(no_answer) => no_answer,
                },
            };
            if matches!(no_answer, NoAnswer::Unknown) && !request.may_repeat {
                self.counts.unknown.fetch_add(1, Ordering::Relaxed);
                return Err(SyncError::new(
                    ErrorCode::UNAVAILABLE,
                    "the outcome is not known, repeat the request",
                ));
            }
            if Instant::now() + LOOK_EVERY >= deadline {
                return Err(self.unreachable());
            }
            self.counts.repeated.fetch_add(1, Ordering::Relaxed);
            // A leader that has been elected just now is not there yet; a change of leadership is what it waits for.
            let _ = timeout_at(Instant::now() + LOOK_EVERY, changed(&mut leads)).await;
        }
    }

    /// One attempt at the node that leads. It ends when another one does: the former one may be frozen.
    async fn attempt(
        &self,
        pool: &Pool,
        request: &Outgoing,
        deadline: Instant,
        leads: &mut watch::Receiver<Lead>,
    ) -> Result<Result<Accepted, SyncError>, NoAnswer> {
        let sent = tokio::select! {
            sent = pool.send(request.http()?, deadline) => sent,
            // What may not be repeated waits for whatever it says.
            () = changed(leads), if request.may_repeat => return Err(NoAnswer::Unknown),
        };
        match sent {
            Ok(response) => match NodeAnswer::read(response.status, &response.body) {
                Some(NodeAnswer::Handled(answered)) => Ok(answered),
                Some(NodeAnswer::DoesNotLead) | None => Err(NoAnswer::Again),
            },
            Err(SendError::Connect { .. } | SendError::ConnectTimeout { .. } | SendError::Busy { .. }) => {
                Err(NoAnswer::Again)
            }
            Err(error) => {
                tracing::debug!(%error, "the node that leads did not answer");
                Err(NoAnswer::Unknown)
            }
        }
    }

    fn unreachable(&self) -> SyncError {
        self.counts.unreachable.fetch_add(1, Ordering::Relaxed);
        SyncError::new(ErrorCode::UNAVAILABLE, "try again later")
    }
}

/// Waits until another node leads, or none.
async fn changed(leads: &mut watch::Receiver<Lead>) {
    if leads.changed().await.is_err() {
        // The log is followed no more: nothing changes.
        pending().await
    }
}

/// A request as it goes to the leader, once or more often.
struct Outgoing {
    method: http::Method,
    uri: Uri,
    block: Bytes,
    body: Bytes,
    /// Whether a second one changes nothing: of what the ledger knows by its id.
    may_repeat: bool,
}

impl Outgoing {
    fn of(request: Request) -> Result<Self, SyncError> {
        let internal = |_| SyncError::new(ErrorCode::INTERNAL, "");
        let method = http::Method::from_bytes(request.operation.method().as_str().as_bytes());
        let mut target = request.path().into_string();
        if let Some(query) = &request.query {
            target.push('?');
            target.push_str(query);
        }
        Ok(Self {
            method: method.map_err(|_| SyncError::new(ErrorCode::INTERNAL, ""))?,
            uri: Uri::try_from(target).map_err(internal)?,
            may_repeat: request.resource().moves_money(),
            block: request.headers,
            body: request.body,
        })
    }

    fn http(&self) -> Result<HttpRequest<Full<Bytes>>, NoAnswer> {
        // It was made from headers: it is one.
        let headers = header_block::from_block(&self.block).map_err(|_| NoAnswer::Unknown)?;
        let mut request = HttpRequest::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        Ok(request)
    }
}
