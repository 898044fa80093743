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
use upesi_admin::ErrorName;
use upesi_http::{
    Answer, Bytes, ClientTls, Full, HeaderValue, Method, Origin, Pool, PoolConfig, Request, SendError,
    StatusCode, Target, UrlError, header,
};
use upesi_types::{Amount, ErrorCode};

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
    /// No answer was received.
    #[error("the hub's admin API does not respond: {source}")]
    Send { method: Method, path: String, source: SendError },
    /// A TLS fault prevents calls to the admin port.
    #[error("{source}\n{remedy}")]
    Tls {
        /// Remedy.
        remedy: &'static str,
        source: SendError,
    },
    /// The address is the port for DFSPs.
    #[error(
        "{origin} is the FSPIOP port, not the admin port (it answered {status}): --admin needs the admin port, \
         4001 by default"
    )]
    WrongPort {
        origin: Origin,
        /// The HTTP status of its answer.
        status: u16,
    },
    /// The hub rejected the call.
    #[error("{}", in_words(method, path, *status, rejection))]
    Refused {
        method: Method,
        path: String,
        status: u16,
        /// The error in the answer.
        rejection: Rejection,
    },
    /// The change needs an approval.
    #[error("a second person must approve this: upesi admin approve {approval}")]
    Waiting { method: Method, path: String, approval: u64 },
    /// The answer does not have the expected form.
    #[error("{path}: cannot parse the response ({reason}); is this the admin API of a hub?")]
    Malformed {
        path: String,
        /// Description of the fault.
        reason: String,
    },
}

/// The error in an answer with the status of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The error of a hub.
    Hub(HubError),
    /// The beginning of another answer.
    Other(String),
}

/// An error in an answer of a hub.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ErrorInformation")]
pub struct HubError {
    pub code: ErrorCode,
    /// The name; `None` if the hub sends none, or one that this version does not know.
    pub name: Option<ErrorName>,
    /// The text for operators, without the standard text of the code.
    pub detail: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorInformation {
    error_code: String,
    error_description: String,
    error_name: Option<String>,
}

impl TryFrom<ErrorInformation> for HubError {
    type Error = &'static str;

    fn try_from(information: ErrorInformation) -> Result<Self, Self::Error> {
        let ErrorInformation { error_code, error_description, error_name } = information;
        let code = error_code.parse().ok().and_then(ErrorCode::from_number).ok_or("invalid errorCode")?;
        let name = error_name.as_deref().and_then(ErrorName::parse);
        Ok(Self { code, name, detail: code.detail_of(&error_description).to_owned() })
    }
}

impl Rejection {
    fn read(body: &[u8]) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Envelope {
            error_information: HubError,
        }
        match serde_json::from_slice::<Envelope>(body) {
            Ok(Envelope { error_information }) => Self::Hub(error_information),
            Err(_) => Self::Other(String::from_utf8_lossy(body).chars().take(EXCERPT_CHARS_MAX).collect()),
        }
    }

    fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Hub(error) => Some(error.code),
            Self::Other(_) => None,
        }
    }
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
            _ => self.has_code(ErrorCode::ID_NOT_FOUND),
        }
    }

    /// Whether the hub rejected the content of the request with this code.
    pub fn has_code(&self, code: ErrorCode) -> bool {
        match self {
            Self::Refused { status: 400, rejection, .. } => rejection.code() == Some(code),
            _ => false,
        }
    }

    /// Whether the hub's error has this name.
    pub fn is(&self, name: ErrorName) -> bool {
        match self {
            Self::Refused { rejection: Rejection::Hub(error), .. } => error.name == Some(name),
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

/// Header of a follower with the maximum age of its answer.
const AGE_HEADER: &str = "upesi-age-ms";
const JSON: &str = "application/json";

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
        let (status, rejection) = (answer.status.as_u16(), Rejection::read(&answer.body));
        if may_be_of_dfsps(status, &rejection) && self.is_port_of_dfsps().await {
            return Err(AdminError::WrongPort { origin: self.pool.origin().clone(), status });
        }
        Err(AdminError::Refused { method, path: path.to_owned(), status, rejection })
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
fn may_be_of_dfsps(status: u16, rejection: &Rejection) -> bool {
    match status {
        405 => true,
        404 => rejection.code() == Some(ErrorCode::UNKNOWN_URI),
        // The FSPIOP port rejects a request without the headers that DFSPs send.
        400 => rejection.code() == Some(ErrorCode::MISSING_ELEMENT),
        _ => false,
    }
}

/// A rejection for the operator: its detail, and its code for the documentation. The call is named only if the answer
/// does not come from a hub.
fn in_words(method: &Method, path: &str, status: u16, rejection: &Rejection) -> String {
    let HubError { code, name, detail } = match rejection {
        Rejection::Hub(error) => error,
        Rejection::Other(text) => {
            return format!("{method} {path}: the response {status} is not from a hub's admin API: {text}");
        }
    };
    let settlement = path.strip_prefix("/v2/settlements/").and_then(|path| path.split('/').next());
    match (status, name, settlement) {
        (_, Some(ErrorName::SettlementNotFound), Some(id)) => format!("settlement {id} does not exist"),
        (_, Some(ErrorName::Unauthenticated), _) => {
            "the hub requires authentication: log in (upesi admin login), or use a valid token (--token-file)"
                .to_owned()
        }
        (403, ..) => format!("you are not permitted to do this: {detail}"),
        _ => format!("{detail} ({code})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: u16, name: &str, description: &str) -> String {
        format!(
            r#"{{"errorInformation":{{"errorCode":"{code}","errorDescription":"{description}","errorName":"{name}"}}}}"#
        )
    }

    /// Other hubs, and earlier versions, send no names.
    #[test]
    fn error_without_name_is_known_by_its_code() {
        let body =
            r#"{"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - no"}}"#;
        let expected = HubError { code: ErrorCode::VALIDATION, name: None, detail: "no".to_owned() };
        assert_eq!(Rejection::read(body.as_bytes()), Rejection::Hub(expected));
    }

    #[test]
    fn rejections_are_described_for_operators() {
        for (status, body, expected) in [
            (
                400,
                error(
                    3100,
                    "settlement_not_found",
                    "Generic validation error - Settlement with ID '7' not found",
                ),
                "settlement 7 does not exist",
            ),
            (
                400,
                error(3100, "settlement_not_found", "Generic validation error - Settlement not found"),
                "settlement 7 does not exist",
            ),
            (
                400,
                error(3100, "window_not_found", "Generic validation error - Window 9 does not exist"),
                "Window 9 does not exist (3100)",
            ),
            (
                400,
                error(
                    3200,
                    "of_a_later_version",
                    "Generic ID not found - Participant 'absent' does not exist",
                ),
                "Participant 'absent' does not exist (3200)",
            ),
            (
                503,
                error(2003, "stopping", "Service currently unavailable"),
                "Service currently unavailable (2003)",
            ),
            (
                401,
                error(
                    3000,
                    "unauthenticated",
                    "Generic client error - A token is required: Authorization: Bearer TOKEN",
                ),
                "the hub requires authentication: log in (upesi admin login), or use a valid token (--token-file)",
            ),
            (
                401,
                error(3000, "login_wrong", "Generic client error - Name, password or code is wrong"),
                "Name, password or code is wrong (3000)",
            ),
            (
                403,
                error(3000, "permission_missing", "Generic client error - needs the permission funds.in"),
                "you are not permitted to do this: needs the permission funds.in",
            ),
            (
                404,
                "<html>no".to_owned(),
                "GET /v2/settlements/7/x: the response 404 is not from a hub's admin API: <html>no",
            ),
        ] {
            let (method, path) = (Method::GET, "/v2/settlements/7/x".to_owned());
            let rejection = Rejection::read(body.as_bytes());
            assert_eq!(AdminError::Refused { method, path, status, rejection }.to_string(), expected);
        }
    }
}
