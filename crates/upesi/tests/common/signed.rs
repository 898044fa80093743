//! Signature keys, signed messages, and their verification by receivers.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use upesi_http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use upesi_jws::{Freshness, KeyRing, PrivateKey, Request, SIGNATURE, verify};
use upesi_pki::{KeyKind, SigningKey};
use upesi_types::Timestamp;

use super::World;
use super::dfsp::Seen;
use super::message::Message;

const DFSPS: [&str; 2] = ["greenbank", "bluewallet"];

/// The keys of two DFSPs and the hub.
pub struct Keys {
    directory: TempDir,
}

impl Keys {
    pub fn new() -> Self {
        let keys = Self { directory: TempDir::new().unwrap() };
        for name in DFSPS {
            keys.make(name);
            keys.publish(name);
        }
        keys.make("Hub");
        keys
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn make(&self, name: &str) {
        SigningKey::make(&self.path("own"), name, KeyKind::Rsa2048).unwrap();
    }

    /// Publishes a DFSP's public key to the hub.
    pub fn publish(&self, name: &str) {
        fs::create_dir_all(self.path("public")).unwrap();
        let public = self.path("own").join(format!("{name}.pem"));
        fs::copy(public, self.path("public").join(format!("{name}.pem"))).unwrap();
    }

    pub fn of(&self, name: &str) -> PrivateKey {
        PrivateKey::load(&self.path("own").join(format!("{name}.key"))).unwrap()
    }

    /// The keys that a DFSP uses to verify messages: the keys of all DFSPs and of the hub.
    pub fn ring(&self) -> KeyRing {
        KeyRing::load(&self.path("own"), false).unwrap()
    }

    pub fn world(&self, more: &[(&str, &str)]) -> World {
        let (public, own) = (self.path("public"), self.path("own").join("Hub.key"));
        let text = |path: &Path| path.display().to_string();
        let (public, own) = (text(&public), text(&own));
        let mut settings = vec![("jws.keys_dir", &*public), ("jws.signing_key_file", &*own)];
        settings.push(("tls.reload_interval_s", "3600"));
        settings.extend_from_slice(more);
        World::new(&settings)
    }
}

fn headers(pairs: &[(String, String)]) -> HeaderMap {
    let pair = |(name, value): &(String, String)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
    };
    pairs.iter().map(pair).collect()
}

/// Signs a message with a key, as its sender would.
pub fn signed_by(message: Message, key: &PrivateKey) -> Message {
    let (path, method) = (message.path.clone(), message.method);
    let message = message.header("fspiop-uri", &path).header("fspiop-http-method", method);
    let value = key.sign(&headers(&message.headers), &message.body).unwrap();
    message.header(SIGNATURE, value.to_str().unwrap())
}

/// Verifies a received message as a DFSP would, by the headers for method and URI.
pub fn is_genuine(seen: &Seen, keys: &KeyRing) -> Result<(), String> {
    let uri: Uri = seen.header("fspiop-uri").ok_or("no URI")?.parse().map_err(|_| "bad URI")?;
    let method: Method =
        seen.header("fspiop-http-method").ok_or("no method")?.parse().map_err(|_| "bad method")?;
    let headers = headers(&seen.headers);
    let request = Request {
        method: &method,
        uri: &uri,
        headers: &headers,
        body: &seen.body,
        base_path: "",
        accepts_unprotected_date: false,
    };
    let now = Timestamp::parse_iso("2031-01-01T00:00:00.000Z").unwrap();
    verify(request, keys, Freshness::Any, now).map_err(|fault| fault.to_string())
}
