//! Failures of relayed messages, and the errors for their senders.

use serde::Deserialize;
use upesi_fspiop::render::write_error;
use upesi_http::Bytes;
use upesi_types::ErrorCode;
use upesi_types::error_code::DESCRIPTION_CHARS_MAX;

use crate::Unroutable;
use crate::relayed::TransportError;

/// An error in the form of the FSPIOP API.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code} {description}")]
pub struct ErrorInformation {
    pub code: ErrorCode,
    /// Standard text and detail, at most 128 characters.
    pub description: String,
}

impl ErrorInformation {
    /// The standard text of the code with this detail, which may be empty.
    pub fn new(code: ErrorCode, detail: &str) -> Self {
        Self { code, description: code.describe(detail) }
    }

    /// An error from another system's message, shortened to the limits of the schema; `None` if the code is invalid.
    pub fn from_wire(code: &str, description: &str) -> Option<Self> {
        let code = ErrorCode::from_number(code.parse().ok()?)?;
        let description = match description {
            "" => code.describe(""),
            description => description.chars().take(DESCRIPTION_CHARS_MAX).collect(),
        };
        Some(Self { code, description })
    }

    /// Reads the `errorInformation` object in the body of an answer, if there is one.
    pub fn read(body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            #[serde(borrow, rename = "errorInformation")]
            information: Information<'a>,
        }
        #[derive(Deserialize)]
        struct Information<'a> {
            #[serde(borrow, rename = "errorCode")]
            code: std::borrow::Cow<'a, str>,
            #[serde(borrow, default, rename = "errorDescription")]
            description: std::borrow::Cow<'a, str>,
        }
        let Envelope { information } = serde_json::from_slice(body).ok()?;
        Self::from_wire(&information.code, &information.description)
    }

    /// The body of an error callback.
    pub fn to_body(&self) -> Bytes {
        let mut body = Vec::with_capacity(160);
        write_error(&mut body, self.code, &self.description);
        body.into()
    }
}

/// Reason why a message was not delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The message could not be sent.
    #[error(transparent)]
    Unroutable(#[from] Unroutable),
    /// The receiver did not answer.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The receiver did not answer with 2xx.
    #[error("answered {status}")]
    Refused {
        status: u16,
        /// The error in its body.
        error: Option<ErrorInformation>,
    },
}

impl Unroutable {
    /// The error for the sender of the message. It does not reveal internals of the hub.
    pub fn to_error(&self) -> ErrorInformation {
        let detail = match self {
            Self::UnknownReceiver => {
                return ErrorInformation::new(ErrorCode::DESTINATION_FSP, "Destination FSP not found");
            }
            Self::NoEndpoint { endpoint_type } => &format!("No {endpoint_type} found"),
            Self::BadEndpoint { endpoint_type, .. } => &format!("{endpoint_type} cannot be called"),
            Self::BadRecord { .. } => "The message cannot be forwarded",
        };
        ErrorInformation::new(ErrorCode::DESTINATION_COMMUNICATION, detail)
    }
}

impl Failure {
    /// The error for the sender of the message: the receiver's own error if it returned one; otherwise, that the
    /// receiver could not be reached (1001) or did not understand (3000). It does not reveal internals of the hub.
    pub fn to_error(&self) -> ErrorInformation {
        match self {
            Self::Unroutable(unroutable) => unroutable.to_error(),
            Self::Transport(_) => {
                ErrorInformation::new(ErrorCode::DESTINATION_COMMUNICATION, "Network error")
            }
            Self::Refused { error: Some(error), .. } => error.clone(),
            Self::Refused { status, error: None } => {
                let code = match status {
                    400..=499 => ErrorCode::CLIENT,
                    _ => ErrorCode::DESTINATION_COMMUNICATION,
                };
                ErrorInformation::new(code, &format!("The destination answered {status}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_for_the_sender_depends_on_the_receivers_failure() {
        let told = ErrorInformation::new(ErrorCode::PARTY_NOT_FOUND, "");
        let endpoint_type = "QUOTES";
        for (failure, code, description) in [
            (Unroutable::UnknownReceiver.into(), 3201, "Destination FSP Error - Destination FSP not found"),
            (
                Unroutable::NoEndpoint { endpoint_type }.into(),
                1001,
                "Destination communication error - No QUOTES found",
            ),
            (
                Unroutable::BadEndpoint { endpoint_type, reason: "10.0.0.7 is no name".to_owned() }.into(),
                1001,
                "Destination communication error - QUOTES cannot be called",
            ),
            (
                Unroutable::BadRecord { reason: "inside".to_owned() }.into(),
                1001,
                "Destination communication error - The message cannot be forwarded",
            ),
            (
                Failure::Transport(TransportError::Barred),
                1001,
                "Destination communication error - Network error",
            ),
            (Failure::Refused { status: 503, error: Some(told) }, 3204, "Party not found"),
            (
                Failure::Refused { status: 404, error: None },
                3000,
                "Generic client error - The destination answered 404",
            ),
            (
                Failure::Refused { status: 500, error: None },
                1001,
                "Destination communication error - The destination answered 500",
            ),
        ] {
            let error = failure.to_error();
            assert_eq!((error.code.number(), error.description.as_str()), (code, description));
        }
    }

    #[test]
    fn only_error_information_is_read_from_answers() {
        let body = br#"{"errorInformation":{"errorCode":"5104","errorDescription":"no","extensionList":{}}}"#;
        let read = ErrorInformation::read(body).map(|error| (error.code.number(), error.description));
        assert_eq!(read, Some((5104, "no".to_owned())));
        let long = format!(
            r#"{{"errorInformation":{{"errorCode":"5104","errorDescription":"{}"}}}}"#,
            "é".repeat(200)
        );
        let read = ErrorInformation::read(long.as_bytes()).map(|error| error.description.chars().count());
        assert_eq!(read, Some(128), "truncated to the schema's maximum");
        let read = ErrorInformation::read(br#"{"errorInformation":{"errorCode":"3204"}}"#);
        assert_eq!(
            read,
            Some(ErrorInformation::new(ErrorCode::PARTY_NOT_FOUND, "")),
            "none is not admitted either"
        );
        for body in [&b""[..], b"{}", b"<html>", br#"{"errorInformation":{"errorCode":"12"}}"#, b"[1]"] {
            assert_eq!(ErrorInformation::read(body), None);
        }
    }

    #[test]
    fn error_callbacks_carry_code_and_description() {
        let body = ErrorInformation::new(ErrorCode::PARTY_NOT_FOUND, "x").to_body();
        let expected =
            r#"{"errorInformation":{"errorCode":"3204","errorDescription":"Party not found - x"}}"#;
        assert_eq!(str::from_utf8(&body), Ok(expected));
    }
}
