//! A small client of the admin API that hubs have in common.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;
use upesi_http::{
    Full, HeaderValue, Method, Pool, PoolConfig, Request, SendError, StatusCode, Target, Uri, UrlError,
    header,
};
use upesi_types::{Amount, Currency};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const RESPONSE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What went wrong with the admin API.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The address is unusable.
    #[error("the admin API's address: {0}")]
    Url(#[from] UrlError),
    /// No answer.
    #[error("{method} {path} at the admin API: {source}")]
    Unanswered {
        /// The method asked.
        method: Method,
        /// The path asked for.
        path: String,
        /// The cause.
        source: SendError,
    },
    /// An answer that is no success.
    #[error("{method} {path} at the admin API was answered {status}: {text}")]
    Refused {
        /// The method asked.
        method: Method,
        /// The path asked for.
        path: String,
        /// The status.
        status: StatusCode,
        /// The beginning of the body.
        text: String,
    },
    /// An answer that could not be understood.
    #[error("the answer to GET {path} at the admin API is not understood: {reason}")]
    Unreadable {
        /// The path asked for.
        path: String,
        /// The reason, in words.
        reason: String,
    },
}

/// A client of one hub's admin API. Belongs to the runtime it is first used on.
#[derive(Debug)]
pub struct AdminClient {
    pool: Pool,
    prefix: String,
}

/// A participant as the admin API lists it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Participant {
    pub name: String,
    #[serde(default)]
    accounts: Vec<AccountName>,
}

#[derive(Clone, Debug, Deserialize)]
struct AccountName {
    #[serde(rename = "ledgerAccountType")]
    kind: String,
    currency: String,
}

#[derive(Deserialize)]
struct PositionRow<'text> {
    currency: String,
    #[serde(borrow)]
    value: &'text RawValue,
}

#[derive(Deserialize)]
struct AccountRow<'text> {
    id: u64,
    #[serde(rename = "ledgerAccountType")]
    kind: String,
    currency: String,
    #[serde(borrow)]
    value: Option<&'text RawValue>,
}

/// An account with its balance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub id: u64,
    pub kind: String,
    pub currency: String,
    pub value: Amount,
}

impl AdminClient {
    /// A client of the admin API at a base URL.
    ///
    /// # Errors
    /// When the URL is unusable.
    pub fn new(url: &str) -> Result<Self, AdminError> {
        let target = Target::parse(url)?;
        let prefix = target.path.path().trim_end_matches('/').to_owned();
        let config = PoolConfig {
            connections_max: 4,
            response_body_bytes_max: RESPONSE_BYTES_MAX,
            ..PoolConfig::default()
        };
        Ok(Self { pool: Pool::new(target.origin, config), prefix })
    }

    /// Whether its URL has no path.
    pub(crate) fn is_at_root(&self) -> bool {
        self.prefix.is_empty()
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), AdminError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method.clone();
        // Names from options and from the hub's own listing; one that makes no path asks for the root.
        *request.uri_mut() = Uri::try_from(format!("{}{path}", self.prefix)).unwrap_or_default();
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        match self.pool.send(request, Instant::now() + REQUEST_TIMEOUT).await {
            Ok(answer) => Ok((answer.status, answer.body)),
            Err(source) => Err(AdminError::Unanswered { method, path: path.to_owned(), source }),
        }
    }

    /// Asks for a resource and gives its body.
    ///
    /// # Errors
    /// When there is no answer or it is no success.
    pub async fn get(&self, path: &str) -> Result<Bytes, AdminError> {
        let (status, body) = self.request(Method::GET, path, Bytes::new()).await?;
        if status.is_success() { Ok(body) } else { Err(refused(Method::GET, path, status, &body)) }
    }

    /// Deletes a resource.
    ///
    /// # Errors
    /// When there is no answer or it is no success.
    pub async fn delete(&self, path: &str) -> Result<(), AdminError> {
        let (status, body) = self.request(Method::DELETE, path, Bytes::new()).await?;
        if status.is_success() { Ok(()) } else { Err(refused(Method::DELETE, path, status, &body)) }
    }

    /// Posts a JSON text. Gives false when the hub says that what is to be created exists already.
    ///
    /// # Errors
    /// When there is no answer, or a refusal for another reason.
    pub async fn create(&self, path: &str, json: String) -> Result<bool, AdminError> {
        let (status, body) = self.request(Method::POST, path, json.into()).await?;
        if status.is_success() {
            Ok(true)
        } else if says_already(&body) {
            Ok(false)
        } else {
            Err(refused(Method::POST, path, status, &body))
        }
    }

    /// Every participant.
    pub(crate) async fn participants(&self) -> Result<Vec<Participant>, AdminError> {
        let body = self.get("/participants").await?;
        read_json("/participants", &body)
    }

    /// The accounts of a participant that have balances.
    pub(crate) async fn accounts(&self, name: &str) -> Result<Vec<Account>, AdminError> {
        let path = format!("/participants/{name}/accounts");
        let body = self.get(&path).await?;
        let rows: Vec<AccountRow<'_>> = read_json(&path, &body)?;
        let account = |row: AccountRow<'_>| {
            let value = row.value.map_or(Ok(Amount::ZERO), |value| exact(&path, value))?;
            Ok(Account { id: row.id, kind: row.kind, currency: row.currency, value })
        };
        rows.into_iter().map(account).collect()
    }

    async fn position(&self, name: &str, currency: Currency) -> Result<Option<Amount>, AdminError> {
        let path = format!("/participants/{name}/positions");
        let body = self.get(&path).await?;
        let rows: Vec<PositionRow<'_>> = read_json(&path, &body)?;
        let row = rows.iter().find(|row| row.currency == currency.as_str());
        row.map(|row| exact(&path, row.value)).transpose()
    }

    /// The positions of all participants that have a position account in a currency.
    ///
    /// # Errors
    /// When there is no answer, or a number is not an exact amount.
    pub async fn positions(&self, currency: Currency) -> Result<BTreeMap<String, Amount>, AdminError> {
        let mut positions = BTreeMap::new();
        for participant in self.participants().await? {
            let has_position =
                |account: &AccountName| account.kind == "POSITION" && account.currency == currency.as_str();
            if participant.accounts.iter().any(has_position)
                && let Some(value) = self.position(&participant.name, currency).await?
            {
                positions.insert(participant.name, value);
            }
        }
        Ok(positions)
    }
}

fn read_json<'body, T: Deserialize<'body>>(path: &str, body: &'body Bytes) -> Result<T, AdminError> {
    serde_json::from_slice(body)
        .map_err(|error| AdminError::Unreadable { path: path.to_owned(), reason: error.to_string() })
}

/// A JSON number, read from its text so that no binary fraction comes between.
fn exact(path: &str, value: &RawValue) -> Result<Amount, AdminError> {
    let text = value.get().trim_matches('"');
    Amount::parse_decimal(text)
        .map_err(|error| AdminError::Unreadable { path: path.to_owned(), reason: format!("{text} {error}") })
}

fn refused(method: Method, path: &str, status: StatusCode, body: &[u8]) -> AdminError {
    let text: String = String::from_utf8_lossy(body).chars().take(300).collect();
    AdminError::Refused { method, path: path.to_owned(), status, text }
}

/// Hubs answer repeated onboarding with various statuses and codes; the word is what they share.
fn says_already(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body).to_ascii_lowercase();
    ["already", "exists", "duplicate"].iter().any(|word| text.contains(word))
        && !text.contains("does not exist")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_onboarding_is_recognised() {
        for (body, expected) in [
            (
                r#"{"errorInformation":{"errorDescription":"… Participant currency has already been registered"}}"#,
                true,
            ),
            (r#"{"errorInformation":{"errorDescription":"Settlement Model already exists"}}"#, true),
            (
                r#"{"errorInformation":{"errorDescription":"Hub reconciliation account does not exist"}}"#,
                false,
            ),
            ("", false),
        ] {
            assert_eq!(says_already(body.as_bytes()), expected, "{body}");
        }
    }

    #[test]
    fn numbers_are_read_exactly_from_their_text() {
        let units = |json: &'static str| {
            let rows: Vec<PositionRow<'_>> = serde_json::from_str(json).unwrap();
            exact("/x", rows[0].value).map(Amount::units).ok()
        };
        assert_eq!(
            units(r#"[{"currency":"XXX","value":-12345678901234.5678}]"#),
            Some(-123_456_789_012_345_678)
        );
        assert_eq!(units(r#"[{"currency":"XXX","value":0}]"#), Some(0));
        assert_eq!(units(r#"[{"currency":"XXX","value":"1.5"}]"#), Some(15_000));
        assert_eq!(units(r#"[{"currency":"XXX","value":0.30000000000000004}]"#), None);
    }
}
