//! The hub's treatment of a quote apart from its participants: duplicates, expiry, rules.

use crate::common::*;
use upesi_quoting::QuotingConfig;

const POST: &str = "POST /quotes";

#[tokio::test]
async fn repeated_requests_are_forwarded_and_modified_ones_rejected() {
    for (resource, base, first, other) in [
        ("quotes", "quotes", quote(&[]), quote(&[("amount.amount", r#""13""#)])),
        ("bulkQuotes", "bulk", bulk(&[]), bulk(&[("geoCode", r#"{"latitude":"1","longitude":"1"}"#)])),
        ("fxQuotes", "fx", fx_quote(&[]), fx_quote(&[("conversionTerms.sourceAmount.amount", r#""11""#)])),
    ] {
        let hub = Hub::new(Setup::default());
        let line = format!("POST /{resource}");
        let to = "fxp";
        let passed = format!("fxp POST /{base}/{resource} < bluebank");
        let laid_out = first.replace(',', " ,\n\t");
        for body in [&first, &first, &laid_out] {
            hub.take(&line, "bluebank", to, body).await.unwrap();
            assert_eq!(hub.sent(), std::slice::from_ref(&passed), "{resource}");
        }
        hub.take(&line, "bluebank", to, &other).await.unwrap();
        let text = format!("3106 Modified request - Quote {QUOTE_ID} is a duplicate but hashes dont match");
        assert_eq!(hub.sent(), [error(resource, "bluebank", base, &text)]);
        // The first one stays valid.
        hub.take(&line, "bluebank", to, &first).await.unwrap();
        assert_eq!(hub.sent(), [passed]);
        assert_eq!(hub.metric("upesi_quoting_duplicates_total", &["resend"]), 3);
        assert_eq!(hub.metric("upesi_quoting_duplicates_total", &["modified"]), 1);
        assert_eq!(hub.metric("upesi_quoting_remembered", &[]), 1);
    }
}

#[tokio::test]
async fn answers_are_compared_separately_from_requests() {
    let hub = Hub::new(Setup::default());
    let line = format!("PUT /quotes/{QUOTE_ID}");
    let passed = format!("bluebank PUT /quotes/quotes/{QUOTE_ID} < greenbank");
    hub.take(POST, "bluebank", "greenbank", &quote(&[])).await.unwrap();
    hub.sent();
    for _ in 0..2 {
        hub.take(&line, "greenbank", "bluebank", &response(&[])).await.unwrap();
        assert_eq!(hub.sent(), std::slice::from_ref(&passed));
    }
    let other = response(&[("transferAmount.amount", r#""13""#)]);
    hub.take(&line, "greenbank", "bluebank", &other).await.unwrap();
    let text =
        format!("3106 Modified request - Update for quote {QUOTE_ID} is a duplicate but hashes don't match");
    assert_eq!(hub.sent(), [error("quotes", "greenbank", "quotes", &text)]);
    // Errors and queries are not compared with anything.
    for line in [format!("PUT /quotes/{QUOTE_ID}/error"), format!("GET /quotes/{QUOTE_ID}")] {
        for body in ["", ERROR] {
            hub.take(&line, "greenbank", "bluebank", body).await.unwrap();
            assert_eq!(hub.sent().len(), 1);
        }
    }
}

#[tokio::test]
async fn rejected_requests_are_not_remembered() {
    let hub = Hub::new(Setup::default());
    hub.take(POST, "bluebank", "poorbank", &quote(&[])).await.unwrap();
    assert_eq!(hub.metric("upesi_quoting_refusals_total", &["3201"]), 1);
    hub.sent();
    hub.take(POST, "bluebank", "greenbank", &quote(&[("amount.amount", r#""13""#)])).await.unwrap();
    assert_eq!(hub.sent(), ["greenbank POST /quotes/quotes < bluebank"]);
}

#[tokio::test]
async fn duplicate_check_can_be_disabled_and_drops_the_oldest() {
    let one = quote(&[]);
    let changed = quote(&[("amount.amount", r#""13""#)]);
    let another = quote(&[("quoteId", r#""01J8ZC5Y2T3V4W5X6Y7Z8A9B0C""#)]);
    for (entries, between, refused) in
        [(0, false, false), (1, false, true), (1, true, false), (2, true, true)]
    {
        let config = QuotingConfig { duplicate_entries: entries, ..QuotingConfig::default() };
        let hub = Hub::new(Setup { config, ..Setup::default() });
        hub.take(POST, "bluebank", "greenbank", &one).await.unwrap();
        if between {
            hub.take(POST, "bluebank", "greenbank", &another).await.unwrap();
        }
        hub.sent();
        hub.take(POST, "bluebank", "greenbank", &changed).await.unwrap();
        assert_eq!(hub.sent()[0].contains("3106"), refused, "{entries} {between}");
    }
}

#[tokio::test]
async fn expired_messages_are_rejected_if_configured() {
    let config = QuotingConfig { refuse_expired: true, ..QuotingConfig::default() };
    let at = |text: &str| format!(r#""{text}""#);
    let (now, later) = (at(NOW), at("2030-01-01T00:00:00.001Z"));
    for (resource, base, body, refused) in [
        ("quotes", "quotes", quote(&[("expiration", &now)]), true),
        ("quotes", "quotes", quote(&[("expiration", &later)]), false),
        ("quotes", "quotes", quote(&[]), false),
        ("bulkQuotes", "bulk", bulk(&[("expiration", &now)]), true),
        ("bulkQuotes", "bulk", bulk(&[("expiration", &later)]), false),
        ("fxQuotes", "fx", fx_quote(&[("conversionTerms.expiration", &now)]), true),
        ("fxQuotes", "fx", fx_quote(&[("conversionTerms.expiration", &later)]), false),
    ] {
        let hub = Hub::new(Setup { config: config.clone(), ..Setup::default() });
        hub.take(&format!("POST /{resource}"), "bluebank", "fxp", &body).await.unwrap();
        let expected = match refused {
            true => error(resource, "bluebank", base, "3302 Quote expired"),
            false => format!("fxp POST /{base}/{resource} < bluebank"),
        };
        assert_eq!(hub.sent(), [expected], "{body}");
    }
}

#[tokio::test]
async fn answer_to_an_expired_request_is_rejected() {
    let config = QuotingConfig { refuse_expired: true, ..QuotingConfig::default() };
    let hub = Hub::new(Setup { config, ..Setup::default() });
    let wanted = quote(&[("expiration", r#""2030-01-01T00:00:01.000Z""#)]);
    hub.take(POST, "bluebank", "greenbank", &wanted).await.unwrap();
    hub.sent();
    hub.pass_time(999);
    let line = format!("PUT /quotes/{QUOTE_ID}");
    hub.take(&line, "greenbank", "bluebank", &response(&[])).await.unwrap();
    assert_eq!(hub.sent(), [format!("bluebank PUT /quotes/quotes/{QUOTE_ID} < greenbank")]);
    hub.pass_time(1);
    hub.take(&line, "greenbank", "bluebank", &response(&[])).await.unwrap();
    assert_eq!(hub.sent(), [error("quotes", "greenbank", "quotes", "3302 Quote expired")]);
}

const RULES: &str = r#"[
    {"title":"not this","conditions":{"all":[
        {"fact":"operation","operator":"in","value":["quoteRequest","bulkQuoteRequest"]},
        {"fact":"payload","path":"$.note","operator":"equal","value":"forbidden"}]},
     "event":{"type":"INVALID_QUOTE_REQUEST","params":{"FSPIOPError":"PAYEE_UNSUPPORTED_CURRENCY","message":"by rule"}}},
    {"title":"to the provider","conditions":{"all":[
        {"fact":"payload","path":"$.amount.currency","operator":"equal","value":"KES"},
        {"fact":"payload","path":"$.amount.currency","operator":"notIn",
         "value":{"fact":"payee","path":"$.accounts[?(@.ledgerAccountType == 'POSITION' && @.isActive == 1)].currency"}},
        {"fact":"payer","path":"$.accounts[?(@.isActive == 0)].currency","operator":"arrayEqual","value":"EUR"},
        {"fact":"headers","path":"$.fspiop-source","operator":"notEqual","value":"fxp"}]},
     "event":{"type":"INTERCEPT_QUOTE","params":{"rerouteToFsp":"fxp","additionalHeaders":{"x-fspiop-sourcecurrency":"KES"}}}},
    {"title":"lost","conditions":{"any":[{"fact":"payload","path":"$.note","operator":"equal","value":"lost"}]},
     "event":{"type":"INTERCEPT_QUOTE","params":{"rerouteToFsp":"nobank"}}}]"#;

#[tokio::test]
async fn rules_reject_and_reroute() {
    let hub = Hub::new(Setup { rules: RULES, ..Setup::default() });
    let note = |text: &'static str| quote(&[("note", text), ("quoteId", r#""01J8ZC5Y2T3V4W5X6Y7Z8A9B0C""#)]);
    hub.take(POST, "bluebank", "greenbank", &quote(&[])).await.unwrap();
    assert_eq!(hub.sent(), ["greenbank POST /quotes/quotes < bluebank"]);

    hub.take(POST, "bluebank", "greenbank", &note(r#""forbidden""#)).await.unwrap();
    let path = "bluebank PUT /quotes/quotes/01J8ZC5Y2T3V4W5X6Y7Z8A9B0C/error < Hub";
    assert_eq!(hub.sent(), [format!("{path} 5106 Payee unsupported currency - by rule")]);

    hub.take(POST, "bluebank", "greenbank", &note(r#""lost""#)).await.unwrap();
    assert_eq!(hub.sent(), [format!("{path} 3201 Destination FSP Error - Destination FSP not found")]);

    let kes = quote(&[
        ("amount.currency", r#""KES""#),
        ("payer.supportedCurrencies", r#"["KES"]"#),
        ("quoteId", r#""01J8ZC5Y2T3V4W5X6Y7Z8A9B0D""#),
    ]);
    hub.take(POST, "bluebank", "greenbank", &kes).await.unwrap();
    let (_, request) = hub.recorder.requests.lock().unwrap()[0].clone();
    assert_eq!(request.headers["x-fspiop-sourcecurrency"], "KES");
    assert_eq!(request.body, kes.as_bytes());
    assert_eq!(hub.sent(), ["fxp POST /quotes/quotes < bluebank"]);
}
