//! Messages of DFSPs, with every header that a DFSP may send, each with a distinct value.

use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};
use upesi_types::Timestamp;

use super::dfsp::request;

/// Media type of a family of messages in a version.
pub fn media_type(family: &str, version: &str) -> String {
    format!("application/vnd.interoperability.{family}+json;version={version}")
}

/// The family of messages that a path belongs to.
pub fn family(path: &str) -> &str {
    path.trim_start_matches('/').split(['/', '?']).next().unwrap_or_default()
}

/// The latest version that DFSPs use in a family. The latest version of transaction requests is 1.1.
fn version_of(family: &str) -> &'static str {
    if matches!(family, "transactionRequests" | "authorizations") { "1.1" } else { "2.0" }
}

pub const PREIMAGE: [u8; 32] = [7; 32];
pub const OTHER_PREIMAGE: [u8; 32] = [8; 32];

pub fn base64url(bytes: &[u8; 32]) -> String {
    String::from_utf8(upesi_fspiop::encode_octets(bytes).to_vec()).unwrap()
}

/// The fulfilment of every transfer of these tests.
pub fn fulfilment() -> String {
    base64url(&PREIMAGE)
}

pub fn condition() -> String {
    base64url(&Sha256::digest(PREIMAGE).into())
}

/// The terms of a transfer.
#[derive(Clone, Debug)]
pub struct Terms {
    pub id: String,
    pub payer: String,
    pub payee: String,
    pub amount: String,
    pub currency: String,
    pub expires: Timestamp,
    pub extensions: Option<String>,
}

impl Terms {
    /// 10 KES from greenbank to bluewallet, valid for half a minute.
    pub fn new(id: &str, now: Timestamp) -> Self {
        Self {
            id: id.to_owned(),
            payer: "greenbank".into(),
            payee: "bluewallet".into(),
            amount: "10".into(),
            currency: "KES".into(),
            expires: now.plus_ms(30_000),
            extensions: None,
        }
    }

    /// A body with the order of members of the API's own examples, which is not alphabetical, and with a member that
    /// the API does not know.
    pub fn body(&self) -> String {
        let Self { id, payer, payee, amount, currency, expires, extensions } = self;
        let extensions =
            extensions.as_ref().map_or_else(String::new, |list| format!(r#","extensionList":{list}"#));
        format!(
            r#"{{"transferId":"{id}", "payerFsp":"{payer}","payeeFsp":"{payee}","amount":{{"currency":"{currency}","amount":"{amount}"}},"ilpPacket":"AYICexampleilppacket0123","condition":"{}","expiration":"{expires}","note":"caf\u00e9 ☕"{extensions}}}"#,
            condition()
        )
    }
}

/// A message that is being built.
#[derive(Clone, Debug)]
pub struct Message {
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// A sent message.
#[derive(Clone, Debug)]
pub struct Sent {
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Sent {
    pub fn bytes(&self) -> Vec<u8> {
        request(&format!("{} {}", self.method, self.path), &self.headers, &self.body)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| &**value)
    }
}

impl Message {
    fn new(method: &'static str, path: String, source: &str, destination: &str, body: String) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let family = family(&path);
        let version = version_of(family);
        let path_only = path.split('?').next().unwrap_or_default();
        let mut headers = vec![
            ("host", "switch.example".to_owned()),
            ("content-type", media_type(family, version)),
            ("accept", media_type(family, &version[..1])),
            // An old date: hubs do not check its age, and messages of the hub have their own date.
            ("date", "Tue, 01 Apr 2025 12:00:00 GMT".into()),
            ("fspiop-source", source.into()),
            ("fspiop-destination", destination.into()),
            // As sent by DFSPs whose hub has a base path.
            ("fspiop-uri", format!("/switch{path_only}")),
            ("fspiop-http-method", method.into()),
            (
                "fspiop-signature",
                format!(r#"{{"signature":"c2ln{number}","protectedHeader":"eyJhbGciOiJSUzI1NiJ9"}}"#),
            ),
            ("fspiop-encryption", r#"{"encryptedFields":[]}"#.into()),
            ("traceparent", format!("00-{:032x}-{number:016x}-01", 0xabcd_0000_0000 + number)),
            (
                "tracestate",
                format!("acmevendor=eyJzcGFuSWQiOiIxIn0=,tx_end2end_start_ts=17000000{number:05}"),
            ),
            ("x-forwarded-for", "203.0.113.7".into()),
            ("x-forwarded-for", "198.51.100.9".into()),
            ("x-real-ip", "203.0.113.7".into()),
            ("x-api-key", "of the sender".into()),
            ("forwarded", "for=203.0.113.7".into()),
            ("x-of-this-hop", "named by connection".into()),
            ("x-scheme-own", format!("kept as it is, \"{number}\"")),
            ("user-agent", "dfsp/1.0".into()),
            // Headers of this connection only.
            ("connection", "keep-alive, X-Of-This-Hop".into()),
            ("keep-alive", "timeout=5".into()),
            ("te", "trailers".into()),
        ];
        if method == "PUT" {
            headers.retain(|(name, _)| *name != "accept");
        }
        let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { method, path, headers, body: body.into_bytes() }
    }

    pub fn prepare(terms: &Terms) -> Self {
        Self::new("POST", "/transfers".into(), &terms.payer, &terms.payee, terms.body())
    }

    /// Bluewallet's answer to greenbank, with the correct fulfilment.
    pub fn fulfil(id: &str, state: &str) -> Self {
        let body = format!(r#"{{"transferState":"{state}", "fulfilment":"{}"}}"#, fulfilment());
        Self::new("PUT", format!("/transfers/{id}"), "bluewallet", "greenbank", body)
    }

    /// Bluewallet's error.
    pub fn abort(id: &str, code: &str, description: &str) -> Self {
        let body = format!(
            r#"{{"errorInformation":{{"errorDescription":"{description}", "errorCode":"{code}"}},"own":[1,2.50]}}"#
        );
        Self::new("PUT", format!("/transfers/{id}/error"), "bluewallet", "greenbank", body)
    }

    pub fn get(id: &str, source: &str) -> Self {
        Self::new("GET", format!("/transfers/{id}"), source, "Hub", String::new())
    }

    /// A message of any family. Lookups and registrations may have no destination.
    pub fn of(
        method: &'static str,
        path: &str,
        source: &str,
        destination: Option<&str>,
        body: impl Into<Vec<u8>>,
    ) -> Self {
        let message = Self::new(method, path.into(), source, destination.unwrap_or_default(), String::new());
        let message = message.body(body);
        if destination.is_some() { message } else { message.without("fspiop-destination") }
    }

    pub fn from(self, source: &str) -> Self {
        self.header("fspiop-source", source)
    }

    pub fn to(self, destination: &str) -> Self {
        self.header("fspiop-destination", destination)
    }

    /// Sets the version of `Content-Type`.
    pub fn version(self, version: &str) -> Self {
        let media_type = media_type(family(&self.path), version);
        self.header("content-type", &media_type)
    }

    /// Replaces or adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        match self.headers.iter_mut().find(|(found, _)| found == name) {
            Some(header) => value.clone_into(&mut header.1),
            None => self.headers.push((name.to_owned(), value.to_owned())),
        }
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(found, _)| found != name);
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub fn into_sent(self) -> Sent {
        let Self { method, path, headers, body } = self;
        Sent { method, path, headers, body }
    }
}
