//! Lookups that wait for the answer of a DFSP.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;
use upesi_delivery::{Shares, share_of};
use upesi_fspiop::{PartyIdType, PartyPath, PathNames, SyncError};
use upesi_ledger::ParticipantId;
use upesi_types::{ErrorCode, FspId};

use crate::DirectoryConfig;
use crate::directory::PartyRequest;
use crate::timed::{Place, Timed};

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
    lookups: Timed<Lookup>,
    bytes: usize,
    /// At most one for each sender and party.
    discoveries: Timed<Discovery>,
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
    pub(crate) fn begin(&self, request: &Arc<PartyRequest>, sender: u32) -> Result<Place, SyncError> {
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
    pub(crate) fn end(&self, place: Place) -> bool {
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
        let party = (kind, (*id).into(), sub_id.as_deref().map(Into::into));
        let discovery = Discovery::new(requester, party, asked, others);
        state.discoveries.keep(hash, Instant::now() + self.deadline, discovery, Discovery::is_same);
        true
    }

    /// Processes an answer about a party for a DFSP. `answering` is the participant that is liable for the sender of
    /// the answer. Ends the lookups of the DFSP about the party, unless another participant may still have it.
    pub(crate) fn answered(
        &self,
        requester: &FspId,
        party: &PartyPath<'_>,
        (answering, is_error): (Option<ParticipantId>, bool),
    ) -> Reception {
        let (id, sub_id) = (party.id_text(), party.sub_id_text());
        let hash = self.hash(requester, party.kind, &id, sub_id.as_deref());
        let mut state = self.state();
        let is_discovered =
            |discovery: &Discovery| discovery.is_about(requester, party.kind, &id, sub_id.as_deref());
        let is_meant = |lookup: &Lookup| lookup.is_about(requester, party.kind, &id, sub_id.as_deref());
        let discovery = state.discoveries.newest_about(hash, is_discovered);
        match discovery.map_or(Verdict::Ends, |discovery| discovery.hear(answering, is_error)) {
            Verdict::Ends => {}
            Verdict::KeptBack => return Reception::KeptBack,
            Verdict::AsksNext(next) => {
                let waiting = state.lookups.about(hash, is_meant).next();
                let waiting = waiting.map(|(_, lookup)| lookup.request.clone());
                // If all lookups have expired, their sender already has its error.
                return waiting.map_or(Reception::KeptBack, |request| Reception::AsksNext(next, request));
            }
        }
        let mut count = 0;
        while let Some(ended) = state.lookups.take_about(hash, is_meant) {
            self.account(&mut state, Some(&ended));
            count += 1;
        }
        Reception::Passes(count)
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

// Lookups that query several participants: all proxies, because no directory knows the party, or its DFSPs one after
// the other.
//
// The first participant that has the party answers the lookup; later answers are dropped. Errors are held back while
// another participant may still have the party; the last error is the answer.

/// Maximum number of proxies that one lookup queries.
pub(crate) const PROXIES_ASKED_MAX: usize = 16;
/// Number of queries that are remembered, including answered ones; the oldest is dropped.
const DISCOVERIES_MAX: usize = 16_384;

/// The query of one DFSP about one party.
#[derive(Debug)]
pub(crate) struct Discovery {
    requester: FspId,
    kind: PartyIdType,
    id: Box<str>,
    sub_id: Option<Box<str>>,
    /// The queried participants, each as the liable one, and whether it has answered.
    asked: Vec<(ParticipantId, bool)>,
    /// The DFSPs to query in turn after them, the next one last, each with the liable participant.
    others: Vec<(FspId, ParticipantId)>,
    is_found: bool,
}

/// Handling of an answer about a party.
#[derive(Clone, Debug)]
pub(crate) enum Reception {
    /// The answer is forwarded. The number counts the lookups that waited for it.
    Passes(u64),
    /// The answer is dropped: another participant has answered, or may still answer with the party.
    KeptBack,
    /// The answer is dropped, and the hub queries this DFSP next.
    AsksNext(FspId, Arc<PartyRequest>),
}

/// Effect of an answer on a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It ends the lookups.
    Ends,
    KeptBack,
    /// No queried participant has the party, so the hub queries this DFSP.
    AsksNext(FspId),
}

impl Discovery {
    pub(crate) fn new(
        requester: FspId,
        (kind, id, sub_id): (PartyIdType, Box<str>, Option<Box<str>>),
        asked: &[ParticipantId],
        mut others: Vec<(FspId, ParticipantId)>,
    ) -> Self {
        let asked = asked.iter().map(|asked| (*asked, false)).collect();
        others.reverse();
        Self { requester, kind, id, sub_id, asked, others, is_found: false }
    }

    pub(crate) fn is_about(
        &self,
        requester: &FspId,
        kind: PartyIdType,
        id: &str,
        sub_id: Option<&str>,
    ) -> bool {
        self.kind == kind
            && *self.id == *id
            && self.sub_id.as_deref() == sub_id
            && self.requester == *requester
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.is_about(&other.requester, other.kind, &other.id, other.sub_id.as_deref())
    }

    /// Whether an answer may still come.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.is_found && self.asked.iter().any(|(_, is_done)| !is_done)
    }

    /// Processes an answer of any participant.
    pub(crate) fn hear(&mut self, answering: Option<ParticipantId>, is_error: bool) -> Verdict {
        let asked = self.asked.iter_mut().find(|(asked, _)| Some(*asked) == answering);
        let Some((_, is_done)) = asked else { return Verdict::Ends };
        let is_repeated = std::mem::replace(is_done, true);
        if self.is_found || (is_repeated && is_error) {
            return Verdict::KeptBack;
        }
        self.is_found = !is_error;
        match self.is_under_way() {
            true => Verdict::KeptBack,
            false if self.is_found => Verdict::Ends,
            false => self.next().map_or(Verdict::Ends, Verdict::AsksNext),
        }
    }

    /// The next DFSP to query; it counts as queried from now on.
    fn next(&mut self) -> Option<FspId> {
        let (next, liable) = self.others.pop()?;
        // Several DFSPs may be behind one proxy.
        self.asked.retain(|(asked, _)| *asked != liable);
        self.asked.push((liable, false));
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(number: u32) -> ParticipantId {
        ParticipantId::new(number).unwrap()
    }

    fn discovery() -> Discovery {
        let party = (PartyIdType::Msisdn, "26097".into(), None);
        Discovery::new(FspId::parse("bluebank").unwrap(), party, &[proxy(1), proxy(2)], Vec::new())
    }

    /// Three DFSPs. The second and the third are behind the same proxy.
    #[test]
    fn others_are_asked_in_turn_until_one_has_the_party() {
        let [second, third] = ["farbank", "farwallet"].map(|name| FspId::parse(name).unwrap());
        let others = vec![(second, proxy(2)), (third, proxy(2))];
        let party = (PartyIdType::Msisdn, "26097".into(), None);
        let discovery =
            || Discovery::new(FspId::parse("bluebank").unwrap(), party.clone(), &[proxy(1)], others.clone());
        use Verdict::{AsksNext, Ends, KeptBack};
        type Heard = (u32, bool, Verdict);
        let stories: [&[Heard]; 4] = [
            // The last one was not queried.
            &[(1, false, Ends), (1, false, KeptBack), (2, false, Ends)],
            &[(1, true, AsksNext(second)), (1, true, KeptBack), (2, false, Ends)],
            &[(1, true, AsksNext(second)), (2, true, AsksNext(third)), (2, true, Ends)],
            // It knows the party after all.
            &[(1, true, AsksNext(second)), (1, false, Ends), (2, true, KeptBack)],
        ];
        for story in stories {
            let mut discovery = discovery();
            for (number, is_error, verdict) in story {
                assert_eq!(discovery.hear(Some(proxy(*number)), *is_error), *verdict, "{story:?}");
            }
        }
    }

    #[test]
    fn the_first_that_has_the_party_answers_and_else_the_last() {
        use Verdict::{Ends, KeptBack};
        type Heard = (u32, bool, Verdict);
        let stories: [&[Heard]; 5] = [
            // Number of the proxy, whether it is an error, and the result.
            &[(1, false, Ends), (2, false, KeptBack), (2, true, KeptBack), (1, false, KeptBack)],
            &[(1, true, KeptBack), (2, false, Ends), (1, false, KeptBack)],
            &[(1, true, KeptBack), (1, true, KeptBack), (2, true, Ends)],
            // It knows the party after all.
            &[(1, true, KeptBack), (1, false, Ends), (2, true, KeptBack)],
            // It was not queried.
            &[(3, true, Ends)],
        ];
        for story in stories {
            let mut discovery = discovery();
            for (number, is_error, verdict) in story {
                assert_eq!(discovery.hear(Some(proxy(*number)), *is_error), *verdict, "{story:?}");
            }
        }
        assert_eq!(discovery().hear(None, false), Ends);
    }
}
