//! Transaction requests and authorizations: forwarded, with an error if that fails.

use crate::common::*;

#[tokio::test]
async fn all_messages_go_to_the_destination() {
    let query = "authenticationType=OTP&retriesLeft=2&amount=102&currency=USD";
    for (line, base, body) in [
        ("POST /transactionRequests".to_owned(), "requests", request_to_pay()),
        (format!("GET /transactionRequests/{QUOTE_ID}"), "requests", String::new()),
        (
            format!("PUT /transactionRequests/{QUOTE_ID}"),
            "requests",
            r#"{"transactionRequestState":"RECEIVED"}"#.to_owned(),
        ),
        (format!("PUT /transactionRequests/{QUOTE_ID}/error"), "requests", ERROR.to_owned()),
        (format!("GET /authorizations/{QUOTE_ID}?{query}"), "authorizations", String::new()),
        (
            format!("PUT /authorizations/{QUOTE_ID}"),
            "authorizations",
            r#"{"responseType":"ENTERED"}"#.to_owned(),
        ),
        (format!("PUT /authorizations/{QUOTE_ID}/error"), "authorizations", ERROR.to_owned()),
    ] {
        let (method, target) = line.split_once(' ').unwrap();
        let resource = target.split('/').nth(1).unwrap();
        let hub = Hub::new(Setup::default());
        // Twice, because the hub does not remember them.
        for _ in 0..2 {
            hub.take(&line, "redbank", "poorbank", &body).await.unwrap();
            assert_eq!(hub.sent(), [format!("poorbank {method} /{base}{target} < redbank")]);
        }
        let error = |text: &str| format!("bluebank PUT /{base}/{resource}/{QUOTE_ID}/error < Hub {text}");
        hub.take(&line, "bluebank", "nobank", &body).await.unwrap();
        assert_eq!(hub.sent(), [error("3201 Destination FSP Error - Destination FSP not found")], "{line}");
        hub.set_reply("greenbank", Reply::Status(503));
        hub.take(&line, "bluebank", "greenbank", &body).await.unwrap();
        let text = "1001 Destination communication error - The destination answered 503";
        assert_eq!(hub.sent()[1], error(text), "{line}");
        hub.take(&line, "bluebank", "mutebank", &body).await.unwrap();
        let told = &hub.sent()[0];
        let endpoint = if base == "requests" { "TRX_REQ_SERVICE" } else { "AUTHORIZATIONS" };
        let text = format!("3201 Destination FSP Error - No FSPIOP_CALLBACK_URL_{endpoint} found for ");
        assert!(told.starts_with(&error(&text)), "{told}");
    }
}

#[tokio::test]
async fn ids_of_payment_requests_are_forwarded_unchanged() {
    let hub = Hub::new(Setup::default());
    hub.take("GET /transactionRequests/a%20b", "bluebank", "greenbank", "").await.unwrap();
    assert_eq!(hub.sent(), ["greenbank GET /requests/transactionRequests/a%20b < bluebank"]);
    hub.take("GET /transactionRequests/a%20b", "bluebank", "nobank", "").await.unwrap();
    assert!(hub.sent()[0].starts_with("bluebank PUT /requests/transactionRequests/a%20b/error < Hub 3201"));
}

#[tokio::test]
async fn query_of_an_authorization_is_normalized() {
    let hub = Hub::new(Setup::default());
    let line = format!("GET /authorizations/{QUOTE_ID}?authenticationType=%4fTP&note=a+b%2B&amount=1");
    hub.take(&line, "bluebank", "greenbank", "").await.unwrap();
    let path = format!("/authorizations/authorizations/{QUOTE_ID}");
    let query = "authenticationType=OTP&note=a%20b%2B&amount=1";
    assert_eq!(hub.sent(), [format!("greenbank GET {path}?{query} < bluebank")]);
    let line = format!("GET /transactionRequests/{QUOTE_ID}?a=%41");
    hub.take(&line, "bluebank", "greenbank", "").await.unwrap();
    assert!(hub.sent()[0].contains("?a=%41 "), "other queries stay as they are");
}
