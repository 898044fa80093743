//! Lookups that wait for the answer of a DFSP.

mod discovery;

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;
use upesi_delivery::{Shares, share_of};
use upesi_fspiop::{PartyIdType, PartyPath, PathNames, SyncError};
use upesi_ledger::ParticipantId;
use upesi_types::{ErrorCode, FspId};

use self::discovery::DISCOVERIES_MAX;
pub(crate) use self::discovery::{AnswerHandling, PROXIES_ASKED_MAX};
use self::discovery::{Discovery, DiscoveryStep};
use crate::DirectoryConfig;
use crate::directory::PartyRequest;
use crate::timed::{DeadlineTable, TimedSlot};

/// The accepted `GET /parties` that are not answered yet, limited in number and memory. Each leaves exactly once:
/// answered, failed, or expired.
///
/// A lookup has no identifier: the payer recognises the answer by the party in its path. So an answer ends all lookups
/// of that party by the payer, whichever DFSP sends it. Two lookups of the same party by the same DFSP both end with
/// one answer.
///
/// There is one lock. It is held for about the time of a hash table access, twice per lookup.
#[derive(Debug)]
pub(crate) struct PendingLookups {
    lookups_max: usize,
    bytes_max: usize,
    /// Each DFSP's share of both limits, by the number of the liable participant.
    shares: Shares<u32>,
    deadline: std::time::Duration,
    hasher: RandomState,
    gauge: Gauge,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lookups: DeadlineTable<Lookup>,
    bytes: usize,
    /// The searches for a proxy; at most one for each sender and party.
    discoveries: DeadlineTable<Discovery>,
}

#[derive(Debug)]
struct Lookup {
    kind: PartyIdType,
    /// Decoded, because an answer may have another encoding.
    id: Box<str>,
    sub_id: Option<Box<str>>,
    request: Arc<PartyRequest>,
    /// The participant whose share it uses.
    sender: u32,
}

impl PendingLookups {
    pub(crate) fn new(config: &DirectoryConfig, gauge: Gauge) -> Self {
        Self {
            lookups_max: config.pending_max,
            bytes_max: config.pending_bytes_max,
            shares: Shares::new(
                share_of(config.pending_max, config.sender_share_percent),
                share_of(config.pending_bytes_max, config.sender_share_percent),
            ),
            deadline: config.lookup_deadline,
            hasher: RandomState::new(),
            gauge,
            state: Mutex::default(),
        }
    }

    /// Begins to wait for the answer to a request. `sender` is the number of the participant that is liable for it.
    ///
    /// Errors: 503 with 2005 if the capacity is used up, in total or for this sender; nothing was accepted.
    pub(crate) fn begin(&self, request: &Arc<PartyRequest>, sender: u32) -> Result<TimedSlot, SyncError> {
        let (bytes, party) = (bytes(request), request.ids.as_path());
        let lookup = Lookup {
            kind: party.kind,
            id: party.id_text().into(),
            sub_id: party.sub_id_text().map(Into::into),
            request: request.clone(),
            sender,
        };
        let hash = self.hash(&request.parties.source, party.kind, &lookup.id, lookup.sub_id.as_deref());
        let mut state = self.state();
        let has_room = state.lookups.len() < self.lookups_max && state.bytes + bytes <= self.bytes_max;
        if !has_room || !self.shares.take(sender, bytes) {
            return Err(SyncError::new(ErrorCode::SERVER_BUSY, "Too many lookups wait for an answer"));
        }
        state.bytes += bytes;
        // Removes expired queries to proxies, so that they do not affect answers.
        while state.discoveries.take_due(Instant::now()).is_some() {}
        let is_over = |discovery: &mut Discovery| !discovery.is_under_way();
        let is_discovered = |discovery: &Discovery| {
            let sub_id = lookup.sub_id.as_deref();
            discovery.is_about(&request.parties.source, lookup.kind, &lookup.id, sub_id)
        };
        if state.discoveries.newest_about(hash, is_discovered).is_some_and(is_over) {
            state.discoveries.take_about(hash, is_discovered);
        }
        // The time is read under the lock, so that it ascends.
        let due = Instant::now() + self.deadline;
        let place = state.lookups.keep(hash, due, lookup, Lookup::is_same);
        self.show(&state);
        Ok(place)
    }

    /// Ends a lookup; `false` if it had already ended.
    pub(crate) fn end(&self, place: TimedSlot) -> bool {
        let mut state = self.state();
        let ended = state.lookups.take(place);
        self.account(&mut state, ended.as_ref());
        ended.is_some()
    }

    /// Begins to wait for several participants: `asked` now, and `others` in turn if `asked` do not have the party.
    /// False if a query of the same sender about the party is in progress, because its answer also ends this lookup.
    pub(crate) fn discover(
        &self,
        request: &PartyRequest,
        asked: &[ParticipantId],
        others: Vec<(FspId, ParticipantId)>,
    ) -> bool {
        let (requester, party) = (request.parties.source, request.ids.as_path());
        let (kind, id, sub_id) = (party.kind, party.id_text(), party.sub_id_text());
        let hash = self.hash(&requester, kind, &id, sub_id.as_deref());
        let is_meant = |discovery: &Discovery| discovery.is_about(&requester, kind, &id, sub_id.as_deref());
        let mut state = self.state();
        if state.discoveries.newest_about(hash, is_meant).is_some() {
            return false;
        }
        if state.discoveries.len() >= DISCOVERIES_MAX {
            state.discoveries.take_oldest();
        }
        let (id, sub_id) = ((*id).into(), sub_id.as_deref().map(Into::into));
        let discovery = Discovery::new(requester, kind, id, sub_id, asked, others);
        state.discoveries.keep(hash, Instant::now() + self.deadline, discovery, Discovery::is_same);
        true
    }

    /// Processes an answer about a party for a DFSP. `answering` is the participant that is liable for the sender of
    /// the answer. Ends the lookups of the DFSP about the party, unless another participant may still have it.
    pub(crate) fn answered(
        &self,
        requester: &FspId,
        party: &PartyPath<'_>,
        answering: Option<ParticipantId>,
        is_error: bool,
    ) -> AnswerHandling {
        let (id, sub_id) = (party.id_text(), party.sub_id_text());
        let hash = self.hash(requester, party.kind, &id, sub_id.as_deref());
        let mut state = self.state();
        let is_discovered =
            |discovery: &Discovery| discovery.is_about(requester, party.kind, &id, sub_id.as_deref());
        let is_meant = |lookup: &Lookup| lookup.is_about(requester, party.kind, &id, sub_id.as_deref());
        let discovery = state.discoveries.newest_about(hash, is_discovered);
        match discovery.map_or(DiscoveryStep::Ends, |discovery| discovery.hear(answering, is_error)) {
            DiscoveryStep::Ends => {}
            DiscoveryStep::KeptBack => return AnswerHandling::KeptBack,
            DiscoveryStep::AsksNext(next) => {
                let waiting = state.lookups.about(hash, is_meant).next();
                let waiting = waiting.map(|(_, lookup)| lookup.request.clone());
                // If all lookups have expired, their sender already has its error.
                return waiting
                    .map_or(AnswerHandling::KeptBack, |request| AnswerHandling::AsksNext(next, request));
            }
        }
        let mut count = 0;
        while let Some(ended) = state.lookups.take_about(hash, is_meant) {
            self.account(&mut state, Some(&ended));
            count += 1;
        }
        AnswerHandling::Passes(count)
    }

    /// Ends a lookup whose deadline has passed and returns its request.
    pub(crate) fn expire(&self, now: Instant) -> Option<Arc<PartyRequest>> {
        let mut state = self.state();
        let expired = state.lookups.take_due(now);
        self.account(&mut state, expired.as_ref());
        expired.map(|lookup| lookup.request)
    }

    /// Time of the next search for expired lookups: until then none can expire, even a new one.
    pub(crate) fn next_expiry(&self, now: Instant) -> Instant {
        self.state().lookups.next_due().unwrap_or(now + self.deadline)
    }

    /// Number of waiting lookups.
    pub(crate) fn count(&self) -> usize {
        self.state().lookups.len()
    }

    fn account(&self, state: &mut State, ended: Option<&Lookup>) {
        if let Some(lookup) = ended {
            let bytes = bytes(&lookup.request);
            state.bytes -= bytes;
            self.shares.give_back(lookup.sender, bytes);
            self.show(state);
        }
    }

    fn show(&self, state: &State) {
        self.gauge.set(i64::try_from(state.lookups.len()).unwrap_or(i64::MAX));
    }

    fn hash(&self, requester: &FspId, kind: PartyIdType, id: &str, sub_id: Option<&str>) -> u64 {
        self.hasher.hash_one(Key(requester.as_str(), kind, id, sub_id))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Hash)]
struct Key<'a>(&'a str, PartyIdType, &'a str, Option<&'a str>);

impl Lookup {
    fn is_about(&self, requester: &FspId, kind: PartyIdType, id: &str, sub_id: Option<&str>) -> bool {
        self.kind == kind
            && *self.id == *id
            && self.sub_id.as_deref() == sub_id
            && self.request.parties.source == *requester
    }

    fn is_same(&self, other: &Self) -> bool {
        self.is_about(&other.request.parties.source, other.kind, &other.id, other.sub_id.as_deref())
    }
}

/// Number of bytes that a lookup holds of its request.
fn bytes(request: &PartyRequest) -> usize {
    request.headers.len() + request.ids.bytes() * 2 + request.query.as_ref().map_or(0, |query| query.len())
}
