//! Transfers are found in memory and in the archive, page by page.

use std::collections::BTreeMap;
use std::sync::Arc;

use upesi_admin::{MessageView, QuoteView};
use upesi_fspiop::Resource;
use upesi_ledger::Command;
use upesi_tables::store::{Store, StoreOptions};
use upesi_types::{Timestamp, TransferId};

use crate::common;
use crate::common::{Hub, fulfil, id, name, prepare, refusal};

const DFSPS: [&str; 3] = ["green", "blue", "red"];
/// Number of transfers per second of the test's clock.
const PER_SECOND: u64 = 10;

/// The test's data about a transfer: payer, payee, amount, state, and the second of its prepare.
type Deal = (&'static str, &'static str, u64, &'static str, u64);

/// Sixty transfers of all kinds. At the end most finished ones are in the archive, and some are in memory.
async fn busy() -> (Hub, BTreeMap<String, Deal>) {
    let hub = Hub::with_dfsps(&DFSPS).await;
    let mut deals = BTreeMap::new();
    for number in 1..=60_u64 {
        if number % PER_SECOND == 0 {
            hub.clock.advance(1_000);
        }
        let second = number / PER_SECOND;
        let (payer, payee) =
            (DFSPS[number as usize % 3], DFSPS[(number as usize + 1 + number as usize % 2) % 3]);
        let amount = 1 + number % 7;
        hub.submit(prepare(id(number), payer, payee, &amount.to_string()), "").await;
        let state = match number % 4 {
            0 => "RESERVED",
            1 | 2 => {
                hub.submit(Command::Fulfil(fulfil(id(number), payer, payee)), "").await;
                "COMMITTED"
            }
            _ => {
                let end = r#"{"action":"expire","reason":"a test"}"#;
                hub.expect("PUT", &format!("/transfers/{}", id(number)), end, 200).await;
                "EXPIRED_RESERVED"
            }
        };
        deals.insert(id(number).to_string(), (payer, payee, amount, state, second));
    }
    (hub, deals)
}

/// All pages of a search: the ids in their order, and the number of pages.
async fn pages(hub: &Hub, query: &str) -> (Vec<String>, usize) {
    let (mut found, mut count, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let page = hub.get(&format!("/transfers?{query}{cursor}")).await;
        let page: serde_json::Value = serde_json::from_str(&page).unwrap();
        for transfer in page["transfers"].as_array().unwrap() {
            found.push(transfer["transferId"].as_str().unwrap().to_owned());
        }
        count += 1;
        assert!(count < 200, "a search ends");
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (found, count),
        }
    }
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort();
    ids
}

type IsMeant = fn(&Deal) -> bool;

/// The ids of the deals that a search should find.
fn expected(deals: &BTreeMap<String, Deal>, is_meant: impl Fn(&Deal) -> bool) -> Vec<String> {
    deals.iter().filter(|(_, deal)| is_meant(deal)).map(|(id, _)| id.clone()).collect()
}

#[tokio::test]
async fn transfers_are_found_by_party_state_time_and_amount() {
    let (hub, deals) = busy().await;
    let searches: [(&str, IsMeant); 14] = [
        ("", |_| true),
        ("fsp=green", |deal| deal.0 == "green" || deal.1 == "green"),
        ("payer=green", |deal| deal.0 == "green"),
        ("payee=red", |deal| deal.1 == "red"),
        ("payer=green&payee=blue", |deal| deal.0 == "green" && deal.1 == "blue"),
        ("state=RESERVED", |deal| deal.3 == "RESERVED"),
        ("state=COMMITTED", |deal| deal.3 == "COMMITTED"),
        ("state=ABORTED", |deal| deal.3 == "EXPIRED_RESERVED"),
        ("state=EXPIRED_RESERVED", |deal| deal.3 == "EXPIRED_RESERVED"),
        ("state=INVALID", |_| false),
        ("amount=3&currency=KES", |deal| deal.2 == 3),
        ("currency=UGX", |_| false),
        ("from=2031-04-01T10:00:02.000Z&to=2031-04-01T10:00:04.000Z", |deal| (2..4).contains(&deal.4)),
        ("fsp=blue&state=COMMITTED&from=2031-04-01T10:00:03.000Z&amount=5.0", |deal| {
            (deal.0 == "blue" || deal.1 == "blue") && deal.3 == "COMMITTED" && deal.4 >= 3 && deal.2 == 5
        }),
    ];
    for (query, is_meant) in searches {
        let wanted = expected(&deals, is_meant);
        for limit in [1, 7, 1_000] {
            let (found, count) = pages(&hub, &format!("{query}&limit={limit}")).await;
            assert_eq!(sorted(found), wanted, "{query}, {limit} a page");
            assert!(count > wanted.len() / limit, "{query}: {count} pages of {limit}");
            let (found, _) = pages(&hub, &format!("{query}&limit={limit}&order=newest")).await;
            let mut newest_first: Vec<_> = (1..=60).rev().map(|number| id(number).to_string()).collect();
            newest_first.retain(|id| wanted.contains(id));
            assert_eq!(found, newest_first, "{query}, {limit} a page, newest first");
        }
    }
}

#[tokio::test]
async fn page_shows_transfers_like_the_single_call() {
    let (hub, deals) = busy().await;
    let page = hub.get("/transfers?limit=1000").await;
    for id in deals.keys() {
        assert!(page.contains(&hub.get(&format!("/transfers/{id}")).await), "{id}");
    }
}

/// After a restart, finished transfers are only in the archive. A search that runs while transfers end finds all of
/// them.
#[tokio::test]
async fn search_finds_transfers_that_end_meanwhile() {
    let (hub, deals) = busy().await;
    let first = hub.get("/transfers?limit=5").await;
    let first: serde_json::Value = serde_json::from_str(&first).unwrap();
    let mut found: Vec<String> = first["transfers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|transfer| transfer["transferId"].as_str().unwrap().to_owned())
        .collect();
    for id in expected(&deals, |deal| deal.3 == "RESERVED") {
        hub.expect("PUT", &format!("/transfers/{id}"), r#"{"action":"expire","reason":"meanwhile"}"#, 200)
            .await;
    }
    let (rest, _) = pages(&hub, &format!("cursor={}&limit=9", first["next"].as_str().unwrap())).await;
    found.extend(rest);
    let mut found = sorted(found);
    found.dedup();
    assert_eq!(found, expected(&deals, |_| true));
}

#[tokio::test]
async fn searches_with_invalid_parameters_are_rejected() {
    let hub = Hub::with_dfsps(&["green"]).await;
    let instant = "must be an instant such as 2026-11-21T09:39:53Z";
    for (query, code, detail) in [
        ("limit=0", 3101, "\"limit\" must be a whole number from 1 to 1000".to_owned()),
        ("limit=1001", 3101, "\"limit\" must be a whole number from 1 to 1000".to_owned()),
        ("from=yesterday", 3101, format!("\"from\" {instant}")),
        ("to=2031-04-01", 3101, format!("\"to\" {instant}")),
        ("amount=x", 3101, "\"amount\" must be a number in plain decimal digits".to_owned()),
        ("cursor=z", 3101, "\"cursor\" must be the \"next\" of a page".to_owned()),
        ("cursor=r&order=newest", 3101, "\"cursor\" must be the \"next\" of a page".to_owned()),
        ("cursor=j.5", 3101, "\"cursor\" must be the \"next\" of a page".to_owned()),
        ("order=oldest", 3101, "\"order\" must be newest, or absent".to_owned()),
        ("payr=green", 3101, "\"payr\" is not allowed".to_owned()),
        ("fsp=absent", 3200, "Participant 'absent' does not exist".to_owned()),
    ] {
        let refused = hub.expect("GET", &format!("/transfers?{query}"), "", 400).await;
        let description = upesi_types::ErrorCode::from_number(code).unwrap().describe(&detail);
        assert_eq!(refused, refusal(code, &description.replace('"', "\\\"")), "{query}");
    }
    let refused = hub.expect("GET", "/transfers?state=DONE", "", 400).await;
    assert!(refused.contains("must be one of [RESERVED, COMMITTED, ABORTED, INVALID"), "{refused}");
}

// Stored quotes as operators see them.

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
async fn stored_quote_is_shown_with_its_messages() {
    let hub = Hub::start_with(Some(Arc::new(|id| Ok(kept(id)))));
    let expected = concat!(
        r#"{"resource":"fxQuotes","id":"6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11","beganDate":"2031-04-01T10:00:00.000Z","#,
        r#""wantedUntil":null,"request":{"at":"2031-04-01T10:00:00.000Z","source":"green","destination":"blue","#,
        r#""headers":{"fspiop-source":"green","x-many":"1, 2"},"body":"{ \"a\" :\n\"\\u00e9é\"}"},"#,
        r#""response":{"at":"2031-04-01T10:00:00.000Z","source":"blue","destination":null,"headers":{},"body":null},"error":null}"#,
    );
    assert_eq!(hub.get(&format!("/quotes/{ID}")).await, expected);
    for id in ["6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b12", "no-id"] {
        let text = format!("Quote ID not found - The hub has no quote {id}");
        assert_eq!(hub.call("GET", &format!("/quotes/{id}"), "").await, (404, refusal(3205, &text)));
    }
}

#[tokio::test]
async fn quotes_without_storage_are_answered_with_the_setting() {
    let hub = Hub::start();
    let text = "Quote ID not found - This hub does not store quotes, because quotes.persist is off";
    assert_eq!(hub.call("GET", &format!("/quotes/{ID}"), "").await, (404, refusal(3205, text)));
}

#[tokio::test]
async fn store_read_error_is_an_internal_error() {
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
