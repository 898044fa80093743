//! A provider: its keys as they are known here, and its tokens.

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

/// A key that is not known is looked for again at most so often, however many tokens name one.
pub const UNKNOWN_KEY_INTERVAL: Duration = Duration::from_secs(60);
/// Keys are fetched again so often: a key that the provider withdrew is good for that long at most while it answers.
const REFRESH_INTERVAL: Duration = Duration::from_secs(600);
/// The same, as long as there are no keys.
const FIRST_INTERVAL: Duration = Duration::from_secs(10);

/// A provider, and for whom its tokens are.
#[derive(Clone, Debug)]
pub struct ProviderConfig {
    /// Its identifier, under which its configuration is found.
    pub issuer: String,
    /// What `aud` of a token for this hub contains.
    pub audience: String,
    /// The applications that may have asked for the token (`azp` or `client_id`); any if there is none.
    pub clients: Vec<String>,
    /// How often a key that is not known is looked for, at most.
    pub unknown_key_interval: Duration,
    /// The bound of all connections, and where they may lead.
    pub outbound: Outbound,
    /// TLS towards the provider.
    pub tls: Option<ClientTls>,
}

/// A provider whose tokens are taken. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Provider(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: ProviderConfig,
    state: Mutex<State>,
    /// One fetch at a time.
    turn: Turn<()>,
}

#[derive(Debug, Default)]
struct State {
    keys: Arc<KeySet>,
    /// How often keys were fetched.
    generation: u64,
    /// When fetching was tried last.
    tried: Option<Instant>,
    /// Why it failed.
    fault: Option<String>,
}

impl Provider {
    /// A provider. Its keys are fetched by [`Self::keep_keys`], and when a token needs one.
    pub fn new(config: ProviderConfig) -> Self {
        Self(Arc::new(Inner { config, state: Mutex::default(), turn: Turn::default() }))
    }

    /// Fetches the keys again and again.
    pub async fn keep_keys(self) {
        loop {
            let turn = self.0.turn.lock().await;
            self.fetch().await;
            drop(turn);
            let pause = if self.keys().is_empty() { FIRST_INTERVAL } else { REFRESH_INTERVAL };
            tokio::time::sleep(pause).await;
        }
    }

    /// What is wrong with the provider; its known keys go on.
    pub fn fault(&self) -> Option<String> {
        self.state().fault.as_ref().map(|fault| format!("{}: {fault}", self.0.config.issuer))
    }

    /// Changes whenever the keys were fetched: what was verified by others should be verified again.
    pub fn generation(&self) -> u64 {
        self.state().generation
    }

    /// Whether a text claims to be its token. Nothing of that is proven.
    pub fn may_have_made(&self, text: &str) -> bool {
        claims::claims_of(text).is_ok_and(|claims| claims.issuer() == Some(&*self.0.config.issuer))
    }

    /// What a token says, if it is the provider's, for this hub, and good at this time.
    ///
    /// # Errors
    /// Why it is not taken.
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

    /// Fetches the keys for a token that names another one, unless that was tried of late. Those who wait for the same
    /// fetch share it.
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

    /// What cannot be fetched leaves the keys as they are.
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

// A provider's keys, by its configuration (OpenID Connect Discovery 1.0 §4).

/// Time for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// Why keys cannot be fetched.
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

/// The keys that the provider has now.
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

/// Whether a provider may be asked at an address: who can change answers on their way can make tokens.
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
