//! People and machines whom an OpenID Connect provider vouches for.

mod claims;

use std::collections::BTreeMap;
use std::sync::Arc;

use upesi_ledger::Role;
use upesi_oidc::{Provider, ProviderConfig};
use upesi_types::Timestamp;

pub(crate) use self::claims::{Fault, Vouched};

/// A provider, and what its tokens mean.
#[derive(Clone, Debug)]
pub struct IssuerConfig {
    /// What stands before its people's names in the audit trail, such as `staff`.
    pub label: &'static str,
    /// The provider, and for whom its tokens are.
    pub provider: ProviderConfig,
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
}

/// A provider whose tokens the admin port takes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Issuer {
    config: Arc<IssuerConfig>,
    provider: Provider,
}

impl Issuer {
    /// A provider. Somebody has to keep its keys.
    pub fn new(config: IssuerConfig) -> Self {
        let provider = Provider::new(config.provider.clone());
        Self { config: Arc::new(config), provider }
    }

    /// What stands before its people's names.
    pub fn label(&self) -> &'static str {
        self.config.label
    }

    /// Its keys and tokens.
    pub const fn provider(&self) -> &Provider {
        &self.provider
    }

    /// Whom a token vouches for.
    pub(crate) async fn verify(&self, text: &str, now: Timestamp) -> Result<Vouched, Fault> {
        let claims = self.provider.verify(text, now).await?;
        claims::judge(&claims, &self.config, now)
    }
}
