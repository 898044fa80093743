//! A provider: its cached keys, and the verification of its tokens.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::sync::Mutex as Turn;
use upesi_http::{
    Bytes, ClientTls, Full, Method, Outbound, Pool, PoolConfig, Request, SendError, StatusCode, Target,
    UrlError, header,
};
use upesi_types::Timestamp;

use crate::claims::{Claims, Token};
use crate::keys::KeySet;
use crate::{Fault, claims};

/// Minimum interval between fetches for unknown keys, however many tokens name one.
pub const UNKNOWN_KEY_INTERVAL: Duration = Duration::from_secs(60);
/// Interval between fetches of the keys. A key that the provider withdraws stays valid for at most this time while the
/// provider answers.
const REFRESH_INTERVAL: Duration = Duration::from_secs(600);
/// Interval between fetches while there are no keys.
const FIRST_INTERVAL: Duration = Duration::from_secs(10);

/// A provider, and the audience of its tokens.
#[derive(Clone, Debug)]
pub struct ProviderConfig {
    /// Its identifier, which determines the URL of its configuration.
    pub issuer: String,
    /// Required content of `aud` in a token for this hub.
    pub audience: String,
    /// The applications that may have requested the token (`azp` or `client_id`); if empty, any.
    pub clients: Vec<String>,
    /// Minimum interval between fetches for unknown keys.
    pub unknown_key_interval: Duration,
    /// The limit of all connections, and their permitted destinations.
    pub outbound: Outbound,
    /// TLS for connections to the provider.
    pub tls: Option<ClientTls>,
}

/// A provider whose tokens are accepted. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Provider(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: ProviderConfig,
    state: Mutex<State>,
    /// Allows one fetch at a time.
    turn: Turn<()>,
}

#[derive(Debug, Default)]
struct State {
    keys: Arc<KeySet>,
    /// Number of fetches of the keys.
    generation: u64,
    /// Time of the last attempt to fetch.
    tried: Option<Instant>,
    /// Error of the last fetch.
    fault: Option<String>,
}

impl Provider {
    /// Creates a provider. [`Self::keep_keys`] fetches its keys, and so does a token that needs one.
    pub fn new(config: ProviderConfig) -> Self {
        Self(Arc::new(Inner { config, state: Mutex::default(), turn: Turn::default() }))
    }

    /// Fetches the keys regularly, forever.
    pub async fn keep_keys(self) {
        loop {
            let turn = self.0.turn.lock().await;
            self.fetch().await;
            drop(turn);
            let pause = if self.keys().is_empty() { FIRST_INTERVAL } else { REFRESH_INTERVAL };
            tokio::time::sleep(pause).await;
        }
    }

    /// Error of the last fetch, if it failed; cached keys stay in use.
    pub fn fault(&self) -> Option<String> {
        self.state().fault.as_ref().map(|fault| format!("{}: {fault}", self.0.config.issuer))
    }

    /// Changes with every fetch of the keys. Tokens that were verified with earlier keys should be verified again.
    pub fn generation(&self) -> u64 {
        self.state().generation
    }

    /// Whether a text claims to be a token of this provider, without verification.
    pub fn may_have_made(&self, text: &str) -> bool {
        claims::claims_of(text).is_ok_and(|claims| claims.issuer() == Some(&*self.0.config.issuer))
    }

    /// The claims of a token, if it is of this provider, for this hub, and valid at this time.
    ///
    /// # Errors
    /// The reason why it is rejected.
    pub async fn verify(&self, text: &str, now: Timestamp) -> Result<Claims, Fault> {
        let token = Token::read(text)?;
        let mut keys = self.keys();
        if !keys.has(token.key_id()) && self.looks_again().await {
            keys = self.keys();
        }
        token.verify(&keys)?;
        token.claims.check(&self.0.config, now)?;
        Ok(token.claims)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keys(&self) -> Arc<KeySet> {
        Arc::clone(&self.state().keys)
    }

    /// Fetches the keys for a token that names an unknown one, unless that was tried recently. Concurrent callers share
    /// one fetch.
    async fn looks_again(&self) -> bool {
        let asked = Instant::now();
        let _turn = self.0.turn.lock().await;
        let tried = self.state().tried;
        match tried {
            Some(at) if at >= asked => true,
            Some(at) if at.elapsed() < self.0.config.unknown_key_interval => false,
            _ => {
                self.fetch().await;
                true
            }
        }
    }

    /// If the fetch fails, the keys remain unchanged.
    async fn fetch(&self) {
        let fetched = fetch(&self.0.config).await;
        let mut state = self.state();
        state.tried = Some(Instant::now());
        let issuer = &self.0.config.issuer;
        match fetched {
            Ok(keys) => {
                if state.fault.take().is_some() || state.keys.is_empty() {
                    tracing::info!(issuer, keys = keys.len(), "fetched the provider's keys");
                }
                state.keys = Arc::new(keys);
                state.generation += 1;
            }
            Err(error) => {
                let keys = state.keys.len();
                tracing::error!(issuer, %error, keys, "cannot fetch the provider's keys; cached keys stay in use");
                state.fault = Some(error.to_string());
            }
        }
    }
}

// Fetches a provider's keys, through its configuration (OpenID Connect Discovery 1.0 §4).

/// Time limit of one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// Reason why keys cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("{url}: {source}")]
    Url { url: String, source: UrlError },
    #[error("{url}: must be https://, or http:// on this machine")]
    Insecure { url: String },
    #[error("{url}: {source}")]
    Send { url: String, source: SendError },
    #[error("{url}: answered {status}")]
    Status { url: String, status: StatusCode },
    #[error("{url}: not a configuration of an OpenID Connect provider")]
    Configuration { url: String },
    #[error("{url}: names another issuer, {named}")]
    Issuer { url: String, named: String },
    #[error("{url}: contains no signing keys")]
    Keys { url: String },
}

#[derive(Deserialize)]
struct Configuration {
    issuer: String,
    jwks_uri: String,
}

/// The current keys of the provider.
async fn fetch(config: &ProviderConfig) -> Result<KeySet, FetchError> {
    let url = format!("{}/.well-known/openid-configuration", config.issuer.trim_end_matches('/'));
    let body = get(config, &url).await?;
    let Ok(found) = serde_json::from_slice::<Configuration>(&body) else {
        return Err(FetchError::Configuration { url });
    };
    if found.issuer != config.issuer {
        return Err(FetchError::Issuer { url, named: found.issuer.chars().take(200).collect() });
    }
    let body = get(config, &found.jwks_uri).await?;
    KeySet::read(&body).ok_or(FetchError::Keys { url: found.jwks_uri })
}

/// Whether a provider may have this address. It must be secure, because tokens can be forged by changing its answers.
pub fn is_secure_issuer(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else { return url.starts_with("https://") };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    matches!(host, "localhost" | "[::1]")
        || host.starts_with("127.") && host.parse::<std::net::Ipv4Addr>().is_ok()
}

async fn get(config: &ProviderConfig, url: &str) -> Result<Bytes, FetchError> {
    let url_owned = || url.to_owned();
    if !is_secure_issuer(url) {
        return Err(FetchError::Insecure { url: url_owned() });
    }
    let target = Target::parse(url).map_err(|source| FetchError::Url { url: url_owned(), source })?;
    let pool = PoolConfig {
        connections_max: 1,
        response_body_bytes_max: ANSWER_BYTES_MAX,
        keep_alive: false,
        outbound: config.outbound.clone(),
        tls: config.tls.clone(),
        ..PoolConfig::default()
    };
    let request = Request::builder().method(Method::GET).uri(target.path.as_str());
    let request = request.header(header::ACCEPT, "application/json").body(Full::new(Bytes::new()));
    let Ok(request) = request else { return Err(FetchError::Configuration { url: url_owned() }) };
    let answer =
        Pool::new(target.origin, pool).send(request, tokio::time::Instant::now() + ANSWER_TIMEOUT).await;
    let answer = answer.map_err(|source| FetchError::Send { url: url_owned(), source })?;
    match answer.status {
        StatusCode::OK => Ok(answer.body),
        status => Err(FetchError::Status { url: url_owned(), status }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_asked_in_the_clear() {
        for (url, expected) in [
            ("https://id.example/realms/hub", true),
            ("http://127.0.0.1:8080/jwks", true),
            ("http://localhost:8080", true),
            ("http://[::1]:8080/jwks", true),
            ("http://id.example/", false),
            ("http://127.evil.example/", false),
            ("http://localhost.evil.example/", false),
            ("http://localhost@evil.example/", false),
            ("file:///etc/passwd", false),
        ] {
            assert_eq!(is_secure_issuer(url), expected, "{url}");
        }
    }
}
