use upesi_fspiop::Resource;
use upesi_ledger::EndpointType;

use super::*;

const GREENBANK: &str = "greenbank";

fn participants(endpoints: &[(&str, &str)]) -> Participants {
    let participant = |number, name: &str, endpoints: &[(&str, &str)]| Participant {
        id: ParticipantId::new(number).unwrap(),
        name: FspId::parse(name).unwrap(),
        is_active: true,
        is_proxy: false,
        created_at: Timestamp::from_ns(0),
        accounts: Vec::new(),
        limits: Vec::new(),
        endpoints: endpoints
            .iter()
            .map(|(kind, url)| (EndpointType::parse(kind).unwrap(), (*url).into()))
            .collect(),
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
        headers: Bytes::from_static(
            b"accept: application/vnd.interoperability.parties+json;version=1\r\nfspiop-source: bluebank\r\nfspiop-destination: greenbank\r\nfspiop-signature: s\r\nx-own: 1\r\n",
        ),
        additions: None,
        body: Bytes::from_static(b"{ }"),
    }
}

fn render(participants: &Participants, message: &Outgoing) -> Result<OutgoingRequest, Failure> {
    let (versions, now) = (&Versions::default(), Timestamp::from_ns(1_893_456_000_000_000_000));
    let context = Context { participants, versions, now, span_id: [1; 8] };
    context.request(message).map(|(receiver, request)| {
        assert_eq!(receiver.number(), 2);
        request
    })
}

#[test]
fn urls_are_made_from_what_the_receiver_registered() {
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
        let request = render(&participants, &message).unwrap();
        assert_eq!(request.target.into_uri().to_string(), url, "{registered}");
    }
}

#[test]
fn what_cannot_be_addressed_says_why() {
    let endpoint = EndpointType::parse("FSPIOP_CALLBACK_URL_PARTIES_GET").unwrap();
    let endpoint_type = endpoint.name();
    let message = message(
        Address::Template(endpoint),
        upesi_fspiop::Method::Get,
        Resource::Parties,
        "/parties/MSISDN/1",
    );
    assert_eq!(render(&participants(&[]), &message).unwrap_err(), Failure::NoEndpoint { endpoint_type });
    for registered in ["ftp://g/x", "http://g/{{nothing}}", "http://g/{{ID"] {
        let failure = render(&participants(&[(endpoint_type, registered)]), &message).unwrap_err();
        assert!(matches!(failure, Failure::BadEndpoint { .. }), "{registered}: {failure:?}");
    }
    let mut unknown = message;
    unknown.receiver = FspId::parse("nobody").unwrap();
    assert_eq!(render(&participants(&[]), &unknown).unwrap_err(), Failure::UnknownReceiver);
}

#[test]
fn a_senders_message_keeps_its_signature_and_a_hubs_has_none() {
    let kind = "FSPIOP_CALLBACK_URL_PARTIES_PUT_ERROR";
    let participants = participants(&[(kind, "http://g/x")]);
    let address = Address::Template(EndpointType::parse(kind).unwrap());
    let mut message =
        message(address, upesi_fspiop::Method::Put, Resource::Parties, "/parties/MSISDN/1/error");
    let header = |request: &OutgoingRequest, name: &str| {
        request.headers.get(name).map(|value| value.to_str().unwrap().to_owned())
    };
    let forwarded = render(&participants, &message).unwrap();
    assert_eq!(forwarded.method, Method::PUT);
    for (name, value) in [
        ("fspiop-source", Some("bluebank")),
        ("fspiop-destination", Some(GREENBANK)),
        ("fspiop-signature", Some("s")),
        ("fspiop-http-method", Some("PUT")),
        ("fspiop-uri", Some("/parties/MSISDN/1/error")),
        ("x-own", Some("1")),
        ("accept", None),
    ] {
        assert_eq!(header(&forwarded, name).as_deref(), value, "{name}");
    }
    message.author = Author::Hub;
    let made = render(&participants, &message).unwrap();
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
fn headers_of_a_rule_take_the_place_of_the_senders() {
    let participants = participants(&[("FSPIOP_CALLBACK_URL_QUOTES", "http://g")]);
    let address = Address::Base(EndpointType::QUOTES);
    let mut message = message(address, upesi_fspiop::Method::Post, Resource::Quotes, "/quotes");
    let mut additions = HeaderMap::new();
    additions.insert("x-own", "2".parse().unwrap());
    additions.insert("accept", "text/plain".parse().unwrap());
    message.additions = Some(additions.into());
    let headers = render(&participants, &message).unwrap().headers;
    for (name, value) in [("x-own", "2"), ("accept", "text/plain"), ("fspiop-source", "bluebank")] {
        let values: Vec<_> = headers.get_all(name).iter().collect();
        assert_eq!(values, [value], "{name}");
    }
}
