//! Kept quotes as operators see them.

use crate::common;
use std::sync::Arc;

use crate::common::{Hub, name, refusal};
use upesi_admin::{MessageView, QuoteView};
use upesi_fspiop::Resource;
use upesi_tables::store::{Store, StoreOptions};
use upesi_types::{Timestamp, TransferId};

const ID: &str = "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11";

fn message(source: &str, destination: Option<&str>, headers: &str, body: &[u8]) -> MessageView {
    let at = Timestamp::parse_iso(common::START).unwrap();
    MessageView::new(at, name(source), destination.map(name), headers.as_bytes(), body.to_vec())
}

fn kept(id: &str) -> Option<QuoteView> {
    let began_at = Timestamp::parse_iso(common::START).unwrap();
    let mut quote = QuoteView::new(Resource::FxQuotes, TransferId::parse(ID).unwrap(), began_at, None);
    quote.request = Some(message(
        "green",
        Some("blue"),
        "x-many: 1\r\nfspiop-source: green\r\nx-many: 2\r\n",
        b"{ \"a\" :\n\"\\u00e9\xc3\xa9\"}",
    ));
    quote.response = Some(message("blue", None, "", b"\xff"));
    (id == ID).then_some(quote)
}

#[tokio::test]
async fn a_kept_quote_is_shown_with_its_messages() {
    let hub = Hub::start_with(Some(Arc::new(|id| Ok(kept(id)))));
    let expected = concat!(
        r#"{"resource":"fxQuotes","id":"6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11","beganDate":"2031-04-01T10:00:00.000Z","#,
        r#""wantedUntil":null,"request":{"at":"2031-04-01T10:00:00.000Z","source":"green","destination":"blue","#,
        r#""headers":{"fspiop-source":"green","x-many":"1, 2"},"body":"{ \"a\" :\n\"\\u00e9é\"}"},"#,
        r#""response":{"at":"2031-04-01T10:00:00.000Z","source":"blue","destination":null,"headers":{},"body":null},"error":null}"#,
    );
    assert_eq!(hub.get(&format!("/quotes/{ID}")).await, expected);
    for id in ["6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b12", "no-id"] {
        let text = format!("Quote ID not found - No quote {id} is kept");
        assert_eq!(hub.call("GET", &format!("/quotes/{id}"), "").await, (404, refusal(3205, &text)));
    }
}

#[tokio::test]
async fn a_hub_that_keeps_no_quotes_says_so() {
    let hub = Hub::start();
    let text = "Quote ID not found - This hub keeps no quotes, as quotes.persist is off";
    assert_eq!(hub.call("GET", &format!("/quotes/{ID}"), "").await, (404, refusal(3205, text)));
}

#[tokio::test]
async fn a_store_that_cannot_be_read_is_the_hubs_fault() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), &StoreOptions { free_bytes_min: 0, ..StoreOptions::default() });
    let store = store.unwrap();
    store.close();
    let refused = store.update(|_| Ok(())).await.unwrap_err();
    let text = refused.to_string();
    let slot = std::sync::Mutex::new(Some(refused));
    let hub = Hub::start_with(Some(Arc::new(move |_| Err(slot.lock().unwrap().take().unwrap()))));
    let (status, body) = hub.call("GET", &format!("/quotes/{ID}"), "").await;
    assert_eq!(status, 503, "{body}");
    assert!(body.contains(&text), "{body}");
}
