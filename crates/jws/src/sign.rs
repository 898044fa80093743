//! Signatures that are made here: the hub's own, and those of simulated DFSPs.

use std::path::Path;

use aws_lc_rs::digest::Digest;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use http::{HeaderMap, HeaderValue};
use serde::Serialize;

use crate::algorithm::Algorithm;
use crate::envelope::{self, Envelope, encode};
use crate::files::{self, KeyFileError, Section};

/// The private key of a hub or a DFSP. It prints nothing of itself.
pub struct PrivateKey(Kind);

enum Kind {
    Rsa(Box<RsaKeyPair>),
    P256(Box<EcdsaKeyPair>),
}

/// A message cannot be signed: a header is no text, or the library failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message cannot be signed")]
pub struct NotSigned;

/// What a signature protects beside the body.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Message<'a> {
    /// The target of the request line.
    #[serde(rename = "FSPIOP-URI")]
    pub uri: &'a str,
    /// The method.
    #[serde(rename = "FSPIOP-HTTP-Method")]
    pub method: &'a str,
    /// The sender.
    #[serde(rename = "FSPIOP-Source")]
    pub source: &'a str,
    /// The receiver, if the message names one.
    #[serde(rename = "FSPIOP-Destination", skip_serializing_if = "Option::is_none")]
    pub destination: Option<&'a str>,
    /// The date, if it is protected.
    #[serde(rename = "Date", skip_serializing_if = "Option::is_none")]
    pub date: Option<&'a str>,
}

/// In the order in which DFSPs' adapters write it.
#[derive(Serialize)]
struct Protected<'a> {
    alg: &'static str,
    #[serde(flatten)]
    message: Message<'a>,
}

/// A message about to be signed. The same message and key have the same draft.
#[derive(Debug)]
pub struct Draft {
    protected_header: String,
    digest: Digest,
}

impl<'a> Message<'a> {
    /// What the headers of a message name, the date included.
    ///
    /// # Errors
    /// One of them is missing or no text.
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
    /// The digest that is signed.
    pub fn digest(&self) -> &[u8] {
        self.digest.as_ref()
    }

    /// The value of `FSPIOP-Signature` with this signature, which must be that of the draft.
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
    /// Reads a private key in PEM: RSA of 2,048 bits or more (RS256), or P-256 (ES256). Other users must not be able to
    /// read the file.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn load(path: &Path) -> Result<Self, KeyFileError> {
        let refused = |problem: &str| KeyFileError::content(path, problem);
        let mut sections = files::sections(path, &files::read_private(path)?)?.into_iter();
        let kind = match (sections.next(), sections.next()) {
            (Some(Section::RsaPrivate(der)), None) => RsaKeyPair::from_der(&der).map(Box::new).map(Kind::Rsa),
            (Some(Section::Private(der)), None) => match RsaKeyPair::from_pkcs8(&der) {
                Ok(pair) => Ok(Kind::Rsa(Box::new(pair))),
                Err(_) => EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der)
                    .map(Box::new)
                    .map(Kind::P256),
            },
            _ => return Err(refused("does not have one private key in PEM (BEGIN PRIVATE KEY)")),
        };
        kind.map(Self)
            .map_err(|_| refused("has a private key that is neither RSA (2,048 bits or more) nor P-256"))
    }

    /// The value of `FSPIOP-Signature` for a message with these headers, which name its method, URI, sender and
    /// receiver.
    ///
    /// # Errors
    /// A header is missing or no text.
    pub fn sign(&self, headers: &HeaderMap, body: &[u8]) -> Result<HeaderValue, NotSigned> {
        let draft = self.draft(Message::of(headers)?, body)?;
        let signature = self.signature(&draft)?;
        draft.with(&signature)
    }

    /// What [`Self::signature`] signs.
    ///
    /// # Errors
    /// The library failed.
    pub fn draft(&self, message: Message<'_>, body: &[u8]) -> Result<Draft, NotSigned> {
        let algorithm = self.algorithm();
        let protected = Protected { alg: algorithm.name(), message };
        let protected_header = encode(&serde_json::to_vec(&protected).map_err(|_| NotSigned)?);
        let digest = envelope::digest(&protected_header, algorithm, body);
        Ok(Draft { protected_header, digest })
    }

    /// Signs a draft of this key.
    ///
    /// # Errors
    /// The library failed.
    pub fn signature(&self, draft: &Draft) -> Result<Vec<u8>, NotSigned> {
        match &self.0 {
            Kind::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let signed = pair.sign_digest(&RSA_PKCS1_SHA256, &draft.digest, &mut signature);
                signed.map_err(|_| NotSigned).map(|()| signature)
            }
            Kind::P256(pair) => Ok(pair.sign_digest(&draft.digest).map_err(|_| NotSigned)?.as_ref().to_vec()),
        }
    }

    const fn algorithm(&self) -> Algorithm {
        match self.0 {
            Kind::Rsa(_) => Algorithm::Rs256,
            Kind::P256(_) => Algorithm::Es256,
        }
    }
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PrivateKey").field(&self.algorithm()).finish()
    }
}
