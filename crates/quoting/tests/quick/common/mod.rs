//! Quoting, with test participants and a recorder instead of delivery.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::time::Instant;
use upesi_delivery::OutgoingRequest;
use upesi_delivery::relayed::{
    ErrorInformation, Relay, RelayConfig, RelayMetrics, Transport, TransportError, TransportFuture,
};
use upesi_delivery::{Handler, Request};
use upesi_engine::{Clock, Participants, SharedParticipants};
use upesi_fspiop::headers::Parties;
use upesi_fspiop::{Message, Method, Route, Version};
use upesi_http::{Answer, Bytes, HeaderMap, StatusCode};
use upesi_ledger::{
    Account, AccountId, AccountRef, EndpointType, LedgerAccountTypeId, Participant, ParticipantId,
};
use upesi_quoting::{Quoting, QuotingConfig, QuotingMetrics, Rules};
use upesi_tables::store::{Store, StoreOptions};
use upesi_types::{Amount, Currency, FspId, Timestamp};

pub const QUOTE_ID: &str = "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11";
pub const TRANSACTION_ID: &str = "0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f60";
pub const NOW: &str = "2030-01-01T00:00:00.000Z";

/// How the fake DFSPs answer.
#[derive(Clone, Debug)]
pub enum Reply {
    Status(u16),
    Error(u16, &'static str),
    Silence,
}

#[derive(Default)]
pub struct Recorder {
    pub requests: Mutex<Vec<(ParticipantId, OutgoingRequest)>>,
    replies: Mutex<Vec<(&'static str, Reply)>>,
}

impl Transport for Recorder {
    fn send(&self, receiver: ParticipantId, request: OutgoingRequest) -> TransportFuture<'_> {
        let name = DFSPS[receiver.number() as usize - 1].0;
        let reply = self.replies.lock().unwrap().iter().find(|(known, _)| *known == name).cloned();
        self.requests.lock().unwrap().push((receiver, request));
        let (status, body) = match reply.map_or(Reply::Status(202), |(_, reply)| reply) {
            Reply::Status(status) => (status, Bytes::new()),
            Reply::Error(status, body) => (status, Bytes::from_static(body.as_bytes())),
            Reply::Silence => {
                return Box::pin(async { Err(TransportError::Unreachable("no answer".to_owned())) });
            }
        };
        let status = StatusCode::from_u16(status).unwrap();
        Box::pin(async move { Ok(Answer { status, headers: HeaderMap::new(), body }) })
    }
}

pub struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.0.load(Ordering::Relaxed))
    }
}

type Dfsp = (&'static str, bool, &'static [(&'static str, bool)], bool);

/// Name, activity, position accounts with their activity, and whether it has endpoints.
const DFSPS: [Dfsp; 7] = [
    ("Hub", true, &[], false),
    ("bluebank", true, &[("USD", true), ("KES", true), ("EUR", false)], true),
    ("greenbank", true, &[("USD", true)], true),
    ("redbank", false, &[("USD", true), ("KES", true)], true),
    ("fxp", true, &[("USD", true), ("KES", true)], true),
    ("poorbank", true, &[], true),
    ("mutebank", true, &[("USD", true)], false),
];

pub fn participants() -> Participants {
    let mut accounts: Vec<Account> = Vec::new();
    let mut participants = Vec::new();
    for (index, (name, is_active, positions, has_endpoints)) in DFSPS.iter().enumerate() {
        let id = ParticipantId::new(index as u32 + 1).unwrap();
        let mut refs = Vec::new();
        for (currency, is_active) in *positions {
            let currency = Currency::parse(currency).unwrap();
            let account = AccountId(NonZeroU32::new(accounts.len() as u32 + 1).unwrap());
            let kind = LedgerAccountTypeId::POSITION;
            refs.push(AccountRef { currency, kind, id: account });
            accounts.push(Account {
                id: account,
                participant: id,
                currency,
                kind,
                is_active: *is_active,
                is_opened: true,
                balance: Amount::ZERO,
                pending_credits: Amount::ZERO,
                created_at: Timestamp::EPOCH,
                changed_at: Timestamp::EPOCH,
            });
        }
        let kinds = [
            (EndpointType::FX_QUOTES, "fx"),
            (EndpointType::BULK_QUOTES, "bulk"),
            (EndpointType::QUOTES, "quotes"),
            (EndpointType::AUTHORIZATIONS, "authorizations"),
            (EndpointType::TRX_REQ_SERVICE, "requests"),
        ];
        let mut endpoints: Vec<(EndpointType, Box<str>)> = Vec::new();
        if *has_endpoints {
            let url = |base: &str| format!("http://{name}.example/{base}/").into();
            endpoints = kinds.iter().map(|(kind, base)| (*kind, url(base))).collect();
            endpoints.sort_by_key(|(kind, _)| *kind);
        }
        participants.push(Participant {
            id,
            name: FspId::parse(name).unwrap(),
            is_active: *is_active,
            is_proxy: false,
            created_at: Timestamp::EPOCH,
            accounts: refs,
            limits: Vec::new(),
            endpoints,
            bindings: Vec::new(),
        });
    }
    Participants::new(participants, &accounts)
}

pub struct Hub {
    pub quoting: Quoting,
    pub relay: Relay,
    pub recorder: Arc<Recorder>,
    clock: Arc<TestClock>,
    registry: Registry,
}

#[derive(Default)]
pub struct Setup<'a> {
    pub config: QuotingConfig,
    pub rules: &'a str,
    pub store: Option<&'a Path>,
    pub in_flight_max: Option<usize>,
    /// Whether only queried DFSPs may answer, as by default.
    pub refuses_unasked: bool,
}

impl Hub {
    pub fn new(setup: Setup<'_>) -> Self {
        let mut registry = Registry::default();
        let recorder = Arc::new(Recorder::default());
        let clock = Arc::new(TestClock(AtomicI64::new(Timestamp::parse_iso(NOW).unwrap().as_ms())));
        let shared = SharedParticipants::default();
        shared.set(Arc::new(participants()));
        let defaults = RelayConfig::default();
        let in_flight_max = setup.in_flight_max.unwrap_or(defaults.in_flight_max);
        let relay = Relay::new(
            RelayConfig { in_flight_max, unasked_answers: !setup.refuses_unasked, ..defaults },
            shared,
            Arc::<Recorder>::clone(&recorder),
            Arc::<TestClock>::clone(&clock),
            RelayMetrics::register(&mut registry),
        );
        let store = setup.store.map(|path| {
            Store::open(path, &StoreOptions { free_bytes_min: 0, ..StoreOptions::default() }).unwrap()
        });
        let rules =
            if setup.rules.is_empty() { Rules::default() } else { Rules::parse(setup.rules).unwrap() };
        let metrics = QuotingMetrics::register(&mut registry);
        let quoting = Quoting::new(&setup.config, relay.clone(), store, rules, metrics).unwrap();
        Self { quoting, relay, recorder, clock, registry }
    }

    pub fn pass_time(&self, ms: i64) {
        self.clock.0.fetch_add(ms, Ordering::Relaxed);
    }

    /// Sets a DFSP's reaction from now on.
    pub fn set_reply(&self, dfsp: &'static str, reply: Reply) {
        let mut replies = self.recorder.replies.lock().unwrap();
        replies.retain(|(known, _)| *known != dfsp);
        replies.push((dfsp, reply));
    }

    /// Passes a request to quoting, and waits until all messages that it causes are sent. Returns an error as
    /// `status code text`.
    pub async fn take(&self, line: &str, from: &str, to: &str, body: &str) -> Result<(), String> {
        self.take_with(line, from, to, body, &[]).await
    }

    pub async fn take_with(
        &self,
        line: &str,
        from: &str,
        to: &str,
        body: &str,
        headers: &[(&str, &str)],
    ) -> Result<(), String> {
        let taken = self.quoting.handle(received(line, from, to, body, headers)).await;
        let left = self.relay.drain(Instant::now() + Duration::from_secs(30)).await;
        assert_eq!(left, 0, "a message is still on its way");
        let refuse =
            |error: upesi_fspiop::SyncError| format!("{} {} {}", error.status, error.code, error.description);
        taken.map(|_| ()).map_err(refuse)
    }

    /// The messages since the last call: `receiver METHOD path < source`, with the error if it is an error of the hub.
    pub fn sent(&self) -> Vec<String> {
        let requests = std::mem::take(&mut *self.recorder.requests.lock().unwrap());
        requests.iter().map(|(receiver, request)| describe(*receiver, request)).collect()
    }

    /// The sum of a metric's samples with all of these label texts.
    pub fn metric(&self, name: &str, labels: &[&str]) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text.lines()
            .filter(|line| line.starts_with(name) && labels.iter().all(|label| line.contains(label)))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    }
}

fn describe(receiver: ParticipantId, request: &OutgoingRequest) -> String {
    let name = DFSPS[receiver.number() as usize - 1].0;
    let header = |name: &str| request.headers.get(name).map_or("-", |value| value.to_str().unwrap());
    assert_eq!(header("fspiop-destination"), name);
    assert_eq!(request.target.origin.host(), format!("{name}.example"));
    let source = header("fspiop-source");
    let told = match (source, ErrorInformation::read(&request.body)) {
        ("Hub", Some(error)) => format!(" {} {}", error.code, error.description),
        _ => String::new(),
    };
    format!("{name} {} {} < {source}{told}", request.method, request.target.path)
}

pub fn received(line: &str, from: &str, to: &str, body: &str, headers: &[(&str, &str)]) -> Request {
    let (method, target) = line.split_once(' ').unwrap();
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query.into())),
        None => (target, None),
    };
    let Route { operation, segments } = Route::resolve(Method::parse(method), path).unwrap();
    let resource = operation.resource();
    let mut block = format!(
        "date: Tue, 01 Jan 2030 00:00:00 GMT\r\nfspiop-source: {from}\r\nfspiop-destination: {to}\r\n\
         content-type: application/vnd.interoperability.{0}+json;version=1.0\r\nfspiop-signature: sig\r\nx-own: 1\r\n",
        resource.as_str(),
    );
    if operation.method() != Method::Put {
        block.push_str("accept: application/vnd.interoperability.quotes+json;version=1\r\n");
    }
    for (name, value) in headers {
        block.push_str(&format!("{name}: {value}\r\n"));
    }
    let parties =
        Parties { source: FspId::parse(from).unwrap(), destination: FspId::parse(to), proxied: false };
    Request {
        operation,
        ids: segments.check(resource, true).unwrap(),
        query,
        parties,
        version: Some(Version::V1_0),
        // Tests use bodies that no gateway would accept if the hub does not read them.
        message: Message::read(operation, body.as_bytes()).unwrap_or_default(),
        headers: block.into(),
        body: Bytes::copy_from_slice(body.as_bytes()),
        reply_to: upesi_engine::ReplyTo::Dfsp,
    }
}

/// `POST /quotes`. Changed members are given as JSON, at dotted paths.
pub fn quote(changes: &[(&str, &str)]) -> String {
    let body = format!(
        r#"{{"quoteId":"{QUOTE_ID}","transactionId":"{TRANSACTION_ID}",
        "payer":{{"partyIdInfo":{{"partyIdType":"MSISDN","partyIdentifier":"26011"}}}},
        "payee":{{"partyIdInfo":{{"partyIdType":"MSISDN","partyIdentifier":"26097"}}}},
        "amountType":"SEND","amount":{{"amount":"12.5","currency":"USD"}},
        "transactionType":{{"scenario":"TRANSFER","initiator":"PAYER","initiatorType":"CONSUMER"}}}}"#
    );
    change(&body, changes)
}

pub fn response(changes: &[(&str, &str)]) -> String {
    let body = r#"{"transferAmount":{"amount":"12.5","currency":"USD"},"expiration":"2030-01-01T01:00:00.000Z",
        "ilpPacket":"DIIBeQ","condition":"OamfGVXsbd2k8PiBcmCo5yFjZDiqprh-YVj8YChlsn0"}"#;
    change(body, changes)
}

pub fn bulk(changes: &[(&str, &str)]) -> String {
    let one = |currency: &str| {
        format!(
            r#"{{"quoteId":"{QUOTE_ID}","transactionId":"{TRANSACTION_ID}",
            "payee":{{"partyIdInfo":{{"partyIdType":"MSISDN","partyIdentifier":"26097"}}}},
            "amountType":"SEND","amount":{{"amount":"1","currency":"{currency}"}},
            "transactionType":{{"scenario":"TRANSFER","initiator":"PAYER","initiatorType":"CONSUMER"}}}}"#
        )
    };
    let body = format!(
        r#"{{"bulkQuoteId":"{QUOTE_ID}",
        "payer":{{"partyIdInfo":{{"partyIdType":"MSISDN","partyIdentifier":"26011"}}}},
        "individualQuotes":[{},{}]}}"#,
        one("USD"),
        one("XTS"),
    );
    change(&body, changes)
}

pub fn fx_quote(changes: &[(&str, &str)]) -> String {
    let body = format!(
        r#"{{"conversionRequestId":"{QUOTE_ID}","conversionTerms":{{"conversionId":"{TRANSACTION_ID}",
        "initiatingFsp":"bluebank","counterPartyFsp":"fxp","amountType":"SEND",
        "sourceAmount":{{"amount":"10","currency":"USD"}},"targetAmount":{{"currency":"KES"}},
        "expiration":"2030-01-01T01:00:00.000Z"}}}}"#
    );
    change(&body, changes)
}

pub fn request_to_pay() -> String {
    format!(
        r#"{{"transactionRequestId":"{QUOTE_ID}",
        "payee":{{"partyIdInfo":{{"partyIdType":"MSISDN","partyIdentifier":"26097"}}}},
        "payer":{{"partyIdType":"MSISDN","partyIdentifier":"26011"}},
        "amount":{{"amount":"12.5","currency":"USD"}},
        "transactionType":{{"scenario":"PAYMENT","initiator":"PAYEE","initiatorType":"CONSUMER"}}}}"#
    )
}

pub const ERROR: &str = r#"{"errorInformation":{"errorCode":"5101","errorDescription":"no"}}"#;

/// The hub's error about the quote in the form of [`Hub::sent`].
pub fn error(resource: &str, dfsp: &str, base: &str, error: &str) -> String {
    format!("{dfsp} PUT /{base}/{resource}/{QUOTE_ID}/error < Hub {error}")
}

fn change(body: &str, changes: &[(&str, &str)]) -> String {
    let mut value: serde_json::Value = serde_json::from_str(body).unwrap();
    for (place, json) in changes {
        let mut at = &mut value;
        for step in place.split('.') {
            at = match step.parse::<usize>() {
                Ok(index) => &mut at[index],
                Err(_) => &mut at[step],
            };
        }
        *at = serde_json::from_str(json).unwrap();
    }
    value.to_string()
}
