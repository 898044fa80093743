//! Settings of a provider.

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
}
