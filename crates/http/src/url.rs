//! Absolute `http://` and `https://` URLs, split into the origin of the connection and the path of the request.

use std::fmt;
use std::sync::Arc;

use http::Uri;
use http::uri::{PathAndQuery, Scheme};

use crate::{Guard, GuardError};

/// Reason why a URL cannot be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The text is not a URL.
    #[error("{url:?} is not a URL; write it as http://host:port/path")]
    Malformed {
        /// The text of the URL.
        url: String,
    },
    /// The scheme is neither `http` nor `https`.
    #[error("{url:?} does not begin with http:// or https://, the schemes that can be called")]
    Scheme {
        /// The text of the URL.
        url: String,
    },
    /// `https`, but no trust anchors are set.
    #[error("{SECURE_DEMAND}")]
    NoTls,
    /// `http`, although only `https` is allowed.
    #[error("{INSECURE_DEMAND}")]
    Insecure,
    /// User name and password in a URL would not be sent, so they are rejected.
    #[error("a URL may not carry credentials before its host")]
    Credentials,
    /// The host or port contains a placeholder for a message to fill in.
    #[error("a URL may not have placeholders in its host or port")]
    Placeholder,
    /// The port is missing, invalid or spelled unusually.
    #[error("a URL's port must be a number from 1 to 65535 without leading zeros")]
    Port,
    /// The host name is missing or spelled unusually.
    #[error("a URL's host must be letters, digits, dashes and single dots, and not end in a dot")]
    Host,
    /// An unusual spelling of an IPv4 address.
    #[error("an IPv4 address in a URL must be four decimal numbers, such as 192.0.2.1")]
    Ipv4,
    /// An unusual spelling of an IPv6 address.
    #[error("an IPv6 address in a URL must have its shortest form, such as [2001:db8::1], and no zone")]
    Ipv6,
    /// The host or port is not a permitted destination.
    #[error(transparent)]
    Refused(GuardError),
    /// The URL has a fragment. Fragments are never sent, and one right after the host would leave the request without a
    /// target.
    #[error("{url:?} has a fragment; a URL to call ends before its #")]
    Fragment {
        /// The text of the URL.
        url: String,
    },
}

const PORT_DEMAND: &str =
    "must have a port of outbound.ports (by default 80, 443 and all ports from 1024 on)";
const ADDRESS_DEMAND: &str = "must have a public host, or one in outbound.networks";
const SECURE_DEMAND: &str = "must begin with http:// (https:// needs outbound_tls.anchors_file)";
const INSECURE_DEMAND: &str = "must begin with https:// (outbound_tls.https_only)";

impl UrlError {
    /// The requirement that a configured address violates; `None` for a text that is not a URL: its message
    /// states the expected form.
    pub const fn demand(&self) -> Option<&'static str> {
        match self {
            Self::Malformed { .. } => None,
            Self::Scheme { .. } => Some("must begin with http:// or https://"),
            Self::NoTls => Some(SECURE_DEMAND),
            Self::Insecure => Some(INSECURE_DEMAND),
            Self::Credentials => Some("must not carry credentials before its host"),
            Self::Placeholder => Some("must not have placeholders in its host or port"),
            Self::Port => Some("must have a port from 1 to 65535 without leading zeros, or none"),
            Self::Host => {
                Some("must have a host of letters, digits, dashes and single dots that does not end in a dot")
            }
            Self::Ipv4 => Some("must have an IPv4 address as four decimal numbers, such as 192.0.2.1"),
            Self::Ipv6 => {
                Some("must have an IPv6 address in its shortest form, such as [2001:db8::1], without a zone")
            }
            Self::Fragment { .. } => Some("must not have a fragment"),
            Self::Refused(GuardError::Port(_)) => Some(PORT_DEMAND),
            Self::Refused(_) => Some(ADDRESS_DEMAND),
        }
    }
}

/// Rules for addresses that may be registered, as far as their text shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schemes {
    /// Whether `http://` is allowed.
    pub http: bool,
    /// Whether `https://` is allowed.
    pub https: bool,
    /// The permitted hosts and ports.
    pub guard: Guard,
}

impl Default for Schemes {
    /// The rules of a hub without trust anchors.
    fn default() -> Self {
        Self { http: true, https: false, guard: Guard::default() }
    }
}

impl Schemes {
    /// Checks an address, or a template of one, that would be registered.
    pub fn check(&self, url: &str) -> Result<(), UrlError> {
        let is_secure = url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"));
        match is_secure {
            true if !self.https => return Err(UrlError::NoTls),
            false if !self.http => return Err(UrlError::Insecure),
            _ => {}
        }
        // The part after the authority may be a template, which is not a URL yet.
        let authority = url.find("://").map_or(0, |at| at + 3);
        let end = url[authority..].find(['/', '?', '#']).map_or(url.len(), |at| authority + at);
        match Target::parse(&url[..end]) {
            Ok(target) => self.guard.check_target(&target).map_err(UrlError::Refused),
            // Another check rejects it as malformed.
            Err(_) => Ok(()),
        }
    }
}

/// Destination of a connection: a host and a port, with or without TLS. Cheap to clone; equal if all three are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    host: Arc<str>,
    port: u16,
    is_secure: bool,
}

impl Origin {
    /// A host name or an address (an IPv6 address without brackets) and a port, without TLS.
    pub fn new(host: &str, port: u16) -> Self {
        let is_lower = !host.bytes().any(|byte| byte.is_ascii_uppercase());
        let host = if is_lower { host.into() } else { host.to_ascii_lowercase().into() };
        Self { host, port, is_secure: false }
    }

    /// The same, with TLS.
    pub fn secure(host: &str, port: u16) -> Self {
        Self { is_secure: true, ..Self::new(host, port) }
    }

    /// Whether connections use TLS.
    pub const fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// The host in lower case, an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port; if the URL had none, the default of the scheme, 80 or 443.
    pub const fn port(&self) -> u16 {
        self.port
    }
}

const fn default_port(is_secure: bool) -> u16 {
    if is_secure { 443 } else { 80 }
}

/// The form of the `Host` header: the port is left out if it is the default of the scheme.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{open}{}{close}", self.host)?;
        if self.port == default_port(self.is_secure) { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A parsed URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Destination of the connection.
    pub origin: Origin,
    /// Path and query, `/` if the URL had none: the request target in origin-form.
    pub path: PathAndQuery,
}

impl Target {
    /// Parses `http[s]://host[:port][/path][?query]`.
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        let malformed = || UrlError::Malformed { url: url.to_owned() };
        if url.contains('#') {
            return Err(UrlError::Fragment { url: url.to_owned() });
        }
        let uri: Uri = url.parse().map_err(|_| malformed())?;
        let is_secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(_) => return Err(UrlError::Scheme { url: url.to_owned() }),
            None => return Err(malformed()),
        };
        let authority = uri.authority().ok_or_else(malformed)?;
        if authority.as_str().contains('@') {
            return Err(UrlError::Credentials);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        // `host:` and `host:99999` parse as an authority but have no usable port.
        if host.is_empty() {
            return Err(malformed());
        }
        if authority.port_u16().is_none() && authority.as_str().len() != authority.host().len() {
            let is_too_large = too_large_port(authority.as_str()).is_some();
            return Err(if is_too_large { UrlError::Port } else { malformed() });
        }
        let port = authority.port_u16().unwrap_or(default_port(is_secure));
        let origin = Origin { is_secure, ..Origin::new(host, port) };
        let path = match uri.into_parts().path_and_query {
            None => PathAndQuery::from_static("/"),
            Some(path) if path.as_str().starts_with('/') => path,
            Some(query) => PathAndQuery::try_from(format!("/{}", query.as_str())).map_err(|_| malformed())?,
        };
        Ok(Self { origin, path })
    }

    /// The request target: path and query without the origin.
    pub fn into_uri(self) -> Uri {
        self.path.into()
    }
}

/// The number at the end of an address, if it is too large for a port.
pub fn too_large_port(address: &str) -> Option<&str> {
    let (_, port) = address.rsplit_once(':')?;
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && port.parse::<u16>().is_err()).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_split_into_origin_and_path() {
        for (url, host, port, path, shown) in [
            ("http://dfsp.example/transfers", "dfsp.example", 80, "/transfers", "dfsp.example"),
            ("http://DFSP.example:8080", "dfsp.example", 8080, "/", "dfsp.example:8080"),
            ("http://127.0.0.1:9/a/b?c=d", "127.0.0.1", 9, "/a/b?c=d", "127.0.0.1:9"),
            ("http://[::1]:9/", "::1", 9, "/", "[::1]:9"),
            ("http://host?x=1", "host", 80, "/?x=1", "host"),
            ("http://host:443", "host", 443, "/", "host:443"),
            ("https://host/a", "host", 443, "/a", "host"),
            ("https://host:443", "host", 443, "/", "host"),
            ("https://HOST:80/", "host", 80, "/", "host:80"),
            ("https://[::1]:8443/", "::1", 8443, "/", "[::1]:8443"),
        ] {
            let target = Target::parse(url).expect(url);
            assert_eq!((target.origin.host(), target.origin.port()), (host, port), "{url}");
            assert_eq!(target.origin.is_secure(), url.starts_with("https:"), "{url}");
            assert_eq!(target.path.as_str(), path, "{url}");
            assert_eq!(target.origin.to_string(), shown, "{url}");
            assert_eq!(target.into_uri().to_string(), path, "{url}");
        }
    }

    #[test]
    fn schemes_are_allowed_one_by_one() {
        for (http, https, plain, secure) in [
            (true, false, Ok(()), Err(UrlError::NoTls)),
            (true, true, Ok(()), Ok(())),
            (false, true, Err(UrlError::Insecure), Ok(())),
        ] {
            let schemes = Schemes { http, https, ..Schemes::default() };
            assert_eq!(schemes.check("http://dfsp/{{id}}"), plain);
            assert_eq!(schemes.check("HTTPS://dfsp/{{id}}"), secure);
            assert_eq!(schemes.check("https"), plain, "another check rejects it as malformed");
        }
        assert!(Schemes::default().http && !Schemes::default().https);
    }

    #[test]
    fn invalid_urls_are_rejected() {
        let malformed = |url: &str| UrlError::Malformed { url: url.to_owned() };
        for url in
            ["", "/path", "host", "host:80", "http://", "http:///path", "http://host:port/", "http://ho st/"]
        {
            assert_eq!(Target::parse(url), Err(malformed(url)), "{url}");
        }
        for url in ["http://host:99999/", "http://host:65536", "https://[::1]:70000/a"] {
            assert_eq!(Target::parse(url), Err(UrlError::Port), "{url}");
        }
        let url = "ftp://host/".to_owned();
        assert_eq!(Target::parse(&url), Err(UrlError::Scheme { url }));
        assert_eq!(Target::parse("http://me:secret@host/"), Err(UrlError::Credentials));
        for url in ["http://df#sp.example:3001/", "http://host/path#part"] {
            assert_eq!(Target::parse(url), Err(UrlError::Fragment { url: url.to_owned() }));
        }
    }
}
