//! Settings of a provider.

use std::fmt;
use std::time::Duration;

use upesi_http::{ClientTls, Outbound};

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
    pub tls: Option<ClientTls>,
    /// The hub as a client that logs users in; `None` if it only accepts tokens.
    pub login: Option<LoginClient>,
}

/// The hub as a client of the provider, which logs users in through their browsers.
#[derive(Clone, Debug)]
pub struct LoginClient {
    /// Its `client_id`, which is also the audience of its ID tokens.
    pub id: String,
    /// Its secret; `None` for a public client.
    pub secret: Option<ClientSecret>,
    /// The requested scopes in addition to `openid`.
    pub scopes: Vec<String>,
    /// The only address for the provider's answers.
    pub redirect_uri: String,
}

/// The secret of a client. It prints as a mask.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientSecret(String);

impl ClientSecret {
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
