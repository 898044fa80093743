//! Signed tokens (RFC 7515, RFC 7519) in compact form.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Value;

use crate::TokenFault;
use crate::claims::Claims;
use crate::keys::{Algorithm, KeySet};

/// Maximum length of a token.
const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// The header of a token: the algorithm and the key. Duplicate members are rejected.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    /// Extensions that must be understood: none is supported.
    crit: Option<Value>,
}

/// A token as received; nothing of it is verified.
pub(crate) struct Token<'a> {
    signed: &'a str,
    signature: Vec<u8>,
    algorithm: Algorithm,
    key_id: String,
    pub(crate) claims: Claims,
}

fn decode(part: &str) -> Result<Vec<u8>, TokenFault> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenFault::Malformed)
}

/// The unverified claims of a text, if it is a token.
pub(crate) fn claims_of(text: &str) -> Result<Claims, TokenFault> {
    let is_short = text.len() <= TOKEN_BYTES_MAX;
    let claims = text.split('.').nth(1).filter(|_| is_short).ok_or(TokenFault::Malformed)?;
    Claims::read(&decode(claims)?)
}

impl<'a> Token<'a> {
    /// Parses a token with a supported algorithm.
    pub(crate) fn read(text: &'a str) -> Result<Self, TokenFault> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(TokenFault::Malformed);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(TokenFault::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenFault::Malformed)?;
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| TokenFault::Malformed)?;
        let is_token = header.typ.as_deref().is_none_or(|kind| {
            let kind = kind.to_ascii_lowercase();
            matches!(kind.strip_prefix("application/").unwrap_or(&kind), "jwt" | "at+jwt")
        });
        if header.crit.is_some() || !is_token {
            return Err(TokenFault::Malformed);
        }
        Ok(Self {
            signed,
            signature: decode(signature)?,
            algorithm: Algorithm::parse(&header.alg).ok_or(TokenFault::Algorithm)?,
            key_id: header.kid.ok_or(TokenFault::Key)?,
            claims: Claims::read(&decode(claims)?)?,
        })
    }

    pub(crate) fn key_id(&self) -> &str {
        &self.key_id
    }

    /// Verifies the signature by the key that the token names, with an algorithm of that key.
    pub(crate) fn verify(&self, keys: &KeySet) -> Result<(), TokenFault> {
        let key = keys.get(&self.key_id).ok_or(TokenFault::Key)?;
        if !key.fits(self.algorithm) {
            return Err(TokenFault::Algorithm);
        }
        match key.verifies(self.algorithm, self.signed.as_bytes(), &self.signature) {
            true => Ok(()),
            false => Err(TokenFault::Signature),
        }
    }
}
