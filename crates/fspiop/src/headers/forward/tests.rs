use super::*;
use alloc::string::String;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: SpanId = [0x0a, 0, 0, 0, 0, 0, 0, 0xff];
/// The trace that the hub begins, as a header.
const OWN_TRACE: &str = "traceparent: 00-000102030405060708090a0b0c0d0e0f-0a000000000000ff-00";
const SIGNATURE: &str = r#"fspiop-signature: {"signature":"abc","protectedHeader":"def"}"#;

/// Header lines as in a block.
fn block(lines: &str) -> Vec<u8> {
    lines.lines().map(str::trim).filter(|line| !line.is_empty()).fold(Vec::new(), |mut block, line| {
        block.extend_from_slice(line.as_bytes());
        block.extend_from_slice(b"\r\n");
        block
    })
}

fn rewritten(request: &str, message: &Forward<'_>) -> String {
    let mut out = Vec::new();
    rewrite_for_forward(&block(request), message, &mut out);
    String::from_utf8(out).unwrap()
}

fn lines(text: &str) -> String {
    String::from_utf8(block(text)).unwrap()
}

fn hub() -> MessageSource<'static> {
    let now = Timestamp::parse_iso("2031-04-01T12:00:02.750Z").unwrap();
    let trace_id = core::array::from_fn(|at| at as u8);
    MessageSource::Hub { name: "Hub", version: Version::V1_1, now, trace_id }
}

fn message<'a>(source: MessageSource<'a>, method: Method, receiver: &'a str, uri: &'a str) -> Forward<'a> {
    Forward { source, receiver, resource: Resource::Transfers, method, uri, span_id: SPAN }
}

const PREPARE: &str = "
    content-type: application/vnd.interoperability.transfers+json;version=1.0
    accept: application/vnd.interoperability.transfers+json;version=1,application/vnd.interoperability.transfers+json;version=1.1
    date: Tue, 01 Apr 2031 12:00:00 GMT
    x-forwarded-for: 10.0.0.1
    fspiop-source: greenbank
    fspiop-destination: bluewallet
    fspiop-signature: {\"signature\":\"abc\",\"protectedHeader\":\"def\"}
    fspiop-encryption: {}
    x-custom: kept: as is
    traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
    tracestate: tx_end2end_start_ts=1932811200000,vendor=x
    baggage: k=v
";

#[test]
fn forwarded_prepare_keeps_its_headers() {
    let forward =
        message(MessageSource::Dfsp { name: "greenbank" }, Method::Post, "bluewallet", "/transfers");
    assert_eq!(
        rewritten(PREPARE, &forward),
        lines(
            "
            content-type: application/vnd.interoperability.transfers+json;version=1.0
            accept: application/vnd.interoperability.transfers+json;version=1,application/vnd.interoperability.transfers+json;version=1.1
            date: Tue, 01 Apr 2031 12:00:00 GMT
            x-forwarded-for: 10.0.0.1
            fspiop-source: greenbank
            fspiop-destination: bluewallet
            fspiop-signature: {\"signature\":\"abc\",\"protectedHeader\":\"def\"}
            fspiop-encryption: {}
            x-custom: kept: as is
            traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-0a000000000000ff-01
            tracestate: tx_end2end_start_ts=1932811200000,vendor=x
            baggage: k=v
            fspiop-http-method: POST
            fspiop-uri: /transfers
            "
        )
    );
}

#[test]
fn error_callback_by_the_hub_has_the_hub_as_source() {
    let forward = message(hub(), Method::Put, "greenbank", "/transfers/x/error");
    assert_eq!(
        rewritten(PREPARE, &forward),
        lines(
            "
            content-type: application/vnd.interoperability.transfers+json;version=1.1
            date: Tue, 01 Apr 2031 12:00:02 GMT
            x-forwarded-for: 10.0.0.1
            fspiop-source: Hub
            fspiop-destination: greenbank
            fspiop-encryption: {}
            x-custom: kept: as is
            traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-0a000000000000ff-01
            tracestate: tx_end2end_start_ts=1932811200000,vendor=x
            baggage: k=v
            fspiop-http-method: PUT
            fspiop-uri: /transfers/x/error
            "
        )
    );
}

const FULFIL: &str = "
    fspiop-http-method: PUT
    fspiop-uri: /switch/transfers/x
    fspiop-source: bluewallet
    fspiop-destination: greenbank
    fspiop-signature: {\"signature\":\"abc\",\"protectedHeader\":\"def\"}
    accept: application/vnd.interoperability.transfers+json;version=1
    content-type: application/vnd.interoperability.transfers+json;version=1.0
    date: Tue, 01 Apr 2031 12:00:01 GMT
";

#[test]
fn forwarded_fulfil_has_no_accept() {
    let forward =
        message(MessageSource::Dfsp { name: "bluewallet" }, Method::Put, "greenbank", "/transfers/x");
    assert_eq!(
        rewritten(FULFIL, &forward),
        lines(
            "
            fspiop-http-method: PUT
            fspiop-uri: /switch/transfers/x
            fspiop-source: bluewallet
            fspiop-destination: greenbank
            fspiop-signature: {\"signature\":\"abc\",\"protectedHeader\":\"def\"}
            content-type: application/vnd.interoperability.transfers+json;version=1.0
            date: Tue, 01 Apr 2031 12:00:01 GMT
            "
        )
    );
}

#[test]
fn signed_headers_are_unchanged_and_others_set_by_the_hub() {
    for resource in [Resource::Transfers, Resource::Quotes, Resource::Parties] {
        let forward = |receiver| Forward {
            resource,
            ..message(MessageSource::Dfsp { name: "greenbank" }, Method::Post, receiver, "/of/the/hub")
        };
        let own = "
            fspiop-source: GreenBank
            fspiop-destination: BlueWallet
            fspiop-http-method: post
            fspiop-uri: /switch/fspiop/transfers
            date: Tue, 01 Apr 2031 12:00:00 GMT
        ";
        let signed = alloc::format!("{own}\n{SIGNATURE}");
        assert_eq!(rewritten(&signed, &forward("bluewallet")), lines(&signed), "{resource:?}");
        // The DFSP that the scheme chose instead gets its own name as destination.
        let rerouted = rewritten(&signed, &forward("redfxp"));
        assert_eq!(rerouted, lines(&signed.replace("BlueWallet", "redfxp")));
        // An unsigned destination would not be part of the signature.
        let unaddressed = signed.replace("fspiop-destination: BlueWallet", "");
        assert_eq!(rewritten(&unaddressed, &forward("bluewallet")), lines(&unaddressed));
        let get = Forward { method: Method::Get, ..forward("bluewallet") };
        assert!(rewritten(&unaddressed, &get).ends_with("fspiop-destination: bluewallet\r\n"));
        assert_eq!(
            rewritten(own, &forward("bluewallet")),
            lines(
                "
                fspiop-source: greenbank
                fspiop-destination: bluewallet
                fspiop-http-method: POST
                fspiop-uri: /of/the/hub
                date: Tue, 01 Apr 2031 12:00:00 GMT
                "
            )
        );
        // The hub's own messages about a signed one are not signed.
        let hub_made =
            rewritten(&signed, &Forward { resource, ..message(hub(), Method::Put, "greenbank", "/x") });
        for line in [
            "fspiop-source: Hub",
            "fspiop-destination: greenbank",
            "fspiop-http-method: PUT",
            "fspiop-uri: /x",
        ] {
            assert!(hub_made.contains(line), "{hub_made}");
        }
    }
}

#[test]
fn callback_to_the_payee_has_the_hub_as_source_and_its_version() {
    let forward = message(hub(), Method::Patch, "bluewallet", "/transfers/x");
    assert_eq!(
        rewritten(FULFIL, &forward),
        lines(
            "
            fspiop-http-method: PATCH
            fspiop-uri: /transfers/x
            fspiop-source: Hub
            fspiop-destination: bluewallet
            accept: application/vnd.interoperability.transfers+json;version=1
            content-type: application/vnd.interoperability.transfers+json;version=1.1
            date: Tue, 01 Apr 2031 12:00:02 GMT
            traceparent: 00-000102030405060708090a0b0c0d0e0f-0a000000000000ff-00
            "
        )
    );
}

#[test]
fn an_answer_to_a_get_has_a_content_type_even_if_the_get_had_none() {
    let request = "
        accept: application/vnd.interoperability.transfers+json;version=1
        date: Tue, 01 Apr 2031 12:00:01 GMT
        fspiop-source: greenbank
    ";
    assert_eq!(
        rewritten(request, &message(hub(), Method::Put, "greenbank", "/transfers/x")),
        lines(
            "
            date: Tue, 01 Apr 2031 12:00:02 GMT
            fspiop-source: Hub
            content-type: application/vnd.interoperability.transfers+json;version=1.1
            fspiop-destination: greenbank
            fspiop-http-method: PUT
            fspiop-uri: /transfers/x
            traceparent: 00-000102030405060708090a0b0c0d0e0f-0a000000000000ff-00
            "
        )
    );
}

#[test]
fn expiry_callback_has_new_headers() {
    assert_eq!(
        rewritten("", &message(hub(), Method::Put, "bluewallet", "/transfers/x/error")),
        lines(
            "
            content-type: application/vnd.interoperability.transfers+json;version=1.1
            date: Tue, 01 Apr 2031 12:00:02 GMT
            fspiop-source: Hub
            fspiop-destination: bluewallet
            fspiop-http-method: PUT
            fspiop-uri: /transfers/x/error
            traceparent: 00-000102030405060708090a0b0c0d0e0f-0a000000000000ff-00
            "
        )
    );
}

#[test]
fn request_of_the_hub_has_all_headers_that_the_api_requires() {
    let forward = Forward {
        resource: Resource::BulkTransfers,
        ..message(hub(), Method::Post, "bluewallet", "/bulkTransfers")
    };
    let media_type = "application/vnd.interoperability.bulkTransfers+json;version=1";
    let expected = alloc::format!(
        "
        content-type: {media_type}.1
        date: Tue, 01 Apr 2031 12:00:02 GMT
        accept: {media_type}
        fspiop-source: Hub
        fspiop-destination: bluewallet
        fspiop-http-method: POST
        fspiop-uri: /bulkTransfers
        {OWN_TRACE}
        "
    );
    assert_eq!(rewritten("", &forward), lines(&expected));
    // The causing message may have several lines of `Accept`, and an invalid trace.
    let cause = "accept: a\naccept: b\ntraceparent: 00-0-0-00\ntracestate: a=b\n";
    let made = rewritten(cause, &forward);
    assert_eq!(made.matches("accept: ").count(), 1, "{made}");
    assert!(made.contains(&alloc::format!("accept: {media_type}\r\n")) && made.contains(OWN_TRACE), "{made}");
    assert!(!made.contains("tracestate"), "{made}");
    for (method, is_needed) in
        [(Method::Get, true), (Method::Delete, true), (Method::Put, false), (Method::Patch, false)]
    {
        let made = rewritten("", &Forward { method, ..forward });
        assert_eq!(made.contains("accept: "), is_needed, "{made}");
        assert!(made.contains(OWN_TRACE), "{made}");
    }
    // A DFSP's own message gets none of these.
    let own = Forward { source: MessageSource::Dfsp { name: "greenbank" }, ..forward };
    let passed_on = rewritten("accept: a\naccept: b\n", &own);
    assert!(passed_on.starts_with("accept: a\r\naccept: b\r\n"), "{passed_on}");
    assert!(!passed_on.contains("traceparent") && !passed_on.contains("content-type"), "{passed_on}");
}

#[test]
fn invalid_signature_header_does_not_count_as_signed() {
    let forward =
        message(MessageSource::Dfsp { name: "greenbank" }, Method::Post, "bluewallet", "/transfers");
    for value in ["unsigned", "{}", "", r#"{"signature":"abc"}"#] {
        let request = alloc::format!(
            "fspiop-source: GreenBank\nfspiop-uri: /elsewhere\nfspiop-http-method: post\nfspiop-signature: {value}"
        );
        let passed_on = rewritten(&request, &forward);
        for line in [
            "fspiop-source: greenbank",
            "fspiop-uri: /transfers",
            "fspiop-http-method: POST",
            "fspiop-destination: bluewallet",
        ] {
            assert!(passed_on.contains(line), "{value}: {passed_on}");
        }
    }
}

#[test]
fn repeated_headers_that_the_hub_sets_occur_once() {
    let request = "
        fspiop-source: greenbank
        fspiop-source: mallory
        fspiop-destination: a
        fspiop-destination: b
        x-twice: 1
        x-twice: 2
    ";
    let forward =
        message(MessageSource::Dfsp { name: "greenbank" }, Method::Post, "bluewallet", "/transfers");
    assert_eq!(
        rewritten(request, &forward),
        lines(
            "
            fspiop-source: greenbank
            fspiop-destination: bluewallet
            x-twice: 1
            x-twice: 2
            fspiop-http-method: POST
            fspiop-uri: /transfers
            "
        )
    );
}

#[test]
fn existing_output_is_retained() {
    let mut out = b"x-before: 1\r\n".to_vec();
    rewrite_for_forward(b"", &message(hub(), Method::Put, "a", "/transfers/x"), &mut out);
    assert!(out.starts_with(b"x-before: 1\r\ncontent-type: "));
}

#[test]
fn traces_continue_only_from_a_usable_parent() {
    let forward =
        message(MessageSource::Dfsp { name: "greenbank" }, Method::Post, "bluewallet", "/transfers");
    for (parent, continued) in [
        ("00-{}-00f067aa0ba902b7-01", Some("00-{}-0a000000000000ff-01")),
        ("00-{}-00f067aa0ba902b7-00", Some("00-{}-0a000000000000ff-00")),
        ("01-{}-00f067aa0ba902b7-01-more", Some("00-{}-0a000000000000ff-01")),
        ("00-{}-00f067aa0ba902b7-01-more", None),
        ("ff-{}-00f067aa0ba902b7-01", None),
        ("00-{}-0000000000000000-01", None),
        ("00-00000000000000000000000000000000-00f067aa0ba902b7-01", None),
        ("00-{}-00F067AA0BA902B7-01", None),
        ("00-{}-00f067aa0ba902b7", None),
        ("00_{}-00f067aa0ba902b7-01", None),
        ("", None),
    ] {
        let request = alloc::format!("traceparent: {parent}\ntracestate: a=b\n").replace("{}", TRACE);
        let text = rewritten(&request, &forward);
        let expected = continued.map(|parent| {
            alloc::format!("traceparent: {parent}\r\ntracestate: a=b\r\n").replace("{}", TRACE)
        });
        match expected {
            Some(expected) => assert!(text.starts_with(&expected), "{parent}: {text}"),
            None => assert!(!text.contains("trace"), "{parent}: {text}"),
        }
    }
}

const QUOTE: &str = "
    accept: application/vnd.interoperability.quotes+json;version=1
    content-type: application/vnd.interoperability.quotes+json;version=1.0
    date: Tue, 01 Apr 2031 12:00:00 GMT
    fspiop-source: greenbank
    fspiop-destination: bluewallet
    fspiop-http-method: POST
    fspiop-uri: /quotes
    fspiop-signature: {\"signature\":\"abc\",\"protectedHeader\":\"def\"}
    fspiop-encryption: {}
    fspiop-proxy: bridge
    x-custom: dropped
    x-forwarded-for: 10.0.0.1
    traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
    tracestate: vendor=x
    baggage: k=v
";

#[test]
fn quoting_forwards_only_api_and_trace_headers() {
    for resource in [Resource::Quotes, Resource::BulkQuotes, Resource::FxQuotes] {
        let post = Forward {
            resource,
            ..message(MessageSource::Dfsp { name: "greenbank" }, Method::Post, "bluewallet", "/quotes")
        };
        let expected = lines(
            "
            accept: application/vnd.interoperability.quotes+json;version=1
            content-type: application/vnd.interoperability.quotes+json;version=1.0
            date: Tue, 01 Apr 2031 12:00:00 GMT
            fspiop-source: greenbank
            fspiop-destination: bluewallet
            fspiop-http-method: POST
            fspiop-uri: /quotes
            fspiop-signature: {\"signature\":\"abc\",\"protectedHeader\":\"def\"}
            fspiop-encryption: {}
            fspiop-proxy: bridge
            traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-0a000000000000ff-01
            tracestate: vendor=x
            baggage: k=v
            ",
        );
        assert_eq!(rewritten(QUOTE, &post), expected);
        let put = rewritten(QUOTE, &Forward { method: Method::Put, ..post });
        assert!(!put.contains("accept:"), "{put}");
        assert!(!put.contains("x-custom"), "{put}");
    }
    for resource in [Resource::Parties, Resource::Participants, Resource::TransactionRequests] {
        let post = message(MessageSource::Dfsp { name: "greenbank" }, Method::Post, "bluewallet", "/x");
        let passed_on = rewritten(QUOTE, &Forward { resource, ..post });
        for line in ["x-custom: dropped", "x-forwarded-for: 10.0.0.1"] {
            assert!(passed_on.contains(line), "{resource:?} {line}");
        }
    }
}

#[test]
fn errors_by_the_hub_have_the_media_type_of_the_family() {
    for (resource, uri) in [
        (Resource::Parties, "/parties/MSISDN/26097/error"),
        (Resource::Participants, "/participants/MSISDN/26097/error"),
        (Resource::Quotes, "/quotes/x/error"),
        (Resource::BulkQuotes, "/bulkQuotes/x/error"),
        (Resource::FxQuotes, "/fxQuotes/x/error"),
        (Resource::TransactionRequests, "/transactionRequests/x/error"),
        (Resource::Authorizations, "/authorizations/x/error"),
    ] {
        let error = Forward { resource, ..message(hub(), Method::Put, "greenbank", uri) };
        let text = rewritten(QUOTE, &error);
        let content_type = alloc::format!(
            "content-type: application/vnd.interoperability.{}+json;version=1.1\r\n",
            resource.as_str()
        );
        assert!(text.contains(&content_type), "{text}");
        assert!(
            text.contains("fspiop-source: Hub\r\n") && text.contains("fspiop-destination: greenbank\r\n")
        );
        assert!(text.contains("fspiop-http-method: PUT\r\n"));
        assert!(text.contains(&alloc::format!("fspiop-uri: {uri}\r\n")), "{text}");
        assert!(!text.contains("fspiop-signature") && !text.contains("accept:"), "{text}");
        assert!(text.contains(TRACE), "{text}");
    }
}
