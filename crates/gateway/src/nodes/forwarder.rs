//! The handler of a follower: forwards requests to the leader.

use std::fmt::Debug;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request as HttpRequest, Uri};
use tokio::sync::{Mutex, MutexGuard, Notify, Semaphore, SemaphorePermit, watch};
use tokio::time::{Instant, sleep_until, timeout_at};
use upesi_delivery::{Accepted, Handler, Request};
use upesi_engine::SharedParticipants;
use upesi_fspiop::{Resource, SyncError};
use upesi_http::{Full, Pool, SendError, header_block};
use upesi_types::{ErrorCode, FspId};

use super::node_answer::NodeAnswer;
use super::{CONNECTIONS_PER_NODE, KnownLeader, Peers};
use crate::admission::source_of;
use crate::answer;
use crate::large_bodies::{Sender, SenderBytes, Share};

/// Time limit of a request for finding a leader and getting its answer. A silent leader is replaced within three
/// seconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// Delay before the next attempt at a leader that does not answer yet, for example because it was just elected.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// Time limit for the answer of each node, while a former leader asks them for the new leader.
const SEARCH_TAKES_MAX: Duration = Duration::from_millis(500);
/// Slots of requests that wait for the leader; further requests are answered 503 with 2005. A DFSP may use half of
/// them.
const PLACES: usize = 4 * CONNECTIONS_PER_NODE;
/// Bytes of a request, headers and body, per slot.
const PLACE_BYTES: usize = 64 * 1024;

/// Counts of forwarded requests by outcome.
#[derive(Debug, Default)]
pub struct ForwardCounts {
    /// Requests that the leader answered.
    pub answered: AtomicU64,
    /// Attempts that were repeated, because there may be another leader.
    pub repeated: AtomicU64,
    /// Requests answered 503 because no leader could be reached.
    pub unreachable: AtomicU64,
    /// Requests answered 503 because it is unknown whether the leader accepted them.
    pub unknown: AtomicU64,
}

/// Slots of requests that wait for the leader.
struct SlotLimits {
    places: Semaphore,
    senders: Arc<SenderBytes>,
}

impl SlotLimits {
    fn new() -> Self {
        let senders = Arc::new(SenderBytes::new(PLACES / 2 * PLACE_BYTES));
        Self { places: Semaphore::new(PLACES), senders }
    }

    /// Takes the slots of a request; `None` if too few are free, or if the sender would exceed its half.
    fn take(
        &self,
        participants: &SharedParticipants,
        sender: FspId,
        bytes: usize,
    ) -> Option<SlotPermits<'_>> {
        let places = 1 + bytes / PLACE_BYTES;
        let mut share = self.senders.share(Sender::Dfsp(source_of(&participants.get(), Some(sender))));
        if !share.grow_to(places * PLACE_BYTES) {
            return None;
        }
        let places = self.places.try_acquire_many(u32::try_from(places).ok()?).ok()?;
        Some(SlotPermits { _places: places, _share: share })
    }
}

/// Slots of a request, returned on drop.
struct SlotPermits<'a> {
    _places: SemaphorePermit<'a>,
    _share: Share,
}

/// The reason why an attempt has no answer.
enum NoAnswer {
    /// The request reached no handler, or it may be repeated.
    Again,
    /// It is unknown whether the leader accepted the request.
    Unknown,
}

/// Forwards requests to the leader. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RequestForwarder {
    shared: Arc<ForwarderState>,
}

struct ForwarderState {
    leads: watch::Receiver<KnownLeader>,
    peers: Peers,
    participants: SharedParticipants,
    room: SlotLimits,
    /// Held by the one request that checks whether the leader answers.
    looking: Mutex<()>,
    /// Notified when the leader answers: all waiting requests are sent.
    answers: Notify,
    /// The last leadership that closed the connections to other nodes.
    epoch: AtomicU64,
    /// The node that answered as leader after this node had handed over.
    found: AtomicU32,
    counts: Arc<ForwardCounts>,
}

/// Value of `found` while no node has answered as leader.
const NONE_FOUND: u32 = u32::MAX;

impl Debug for ForwarderState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("leads", &*self.leads.borrow()).finish_non_exhaustive()
    }
}

impl RequestForwarder {
    /// Follows the current leader by `leads`. `participants` identify the DFSPs for the limit of slots.
    pub fn new(
        leads: watch::Receiver<KnownLeader>,
        peers: Peers,
        participants: SharedParticipants,
        counts: Arc<ForwardCounts>,
    ) -> Self {
        Self {
            shared: Arc::new(ForwarderState {
                leads,
                peers,
                participants,
                room: SlotLimits::new(),
                looking: Mutex::default(),
                answers: Notify::new(),
                epoch: AtomicU64::new(0),
                found: AtomicU32::new(NONE_FOUND),
                counts,
            }),
        }
    }
}

impl Handler for RequestForwarder {
    /// The leader itself rejects the resources that it does not serve.
    fn serves(&self, _resource: Resource) -> bool {
        true
    }

    async fn handle(&self, request: Request) -> Result<Accepted, SyncError> {
        let shared = &*self.shared;
        let taken = shared.room.take(&shared.participants, request.parties.source, request.bytes());
        let Some(_taken) = taken else { return Err(answer::busy()) };
        shared.forward(&Outgoing::of(request)?).await
    }
}

impl ForwarderState {
    async fn forward(&self, request: &Outgoing) -> Result<Accepted, SyncError> {
        let deadline = Instant::now() + PATIENCE;
        let mut leads = self.leads.clone();
        let mut look: Option<MutexGuard<'_, ()>> = None;
        loop {
            let lead = *leads.borrow_and_update();
            self.leave_others(lead);
            let answers = self.answers.notified();
            let may_search = lead.is_sought && look.is_some();
            let answered = match self.leader(lead).and_then(|node| self.peers.0.get(&node)) {
                Some(pool) => self.attempt(pool, request, deadline, &mut leads).await,
                None => Err(NoAnswer::Again),
            };
            let answered = match answered {
                Err(NoAnswer::Again) if may_search => self.search(request, deadline, &mut leads).await,
                answered => answered,
            };
            let no_answer = match answered {
                Ok(answered) => {
                    self.counts.answered.fetch_add(1, Ordering::Relaxed);
                    self.answers.notify_waiters();
                    return answered;
                }
                Err(no_answer) => no_answer,
            };
            if matches!(no_answer, NoAnswer::Unknown) && !request.may_repeat {
                self.counts.unknown.fetch_add(1, Ordering::Relaxed);
                return Err(SyncError::new(
                    ErrorCode::UNAVAILABLE,
                    "the outcome is not known, repeat the request",
                ));
            }
            // A leader that was just elected may not listen yet. Only one request checks, so that waiting requests do
            // not keep it busy.
            if look.is_none() {
                look = tokio::select! {
                    guard = self.looking.lock() => Some(guard),
                    () = answers => None,
                    () = changed(&mut leads) => None,
                    () = sleep_until(deadline) => None,
                };
            }
            if look.is_some() {
                let _ = timeout_at(Instant::now() + LOOK_EVERY, changed(&mut leads)).await;
            }
            if Instant::now() >= deadline {
                return Err(self.unreachable());
            }
            self.counts.repeated.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The leader, as far as it is known. After a handover, a node that has answered as leader counts.
    fn leader(&self, lead: KnownLeader) -> Option<u32> {
        let found = Some(self.found.load(Ordering::Relaxed)).filter(|node| *node != NONE_FOUND);
        if lead.is_sought { found.or(lead.node) } else { lead.node }
    }

    /// Asks the nodes in turn whether they lead. A node that does not lead does nothing with the request.
    async fn search(
        &self,
        request: &Outgoing,
        deadline: Instant,
        leads: &mut watch::Receiver<KnownLeader>,
    ) -> Result<Result<Accepted, SyncError>, NoAnswer> {
        self.found.store(NONE_FOUND, Ordering::Relaxed);
        for (node, pool) in &self.peers.0 {
            let soon = Instant::now() + SEARCH_TAKES_MAX;
            let deadline = if request.may_repeat { deadline.min(soon) } else { deadline };
            match self.attempt(pool, request, deadline, leads).await {
                Ok(answered) => {
                    self.found.store(*node, Ordering::Relaxed);
                    return Ok(answered);
                }
                Err(NoAnswer::Unknown) if !request.may_repeat => return Err(NoAnswer::Unknown),
                Err(_) => {}
            }
        }
        Err(NoAnswer::Again)
    }

    /// Closes the connections to nodes that are not the leader, so that the leader can use their slots.
    fn leave_others(&self, lead: KnownLeader) {
        if self.epoch.swap(lead.epoch, Ordering::Relaxed) != lead.epoch {
            self.peers.close_all_but(lead.node);
        }
    }

    /// Sends the request once to the leader. A repeatable attempt ends when there is another leader, because the former
    /// one may be paused.
    async fn attempt(
        &self,
        pool: &Pool,
        request: &Outgoing,
        deadline: Instant,
        leads: &mut watch::Receiver<KnownLeader>,
    ) -> Result<Result<Accepted, SyncError>, NoAnswer> {
        let sent = tokio::select! {
            sent = pool.send(request.http()?, deadline) => sent,
            // A request that must not be repeated waits for its answer.
            () = changed(leads), if request.may_repeat => return Err(NoAnswer::Unknown),
        };
        match sent {
            Ok(response) => match NodeAnswer::read(response.status, &response.body) {
                Some(NodeAnswer::Handled(answered)) => Ok(answered),
                // The leader would reject a repetition in the same way.
                None if response.status.is_client_error() => {
                    tracing::warn!(
                        status = response.status.as_u16(),
                        "the leader does not read a forwarded request"
                    );
                    Ok(Err(SyncError::new(ErrorCode::UNAVAILABLE, "")))
                }
                Some(NodeAnswer::DoesNotLead) | None => Err(NoAnswer::Again),
            },
            Err(SendError::Connect { .. } | SendError::ConnectTimeout { .. } | SendError::Busy { .. }) => {
                Err(NoAnswer::Again)
            }
            Err(error) => {
                tracing::debug!(%error, "the leader did not answer");
                Err(NoAnswer::Unknown)
            }
        }
    }

    fn unreachable(&self) -> SyncError {
        self.counts.unreachable.fetch_add(1, Ordering::Relaxed);
        SyncError::new(ErrorCode::UNAVAILABLE, "try again later")
    }
}

/// Waits until the leadership changes.
async fn changed(leads: &mut watch::Receiver<KnownLeader>) {
    if leads.changed().await.is_err() {
        // This node no longer follows the log, so there will be no change.
        pending().await
    }
}

/// A request as it is sent to the leader, once or several times.
struct Outgoing {
    method: http::Method,
    uri: Uri,
    block: Bytes,
    body: Bytes,
    /// Whether a repetition is harmless, because the ledger recognises the request by its id.
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
        // The block was made from headers, so it is valid.
        let headers = header_block::from_block(&self.block).map_err(|_| NoAnswer::Unknown)?;
        let mut request = HttpRequest::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sender_may_use_half_of_the_slots_and_a_large_request_uses_several() {
        let (room, participants) = (SlotLimits::new(), SharedParticipants::default());
        let stranger = FspId::parse("stranger").unwrap();
        let take = |bytes| room.take(&participants, stranger, bytes);
        let large = take(PLACES / 4 * PLACE_BYTES);
        assert!(large.is_some());
        let small: Vec<_> = std::iter::from_fn(|| take(PLACE_BYTES - 1)).collect();
        assert_eq!(small.len(), PLACES / 2 - (PLACES / 4 + 1));
        drop(large);
        assert!(take(PLACES / 4 * PLACE_BYTES).is_some(), "returned slots can be taken again");
        assert!(take(PLACES * PLACE_BYTES).is_none());
        drop(small);
        assert!(take(PLACES * PLACE_BYTES).is_none(), "a sender cannot have more than half");
        assert_eq!(room.places.available_permits(), PLACES);
    }
}
