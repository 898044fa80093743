//! The login of a user through a browser: authorization code flow with PKCE (OpenID Connect Core 1.0 §3.1, RFC 7636).

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use upesi_types::text::url_part;

use crate::TokenFault;
use crate::config::LoginClient;

/// Reason why a login fails. Users do not learn it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginFault {
    #[error(
        "the provider's configuration was not fetched, or has no secure authorization and token endpoint"
    )]
    NoEndpoints,
    /// The token endpoint did not answer in time, or its answer was too long.
    #[error("the provider's token endpoint: {0}")]
    Unavailable(String),
    /// The token endpoint rejected the code or the client.
    #[error("the provider's token endpoint answered {status} {error}")]
    Rejected {
        status: u16,
        /// Its error code, such as `invalid_grant`.
        error: String,
    },
    #[error("the answer of the provider's token endpoint has no ID token")]
    NoToken,
    #[error(transparent)]
    Token(#[from] TokenFault),
}

/// The random values that bind a login to the browser that began it, and to its ID token. They print as a mask.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginSecrets {
    /// Proves that the answer belongs to a login that this browser began.
    pub state: String,
    /// Proves that the ID token was issued for this login.
    pub nonce: String,
    /// Proves to the provider that the code is redeemed by the party that began the login.
    pub verifier: String,
}

impl fmt::Debug for LoginSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// 256 random bits as text.
fn random() -> Option<String> {
    let mut bits = [0; 32];
    rand::fill(&mut bits).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bits))
}

impl LoginSecrets {
    /// New values; `None` if the system returned no random bits.
    pub fn random() -> Option<Self> {
        Some(Self { state: random()?, nonce: random()?, verifier: random()? })
    }

    /// The challenge of the verifier (`S256`, RFC 7636 §4.2).
    fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, self.verifier.as_bytes()))
    }
}

/// The URL at the provider where a login begins. `is_again`: the user must authenticate again, whatever session the
/// user has there.
pub(crate) fn authorization_url(
    endpoint: &str,
    client: &LoginClient,
    secrets: &LoginSecrets,
    is_again: bool,
) -> String {
    let scopes: Vec<_> = std::iter::once("openid").chain(client.scopes.iter().map(String::as_str)).collect();
    let (scope, challenge) = (scopes.join(" "), secrets.challenge());
    let query = [
        ("response_type", "code"),
        ("client_id", &*client.id),
        ("redirect_uri", &*client.redirect_uri),
        ("scope", &*scope),
        ("state", &*secrets.state),
        ("nonce", &*secrets.nonce),
        ("code_challenge", &*challenge),
        ("code_challenge_method", "S256"),
    ];
    let again = [("prompt", "login"), ("max_age", "0")];
    let query = form(query.into_iter().chain(again.into_iter().filter(|_| is_again)));
    let sign = if endpoint.contains('?') { '&' } else { '?' };
    format!("{endpoint}{sign}{query}")
}

/// Names and values in the form of a query or of a form's body.
pub(crate) fn form<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pairs = pairs.into_iter().map(|(name, value)| format!("{name}={}", url_part(value)));
    pairs.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7636, appendix B.
    #[test]
    fn challenge_is_the_one_of_the_standard() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
        let secrets = LoginSecrets { verifier, ..LoginSecrets::random().unwrap() };
        assert_eq!(secrets.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn url_has_every_parameter_and_keeps_the_query_of_the_endpoint() {
        let [state, nonce, verifier] = ["s", "n", "v"].map(str::to_owned);
        let secrets = LoginSecrets { state, nonce, verifier };
        let client = LoginClient {
            id: "hub & more".to_owned(),
            secret: None,
            scopes: vec!["profile".to_owned()],
            redirect_uri: "https://hub.example/console/login/return/oidc".to_owned(),
        };
        let challenge = secrets.challenge();
        let query = format!(
            "response_type=code&client_id=hub%20%26%20more\
             &redirect_uri=https%3A%2F%2Fhub.example%2Fconsole%2Flogin%2Freturn%2Foidc&scope=openid%20profile\
             &state=s&nonce=n&code_challenge={challenge}&code_challenge_method=S256"
        );
        for (endpoint, is_again, url) in [
            ("https://id.example/auth", false, format!("https://id.example/auth?{query}")),
            ("https://id.example/auth?p=1", false, format!("https://id.example/auth?p=1&{query}")),
            (
                "https://id.example/auth",
                true,
                format!("https://id.example/auth?{query}&prompt=login&max_age=0"),
            ),
        ] {
            assert_eq!(authorization_url(endpoint, &client, &secrets, is_again), url);
        }
    }

    #[test]
    fn random_values_differ_and_do_not_print() {
        let (one, other) = (LoginSecrets::random().unwrap(), LoginSecrets::random().unwrap());
        assert_ne!((&one.state, &one.nonce, &one.verifier), (&other.state, &other.nonce, &other.verifier));
        assert!(one.state != one.nonce && one.nonce != one.verifier && one.verifier.len() == 43);
        assert_eq!(format!("{one:?}"), "…");
    }
}
