//! Errors that are returned synchronously, on the request's own connection.

use alloc::string::String;
use alloc::vec::Vec;

use upesi_types::ErrorCode;

use crate::render;
use crate::version::{Version, Versions};

/// An error that is returned as the HTTP response. Its body is [`SyncError::to_body`], which is JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code} {description}")]
pub struct SyncError {
    pub status: u16,
    /// The FSPIOP code.
    pub code: ErrorCode,
    /// Standard text and detail, at most 128 characters.
    pub description: String,
    /// For version errors, the versions that the hub accepts.
    pub supported_versions: Option<Vec<Version>>,
}

impl SyncError {
    /// Creates an error with the code's standard text and status, and this detail, which may be empty.
    pub fn new(code: ErrorCode, detail: &str) -> Self {
        Self {
            status: code.http_status(),
            code,
            description: code.describe(detail),
            supported_versions: None,
        }
    }

    /// 406 with code 3001 and the list of accepted versions.
    pub(crate) fn unsupported_version(detail: &str, versions: &Versions) -> Self {
        Self {
            supported_versions: Some(versions.accepted.clone()),
            ..Self::new(ErrorCode::UNACCEPTABLE_VERSION, detail)
        }
    }

    /// 400 with code 3104: the body is longer than the hub's limit.
    pub fn payload_too_large(body_bytes_max: usize) -> Self {
        Self::new(
            ErrorCode::TOO_LARGE_PAYLOAD,
            &alloc::format!("Payload content length greater than maximum allowed: {body_bytes_max}"),
        )
    }

    /// The `errorInformation` object.
    pub fn to_body(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(192);
        match &self.supported_versions {
            None => render::write_error(&mut body, self.code, &self.description),
            Some(versions) => render::write_version_error(&mut body, self.code, &self.description, versions),
        }
        body
    }
}
