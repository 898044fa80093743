//! Answers to requests: their headers, the faults that affect them, and sending them until the hub accepts them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use upesi_http::{HeaderMap, HeaderValue, Method, StatusCode};
use upesi_types::ErrorCode;

use super::metrics;
use crate::counters::count;
use crate::dfsp::Dfsp;
use crate::message::{self, Family};
use crate::settings::{DfspSettings, Fault, hits};
use crate::shared::SimulatorState;

/// First pause before an answer is sent again. It doubles each time.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(2);

/// Waits this many milliseconds, if any.
pub(crate) async fn wait_ms(ms: u32) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms.into())).await;
    }
}

/// The faults of a request that follow from the settings of a DFSP.
#[derive(Clone, Copy)]
pub(crate) struct Draw<'shared> {
    pub dfsp: &'shared Dfsp,
    pub settings: DfspSettings,
    pub seed: u64,
    pub key: u64,
}

impl<'shared> Draw<'shared> {
    pub fn new(shared: &'shared SimulatorState, dfsp: u32, key: u64) -> Self {
        let dfsp = shared.dfsp(dfsp);
        Self { dfsp, settings: dfsp.settings(), seed: shared.seed, key }
    }

    fn hits(&self, fault: Fault, per_mille: u16) -> bool {
        hits(fault, per_mille, self.seed, self.key)
    }

    /// Whether the request gets no answer. Counts it if so.
    pub fn is_dropped(&self) -> bool {
        let is_dropped = self.hits(Fault::Drop, self.settings.drop_per_mille);
        if is_dropped {
            count(&self.dfsp.counters.dropped);
        }
        is_dropped
    }

    pub fn is_aborted(&self) -> bool {
        self.hits(Fault::Abort, self.settings.abort_per_mille)
    }

    pub fn is_falsified(&self) -> bool {
        self.hits(Fault::WrongFulfilment, self.settings.wrong_fulfilment_per_mille)
    }

    /// Number of times that the answer is sent.
    pub fn copies(&self) -> u32 {
        let is_doubled = self.hits(Fault::Duplicate, self.settings.duplicate_per_mille);
        if is_doubled {
            count(&self.dfsp.counters.duplicated);
        }
        1 + u32::from(is_doubled)
    }
}

pub(crate) enum ReplyContent {
    Answer(Bytes),
    Error(ErrorCode),
}

pub(crate) struct Reply {
    pub shared: Arc<SimulatorState>,
    pub dfsp: u32,
    pub family: Family,
    pub headers: HeaderMap,
    /// The path of the answer, without the `error` of an error.
    pub path: String,
}

/// The headers of an answer: to the sender of the request, with its trace.
pub(crate) fn headers(shared: &SimulatorState, dfsp: u32, family: Family, question: &HeaderMap) -> HeaderMap {
    let source = &shared.dfsp(dfsp).name_value;
    let unknown = HeaderValue::from_static("unknown");
    let asker = question.get(message::SOURCE).unwrap_or(&unknown);
    let mut headers = message::answer_headers(family, source, asker, message::now());
    for name in [message::TRACEPARENT, message::TRACESTATE] {
        if let Some(value) = question.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    headers
}

/// The code of an answer that the fault setting turns into an error.
const fn rejection(family: Family) -> ErrorCode {
    match family {
        Family::Quotes | Family::BulkQuotes | Family::FxQuotes => ErrorCode::PAYEE_REJECTED_QUOTE,
        Family::TransactionRequests | Family::Authorizations => ErrorCode::PAYER_REJECTED_REQUEST,
        _ => ErrorCode::PAYEE,
    }
}

impl Reply {
    pub fn new(
        shared: &Arc<SimulatorState>,
        dfsp: u32,
        family: Family,
        question: &HeaderMap,
        path: String,
    ) -> Self {
        let headers = headers(shared, dfsp, family, question);
        Self { shared: shared.clone(), dfsp, family, headers, path }
    }

    /// Draws the faults and starts to answer. `key` is the key of the draws.
    pub fn start(self, key: u64, saying: ReplyContent) -> StatusCode {
        let draw = Draw::new(&self.shared, self.dfsp, key);
        if draw.is_dropped() {
            return StatusCode::ACCEPTED;
        }
        let saying = if draw.is_aborted() {
            count(&draw.dfsp.counters.error_answers_sent);
            ReplyContent::Error(rejection(self.family))
        } else {
            saying
        };
        let (delay_ms, copies) = (draw.settings.delay_ms, draw.copies());
        tokio::spawn(self.run(delay_ms, saying, copies));
        StatusCode::ACCEPTED
    }

    /// Starts to answer a request that has no id. Faults are drawn per message.
    pub fn start_unnumbered(self, saying: ReplyContent) -> StatusCode {
        let key = self.shared.dfsp(self.dfsp).messages.fetch_add(1, Ordering::Relaxed);
        self.start(key, saying)
    }

    async fn run(mut self, delay_ms: u32, saying: ReplyContent, copies: u32) {
        wait_ms(delay_ms).await;
        let body = match saying {
            ReplyContent::Answer(body) => body,
            ReplyContent::Error(code) => {
                self.path.push_str("/error");
                error_body(code)
            }
        };
        let counters = &self.shared.dfsp(self.dfsp).counters;
        for _ in 0..copies {
            let sent = send(&self.shared, self.dfsp, Method::PUT, &self.path, &self.headers, &body).await;
            count(match sent {
                Some(status) if status.is_success() => &counters.answers_sent,
                Some(_) => &counters.answers_refused,
                None => &counters.answers_unanswered,
            });
        }
    }
}

fn error_body(code: ErrorCode) -> Bytes {
    let text = code.describe("");
    format!("{{\"errorInformation\":{{\"errorCode\":\"{code}\",\"errorDescription\":\"{text}\"}}}}").into()
}

/// Sends a message of a DFSP until the hub accepts or rejects it; `None` if it did neither.
pub(crate) async fn send(
    shared: &SimulatorState,
    dfsp: u32,
    method: Method,
    path: &str,
    headers: &HeaderMap,
    body: &Bytes,
) -> Option<StatusCode> {
    let asker = headers.get(message::DESTINATION).and_then(|name| name.to_str().ok()).unwrap_or_default();
    // The sending time of a repeated answer is the time of its first attempt.
    let stamped = shared.metrics.as_ref().and_then(|_| metrics::leaving(headers, message::now));
    let headers = stamped.as_ref().unwrap_or(headers);
    let _under_way = shared.rounds.begin();
    let mut pause = RETRY_PAUSE;
    for attempt in 1..=shared.answer_attempts_max {
        let dfsp = shared.dfsp(dfsp);
        match shared.send(dfsp, method.clone(), asker, path, headers.clone(), body.clone()).await {
            Ok(answer) if !answer.status.is_server_error() => return Some(answer.status),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, attempt, "an answer was not accepted"),
        }
        if attempt < shared.answer_attempts_max {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_body_has_code_and_text() {
        let json: serde_json::Value =
            serde_json::from_slice(&error_body(ErrorCode::PARTY_NOT_FOUND)).unwrap();
        let expected = serde_json::json!({"errorCode": "3204", "errorDescription": "Party not found"});
        assert_eq!(json["errorInformation"], expected);
    }
}
