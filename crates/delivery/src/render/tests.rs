//! Both kinds of messages as they are sent: callbacks of the ledger, and messages relayed between DFSPs.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use upesi_engine::{Clock, DurableRecord, Participants, Payload, SharedParticipants};
use upesi_fspiop::{Resource, Version};
use upesi_ledger::{
    Callback, CallbackContent, EndpointType, ParticipantId, PublicState, Refusal, ResourceId, StateMethod,
    Subject, TransferView,
};
use upesi_types::{FspId, Timestamp};

use super::*;
use crate::lanes::Renderer as _;
use crate::owed::CallbackRenderer;
use crate::relayed::{
    Address, Author, Outgoing, Relay, RelayConfig, RelayMetrics, Transport, TransportFuture,
};

const GREENBANK: &str = "greenbank";
const SIGNATURE: &str = r#"{"signature":"s","protectedHeader":"p"}"#;

fn participants(endpoints: &[(&str, &str)]) -> Participants {
    let participant = |number, name: &str, endpoints: &[(&str, &str)]| Participant {
        endpoints: endpoints
            .iter()
            .map(|(kind, url)| (EndpointType::parse(kind).unwrap(), (*url).into()))
            .collect(),
        ..Participant::new(
            ParticipantId::new(number).unwrap(),
            FspId::parse(name).unwrap(),
            Timestamp::from_ns(0),
        )
    };
    Participants::new(vec![participant(1, "Hub", &[]), participant(2, GREENBANK, endpoints)], &[])
}

fn message(address: Address, method: upesi_fspiop::Method, resource: Resource, path: &str) -> Outgoing {
    Outgoing {
        receiver: FspId::parse(GREENBANK).unwrap(),
        address,
        method,
        resource,
        path: path.into(),
        query: None,
        author: Author::Sender(FspId::parse("bluebank").unwrap()),
        sender: FspId::parse("bluebank").unwrap(),
        headers: Bytes::from_static(
            b"accept: application/vnd.interoperability.parties+json;version=1\r\nfspiop-source: bluebank\r\nfspiop-destination: greenbank\r\nfspiop-signature: {\"signature\":\"s\",\"protectedHeader\":\"p\"}\r\nx-own: 1\r\n",
        ),
        additions: None,
        body: Bytes::from_static(b"{ }"),
        waits: std::time::Duration::ZERO,
    }
}

/// The first instant of 2030.
const NOW: Timestamp = Timestamp::from_ns(1_893_456_000_000_000_000);

struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        NOW
    }
}

struct Unused;

impl Transport for Unused {
    fn send(&self, _receiver: ParticipantId, _request: OutgoingRequest) -> TransportFuture<'_> {
        panic!("nothing is sent here")
    }
}

fn shared(participants: Participants) -> SharedParticipants {
    let shared = SharedParticipants::default();
    shared.set(Arc::new(participants));
    shared
}

fn relay(participants: Participants) -> Relay {
    let metrics = RelayMetrics::register(&mut Registry::default());
    let (config, transport) = (RelayConfig::default(), Arc::new(Unused));
    Relay::new(config, shared(participants), transport, Arc::new(Stopped), metrics)
}

fn render(participants: Participants, message: &Outgoing) -> Result<OutgoingRequest, Unroutable> {
    relay(participants).render(message).map(|(receiver, request)| {
        assert_eq!(receiver.number(), 2);
        request
    })
}

fn header(request: &OutgoingRequest, name: &str) -> Option<String> {
    request.headers.get(name).map(|value| value.to_str().unwrap().to_owned())
}

#[test]
fn urls_are_made_from_the_receivers_endpoints() {
    for (kind, is_base, registered, path, query, url) in [
        (
            "PARTIES_GET",
            false,
            "http://g/p/{{partyIdType}}/{{partyIdentifier}}",
            "/parties/MSISDN/26097",
            None,
            "/p/MSISDN/26097",
        ),
        (
            "PARTIES_SUB_ID_PUT",
            false,
            "http://g/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}",
            "/parties/BUSINESS/a%20b/shop-7",
            None,
            "/BUSINESS/a%20b/shop-7",
        ),
        (
            "PARTIES_PUT_ERROR",
            false,
            "http://g/{{partyIdType}}/{{partyIdentifier}}/error",
            "/parties/MSISDN/1/error",
            None,
            "/MSISDN/1/error",
        ),
        (
            "PARTICIPANT_BATCH_PUT",
            false,
            "http://g/participants/{{requestId}}",
            "/participants/01J8",
            None,
            "/participants/01J8",
        ),
        (
            "PARTICIPANT_BATCH_PUT_ERROR",
            false,
            "http://g/participants/{{ID}}/error",
            "/participants/01J8/error",
            None,
            "/participants/01J8/error",
        ),
        (
            "PARTIES_GET",
            false,
            "http://g/{{fsp}}?a=1",
            "/parties/MSISDN/1",
            Some("b=2"),
            "/greenbank?a=1&b=2",
        ),
        ("QUOTES", true, "http://g/base/", "/quotes/x/error", None, "/base/quotes/x/error"),
        (
            "AUTHORIZATIONS",
            true,
            "http://g",
            "/authorizations/x",
            Some("amount=1"),
            "/authorizations/x?amount=1",
        ),
    ] {
        let kind = format!("FSPIOP_CALLBACK_URL_{kind}");
        let endpoint = EndpointType::parse(&kind).unwrap();
        let address = if is_base { Address::Base(endpoint) } else { Address::Template(endpoint) };
        let participants = participants(&[(&kind, registered)]);
        let mut message = message(address, upesi_fspiop::Method::Get, Resource::Parties, path);
        message.query = query.map(Into::into);
        let request = render(participants.clone(), &message).unwrap();
        assert_eq!(request.target.into_uri().to_string(), url, "{registered}");
    }
}

#[test]
fn message_without_an_address_returns_the_reason() {
    let endpoint = EndpointType::parse("FSPIOP_CALLBACK_URL_PARTIES_GET").unwrap();
    let endpoint_type = endpoint.name();
    let message = message(
        Address::Template(endpoint),
        upesi_fspiop::Method::Get,
        Resource::Parties,
        "/parties/MSISDN/1",
    );
    assert_eq!(render(participants(&[]), &message).unwrap_err(), Unroutable::NoEndpoint { endpoint_type });
    for registered in ["ftp://g/x", "http://g/{{nothing}}", "http://g/{{ID"] {
        let failure = render(participants(&[(endpoint_type, registered)]), &message).unwrap_err();
        assert!(matches!(failure, Unroutable::BadEndpoint { .. }), "{registered}: {failure:?}");
    }
    let mut unknown = message;
    unknown.receiver = FspId::parse("nobody").unwrap();
    assert_eq!(render(participants(&[]), &unknown).unwrap_err(), Unroutable::UnknownReceiver);
}

#[test]
fn forwarded_message_keeps_its_signature_and_a_hubs_message_has_none() {
    let kind = "FSPIOP_CALLBACK_URL_PARTIES_PUT_ERROR";
    let participants = participants(&[(kind, "http://g/x")]);
    let address = Address::Template(EndpointType::parse(kind).unwrap());
    let mut message =
        message(address, upesi_fspiop::Method::Put, Resource::Parties, "/parties/MSISDN/1/error");
    let forwarded = render(participants.clone(), &message).unwrap();
    assert_eq!(forwarded.method, Method::PUT);
    for (name, value) in [
        ("fspiop-source", Some("bluebank")),
        ("fspiop-destination", Some(GREENBANK)),
        ("fspiop-signature", Some(SIGNATURE)),
        ("fspiop-http-method", Some("PUT")),
        ("fspiop-uri", Some("/parties/MSISDN/1/error")),
        ("x-own", Some("1")),
        ("accept", None),
    ] {
        assert_eq!(header(&forwarded, name).as_deref(), value, "{name}");
    }
    message.author = Author::Hub;
    let made = render(participants.clone(), &message).unwrap();
    for (name, value) in [
        ("fspiop-source", Some("Hub")),
        ("fspiop-signature", None),
        ("date", Some("Tue, 01 Jan 2030 00:00:00 GMT")),
        ("content-type", Some("application/vnd.interoperability.parties+json;version=1.1")),
    ] {
        assert_eq!(header(&made, name).as_deref(), value, "{name}");
    }
}

#[test]
fn headers_of_a_rule_replace_the_senders() {
    let participants = participants(&[("FSPIOP_CALLBACK_URL_QUOTES", "http://g")]);
    let address = Address::Base(EndpointType::QUOTES);
    let mut message = message(address, upesi_fspiop::Method::Post, Resource::Quotes, "/quotes");
    let mut additions = HeaderMap::new();
    additions.insert("x-own", "2".parse().unwrap());
    additions.insert("accept", "text/plain".parse().unwrap());
    message.additions = Some(additions.into());
    let headers = render(participants.clone(), &message).unwrap().headers;
    for (name, value) in [("x-own", "2"), ("accept", "text/plain"), ("fspiop-source", "bluebank")] {
        let values: Vec<_> = headers.get_all(name).iter().collect();
        assert_eq!(values, [value], "{name}");
    }
}

const TRANSFER: &str = "b51ec534-ee48-4575-b6a9-ead2955b8069";

/// A record of a transfer of bluebank, with one callback to greenbank.
fn record(content: CallbackContent) -> DurableRecord {
    let subject = Subject::transfer(ResourceId::Text(TRANSFER.into()));
    DurableRecord {
        seq: 7,
        time: NOW,
        callbacks: vec![Callback { target: ParticipantId::new(2).unwrap(), subject, content }],
        payload: Payload {
            headers: Bytes::from_static(
                b"content-type: application/vnd.interoperability.transfers+json;version=1.0\r\ndate: Mon, 31 Dec 2029 23:59:59 GMT\r\nfspiop-source: bluebank\r\nfspiop-signature: {\"signature\":\"s\",\"protectedHeader\":\"p\"}\r\nx-own: 1\r\n",
            ),
            body: Bytes::from_static(b"{ \"as\": \"received\" }"),
        },
        prepared_before: None,
        asker: None,
    }
}

fn renderer(participants: Participants) -> CallbackRenderer {
    let clock = Arc::new(Stopped);
    CallbackRenderer { participants: shared(participants), clock, version: Version::V1_1 }
}

fn render_callback(
    participants: Participants,
    record: &DurableRecord,
) -> Result<OutgoingRequest, Unroutable> {
    renderer(participants).render(record.keys().next().unwrap(), record)
}

const TRANSFER_ENDPOINTS: [(&str, &str); 3] = [
    ("FSPIOP_CALLBACK_URL_TRANSFER_POST", "http://g/post"),
    ("FSPIOP_CALLBACK_URL_TRANSFER_PUT", "http://g/put/{{transferId}}"),
    ("FSPIOP_CALLBACK_URL_TRANSFER_ERROR", "http://g/put/{{ID}}/error"),
];

#[test]
fn forwarded_callback_has_the_senders_headers_and_a_hubs_callback_has_not() {
    let own = r#"{ "as": "received" }"#;
    let state = |method| {
        let (state, fulfilment) = (PublicState::Committed, Some([0; 32]));
        let view = TransferView { state, completed_at: Some(NOW), fulfilment, extensions: None, cause: None };
        CallbackContent::State(method, view)
    };
    let completed = r#"{"completedTimestamp":"2030-01-01T00:00:00.000Z""#;
    let told = format!(r#"{completed},"transferState":"COMMITTED"}}"#);
    let fulfilment = "A".repeat(43);
    let answered = format!(r#"{completed},"fulfilment":"{fulfilment}","transferState":"COMMITTED"}}"#);
    let refused = CallbackContent::Error(Refusal::Expired.into());
    let error = r#"{"errorInformation":{"errorCode":"3303","errorDescription":"Transfer expired"}}"#;
    let (plain, with_id) = ("/transfers".to_owned(), format!("/transfers/{TRANSFER}"));
    let with_error = format!("{with_id}/error");
    let put = format!("/put/{TRANSFER}");
    for (content, method, url, uri, is_forwarded, body) in [
        (CallbackContent::ForwardPrepare, Method::POST, "/post", &plain, true, own),
        (CallbackContent::ForwardFulfil, Method::PUT, &*put, &with_id, true, own),
        (CallbackContent::ForwardAbort, Method::PUT, &*format!("{put}/error"), &with_error, true, own),
        (state(StateMethod::Put), Method::PUT, &*put, &with_id, false, &answered),
        (state(StateMethod::Patch), Method::PATCH, &*put, &with_id, false, &told),
        (refused, Method::PUT, &*format!("{put}/error"), &with_error, false, error),
    ] {
        let what = format!("{content:?}");
        let record = record(content);
        let request = render_callback(participants(&TRANSFER_ENDPOINTS), &record).unwrap();
        assert_eq!(request.body, body.as_bytes(), "{what}");
        let (source, signature) = if is_forwarded { ("bluebank", Some(SIGNATURE)) } else { ("Hub", None) };
        let date =
            if is_forwarded { "Mon, 31 Dec 2029 23:59:59 GMT" } else { "Tue, 01 Jan 2030 00:00:00 GMT" };
        for (name, value) in [
            ("fspiop-source", Some(source)),
            ("fspiop-http-method", Some(method.as_str())),
            ("fspiop-uri", Some(&**uri)),
            ("fspiop-signature", signature),
            ("date", Some(date)),
            ("x-own", Some("1")),
        ] {
            assert_eq!(header(&request, name).as_deref(), value, "{what}: {name}");
        }
        assert_eq!(request.method, method, "{what}");
        assert_eq!(request.target.into_uri().to_string(), url, "{what}");
        let again = render_callback(participants(&TRANSFER_ENDPOINTS), &record).unwrap();
        assert_eq!((again.headers, again.body), (request.headers, request.body), "{what}: a repetition");
    }
}

/// If the request has no trace, the hub begins one for all its messages about the transfer.
#[test]
fn a_message_of_the_hub_without_a_trace_begins_one() {
    let refused = || CallbackContent::Error(Refusal::Expired.into());
    let trace = |request: OutgoingRequest| header(&request, "traceparent").unwrap();
    let [first, again] = std::array::from_fn(|_| {
        trace(render_callback(participants(&TRANSFER_ENDPOINTS), &record(refused())).unwrap())
    });
    assert_eq!(first, again);
    let mut other = record(refused());
    other.callbacks[0].subject = Subject::transfer(ResourceId::Text("another".into()));
    let other = trace(render_callback(participants(&TRANSFER_ENDPOINTS), &other).unwrap());
    assert_ne!(first[3..35], other[3..35], "{first} {other}");
    let forwarded = record(CallbackContent::ForwardPrepare);
    let forwarded = render_callback(participants(&TRANSFER_ENDPOINTS), &forwarded).unwrap();
    assert_eq!(header(&forwarded, "traceparent"), None, "a DFSP's own");
    let kind = "FSPIOP_CALLBACK_URL_PARTIES_PUT_ERROR";
    let address = Address::Template(EndpointType::parse(kind).unwrap());
    let path = "/parties/MSISDN/1/error";
    let answer = message(address, upesi_fspiop::Method::Put, Resource::Parties, path);
    let answer = Outgoing { author: Author::Hub, ..answer };
    let [first, second] =
        std::array::from_fn(|_| trace(render(participants(&[(kind, "http://g/x")]), &answer).unwrap()));
    assert_ne!(first[3..35], second[3..35], "{first} {second}");
}

/// The trace continues. Each message has its own span id, which is never zero. A callback always has the same one.
#[test]
fn every_message_has_a_new_span() {
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let headers = format!("fspiop-source: bluebank\r\ntraceparent: 00-{trace}-b7ad6b7169203331-01\r\n");
    let span = |request: OutgoingRequest| {
        let traceparent = header(&request, "traceparent").unwrap();
        let span = traceparent.strip_prefix(&format!("00-{trace}-")).unwrap().to_owned();
        assert_ne!(span, "0000000000000000-01");
        span
    };
    let mut prepare = record(CallbackContent::ForwardPrepare);
    prepare.payload.headers = Bytes::from(headers.clone());
    let [first, second, again] = [7, 8, 7].map(|seq| {
        let key = upesi_ledger::CallbackKey { target: ParticipantId::new(2).unwrap(), seq, index: 0 };
        span(renderer(participants(&TRANSFER_ENDPOINTS)).render(key, &prepare).unwrap())
    });
    assert!(first == again && first != second);

    let address = Address::Base(EndpointType::QUOTES);
    let mut quote = message(address, upesi_fspiop::Method::Post, Resource::Quotes, "/quotes");
    quote.headers = Bytes::from(headers);
    let relay = relay(participants(&[("FSPIOP_CALLBACK_URL_QUOTES", "http://g")]));
    let [first, second] = std::array::from_fn(|_| span(relay.render(&quote).unwrap().1));
    assert_ne!(first, second);
}

#[test]
fn a_request_has_the_size_of_its_headers_and_its_body() {
    let target = Target::parse("http://greenbank/x").unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in [("x-own", "1234567"), ("x-own", "12"), ("date", "")] {
        headers.append(name, value.parse().unwrap());
    }
    let body = Bytes::from_static(b"{ \"as\": \"received\" }");
    let request =
        OutgoingRequest { target, method: Method::PUT, headers, body, is_hub_made: false, sender: None };
    assert_eq!(request.bytes(), (5 + 7) + (5 + 2) + 4 + 20);
}

#[test]
fn log_shows_the_name_of_a_target_or_its_number() {
    let renderer = renderer(participants(&[]));
    for (number, name) in [(2, GREENBANK), (9, "participant 9")] {
        assert_eq!(renderer.name(ParticipantId::new(number).unwrap()), name);
    }
}

#[test]
fn callback_that_cannot_be_rendered_returns_the_reason() {
    let good = record(CallbackContent::ForwardPrepare);
    let [post, ..] = TRANSFER_ENDPOINTS;
    let no_endpoint = Unroutable::NoEndpoint { endpoint_type: post.0 };
    assert_eq!(render_callback(participants(&[]), &good).unwrap_err(), no_endpoint);
    let sourceless = DurableRecord { payload: Payload::default(), ..good.clone() };
    let mut stranger = good.clone();
    stranger.callbacks[0].target = ParticipantId::new(9).unwrap();
    for (record, reason) in [(sourceless, "its request names no source"), (stranger, "its target is unknown")]
    {
        let error = render_callback(participants(&TRANSFER_ENDPOINTS), &record).unwrap_err();
        assert_eq!(error, Unroutable::BadRecord { reason: reason.to_owned() });
    }
    let renderer = renderer(participants(&[post]));
    let missing =
        renderer.render(upesi_ledger::CallbackKey { index: 1, ..good.keys().next().unwrap() }, &good);
    assert_eq!(missing.unwrap_err(), Unroutable::BadRecord { reason: "it has no callback 1".to_owned() });
}
