//! The API of a node that follows.

use std::sync::{Arc, Mutex};

use upesi_admin::Followed;
use upesi_http::Method;

use crate::common::{Hub, Settings, refusal};

const LEADER: &str = "This node follows; node 2 leads, at http://hub-2:4000";

fn hub(authentication: bool) -> (Hub, Arc<Mutex<Followed>>) {
    let leader = Some((2, "http://hub-2:4000".to_owned()));
    let at = Arc::new(Mutex::new(Followed { leader, age_ms: Some(412), record: 90 }));
    let shown = Arc::clone(&at);
    let followed: upesi_admin::FollowedNow = Arc::new(move || shown.lock().unwrap().clone());
    (Hub::launch(Settings { authentication, followed: Some(followed), ..Settings::default() }), at)
}

async fn head(hub: &Hub, path: &str) -> String {
    hub.exchange(&format!("GET {path} HTTP/1.1\r\nhost: hub\r\nconnection: close\r\n\r\n")).await.0
}

#[tokio::test]
async fn answers_say_how_old_they_are_and_changes_name_the_leader() {
    let (hub, at) = hub(false);
    let refused = (503, refusal(2003, &format!("Service currently unavailable - {LEADER}")));
    for operation in hub.operations.clone() {
        let path = operation.path.replace(['{', '}'], "");
        let answered = hub.call(operation.method.as_str(), &path, "").await;
        let of_leader = ["/oracles", "/directory", "/quotes", "/lanes", "/callbacks", "/sessions"];
        let is_here = operation.method == Method::GET
            && path != "/audit/checkpoint"
            && !of_leader.iter().any(|of| path.starts_with(of));
        assert_eq!(answered != refused, is_here, "{} {path}: {answered:?}", operation.method);
    }
    let told = head(&hub, "/participants").await;
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    for header in ["upesi-age-ms: 412", "upesi-record: 90", "upesi-leader: 2"] {
        assert!(told.contains(header), "{header} is not in {told}");
    }
    // It has read nothing: there is nothing to answer from.
    *at.lock().unwrap() = Followed::default();
    let nothing = "Service currently unavailable - This node has not read the log yet";
    assert_eq!(hub.call("GET", "/participants", "").await, (503, refusal(2003, nothing)));
    assert!(!head(&hub, "/live").await.contains("upesi-"));
    let nobody = "Service currently unavailable - This node follows, and no node leads";
    assert_eq!(hub.call("POST", "/participants", "{}").await, (503, refusal(2003, nobody)));
}

#[tokio::test]
async fn who_leads_is_for_operators_to_know() {
    let (hub, _) = hub(true);
    for (method, path) in [("POST", "/participants"), ("GET", "/participants")] {
        assert_eq!(hub.call(method, path, "").await.0, 401, "{method} {path}");
    }
}

#[tokio::test]
async fn a_hub_that_follows_nobody_says_no_age() {
    let told = head(&Hub::start(), "/participants").await;
    assert!(told.starts_with("HTTP/1.1 200") && !told.contains("upesi-"), "{told}");
}
