//! A client of the admin API.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use upesi_process::exit::{Exit, Failure};
use upesi_process::terminal::note;

use crate::await_hub::remedy;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;
use upesi_http::{
    Answer, Bytes, ClientTls, Full, HeaderValue, Method, Origin, Pool, PoolConfig, Request, SendError,
    StatusCode, Target, UrlError, header,
};
use upesi_types::Amount;

/// Time limit of one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of an answer, in bytes: a list of many thousand participants.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Maximum length of the excerpt of an unexpected answer, in characters.
const EXCERPT_CHARS_MAX: usize = 200;

/// Error of a call.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The base URL is unusable.
    #[error("the admin API's address: {0}")]
    Url(#[from] UrlError),
    /// There is no answer.
    #[error("the hub's admin API does not respond: {source}")]
    Send {
        /// The method.
        method: Method,
        /// The path.
        path: String,
        /// The cause.
        source: SendError,
    },
    /// A TLS fault prevents calls to the admin port.
    #[error("{source}\n{remedy}")]
    Tls {
        /// Remedy.
        remedy: &'static str,
        /// The cause.
        source: SendError,
    },
    /// The address is the port for DFSPs.
    #[error(
        "{origin} is the FSPIOP port, not the admin port (it answered {status}): --admin needs the admin port, \
         4001 by default"
    )]
    WrongPort {
        /// The address.
        origin: Origin,
        /// The HTTP status of its answer.
        status: u16,
    },
    /// The hub rejected the call.
    #[error("{}", in_words(method, path, *status, text))]
    Refused {
        /// The method.
        method: Method,
        /// The path.
        path: String,
        /// The HTTP status.
        status: u16,
        /// The hub's message, or the beginning of its answer.
        text: String,
    },
    /// The change needs an approval.
    #[error("a second person must approve this: upesi admin approve {approval}")]
    Waiting {
        /// The method.
        method: Method,
        /// The path.
        path: String,
        /// The number of the approval.
        approval: u64,
    },
    /// The answer does not have the expected form.
    #[error("{path}: cannot parse the response ({reason}); is this the admin API of a hub?")]
    Malformed {
        /// The path.
        path: String,
        /// Description of the fault.
        reason: String,
    },
}

/// `0`, `1`, `true` or `false`: hubs write flags in either form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiFlag(pub bool);

impl<'de> Deserialize<'de> for ApiFlag {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Flag(bool),
            Number(u8),
        }
        Ok(Self(match Either::deserialize(deserializer)? {
            Either::Flag(flag) => flag,
            Either::Number(number) => number != 0,
        }))
    }
}

/// A JSON number, read by its digits so that nothing is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiAmount(pub Amount);

impl<'de> Deserialize<'de> for ApiAmount {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let digits = raw.get().trim_matches('"');
        Amount::parse_decimal(digits)
            .map(Self)
            .map_err(|error| serde::de::Error::custom(format!("{digits} {error}")))
    }
}

impl AdminError {
    /// Whether the hub reports that the requested object does not exist.
    pub fn is_unknown(&self) -> bool {
        match self {
            Self::Refused { status: 404, .. } => true,
            Self::Refused { status: 400, text, .. } => text.split(' ').next() == Some(UNKNOWN_CODE),
            _ => false,
        }
    }
}

/// The failure of a command whose call failed.
pub(crate) fn admin_failure(error: &AdminError) -> Failure {
    Failure::new(admin_exit(error), error)
}

pub(crate) fn admin_exit(error: &AdminError) -> Exit {
    match error {
        AdminError::Url(_) => Exit::Usage,
        AdminError::Send { .. } | AdminError::Tls { .. } | AdminError::Malformed { .. } => Exit::Unavailable,
        AdminError::WrongPort { .. } => Exit::Usage,
        AdminError::Refused { .. } => Exit::Failure,
        AdminError::Waiting { .. } => Exit::Temporary,
    }
}

/// A path that only the port for DFSPs has, with DELETE: it answers 405 to GET.
const OF_DFSPS: &str = "/endpointcache";
/// Error code for a path that does not exist.
const UNKNOWN_PATH_CODE: &str = "3002";
/// Error code for a request without the headers that DFSPs send.
const MISSING_ELEMENT_CODE: &str = "3102";

/// Header of a follower with the maximum age of its answer.
const AGE_HEADER: &str = "upesi-age-ms";
const JSON: &str = "application/json";
/// Beginning of the detail for a rejected credential.
const ASKS_WHO: &str = "Say who you are";
/// Error code for an object that does not exist: this API answers it with status 400.
const UNKNOWN_CODE: &str = "3200";

fn read<T: for<'de> Deserialize<'de>>(path: &str, body: &[u8]) -> Result<T, AdminError> {
    serde_json::from_slice(body)
        .map_err(|error| AdminError::Malformed { path: path.to_owned(), reason: error.to_string() })
}

/// The token of an operator. It prints as a mask.
#[derive(Clone)]
pub struct AdminToken(HeaderValue);

impl AdminToken {
    /// A token; `None` if the text cannot be one.
    pub fn new(token: &str) -> Option<Self> {
        let token = token.trim();
        let is_plain = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok().filter(|_| is_plain)?;
        value.set_sensitive(true);
        Some(Self(value))
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken")
    }
}

/// A client of a hub's admin API.
#[derive(Debug)]
pub struct AdminApi {
    pool: Pool,
    prefix: String,
    token: Option<AdminToken>,
    reason: Option<HeaderValue>,
    /// Whether a note was printed that the answers come from a follower.
    has_told: AtomicBool,
}

/// The answer for a pending approval.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WaitingAnswer {
    approval_id: u64,
}

impl AdminApi {
    /// A client for a base URL. Sends nothing yet.
    ///
    /// # Errors
    /// The URL cannot be called.
    pub fn new(url: &str) -> Result<Self, AdminError> {
        Self::with_tls(url, None)
    }

    /// A client for a base URL, with TLS if that begins with `https://`.
    ///
    /// # Errors
    /// The URL cannot be called.
    pub fn with_tls(url: &str, tls: Option<ClientTls>) -> Result<Self, AdminError> {
        let target = Target::parse(url)?;
        let prefix = target.path.path().trim_end_matches('/').to_owned();
        let config = PoolConfig {
            connections_max: 4,
            response_body_bytes_max: ANSWER_BYTES_MAX,
            tls,
            ..PoolConfig::default()
        };
        let (pool, has_told) = (Pool::new(target.origin, config), AtomicBool::new(false));
        Ok(Self { pool, prefix, token: None, reason: None, has_told })
    }

    /// Sets the operator's token.
    #[must_use]
    pub fn with_token(self, token: Option<AdminToken>) -> Self {
        Self { token, ..self }
    }

    /// Sets a reason for every call; one that cannot be a header is ignored.
    #[must_use]
    pub fn with_reason(self, reason: &str) -> Self {
        Self { reason: HeaderValue::from_str(reason).ok(), ..self }
    }

    /// Whether the base URL has no path.
    pub fn is_at_root(&self) -> bool {
        self.prefix.is_empty()
    }

    /// Reads an answer without parsing it.
    ///
    /// # Errors
    /// No answer, or a rejection.
    pub async fn get_bytes(&self, path: &str) -> Result<Bytes, AdminError> {
        self.call(Method::GET, path, JSON, Bytes::new()).await
    }

    /// Reads an object.
    ///
    /// # Errors
    /// No answer, a rejection, or an answer of another form.
    pub async fn get<T: for<'de> Deserialize<'de>>(&self, path: &str) -> Result<T, AdminError> {
        read(path, &self.get_bytes(path).await?)
    }

    /// Sends a text with this content type, and reads the answer.
    ///
    /// # Errors
    /// No answer, a rejection, or an answer of another form.
    pub async fn post<T: for<'de> Deserialize<'de>>(
        &self,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<T, AdminError> {
        read(path, &self.call(Method::POST, path, content_type, body).await?)
    }

    /// Makes a change, and reads the answer.
    ///
    /// # Errors
    /// No answer, a rejection, or an answer of another form.
    pub async fn put<T: for<'de> Deserialize<'de>>(&self, path: &str, body: String) -> Result<T, AdminError> {
        read(path, &self.call(Method::PUT, path, JSON, body.into()).await?)
    }

    /// Makes a change, and ignores the content of the answer.
    ///
    /// # Errors
    /// No answer, or a rejection.
    pub async fn send(&self, method: Method, path: &str, body: &str) -> Result<(), AdminError> {
        self.call(method, path, JSON, body.to_owned().into()).await.map(drop)
    }

    /// Sends a JSON object, and reads the answer, even if the request needs an approval.
    ///
    /// # Errors
    /// No answer, a rejection, or an answer of another form.
    pub async fn propose<T: for<'de> Deserialize<'de>>(
        &self,
        path: &str,
        body: String,
    ) -> Result<T, AdminError> {
        read(path, &self.exchange(Method::POST, path, JSON, body.into()).await?.1)
    }

    /// Whether this is the port for DFSPs.
    async fn is_port_of_dfsps(&self) -> bool {
        let request =
            Request::builder().uri(format!("{}{OF_DFSPS}", self.prefix)).body(Full::new(Bytes::new()));
        let Ok(request) = request else { return false };
        let answer = self.pool.send(request, Instant::now() + ANSWER_TIMEOUT).await;
        answer.is_ok_and(|answer| answer.status == StatusCode::METHOD_NOT_ALLOWED)
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<Bytes, AdminError> {
        let (status, body) = self.exchange(method.clone(), path, content_type, body).await?;
        match serde_json::from_slice(&body) {
            Ok(WaitingAnswer { approval_id }) if status == StatusCode::ACCEPTED => {
                Err(AdminError::Waiting { method, path: path.to_owned(), approval: approval_id })
            }
            _ => Ok(body),
        }
    }

    /// Reads an answer of any status, with the status.
    ///
    /// # Errors
    /// No answer.
    pub async fn get_any(&self, path: &str) -> Result<(StatusCode, Bytes), AdminError> {
        let answer = self.ask(Method::GET, path, JSON, Bytes::new()).await?;
        Ok((answer.status, answer.body))
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), AdminError> {
        let answer = self.ask(method.clone(), path, content_type, body).await?;
        if answer.status.is_success() {
            return Ok((answer.status, answer.body));
        }
        let (status, text) = (answer.status.as_u16(), explanation(&answer.body));
        if may_be_of_dfsps(status, &text) && self.is_port_of_dfsps().await {
            return Err(AdminError::WrongPort { origin: self.pool.origin().clone(), status });
        }
        Err(AdminError::Refused { method, path: path.to_owned(), status, text })
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<Answer, AdminError> {
        let uri = format!("{}{path}", self.prefix);
        let request = Request::builder()
            .method(method.clone())
            .uri(&uri)
            .header(header::ACCEPT, JSON)
            .header(header::CONTENT_TYPE, content_type);
        let request = match &self.token {
            Some(AdminToken(value)) => request.header(header::AUTHORIZATION, value.clone()),
            None => request,
        };
        let request = match &self.reason {
            Some(reason) => request.header("upesi-reason", reason.clone()),
            None => request,
        };
        let request = request.body(Full::new(body));
        let request = request
            .map_err(|error| AdminError::Malformed { path: uri.clone(), reason: error.to_string() })?;
        let answer = self.pool.send(request, Instant::now() + ANSWER_TIMEOUT).await;
        let answer = answer.map_err(|source| match source.tls_fault() {
            Some(fault) => AdminError::Tls { remedy: remedy(fault), source },
            None => AdminError::Send { method: method.clone(), path: path.to_owned(), source },
        })?;
        if let Some(age_ms) = answer.headers.get(AGE_HEADER).and_then(|value| value.to_str().ok())
            && !self.has_told.swap(true, Ordering::Relaxed)
        {
            note(format_args!("this node is a follower: its data may be {age_ms} ms old"));
        }
        Ok(answer)
    }
}

/// Whether a port for DFSPs may have sent this answer to a call of this API.
fn may_be_of_dfsps(status: u16, text: &str) -> bool {
    let code = text.split(' ').next().unwrap_or_default();
    matches!((status, code), (405, _) | (404, UNKNOWN_PATH_CODE) | (400, MISSING_ELEMENT_CODE))
}

/// A rejection for the operator: its detail, and its code for the documentation. The call is named only if the answer
/// does not come from a hub.
fn in_words(method: &Method, path: &str, status: u16, text: &str) -> String {
    let is_code = |code: &str| code.len() == 4 && code.bytes().all(|byte| byte.is_ascii_digit());
    let Some((code, description)) = text.split_once(' ').filter(|(code, _)| is_code(code)) else {
        return format!("{method} {path}: the response {status} is not from a hub's admin API: {text}");
    };
    let detail = detail_of(description);
    if let Some((what, id)) =
        detail.strip_suffix("' not found").and_then(|found| found.split_once(" with ID '"))
    {
        return format!("there is no {} {id}", what.to_lowercase());
    }
    if detail == "Settlement not found"
        && let Some(id) = path.strip_prefix("/v2/settlements/").and_then(|path| path.split('/').next())
    {
        return format!("there is no settlement {id}");
    }
    match status {
        401 if detail.starts_with(ASKS_WHO) => {
            "the hub requires authentication: log in (upesi admin login), or use a valid token (--token-file)"
                .to_owned()
        }
        403 => format!("you are not permitted to do this: {detail}"),
        _ => format!("{detail} ({code})"),
    }
}

/// The detail of an error's description, without the text of its code.
pub(crate) fn detail_of(description: &str) -> &str {
    description.split_once(" - ").map_or(description, |(_, detail)| detail)
}

/// The description in an FSPIOP error body, or the beginning of any other body.
fn explanation(body: &[u8]) -> String {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Envelope {
        error_information: Information,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Information {
        error_code: String,
        error_description: String,
    }
    match serde_json::from_slice::<Envelope>(body) {
        Ok(Envelope { error_information: Information { error_code, error_description } }) => {
            format!("{error_code} {error_description}")
        }
        Err(_) => String::from_utf8_lossy(body).chars().take(EXCERPT_CHARS_MAX).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_in_the_words_of_an_operator() {
        for (status, text, expected) in [
            (
                400,
                "3100 Generic validation error - Settlement with ID '99' not found",
                "there is no settlement 99",
            ),
            (
                400,
                "3100 Generic validation error - Window 9 does not exist",
                "Window 9 does not exist (3100)",
            ),
            (
                400,
                "3200 Generic ID not found - Participant 'nobody' does not exist",
                "Participant 'nobody' does not exist (3200)",
            ),
            (503, "2003 Service currently unavailable", "Service currently unavailable (2003)"),
            (
                401,
                "3000 Generic client error - Say who you are: Authorization: Bearer TOKEN",
                "the hub requires authentication: log in (upesi admin login), or use a valid token (--token-file)",
            ),
            (
                401,
                "3000 Generic client error - Name, password or code is wrong",
                "Name, password or code is wrong (3000)",
            ),
            (
                403,
                "3000 Generic client error - needs the permission funds.in",
                "you are not permitted to do this: needs the permission funds.in",
            ),
            (400, "3100 Generic validation error - Settlement not found", "there is no settlement 7"),
            (
                404,
                "<html>no",
                "GET /v2/settlements/7/x: the response 404 is not from a hub's admin API: <html>no",
            ),
        ] {
            let (method, path, text) = (Method::GET, "/v2/settlements/7/x".to_owned(), text.to_owned());
            assert_eq!(AdminError::Refused { method, path, status, text }.to_string(), expected);
        }
    }
}
