//! Stored quotes: after restarts, within limits, and as operators see them.

use std::path::Path;

use crate::common::*;
use upesi_fspiop::Resource;
use upesi_quoting::{KeptMessage, Quoting, QuotingConfig, QuotingError, QuotingMetrics, Retention, Rules};
use upesi_types::Timestamp;

const POST: &str = "POST /quotes";
const DAY_MS: i64 = 86_400_000;

fn open(path: &Path, retention: Retention) -> Hub {
    let config = QuotingConfig { keep: Some(retention), ..QuotingConfig::default() };
    Hub::new(Setup { config, store: Some(path), ..Setup::default() })
}

fn text(message: Option<&KeptMessage>) -> Option<(&str, Option<&str>, &str)> {
    let message = message?;
    let destination = message.destination.as_ref().map(|name| name.as_str());
    Some((message.source.as_str(), destination, str::from_utf8(&message.body).unwrap()))
}

fn ulid(number: usize) -> String {
    format!("01J8ZC5Y2T3V4W5X6Y7Z8A9{number:03}")
}

#[tokio::test]
async fn a_quote_is_found_with_all_its_messages() {
    let directory = tempfile::tempdir().unwrap();
    let hub = open(directory.path(), Retention::default());
    assert!(hub.quoting.keeps_quotes());
    assert_eq!(hub.quoting.find(QUOTE_ID).unwrap(), None);
    assert_eq!(hub.quoting.find("no id").unwrap(), None);

    let request = quote(&[("expiration", r#""2030-01-01T00:00:01.000Z""#)]);
    hub.take(POST, "bluebank", "greenbank", &request).await.unwrap();
    hub.pass_time(5);
    hub.take(&format!("PUT /quotes/{QUOTE_ID}"), "greenbank", "bluebank", &response(&[])).await.unwrap();
    hub.pass_time(5);
    hub.take(&format!("PUT /quotes/{QUOTE_ID}/error"), "greenbank", "bluebank", ERROR).await.unwrap();

    let began_at = Timestamp::parse_iso(NOW).unwrap();
    let found = hub.quoting.find(QUOTE_ID).unwrap().unwrap();
    assert_eq!((found.resource, found.id.to_string().as_str()), (Resource::Quotes, QUOTE_ID));
    assert_eq!((found.began_at, found.wanted_until), (began_at, Some(began_at.plus_ms(1000))));
    assert_eq!(text(found.request.as_ref()), Some(("bluebank", Some("greenbank"), &*request)));
    assert_eq!(text(found.response.as_ref()), Some(("greenbank", Some("bluebank"), &*response(&[]))));
    assert_eq!(text(found.error.as_ref()), Some(("greenbank", Some("bluebank"), ERROR)));
    let request = found.request.unwrap();
    assert!(str::from_utf8(&request.headers).unwrap().contains("fspiop-signature: sig\r\n"));
    assert_eq!(found.response.unwrap().at, began_at.plus_ms(5));
    assert_eq!(hub.metric("upesi_quoting_kept", &[]), 1);
}

#[tokio::test]
async fn duplicates_are_known_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let put = format!("PUT /quotes/{QUOTE_ID}");
    let hub = open(directory.path(), Retention::default());
    hub.take(POST, "bluebank", "greenbank", &quote(&[])).await.unwrap();
    hub.take(&put, "greenbank", "bluebank", &response(&[])).await.unwrap();
    drop(hub);

    let hub = open(directory.path(), Retention::default());
    assert_eq!(hub.metric("upesi_quoting_kept", &[]), 1);
    hub.take(POST, "bluebank", "greenbank", &quote(&[])).await.unwrap();
    hub.take(&put, "greenbank", "bluebank", &response(&[])).await.unwrap();
    assert_eq!(
        hub.sent(),
        [
            "greenbank POST /quotes/quotes < bluebank".to_owned(),
            format!("bluebank PUT /quotes/quotes/{QUOTE_ID} < greenbank"),
        ]
    );
    let changed = quote(&[("amount.amount", r#""13""#)]);
    hub.take(POST, "bluebank", "greenbank", &changed).await.unwrap();
    let changed_answer = response(&[("transferAmount.amount", r#""13""#)]);
    hub.take(&put, "greenbank", "bluebank", &changed_answer).await.unwrap();
    let error = |dfsp: &str, text: &str| {
        format!("{dfsp} PUT /quotes/quotes/{QUOTE_ID}/error < Hub 3106 Modified request - {text}")
    };
    assert_eq!(
        hub.sent(),
        [
            error("bluebank", &format!("Quote {QUOTE_ID} is a duplicate but hashes dont match")),
            error("greenbank", &format!("Update for quote {QUOTE_ID} is a duplicate but hashes don't match")),
        ]
    );
    // The first stored quote stays.
    let found = hub.quoting.find(QUOTE_ID).unwrap().unwrap();
    assert_eq!(found.request.unwrap().body, quote(&[]).as_bytes());
    assert_eq!(found.response.unwrap().body, response(&[]).as_bytes());
}

#[tokio::test]
async fn quotes_of_different_kinds_may_have_the_same_id() {
    let directory = tempfile::tempdir().unwrap();
    let hub = open(directory.path(), Retention::default());
    hub.take("POST /fxQuotes", "bluebank", "fxp", &fx_quote(&[])).await.unwrap();
    assert_eq!(hub.quoting.find(QUOTE_ID).unwrap().unwrap().resource, Resource::FxQuotes);
    hub.take("POST /bulkQuotes", "bluebank", "greenbank", &bulk(&[])).await.unwrap();
    assert_eq!(hub.quoting.find(QUOTE_ID).unwrap().unwrap().resource, Resource::BulkQuotes);
    assert_eq!(hub.sent().len(), 2);
    assert_eq!(hub.metric("upesi_quoting_kept", &[]), 2);
}

#[tokio::test]
async fn failed_delivery_is_stored_as_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let hub = open(directory.path(), Retention::default());
    hub.set_reply("greenbank", Reply::Silence);
    hub.take(POST, "bluebank", "greenbank", &quote(&[])).await.unwrap();
    let found = hub.quoting.find(QUOTE_ID).unwrap().unwrap();
    let told = r#"{"errorInformation":{"errorCode":"1001","errorDescription":"Destination communication error - Network error"}}"#;
    assert_eq!(text(found.error.as_ref()), Some(("Hub", Some("bluebank"), told)));
    // A repetition does not overwrite the stored messages.
    hub.set_reply("greenbank", Reply::Status(202));
    hub.take(POST, "bluebank", "greenbank", &quote(&[])).await.unwrap();
    assert!(hub.quoting.find(QUOTE_ID).unwrap().unwrap().error.is_some());
}

#[tokio::test]
async fn answer_before_its_request_is_stored_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let hub = open(directory.path(), Retention::default());
    hub.take(&format!("PUT /quotes/{QUOTE_ID}"), "greenbank", "bluebank", &response(&[])).await.unwrap();
    let wanted = quote(&[("expiration", r#""2030-01-01T00:00:01.000Z""#)]);
    hub.take(POST, "bluebank", "greenbank", &wanted).await.unwrap();
    let found = hub.quoting.find(QUOTE_ID).unwrap().unwrap();
    assert!(found.request.is_some() && found.response.is_some() && found.wanted_until.is_some());
    assert_eq!(hub.metric("upesi_quoting_kept", &[]), 1);
}

#[tokio::test]
async fn late_answer_is_not_stored() {
    let directory = tempfile::tempdir().unwrap();
    let config =
        QuotingConfig { keep: Some(Retention::default()), refuse_expired: true, ..QuotingConfig::default() };
    let hub = Hub::new(Setup { config, store: Some(directory.path()), ..Setup::default() });
    let wanted = quote(&[("expiration", r#""2030-01-01T00:00:01.000Z""#)]);
    hub.take(POST, "bluebank", "greenbank", &wanted).await.unwrap();
    hub.sent();
    hub.pass_time(1000);
    hub.take(&format!("PUT /quotes/{QUOTE_ID}"), "greenbank", "bluebank", &response(&[])).await.unwrap();
    let refused = format!("greenbank PUT /quotes/quotes/{QUOTE_ID}/error < Hub 3302 Quote expired");
    assert_eq!(hub.sent(), [refused]);
    assert_eq!(hub.quoting.find(QUOTE_ID).unwrap().unwrap().response, None);
}

#[tokio::test]
async fn rejected_requests_are_not_stored() {
    let directory = tempfile::tempdir().unwrap();
    let hub = open(directory.path(), Retention::default());
    hub.take(POST, "bluebank", "poorbank", &quote(&[])).await.unwrap();
    assert_eq!(hub.quoting.find(QUOTE_ID).unwrap(), None);
    assert_eq!(hub.metric("upesi_quoting_kept", &[]), 0);
}

#[tokio::test]
async fn retention_deletes_quotes_above_age_or_number() {
    let directory = tempfile::tempdir().unwrap();
    let bounds = Retention { keep_days: 2, keep_max: 150 };
    let hub = open(directory.path(), bounds);
    let total = 400;
    for number in 0..total {
        let body = quote(&[("quoteId", &format!(r#""{}""#, ulid(number)))]);
        hub.take(POST, "bluebank", "greenbank", &body).await.unwrap();
        hub.pass_time(1);
    }
    let kept = |hub: &Hub| -> Vec<usize> {
        (0..total).filter(|number| hub.quoting.find(&ulid(*number)).unwrap().is_some()).collect()
    };
    assert_eq!(kept(&hub).len(), total, "no quote is deleted before the retention runs");
    assert_eq!(hub.quoting.drop_old().await.unwrap(), 250);
    assert_eq!(kept(&hub), (250..total).collect::<Vec<_>>());
    assert_eq!(hub.quoting.drop_old().await.unwrap(), 0);
    assert_eq!(hub.metric("upesi_quoting_kept", &[]), 150);
    assert_eq!(hub.metric("upesi_quoting_dropped_total", &[]), 250);

    // After a restart the count and the order are the same. The clock begins again at the same instant.
    drop(hub);
    let hub = open(directory.path(), bounds);
    assert_eq!(hub.metric("upesi_quoting_kept", &[]), 150);
    hub.pass_time(2 * DAY_MS + 300);
    assert_eq!(hub.quoting.drop_old().await.unwrap(), 50);
    assert_eq!(kept(&hub), (300..total).collect::<Vec<_>>());

    // A removed quote may come again, and is then new.
    let body = quote(&[("quoteId", &format!(r#""{}""#, ulid(0))), ("note", r#""again""#)]);
    hub.sent();
    hub.take(POST, "bluebank", "greenbank", &body).await.unwrap();
    assert_eq!(hub.sent(), ["greenbank POST /quotes/quotes < bluebank"]);
    hub.pass_time(10 * DAY_MS);
    assert_eq!(hub.quoting.drop_old().await.unwrap(), 101);
    assert!(kept(&hub).is_empty());
    assert_eq!(hub.metric("upesi_quoting_kept", &[]), 0);
}

#[tokio::test]
async fn quotes_stored_after_a_clock_step_back_are_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let hub = open(directory.path(), Retention { keep_days: 1, keep_max: 1 });
    for (number, step_ms) in [(0, -5 * DAY_MS), (1, -DAY_MS), (2, 0), (3, 0)] {
        let body = quote(&[("quoteId", &format!(r#""{}""#, ulid(number)))]);
        hub.take(POST, "bluebank", "greenbank", &body).await.unwrap();
        assert!(hub.quoting.drop_old().await.unwrap() <= 1);
        hub.pass_time(step_ms);
    }
    assert_eq!(hub.metric("upesi_quoting_kept", &[]), 1);
    assert!(hub.quoting.find(&ulid(3)).unwrap().is_some());
}

#[tokio::test]
async fn request_is_rejected_at_once_if_the_store_fails() {
    let directory = tempfile::tempdir().unwrap();
    let store = upesi_tables::store::Store::open(
        directory.path(),
        &upesi_tables::store::StoreOptions { free_bytes_min: 0, ..Default::default() },
    )
    .unwrap();
    let bare = Hub::new(Setup::default());
    let config = QuotingConfig { keep: Some(Retention::default()), ..QuotingConfig::default() };
    let metrics = QuotingMetrics::default();
    let quoting =
        Quoting::new(&config, bare.relay.clone(), Some(store.clone()), Rules::default(), metrics.clone());
    let quoting = quoting.unwrap();
    store.close();
    let request = received(POST, "bluebank", "greenbank", &quote(&[]), &[]);
    let refused = upesi_delivery::Handler::handle(&quoting, request).await.unwrap_err();
    assert_eq!((refused.status, refused.code.number()), (503, 2003));
    assert!(bare.sent().is_empty());
    let without = Quoting::new(&config, bare.relay.clone(), None, Rules::default(), metrics);
    assert!(matches!(without.map(|_| ()), Err(QuotingError::NoStore)));
}
