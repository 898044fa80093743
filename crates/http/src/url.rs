//! Absolute `http://` URLs, split into the origin that is connected to and the path that is asked for.

use std::fmt;
use std::sync::Arc;

use http::Uri;
use http::uri::{PathAndQuery, Scheme};

/// Why a URL cannot be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Not a URL at all.
    #[error("{url:?} is not a URL; write it as http://host:port/path")]
    Malformed {
        /// The text given.
        url: String,
    },
    /// Another scheme than `http`.
    #[error("{url:?} does not begin with http://, the one scheme that can be called")]
    Scheme {
        /// The text given.
        url: String,
    },
    /// User name and password in a URL are not sent anywhere, so they are refused.
    #[error("a URL may not carry credentials before its host")]
    Credentials,
    /// A host or port that a message would fill in.
    #[error("a URL may not have placeholders in its host or port")]
    Placeholder,
    /// No port that can be connected to, or an odd spelling of one.
    #[error("a URL's port must be a number from 1 to 65535 without leading zeros")]
    Port,
    /// No host name, or an odd spelling of one.
    #[error("a URL's host must be letters, digits, dashes and single dots, and not end in a dot")]
    Host,
    /// An odd spelling of an IPv4 address.
    #[error("an IPv4 address in a URL must be four decimal numbers, such as 192.0.2.1")]
    Ipv4,
    /// An odd spelling of an IPv6 address.
    #[error("an IPv6 address in a URL must have its shortest form, such as [2001:db8::1], and no zone")]
    Ipv6,
    /// A fragment is never sent, and one right after the host would leave the request without a target.
    #[error("{url:?} has a fragment; a URL to call ends before its #")]
    Fragment {
        /// The text given.
        url: String,
    },
}

impl UrlError {
    /// What an address that somebody sets must be like instead; `None` for what is no URL at all, of which they are
    /// told the form that is wanted.
    pub const fn demand(&self) -> Option<&'static str> {
        match self {
            Self::Malformed { .. } => None,
            Self::Scheme { .. } => {
                Some("must begin with http://; this hub does not speak TLS yet, so name a proxy that does")
            }
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
        }
    }
}

/// Where to connect: a host and a port. Cheap to clone; equal when host and port are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    host: Arc<str>,
    port: u16,
}

impl Origin {
    /// A host name or an address (an IPv6 address without brackets) and a port.
    pub fn new(host: &str, port: u16) -> Self {
        let is_lower = !host.bytes().any(|byte| byte.is_ascii_uppercase());
        Self { host: if is_lower { host.into() } else { host.to_ascii_lowercase().into() }, port }
    }

    /// The host in lower case, an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port; 80 where the URL had none.
    pub const fn port(&self) -> u16 {
        self.port
    }
}

/// As the `Host` header has it: the port is left out where it is 80.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{open}{}{close}", self.host)?;
        if self.port == 80 { Ok(()) } else { write!(f, ":{}", self.port) }
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
    /// Where to connect.
    pub origin: Origin,
    /// Path and query, `/` where the URL had none: the request target in origin-form.
    pub path: PathAndQuery,
}

impl Target {
    /// Parses `http://host[:port][/path][?query]`.
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        let malformed = || UrlError::Malformed { url: url.to_owned() };
        if url.contains('#') {
            return Err(UrlError::Fragment { url: url.to_owned() });
        }
        let uri: Uri = url.parse().map_err(|_| malformed())?;
        match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => {}
            Some(_) => return Err(UrlError::Scheme { url: url.to_owned() }),
            None => return Err(malformed()),
        }
        let authority = uri.authority().ok_or_else(malformed)?;
        if authority.as_str().contains('@') {
            return Err(UrlError::Credentials);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        // `host:` and `host:99999` parse as an authority but have no usable port.
        if host.is_empty()
            || (authority.port_u16().is_none() && authority.as_str().len() != authority.host().len())
        {
            return Err(malformed());
        }
        let origin = Origin::new(host, authority.port_u16().unwrap_or(80));
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
        ] {
            let target = Target::parse(url).expect(url);
            assert_eq!((target.origin.host(), target.origin.port()), (host, port), "{url}");
            assert_eq!(target.path.as_str(), path, "{url}");
            assert_eq!(target.origin.to_string(), shown, "{url}");
            assert_eq!(target.into_uri().to_string(), path, "{url}");
        }
    }

    #[test]
    fn what_cannot_be_called_is_refused() {
        let malformed = |url: &str| UrlError::Malformed { url: url.to_owned() };
        for url in [
            "",
            "/path",
            "host",
            "host:80",
            "http://",
            "http:///path",
            "http://host:port/",
            "http://ho st/",
            "http://host:99999/",
        ] {
            assert_eq!(Target::parse(url), Err(malformed(url)), "{url}");
        }
        let url = "https://host/".to_owned();
        assert_eq!(Target::parse(&url), Err(UrlError::Scheme { url }));
        assert_eq!(Target::parse("http://me:secret@host/"), Err(UrlError::Credentials));
        for url in ["http://df#sp.example:3001/", "http://host/path#part"] {
            assert_eq!(Target::parse(url), Err(UrlError::Fragment { url: url.to_owned() }));
        }
    }
}
