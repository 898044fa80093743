//! The error type of this API: a status and an `errorInformation` object with code, text and name.

use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use upesi_engine::SubmitError;
use upesi_ledger::AdminRefusal;

use crate::error_name::ErrorName;
use crate::rejection;

/// Maximum length of a description, in characters: enough for a list of all permissions or all currencies. The 128 of
/// the FSPIOP API apply to messages to DFSPs.
const DESCRIPTION_CHARS_MAX: usize = 4_096;

/// An error for the operator, or the answer that an approval is pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) name: ErrorName,
    /// Standard text and detail.
    pub(crate) description: String,
    /// The pending approval. It is sent instead of name and description.
    pub(crate) waiting: Option<Waiting>,
}

/// An approval that a change needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) approval: u64,
    /// The approval as JSON.
    json: Box<str>,
}

impl ApiError {
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The error's name for programs, such as `participant_not_found`.
    pub const fn name(&self) -> &'static str {
        self.name.as_str()
    }

    /// Standard text and detail, for people.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// 500: a fault of the hub, in a page.
    pub fn fault(detail: &str) -> Self {
        Self::internal(detail)
    }

    /// A name with the usual status and the standard text of its code, and a detail.
    pub(crate) fn new(name: ErrorName, detail: &str) -> Self {
        let code = name.code();
        let status = StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let description = code.describe_within(detail, DESCRIPTION_CHARS_MAX);
        Self { status, name, description, waiting: None }
    }

    /// 202: the requested change needs an approval.
    pub(crate) fn waiting(approval: u64, proposal: &impl serde::Serialize) -> Self {
        match serde_json::to_string(proposal) {
            Ok(json) => Self {
                status: StatusCode::ACCEPTED,
                waiting: Some(Waiting { approval, json: json.into() }),
                ..Self::new(ErrorName::ReasonRequired, "A second person has to approve this")
            },
            Err(error) => Self::internal(&format!("The answer cannot be written: {error}")),
        }
    }

    /// 400 with 3101: the request is invalid. `sentence` names the field in quotes.
    pub fn malformed(sentence: &str) -> Self {
        Self::new(ErrorName::Malformed, sentence)
    }

    pub(crate) fn unknown_participant(name: &str) -> Self {
        Self::new(ErrorName::ParticipantNotFound, &format!("Participant '{name}' does not exist"))
    }

    /// 500 with 2001: a fault of the hub.
    pub(crate) fn internal(detail: &str) -> Self {
        Self::new(ErrorName::Internal, detail)
    }

    /// 500 with 2001: a secret could not be created.
    pub(crate) fn no_random_bits() -> Self {
        Self::internal("The system has no random bits")
    }

    pub(crate) fn unknown_path() -> Self {
        Self::new(ErrorName::PathNotFound, "")
    }

    pub(crate) fn wrong_method() -> Self {
        let error = Self::new(ErrorName::MethodNotAllowed, "This resource does not support this method");
        Self { status: StatusCode::METHOD_NOT_ALLOWED, ..error }
    }
}

impl From<AdminRefusal> for ApiError {
    fn from(refusal: AdminRefusal) -> Self {
        let error = Self::new(ErrorName::of_refusal(&refusal), &rejection::detail(&refusal));
        match refusal {
            AdminRefusal::NotPermitted { .. } | AdminRefusal::NotInEmergency => {
                Self { status: StatusCode::FORBIDDEN, ..error }
            }
            _ => error,
        }
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        let name = match &error {
            SubmitError::Busy => ErrorName::Busy,
            SubmitError::Full => ErrorName::DiskFull,
            SubmitError::HeldUp => ErrorName::BrokersUnavailable,
            SubmitError::Stopped => ErrorName::Stopping,
            SubmitError::Archive(_) => ErrorName::ArchiveUnreadable,
            SubmitError::Journal(_) => ErrorName::JournalUnreadable,
        };
        Self::new(name, &error.to_string())
    }
}

impl ApiError {
    /// The body of the answer.
    pub(crate) fn into_body(self) -> String {
        match self.waiting {
            Some(waiting) => waiting.json.into_string(),
            None => format!(
                r#"{{"errorInformation":{{"errorCode":"{}","errorDescription":{},"errorName":"{}"}}}}"#,
                self.name.code(),
                serde_json::Value::from(self.description),
                self.name.as_str(),
            ),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = self.clone().into_body();
        let mut response =
            (self.status, [(CONTENT_TYPE, "application/json; charset=utf-8")], body).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // A change set reads the error of each of its changes.
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No request can remove this account from a hub, so no test through HTTP covers this.
    #[test]
    fn missing_settlement_account_of_the_hub_is_a_rejection() {
        let currency = upesi_types::Currency::parse("KES").unwrap();
        let error = ApiError::from(AdminRefusal::HubSettlementAccountMissing { currency });
        assert_eq!((error.status.as_u16(), error.name.code().number()), (400, 3100));
        assert_eq!(error.name.as_str(), "hub_settlement_account_not_found");
        let text = "Generic validation error - The hub has no HUB_MULTILATERAL_SETTLEMENT account in KES";
        assert_eq!(error.description, text);
    }

    #[test]
    fn submit_errors_map_to_status_code_and_name() {
        for (error, status, code, name) in [
            (SubmitError::Busy, 503, 2005, "busy"),
            (SubmitError::Full, 503, 2003, "disk_full"),
            (SubmitError::HeldUp, 503, 2003, "brokers_unavailable"),
            (SubmitError::Stopped, 503, 2003, "stopping"),
            (SubmitError::Archive("torn".into()), 500, 2001, "archive_unreadable"),
        ] {
            let error = ApiError::from(error);
            assert_eq!((error.status.as_u16(), error.name.code().number()), (status, code), "{error:?}");
            assert_eq!(error.name.as_str(), name);
        }
    }
}
