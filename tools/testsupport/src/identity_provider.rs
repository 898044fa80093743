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

/// The provider.
pub struct Provider {
    pub issuer: String,
    pub keys: Arc<Mutex<Vec<Value>>>,
    pub is_up: Arc<AtomicBool>,
    /// Number of requests for its keys.
    pub asked: Arc<AtomicUsize>,
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
        };
        let (keys, is_up, asked) =
            (Arc::clone(&provider.keys), Arc::clone(&provider.is_up), Arc::clone(&provider.asked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let keys = keys.lock().unwrap().clone();
                answer(stream, address, &keys, is_up.load(Ordering::SeqCst), &asked).await;
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

async fn answer(
    mut stream: TcpStream,
    address: SocketAddr,
    keys: &[Value],
    is_up: bool,
    asked: &AtomicUsize,
) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).await.unwrap_or(0) == 1 {
        head.push(byte[0]);
    }
    let is_keys = head.starts_with(b"GET /jwks ");
    asked.fetch_add(usize::from(is_keys), Ordering::SeqCst);
    let body = match is_keys {
        true => json!({"keys": keys}),
        false => json!({"issuer": format!("http://{address}"), "jwks_uri": format!("http://{address}/jwks")}),
    };
    let (status, body) = if is_up { ("200 OK", body.to_string()) } else { ("503 Busy", String::new()) };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all((head + &body).as_bytes()).await;
}
