//! A small identity provider for tests. Its tokens may have any fault.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    self, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RsaEncoding,
    RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

pub fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A key pair of the provider.
pub enum Key {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Key {
    pub fn rsa() -> Self {
        Self::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()))
    }

    pub fn p256() -> Self {
        Self::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    pub fn ed25519() -> Self {
        Self::Ed25519(Ed25519KeyPair::generate().unwrap())
    }

    /// The key as the provider publishes it.
    pub fn public(&self, id: &str) -> Value {
        match self {
            Self::Rsa(pair) => {
                json!({"kty": "RSA", "kid": id, "use": "sig", "n": encode(&modulus(pair)), "e": "AQAB"})
            }
            Self::P256(pair) => {
                let point = pair.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "kid": id, "x": encode(&point[1..33]), "y": encode(&point[33..])})
            }
            Self::Ed25519(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": encode(pair.public_key().as_ref())})
            }
        }
    }

    /// The public part of the key, which a forger knows.
    pub fn public_der(&self) -> Vec<u8> {
        match self {
            Self::Rsa(pair) => pair.public_key().as_der().unwrap().as_ref().to_vec(),
            _ => unreachable!("only of RSA"),
        }
    }

    /// Signs a message.
    pub fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Rsa(pair) => {
                let padding: &'static dyn RsaEncoding = match algorithm {
                    "RS384" => &signature::RSA_PKCS1_SHA384,
                    "RS512" => &signature::RSA_PKCS1_SHA512,
                    "PS256" => &signature::RSA_PSS_SHA256,
                    "PS384" => &signature::RSA_PSS_SHA384,
                    "PS512" => &signature::RSA_PSS_SHA512,
                    _ => &signature::RSA_PKCS1_SHA256,
                };
                let mut signed = vec![0; pair.public_modulus_len()];
                pair.sign(padding, &SystemRandom::new(), message, &mut signed).unwrap();
                signed
            }
            Self::P256(pair) => pair.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
            Self::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    /// A token with this header and these claims.
    pub fn token(&self, header: &Value, claims: &Value) -> String {
        let signed =
            format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()));
        let algorithm = header["alg"].as_str().unwrap_or_default();
        format!("{signed}.{}", encode(&self.sign(algorithm, signed.as_bytes())))
    }
}

/// The modulus of 2048 bits. In PKCS#1 it comes before the five bytes of the exponent 65537.
fn modulus(pair: &RsaKeyPair) -> Vec<u8> {
    let der = pair.public_key().as_ref();
    der[der.len() - 5 - 256..der.len() - 5].to_vec()
}

/// The token endpoint of the provider. It sends the same answer to every request.
#[derive(Default)]
pub struct TokenEndpoint {
    /// The start line's status, and the rest of the head with the body.
    answer: Mutex<(String, String)>,
    /// The heads and bodies of all requests.
    requests: Mutex<Vec<String>>,
    /// Whether requests wait for their answer until the endpoint is released.
    is_slow: AtomicBool,
    released: Notify,
}

impl TokenEndpoint {
    /// Sets the status and the body of all answers.
    pub fn set(&self, status: &str, body: &str) {
        self.set_raw(status, &format!("content-length: {}\r\n\r\n{body}", body.len()));
    }

    /// Sets the status of all answers, and what follows the start line.
    pub fn set_raw(&self, status: &str, rest: &str) {
        *self.answer.lock().unwrap() = (status.to_owned(), rest.to_owned());
    }

    /// The requests until now.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Requests wait for their answer from now on.
    pub fn hold(&self) {
        self.is_slow.store(true, Ordering::SeqCst);
    }

    /// All waiting requests get their answer.
    pub fn release(&self) {
        self.is_slow.store(false, Ordering::SeqCst);
        self.released.notify_waiters();
    }

    async fn answer(&self, request: String) -> (String, String) {
        let mut released = std::pin::pin!(self.released.notified());
        released.as_mut().enable();
        self.requests.lock().unwrap().push(request);
        if self.is_slow.load(Ordering::SeqCst) {
            released.await;
        }
        self.answer.lock().unwrap().clone()
    }
}

/// The provider.
pub struct Provider {
    pub issuer: String,
    pub keys: Arc<Mutex<Vec<Value>>>,
    pub is_up: Arc<AtomicBool>,
    /// Number of requests for its keys.
    pub asked: Arc<AtomicUsize>,
    /// Additional members of its configuration.
    pub more: Arc<Mutex<Value>>,
    pub tokens: Arc<TokenEndpoint>,
}

impl Provider {
    /// Starts a provider that publishes these keys.
    pub async fn start(keys: Vec<Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let provider = Self {
            issuer: format!("http://{address}"),
            keys: Arc::new(Mutex::new(keys)),
            is_up: Arc::new(AtomicBool::new(true)),
            asked: Arc::default(),
            more: Arc::new(Mutex::new(json!({}))),
            tokens: Arc::default(),
        };
        let (keys, is_up, asked) =
            (Arc::clone(&provider.keys), Arc::clone(&provider.is_up), Arc::clone(&provider.asked));
        let (more, tokens) = (Arc::clone(&provider.more), Arc::clone(&provider.tokens));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (keys, more) = (keys.lock().unwrap().clone(), more.lock().unwrap().clone());
                let (is_up, asked, tokens) =
                    (is_up.load(Ordering::SeqCst), Arc::clone(&asked), Arc::clone(&tokens));
                tokio::spawn(answer(stream, configuration(address, &more), keys, is_up, asked, tokens));
            }
        });
        provider
    }

    pub fn set_keys(&self, keys: Vec<Value>) {
        *self.keys.lock().unwrap() = keys;
    }

    pub fn set_up(&self, is_up: bool) {
        self.is_up.store(is_up, Ordering::SeqCst);
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn configuration(address: SocketAddr, more: &Value) -> Value {
    let url = |path: &str| format!("http://{address}{path}");
    let mut all = json!({
        "issuer": url(""), "jwks_uri": url("/jwks"),
        "authorization_endpoint": url("/authorize"), "token_endpoint": url("/token"),
    });
    for (name, value) in more.as_object().unwrap() {
        all[name] = value.clone();
    }
    all
}

async fn answer(
    mut stream: TcpStream,
    configuration: Value,
    keys: Vec<Value>,
    is_up: bool,
    asked: Arc<AtomicUsize>,
    tokens: Arc<TokenEndpoint>,
) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).await.unwrap_or(0) == 1 {
        head.push(byte[0]);
    }
    let (status, rest) = if head.starts_with(b"POST /token ") {
        let head = String::from_utf8(head).unwrap();
        let length = head.to_ascii_lowercase();
        let length = length.split_once("content-length: ").unwrap().1.split('\r').next().unwrap().parse();
        let mut body = vec![0; length.unwrap()];
        stream.read_exact(&mut body).await.unwrap();
        tokens.answer(head + std::str::from_utf8(&body).unwrap()).await
    } else {
        let is_keys = head.starts_with(b"GET /jwks ");
        asked.fetch_add(usize::from(is_keys), Ordering::SeqCst);
        let body = if is_keys { json!({"keys": keys}) } else { configuration };
        let (status, body) = if is_up { ("200 OK", body.to_string()) } else { ("503 Busy", String::new()) };
        (status.to_owned(), format!("content-length: {}\r\n\r\n{body}", body.len()))
    };
    let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\n{rest}");
    let _ = stream.write_all(answer.as_bytes()).await;
}
