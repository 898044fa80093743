//! Verifies tokens of OpenID Connect providers with the providers' keys (L3).
//!
//! - [`Provider`]: its keys, fetched and cached, and [`verify`](Provider::verify).
//! - [`Provider::login_url`] and [`Provider::redeem`]: the login of a user through a browser.
//! - [`Claims`]: the claims of a verified token. The caller decides which of them to use.
//!
//! Reasons: `docs/decisions/0065-people-by-openid-connect.md` and `0103-login-by-an-identity-provider.md`.

mod claims;
mod config;
mod keys;
mod login;
mod provider;
mod token;

pub use claims::{Claims, LEEWAY_S};
pub use config::{ClientSecret, LoginClient, ProviderConfig};
pub use login::{LoginFault, LoginSecrets};
pub use provider::{Provider, UNKNOWN_KEY_INTERVAL, is_secure_issuer};

/// Reason why a token is rejected. Clients do not learn it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// The text is not a token, or requires an unsupported extension.
    #[error("the token is malformed")]
    Malformed,
    /// The algorithm does not belong to the key, or is not supported.
    #[error("the token's algorithm does not fit its key, or is not accepted")]
    Algorithm,
    /// The provider has no key with that id, as far as is known.
    #[error("the token does not name a key of the provider")]
    Key,
    /// Another key signed it, or other data was signed.
    #[error("the token's signature does not match")]
    Signature,
    /// `iss` names another provider.
    #[error("the token has another issuer")]
    Issuer,
    /// `aud` does not contain this hub.
    #[error("the token has another audience")]
    Audience,
    /// `azp` or `client_id` is not in the list.
    #[error("the token was issued to a client that is not in the list")]
    Client,
    /// `nonce` is not of this login.
    #[error("the token's `nonce` claim is of another login")]
    Nonce,
    /// There is no `exp`.
    #[error("the token has no `exp` claim")]
    NoEnd,
    /// `cnf` does not match the client's certificate.
    #[error("the token's `cnf` claim does not match the client certificate")]
    Confirmation,
    /// `exp` has passed.
    #[error("the token has expired")]
    Expired,
    /// `nbf` or `iat` is in the future.
    #[error("the token is not valid yet, or was issued in the future")]
    Early,
    /// `exp` is more than a day away.
    #[error("the token is valid for more than a day")]
    Long,
}
