//! Answers of the leader to a follower that forwarded a request.

use bytes::Bytes;
use http::{Response, StatusCode};
use upesi_delivery::Accepted;
use upesi_fspiop::SyncError;
use upesi_http::Full;
use upesi_types::ErrorCode;

/// This node is not the leader. The request had no effect that the next leader does not know.
const DOES_NOT_LEAD: StatusCode = StatusCode::MISDIRECTED_REQUEST;
/// Maximum number of bytes in an answer: a code and 128 characters.
pub(super) const ANSWER_BYTES_MAX: usize = 1024;

/// An answer between nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeAnswer {
    /// The handler answered.
    Handled(Result<Accepted, SyncError>),
    /// Another node may be the leader.
    DoesNotLead,
}

impl NodeAnswer {
    /// The response. For an error: its status, and as body its code and description.
    pub(super) fn write(&self) -> Response<Full<Bytes>> {
        let (status, text) = match self {
            Self::Handled(Ok(Accepted)) => (StatusCode::NO_CONTENT, String::new()),
            Self::DoesNotLead => (DOES_NOT_LEAD, String::new()),
            Self::Handled(Err(error)) => (
                StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
                format!("{} {}", error.code.number(), error.description),
            ),
        };
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        response
    }

    /// Reads a response. `None` if it does not have this form: then no handler received the request.
    pub(super) fn read(status: StatusCode, body: &[u8]) -> Option<Self> {
        match status {
            StatusCode::NO_CONTENT => return Some(Self::Handled(Ok(Accepted))),
            DOES_NOT_LEAD => return Some(Self::DoesNotLead),
            _ => {}
        }
        let (code, description) = str::from_utf8(body).ok()?.split_once(' ')?;
        let code = ErrorCode::from_number(code.parse().ok()?)?;
        let error = SyncError {
            status: status.as_u16(),
            description: description.to_owned(),
            ..SyncError::new(code, "")
        };
        (status.is_client_error() || status.is_server_error()).then_some(Self::Handled(Err(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_answers_round_trip() {
        use http_body::Body as _;
        let busy = SyncError::new(ErrorCode::SERVER_BUSY, "try again later");
        let odd = SyncError { status: 403, ..SyncError::new(ErrorCode::CLIENT, "") };
        for answer in [
            NodeAnswer::Handled(Ok(Accepted)),
            NodeAnswer::DoesNotLead,
            NodeAnswer::Handled(Err(busy)),
            NodeAnswer::Handled(Err(odd)),
        ] {
            let mut response = answer.write();
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let frame = std::pin::Pin::new(response.body_mut()).poll_frame(&mut context);
            let body = match frame {
                std::task::Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                _ => Bytes::new(),
            };
            assert!(body.len() < ANSWER_BYTES_MAX);
            assert_eq!(NodeAnswer::read(response.status(), &body), Some(answer));
        }
    }

    #[test]
    fn other_responses_are_none() {
        for (status, body) in
            [(200, ""), (200, "2005 x"), (503, ""), (431, "too long"), (503, "999 x"), (302, "2005 x")]
        {
            assert_eq!(
                NodeAnswer::read(StatusCode::from_u16(status).unwrap(), body.as_bytes()),
                None,
                "{status} {body}"
            );
        }
    }
}
