//! A visitor of a page who has to log in first.

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, LOCATION, SET_COOKIE};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderValue, Method, Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use upesi_types::text::url_part;

use crate::access::{Access, cookie};

/// Parameter of the login page: the path and query of the page that the user wanted.
pub const NEXT: &str = "next";
/// Parameter of the login page: a session has ended.
pub const EXPIRED: &str = "expired";
/// Maximum length of a wanted page, in bytes.
pub const NEXT_BYTES_MAX: usize = 2_048;

/// A request for a page, by a browser without any other credential than the session cookie.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    /// Path and query of the page, if it can be shown after the login.
    wanted: Option<String>,
    /// Whether it has a session cookie of this node.
    has_cookie: bool,
}

impl Visitor {
    /// The visitor of a page; `None` if the request names another credential.
    pub(crate) fn of<B>(request: &Request<B>, access: &Access, is_follower: bool) -> Option<Self> {
        let (headers, uri) = (request.headers(), request.uri());
        if !access.is_required() || headers.contains_key(AUTHORIZATION) {
            return None;
        }
        // A form is not sent again after the login.
        let wanted = match *request.method() {
            Method::GET | Method::HEAD => uri.path_and_query().map(PathAndQuery::as_str),
            _ => Some(uri.path()),
        };
        let wanted = wanted.filter(|wanted| wanted.len() <= NEXT_BYTES_MAX).map(str::to_owned);
        // A follower has no sessions. The cookie may be of the leader on the same host, so it stays.
        Some(Self { wanted, has_cookie: access.is_by_cookie(headers) && !is_follower })
    }

    /// The redirection to the login page. It removes the cookie of a session that has ended.
    pub(crate) fn led_to(&self, login: &str) -> Response<Body> {
        let next = self.wanted.as_ref().map(|wanted| (NEXT, url_part(wanted)));
        let expired = self.has_cookie.then(|| (EXPIRED, "1".to_owned()));
        let mut target = login.to_owned();
        for ((name, value), sign) in next.into_iter().chain(expired).zip(['?', '&']) {
            target.push_str(&format!("{sign}{name}={value}"));
        }
        let mut response = (StatusCode::SEE_OTHER, [(LOCATION, target)]).into_response();
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.has_cookie {
            response.headers_mut().insert(SET_COOKIE, cookie::REMOVED);
        }
        response
    }
}
