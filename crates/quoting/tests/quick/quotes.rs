//! The receivers of each message: every row of the rules for quotes of all kinds.

mod payment_requests;

use std::time::Duration;

use crate::common::*;
use upesi_engine::{Counts, RequestKind};
use upesi_types::Timestamp;

const POST: &str = "POST /quotes";

async fn hub_takes(line: &str, from: &str, to: &str, body: &str) -> Vec<String> {
    let hub = Hub::new(Setup::default());
    hub.take(line, from, to, body).await.unwrap();
    hub.sent()
}

#[tokio::test]
async fn quote_requests_are_forwarded_or_rejected() {
    let passed = |dfsp: &str| vec![format!("{dfsp} POST /quotes/quotes < bluebank")];
    let refused = |text: &str| vec![error("quotes", "bluebank", "quotes", text)];
    let payee_lacks = |name| format!("3201 Destination FSP Error - Unsupported participant '{name}'");
    let payer_lacks = |name| format!("3202 Payer FSP ID not found - Unsupported participant '{name}'");
    let currencies = |list| vec![("payer.supportedCurrencies", list)];
    for (to, changes, expected) in [
        ("greenbank", vec![], passed("greenbank")),
        // The payee's account in the currency of the amount.
        ("poorbank", vec![], refused(&payee_lacks("poorbank"))),
        ("redbank", vec![], refused(&payee_lacks("redbank"))),
        ("nobank", vec![], refused(&payee_lacks("nobank"))),
        ("greenbank", vec![("amount.currency", r#""KES""#)], refused(&payee_lacks("greenbank"))),
        // If the body names currencies, the payer needs an account in each of them, and the payee in none.
        ("greenbank", currencies(r#"["USD","KES"]"#), passed("greenbank")),
        ("greenbank", currencies("[]"), passed("greenbank")),
        ("greenbank", currencies(r#"["USD","EUR"]"#), refused(&payer_lacks("bluebank"))),
        ("poorbank", currencies(r#"["USD"]"#), passed("poorbank")),
        ("redbank", currencies(r#"["USD"]"#), refused(&payee_lacks("redbank"))),
        ("nobank", currencies(r#"["USD"]"#), refused(&payee_lacks("nobank"))),
        // The body names other DFSPs than the headers.
        ("greenbank", vec![("payer.partyIdInfo.fspId", r#""bluebank""#)], passed("greenbank")),
        ("greenbank", vec![("payer.partyIdInfo.fspId", r#""fxp""#)], passed("greenbank")),
        ("greenbank", vec![("payer.partyIdInfo.fspId", r#""redbank""#)], refused(&payer_lacks("redbank"))),
        ("greenbank", vec![("payer.partyIdInfo.fspId", r#""nobank""#)], refused(&payer_lacks("nobank"))),
        ("greenbank", vec![("payee.partyIdInfo.fspId", r#""greenbank""#)], passed("greenbank")),
        ("greenbank", vec![("payee.partyIdInfo.fspId", r#""poorbank""#)], refused(&payee_lacks("poorbank"))),
        // An expired quote, which the payee checks unless the scheme has another rule.
        ("greenbank", vec![("expiration", r#""2029-12-31T23:59:59.999Z""#)], passed("greenbank")),
    ] {
        assert_eq!(hub_takes(POST, "bluebank", to, &quote(&changes)).await, expected, "{to} {changes:?}");
    }
    let refused = [error("quotes", "redbank", "quotes", &payer_lacks("redbank"))];
    assert_eq!(hub_takes(POST, "redbank", "greenbank", &quote(&[])).await, refused);
}

/// Outcomes of requests for quotes at greenbank, with the seconds of the slowest callback.
fn timed(hub: &Hub) -> (Counts, Option<u64>) {
    let summaries =
        hub.relay.timed(RequestKind::Quote).responses.summaries(Timestamp::parse_iso(NOW).unwrap());
    let [of_greenbank] = &summaries[..] else { return (Counts::default(), None) };
    assert_eq!((of_greenbank.asked.number(), of_greenbank.pairs[0].asker.number()), (3, 2));
    (of_greenbank.kinds[0].recent, of_greenbank.kinds[0].p99.map(|took| took.as_secs()))
}

#[tokio::test(start_paused = true)]
async fn quotes_are_timed_until_their_callbacks() {
    let mut setups = vec![];
    for refuses_unasked in [true, false] {
        setups.push(Setup { refuses_unasked, ..Setup::default() });
    }
    for setup in setups {
        let hub = Hub::new(setup);
        let id = |number: u8| format!("6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b{number:02}");
        let ask = async |number| {
            let body = quote(&[("quoteId", &format!("\"{}\"", id(number)))]);
            hub.take(POST, "bluebank", "greenbank", &body).await.unwrap();
        };
        ask(1).await;
        tokio::time::advance(Duration::from_secs(4)).await;
        let (answer, body) = (format!("PUT /quotes/{}", id(1)), response(&[]));
        hub.take(&answer, "greenbank", "bluebank", &body).await.unwrap();
        assert_eq!(timed(&hub), ([1, 0, 0, 0], Some(4)));
        hub.take(&answer, "greenbank", "bluebank", &body).await.unwrap();
        assert_eq!(timed(&hub).0, [1, 0, 0, 0], "a resend");
        ask(2).await;
        hub.take(&format!("PUT /quotes/{}/error", id(2)), "greenbank", "bluebank", ERROR).await.unwrap();
        assert_eq!(timed(&hub).0, [1, 1, 0, 0]);
        hub.set_reply("greenbank", Reply::Silence);
        ask(3).await;
        assert_eq!(timed(&hub).0, [1, 1, 0, 1]);
        hub.set_reply("greenbank", Reply::Status(202));
        ask(4).await;
        tokio::time::advance(Duration::from_secs(3_600)).await;
        ask(5).await;
        assert_eq!(timed(&hub).0, [1, 1, 1, 1], "the fourth quote had no answer");
        // A customer may take that long to answer.
        hub.take("POST /transactionRequests", "bluebank", "greenbank", &request_to_pay()).await.unwrap();
        let answer = format!("PUT /transactionRequests/{QUOTE_ID}");
        let body = r#"{"transactionRequestState":"RECEIVED"}"#;
        hub.take(&answer, "greenbank", "bluebank", body).await.unwrap();
        assert_eq!(timed(&hub).0, [1, 1, 1, 1]);
    }
}

#[tokio::test]
async fn answer_requires_an_account_in_the_payees_currency() {
    let line = format!("PUT /quotes/{QUOTE_ID}");
    let passed = |from: &str| vec![format!("bluebank PUT /quotes/quotes/{QUOTE_ID} < {from}")];
    let lacks = |name: &str| {
        let text = format!("3201 Destination FSP Error - Unsupported participant '{name}'");
        vec![error("quotes", name, "quotes", &text)]
    };
    let kes = [("payeeReceiveAmount", r#"{"amount":"1","currency":"KES"}"#)];
    let usd_of_kes = [
        ("transferAmount.currency", r#""KES""#),
        ("payeeReceiveAmount", r#"{"amount":"1","currency":"USD"}"#),
    ];
    for (from, changes, expected) in [
        ("greenbank", &[][..], passed("greenbank")),
        ("greenbank", &kes[..], lacks("greenbank")),
        ("fxp", &kes[..], passed("fxp")),
        ("greenbank", &usd_of_kes[..], passed("greenbank")),
        ("poorbank", &[][..], lacks("poorbank")),
        ("redbank", &[][..], lacks("redbank")),
    ] {
        let sent = hub_takes(&line, from, "bluebank", &response(changes)).await;
        assert_eq!(sent, expected, "{from} {changes:?}");
    }
}

#[tokio::test]
async fn accept_header_on_an_answer_is_rejected_by_a_callback() {
    let accept = [("accept", "application/vnd.interoperability.quotes+json;version=1")];
    for (resource, base, body) in [
        ("quotes", "quotes", response(&[])),
        ("bulkQuotes", "bulk", r#"{"expiration":"2030-01-01T01:00:00.000Z"}"#.to_owned()),
        ("fxQuotes", "fx", fx_quote(&[])),
    ] {
        let hub = Hub::new(Setup::default());
        let line = format!("PUT /{resource}/{QUOTE_ID}");
        hub.take_with(&line, "greenbank", "bluebank", &body, &accept).await.unwrap();
        let text = "3100 Generic validation error - accept header must not be sent in callbacks";
        assert_eq!(hub.sent(), [error(resource, "greenbank", base, text)], "{resource}");
        // An error is forwarded even if its headers are wrong.
        let line = format!("PUT /{resource}/{QUOTE_ID}/error");
        hub.take_with(&line, "greenbank", "bluebank", ERROR, &accept).await.unwrap();
        assert_eq!(
            hub.sent(),
            [format!("bluebank PUT /{base}/{resource}/{QUOTE_ID}/error < greenbank")],
            "{resource}"
        );
    }
}

#[tokio::test]
async fn bulk_quotes_are_checked_by_their_first_quote() {
    for (from, to, changes, expected) in [
        ("bluebank", "greenbank", vec![], "greenbank POST /bulk/bulkQuotes < bluebank".to_owned()),
        (
            "bluebank",
            "fxp",
            vec![("individualQuotes.0.amount.currency", r#""EUR""#)],
            error(
                "bulkQuotes",
                "bluebank",
                "bulk",
                "3202 Payer FSP ID not found - Unsupported participant 'bluebank'",
            ),
        ),
        (
            "bluebank",
            "greenbank",
            vec![("individualQuotes.0.amount.currency", r#""KES""#)],
            error(
                "bulkQuotes",
                "bluebank",
                "bulk",
                "3201 Destination FSP Error - Unsupported participant 'greenbank'",
            ),
        ),
        (
            "redbank",
            "greenbank",
            vec![],
            error(
                "bulkQuotes",
                "redbank",
                "bulk",
                "3202 Payer FSP ID not found - Unsupported participant 'redbank'",
            ),
        ),
    ] {
        let sent = hub_takes("POST /bulkQuotes", from, to, &bulk(&changes)).await;
        assert_eq!(sent, [expected], "{changes:?}");
    }
}

#[tokio::test]
async fn fx_provider_must_have_accounts_in_both_currencies() {
    let refused = |name: &str| {
        let text = format!("3100 Generic validation error - Unsupported participant '{name}'");
        error("fxQuotes", "bluebank", "fx", &text)
    };
    let source_eur = vec![("conversionTerms.sourceAmount.currency", r#""EUR""#)];
    let target_eur = vec![("conversionTerms.targetAmount.currency", r#""EUR""#)];
    for (to, changes, expected) in [
        ("fxp", vec![], "fxp POST /fx/fxQuotes < bluebank".to_owned()),
        ("fxp", source_eur, refused("fxp")),
        ("fxp", target_eur, refused("fxp")),
        ("greenbank", vec![], refused("greenbank")),
        ("redbank", vec![], refused("redbank")),
        ("nobank", vec![], refused("nobank")),
    ] {
        let sent = hub_takes("POST /fxQuotes", "bluebank", to, &fx_quote(&changes)).await;
        assert_eq!(sent, [expected], "{to} {changes:?}");
    }
}

#[tokio::test]
async fn other_messages_are_forwarded_to_the_destination() {
    for (resource, base) in [("quotes", "quotes"), ("bulkQuotes", "bulk"), ("fxQuotes", "fx")] {
        for (method, tail, body) in [("GET", "", ""), ("PUT", "/error", ERROR)] {
            let path = format!("/{resource}/{QUOTE_ID}{tail}");
            let sent = hub_takes(&format!("{method} {path}"), "redbank", "greenbank", body).await;
            assert_eq!(sent, [format!("greenbank {method} /{base}{path} < redbank")]);
            let sent = hub_takes(&format!("{method} {path}"), "greenbank", "nobank", body).await;
            let text = "3201 Destination FSP Error - Destination FSP not found";
            assert_eq!(sent, [error(resource, "greenbank", base, text)]);
        }
    }
}

#[tokio::test]
async fn failed_delivery_is_reported_to_the_sender() {
    let propagated = r#"{"errorInformation":{"errorCode":"5106","errorDescription":"not in dollars"}}"#;
    for (reply, text) in [
        (Reply::Error(400, propagated), "5106 not in dollars"),
        (Reply::Status(404), "3000 Generic client error - The destination answered 404"),
        (Reply::Status(500), "1001 Destination communication error - The destination answered 500"),
        (Reply::Silence, "1001 Destination communication error - Network error"),
    ] {
        for (line, from, to, body) in [
            (POST.to_owned(), "bluebank", "greenbank", quote(&[])),
            (format!("PUT /quotes/{QUOTE_ID}"), "greenbank", "bluebank", response(&[])),
            (format!("PUT /quotes/{QUOTE_ID}/error"), "greenbank", "bluebank", ERROR.to_owned()),
            (format!("GET /quotes/{QUOTE_ID}"), "bluebank", "greenbank", String::new()),
        ] {
            let hub = Hub::new(Setup::default());
            hub.set_reply(to, reply.clone());
            hub.take(&line, from, to, &body).await.unwrap();
            let sent = hub.sent();
            assert_eq!(sent.len(), 2, "{line}");
            assert_eq!(sent[1], error("quotes", from, "quotes", text), "{line} {reply:?}");
            assert_eq!(hub.metric("upesi_quoting_messages_total", &["undelivered"]), 1);
            assert_eq!(hub.metric("upesi_quoting_refusals_total", &[]), 1);
        }
    }
}

#[tokio::test]
async fn a_missing_endpoint_is_named() {
    let missing = |side: &str| {
        let text = format!(
            "3201 Destination FSP Error - No FSPIOP_CALLBACK_URL_QUOTES found for quote {QUOTE_ID}, {side} party mutebank"
        );
        let cut: String = text.chars().take(5 + 128).collect();
        cut
    };
    let sent = hub_takes(POST, "bluebank", "mutebank", &quote(&[])).await;
    assert_eq!(sent, [error("quotes", "bluebank", "quotes", &missing("PAYEE"))]);
    let line = format!("PUT /quotes/{QUOTE_ID}");
    let sent = hub_takes(&line, "greenbank", "mutebank", &response(&[])).await;
    assert_eq!(sent, [error("quotes", "greenbank", "quotes", &missing("PAYER"))]);
    // The error callback cannot be delivered either. This is counted, and nothing hangs.
    assert!(hub_takes(POST, "mutebank", "nobank", &quote(&[])).await.is_empty());
}

#[tokio::test]
async fn an_unknown_sender_is_refused_at_once() {
    let hub = Hub::new(Setup::default());
    for (line, body) in [
        (POST.to_owned(), quote(&[])),
        (format!("GET /quotes/{QUOTE_ID}"), String::new()),
        ("POST /transactionRequests".to_owned(), request_to_pay()),
    ] {
        let refused = hub.take(&line, "nobank", "greenbank", &body).await;
        let expected = "400 3101 Malformed syntax - invalid fspiop-source header: no participant 'nobank'";
        assert_eq!(refused, Err(expected.to_owned()), "{line}");
    }
    assert!(hub.sent().is_empty());
}

#[tokio::test]
async fn requests_above_the_limit_are_rejected_and_not_sent() {
    let hub = Hub::new(Setup { in_flight_max: Some(1), ..Setup::default() });
    let ticket = hub.relay.admit(&upesi_types::FspId::parse("bluebank").unwrap(), 0).unwrap();
    let taken = upesi_delivery::Handler::handle(
        &hub.quoting,
        received(POST, "bluebank", "greenbank", &quote(&[]), &[]),
    );
    assert_eq!(taken.await.map_err(|error| error.code.number()), Err(2005));
    drop(ticket);
    hub.take(POST, "bluebank", "greenbank", &quote(&[])).await.unwrap();
    assert_eq!(hub.sent().len(), 1);
}

#[tokio::test]
async fn forwarded_messages_keep_bytes_signature_and_media_type() {
    let hub = Hub::new(Setup::default());
    let body = quote(&[]).replace(',', " ,\n");
    let trace = [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")];
    hub.take_with(POST, "bluebank", "greenbank", &body, &trace).await.unwrap();
    let requests = std::mem::take(&mut *hub.recorder.requests.lock().unwrap());
    let (_, request) = &requests[0];
    assert_eq!(request.body, body.as_bytes());
    for (name, value) in [
        ("fspiop-signature", Some("sig")),
        ("content-type", Some("application/vnd.interoperability.quotes+json;version=1.0")),
        ("fspiop-uri", Some("/quotes")),
        ("fspiop-http-method", Some("POST")),
        ("x-own", None),
    ] {
        assert_eq!(request.headers.get(name).map(|found| found.to_str().unwrap()), value, "{name}");
    }
    let parent = request.headers["traceparent"].to_str().unwrap();
    assert!(parent.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && parent != trace[0].1, "{parent}");
}
