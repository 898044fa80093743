//! A provider: its cached keys, and the verification of its tokens.

mod fetch;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Mutex as Turn;
use upesi_types::Timestamp;

use self::fetch::fetch;
pub use self::fetch::is_secure_issuer;
use crate::claims::Claims;
use crate::config::ProviderConfig;
use crate::keys::KeySet;
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

    /// Fetches the keys. If this fails, the current keys remain.
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
