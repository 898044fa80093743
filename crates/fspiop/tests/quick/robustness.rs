//! No bytes make a parser panic, and every rejection is itself a valid FSPIOP error.

use proptest::prelude::*;
use upesi_fspiop::body::{parse_authorization_query, parse_error_body, parse_prepare, refusals};
use upesi_fspiop::headers::{
    Block, Forward, HeaderRules, MessageSource, check_headers, check_no_accept, check_parties,
    rewrite_for_forward,
};
use upesi_fspiop::{
    Method, PartyIdType, PartySegments, PathId, Resource, Route, Segments, SyncError, Unroutable, Version,
    check_party_id, check_party_path, fingerprint, ilp, uri,
};
use upesi_types::{FspId, Timestamp};

const PREPARE: &str = r#"{"transferId":"5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d","payerFsp":"greenbank","payeeFsp":"bluewallet","amount":{"currency":"KES","amount":"125.5"},"ilpPacket":"AYICexampleilppacket0123","condition":"zkPzOVxMB-hEjHI5NnWaVhPx3FGJEiZ1Q8ysbpRa51s","expiration":"2031-04-01T12:00:30.000Z","extensionList":{"extension":[{"key":"k","value":"v"}]},"fulfilment":"UNlJ98hZTY_dsw0cAqw4i_UN3v4utt7CZFB4yfLbVFA","transferState":"COMMITTED","completedTimestamp":"2031-04-01T12:00:30.000Z","errorInformation":{"errorCode":"5104","errorDescription":"no"}}"#;

fn assert_valid_refusal(error: &SyncError) {
    assert!(error.description.chars().count() <= 128, "{error}");
    let body = error.to_body();
    let versions = error.supported_versions.is_some();
    let read = parse_error_body(&body).expect("the hub's own errors follow the schema");
    assert_eq!((read.code, read.extensions.is_some()), (error.code, versions));
    assert_eq!(read.description, error.description);
}

/// A message with the properties of all families, so that damage anywhere in it affects some schema.
const EVERYTHING: &str = r#"{"quoteId":"6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11","transactionId":"0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f60","bulkQuoteId":"6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11","transactionRequestId":"01ARZ3NDEKTSV4RRFFQ69G5FAV","requestId":"01ARZ3NDEKTSV4RRFFQ69G5FAV","conversionRequestId":"01ARZ3NDEKTSV4RRFFQ69G5FAV","fspId":"greenbank","currency":"USD","partyList":[{"partyIdType":"MSISDN","partyIdentifier":"26097","fspId":"greenbank","partySubIdOrType":"s"}],"party":{"partyIdInfo":{"partyIdType":"EMAIL","partyIdentifier":"a@b.cd"},"name":"n","personalInfo":{"complexName":{"firstName":"Ada"},"dateOfBirth":"1966-06-16"}},"payer":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"26011","fspId":"bluebank"},"supportedCurrencies":["USD"],"partyIdType":"MSISDN","partyIdentifier":"26011"},"payee":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"26097","fspId":"greenbank"}},"amountType":"SEND","amount":{"amount":"12.5","currency":"USD"},"transactionType":{"scenario":"TRANSFER","initiator":"PAYER","initiatorType":"CONSUMER","refundInfo":{"originalTransactionId":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}},"expiration":"2030-01-01T00:00:00.000Z","geoCode":{"latitude":"-1.5","longitude":"36.8"},"transferAmount":{"amount":"12.5","currency":"USD"},"ilpPacket":"DIIBeQ","condition":"OamfGVXsbd2k8PiBcmCo5yFjZDiqprh-YVj8YChlsn0","individualQuotes":[{"quoteId":"0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f60","transactionId":"0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f61","payee":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"26097"}},"amountType":"SEND","amount":{"amount":"3","currency":"ZMW"},"transactionType":{"scenario":"PAYMENT","initiator":"PAYER","initiatorType":"BUSINESS"}}],"individualQuoteResults":[{"quoteId":"0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f60","errorInformation":{"errorCode":"5103","errorDescription":"no"}}],"conversionTerms":{"conversionId":"01ARZ3NDEKTSV4RRFFQ69G5FAV","initiatingFsp":"bluebank","counterPartyFsp":"fxp1","amountType":"SEND","sourceAmount":{"currency":"USD","amount":"1"},"targetAmount":{"currency":"ZMW"},"expiration":"2030-01-01T00:00:00.000Z","charges":[{"chargeType":"spread"}]},"transactionRequestState":"PENDING","responseType":"ENTERED","authenticationInfo":{"authentication":"OTP","authenticationValue":{"pinValue":"1234","counter":"1"}},"errorInformation":{"errorCode":"5104","errorDescription":"no"}}"#;

fn parse_all(body: &[u8]) {
    for error in refusals(body, Resource::ALL).flatten() {
        assert_eq!(error.status, 400);
        assert_valid_refusal(&error);
    }
    fingerprint(body);
}

/// Every property name of [`EVERYTHING`].
fn names_of_everything() -> Vec<&'static str> {
    let texts: Vec<&str> = EVERYTHING.split('"').collect();
    // Every second part is a quoted text. Names are those before a colon.
    texts.windows(2).skip(1).step_by(2).filter(|pair| pair[1].starts_with(':')).map(|pair| pair[0]).collect()
}

/// JSON texts of every form, with names that the schemas know.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?[0-9]{1,20}(\\.[0-9]{1,5})?(e[0-9]{1,3})?",
        "\"[ -!#-\\[\\]-~é€]{0,40}\"",
        "\"(\\\\u[0-9a-f]{4}|\\\\n|\\\\\"|x){0,8}\"",
        Just("\"2031-04-01T12:00:30.000Z\"".to_owned()),
        Just("\"COMMITTED\"".to_owned()),
    ];
    let name = prop_oneof![
        Just("transferId"),
        Just("payeeFsp"),
        Just("payerFsp"),
        Just("amount"),
        Just("currency"),
        Just("ilpPacket"),
        Just("condition"),
        Just("expiration"),
        Just("extensionList"),
        Just("extension"),
        Just("key"),
        Just("value"),
        Just("transferState"),
        Just("fulfilment"),
        Just("errorInformation"),
        Just("errorCode"),
        Just("errorDescription"),
        Just("other"),
        proptest::sample::select(names_of_everything()),
    ];
    leaf.prop_recursive(5, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((name.clone(), inner), 0..8).prop_map(|members| {
                let members: Vec<_> =
                    members.iter().map(|(name, json)| format!("\"{name}\": {json}")).collect();
                format!("{{{}}}", members.join(" , "))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_are_rejected_with_a_valid_error(body in prop::collection::vec(any::<u8>(), 0..200)) {
        parse_all(&body);
    }

    #[test]
    fn arbitrary_json_is_rejected_with_a_valid_error(body in json()) {
        parse_all(body.as_bytes());
    }

    #[test]
    fn damaged_messages_are_rejected_with_a_valid_error(
        at in 0..PREPARE.len(),
        length in 0..24_usize,
        patch in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let mut body = PREPARE.as_bytes().to_vec();
        body.splice(at..(at + length).min(PREPARE.len()), patch);
        parse_all(&body);
    }

    #[test]
    fn damaged_messages_of_all_families_are_rejected_with_a_valid_error(
        at in 0..EVERYTHING.len(),
        length in 0..24_usize,
        patch in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let mut body = EVERYTHING.as_bytes().to_vec();
        body.splice(at..(at + length).min(EVERYTHING.len()), patch);
        parse_all(&body);
    }

    #[test]
    fn truncated_message_is_rejected(end in 0..PREPARE.len(), other_end in 1..EVERYTHING.len()) {
        prop_assert!(parse_prepare(&PREPARE.as_bytes()[..end]).is_err());
        prop_assert!(refusals(&EVERYTHING.as_bytes()[..other_end], Resource::ALL).all(|refusal| refusal.is_some()));
    }

    #[test]
    fn white_space_does_not_change_a_fingerprint(blanks in prop::collection::vec("[ \t\r\n]{0,3}", 64)) {
        let mut laid_out = String::new();
        let mut blanks = blanks.iter().cycle();
        for character in PREPARE.chars() {
            // No text in the message contains a comma or a brace, but times contain colons.
            if matches!(character, ',' | '{' | '}') {
                laid_out.push_str(blanks.next().map_or("", String::as_str));
            }
            laid_out.push(character);
        }
        prop_assert_eq!(fingerprint(laid_out.as_bytes()), fingerprint(PREPARE.as_bytes()));
        prop_assert_eq!(parse_prepare(laid_out.as_bytes()), parse_prepare(PREPARE.as_bytes()));
    }

    #[test]
    fn arbitrary_headers_are_rejected_with_a_valid_error(block in header_block()) {
        for &resource in Resource::ALL {
            for method in [Method::Get, Method::Post, Method::Put, Method::Delete] {
                if let Err(error) = check_headers(method, resource, &Block(&block), &HeaderRules::default()) {
                    assert_valid_refusal(&error);
                }
            }
            if let Err(error) = check_parties(resource, &Block(&block), &FspId::parse("Hub").unwrap()) {
                assert_valid_refusal(&error);
            }
        }
        if let Err(error) = check_no_accept(&Block(&block)) {
            assert_valid_refusal(&error);
        }
    }

    #[test]
    fn forwarded_headers_are_a_valid_block_without_repetitions(
        block in header_block(),
        by_hub: bool,
        span_id: [u8; 8],
        resource in proptest::sample::select(Resource::ALL),
    ) {
        let source = if by_hub {
            MessageSource::Hub { name: "Hub", version: Version::V1_1, now: Timestamp::EPOCH, trace_id: [7; 16] }
        } else {
            MessageSource::Dfsp { name: "greenbank" }
        };
        let forward = Forward {
            source,
            receiver: "bluewallet",
            resource,
            method: Method::Put,
            uri: "/transfers/x",
            span_id,
        };
        let mut out = Vec::new();
        rewrite_for_forward(&block, &forward, &mut out);
        let count = |name: &[u8]| Block(&out).iter().filter(|(key, _)| *key == name).count();
        for name in ["fspiop-source", "fspiop-http-method", "fspiop-uri"] {
            prop_assert_eq!(count(name.as_bytes()), 1, "{}", name);
        }
        // A signed message without a destination gets none.
        let is_signature = |(name, value): (&[u8], &[u8])| name == b"fspiop-signature" && value == SIGNATURE.as_bytes();
        let is_signed = !by_hub && Block(&block).iter().any(is_signature);
        let is_addressed = !is_signed || Block(&block).find("fspiop-destination").is_some();
        prop_assert_eq!(count(b"fspiop-destination"), usize::from(is_addressed));
        if is_signed {
            for name in ["fspiop-source", "fspiop-http-method", "fspiop-uri"] {
                if let Some(signed) = Block(&block).find(name) {
                    prop_assert_eq!(Block(&out).find(name), Some(signed));
                }
            }
        }
        prop_assert_eq!(count(b"accept"), 0);
        if resource.is_quoting() {
            prop_assert_eq!(count(b"x-other") + count(b"x-client-id"), 0);
            let came = Block(&block).iter().filter(|(key, _)| key.eq_ignore_ascii_case(b"fspiop-proxy")).count();
            prop_assert!(count(b"fspiop-proxy") <= came);
        }
        if let Some(destination) = Block(&out).find("fspiop-destination") {
            prop_assert!(destination.eq_ignore_ascii_case(b"bluewallet"));
        }
        if by_hub {
            prop_assert_eq!(count(b"fspiop-signature"), 0);
            prop_assert_eq!((count(b"content-type"), count(b"date"), count(b"traceparent")), (1, 1, 1));
        }
        // A second hop changes only the span.
        let mut again = Vec::new();
        rewrite_for_forward(&out, &forward, &mut again);
        prop_assert_eq!(out, again);
    }

    #[test]
    fn arbitrary_targets_templates_and_packets_are_parsed_or_rejected(text in "[ -~é]{0,60}", packet in "[A-Za-z0-9_-]{0,80}") {
        for method in [None, Some(Method::Put)] {
            for prefix in ["", "/", "/transfers/", "/participants/", "/parties/MSISDN/", "/quotes/"] {
                let target = format!("{prefix}{text}");
                match Route::resolve(method, &target) {
                    Err(unroutable) => {
                        assert_valid_refusal(&unroutable.to_error());
                        if let Unroutable::OtherMethods(path) = unroutable {
                            prop_assert!(!path.allow().is_empty());
                        }
                    }
                    Ok(route) => prop_assert_eq!(Some(route.operation.method()), method),
                }
            }
        }
        let mut out = String::new();
        let _ = uri::fill_template(&text, "id", &mut out);
        let _ = uri::fill_template(&text, &uri::PathValues::of(&text, "bluewallet"), &mut out);
        if let Err(error) = parse_authorization_query(&text) {
            assert_valid_refusal(&error);
        }
        let _ = ilp::decode_transaction(&text);
        let _ = ilp::decode_transaction(&packet);
        let _ = ilp::decode_transaction(&format!("AY{packet}"));
        let _ = ilp::decode_transaction(&format!("DI{packet}"));
    }

    /// A valid party id is one segment of a URL, which leads nowhere else, encoded or decoded.
    #[test]
    fn valid_party_ids_remain_one_path_segment(id in segment(), sub_id in proptest::option::of(segment())) {
        for &kind in PartyIdType::ALL {
            let segments = PartySegments { kind: kind.as_str(), id: &id, sub_id: sub_id.as_deref() };
            let party = match segments.check(true) {
                Ok(party) => party,
                Err(error) => {
                    assert_valid_refusal(&error);
                    continue;
                }
            };
            let mut path = String::new();
            uri::write_party_path(Resource::Parties, &party, false, &mut path);
            prop_assert!(path.bytes().all(|byte| byte.is_ascii_graphic()));
            let route = Route::resolve(Some(Method::Get), &path);
            prop_assert_eq!(route.map(|route| route.segments == Segments::Party(segments)), Ok(true));
            let decoded = uri::decode_segment(&id).expect("it was checked");
            prop_assert!(decoded.split(['/', '\\']).all(|part| part != "." && part != ".."));
            let mut encoded = String::new();
            uri::encode_segment(&decoded, &mut encoded);
            prop_assert_eq!(uri::decode_segment(&encoded), Some(decoded));
            let again = check_party_id(kind, &party.id_text(), party.sub_id_text().as_deref());
            prop_assert_eq!(check_party_path(&party), again.clone());
            if let Err(error) = again {
                assert_valid_refusal(&error);
            }
        }
        for &resource in Resource::ALL {
            match PathId::read(resource, &id) {
                Err(error) => assert_valid_refusal(&error),
                Ok(read) => prop_assert_eq!(read.to_string(), id.clone()),
            }
        }
    }
}

/// Path segments with all special characters of a URL.
fn segment() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-z0-9]{1,6}",
        "[!-.0->@-~]{1,3}",
        "%[0-9a-fA-F]{2}",
        Just(".".to_owned()),
        Just("%2e".to_owned()),
        Just("%2F".to_owned()),
        Just("%5C".to_owned()),
        Just("%C3%A9".to_owned()),
        Just("error".to_owned()),
    ];
    // An empty segment and dot segments are not valid paths.
    prop::collection::vec(part, 1..6)
        .prop_map(|parts| parts.concat())
        .prop_filter("a segment of a path", |segment| !matches!(segment.as_str(), "." | ".."))
}

/// The value that makes a message signed.
const SIGNATURE: &str = r#"{"signature":"a","protectedHeader":"b"}"#;

/// Blocks with names that the hub evaluates, and with any values without a line break.
fn header_block() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![
        Just("accept"),
        Just("content-type"),
        Just("date"),
        Just("fspiop-source"),
        Just("fspiop-destination"),
        Just("fspiop-signature"),
        Just("fspiop-uri"),
        Just("fspiop-proxy"),
        Just("traceparent"),
        Just("tracestate"),
        Just("x-client-id"),
        Just("x-other"),
    ];
    let value = prop_oneof![
        Just("application/vnd.interoperability.transfers+json;version=1.1".to_owned()),
        Just("application/vnd.interoperability.transfers+json;version=3.0".to_owned()),
        Just("Tue, 01 Apr 2031 12:00:00 GMT".to_owned()),
        Just("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned()),
        Just("greenbank".to_owned()),
        Just(SIGNATURE.to_owned()),
        "[ -~é]{0,40}",
    ];
    prop::collection::vec((name, value), 0..12).prop_map(|lines| {
        lines.iter().flat_map(|(name, value)| format!("{name}: {value}\r\n").into_bytes()).collect()
    })
}
