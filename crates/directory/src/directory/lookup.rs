//! `GET /parties/…` and its answers.

use std::sync::Arc;

use tokio::task::JoinSet;
use upesi_delivery::Unroutable;
use upesi_delivery::relayed::{Accepted, ErrorInformation, Failure, Outgoing, Received};
use upesi_fspiop::{PartyPath, Resource, SyncError, check_party_path};
use upesi_http::Bytes;
use upesi_types::{Currency, ErrorCode, FspId};

use super::{Kind, Shared, address, currency_of, party_of, to_information};
use crate::metrics::LookupOutcome;
use crate::oracle::{Inquiry, Operation};
use crate::party::Owner;

/// DFSPs that one lookup goes to; a party with more accounts than that is nobody's.
pub(super) const OWNERS_ASKED_MAX: usize = 16;

/// Why a lookup goes to nobody.
#[derive(Debug)]
pub(super) struct Unanswerable {
    outcome: LookupOutcome,
    error: ErrorInformation,
}

/// Who serves a party.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// Participants, each once.
    pub(super) known: Vec<FspId>,
    /// Whether the oracle named others too.
    is_stale: bool,
}

impl Unanswerable {
    fn not_found(detail: &str) -> Self {
        let error = ErrorInformation::new(ErrorCode::PARTY_NOT_FOUND, detail);
        Self { outcome: LookupOutcome::NotFound, error }
    }
}

impl From<Unanswerable> for ErrorInformation {
    fn from(unanswerable: Unanswerable) -> Self {
        unanswerable.error
    }
}

/// What hubs say that could ask other hubs and know none.
const NOBODY: &str = "No proxy found to start inter-scheme discovery flow";

impl Shared {
    /// Accepts a `GET /parties/…`. From then on its sender gets exactly one answer: from a DFSP, or an error of the hub's.
    pub(super) fn take_lookup(
        self: Arc<Self>,
        request: &Arc<Received>,
        party: &PartyPath<'_>,
    ) -> Result<Accepted, SyncError> {
        if !self.is_known(&request.source) {
            let detail = format!("invalid fspiop-source header: no participant '{}'", request.source);
            return Err(SyncError::new(ErrorCode::MALFORMED_SYNTAX, &detail));
        }
        let currency = currency_of(request)?;
        let count_refused = |refusal| {
            self.metrics.count_lookup(LookupOutcome::Refused);
            refusal
        };
        let permit = self.relay.admit(request.bytes()).map_err(count_refused)?;
        let place = self.pending.begin(request, party).map_err(count_refused)?;
        let (shared, request) = (self, request.clone());
        tokio::spawn(async move {
            let Ok(party) = party_of(&request) else { return };
            if let Err(Unanswerable { outcome, error }) = shared.look_up(&request, &party, currency).await
                && shared.pending.end(place)
            {
                shared.metrics.count_lookup(outcome);
                shared.tell(&request, &party, &error).await;
            }
            drop(permit);
        });
        Ok(Accepted)
    }

    /// Passes a lookup on to those who can answer it.
    async fn look_up(
        &self,
        request: &Arc<Received>,
        party: &PartyPath<'_>,
        currency: Option<Currency>,
    ) -> Result<(), Unanswerable> {
        check_party_path(party).map_err(|error| Unanswerable {
            outcome: LookupOutcome::Malformed,
            error: to_information(error),
        })?;
        let owners = match request.destination {
            Some(destination) if self.is_known(&destination) => {
                Owners { known: vec![destination], is_stale: false }
            }
            Some(_) => Owners { known: Vec::new(), is_stale: true },
            None => self.owners(request, party, currency).await?,
        };
        let result = match &owners.known[..] {
            [] => Err(Unanswerable::not_found(NOBODY)),
            known => self.ask_owners(request, party, known).await,
        };
        if owners.is_stale && self.config.remove_stale_parties {
            self.remove_stale(request, party, currency).await;
        }
        result
    }

    /// Who serves a party, according to the oracle: of the entries those that have exactly the sub id asked for, or none
    /// where none is asked for.
    pub(super) async fn owners(
        &self,
        request: &Received,
        party: &PartyPath<'_>,
        currency: Option<Currency>,
    ) -> Result<Owners, Unanswerable> {
        let oracle = self
            .oracle(party, currency)
            .map_err(|error| Unanswerable { outcome: LookupOutcome::NoOracle, error })?;
        let inquiry =
            Inquiry { party: *party, currency, requester: request.source, headers: &request.headers };
        let found = oracle.find(&inquiry).await.map_err(|failure| Unanswerable {
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
            let endpoint = address(Resource::Parties, Kind::Get, party).endpoint().name();
            let detail =
                format!("Empty oracle partyList, filtered based on callbackEndpointType: {endpoint}");
            let error = ErrorInformation::new(ErrorCode::ID_NOT_FOUND, &detail);
            return Err(Unanswerable { outcome: LookupOutcome::NotFound, error });
        }
        let participants = self.relay.participants();
        let mut owners = Owners::default();
        for owner in fitting {
            if participants.named(&owner.fsp).is_none() {
                tracing::warn!(fsp = owner.fsp.as_str(), kind = %party.kind, "an oracle names an unknown DFSP");
                owners.is_stale = true;
            } else if !owners.known.contains(&owner.fsp) {
                owners.known.push(owner.fsp);
            }
        }
        Ok(owners)
    }

    /// Sends the lookup to every owner. It failed if it arrived nowhere.
    async fn ask_owners(
        &self,
        request: &Arc<Received>,
        party: &PartyPath<'_>,
        owners: &[FspId],
    ) -> Result<(), Unanswerable> {
        let address = address(Resource::Parties, Kind::Get, party);
        let failure = match owners {
            [owner] => self.relay.send(&request.forward(*owner, address)).await.err(),
            owners => {
                if owners.len() > OWNERS_ASKED_MAX {
                    tracing::warn!(
                        owners = owners.len(),
                        asked = OWNERS_ASKED_MAX,
                        "a party has too many owners"
                    );
                }
                let mut sends = JoinSet::new();
                for (index, owner) in owners.iter().take(OWNERS_ASKED_MAX).enumerate() {
                    let (relay, message) = (self.relay.clone(), request.forward(*owner, address));
                    sends.spawn(async move { (index, relay.send(&message).await) });
                }
                first_unless_one_arrived(sends.join_all().await)
            }
        };
        match failure {
            None => Ok(()),
            Some(failure) => {
                Err(Unanswerable { outcome: LookupOutcome::NotDelivered, error: failure.to_error() })
            }
        }
    }

    /// Makes the oracle forget a party whose owner is none.
    async fn remove_stale(&self, request: &Received, party: &PartyPath<'_>, currency: Option<Currency>) {
        let Ok(oracle) = self.oracle(party, currency) else { return };
        let inquiry =
            Inquiry { party: *party, currency, requester: request.source, headers: &request.headers };
        if let Err(failure) = oracle.remove(&inquiry).await {
            tracing::warn!(%failure, kind = %party.kind, "a party without owner could not be removed");
        }
    }

    /// Accepts a `PUT` that answers a lookup, or an error about a party, for the DFSP that it names. It passes even if
    /// nobody waits for it any more: the payer may still be glad of it.
    pub(super) fn take_answer(
        self: Arc<Self>,
        request: &Arc<Received>,
        body: Bytes,
        party: &PartyPath<'_>,
        kind: Kind,
    ) -> Result<Accepted, SyncError> {
        self.check_requester(request)?;
        let mut permit = self.relay.admit(request.bytes() + body.len())?;
        if let (Some(destination), Resource::Parties) = (&request.destination, request.resource) {
            let answered = self.pending.answered(destination, party);
            let outcome = match kind {
                Kind::Error => LookupOutcome::AnsweredError,
                _ => LookupOutcome::Answered,
            };
            self.metrics.count_lookups(outcome, answered);
        }
        let (shared, request) = (self, request.clone());
        tokio::spawn(async move {
            let Ok(party) = party_of(&request) else { return };
            match request.destination.filter(|destination| shared.is_known(destination)) {
                Some(destination) => {
                    let address = address(request.resource, kind, &party);
                    let message = Outgoing { body, ..request.forward(destination, address) };
                    shared.send_answer(&request, &party, message, &mut permit).await;
                }
                None => {
                    drop(body);
                    permit.shrink_to(request.bytes());
                    shared.tell(&request, &party, &Unroutable::UnknownReceiver.to_error()).await;
                }
            }
            drop(permit);
        });
        Ok(Accepted)
    }
}

/// The failure of the owner that was named first, whoever failed first, so that the payer is told the same each time;
/// `None` where the lookup arrived somewhere.
fn first_unless_one_arrived(mut results: Vec<(usize, Result<(), Failure>)>) -> Option<Failure> {
    results.sort_by_key(|(index, _)| *index);
    let failures: Result<Vec<_>, ()> =
        results.into_iter().map(|(_, result)| result.err().ok_or(())).collect();
    failures.ok()?.into_iter().next()
}
