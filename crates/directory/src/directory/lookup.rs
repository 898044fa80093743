//! `GET /parties/…` and its answers.

use std::borrow::Cow;
use std::sync::Arc;

use tokio::task::JoinSet;
use upesi_delivery::relayed::{ErrorInformation, Failure, Outgoing};
use upesi_delivery::{Accepted, Unroutable};
use upesi_engine::Participants;
use upesi_fspiop::{PartyIdType, PartyPath, Resource, SyncError, check_party_path};
use upesi_http::Bytes;
use upesi_ledger::ParticipantId;
use upesi_parties::party::Owner;
use upesi_types::{Currency, ErrorCode, FspId};

use super::{DirectoryState, Kind, PartyRequest, address, currency_of, to_information};
use crate::metrics::LookupOutcome;
use crate::oracle::{Operation, OracleRequest};
use crate::pending::{AnswerHandling, PROXIES_ASKED_MAX};

/// Maximum number of DFSPs that one lookup queries, one after the other.
pub(super) const OWNERS_QUERIED_MAX: usize = 16;

/// Reason why a lookup is not forwarded.
#[derive(Debug)]
pub(super) struct LookupFailure {
    outcome: LookupOutcome,
    error: ErrorInformation,
}

/// The DFSPs that serve a party.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// DFSPs, each once, the oldest registration first.
    pub(super) known: Vec<FspId>,
    /// Whether the oracle also named unknown participants.
    is_stale: bool,
}

impl LookupFailure {
    fn not_found(detail: &str) -> Self {
        let error = ErrorInformation::new(ErrorCode::PARTY_NOT_FOUND, detail);
        Self { outcome: LookupOutcome::NotFound, error }
    }
}

impl From<LookupFailure> for ErrorInformation {
    fn from(failure: LookupFailure) -> Self {
        failure.error
    }
}

/// Mojaloop's error text if the scheme has no proxy to query.
const NOBODY: &str = "No proxy found to start inter-scheme discovery flow";

impl DirectoryState {
    /// Accepts a `GET /parties/…`. From then on its sender gets exactly one answer: from a DFSP, or an error of the
    /// hub.
    pub(super) fn take_lookup(self: Arc<Self>, request: PartyRequest) -> Result<Accepted, SyncError> {
        let source = request.parties.source;
        if !self.is_known(&source) {
            let detail = format!("invalid fspiop-source header: no participant '{source}'");
            return Err(SyncError::new(ErrorCode::MALFORMED_SYNTAX, &detail));
        }
        if request.parties.proxied && self.proxy_of(&source).is_none() {
            // The lookup has returned to this scheme. Forwarding it again would never end.
            let detail = format!("FSPIOP-Proxy: participant '{source}' is not behind a proxy");
            return Err(SyncError::new(ErrorCode::VALIDATION, &detail));
        }
        let currency = currency_of(&request)?;
        let count_refused = |refusal| {
            self.metrics.count_lookup(LookupOutcome::Refused);
            refusal
        };
        let permit = self.relay.admit(&request.parties.source, request.bytes()).map_err(count_refused)?;
        let request = Arc::new(request);
        let sender = self.relay.liable(&source).map_or(0, ParticipantId::number);
        let place = self.pending.begin(&request, sender).map_err(count_refused)?;
        let shared = self;
        tokio::spawn(async move {
            let found = shared.look_up(&request, currency).await;
            if let Err(LookupFailure { outcome, error }) = found
                && shared.pending.end(place)
            {
                shared.metrics.count_lookup(outcome);
                shared.tell(&request, &error).await;
            }
            drop(permit);
        });
        Ok(Accepted)
    }

    /// Forwards a lookup to the participants that can answer it.
    async fn look_up(&self, request: &PartyRequest, currency: Option<Currency>) -> Result<(), LookupFailure> {
        check_party_path(&request.ids.as_path()).map_err(|error| LookupFailure {
            outcome: LookupOutcome::Malformed,
            error: to_information(error),
        })?;
        let owners = match request.parties.destination {
            Some(destination) if self.is_known(&destination) => {
                Owners { known: vec![destination], is_stale: false }
            }
            Some(_) => Owners { known: Vec::new(), is_stale: true },
            None => match self.owners(request, currency).await {
                Err(failure) if failure.outcome == LookupOutcome::NotFound => {
                    return self.ask_proxies(request, failure).await;
                }
                found => found?,
            },
        };
        let result = match (&owners.known[..], request.parties.destination) {
            ([], None) => self.ask_proxies(request, LookupFailure::not_found(NOBODY)).await,
            ([], Some(_)) => Err(LookupFailure::not_found(NOBODY)),
            (known, _) => self.ask_owners(request, known).await,
        };
        if owners.is_stale && self.config.remove_stale_parties {
            self.remove_stale(request, currency).await;
        }
        result
    }

    /// Queries all proxies, but not the one that forwarded the request; fails without such a proxy.
    async fn ask_proxies(
        &self,
        request: &PartyRequest,
        otherwise: LookupFailure,
    ) -> Result<(), LookupFailure> {
        let mut proxies = self.proxies_but_of(&request.parties.source);
        if proxies.is_empty() {
            return Err(otherwise);
        }
        if proxies.len() > PROXIES_ASKED_MAX {
            tracing::warn!(
                proxies = proxies.len(),
                asked = PROXIES_ASKED_MAX,
                "a lookup does not query all proxies, because there are too many"
            );
            proxies.truncate(PROXIES_ASKED_MAX);
        }
        let ids: Vec<_> = proxies.iter().map(|(id, _)| *id).collect();
        if !self.pending.discover(request, &ids, Vec::new()) {
            return Ok(());
        }
        let mut sends = JoinSet::new();
        for (id, name) in proxies {
            let (relay, message) = (self.relay.clone(), self.question(request, name));
            sends.spawn(async move { (id, relay.send(&message).await) });
        }
        while let Some(sent) = sends.join_next().await {
            let Ok((id, Err(failure))) = sent else { continue };
            self.proxy_failed(request, id, &failure).await;
        }
        Ok(())
    }

    /// Records that a proxy could not be queried. If it was the last one, its failure is the answer.
    async fn proxy_failed(&self, request: &PartyRequest, proxy: ParticipantId, failure: &Failure) {
        self.count_undelivered(request, proxy);
        let (requester, party) = (&request.parties.source, request.ids.as_path());
        if let AnswerHandling::Passes(count) = self.pending.answered(requester, &party, Some(proxy), true) {
            self.tell_undelivered(request, count, failure).await;
        }
    }

    async fn tell_undelivered(&self, request: &PartyRequest, lookups: u64, failure: &Failure) {
        if lookups > 0 {
            self.metrics.count_lookups(LookupOutcome::NotDelivered, lookups);
            self.tell(request, &failure.to_error()).await;
        }
    }

    /// The forwarded lookup. From now on its receiver may answer it.
    fn question(&self, request: &PartyRequest, receiver: FspId) -> Outgoing {
        if let Some(liable) = self.relay.liable(&receiver) {
            let (party, source) = (request.ids.as_path(), &request.parties.source);
            self.forwarded.note(subject(&party), source, self.relay.liable(source), liable);
        }
        request.forward(receiver, address(Resource::Parties, Kind::Get, &request.ids))
    }

    /// Queries one DFSP.
    async fn ask(&self, request: &PartyRequest, receiver: FspId) -> Result<(), Failure> {
        let sent = self.relay.send(&self.question(request, receiver)).await;
        if sent.is_err()
            && let Some(liable) = self.relay.liable(&receiver)
        {
            self.count_undelivered(request, liable);
        }
        sent
    }

    fn count_undelivered(&self, request: &PartyRequest, liable: ParticipantId) {
        self.forwarded.undelivered(subject(&request.ids.as_path()), &request.parties.source, liable);
    }

    /// Rejects an answer from a DFSP that was not queried, because it could redirect the payment to itself. Times other
    /// answers.
    ///
    /// Errors: 400 with 3200.
    fn check_asked(
        &self,
        request: &PartyRequest,
        destination: &FspId,
        is_failure: bool,
    ) -> Result<(), SyncError> {
        let source = request.parties.source;
        let party = request.ids.as_path();
        let answers = |liable| self.forwarded.take_answer(subject(&party), destination, liable, is_failure);
        let was_asked =
            request.resource() == Resource::Parties && self.relay.liable(&source).is_some_and(answers);
        if was_asked || self.relay.takes_unasked_answers() {
            return Ok(());
        }
        let detail = format!("{source} was not asked about this party by {destination}");
        Err(SyncError::new(ErrorCode::ID_NOT_FOUND, &detail))
    }

    /// The proxies without the DFSP itself and without the proxy that represents it.
    fn proxies_but_of(&self, source: &FspId) -> Vec<(ParticipantId, FspId)> {
        let participants = self.relay.participants();
        let own = self.proxy_of(source);
        let all = participants.ids().filter_map(|id| participants.get(id));
        let others = all.filter(|one| one.is_proxy && one.is_active && Some(one.id) != own);
        others.map(|one| (one.id, one.name)).collect()
    }

    /// The DFSP itself if it is a proxy, or else the proxy that represents it.
    fn proxy_of(&self, name: &FspId) -> Option<ParticipantId> {
        let participants = self.relay.participants();
        let participant = participants.named(name)?;
        if participant.is_proxy {
            return Some(participant.id);
        }
        participants.proxy_of(participant.id).map(|proxy| proxy.id)
    }

    /// The owners of a party, according to the oracle. Only entries with exactly the requested sub id count; without a
    /// requested sub id, entries without one.
    pub(super) async fn owners(
        &self,
        request: &PartyRequest,
        currency: Option<Currency>,
    ) -> Result<Owners, LookupFailure> {
        let owners = self.find_owners(request, currency).await;
        let is_miss = match &owners {
            Ok(owners) => owners.known.is_empty(),
            Err(failure) => matches!(failure.outcome, LookupOutcome::NotFound),
        };
        if is_miss {
            (self.on_miss)(&request.parties.source);
        }
        owners
    }

    async fn find_owners(
        &self,
        request: &PartyRequest,
        currency: Option<Currency>,
    ) -> Result<Owners, LookupFailure> {
        let party = request.ids.as_path();
        let oracle = self
            .oracle(&party, currency)
            .map_err(|error| LookupFailure { outcome: LookupOutcome::NoOracle, error })?;
        let inquiry =
            OracleRequest { party, currency, requester: request.parties.source, headers: &request.headers };
        let found = oracle.find(&inquiry).await.map_err(|failure| LookupFailure {
            outcome: match failure.outcome() {
                "not_found" => LookupOutcome::NotFound,
                _ => LookupOutcome::OracleFailed,
            },
            error: failure.to_error(Operation::Find),
        })?;
        let sub_id = party.sub_id_text();
        let fits = |owner: &&Owner| owner.sub_id.as_deref() == sub_id.as_deref();
        let mut fitting = found.iter().filter(fits).peekable();
        if !found.is_empty() && fitting.peek().is_none() {
            let endpoint = address(Resource::Parties, Kind::Get, &request.ids).endpoint().name();
            let detail =
                format!("Empty oracle partyList, filtered based on callbackEndpointType: {endpoint}");
            let error = ErrorInformation::new(ErrorCode::ID_NOT_FOUND, &detail);
            return Err(LookupFailure { outcome: LookupOutcome::NotFound, error });
        }
        let participants = self.relay.participants();
        let (known, unknown): (Vec<&Owner>, Vec<&Owner>) =
            fitting.partition(|owner| participants.dfsp(&owner.fsp).is_some());
        for owner in &unknown {
            tracing::warn!(fsp = owner.fsp.as_str(), kind = %party.kind, "an oracle names an unknown DFSP");
        }
        let mut owners = Owners { known: Vec::new(), is_stale: !unknown.is_empty() };
        for owner in payable(known, currency, &request.parties.source, &participants) {
            if !owners.known.contains(&owner.fsp) {
                owners.known.push(owner.fsp);
            }
        }
        Ok(owners)
    }

    /// Sends the lookup to the owner, or to several owners one after the other until one has the party. So the oldest
    /// registration decides, and not the fastest answer.
    async fn ask_owners(&self, request: &PartyRequest, owners: &[FspId]) -> Result<(), LookupFailure> {
        let [first, others @ ..] = owners else { return Ok(()) };
        if others.is_empty() {
            let sent = self.ask(request, *first).await;
            return sent.map_err(|failure| LookupFailure {
                outcome: LookupOutcome::NotDelivered,
                error: failure.to_error(),
            });
        }
        if owners.len() > OWNERS_QUERIED_MAX {
            tracing::warn!(owners = owners.len(), asked = OWNERS_QUERIED_MAX, "a party has too many owners");
        }
        let others = others.iter().take(OWNERS_QUERIED_MAX - 1);
        let others = others.filter_map(|name| Some((*name, self.relay.liable(name)?)));
        let asked: Vec<_> = self.relay.liable(first).into_iter().collect();
        if self.pending.discover(request, &asked, others.collect()) {
            self.ask_in_turn(request, *first).await;
        }
        Ok(())
    }

    /// Sends the lookup to an owner, and to the next one if that cannot be reached. The last failure is the answer.
    async fn ask_in_turn(&self, request: &PartyRequest, mut owner: FspId) {
        loop {
            let Err(failure) = self.ask(request, owner).await else { return };
            let answering = self.relay.liable(&owner);
            match self.pending.answered(&request.parties.source, &request.ids.as_path(), answering, true) {
                AnswerHandling::AsksNext(next, _) => owner = next,
                AnswerHandling::Passes(lookups) => {
                    return self.tell_undelivered(request, lookups, &failure).await;
                }
                AnswerHandling::KeptBack => return,
            }
        }
    }

    /// Removes a party from the oracle if its owner is not a participant.
    async fn remove_stale(&self, request: &PartyRequest, currency: Option<Currency>) {
        let party = request.ids.as_path();
        let Ok(oracle) = self.oracle(&party, currency) else { return };
        let inquiry =
            OracleRequest { party, currency, requester: request.parties.source, headers: &request.headers };
        if let Err(failure) = oracle.remove(&inquiry).await {
            tracing::warn!(%failure, kind = %party.kind, "cannot remove a party without owner from the oracle");
        }
    }

    /// Accepts a `PUT` that answers a lookup, or an error about a party, from a DFSP that the hub queried for the
    /// destination. An answer after the end of the lookup is also forwarded, because the payer may still use it.
    pub(super) fn take_answer(
        self: Arc<Self>,
        request: PartyRequest,
        body: Bytes,
        kind: Kind,
    ) -> Result<Accepted, SyncError> {
        self.check_requester(&request)?;
        let mut permit = self.relay.admit(&request.parties.source, request.bytes() + body.len())?;
        if let Some(destination) = request.parties.destination.filter(|name| self.is_known(name)) {
            let is_failure = kind == Kind::Error && !says_not_found(&body);
            self.check_asked(&request, &destination, is_failure)?;
        }
        if let (Some(destination), Resource::Parties) = (&request.parties.destination, request.resource()) {
            let is_error = kind == Kind::Error;
            let answering = self.relay.liable(&request.parties.source);
            match self.pending.answered(destination, &request.ids.as_path(), answering, is_error) {
                AnswerHandling::Passes(answered) => {
                    let outcome =
                        if is_error { LookupOutcome::AnsweredError } else { LookupOutcome::Answered };
                    self.metrics.count_lookups(outcome, answered);
                }
                AnswerHandling::KeptBack => return Ok(Accepted),
                AnswerHandling::AsksNext(owner, lookup) => {
                    permit.shrink_to(lookup.bytes());
                    tokio::spawn(async move {
                        self.ask_in_turn(&lookup, owner).await;
                        drop(permit);
                    });
                    return Ok(Accepted);
                }
            }
        }
        tokio::spawn(async move {
            match request.parties.destination.filter(|destination| self.is_known(destination)) {
                Some(destination) => {
                    let address = address(request.resource(), kind, &request.ids);
                    let message = Outgoing { body, ..request.forward(destination, address) };
                    self.send_answer(&request, message, &mut permit).await;
                }
                None => {
                    drop(body);
                    permit.shrink_to(request.bytes());
                    self.tell(&request, &Unroutable::UnknownReceiver.to_error()).await;
                }
            }
            drop(permit);
        });
        Ok(Accepted)
    }
}

/// Whether an error callback states that the DFSP does not have the party, which is an answer.
fn says_not_found(body: &[u8]) -> bool {
    ErrorInformation::read(body).is_some_and(|error| error.code == ErrorCode::PARTY_NOT_FOUND)
}

/// The subject of a lookup: the party, independent of the encoding of its path.
fn subject<'a>(party: &PartyPath<'a>) -> (PartyIdType, Cow<'a, str>, Option<Cow<'a, str>>) {
    (party.kind, party.id_text(), party.sub_id_text())
}

/// Filters the owners of a party for a lookup without a currency: owners with an account and an entry in one of the
/// payer's currencies. If there is none, the payment needs a currency exchange, and all owners remain.
fn payable<'a>(
    mut owners: Vec<&'a Owner>,
    currency: Option<Currency>,
    payer: &FspId,
    participants: &Participants,
) -> Vec<&'a Owner> {
    let Some(payer) = participants.dfsp(payer).filter(|_| currency.is_none() && owners.len() > 1) else {
        return owners;
    };
    let of_payer: Vec<Currency> = participants.position_currencies(payer).collect();
    let is_payable = |owner: &Owner| {
        let Some(dfsp) = participants.dfsp(&owner.fsp) else { return false };
        let mut shared =
            participants.position_currencies(dfsp).filter(|currency| of_payer.contains(currency));
        shared.any(|shared| owner.currency.is_none_or(|currency| currency == shared))
    };
    if owners.iter().any(|owner| is_payable(owner)) {
        owners.retain(|owner| is_payable(owner));
    }
    owners
}
