//! A provider: its cached keys, and the verification of its tokens.

mod exchange;
mod fetch;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Mutex as Turn;
use upesi_types::Timestamp;

use self::exchange::exchange;
pub use self::fetch::is_secure_issuer;
use self::fetch::{Endpoints, fetch};
use crate::claims::Claims;
use crate::config::{LoginClient, ProviderConfig};
use crate::keys::KeySet;
use crate::login::{LoginFault, LoginSecrets, authorization_url};
use crate::token::Token;
use crate::{TokenFault, token};

/// Minimum interval between fetches for unknown keys, however many tokens name one.
pub const UNKNOWN_KEY_INTERVAL: Duration = Duration::from_secs(60);
/// Interval between fetches of the keys. A key that the provider withdraws stays valid for at most this time while the
/// provider answers.
const REFRESH_INTERVAL: Duration = Duration::from_secs(600);
/// Interval between fetches until the first keys are known.
const FIRST_INTERVAL: Duration = Duration::from_secs(10);

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
    /// The endpoints of a login, if the provider has any.
    endpoints: Option<Arc<Endpoints>>,
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
        token::claims_of(text).is_ok_and(|claims| claims.issuer() == Some(&*self.0.config.issuer))
    }

    /// The claims of a token, if it is of this provider, for this hub, and valid at this time.
    ///
    /// # Errors
    /// The reason why it is rejected.
    pub async fn verify(&self, text: &str, now: Timestamp) -> Result<Claims, TokenFault> {
        let claims = self.signed_claims(text).await?;
        claims.check(&self.0.config, now)?;
        Ok(claims)
    }

    /// The hub as a client that logs users in, if it does.
    pub fn login_client(&self) -> Option<&LoginClient> {
        self.0.config.login.as_ref()
    }

    /// Its identifier.
    pub fn issuer(&self) -> &str {
        &self.0.config.issuer
    }

    /// Whether its endpoints are known, so that a login can begin without a request to the provider.
    pub fn has_endpoints(&self) -> bool {
        self.state().endpoints.is_some()
    }

    /// The URL at the provider where a login begins. `is_again`: the user must authenticate again.
    ///
    /// # Errors
    /// The hub is not a client of the provider, or the provider's endpoints are not known.
    pub async fn login_url(&self, secrets: &LoginSecrets, is_again: bool) -> Result<String, LoginFault> {
        let client = self.login_client().ok_or(LoginFault::NoEndpoints)?;
        let endpoints = self.endpoints().await?;
        Ok(authorization_url(&endpoints.authorization, client, secrets, is_again))
    }

    /// Whether an answer to a browser may be of this provider: it must not name another issuer, and must name the
    /// provider if the provider always does (RFC 9207 §2.4).
    pub fn may_have_answered(&self, issuer: Option<&str>) -> bool {
        let is_named = || self.state().endpoints.as_ref().is_some_and(|endpoints| endpoints.names_issuer);
        issuer.map_or_else(|| !is_named(), |issuer| issuer == self.0.config.issuer)
    }

    /// The claims of the user whom the provider has logged in: exchanges a code for an ID token, and verifies it.
    ///
    /// # Errors
    /// The provider does not answer, or rejects the code, or its token is invalid.
    pub async fn redeem(
        &self,
        code: &str,
        secrets: &LoginSecrets,
        now: Timestamp,
    ) -> Result<Claims, LoginFault> {
        let client = self.login_client().ok_or(LoginFault::NoEndpoints)?;
        let endpoints = self.endpoints().await?;
        let token = exchange(&self.0.config, client, &endpoints, code, secrets).await?;
        let claims = self.signed_claims(&token).await?;
        claims.check_login(&self.0.config.issuer, &client.id, &secrets.nonce, now)?;
        Ok(claims)
    }

    /// The endpoints of a login. Fetches them if they are not known, unless that was tried recently.
    async fn endpoints(&self) -> Result<Arc<Endpoints>, LoginFault> {
        let known = || self.state().endpoints.clone();
        if let Some(endpoints) = known() {
            return Ok(endpoints);
        }
        self.looks_again().await;
        known().ok_or(LoginFault::NoEndpoints)
    }

    /// The claims of a token that this provider has signed. Nothing else of them is checked.
    async fn signed_claims(&self, text: &str) -> Result<Claims, TokenFault> {
        let token = Token::read(text)?;
        let mut keys = self.keys();
        if !keys.has(token.key_id()) && self.looks_again().await {
            keys = self.keys();
        }
        token.verify(&keys)?;
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

    /// Fetches the keys. If this fails, the current keys remain.
    async fn fetch(&self) {
        let fetched = fetch(&self.0.config).await;
        let mut state = self.state();
        state.tried = Some(Instant::now());
        let issuer = &self.0.config.issuer;
        match fetched {
            Ok((keys, endpoints)) => {
                if state.fault.take().is_some() || state.keys.is_empty() {
                    tracing::info!(issuer, keys = keys.len(), "fetched the provider's keys");
                }
                state.keys = Arc::new(keys);
                state.endpoints = endpoints.map(Arc::new);
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
