//! What the service behind a connection is asked, and how it answers.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::request::Parts;
use upesi_fspiop::{Operation, SyncError};
use upesi_gateway::Authenticator;
use upesi_http::server::Refusal;
use upesi_http::{Bytes, Connection, Full, Incoming, Method, Request, Response, Service, StatusCode};

use super::BODY_BYTES_MAX;
use super::answers::Due;

/// One request that the server's loop handed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    method: Method,
    target: String,
    path: String,
    /// As far as the service looked at it: once it is whole and the headers are right.
    body: Option<Vec<u8>>,
    /// None while it is not answered.
    status: Option<StatusCode>,
}

/// Those of one connection, in order. Also the authenticator of the gateway, which sees the body of each.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(Arc<Mutex<Vec<Call>>>);

impl Calls {
    /// All of them; none are left.
    pub(super) fn take(&self) -> Vec<Call> {
        mem::take(&mut *self.calls())
    }

    /// Whether one is not answered yet.
    pub(super) fn is_busy(&self) -> bool {
        self.calls().iter().any(|call| call.status.is_none())
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Authenticator for Calls {
    fn authenticate(&self, _operation: Operation, _parts: &Parts, body: &[u8]) -> Result<(), SyncError> {
        assert!(body.len() <= BODY_BYTES_MAX, "a body of {} bytes is handed on", body.len());
        if let Some(call) = self.calls().last_mut() {
            call.body = Some(body.to_vec());
        }
        Ok(())
    }
}

/// A service that notes what it is asked.
pub(super) struct Noted<S> {
    pub(super) service: S,
    pub(super) calls: Calls,
}

impl<S: Service> Service for Noted<S> {
    async fn call(&self, request: Request<Incoming>, connection: &Connection) -> Response<Full<Bytes>> {
        let call = Call {
            method: request.method().clone(),
            target: request.uri().to_string(),
            path: request.uri().path().to_owned(),
            body: None,
            status: None,
        };
        self.calls.calls().push(call);
        let response = self.service.call(request, connection).await;
        if let Some(call) = self.calls.calls().last_mut() {
            call.status = Some(response.status());
        }
        response
    }

    fn reject(&self, request: &Request<Incoming>, refusal: Refusal) -> Response<Full<Bytes>> {
        self.calls.calls().push(Call {
            method: request.method().clone(),
            target: request.uri().to_string(),
            path: request.uri().path().to_owned(),
            body: None,
            status: Some(refusal.status),
        });
        self.service.reject(request, refusal)
    }

    fn refuse(&self) -> Response<Full<Bytes>> {
        self.service.refuse()
    }
}

/// The answers that must be on the wire.
pub(super) fn due(calls: &[Call]) -> Vec<Due> {
    let due = calls.iter().filter_map(|call| {
        let status = call.status?;
        // Its own form of saying that nothing is taken.
        let is_health = call.path == "/health" && call.method == Method::GET;
        Some(Due {
            status: status.as_u16(),
            is_head_only: call.method == Method::HEAD || status == StatusCode::NOT_MODIFIED,
            has_error: status.as_u16() >= 400 && !(is_health && status == StatusCode::BAD_GATEWAY),
            is_last: false,
        })
    });
    due.collect()
}

/// Whether two cuts of the same bytes lead to the same requests and answers, as far as both connections went.
///
/// Errors: where they part.
pub(super) fn check_same(one: &[Call], other: &[Call]) -> Result<(), String> {
    for (one, other) in one.iter().zip(other) {
        let is_same_body = one.body.is_none() || other.body.is_none() || one.body == other.body;
        let is_same_end = one.status.is_none() || other.status.is_none() || one.status == other.status;
        if one.method != other.method || one.target != other.target || !is_same_body || !is_same_end {
            return Err(format!("cut in two ways, the same bytes are {one:?} and {other:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(target: &str, body: Option<&str>, status: Option<u16>) -> Call {
        Call {
            method: Method::GET,
            target: target.to_owned(),
            path: target.to_owned(),
            body: body.map(|body| body.as_bytes().to_vec()),
            status: status.map(|status| StatusCode::from_u16(status).expect("a status")),
        }
    }

    #[test]
    fn requests_that_depend_on_the_cut_are_found() {
        let whole = call("/a", Some("b"), Some(202));
        for fits in [&[][..], &[call("/a", None, None)], &[whole.clone(), call("/b", None, None)]] {
            assert_eq!(check_same(std::slice::from_ref(&whole), fits), Ok(()), "{fits:?}");
        }
        for other in [call("/b", None, None), call("/a", Some("bb"), None), call("/a", Some("b"), Some(400))]
        {
            let found = check_same(std::slice::from_ref(&whole), std::slice::from_ref(&other));
            assert!(found.is_err(), "{other:?}");
        }
    }
}
