//! Account lookup, as a handler for the gateway.

mod batch;
mod lookup;
mod participants;
mod services;
#[cfg(test)]
mod tests;

use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::Either;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};
use upesi_delivery::relayed::{Address, ErrorInformation, Forwarded, Outgoing, Permit, Relay};
use upesi_delivery::{Accepted, Handler, Request};
use upesi_engine::RequestKind;
use upesi_fspiop::uri::decode_segment;
use upesi_fspiop::{Action, Ids, Message, PartyPath, PathParty, Resource, SyncError};
use upesi_ledger::EndpointType;
use upesi_types::{Currency, ErrorCode, FspId};

use crate::metrics::LookupOutcome;
use crate::oracle::{Oracle, OracleSource};
use crate::pending::PendingLookups;
use crate::{ConfigError, DirectoryConfig, DirectoryMetrics};

/// Minimum time between two searches for expired lookups, so that lookups that expire close together are found
/// together.
const EXPIRY_PAUSE_MIN: Duration = Duration::from_millis(10);

/// Number of forwarded lookups that are remembered, including answered ones, so that only their receivers can answer.
const FORWARDED_MAX: usize = 131_072;

/// Account lookup: `participants/…`, `parties/…` and `services/…`. Cheap to clone.
#[derive(Clone)]
pub struct Directory {
    shared: Arc<DirectoryState>,
}

struct DirectoryState {
    config: DirectoryConfig,
    relay: Relay,
    oracles: Arc<dyn OracleSource>,
    metrics: DirectoryMetrics,
    pending: PendingLookups,
    forwarded: Forwarded,
    on_miss: OnMiss,
}

/// Called with the DFSP that looked up a party that no DFSP serves.
pub type OnMiss = Arc<dyn Fn(&FspId) + Send + Sync>;

impl Directory {
    /// Creates a directory that sends over `relay` and calls `oracles`. The future of [`Self::expiry`] must also run.
    /// Returns every mistake in the configuration.
    pub fn new(
        config: DirectoryConfig,
        relay: Relay,
        oracles: Arc<dyn OracleSource>,
        metrics: DirectoryMetrics,
        on_miss: OnMiss,
    ) -> Result<Self, Vec<ConfigError>> {
        config.check()?;
        let pending = PendingLookups::new(&config, metrics.pending.clone());
        // An answer after the deadline, or a repeated one, is still forwarded for the same time again.
        let timed = relay.timed(RequestKind::Lookup);
        let forwarded = Forwarded::new(FORWARDED_MAX, 2 * config.lookup_deadline, Some(timed));
        let shared = DirectoryState { config, relay, oracles, metrics, pending, forwarded, on_miss };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Answers lookups that were not answered in time. Start it once, on any worker; it ends when the directory is
    /// dropped.
    pub fn expiry(&self) -> impl Future<Output = ()> + Send + 'static {
        let shared = Arc::downgrade(&self.shared);
        let room = Arc::new(Semaphore::new(self.shared.config.expiries_in_flight_max));
        async move { while DirectoryState::expire_once(&shared, &room).await.is_some() {} }
    }

    /// Drops the cached answers of oracles (`DELETE /endpointcache`); endpoints are never cached.
    pub fn clear_caches(&self) {
        self.shared.oracles.clear_caches();
    }

    /// Number of lookups that wait for an answer.
    pub fn lookups_pending(&self) -> usize {
        self.shared.pending.count()
    }
}

/// The answer to a request.
type Outcome = Result<Accepted, SyncError>;
/// The answer, once an oracle has answered.
type PendingOutcome = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A request about one party.
pub(crate) type PartyRequest = Request<PathParty>;

impl Handler for Directory {
    fn serves(&self, resource: Resource) -> bool {
        matches!(resource, Resource::Participants | Resource::Parties | Resource::Services)
    }

    fn handle(&self, request: Request) -> impl Future<Output = Result<Accepted, SyncError>> + Send {
        Arc::clone(&self.shared).handle(request)
    }
}

impl DirectoryState {
    /// Work that needs no oracle is complete when this returns. Other work is boxed, so that it does not enlarge the
    /// connection's future.
    fn handle(self: Arc<Self>, mut request: Request) -> Either<Ready<Outcome>, PendingOutcome> {
        // Only answers to lookups are forwarded with their body; nothing else needs it from here on.
        let body = std::mem::take(&mut request.body);
        let message = std::mem::take(&mut request.message);
        let (request, ids) = request.with_ids(());
        Either::Left(ready(match (ids, message) {
            (Ids::Party(party), message) => {
                let request = request.with_ids(party).0;
                match (request.resource(), request.action()) {
                    (Resource::Parties, Action::Get) => self.take_lookup(request),
                    (_, Action::PutError) => self.take_answer(request, body, Kind::Error),
                    (Resource::Parties, _) => self.take_answer(request, body, Kind::Put),
                    _ => {
                        return Either::Right(Box::pin(async move {
                            self.take_participant(request, message).await
                        }));
                    }
                }
            }
            (Ids::Family, Message::Batch(batch)) => {
                let body_bytes = body.len();
                return Either::Right(Box::pin(
                    async move { self.take_batch(request, body_bytes, batch).await },
                ));
            }
            (Ids::Providers(pair), _) => self.take_services(request.with_ids(pair).0),
            _ => Err(SyncError::not_implemented()),
        }))
    }

    /// Whether a DFSP has this name. Inactive DFSPs are included, because a lookup moves no money.
    fn is_known(&self, name: &FspId) -> bool {
        self.relay.participants().dfsp(name).is_some()
    }

    /// Rejects a request at once if its sender could not receive a callback later.
    fn check_requester<I>(&self, request: &Request<I>) -> Result<(), SyncError> {
        let source = request.parties.source;
        if self.is_known(&source) {
            return Ok(());
        }
        let detail = format!("Requester FSP not found: no participant '{source}'");
        Err(SyncError::new(ErrorCode::ID_NOT_FOUND, &detail))
    }

    fn oracle(
        &self,
        party: &PartyPath<'_>,
        currency: Option<Currency>,
    ) -> Result<Arc<dyn Oracle>, ErrorInformation> {
        self.oracles.oracle(party.kind, currency).ok_or_else(|| no_oracle(party.kind.as_str(), currency))
    }

    /// Sends the error callback for a request about a party to its sender.
    async fn tell(&self, request: &PartyRequest, error: &ErrorInformation) {
        let address = address(request.resource(), Kind::Error, &request.ids);
        self.relay.send_error(request, request.parties.source, address, request.error_path(), error).await;
    }

    /// Sends a message that answers a request. If it is not delivered, its sender gets an error callback.
    async fn send_answer(&self, request: &PartyRequest, message: Outgoing, permit: &mut Permit) {
        if let Err(failure) = self.relay.send(&message).await {
            // The error callback may take long, and does not need the body.
            drop(message);
            permit.shrink_to(request.bytes());
            self.tell(request, &failure.to_error()).await;
        }
    }

    async fn expire_once(shared: &Weak<Self>, room: &Arc<Semaphore>) -> Option<()> {
        let now = Instant::now();
        let next = shared.upgrade()?.pending.next_expiry(now);
        sleep_until(next.max(now + EXPIRY_PAUSE_MIN)).await;
        loop {
            let permit = room.clone().acquire_owned().await.ok()?;
            let shared = shared.upgrade()?;
            let Some(request) = shared.pending.expire(Instant::now()) else { return Some(()) };
            shared.metrics.count_lookup(LookupOutcome::Expired);
            tokio::spawn(async move {
                let detail = format!("No answer within {} s", shared.config.lookup_deadline.as_secs());
                let error = ErrorInformation::new(ErrorCode::EXPIRED, &detail);
                shared.tell(&request, &error).await;
                drop(permit);
            });
        }
    }
}

/// A request in progress: its capacity, and the connection that waits until its effect is durable.
struct InProgress {
    permit: Permit,
    durable: Option<oneshot::Sender<Result<(), SyncError>>>,
}

impl InProgress {
    /// Lets the request be acknowledged, because its effect is durable or was rejected.
    ///
    /// Returns after the connection has had its turn and has written the answer, because no callback may overtake that.
    async fn acknowledge(&mut self) {
        if self.tell() {
            yield_now().await;
        }
    }

    /// Lets the request be acknowledged, without waiting. Returns whether it had not been acknowledged before.
    fn tell(&mut self) -> bool {
        // Without a receiver, the client has closed the connection.
        self.durable.take().map(|durable| durable.send(Ok(()))).is_some()
    }

    /// Rejects a request unless it was already acknowledged. Returns whether it was rejected.
    fn refuse(&mut self, error: &ErrorInformation) -> bool {
        let Some(durable) = self.durable.take() else { return false };
        let error = SyncError { description: error.description.clone(), ..SyncError::new(error.code, "") };
        let _ = durable.send(Err(error));
        true
    }
}

/// Starts the work of a request. Returns its acknowledgement at once or, if the hub stores the registration, when that
/// is durable. The work continues if the client closes the connection.
async fn run<W, F>(permit: Permit, is_kept_by_hub: bool, work: W) -> Result<Accepted, SyncError>
where
    W: FnOnce(InProgress) -> F,
    F: Future<Output = InProgress> + Send + 'static,
{
    let (durable, until_durable) = oneshot::channel();
    let mut progress = InProgress { permit, durable: Some(durable) };
    if !is_kept_by_hub {
        // The connection's turn lasts until the answer is written.
        progress.tell();
    }
    let work = work(progress);
    tokio::spawn(async move { drop(work.await.permit) });
    // An error means that the work ended without a durable effect, so there is nothing to wait for.
    until_durable.await.unwrap_or(Ok(())).map(|()| Accepted)
}

/// The messages for a DFSP, each with its own endpoint type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Get,
    Put,
    Error,
}

fn address(resource: Resource, kind: Kind, party: &PathParty) -> Address {
    let (plain, with_sub_id) = match (resource, kind) {
        (Resource::Parties, Kind::Get) => (EndpointType::PARTIES_GET, EndpointType::PARTIES_SUB_ID_GET),
        (Resource::Parties, Kind::Put) => (EndpointType::PARTIES_PUT, EndpointType::PARTIES_SUB_ID_PUT),
        (Resource::Parties, Kind::Error) => {
            (EndpointType::PARTIES_PUT_ERROR, EndpointType::PARTIES_SUB_ID_PUT_ERROR)
        }
        (_, Kind::Error) => (EndpointType::PARTICIPANT_PUT_ERROR, EndpointType::PARTICIPANT_SUB_ID_PUT_ERROR),
        _ => (EndpointType::PARTICIPANT_PUT, EndpointType::PARTICIPANT_SUB_ID_PUT),
    };
    Address::Template(if party.sub_id.is_some() { with_sub_id } else { plain })
}

/// The currency in a request's query.
///
/// Errors: 400 with 3100 for an invalid one, 3101 for two of them.
fn currency_of(request: &PartyRequest) -> Result<Option<Currency>, SyncError> {
    let parameters = request.query.as_deref().unwrap_or_default().split('&');
    let mut named = parameters.filter_map(|parameter| parameter.strip_prefix("currency="));
    let Some(text) = named.next() else { return Ok(None) };
    if named.next().is_some() {
        // Otherwise, the hub could use one currency and the DFSP that it queries another.
        return Err(SyncError::new(ErrorCode::MALFORMED_SYNTAX, "/query/currency occurs twice"));
    }
    let text = decode_segment(text).unwrap_or_default();
    let currency = Currency::parse(&text).ok_or_else(|| {
        let detail = "/query/currency must be equal to one of the allowed values: ISO 4217 codes such as KES";
        SyncError::new(ErrorCode::VALIDATION, detail)
    })?;
    Ok(Some(currency))
}

fn no_oracle(kind: &str, currency: Option<Currency>) -> ErrorInformation {
    let detail = match currency {
        None => format!("Oracle type:{kind} not found"),
        Some(currency) => format!("Oracle type:{kind} and currency:{} not found", currency.as_str()),
    };
    ErrorInformation::new(ErrorCode::ADD_PARTY_INFORMATION, &detail)
}

/// Converts an error of a check to the form of a callback.
fn to_information(error: SyncError) -> ErrorInformation {
    ErrorInformation { code: error.code, description: error.description }
}
