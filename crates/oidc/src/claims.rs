//! The claims of a token.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use upesi_types::Timestamp;

use crate::{ProviderConfig, TokenFault};

/// Maximum difference between the clocks of the provider and the hub, in seconds.
pub const LEEWAY_S: i64 = 60;
/// Maximum remaining lifetime of a token, because it cannot be revoked.
const LIFE_S_MAX: i64 = 24 * 3_600;
/// Maximum number of texts of a list that are read.
const TEXTS_MAX: usize = 500;

/// The claims of a token.
#[derive(Clone, Debug, PartialEq)]
pub struct Claims(Map<String, Value>);

impl Claims {
    pub(crate) fn read(json: &[u8]) -> Result<Self, TokenFault> {
        serde_json::from_slice(json).map(Self).map_err(|_| TokenFault::Malformed)
    }

    pub(crate) fn issuer(&self) -> Option<&str> {
        self.text("iss")
    }

    /// A claim; dots in the path lead into nested claims.
    pub fn find(&self, path: &str) -> Option<&Value> {
        if let Some(found) = self.0.get(path) {
            return Some(found);
        }
        let mut parts = path.split('.');
        let first = self.0.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.as_object()?.get(part))
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        self.find(path).and_then(Value::as_str)
    }

    /// The texts of a list. A claim that is a text counts as a list of one. Only `scope` separates its texts by blanks
    /// (RFC 8693 §4.2), because names of groups may contain blanks.
    pub fn texts(&self, path: &str) -> Vec<&str> {
        match self.find(path) {
            Some(Value::String(text)) if path == "scope" => text.split(' ').collect(),
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).take(TEXTS_MAX).collect(),
            _ => Vec::new(),
        }
    }

    /// The application that requested the token.
    pub fn client(&self) -> Option<&str> {
        self.0.get("azp").or_else(|| self.0.get("client_id")).and_then(Value::as_str)
    }

    /// SHA-256 of the certificate that the token is bound to, if there is one (RFC 8705 §3.1).
    ///
    /// # Errors
    /// The token is bound to something that cannot be verified here.
    pub fn certificate(&self) -> Result<Option<[u8; 32]>, TokenFault> {
        let Some(confirmation) = self.0.get("cnf") else { return Ok(None) };
        let member = confirmation.as_object().filter(|members| members.len() == 1);
        let digest = member.and_then(|members| members.get("x5t#S256")).and_then(Value::as_str);
        let digest = digest.and_then(|digest| URL_SAFE_NO_PAD.decode(digest).ok()?.try_into().ok());
        digest.map(Some).ok_or(TokenFault::Confirmation)
    }

    /// End of its validity in seconds since 1970, including the leeway.
    pub fn good_until_s(&self) -> i64 {
        self.0.get("exp").and_then(Value::as_i64).unwrap_or(i64::MIN).saturating_add(LEEWAY_S)
    }

    /// Checks that the claims are of this provider, for this hub, and valid at a time.
    pub(crate) fn check(&self, config: &ProviderConfig, now: Timestamp) -> Result<(), TokenFault> {
        self.check_issuer(&config.issuer)?;
        self.check_audience(config)?;
        self.check_time(now.as_ms().div_euclid(1_000))
    }

    /// Checks that the claims are of an ID token of this issuer, for this client and this login, and valid at a time
    /// (OpenID Connect Core 1.0 §3.1.3.7).
    pub(crate) fn check_login(
        &self,
        issuer: &str,
        client: &str,
        nonce: &str,
        now: Timestamp,
    ) -> Result<(), TokenFault> {
        self.check_issuer(issuer)?;
        let audiences = self.audiences();
        if !audiences.contains(&client) {
            return Err(TokenFault::Audience);
        }
        let party = self.0.get("azp");
        if (party.is_some() || audiences.len() > 1) && party.and_then(Value::as_str) != Some(client) {
            return Err(TokenFault::Client);
        }
        if self.0.get("nonce").and_then(Value::as_str) != Some(nonce) {
            return Err(TokenFault::Nonce);
        }
        self.check_time(now.as_ms().div_euclid(1_000))
    }

    fn check_issuer(&self, issuer: &str) -> Result<(), TokenFault> {
        if self.issuer() == Some(issuer) { Ok(()) } else { Err(TokenFault::Issuer) }
    }

    fn audiences(&self) -> Vec<&str> {
        match self.0.get("aud") {
            Some(Value::String(one)) => vec![&**one],
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }

    fn check_audience(&self, config: &ProviderConfig) -> Result<(), TokenFault> {
        if !self.audiences().contains(&&*config.audience) {
            return Err(TokenFault::Audience);
        }
        let is_listed = |client: &str| config.clients.iter().any(|known| known == client);
        match config.clients.is_empty() || self.client().is_some_and(is_listed) {
            true => Ok(()),
            false => Err(TokenFault::Client),
        }
    }

    fn check_time(&self, now_s: i64) -> Result<(), TokenFault> {
        let whole = |name: &str| {
            self.0.get(name).map(|value| value.as_i64().ok_or(TokenFault::Malformed)).transpose()
        };
        whole("exp")?.ok_or(TokenFault::NoEnd)?;
        let until = self.good_until_s();
        if until <= now_s {
            return Err(TokenFault::Expired);
        }
        if until.saturating_sub(now_s) > LIFE_S_MAX + 2 * LEEWAY_S {
            return Err(TokenFault::Long);
        }
        let starts = [whole("nbf")?, whole("iat")?];
        match starts.into_iter().flatten().all(|start| start <= now_s.saturating_add(LEEWAY_S)) {
            true => Ok(()),
            false => Err(TokenFault::Early),
        }
    }
}
