//! Fetches a provider's keys, through its configuration (OpenID Connect Discovery 1.0 §4).

use std::time::Duration;

use serde::Deserialize;
use upesi_http::{
    Bytes, Full, Method, Pool, PoolConfig, Request, SendError, StatusCode, Target, UrlError, header,
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
}

pub(super) async fn fetch(config: &ProviderConfig) -> Result<KeySet, FetchError> {
    let url = format!("{}/.well-known/openid-configuration", config.issuer.trim_end_matches('/'));
    let body = get(config, &url).await?;
    let Ok(found) = serde_json::from_slice::<Configuration>(&body) else {
        return Err(FetchError::Configuration { url });
    };
    if found.issuer != config.issuer {
        return Err(FetchError::Issuer { url, named: found.issuer.chars().take(200).collect() });
    }
    let body = get(config, &found.jwks_uri).await?;
    KeySet::read(&body).ok_or(FetchError::Keys { url: found.jwks_uri })
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
    let pool = PoolConfig {
        connections_max: 1,
        response_body_bytes_max: ANSWER_BYTES_MAX,
        keep_alive: false,
        outbound: config.outbound.clone(),
        tls: config.tls.clone(),
        ..PoolConfig::default()
    };
    let request = Request::builder().method(Method::GET).uri(target.path.as_str());
    let request = request.header(header::ACCEPT, "application/json").body(Full::new(Bytes::new()));
    let Ok(request) = request else { return Err(FetchError::Configuration { url: url_owned() }) };
    let answer =
        Pool::new(target.origin, pool).send(request, tokio::time::Instant::now() + ANSWER_TIMEOUT).await;
    let answer = answer.map_err(|source| FetchError::Send { url: url_owned(), source })?;
    match answer.status {
        StatusCode::OK => Ok(answer.body),
        status => Err(FetchError::Status { url: url_owned(), status }),
    }
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
}
