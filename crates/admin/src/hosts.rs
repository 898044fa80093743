//! Permitted host names of requests to the admin and metrics ports. These ports may have no authentication, so a page
//! in an operator's browser must not reach them under a name of its own (DNS rebinding).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::http::HeaderValue;
use axum::http::header::{HOST, ORIGIN};
use upesi_http::{HeaderMap, Method, Request, StatusCode, header};

use crate::error::ApiError;
use crate::error_name::ErrorName;

/// Maximum number of characters of a rejected host in the error.
const SHOWN_CHARS_MAX: usize = 40;

/// The permitted host names.
#[derive(Clone, Debug)]
pub struct AllowedHosts {
    listen: IpAddr,
    others: Arc<[String]>,
}

impl AllowedHosts {
    /// Loopback names and addresses, the listening address (any address if it listens on all), and these: names or
    /// addresses without a port; `*` for all.
    pub fn new<'a>(listen: SocketAddr, others: impl IntoIterator<Item = &'a str>) -> Self {
        Self { listen: listen.ip(), others: others.into_iter().map(str::to_ascii_lowercase).collect() }
    }

    /// Loopback names, all addresses, and these names. Addresses are safe, because no page has one as a name of its
    /// own.
    pub fn any_address<'a>(others: impl IntoIterator<Item = &'a str>) -> Self {
        Self::new((Ipv4Addr::UNSPECIFIED, 0).into(), others)
    }

    /// Rejects a request that names another host. A request without a host, as load balancers send it, does not come
    /// from a browser.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), ApiError> {
        let named = request.headers().get_all(header::HOST).iter().map(|value| value.to_str().unwrap_or("?"));
        let target = request.uri().authority().map(|authority| authority.as_str());
        match target.into_iter().chain(named).find(|authority| !self.allows(authority)) {
            None => Ok(()),
            Some(refused) => Err(refusal(refused)),
        }
    }

    fn allows(&self, authority: &str) -> bool {
        let host = host_of(authority).trim_end_matches('.').to_ascii_lowercase();
        if self.others.iter().any(|other| other == "*" || *other == host) || host == "localhost" {
            return true;
        }
        host.parse::<IpAddr>().is_ok_and(|address| {
            let address = address.to_canonical();
            address.is_loopback() || self.listen.is_unspecified() || address == self.listen.to_canonical()
        })
    }
}

/// The host without the port, and an IPv6 address without its brackets.
fn host_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(host, _)| host),
        None => authority.split_once(':').map_or(authority, |(host, _)| host),
    }
}

fn refusal(authority: &str) -> ApiError {
    let shown: String = host_of(authority).chars().take(SHOWN_CHARS_MAX).collect();
    let error =
        ApiError::new(ErrorName::HostNotAllowed, &format!("host '{shown}' is not in admin.allowed_hosts"));
    ApiError { status: StatusCode::MISDIRECTED_REQUEST, ..error }
}

// Requests caused by a page in an operator's browser: only this port's own pages may send any.

/// The origin of a web page, such as `https://portal.example:8443`: in lower case and without the default port of its
/// scheme, as browsers send it (RFC 6454 §6.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebOrigin(String);

impl WebOrigin {
    /// Parses an origin; `None` if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let (scheme, authority) = text.split_once("://")?;
        let default_port = match scheme {
            "http" => ":80",
            "https" => ":443",
            _ => return None,
        };
        let authority = authority.strip_suffix(default_port).unwrap_or(authority);
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        let is_host = !host_of(authority).is_empty() && authority.bytes().all(is_letter);
        is_host.then(|| Self(format!("{scheme}://{authority}")))
    }
}

impl fmt::Display for WebOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Origins of the port's own pages although requests name another host, for example because a proxy has rewritten it.
#[derive(Clone, Debug, Default)]
pub struct AllowedOrigins(Arc<[WebOrigin]>);

impl AllowedOrigins {
    /// Creates the list.
    pub fn new(origins: impl IntoIterator<Item = WebOrigin>) -> Self {
        Self(origins.into_iter().collect())
    }

    /// Whether all `Origin` headers of a request are among these.
    fn name_all(&self, headers: &HeaderMap) -> bool {
        let is_named = |value: &HeaderValue| {
            let origin = value.to_str().ok().and_then(WebOrigin::parse);
            origin.is_some_and(|origin| self.0.contains(&origin))
        };
        headers.contains_key(ORIGIN) && headers.get_all(ORIGIN).iter().all(is_named)
    }
}

/// Rejects a request that a page of another site caused. Programs other than browsers send neither header. A link from
/// another site to a page of this port is allowed, because it only shows data.
pub(crate) fn check_site<B>(request: &Request<B>, origins: &AllowedOrigins) -> Result<(), ApiError> {
    let headers = request.headers();
    if origins.name_all(headers) {
        return Ok(());
    }
    let is_foreign =
        is_of_another_site(headers) || headers.get_all(ORIGIN).iter().any(|one| !is_own(one, headers));
    if is_foreign && !(request.method() == Method::GET && is_navigation(headers)) {
        return Err(site_refusal("A page of another site caused this request: see admin.allowed_origins"));
    }
    Ok(())
}

fn site_refusal(detail: &str) -> ApiError {
    ApiError { status: StatusCode::FORBIDDEN, ..ApiError::new(ErrorName::SiteNotAllowed, detail) }
}

/// Rejects a request without proof that a page of this port caused it. Browsers add the proof to each form.
pub(crate) fn check_own_page<B>(request: &Request<B>, origins: &AllowedOrigins) -> Result<(), ApiError> {
    let headers = request.headers();
    check_site(request, origins)?;
    // Each `Origin` of a request that passed is allowed.
    let is_own =
        headers.contains_key(ORIGIN) || headers.get("sec-fetch-site").is_some_and(|v| v == "same-origin");
    if is_own {
        return Ok(());
    }
    let detail = "A form in a browser must send Origin, or Sec-Fetch-Site: same-origin";
    Err(site_refusal(detail))
}

/// Uses the browser's header about the site; pages cannot change it.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let known = |value: &HeaderValue| value == "same-origin" || value == "none";
    headers.get_all("sec-fetch-site").iter().any(|value| !known(value))
}

/// Whether an origin is the host that the request names, with any scheme, because TLS may end at a proxy.
fn is_own(origin: &HeaderValue, headers: &HeaderMap) -> bool {
    let Some((scheme, host)) = origin.to_str().ok().and_then(|text| text.split_once("://")) else {
        return false;
    };
    let named = headers.get(HOST).and_then(|value| value.to_str().ok());
    matches!(scheme, "http" | "https") && named.is_some_and(|named| named.eq_ignore_ascii_case(host))
}

fn is_navigation(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-mode").is_some_and(|value| value == "navigate") && !headers.contains_key(ORIGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(listen: &str, others: &[&str], authority: &str) -> bool {
        AllowedHosts::new(listen.parse().unwrap(), others.iter().copied()).allows(authority)
    }

    #[test]
    fn hosts_of_loopback_listen_address_and_list_are_allowed() {
        for (listen, others, authority, expected) in [
            ("127.0.0.1:4001", &[][..], "127.0.0.1:9", true),
            ("127.0.0.1:4001", &[], "LocalHost.:4001", true),
            ("127.0.0.1:4001", &[], "[::1]", true),
            ("127.0.0.1:4001", &[], "[::ffff:127.0.0.1]:80", true),
            ("127.0.0.1:4001", &[], "localhost.evil.example", false),
            ("127.0.0.1:4001", &[], "10.0.0.5:4001", false),
            ("127.0.0.1:4001", &[], "", false),
            ("10.0.0.5:4001", &[], "10.0.0.5", true),
            ("10.0.0.5:4001", &[], "10.0.0.6", false),
            ("10.0.0.5:4001", &[], "hub.example", false),
            ("10.0.0.5:4001", &["Hub.Example", "10.0.0.6"], "hub.example:4001", true),
            ("10.0.0.5:4001", &["Hub.Example", "10.0.0.6"], "10.0.0.6", true),
            ("0.0.0.0:4001", &[], "10.0.0.6:4001", true),
            ("0.0.0.0:4001", &[], "hub", false),
            ("0.0.0.0:4001", &["*"], "hub", true),
        ] {
            assert_eq!(allowed(listen, others, authority), expected, "{listen} {others:?} {authority}");
        }
    }

    #[test]
    fn origins_are_schemes_hosts_and_ports() {
        for (origin, expected) in [
            ("https://Portal.Example", "https://portal.example"),
            ("http://10.0.0.5:8080", "http://10.0.0.5:8080"),
            ("https://portal.example:443", "https://portal.example"),
            ("http://portal.example:80", "http://portal.example"),
            ("https://[fd00::7]:8443", "https://[fd00::7]:8443"),
        ] {
            assert_eq!(WebOrigin::parse(origin).unwrap().to_string(), expected);
        }
        for wrong in [
            "",
            "*",
            "null",
            "portal.example",
            "https://",
            "https://:443",
            "https://*",
            "https://portal.example/",
            "https://a@portal.example",
            "ftp://portal.example",
        ] {
            assert_eq!(WebOrigin::parse(wrong), None, "{wrong}");
        }
    }
}
