//! Tokens of OpenID Connect providers (L3): verified here, by the provider's keys, whoever they are for.
//!
//! - [`Provider`]: its keys, fetched and kept, and [`verify`](Provider::verify).
//! - [`Claims`]: what a verified token says. What of that counts, the caller decides.
//!
//! Reasons: `docs/decisions/0065-people-by-openid-connect.md`.

mod claims;
mod keys;
mod provider;

pub use claims::{Claims, LEEWAY_S};
pub use provider::{Provider, ProviderConfig, UNKNOWN_KEY_INTERVAL, is_secure_issuer};

/// Why a token is not taken. The caller of a port is not told which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is no token, or has what must be understood and is not.
    #[error("the token is malformed")]
    Malformed,
    /// Another algorithm than that of its key, or one that no key here has.
    #[error("the token's algorithm does not fit its key, or is not accepted")]
    Algorithm,
    /// The provider has no key of that name, as far as is known.
    #[error("the token does not name a key of the provider")]
    Key,
    /// Another key has signed it, or something else was signed.
    #[error("the token's signature does not match")]
    Signature,
    /// `iss` is another provider.
    #[error("the token has another issuer")]
    Issuer,
    /// `aud` is somebody else.
    #[error("the token has another audience")]
    Audience,
    /// `azp` or `client_id` is not in the list.
    #[error("the token was issued to a client that is not in the list")]
    Client,
    /// No `exp`.
    #[error("the token has no `exp` claim")]
    NoEnd,
    /// `cnf` is something else than the caller's certificate.
    #[error("the token's `cnf` claim does not match the client certificate")]
    Confirmation,
    /// `exp` is past.
    #[error("the token has expired")]
    Expired,
    /// `nbf` or `iat` is to come.
    #[error("the token is not valid yet, or was issued in the future")]
    Early,
    /// `exp` is more than a day away.
    #[error("the token is valid for more than a day")]
    Long,
}
