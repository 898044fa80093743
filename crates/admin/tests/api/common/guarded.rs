//! Callers of a hub that asks who they are.

use serde_json::Value;
use upesi_admin::make_bootstrap;

use super::{Hub, Settings};

pub fn guarded() -> Hub {
    Hub::launch(Settings { authentication: true, ..Settings::default() })
}

/// Sends a request with these further lines in its head.
pub async fn send(hub: &Hub, lines: &str, method: &str, path: &str, body: &str) -> (u16, String, String) {
    let length = body.len();
    let content = "content-type: application/json\r\n";
    let head = format!("{method} {path} HTTP/1.1\r\nhost: hub\r\nconnection: close\r\n{content}");
    let request = format!("{head}content-length: {length}\r\n{lines}\r\n{body}");
    let (head, body) = hub.exchange(&request).await;
    (head.split(' ').nth(1).unwrap().parse().unwrap(), head, body)
}

pub async fn call(hub: &Hub, token: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let (status, _, body) =
        send(hub, &format!("authorization: Bearer {token}\r\n"), method, path, body).await;
    (status, body)
}

pub async fn expect(hub: &Hub, token: &str, method: &str, path: &str, body: &str, status: u16) -> Value {
    let (found, answer) = call(hub, token, method, path, body).await;
    assert_eq!(found, status, "{method} {path}: {answer}");
    serde_json::from_str(&answer).unwrap_or(Value::Null)
}

/// The token of a new service with these roles.
pub async fn service(
    hub: &Hub,
    admin: &str,
    name: &str,
    roles: &[&str],
    participant: Option<&str>,
) -> String {
    let mut body = serde_json::json!({"name": name, "roles": roles});
    if let Some(participant) = participant {
        body["participant"] = participant.into();
    }
    expect(hub, admin, "POST", "/operators", &body.to_string(), 201).await;
    let made = expect(hub, admin, "POST", &format!("/operators/{name}/tokens"), "{}", 201).await;
    made["token"].as_str().unwrap().to_owned()
}

/// A hub with an administrator of operators, by the way a new installation gets one.
pub async fn with_admin() -> (Hub, String) {
    let hub = guarded();
    let bootstrap = make_bootstrap(hub.directory.path()).unwrap();
    let admin = service(&hub, &bootstrap, "iam", &["iam-admin"], None).await;
    (hub, admin)
}

/// The same, where some changes need two people: with two administrators, of which the second is returned, too.
pub async fn with_approvals() -> (Hub, String, String) {
    let hub = Hub::launch(Settings { authentication: true, approvals: true, ..Settings::default() });
    let bootstrap = make_bootstrap(hub.directory.path()).unwrap();
    let first = service(&hub, &bootstrap, "ines", &["iam-admin"], None).await;
    let second = service(&hub, &first, "ivan", &["iam-admin"], None).await;
    (hub, first, second)
}

/// The token of a new operator that one administrator proposes and another one approves.
pub async fn approved_service(hub: &Hub, admins: (&str, &str), name: &str, roles: &[&str]) -> String {
    let body = serde_json::json!({"name": name, "roles": roles}).to_string();
    let waiting = expect_because(hub, admins.0, "POST", "/operators", &body, 202).await;
    approve(hub, admins.1, &waiting).await;
    let waiting =
        expect_because(hub, admins.0, "POST", &format!("/operators/{name}/tokens"), "{}", 202).await;
    let token = waiting["token"].as_str().unwrap().to_owned();
    assert_eq!(call(hub, &token, "GET", "/self", "").await.0, 401);
    approve(hub, admins.1, &waiting).await;
    token
}

/// A call that says why.
pub async fn expect_because(
    hub: &Hub,
    token: &str,
    method: &str,
    path: &str,
    body: &str,
    status: u16,
) -> Value {
    let lines = format!("authorization: Bearer {token}\r\nupesi-reason: as the board decided\r\n");
    let (found, _, answer) = send(hub, &lines, method, path, body).await;
    assert_eq!(found, status, "{method} {path}: {answer}");
    serde_json::from_str(&answer).unwrap_or(Value::Null)
}

/// Approves what waits.
pub async fn approve(hub: &Hub, token: &str, waiting: &Value) -> Value {
    let path = format!("/approvals/{}/approve", waiting["approvalId"]);
    expect(hub, token, "POST", &path, r#"{"comment":"looked at"}"#, 200).await
}
