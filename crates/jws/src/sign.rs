//! Creates the signatures of the hub and of simulated DFSPs.

use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::digest::Digest;
use http::{HeaderMap, HeaderValue};
use serde::Serialize;
use upesi_keys::{Hash, Key, KeyError, KeyFamily, Keys, PrivateKeyLocation, Scheme};

use crate::algorithm::Algorithm;
use crate::envelope::{self, Envelope, encode};

/// The private key of a hub or a DFSP: RSA (RS256) or P-256 (ES256). Its debug output contains no secret.
#[derive(Clone)]
pub struct PrivateKey(Arc<dyn Key>);

/// A message cannot be signed: a header is not text, or the key did not sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message cannot be signed")]
pub struct NotSigned;

/// The data that a signature protects in addition to the body.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Message<'a> {
    /// The target of the request line.
    #[serde(rename = "FSPIOP-URI")]
    pub uri: &'a str,
    #[serde(rename = "FSPIOP-HTTP-Method")]
    pub method: &'a str,
    #[serde(rename = "FSPIOP-Source")]
    pub source: &'a str,
    /// The receiver, if the message names one.
    #[serde(rename = "FSPIOP-Destination", skip_serializing_if = "Option::is_none")]
    pub destination: Option<&'a str>,
    /// The date, if it is protected.
    #[serde(rename = "Date", skip_serializing_if = "Option::is_none")]
    pub date: Option<&'a str>,
}

/// The protected header, in the order of DFSPs' adapters.
#[derive(Serialize)]
struct OwnHeader<'a> {
    alg: &'static str,
    #[serde(flatten)]
    message: Message<'a>,
}

/// A message to be signed. The same message and key have the same draft.
#[derive(Debug)]
pub struct Draft {
    protected_header: String,
    digest: Digest,
}

impl<'a> Message<'a> {
    /// The data in the headers of a message, including the date.
    ///
    /// # Errors
    /// A header is missing or not text.
    pub fn of(headers: &'a HeaderMap) -> Result<Self, NotSigned> {
        let text =
            |name: &str| headers.get(name).map(|value| value.to_str().map_err(|_| NotSigned)).transpose();
        Ok(Self {
            uri: text("fspiop-uri")?.ok_or(NotSigned)?,
            method: text("fspiop-http-method")?.ok_or(NotSigned)?,
            source: text("fspiop-source")?.ok_or(NotSigned)?,
            destination: text("fspiop-destination")?,
            date: text("date")?,
        })
    }
}

impl Draft {
    /// The digest to sign.
    pub fn digest(&self) -> &[u8] {
        self.digest.as_ref()
    }

    /// The value of `FSPIOP-Signature` with this signature, which must be for this draft.
    ///
    /// # Errors
    /// The library failed.
    pub fn with(self, signature: &[u8]) -> Result<HeaderValue, NotSigned> {
        let envelope = Envelope { signature: encode(signature), protected_header: self.protected_header };
        let value = serde_json::to_string(&envelope).map_err(|_| NotSigned)?;
        HeaderValue::from_str(&value).map_err(|_| NotSigned)
    }
}

impl PrivateKey {
    /// Signs with an opened key.
    pub fn new(key: Arc<dyn Key>) -> Self {
        Self(key)
    }

    /// Reads a private key in PEM. Other users must not be able to read the file.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        Keys::in_files().open(&PrivateKeyLocation::File(path.to_owned())).map(Self)
    }

    /// The public key, as an X.509 `SubjectPublicKeyInfo`.
    pub fn public(&self) -> &[u8] {
        self.0.public()
    }

    /// The name of its algorithm, such as `RS256`.
    pub fn algorithm_name(&self) -> &'static str {
        self.algorithm().name()
    }

    /// The value of `FSPIOP-Signature` for a message with these headers, which name its method, URI, sender and
    /// receiver.
    ///
    /// # Errors
    /// A header is missing or not text.
    pub fn sign(&self, headers: &HeaderMap, body: &[u8]) -> Result<HeaderValue, NotSigned> {
        let draft = self.draft(Message::of(headers)?, body)?;
        let signature = self.signature(&draft)?;
        draft.with(&signature)
    }

    /// The draft for [`Self::signature`].
    ///
    /// # Errors
    /// The library failed.
    pub fn draft(&self, message: Message<'_>, body: &[u8]) -> Result<Draft, NotSigned> {
        let algorithm = self.algorithm();
        let protected = OwnHeader { alg: algorithm.name(), message };
        let protected_header = encode(&serde_json::to_vec(&protected).map_err(|_| NotSigned)?);
        let digest = envelope::digest(&protected_header, algorithm, body);
        Ok(Draft { protected_header, digest })
    }

    /// Signs a draft of this key.
    ///
    /// # Errors
    /// The library failed.
    pub fn signature(&self, draft: &Draft) -> Result<Vec<u8>, NotSigned> {
        let scheme = match self.0.kind() {
            KeyFamily::Rsa => Scheme::Pkcs1(Hash::Sha256),
            KeyFamily::P256 => Scheme::P256,
        };
        self.0.sign(scheme, &draft.digest).map_err(|_| NotSigned)
    }

    fn algorithm(&self) -> Algorithm {
        match self.0.kind() {
            KeyFamily::Rsa => Algorithm::Rs256,
            KeyFamily::P256 => Algorithm::Es256,
        }
    }
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PrivateKey").field(&self.algorithm()).finish()
    }
}
