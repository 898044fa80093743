//! Processes a request: forwards its message, or sends an error to its sender.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use upesi_delivery::relayed::{Address, ErrorInformation, Failure, Forwarded, Outgoing, Permit, Relay};
use upesi_delivery::{Accepted, Handler, Request, Unroutable};
use upesi_engine::{Participants, RequestKind};
use upesi_fspiop::{Action, Method, PathId, Resource, SyncError, fingerprint};
use upesi_tables::TablesError;
use upesi_tables::store::Store;
use upesi_types::{ErrorCode, FspId, Timestamp};

use super::quote_key::QuoteKey;
use super::{query, reading};
use crate::duplicates::{ComparedMessage, DuplicateStatus, DuplicateTable, Fingerprint, QuoteMessageKind};
use crate::kept::{KeptQuote, KeptQuotes, MessageToKeep, StoredMessageKind};
use crate::metrics::Outcome;
use crate::reading::{Ask, Reading};
use crate::rules::{RequestFacts, RuleDecision};
use crate::{QuotingConfig, QuotingError, QuotingMetrics, Rules, checks};

/// Handles quotes of all kinds, transaction requests and authorizations. Cheap to clone.
#[derive(Clone)]
pub struct Quoting {
    shared: Arc<QuotingState>,
}

struct QuotingState {
    relay: Relay,
    rules: Rules,
    memory: Memory,
    refuse_expired: bool,
    metrics: QuotingMetrics,
    /// Quotes of all kinds, and payment requests, which a customer may answer much later.
    forwarded: [Forwarded; 2],
}

/// Number of forwarded requests of each kind that are remembered, so that only their receivers can answer. Far fewer
/// wait for an answer at the same time.
const FORWARDED_MAX: usize = 131_072;
/// Time for which forwarded requests are remembered.
const FORWARDED_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// Storage of earlier messages.
enum Memory {
    /// None: every message is new.
    None,
    /// The latest quotes, until a restart.
    Recent(Mutex<DuplicateTable>),
    /// All quotes within the retention, durably.
    Kept(KeptQuotes),
}

/// Action for a request.
enum Plan {
    Forward(Outgoing),
    Refuse(ErrorInformation),
}

impl Quoting {
    /// Creates the handler. Register the metrics before, with [`QuotingMetrics::register`].
    ///
    /// Errors: quotes must be stored, but the hub has no store or cannot read it.
    pub fn new(
        config: &QuotingConfig,
        relay: Relay,
        store: Option<Store>,
        rules: Rules,
        metrics: QuotingMetrics,
    ) -> Result<Self, QuotingError> {
        let memory = match (config.keep, config.duplicate_entries) {
            (Some(retention), _) => {
                let store = store.ok_or(QuotingError::NoStore)?;
                Memory::Kept(KeptQuotes::open(store, retention, metrics.clone())?)
            }
            (None, 0) => Memory::None,
            (None, entries) => Memory::Recent(Mutex::new(DuplicateTable::new(entries))),
        };
        let refuse_expired = config.refuse_expired;
        // The answer to a payment request waits for a person, so it is not timed.
        let timed = [Some(relay.timed(RequestKind::Quote)), None];
        let forwarded = timed.map(|timed| Forwarded::new(FORWARDED_MAX, FORWARDED_LIFE, timed));
        let shared = QuotingState { relay, rules, memory, refuse_expired, metrics, forwarded };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// A stored quote, bulk quote or FX quote by its id; `None` also if quotes are not stored.
    pub fn find(&self, id: &str) -> Result<Option<KeptQuote>, TablesError> {
        match &self.shared.memory {
            Memory::Kept(kept) => kept.find(id),
            Memory::None | Memory::Recent(_) => Ok(None),
        }
    }

    /// Whether quotes are stored, so that [`Self::find`] can find them.
    pub fn keeps_quotes(&self) -> bool {
        matches!(self.shared.memory, Memory::Kept(_))
    }

    /// Deletes stored quotes that are too old or too many, in small steps; returns their number.
    /// [`Self::run_retention`] calls it regularly.
    pub async fn drop_old(&self) -> Result<u64, TablesError> {
        match &self.shared.memory {
            Memory::Kept(kept) => kept.drop_old(self.shared.relay.now()).await,
            Memory::None | Memory::Recent(_) => Ok(0),
        }
    }

    /// Enforces the limits of stored quotes, forever. Spawn it on a worker and abort it at the end; it returns
    /// immediately if quotes are not stored.
    pub async fn run_retention(&self) {
        if !self.keeps_quotes() {
            return;
        }
        let mut ticks = tokio::time::interval(crate::kept::RETENTION_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.drop_old().await {
                tracing::warn!(%error, "cannot delete old quotes; retrying later");
            }
        }
    }
}

impl Handler for Quoting {
    fn serves(&self, resource: Resource) -> bool {
        reading::address(resource).is_some()
    }

    fn handle(&self, request: Request) -> impl Future<Output = Result<Accepted, SyncError>> + Send {
        // Boxed, so that the state of a quote does not enlarge the connection's future.
        Box::pin(Arc::clone(&self.shared).handle(request))
    }
}

impl QuotingState {
    async fn handle(self: Arc<Self>, mut request: Request) -> Result<Accepted, SyncError> {
        let Some(address) = reading::address(request.resource()) else {
            return Err(SyncError::not_implemented());
        };
        let permit = self.relay.admit(&request.parties.source, request.bytes())?;
        let participants = self.relay.participants();
        if participants.named(&request.parties.source).is_none() {
            // An unknown sender could not receive a callback.
            let detail = format!("invalid fspiop-source header: no participant '{}'", request.parties.source);
            return Err(SyncError::new(ErrorCode::MALFORMED_SYNTAX, &detail));
        }
        let Some(destination) = request.parties.destination else {
            let detail = "/header must have required property 'fspiop-destination'";
            return Err(SyncError::new(ErrorCode::MISSING_ELEMENT, detail));
        };
        let reading = Reading::of(&mut request)?;
        let is_answer = request.operation.method() == Method::Put;
        if is_answer && participants.dfsp(&destination).is_some() {
            self.check_asked(&request, &reading, &destination)?;
        }
        let plan = match self.judge(&request, destination, &reading, address, &participants) {
            Ok(outgoing) => self.remember(&request, &reading, outgoing, &participants).await?,
            Err(error) => Plan::Refuse(error),
        };
        if let Plan::Forward(Outgoing { receiver, .. }) = &plan
            && !is_answer
            && let Some(liable) = self.relay.liable(receiver)
        {
            let (forwarded, subject) = self.forwarded(&request, &reading);
            let source = &request.parties.source;
            forwarded.note(subject, source, self.relay.liable(source), liable);
        }
        tokio::spawn(self.run(permit, request, reading, address, plan));
        Ok(Accepted)
    }

    /// Rejects an answer from a DFSP that was not queried, or for one that sent no request.
    ///
    /// Errors: 400 with 3205, 3206 or 3209.
    fn check_asked(
        &self,
        request: &Request,
        reading: &Reading,
        destination: &FspId,
    ) -> Result<(), SyncError> {
        let source = &request.parties.source;
        let was_asked = self.take_answer(request, reading, destination);
        if was_asked || self.relay.takes_unasked_answers() || self.was_asked(request, reading, destination) {
            return Ok(());
        }
        let code = match request.resource() {
            Resource::TransactionRequests | Resource::Authorizations => {
                ErrorCode::TRANSACTION_REQUEST_NOT_FOUND
            }
            Resource::BulkQuotes => ErrorCode::BULK_QUOTE_NOT_FOUND,
            _ => ErrorCode::QUOTE_NOT_FOUND,
        };
        Err(SyncError::new(code, &format!("{source} was not asked by {destination}")))
    }

    /// Whether this answers a remembered request; its time is then counted.
    fn take_answer(&self, request: &Request, reading: &Reading, destination: &FspId) -> bool {
        let (forwarded, subject) = self.forwarded(request, reading);
        let is_failure = request.action() == Action::PutError;
        let liable = self.relay.liable(&request.parties.source);
        liable.is_some_and(|liable| forwarded.take_answer(subject, destination, liable, is_failure))
    }

    /// Whether this answers a stored quote, which survives a restart.
    fn was_asked(&self, request: &Request, reading: &Reading, destination: &FspId) -> bool {
        let source = &request.parties.source;
        let (Memory::Kept(kept), Some(quote)) = (&self.memory, reading.quote) else { return false };
        match kept.asked(quote) {
            Ok(Some((payer, payee))) => {
                payer == *destination && self.relay.liable(&payee) == self.relay.liable(source)
            }
            Ok(None) => false,
            Err(error) => {
                tracing::warn!(%error, quote = %reading.path_id, "cannot read a stored quote");
                false
            }
        }
    }

    /// The memory for requests of this kind, and the subject of this one.
    fn forwarded(&self, request: &Request, reading: &Reading) -> (&Forwarded, (Resource, PathId)) {
        let resource = request.resource();
        let sort = usize::from(resource.is_payment_request());
        // Independent of its encoding in the path.
        let id = reading.path_id.id().map_or_else(|| reading.path_id.clone(), PathId::Plain);
        (&self.forwarded[sort], (resource, id))
    }

    /// Performs the checks that need no earlier messages. Returns the message to forward if they pass.
    fn judge(
        &self,
        request: &Request,
        destination: FspId,
        reading: &Reading,
        address: Address,
        participants: &Participants,
    ) -> Result<Outgoing, ErrorInformation> {
        checks::check(request, &destination, &reading.ask, participants)?;
        let mut outgoing = request.forward(destination, address);
        if matches!(reading.ask, Ask::Quote(_) | Ask::Bulk { .. } | Ask::Fx { .. }) {
            self.apply_rules(request, &mut outgoing, participants)?;
            self.check_expiry(reading.ask.expires_at())?;
        }
        if request.resource() == Resource::Authorizations && request.operation.method() == Method::Get {
            outgoing.query = outgoing.query.map(|text| query::reencode_query(&text).into());
        }
        Ok(outgoing)
    }

    fn apply_rules(
        &self,
        request: &Request,
        outgoing: &mut Outgoing,
        participants: &Participants,
    ) -> Result<(), ErrorInformation> {
        if self.rules.is_empty() {
            return Ok(());
        }
        let facts = RequestFacts::of(request, &outgoing.receiver, participants).map_err(|error| {
            tracing::error!(%error, "cannot parse a body for the rules although it matches its schema");
            ErrorInformation::new(ErrorCode::INTERNAL, "")
        })?;
        match self.rules.judge(&facts) {
            RuleDecision::Pass => {}
            RuleDecision::Refuse(error) => return Err(error),
            RuleDecision::Reroute { receiver, headers } => {
                outgoing.receiver = receiver;
                outgoing.additions = headers;
            }
        }
        Ok(())
    }

    fn check_expiry(&self, expires_at: Option<Timestamp>) -> Result<(), ErrorInformation> {
        match expires_at {
            Some(expires_at) if self.refuse_expired && expires_at <= self.relay.now() => {
                Err(ErrorInformation::new(ErrorCode::QUOTE_EXPIRED, ""))
            }
            _ => Ok(()),
        }
    }

    /// Compares a message with earlier ones and records it, durably if quotes are stored.
    ///
    /// Errors: the store rejects it; nothing was accepted.
    async fn remember(
        &self,
        request: &Request,
        reading: &Reading,
        outgoing: Outgoing,
        participants: &Participants,
    ) -> Result<Plan, SyncError> {
        let Some(quote) = reading.quote else { return Ok(Plan::Forward(outgoing)) };
        let (stage, payee) = match reading.ask {
            Ask::Quote(_) | Ask::Bulk { .. } | Ask::Fx { .. } => {
                (QuoteMessageKind::Request, outgoing.receiver)
            }
            Ask::Response(_) => (QuoteMessageKind::Response, request.parties.source),
            Ask::Error => {
                if let Memory::Kept(kept) = &self.memory {
                    let note =
                        self.note(request, StoredMessageKind::Error, [0; 16], Some(request.parties.source));
                    kept.keep(quote, note).await.map_err(|error| refuse_of_store(&error))?;
                }
                return Ok(Plan::Forward(outgoing));
            }
            Ask::PassOn => return Ok(Plan::Forward(outgoing)),
        };
        let fingerprint = fingerprint(&request.body);
        let (sighting, wanted_until) = match &self.memory {
            Memory::None => (DuplicateStatus::New, reading.ask.expires_at()),
            Memory::Recent(table) => {
                let payee = participants.named(&payee).map(|payee| payee.id);
                let sight =
                    ComparedMessage { stage, fingerprint, payee, expires_at: reading.ask.expires_at() };
                self.sight(&mut lock(table), quote, sight)
            }
            Memory::Kept(kept) => {
                let part = match stage {
                    QuoteMessageKind::Request => StoredMessageKind::Request,
                    QuoteMessageKind::Response => StoredMessageKind::Response,
                };
                let note = MessageToKeep {
                    expires_at: reading.ask.expires_at(),
                    too_late_at: self.refuse_expired.then(|| self.relay.now()),
                    ..self.note(request, part, fingerprint, Some(payee))
                };
                kept.keep(quote, note).await.map_err(|error| refuse_of_store(&error))?
            }
        };
        if stage == QuoteMessageKind::Response
            && let Err(error) = self.check_expiry(wanted_until)
        {
            return Ok(Plan::Refuse(error));
        }
        Ok(match sighting {
            DuplicateStatus::New => Plan::Forward(outgoing),
            DuplicateStatus::Resend => {
                self.metrics.count_duplicate(request, false);
                Plan::Forward(outgoing)
            }
            DuplicateStatus::Modified => {
                self.metrics.count_duplicate(request, true);
                Plan::Refuse(modified(stage, &reading.path_id))
            }
        })
    }

    /// The relation of the message to earlier ones, and the expiration of the quote. If expirations are enforced, a
    /// late answer is not compared.
    fn sight(
        &self,
        table: &mut DuplicateTable,
        quote: QuoteKey,
        message: ComparedMessage,
    ) -> (DuplicateStatus, Option<Timestamp>) {
        let wanted_until = table.expires_at(quote);
        if message.stage == QuoteMessageKind::Response && self.check_expiry(wanted_until).is_err() {
            return (DuplicateStatus::New, wanted_until);
        }
        let sighting = table.sight(quote, message);
        self.metrics.remembered.set(table.len() as i64);
        (sighting, wanted_until)
    }

    fn note(
        &self,
        request: &Request,
        part: StoredMessageKind,
        fingerprint: Fingerprint,
        payee: Option<FspId>,
    ) -> MessageToKeep {
        MessageToKeep {
            part,
            fingerprint,
            at: self.relay.now(),
            source: request.parties.source,
            destination: request.parties.destination,
            payee,
            expires_at: None,
            too_late_at: None,
            headers: request.headers.clone(),
            body: request.body.clone(),
        }
    }

    /// Sends the messages, and an error to the sender if they cannot be delivered. The permit is dropped with the last
    /// message.
    async fn run(
        self: Arc<Self>,
        mut permit: Permit,
        mut request: Request,
        reading: Reading,
        address: Address,
        plan: Plan,
    ) {
        let is_undelivered = matches!(plan, Plan::Forward(_));
        let error = match plan {
            Plan::Refuse(error) => {
                self.metrics.count(&request, Outcome::Refused);
                error
            }
            Plan::Forward(outgoing) => match self.relay.send(&outgoing).await {
                Ok(()) => {
                    self.metrics.count(&request, Outcome::Forwarded);
                    return;
                }
                Err(failure) => {
                    self.count_undelivered(&request, &reading, &outgoing.receiver);
                    self.metrics.count(&request, Outcome::Undelivered);
                    told(&failure, &request, &reading, &outgoing.receiver)
                }
            },
        };
        // Sending the error may take long, and does not need the body.
        request.body = upesi_http::Bytes::new();
        permit.shrink_to(request.bytes());
        if is_undelivered {
            self.keep_failure(&request, &reading, &error).await;
        }
        self.metrics.count_refusal(&error);
        let path = reading.error_path(request.resource());
        self.relay.send_error(&request, request.parties.source, address, path, &error).await;
        drop(permit);
    }

    /// Counts that a request was not delivered to its receiver.
    fn count_undelivered(&self, request: &Request, reading: &Reading, receiver: &FspId) {
        if request.operation.method() != Method::Put
            && let Some(liable) = self.relay.liable(receiver)
        {
            let (forwarded, subject) = self.forwarded(request, reading);
            forwarded.undelivered(subject, &request.parties.source, liable);
        }
    }

    /// Records in a stored quote why it got no answer. This record need not be durable in time. A query for a quote
    /// leaves no record, because any DFSP may send one.
    async fn keep_failure(&self, request: &Request, reading: &Reading, error: &ErrorInformation) {
        let (Memory::Kept(kept), Some(quote)) = (&self.memory, reading.quote) else { return };
        let payee = match reading.ask {
            Ask::Quote(_) | Ask::Bulk { .. } | Ask::Fx { .. } => None,
            Ask::Response(_) | Ask::Error => Some(request.parties.source),
            Ask::PassOn => return,
        };
        let hub = self.relay.participants().hub_name().unwrap_or(request.parties.source);
        let note = MessageToKeep {
            source: hub,
            destination: Some(request.parties.source),
            headers: upesi_http::Bytes::new(),
            body: error.to_body(),
            ..self.note(request, StoredMessageKind::Error, [0; 16], payee)
        };
        if let Err(error) = kept.keep(quote, note).await {
            tracing::warn!(%error, quote = %reading.path_id, "cannot store the failure of a stored quote");
        }
    }
}

/// The error for the sender of a message that was not delivered.
fn told(failure: &Failure, request: &Request, reading: &Reading, receiver: &FspId) -> ErrorInformation {
    match failure {
        Failure::Unroutable(Unroutable::NoEndpoint { endpoint_type }) => {
            let side = if request.operation.method() == Method::Put { "PAYER" } else { "PAYEE" };
            let (noun, id) = (reading::noun(request.resource()), &reading.path_id);
            let detail = format!("No {endpoint_type} found for {noun} {id}, {side} party {receiver}");
            ErrorInformation::new(ErrorCode::DESTINATION_FSP, &detail)
        }
        other => other.to_error(),
    }
}

fn modified(stage: QuoteMessageKind, id: &PathId) -> ErrorInformation {
    let detail = match stage {
        QuoteMessageKind::Request => format!("Quote {id} is a duplicate but hashes dont match"),
        QuoteMessageKind::Response => format!("Update for quote {id} is a duplicate but hashes don't match"),
    };
    ErrorInformation::new(ErrorCode::MODIFIED_REQUEST, &detail)
}

fn refuse_of_store(error: &TablesError) -> SyncError {
    tracing::warn!(%error, "cannot store a quote; it was rejected");
    SyncError::new(error.code(), "")
}

fn lock(table: &Mutex<DuplicateTable>) -> MutexGuard<'_, DuplicateTable> {
    // After a panic inside, at worst an entry is dropped too early.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
