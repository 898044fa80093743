//! The requests to the service behind a connection, its answers, and the bytes on the wire, which are read without
//! hyper.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::request::Parts;
use upesi_fspiop::body::parse_error_body;
use upesi_fspiop::{Operation, SyncError};
use upesi_gateway::Authenticator;
use upesi_http::server::{HEADERS_MAX, Refusal};
use upesi_http::{Bytes, Connection, Full, Incoming, Method, Request, Response, Service, StatusCode};

use super::BODY_BYTES_MAX;

/// One request that the server's loop passed to the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    method: Method,
    target: String,
    path: String,
    /// Set once the service has read the whole body and the headers are right.
    body: Option<Vec<u8>>,
    /// `None` until it is answered.
    status: Option<StatusCode>,
}

impl Call {
    fn of(request: &Request<Incoming>, status: Option<StatusCode>) -> Self {
        let (method, uri) = (request.method().clone(), request.uri());
        Self { method, target: uri.to_string(), path: uri.path().to_owned(), body: None, status }
    }
}

/// The calls of one connection, in order. It is also the authenticator of the gateway, so that it sees the body of
/// each.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(Arc<Mutex<Vec<Call>>>);

impl Calls {
    /// Removes and returns all calls.
    pub(super) fn take(&self) -> Vec<Call> {
        mem::take(&mut *self.calls())
    }

    pub(super) fn is_busy(&self) -> bool {
        self.calls().iter().any(|call| call.status.is_none())
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Authenticator for Calls {
    fn authenticate(&self, _: Operation, _: &Parts, body: &[u8], _: bool) -> Result<(), SyncError> {
        assert!(body.len() <= BODY_BYTES_MAX, "a body of {} bytes reached the service", body.len());
        if let Some(call) = self.calls().last_mut() {
            call.body = Some(body.to_vec());
        }
        Ok(())
    }
}

/// A service that records its requests.
pub(super) struct NotingService<S> {
    pub(super) service: S,
    pub(super) calls: Calls,
}

impl<S: Service> Service for NotingService<S> {
    async fn call(&self, request: Request<Incoming>, connection: &Connection) -> Response<Full<Bytes>> {
        self.calls.calls().push(Call::of(&request, None));
        let response = self.service.call(request, connection).await;
        if let Some(call) = self.calls.calls().last_mut() {
            call.status = Some(response.status());
        }
        response
    }

    async fn hold_back(&self, connection: &Connection) {
        self.service.hold_back(connection).await;
    }

    fn reject(&self, request: &Request<Incoming>, refusal: Refusal) -> Response<Full<Bytes>> {
        self.calls.calls().push(Call::of(request, Some(refusal.status)));
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
        // This path has its own form of response if the hub does not accept requests.
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
/// Fails with the first difference.
pub(super) fn check_same(one: &[Call], other: &[Call]) -> Result<(), String> {
    for (one, other) in one.iter().zip(other) {
        let is_same_body = one.body.is_none() || other.body.is_none() || one.body == other.body;
        let is_same_end = one.status.is_none() || other.status.is_none() || one.status == other.status;
        if one.method != other.method || one.target != other.target || !is_same_body || !is_same_end {
            return Err(format!("the same bytes, cut in two ways, lead to {one:?} and {other:?}"));
        }
    }
    Ok(())
}

/// The statuses of the server's loop for bytes that are not a valid request (docs/error-codes.md).
const OWN_STATUSES: [u16; 2] = [400, 431];
const CONTINUE: u16 = 100;

/// An answer that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) status: u16,
    pub(super) is_head_only: bool,
    /// Its body is an FSPIOP error object.
    pub(super) has_error: bool,
    /// It must be the last answer on the connection.
    pub(super) is_last: bool,
}

/// Checks that `received` consists of these answers in this order, each complete and of its declared length. At most
/// one more may follow: the server's own rejection of an invalid request. If `all_come` is false, that rejection may
/// come before all answers.
///
/// Fails with the mistake, in words.
pub(super) fn check(received: &[u8], due: &[Due], all_come: bool) -> Result<(), String> {
    let (mut rest, mut due, mut is_over) = (received, due, false);
    while !rest.is_empty() {
        let answer = Answer::read(rest)?;
        if is_over {
            return Err(format!("{} follows the last answer", answer.status));
        }
        if answer.status == CONTINUE {
            rest = answer.rest;
            continue;
        }
        let (is_head_only, has_error) = match due.split_first() {
            Some((next, later)) if next.status == answer.status => {
                due = later;
                is_over = next.is_last;
                (next.is_head_only, next.has_error)
            }
            Some((next, _)) if all_come => {
                return Err(format!("{} is answered, but {} is due", answer.status, next.status));
            }
            _ if OWN_STATUSES.contains(&answer.status) && answer.length == Some(0) => {
                is_over = true;
                (false, false)
            }
            _ => return Err(format!("{} does not answer a request", answer.status)),
        };
        let body = if is_head_only { &[][..] } else { answer.body()? };
        if has_error && !is_head_only && !(answer.is_json && parse_error_body(body).is_ok()) {
            return Err(format!("{} without an error object", answer.status));
        }
        rest = &answer.rest[body.len()..];
    }
    match due {
        [next, ..] if all_come => Err(format!("{} was answered, but does not arrive", next.status)),
        _ => Ok(()),
    }
}

/// A head, and the bytes after it.
struct Answer<'a> {
    status: u16,
    length: Option<usize>,
    is_json: bool,
    rest: &'a [u8],
}

impl<'a> Answer<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Response::new(&mut headers);
        let end = match head.parse(bytes) {
            Ok(httparse::Status::Complete(end)) => end,
            Ok(httparse::Status::Partial) => return Err("an answer ends within its head".to_owned()),
            Err(error) => return Err(format!("an answer's head is malformed: {error}")),
        };
        let values = |name: &str| {
            let named = head.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
            named.map(|header| header.value).collect::<Vec<_>>()
        };
        if !values("transfer-encoding").is_empty() {
            return Err("an answer is sent in chunks".to_owned());
        }
        let length = match values("content-length")[..] {
            [] => None,
            [length] => {
                let length = std::str::from_utf8(length).ok().and_then(|length| length.parse().ok());
                Some(length.ok_or("an answer's length is not a number")?)
            }
            _ => return Err("an answer has two lengths".to_owned()),
        };
        Ok(Self {
            status: head.code.unwrap_or(0),
            length,
            is_json: values("content-type").iter().any(|value| value.starts_with(b"application/json")),
            rest: &bytes[end..],
        })
    }

    fn body(&self) -> Result<&'a [u8], String> {
        let length = self.length.ok_or_else(|| format!("{} has no length", self.status))?;
        let body = self.rest.get(..length);
        body.ok_or_else(|| format!("{} declares {length} bytes and has {}", self.status, self.rest.len()))
    }
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

    const REFUSAL: &str = r#"{"errorInformation":{"errorCode":"3100","errorDescription":"no"}}"#;

    fn due(status: u16) -> Due {
        Due { status, is_head_only: false, has_error: status >= 400, is_last: false }
    }

    fn answer(status: u16, body: &str) -> String {
        let length = body.len();
        format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    }

    #[test]
    fn correct_answers_pass() {
        let (taken, refused) = (answer(202, ""), answer(400, REFUSAL));
        let own = "HTTP/1.1 431 X\r\ncontent-length: 0\r\n\r\n";
        let both = [due(202), due(400)];
        assert_eq!(check(format!("{taken}{refused}").as_bytes(), &both, true), Ok(()));
        assert_eq!(check(format!("{taken}{refused}{own}").as_bytes(), &both, true), Ok(()));
        let continued = format!("HTTP/1.1 100 Continue\r\n\r\n{taken}");
        assert_eq!(check(continued.as_bytes(), &both[..1], true), Ok(()));
        let head = "HTTP/1.0 200 X\r\ncontent-length: 7\r\n\r\n";
        assert_eq!(check(head.as_bytes(), &[Due { is_head_only: true, ..due(200) }], true), Ok(()));
        assert_eq!(check(own.as_bytes(), &[due(503)], false), Ok(()));
        assert_eq!(check(b"", &[due(503)], false), Ok(()));
    }

    #[test]
    fn planted_mistakes_are_found() {
        let (taken, refused) = (answer(202, ""), answer(400, REFUSAL));
        let last = Due { is_last: true, ..due(202) };
        for (received, due, what) in [
            ("HTTP/1.1 2".to_owned(), vec![due(202)], "an answer ends within its head"),
            ("nonsense\r\n\r\n".to_owned(), vec![due(202)], "malformed"),
            (taken.replace("content-length: 0", "x: y"), vec![due(202)], "202 has no length"),
            (taken.replace(": 0", ": 5"), vec![due(202)], "202 declares 5 bytes and has 0"),
            (taken.replace(": 0", ": -1"), vec![due(202)], "is not a number"),
            (taken.replace("\r\n\r\n", "\r\ncontent-length: 0\r\n\r\n"), vec![due(202)], "two lengths"),
            (taken.replace("content-type", "transfer-encoding"), vec![due(202)], "in chunks"),
            (taken.repeat(2), vec![due(202)], "202 does not answer a request"),
            (taken.repeat(2), vec![last, due(202)], "202 follows the last answer"),
            (taken.clone(), vec![due(202), due(202)], "202 was answered, but does not arrive"),
            (refused.clone(), vec![due(202)], "400 is answered, but 202 is due"),
            (answer(400, "{}"), vec![due(400)], "400 without an error object"),
            (refused.replace("json", "text"), vec![due(400)], "400 without an error object"),
            (answer(431, "body"), vec![], "431 does not answer a request"),
            (answer(431, "") + &taken, vec![], "202 follows the last answer"),
        ] {
            let found = check(received.as_bytes(), &due, true).unwrap_err();
            assert!(found.contains(what), "{received:?}: {found}");
        }
    }
}
