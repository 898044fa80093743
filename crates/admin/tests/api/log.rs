//! The log of requests: each rejected request of an operator, and a count of rejections of other clients.

use std::fmt::{Debug, Write as _};
use std::sync::{Mutex, OnceLock};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::common::people::{call, expect, guarded, send, service, with_admin};
use crate::common::Hub;

/// The log lines of all tests of this program, which run concurrently. A test looks for its own lines.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Log;

/// Fields as `name=value`.
#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("upesi_admin")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        LINES.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Lines are collected from now on.
fn begin() {
    static BEGUN: OnceLock<()> = OnceLock::new();
    BEGUN.get_or_init(|| tracing::subscriber::set_global_default(Log).unwrap());
}

/// The lines with all of these words.
fn lines(words: &[&str]) -> Vec<String> {
    let lines = LINES.lock().unwrap();
    lines.iter().filter(|line| words.iter().all(|word| line.contains(word))).cloned().collect()
}

#[tokio::test]
async fn every_rejected_request_of_an_operator_is_logged_with_its_name() {
    begin();
    let (hub, admin) = with_admin().await;
    let token = service(&hub, &admin, "zawadi", &["viewer"], None).await;
    let named = r#"operator="zawadi""#;
    // The number of attempts exceeds the number that the audit trail stores for one operator.
    for _ in 0..50 {
        let body = r#"{"name":"eve","roles":["iam-admin"]}"#;
        assert_eq!(call(&hub, &token, "POST", "/operators", body).await.0, 403);
    }
    assert_eq!(lines(&[named, "path=\"/operators\"", "status=403"]).len(), 50);
    // Also requests that no permission decides, and requests that change nothing.
    for (method, path, status) in
        [("PUT", "/nothing-of-zawadi", 404), ("GET", "/nobody-of-zawadi", 404), ("PATCH", "/operators", 405)]
    {
        assert_eq!(call(&hub, &token, method, path, "{}").await.0, status, "{method} {path}");
        let path = format!("path=\"{path}\"");
        assert_eq!(lines(&[named, &path, method, &format!("status={status}")]).len(), 1, "{method} {path}");
    }
    assert_eq!(call(&hub, &token, "GET", "/participants", "").await.0, 200);
    assert_eq!(lines(&[named, "status=200"]), [""; 0], "reads are not logged");
}

#[tokio::test]
async fn rejections_of_unauthenticated_clients_are_counted_with_short_paths() {
    begin();
    let hub = guarded();
    let long = |tag: &str| format!("/{tag}{}", "x".repeat(50_000));
    for method in ["POST", "PUT", "DELETE", "GET", "PATCH"] {
        for _ in 0..20 {
            send(&hub, "", method, &long("unknown-stranger"), "{}").await;
        }
    }
    let told = lines(&["unknown-stranger"]);
    assert!((1..=2).contains(&told.len()), "{} lines", told.len());
    assert!(told.iter().all(|line| line.len() < 600), "{told:?}");
    assert!(told[0].contains("status=401 times=1 ") && told[0].contains("(50017 bytes)"), "{told:?}");
}

#[tokio::test]
async fn logged_change_is_the_entry_of_the_trail() {
    begin();
    let (hub, admin) = with_admin().await;
    let auditor = service(&hub, &admin, "auditor", &["auditor"], None).await;
    service(&hub, &admin, "logged", &["viewer"], None).await;
    let body = r#"{"roles":["viewer","support"]}"#;
    expect(&hub, &admin, "PUT", "/operators/logged", body, 200).await;
    let page = expect(&hub, &auditor, "GET", "/audit?object=operator%20logged", "", 200).await;
    let entries = page["entries"].as_array().unwrap().iter();
    let entries: Vec<_> = entries.filter(|entry| entry["object"] == "operator logged").collect();
    let told = lines(&["what=operator logged "]);
    assert!(entries.len() == 2 && told.len() == entries.len(), "{entries:?} {told:?}");
    for entry in entries {
        let text = |name: &str| entry[name].as_str().unwrap().to_owned();
        let number = format!("number={} ", entry["number"]);
        let change = format!("from={} to={} operator=iam ", text("before"), text("after"));
        let is_told = |line: &String| line.contains(&number) && line.contains(&change);
        assert_eq!(told.iter().filter(|line| is_told(line)).count(), 1, "{entry}: {told:?}");
    }
}

/// Size of the journal's records after a flood.
#[tokio::test]
async fn trail_entries_of_unauthenticated_clients_are_short() {
    let (hub, admin) = with_admin().await;
    let path = format!("/operators/{}", "y".repeat(50_000));
    for _ in 0..20 {
        assert_eq!(call(&hub, "upesi_wrong", "PUT", &path, "{}").await.0, 401);
    }
    let auditor = service(&hub, &admin, "auditor", &["auditor"], None).await;
    let page = expect(&hub, &auditor, "GET", "/audit?outcome=refused", "", 200).await;
    let entries = page["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 20);
    for entry in entries {
        let object = entry["object"].as_str().unwrap();
        assert!(object.starts_with("PUT /operators/yyy") && object.ends_with("… (50011 bytes)"), "{object}");
        assert!(object.len() < 200, "{object}");
    }
}

async fn refused_of(hub: &Hub, auditor: &str, operator: &str) -> usize {
    let query = format!("/audit?outcome=refused&operator={operator}");
    let page = expect(hub, auditor, "GET", &query, "", 200).await;
    page["entries"].as_array().unwrap().len()
}

/// With a shared limit, three anonymous requests per second would hide twelve attempts of an operator.
#[tokio::test]
async fn attempts_are_not_hidden_by_other_clients() {
    let (hub, admin) = with_admin().await;
    let auditor = service(&hub, &admin, "auditor", &["auditor"], None).await;
    let mallory = service(&hub, &admin, "mallory", &["operations"], None).await;
    let other = service(&hub, &admin, "mosi", &["viewer"], None).await;
    for index in 0..60 {
        assert_eq!(send(&hub, "", "GET", "/operators", "").await.0, 401);
        let lines = "authorization: Bearer upesi_wrong\r\n";
        assert!(index >= 15 || send(&hub, lines, "GET", "/operators", "").await.0 == 401);
        assert_eq!(call(&hub, &other, "PUT", "/operators/mosi", "{}").await.0, 403);
    }
    for _ in 0..12 {
        let body = r#"{"name":"eve","roles":["iam-admin"]}"#;
        assert_eq!(call(&hub, &mallory, "POST", "/operators", body).await.0, 403);
    }
    assert_eq!(refused_of(&hub, &auditor, "mallory").await, 12);
    assert!(refused_of(&hub, &auditor, "nobody").await >= 30);
    assert!(refused_of(&hub, &auditor, "mosi").await >= 30);
}
