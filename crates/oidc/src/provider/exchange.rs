//! The exchange of a code for an ID token at the provider's token endpoint (OpenID Connect Core 1.0 §3.1.3).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use upesi_http::{Bytes, Full, HeaderValue, Method, Request, StatusCode, Target, header};
use upesi_types::text::url_part;

use super::fetch::{Endpoints, send};
use crate::config::{LoginClient, ProviderConfig};
use crate::login::{LoginFault, LoginSecrets, form};

/// Maximum size of the answer, in bytes. It contains at most three tokens.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Maximum length of an error code in the audit trail, in characters.
const ERROR_CHARS_MAX: usize = 40;

#[derive(Deserialize)]
struct TokenAnswer {
    id_token: Option<String>,
}

#[derive(Deserialize)]
struct ErrorAnswer {
    error: String,
}

/// The ID token for a code.
pub(super) async fn exchange(
    config: &ProviderConfig,
    client: &LoginClient,
    endpoints: &Endpoints,
    code: &str,
    secrets: &LoginSecrets,
) -> Result<String, LoginFault> {
    let target = Target::parse(&endpoints.token).map_err(|_| LoginFault::NoEndpoints)?;
    let request = request(client, endpoints, &target, code, secrets).ok_or(LoginFault::NoEndpoints)?;
    let answer = send(config, target.origin, request, ANSWER_BYTES_MAX).await;
    let answer = answer.map_err(|error| LoginFault::Unavailable(error.to_string()))?;
    match answer.status {
        StatusCode::OK => {
            let read = serde_json::from_slice::<TokenAnswer>(&answer.body).ok();
            read.and_then(|answer| answer.id_token).ok_or(LoginFault::NoToken)
        }
        status if status.is_server_error() => Err(LoginFault::Unavailable(format!("answered {status}"))),
        status => Err(LoginFault::Rejected { status: status.as_u16(), error: error_code(&answer.body) }),
    }
}

/// The request. Values for the header `Authorization` are encoded twice (RFC 6749 §2.3.1).
fn request(
    client: &LoginClient,
    endpoints: &Endpoints,
    target: &Target,
    code: &str,
    secrets: &LoginSecrets,
) -> Option<Request<Full<Bytes>>> {
    let basic = client.secret.as_ref().filter(|_| endpoints.takes_basic);
    let in_body = client.secret.as_ref().filter(|_| !endpoints.takes_basic);
    let fields = [
        ("grant_type", Some("authorization_code")),
        ("code", Some(code)),
        ("redirect_uri", Some(&*client.redirect_uri)),
        ("code_verifier", Some(&*secrets.verifier)),
        ("client_id", basic.is_none().then_some(&*client.id)),
        ("client_secret", in_body.map(|secret| secret.reveal())),
    ];
    let body = form(fields.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(target.path.as_str())
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    if let Some(secret) = basic {
        let pair = STANDARD.encode(format!("{}:{}", url_part(&client.id), url_part(secret.reveal())));
        let mut value = HeaderValue::try_from(format!("Basic {pair}")).ok()?;
        value.set_sensitive(true);
        request = request.header(header::AUTHORIZATION, value);
    }
    request.body(Full::new(Bytes::from(body))).ok()
}

/// The error code of an answer, without anything that could be misread in a log.
fn error_code(body: &[u8]) -> String {
    let error = serde_json::from_slice::<ErrorAnswer>(body).map(|answer| answer.error).unwrap_or_default();
    error.chars().filter(|char| char.is_ascii_alphanumeric() || *char == '_').take(ERROR_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ClientSecret;

    #[test]
    fn error_codes_are_short_words() {
        for (body, code) in [
            (&br#"{"error":"invalid_grant","error_description":"x"}"#[..], "invalid_grant"),
            (br#"{"error":"a\nb <script>"}"#, "abscript"),
            (br#"{"error":{}}"#, ""),
            (b"<html>", ""),
        ] {
            assert_eq!(error_code(body), code);
        }
        assert_eq!(error_code(format!(r#"{{"error":"{}"}}"#, "x".repeat(1_000)).as_bytes()).len(), 40);
    }

    #[test]
    fn client_authenticates_in_the_way_that_the_provider_supports() {
        let [state, nonce, verifier] = ["s", "n", "v"].map(str::to_owned);
        let secrets = LoginSecrets { state, nonce, verifier };
        let endpoints = |takes_basic| Endpoints {
            authorization: "https://id.example/auth".to_owned(),
            token: "https://id.example/token".to_owned(),
            takes_basic,
            names_issuer: false,
        };
        // The answer of the whole function is tested with providers; this is the request.
        let authorization = |secret: Option<&str>, takes_basic| {
            let client = LoginClient {
                id: "hub:1".to_owned(),
                secret: secret.map(|text| ClientSecret::new(text.to_owned())),
                scopes: Vec::new(),
                redirect_uri: "https://hub.example/r".to_owned(),
            };
            let target = Target::parse("https://id.example/token").unwrap();
            let request = request(&client, &endpoints(takes_basic), &target, "c", &secrets).unwrap();
            request.headers().get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned())
        };
        let encoded = STANDARD.encode("hub%3A1:a%20b%25");
        assert_eq!(authorization(Some("a b%"), true), Some(format!("Basic {encoded}")));
        assert_eq!((authorization(Some("a b%"), false), authorization(None, true)), (None, None));
    }
}
