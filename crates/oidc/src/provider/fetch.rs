//! Fetches a provider's configuration and keys (OpenID Connect Discovery 1.0 §4).

use std::time::Duration;

use serde::Deserialize;
use upesi_http::{
    Answer, Bytes, Full, Method, Origin, Pool, PoolConfig, Request, SendError, StatusCode, Target, UrlError,
    header,
};

use crate::config::ProviderConfig;
use crate::keys::KeySet;

/// Time limit of one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// Reason why keys cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
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
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    authorization_response_iss_parameter_supported: Option<bool>,
}

/// What a login needs of the provider's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoints {
    pub(super) authorization: String,
    pub(super) token: String,
    /// Whether a client sends its secret in the header `Authorization`, which is the default, or in the body.
    pub(super) takes_basic: bool,
    /// Whether each answer to a browser names the issuer (RFC 9207).
    pub(super) names_issuer: bool,
}

impl Endpoints {
    /// The endpoints of a configuration, if both are secure.
    fn of(found: Configuration) -> Option<Self> {
        let is_usable =
            |url: &String| is_secure_issuer(url) && !url.contains('#') && Target::parse(url).is_ok();
        let methods = found.token_endpoint_auth_methods_supported;
        Some(Self {
            authorization: found.authorization_endpoint.filter(is_usable)?,
            token: found.token_endpoint.filter(is_usable)?,
            takes_basic: methods.is_none_or(|all| all.iter().any(|one| one == "client_secret_basic")),
            names_issuer: found.authorization_response_iss_parameter_supported == Some(true),
        })
    }
}

/// The keys, and the endpoints of a login if there are any.
pub(super) async fn fetch(config: &ProviderConfig) -> Result<(KeySet, Option<Endpoints>), FetchError> {
    let url = format!("{}/.well-known/openid-configuration", config.issuer.trim_end_matches('/'));
    let body = get(config, &url).await?;
    let Ok(found) = serde_json::from_slice::<Configuration>(&body) else {
        return Err(FetchError::Configuration { url });
    };
    if found.issuer != config.issuer {
        return Err(FetchError::Issuer { url, named: found.issuer.chars().take(200).collect() });
    }
    let body = get(config, &found.jwks_uri).await?;
    let keys = KeySet::read(&body).ok_or_else(|| FetchError::Keys { url: found.jwks_uri.clone() })?;
    Ok((keys, Endpoints::of(found)))
}

/// Whether a provider may have this address. It must be secure, because tokens can be forged by changing its answers.
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
    let request = Request::builder().method(Method::GET).uri(target.path.as_str());
    let request = request.header(header::ACCEPT, "application/json").body(Full::new(Bytes::new()));
    let Ok(request) = request else { return Err(FetchError::Configuration { url: url_owned() }) };
    let answer = send(config, target.origin, request, ANSWER_BYTES_MAX).await;
    let answer = answer.map_err(|source| FetchError::Send { url: url_owned(), source })?;
    match answer.status {
        StatusCode::OK => Ok(answer.body),
        status => Err(FetchError::Status { url: url_owned(), status }),
    }
}

/// Sends a request over a connection of its own, within limits of time and size.
pub(super) async fn send(
    config: &ProviderConfig,
    origin: Origin,
    request: Request<Full<Bytes>>,
    bytes_max: usize,
) -> Result<Answer, SendError> {
    let pool = PoolConfig {
        connections_max: 1,
        response_body_bytes_max: bytes_max,
        keep_alive: false,
        outbound: config.outbound.clone(),
        tls: config.tls.clone(),
        ..PoolConfig::default()
    };
    Pool::new(origin, pool).send(request, tokio::time::Instant::now() + ANSWER_TIMEOUT).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_issuer_is_allowed_only_on_this_machine() {
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

    #[test]
    fn login_needs_two_secure_endpoints() {
        let read = |authorization: &str, token: &str, more: &str| {
            let json = format!(
                r#"{{"issuer":"https://id.example","jwks_uri":"https://id.example/jwks",
                    "authorization_endpoint":{authorization},"token_endpoint":{token}{more}}}"#
            );
            Endpoints::of(serde_json::from_str(&json).unwrap())
        };
        let (good, token) = (r#""https://id.example/auth""#, r#""https://id.example/token""#);
        let found = read(good, token, "").unwrap();
        assert_eq!(
            (&*found.authorization, &*found.token),
            ("https://id.example/auth", "https://id.example/token")
        );
        assert!(found.takes_basic && !found.names_issuer);
        let more = r#","token_endpoint_auth_methods_supported":["client_secret_post"],
            "authorization_response_iss_parameter_supported":true"#;
        let found = read(good, token, more).unwrap();
        assert!(!found.takes_basic && found.names_issuer);
        for bad in
            ["null", r#""http://id.example/x""#, r#""https://id.example/x#y""#, r#""javascript:alert(1)""#]
        {
            assert_eq!(read(bad, token, ""), None, "{bad}");
            assert_eq!(read(good, bad, ""), None, "{bad}");
        }
    }
}
