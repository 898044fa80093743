//! People of the hub's own: their devices, enrolment and log-in.

use aws_lc_rs::hmac;
use serde_json::{Value, json};
use upesi_engine::Clock as _;

use super::Hub;
use super::guarded::{expect, send};

pub const PASSWORD: &str = "correct horse battery";

/// What shows the codes of a second factor, written without the hub's code.
pub struct Device {
    key: hmac::Key,
}

impl Device {
    /// By the secret as people type it.
    pub fn new(secret: &str) -> Self {
        let digit = |letter: u8| b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".iter().position(|one| *one == letter);
        let bits: String = secret.bytes().map(|letter| format!("{:05b}", digit(letter).unwrap())).collect();
        let bytes: Vec<u8> =
            (0..bits.len() / 8).map(|at| u8::from_str_radix(&bits[at * 8..at * 8 + 8], 2).unwrap()).collect();
        assert_eq!(bytes.len(), 20);
        Self { key: hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &bytes) }
    }

    /// The code of a moment.
    pub fn code_at(&self, ms: i64) -> String {
        let tag = hmac::sign(&self.key, &(ms / 30_000).to_be_bytes());
        let at = usize::from(tag.as_ref()[19] & 15);
        let number = u32::from_be_bytes(tag.as_ref()[at..at + 4].try_into().unwrap()) & 0x7fff_ffff;
        format!("{:06}", number % 1_000_000)
    }

    /// The code of the hub's next interval: the one of now was used already.
    pub fn next_code(&self, hub: &Hub) -> String {
        hub.clock.advance(30_000);
        self.code_at(hub.clock.now().as_ms())
    }
}

/// Without a token.
pub async fn ask(hub: &Hub, path: &str, body: Value) -> (u16, Value) {
    let (status, _, body) = send(hub, "", "POST", path, &body.to_string()).await;
    (status, serde_json::from_str(&body).unwrap_or(Value::Null))
}

/// The token by which an operator enrols.
pub async fn invited(hub: &Hub, admin: &str, name: &str) -> String {
    let made = expect(hub, admin, "POST", &format!("/operators/{name}/enrolments"), "{}", 201).await;
    made["token"].as_str().unwrap().to_owned()
}

/// Takes a password and a second factor.
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

/// A new operator that is a person.
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
