//! People and machines whom an OpenID Connect provider vouches for: its tokens are verified here, by its keys.

mod claims;
mod fetch;
mod jwt;
mod keys;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Mutex as Turn;
use upesi_http::{ClientTls, Outbound};
use upesi_ledger::Role;
use upesi_types::Timestamp;

pub(crate) use self::claims::{Fault, Vouched};
use self::fetch::fetch;
pub use self::fetch::is_secure_issuer;
use self::jwt::Token;
use self::keys::KeySet;

/// A key that is not known is looked for again at most so often, however many tokens name one.
pub const UNKNOWN_KEY_INTERVAL: Duration = Duration::from_secs(60);
/// Keys are fetched again so often: a key that the provider withdrew is good for that long at most while it answers.
const REFRESH_INTERVAL: Duration = Duration::from_secs(600);
/// The same, as long as there are no keys.
const FIRST_INTERVAL: Duration = Duration::from_secs(10);

/// A provider, and what its tokens mean.
#[derive(Clone, Debug)]
pub struct IssuerConfig {
    /// What stands before its people's names in the audit trail, such as `staff`.
    pub label: &'static str,
    /// Its identifier, under which its configuration is found.
    pub issuer: String,
    /// What `aud` of a token for this hub contains.
    pub audience: String,
    /// The applications that may have asked for the token (`azp` or `client_id`); any if there is none.
    pub clients: Vec<String>,
    /// The claim that is the operator's name.
    pub name_claim: String,
    /// The claim that lists groups; with dots for one inside others.
    pub groups_claim: String,
    /// The roles that groups give.
    pub roles: BTreeMap<String, Vec<Role>>,
    /// The claim that is the name of the DFSP whose people these are; the hub's own if absent.
    pub participant_claim: Option<String>,
    /// Who approves has logged in so many seconds ago at most (`auth_time`); any time ago if absent.
    pub approval_age_s: Option<i64>,
    /// Who approves has logged in by one of these methods (`amr`), such as `mfa`; by any if there is none.
    pub approval_methods: Vec<String>,
    /// How often a key that is not known is looked for, at most.
    pub unknown_key_interval: Duration,
    /// The bound of all connections, and where they may lead.
    pub outbound: Outbound,
    /// TLS towards the provider.
    pub tls: Option<ClientTls>,
}

/// A provider whose tokens are taken. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Issuer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: IssuerConfig,
    state: Mutex<State>,
    /// One fetch at a time.
    turn: Turn<()>,
}

#[derive(Debug, Default)]
struct State {
    keys: Arc<KeySet>,
    /// When fetching was tried last.
    tried: Option<Instant>,
    /// Why it failed.
    fault: Option<String>,
}

impl Issuer {
    /// A provider. Its keys are fetched by [`Self::keep_keys`], and when a token needs one.
    pub fn new(config: IssuerConfig) -> Self {
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

    /// What stands before its people's names.
    pub fn label(&self) -> &'static str {
        self.0.config.label
    }

    /// What is wrong with the provider; its known keys go on.
    pub fn fault(&self) -> Option<String> {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.fault.as_ref().map(|fault| format!("{}: {fault}", self.0.config.issuer))
    }

    /// Whether a text claims to be its token. Nothing of that is proven.
    pub(crate) fn may_have_made(&self, text: &str) -> bool {
        jwt::claims_of(text).is_ok_and(|claims| claims.issuer() == Some(&*self.0.config.issuer))
    }

    /// Whom a token vouches for.
    pub(crate) async fn verify(&self, text: &str, now: Timestamp) -> Result<Vouched, Fault> {
        let token = Token::read(text)?;
        let mut keys = self.keys();
        if !keys.has(token.key_id()) && self.looks_again().await {
            keys = self.keys();
        }
        token.verify(&keys)?;
        token.claims.judge(&self.0.config, now)
    }

    fn keys(&self) -> Arc<KeySet> {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&state.keys)
    }

    /// Fetches the keys for a token that names another one, unless that was tried of late. Those who wait for the same
    /// fetch share it.
    async fn looks_again(&self) -> bool {
        let asked = Instant::now();
        let _turn = self.0.turn.lock().await;
        let tried = self.0.state.lock().unwrap_or_else(PoisonError::into_inner).tried;
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
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.tried = Some(Instant::now());
        let issuer = &self.0.config.issuer;
        match fetched {
            Ok(keys) => {
                if state.fault.take().is_some() || state.keys.is_empty() {
                    tracing::info!(issuer, keys = keys.len(), "the provider's keys were fetched");
                }
                state.keys = Arc::new(keys);
            }
            Err(error) => {
                let keys = state.keys.len();
                tracing::error!(issuer, %error, keys, "the provider's keys cannot be fetched: known ones go on");
                state.fault = Some(error.to_string());
            }
        }
    }
}
