//! Requests that the admin port must reject, for every operation. New operations are included automatically.

use upesi_admin::{AllowedOrigins, Operation, WebOrigin};

use super::common::people::{call, expect, send, service, with_admin};
use crate::common;
use crate::common::people::{logged_in, person};
use crate::common::{Hub, Settings, id};

const MINUTE_MS: i64 = 60_000;

/// The path with values for its names.
fn path_of(operation: &Operation) -> String {
    let mut path = operation.path.replace("{name}", "green").replace("{operator}", "nosuch");
    while let (Some(from), Some(to)) = (path.find('{'), path.find('}')) {
        path.replace_range(from..=to, "1");
    }
    path
}

async fn last_seq(hub: &Hub) -> u64 {
    hub.handle.read(|ledger| ledger.last_seq()).await.unwrap()
}

/// Requests that a page of another site can make a browser send, without credentials. A hub without authentication is
/// protected only by this check.
#[tokio::test]
async fn pages_of_other_sites_reach_no_operation() {
    let hub = Hub::start();
    let before = last_seq(&hub).await;
    let mut refused = 0;
    for operation in hub.operations.clone() {
        let path = path_of(&operation);
        for lines in [
            "sec-fetch-site: cross-site\r\n",
            "sec-fetch-site: same-site\r\n",
            "sec-fetch-site: same-origin\r\nsec-fetch-site: cross-site\r\n",
            "sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n",
            "origin: https://evil.example\r\n",
            "origin: null\r\n",
            "origin: http://hub.evil.example\r\n",
            "origin: http://hub:8080\r\n",
            "origin: file://hub\r\n",
            "origin: http://hub\r\norigin: https://evil.example\r\n",
            "origin: https://evil.example\r\nsec-fetch-mode: navigate\r\n",
        ] {
            let (status, _, body) = send(&hub, lines, operation.method.as_str(), &path, "{}").await;
            let is_told = body.contains("another site") && body.contains("admin.allowed_origins");
            assert!(status == 403 && is_told, "{operation:?} {lines}: {status} {body}");
            refused += 1;
        }
        // A form navigates with POST. A link navigates with GET, which is allowed.
        let navigates = "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n";
        let is_get = operation.method == "GET";
        if !operation.path.starts_with("/debug/") {
            let (status, _, body) = send(&hub, navigates, operation.method.as_str(), &path, "{}").await;
            assert_eq!(status == 403, !is_get, "{operation:?}: {status} {body}");
        }
        assert_eq!(send(&hub, navigates, "HEAD", &path, "").await.0, 403);
    }
    assert!(refused > 700, "{refused}");
    assert_eq!(last_seq(&hub).await, before);
    // The port's own page, and programs, are allowed.
    for lines in [
        "origin: http://hub\r\nsec-fetch-site: same-origin\r\n",
        "origin: https://HUB\r\n",
        "sec-fetch-site: none\r\n",
        "",
    ] {
        let (status, _, body) = send(&hub, lines, "GET", "/participants", "").await;
        assert_eq!(status, 200, "{lines}: {body}");
    }
}

/// A portal behind a proxy that has changed the host of requests.
#[tokio::test]
async fn pages_of_allowed_origins_may_send_requests() {
    let origins = ["https://portal.example", "http://10.0.0.5:8080"];
    let allowed_origins = AllowedOrigins::new(origins.map(|origin| WebOrigin::parse(origin).unwrap()));
    let hub = Hub::launch(Settings { allowed_origins, ..Settings::default() });
    for (lines, is_own) in [
        ("origin: https://portal.example\r\nsec-fetch-site: same-origin\r\n", true),
        ("origin: https://PORTAL.example\r\n", true),
        ("origin: https://portal.example:443\r\n", true),
        ("origin: https://portal.example\r\nsec-fetch-site: same-site\r\n", true),
        ("origin: http://10.0.0.5:8080\r\n", true),
        ("origin: http://hub\r\nsec-fetch-site: same-origin\r\n", true),
        ("origin: http://portal.example\r\n", false),
        ("origin: https://portal.example:8443\r\n", false),
        ("origin: https://portal.example.evil.example\r\n", false),
        ("origin: https://evil.example\r\n", false),
        ("origin: null\r\n", false),
        ("origin: https://portal.example\r\norigin: https://evil.example\r\n", false),
        ("sec-fetch-site: cross-site\r\n", false),
    ] {
        let (status, _, body) = send(&hub, lines, "PUT", "/log-level", r#"{"level":"debug"}"#).await;
        assert_eq!(status, if is_own { 200 } else { 403 }, "{lines}: {body}");
        assert_eq!(body.contains("admin.allowed_origins"), !is_own, "{lines}: {body}");
    }
}

/// A form can send three content types without a preflight request. No change accepts them.
#[tokio::test]
async fn requests_of_html_forms_change_nothing() {
    let hub = Hub::start();
    let before = last_seq(&hub).await;
    let mut tried = 0;
    for operation in hub.operations.clone() {
        if operation.method != "POST" {
            continue;
        }
        for content in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
        {
            let (status, body) =
                hub.call_as(content, "POST", &path_of(&operation), r#"{"reason":"clicked"}"#).await;
            assert!((400..500).contains(&status), "{operation:?} {content}: {status} {body}");
            tried += 1;
        }
    }
    assert!(tried > 60, "{tried}");
    assert_eq!(last_seq(&hub).await, before);
    // No page may read an answer, or send a request that needs a preflight.
    for method in ["OPTIONS", "GET"] {
        let (head, _) = hub
            .exchange(&format!("{method} /participants HTTP/1.1\r\nhost: hub\r\nconnection: close\r\n\r\n"))
            .await;
        assert!(!head.to_ascii_lowercase().contains("access-control-"), "{head}");
    }
}

/// Every operation rejects an ended session, and a session of a user without the permission.
#[tokio::test]
async fn ended_sessions_and_users_of_other_roles_reach_no_operation() {
    let (hub, admin) = with_admin().await;
    let device = person(&hub, &admin, "amina", &["monitor"]).await;
    let ended = logged_in(&hub, "amina", &device).await;
    hub.clock.advance(15 * MINUTE_MS);
    let session = logged_in(&hub, "amina", &device).await;
    let mut refused = [0, 0];
    for operation in hub.operations.clone() {
        if refused[0] < 15 {
            // Wrong credentials of an address are slowed down, so not all operations are tried with the same address.
            let (status, body) =
                call(&hub, &ended, operation.method.as_str(), &path_of(&operation), "{}").await;
            assert_eq!(status, 401, "{operation:?}: {body}");
            refused[0] += 1;
        }
        let is_own = ["process.read", "process.metrics"];
        let may =
            operation.permissions.is_empty() || operation.permissions.iter().any(|one| is_own.contains(one));
        if may {
            continue;
        }
        let (status, body) =
            call(&hub, &session, operation.method.as_str(), &path_of(&operation), "{}").await;
        assert_eq!(status, 403, "{operation:?}: {body}");
        refused[1] += 1;
    }
    assert!(refused[1] > 60, "{refused:?}");
}

/// The request line decides the method, whatever a header or parameter says.
#[tokio::test]
async fn method_overrides_in_headers_and_parameters_are_ignored() {
    let (hub, admin) = with_admin().await;
    let operations = service(&hub, &admin, "deploy", &["operations"], None).await;
    for kind in ["HUB_MULTILATERAL_SETTLEMENT", "HUB_RECONCILIATION"] {
        let body = format!(r#"{{"currency":"KES","type":"{kind}"}}"#);
        expect(&hub, &operations, "POST", "/participants/Hub/accounts", &body, 201).await;
    }
    expect(&hub, &operations, "POST", "/settlementModels", common::MODEL, 201).await;
    expect(&hub, &operations, "POST", "/participants", r#"{"name":"green","currency":"KES"}"#, 201).await;
    let reader = service(&hub, &admin, "reader", &["viewer"], None).await;
    let before = last_seq(&hub).await;
    for header in ["x-http-method-override", "x-http-method", "x-method-override"] {
        for (token, method) in [(&operations, "PUT"), (&reader, "PUT"), (&reader, "DELETE")] {
            let lines = format!("authorization: Bearer {token}\r\n{header}: {method}\r\n");
            let off = r#"{"isActive":false}"#;
            let (status, _, body) = send(&hub, &lines, "GET", "/participants/green", off).await;
            assert!(status == 200 && body.contains(r#""isActive":1"#), "{header}: {status} {body}");
            // This path has no POST.
            assert_eq!(send(&hub, &lines, "POST", "/participants/green", off).await.0, 405);
            assert_eq!(send(&hub, &lines, "GET", "/participants/green?_method=PUT", off).await.0, 200);
        }
    }
    assert_eq!(last_seq(&hub).await, before);
    let _ = id(1);
}
