//! The audit trail by the API: paged, filtered, within a time, with signed checkpoints or without.

use crate::common;
use crate::common::{Hub, START, prepare};
use serde_json::Value;

async fn page(hub: &Hub, query: &str) -> (Vec<u64>, Option<String>) {
    let body: Value = serde_json::from_str(&hub.get(&format!("/audit{query}")).await).unwrap();
    let numbers = body["entries"].as_array().unwrap().iter().map(|entry| entry["number"].as_u64().unwrap());
    (numbers.collect(), body["next"].as_str().map(str::to_owned))
}

async fn numbers(hub: &Hub, query: &str) -> Vec<u64> {
    page(hub, query).await.0
}

/// Entries 1 to 9 of two DFSPs and their scheme, one payment, then one an hour later.
async fn with_entries() -> Hub {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    hub.submit(prepare(common::id(1), "green", "blue", "1"), "").await;
    hub.clock.advance(3_600_000);
    hub.expect("PUT", "/participants/green", r#"{"isActive":false}"#, 200).await;
    hub
}

#[tokio::test]
async fn entries_are_found_by_what_they_say() {
    let hub = with_entries().await;
    let (all, next) = page(&hub, "").await;
    assert_eq!(next, None);
    assert_eq!(all, (1..=10).collect::<Vec<_>>());
    let body: Value = serde_json::from_str(&hub.get("/audit?action=participant.disable").await).unwrap();
    let entry = &body["entries"][0];
    assert_eq!(entry["operator"], "anonymous");
    assert_eq!(entry["object"], "participant green");
    assert_eq!((&entry["before"], &entry["after"]), (&"active".into(), &"inactive".into()));
    assert_eq!(entry["outcome"], "done");
    assert_eq!(entry["at"], "2031-04-01T11:00:00.000Z");
    let head = hub.handle.read(|ledger| ledger.trail().head).await.unwrap();
    let hex: String = head.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(entry["chain"], hex);

    assert_eq!(numbers(&hub, "?object=green").await.last(), Some(&10));
    assert_eq!(numbers(&hub, "?operator=amina").await, [0; 0]);
    assert_eq!(numbers(&hub, "?action=participant").await.last(), Some(&10));
    assert_eq!(numbers(&hub, "?outcome=refused").await, [0; 0]);
    assert_eq!(numbers(&hub, "?from=2031-04-01T10:30:00.000Z").await, [10]);
    assert_eq!(numbers(&hub, "?from=2031-04-01T11:00:00.001Z").await, [0; 0]);
    assert_eq!(numbers(&hub, "?to=2031-04-01T10:30:00.000Z").await.len(), 9);
    assert_eq!(numbers(&hub, &format!("?from={START}")).await.len(), 10);
    for wrong in ["?from=x", "?outcome=maybe", "?limit=0", "?limit=1001", "?cursor=x", "?cursor=0", "?who=x"]
    {
        hub.expect("GET", &format!("/audit{wrong}"), "", 400).await;
    }
}

#[tokio::test]
async fn pages_have_every_entry_once() {
    let hub = with_entries().await;
    let (mut seen, mut next) = page(&hub, "?limit=3").await;
    let mut pages = 1;
    while let Some(cursor) = next {
        let (more, further) = page(&hub, &format!("?limit=3&cursor={cursor}")).await;
        assert!(more.len() <= 3);
        seen.extend(more);
        next = further;
        pages += 1;
    }
    assert_eq!((seen, pages), ((1..=10).collect(), 4));
}

#[tokio::test]
async fn without_a_key_nothing_is_signed() {
    let hub = Hub::start();
    let answer = hub.expect("GET", "/audit/checkpoint", "", 400).await;
    assert!(answer.contains("admin.audit_key_file is not set"), "{answer}");
}
