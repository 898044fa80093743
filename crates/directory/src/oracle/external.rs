//! External oracles over the oracle HTTP interface.

mod answers;
mod connections;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use tokio::time::Instant;
use upesi_delivery::relayed::ErrorInformation;
use upesi_delivery::{Shares, share_of};
use upesi_fspiop::uri::encode_segment;
use upesi_http::header::HeaderMap;
use upesi_http::{
    Answer, Breaker, BreakerDecision, Bytes, Full, Jitter, Method, Request, SendError, Target, header,
    header_block,
};
use upesi_parties::party::Owner;
use upesi_types::FspId;
pub use wire::{OWNERS_MAX, read_batch, read_owners};

use self::answers::AnswerCache;
use self::connections::Connections;
use super::{BatchInquiry, BatchOutcome, Operation, Oracle, OracleFailure, OracleFuture, OracleRequest};
use crate::{DirectoryMetrics, OracleConfig};

/// An external oracle. It has its own connections, breaker, cache and limits, so a slow oracle delays only its own
/// requests.
pub struct ExternalOracle {
    name: String,
    base: Box<str>,
    config: OracleConfig,
    metrics: DirectoryMetrics,
    single: RequestChannel,
    batch: RequestChannel,
    breaker: Mutex<(Breaker, Jitter)>,
    cache: Option<AnswerCache>,
    /// Whether the oracle was deleted, so that it must not be counted.
    is_deleted: AtomicBool,
}

impl Drop for ExternalOracle {
    fn drop(&mut self) {
        // A request may have been counted at the very moment of the deletion.
        if self.is_deleted.load(Ordering::Relaxed) {
            self.metrics.forget_oracle(&self.name);
        }
    }
}

/// Connections and capacity for one kind of request.
struct RequestChannel {
    connections: Connections,
    room: Semaphore,
    /// Share of each DFSP in the capacity.
    shares: Shares<FspId>,
}

/// A slot of a DFSP's share, returned on drop.
struct Share<'a>(&'a RequestChannel, FspId);

impl RequestChannel {
    fn share(&self, requester: FspId) -> Option<Share<'_>> {
        self.shares.take(requester, 0).then(|| Share(self, requester))
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.0.shares.give_back(self.1, 0);
    }
}

/// A request over HTTP.
struct OracleHttpRequest {
    operation: Operation,
    requester: FspId,
    method: Method,
    /// Appended to the base address.
    path: String,
    body: Bytes,
}

impl ExternalOracle {
    /// An oracle at a base address; the name is used in metrics and logs.
    pub fn new(name: String, base: &str, config: OracleConfig, metrics: DirectoryMetrics) -> Self {
        // There may be separate trust anchors for the oracle.
        let peer = format!("oracle-{name}");
        let tls = config.tls.as_ref().map(|tls| tls.of(&peer));
        let config = OracleConfig { tls, outbound: config.outbound.of(&peer), ..config };
        let way = |in_flight_max: usize, answer_bytes_max| RequestChannel {
            connections: Connections::new(&config, in_flight_max, answer_bytes_max),
            room: Semaphore::new(in_flight_max),
            shares: Shares::new(share_of(in_flight_max, config.sender_share_percent), usize::MAX),
        };
        let breaker =
            Breaker::new(config.breaker_threshold, config.breaker_pause_min, config.breaker_pause_max);
        // Seeded by the name, so that several oracles that fail together are not retried together.
        let seed = name.bytes().fold(0, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        let cache = (!config.cache_ttl.is_zero())
            .then(|| AnswerCache::new(config.cache_ttl, config.cache_entries_max));
        Self {
            single: way(config.in_flight_max, config.answer_bytes_max),
            batch: way(config.batches_in_flight_max, config.batch_answer_bytes_max),
            breaker: Mutex::new((breaker, Jitter::new(seed))),
            cache,
            name,
            base: base.into(),
            config,
            metrics,
            is_deleted: AtomicBool::new(false),
        }
    }

    /// Ends the oracle's time series; requests in progress are not counted after this.
    pub(crate) fn end_series(&self) {
        self.is_deleted.store(true, Ordering::Relaxed);
        self.metrics.forget_oracle(&self.name);
    }

    /// The metrics, unless the oracle was deleted.
    fn counted(&self) -> Option<&DirectoryMetrics> {
        (!self.is_deleted.load(Ordering::Relaxed)).then_some(&self.metrics)
    }

    /// The oracle's registered address.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Drops its cached answers.
    pub fn clear_cache(&self) {
        if let Some(cache) = &self.cache {
            cache.clear();
        }
    }

    /// Sends a request and returns the answer if it is a 2xx.
    async fn ask(&self, question: OracleHttpRequest, headers: &Bytes) -> Result<Answer, OracleFailure> {
        let operation = question.operation;
        let started = Instant::now();
        let result = self.try_ask(question, headers).await;
        let outcome = result.as_ref().map_or_else(OracleFailure::outcome, |_| "answered");
        if let Some(metrics) = self.counted() {
            metrics.count_oracle(&self.name, operation, outcome, started.elapsed());
        }
        if let Err(failure @ OracleFailure::Unusable { .. }) = &result {
            tracing::debug!(oracle = &*self.base, operation = operation.as_str(), %failure, "an oracle did not answer");
        }
        result
    }

    async fn try_ask(&self, question: OracleHttpRequest, headers: &Bytes) -> Result<Answer, OracleFailure> {
        let way = match question.operation {
            Operation::RegisterBatch => &self.batch,
            _ => &self.single,
        };
        let _share = way.share(question.requester).ok_or(OracleFailure::Busy)?;
        let _room = way.room.try_acquire().map_err(|_| OracleFailure::Busy)?;
        let url = format!("{}{}", self.base.trim_end_matches('/'), question.path);
        let target = Target::parse(&url).map_err(|error| unusable(&error, "The oracle cannot be called"))?;
        let headers = self.headers(headers, !question.body.is_empty())?;
        let mut attempt = self.begin()?;
        let deadline = Instant::now() + self.config.deadline;
        let pool = way.connections.to(&target.origin);
        let request = || {
            let mut request = Request::new(Full::new(question.body.clone()));
            *request.method_mut() = question.method.clone();
            *request.headers_mut() = headers.clone();
            *request.uri_mut() = target.clone().into_uri();
            request
        };
        let mut sent = pool.send(request(), deadline).await;
        // The connection was closed as idle just as it was reused. A registration is not repeated: if the first one
        // arrived, the oracle would reject the second.
        if let (Err(SendError::Closed { reused: true }), true) = (&sent, question.method != Method::POST) {
            sent = pool.send(request(), deadline).await;
        }
        match sent {
            Ok(answer) => {
                attempt.end(true);
                classify(answer)
            }
            // Nothing was sent, so this says nothing about the oracle.
            Err(SendError::Busy { .. }) => Err(OracleFailure::Busy),
            Err(error) => {
                attempt.end(false);
                Err(unusable(&error, "The oracle cannot be reached"))
            }
        }
    }

    /// The DFSP's own headers, as Mojaloop forwards them.
    fn headers(&self, block: &Bytes, has_body: bool) -> Result<HeaderMap, OracleFailure> {
        let headers = header_block::from_block(block);
        let mut headers = headers.map_err(|error| unusable(&error, "The request has malformed headers"))?;
        if has_body && !headers.contains_key(header::CONTENT_TYPE) {
            headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        }
        Ok(headers)
    }

    fn begin(&self) -> Result<Attempt<'_>, OracleFailure> {
        let mut guard = self.guard();
        let is_probe = match guard.0.passage(Instant::now()) {
            BreakerDecision::Free => false,
            BreakerDecision::Probe => {
                guard.0.begin_probe();
                true
            }
            BreakerDecision::Barred(_) => {
                let reason = "requests to it pause after repeated failures".to_owned();
                return Err(OracleFailure::Unusable { reason, detail: "The oracle cannot be reached" });
            }
        };
        if let Some(metrics) = self.counted() {
            metrics.show_breaker(&self.name, guard.0.state());
        }
        Ok(Attempt { oracle: self, is_probe, is_ended: false })
    }

    fn guard(&self) -> MutexGuard<'_, (Breaker, Jitter)> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write(
        &self,
        operation: Operation,
        method: Method,
        inquiry: &OracleRequest<'_>,
        body: Bytes,
    ) -> Result<Answer, OracleFailure> {
        let (requester, path) = (inquiry.requester, party_path(inquiry));
        let question = OracleHttpRequest { operation, requester, method, path, body };
        let result = self.ask(question, inquiry.headers).await;
        // Even a failed change may have been made.
        if let Some(cache) = &self.cache {
            cache.forget(inquiry.party.kind, &inquiry.party.id_text());
        }
        result
    }
}

/// A request in progress. Dropped before its end, it says nothing about the oracle.
struct Attempt<'a> {
    oracle: &'a ExternalOracle,
    is_probe: bool,
    is_ended: bool,
}

impl Attempt<'_> {
    fn end(&mut self, is_answered: bool) {
        self.is_ended = true;
        let mut guard = self.oracle.guard();
        let (breaker, jitter) = &mut *guard;
        let opened = breaker.opened;
        match is_answered {
            true => breaker.answered(),
            false => breaker.failed(self.is_probe, Instant::now(), jitter),
        }
        if breaker.opened > opened {
            tracing::warn!(
                oracle = self.oracle.name,
                url = &*self.oracle.base,
                "requests to an oracle pause after repeated failures"
            );
        }
        if let Some(metrics) = self.oracle.counted() {
            metrics.show_breaker(&self.oracle.name, breaker.state());
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.is_probe && !self.is_ended {
            self.oracle.guard().0.probe_void(Instant::now());
        }
    }
}

impl Oracle for ExternalOracle {
    fn is_kept_by_hub(&self) -> bool {
        false
    }

    fn find<'a>(&'a self, inquiry: &'a OracleRequest<'a>) -> OracleFuture<'a, Vec<Owner>> {
        Box::pin(async move {
            let Some(cache) = &self.cache else { return self.find_uncached(inquiry).await };
            let kept = cache.get(inquiry);
            if let Some(metrics) = self.counted() {
                metrics.count_cache(&self.name, kept.is_some());
            }
            if let Some(answer) = kept {
                return answer;
            }
            let epoch = cache.epoch();
            let answer = self.find_uncached(inquiry).await;
            cache.put(inquiry, epoch, &answer);
            answer
        })
    }

    fn register<'a>(&'a self, inquiry: &'a OracleRequest<'a>, owner: FspId) -> OracleFuture<'a, ()> {
        Box::pin(async move {
            let body = wire::registration(inquiry, owner);
            let answer = self.write(Operation::Register, Method::POST, inquiry, body).await?;
            match answer.status.as_u16() {
                201 => Ok(()),
                status => Err(OracleFailure::Refused { status }),
            }
        })
    }

    fn change<'a>(&'a self, inquiry: &'a OracleRequest<'a>, owner: FspId) -> OracleFuture<'a, ()> {
        Box::pin(async move {
            let body = wire::registration(inquiry, owner);
            self.write(Operation::Change, Method::PUT, inquiry, body).await.map(drop)
        })
    }

    fn remove<'a>(&'a self, inquiry: &'a OracleRequest<'a>) -> OracleFuture<'a, ()> {
        Box::pin(async move {
            self.write(Operation::Remove, Method::DELETE, inquiry, Bytes::new()).await.map(drop)
        })
    }

    fn register_batch<'a>(&'a self, batch: &'a BatchInquiry<'a>) -> OracleFuture<'a, BatchOutcome> {
        Box::pin(async move {
            let question = OracleHttpRequest {
                operation: Operation::RegisterBatch,
                requester: batch.requester,
                method: Method::POST,
                path: "/participants".to_owned(),
                body: wire::batch(batch),
            };
            let result = self.ask(question, batch.headers).await;
            if let Some(cache) = &self.cache {
                for entry in batch.entries {
                    cache.forget(entry.kind, &entry.id);
                }
            }
            let answer = result?;
            // 201 is scheme practice; the body lists the registered entries in either case.
            if !matches!(answer.status.as_u16(), 200 | 201) {
                return Err(OracleFailure::Refused { status: answer.status.as_u16() });
            }
            wire::read_batch(&answer.body, batch.entries)
        })
    }
}

impl ExternalOracle {
    async fn find_uncached(&self, inquiry: &OracleRequest<'_>) -> Result<Vec<Owner>, OracleFailure> {
        let mut path = party_path(inquiry);
        let mut separator = '?';
        let sub_id = inquiry.party.sub_id_text();
        for (name, value) in [
            ("currency", inquiry.currency.as_ref().map(|of| of.as_str())),
            ("partySubIdOrType", sub_id.as_deref()),
        ] {
            if let Some(value) = value {
                path.push(separator);
                path.push_str(name);
                path.push('=');
                // In a query a plus sign would be read as a blank.
                let mut encoded = String::with_capacity(value.len());
                encode_segment(value, &mut encoded);
                path.push_str(&encoded.replace('+', "%2B"));
                separator = '&';
            }
        }
        let question = OracleHttpRequest {
            operation: Operation::Find,
            requester: inquiry.requester,
            method: Method::GET,
            path,
            body: Bytes::new(),
        };
        let answer = self.ask(question, inquiry.headers).await?;
        wire::read_owners(&answer.body)
    }
}

/// `/participants/{Type}/{ID}`, without a sub id.
fn party_path(inquiry: &OracleRequest<'_>) -> String {
    let kind = inquiry.party.kind.as_str();
    let mut path = String::with_capacity(32 + inquiry.party.id.len());
    path.push_str("/participants/");
    path.push_str(kind);
    path.push('/');
    encode_segment(&inquiry.party.id_text(), &mut path);
    path
}

fn classify(answer: Answer) -> Result<Answer, OracleFailure> {
    let status = answer.status.as_u16();
    if let Some(error) = ErrorInformation::read(&answer.body) {
        return Err(OracleFailure::Told { error, is_not_found: status == 404 });
    }
    match status {
        200..=299 => Ok(answer),
        500..=599 => {
            let reason = format!("it answered {status}");
            Err(OracleFailure::Unusable { reason, detail: "The oracle failed" })
        }
        status => Err(OracleFailure::Refused { status }),
    }
}

fn unusable(error: &dyn std::error::Error, detail: &'static str) -> OracleFailure {
    OracleFailure::Unusable { reason: error.to_string(), detail }
}
