//! Users of the hub: their devices, enrolments and logins.

use serde_json::{Value, json};
use upesi_admin::make_bootstrap;
use upesi_engine::Clock as _;
use upesi_testsupport::second_factor;

use super::{Hub, Settings};

pub const PASSWORD: &str = "correct horse battery";

/// A user's device that shows the codes of the second factor.
pub struct Device(second_factor::Device);

impl Device {
    /// Creates a device from the secret in the form that users type.
    pub fn new(secret: &str) -> Self {
        Self(second_factor::Device::new(secret))
    }

    /// The code at this time.
    pub fn code_at(&self, ms: i64) -> String {
        self.0.code_at(ms)
    }

    /// The code of the hub's next interval, because the present one was already used.
    pub fn next_code(&self, hub: &Hub) -> String {
        hub.clock.advance(30_000);
        self.code_at(hub.clock.now().as_ms())
    }
}

/// A request without a token.
pub async fn ask(hub: &Hub, path: &str, body: Value) -> (u16, Value) {
    let (status, _, body) = send(hub, "", "POST", path, &body.to_string()).await;
    (status, serde_json::from_str(&body).unwrap_or(Value::Null))
}

/// The enrolment token of an operator.
pub async fn invited(hub: &Hub, admin: &str, name: &str) -> String {
    let made = expect(hub, admin, "POST", &format!("/operators/{name}/enrolments"), "{}", 201).await;
    made["token"].as_str().unwrap().to_owned()
}

/// Sets a password and a second factor.
pub async fn enrolled(hub: &Hub, token: &str, password: &str) -> Device {
    let (status, begun) = ask(hub, "/enrolments", json!({"token": token, "password": password})).await;
    assert_eq!(status, 201, "{begun}");
    let secret = begun["secret"].as_str().unwrap();
    assert!(begun["uri"].as_str().unwrap().contains(secret), "{begun}");
    let device = Device::new(secret);
    let (status, done) =
        ask(hub, "/enrolments/confirm", json!({"token": token, "code": device.next_code(hub)})).await;
    assert_eq!((status, &done["operator"]), (201, &begun["operator"]));
    device
}

/// A new operator that is a user.
pub async fn person(hub: &Hub, admin: &str, name: &str, roles: &[&str]) -> Device {
    expect(hub, admin, "POST", "/operators", &json!({"name": name, "roles": roles}).to_string(), 201).await;
    enrolled(hub, &invited(hub, admin, name).await, PASSWORD).await
}

/// Tries to log in.
pub async fn log_in(hub: &Hub, name: &str, password: &str, code: &str) -> (u16, Value) {
    ask(hub, "/sessions", json!({"operator": name, "password": password, "code": code})).await
}

/// The token of a session.
pub async fn logged_in(hub: &Hub, name: &str, device: &Device) -> String {
    let (status, opened) = log_in(hub, name, PASSWORD, &device.next_code(hub)).await;
    assert_eq!(status, 201, "{opened}");
    opened["token"].as_str().unwrap().to_owned()
}

// Operators of a hub with authentication.

pub fn guarded() -> Hub {
    Hub::launch(Settings { authentication: true, ..Settings::default() })
}

/// Sends a request with these additional lines in its head.
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

/// A hub with an administrator of operators, created as in a new installation.
pub async fn with_admin() -> (Hub, String) {
    let hub = guarded();
    let bootstrap = make_bootstrap(hub.directory.path()).unwrap();
    let admin = service(&hub, &bootstrap, "iam", &["iam-admin"], None).await;
    (hub, admin)
}

/// A hub with two-person changes and two administrators. Returns the token of each.
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

/// A request with a reason.
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

/// Approves a pending change.
pub async fn approve(hub: &Hub, token: &str, waiting: &Value) -> Value {
    let path = format!("/approvals/{}/approve", waiting["approvalId"]);
    expect(hub, token, "POST", &path, r#"{"comment":"looked at"}"#, 200).await
}
