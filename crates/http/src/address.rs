//! Registered addresses: one spelling per address, so that an address is always the host that it appears to be.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::UrlError;

const HOST_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// Checks host and port of a URL or URL template that messages will be sent to. Resolvers accept many odd spellings of
/// an address (`127.1`, `0x7f000001`, `2130706433`), which would not match a list of addresses. A host with a
/// placeholder would be chosen by the sender of a message.
///
/// Errors: for a host or port with placeholders; credentials; a host name with empty, long or odd labels, a dot at its
/// end or percent-encoding; an IPv4 address that is not four plain decimal numbers; an IPv6 address that has a zone,
/// stands for an IPv4 one or is not in its shortest form (RFC 5952); a port that is empty, 0, over 65535 or has leading
/// zeros.
pub fn check_address(url: &str) -> Result<(), UrlError> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains(['{', '}']) {
        return Err(UrlError::Placeholder);
    }
    if authority.contains('@') {
        return Err(UrlError::Credentials);
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(literal) => {
            let (address, port) = literal.split_once(']').ok_or(UrlError::Ipv6)?;
            check_ipv6(address)?;
            (None, port)
        }
        None => {
            let end = authority.find(':').unwrap_or(authority.len());
            (Some(&authority[..end]), &authority[end..])
        }
    };
    host.map_or(Ok(()), check_host)?;
    check_port(port)
}

/// `:` and a port, or nothing.
fn check_port(text: &str) -> Result<(), UrlError> {
    if text.is_empty() {
        return Ok(());
    }
    let port = text.strip_prefix(':').and_then(|digits| Some((digits, digits.parse::<u16>().ok()?)));
    port.filter(|(digits, port)| *port != 0 && port.to_string() == *digits).map(drop).ok_or(UrlError::Port)
}

fn check_ipv6(address: &str) -> Result<(), UrlError> {
    let parsed: Ipv6Addr = address.parse().map_err(|_| UrlError::Ipv6)?;
    let is_plain = parsed.to_ipv4_mapped().is_none() && parsed.to_string() == address.to_ascii_lowercase();
    if is_plain { Ok(()) } else { Err(UrlError::Ipv6) }
}

fn check_host(host: &str) -> Result<(), UrlError> {
    let is_label = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if host.len() > HOST_BYTES_MAX || !host.split('.').all(is_label) {
        return Err(UrlError::Host);
    }
    let last = host.rsplit('.').next().unwrap_or_default();
    if is_number(last) && host.parse::<Ipv4Addr>().is_err() {
        return Err(UrlError::Ipv4);
    }
    Ok(())
}

/// Whether resolvers read a host with this last label as an address: a decimal, octal or hexadecimal number.
fn is_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    label.bytes().all(|byte| byte.is_ascii_digit())
        || hexadecimal.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_addresses_pass() {
        for url in [
            "http://dfsp.example",
            "http://dfsp.example:8080/transfers/{{transferId}}?a={b}",
            "https://DFSP-1_a.example/x",
            "http://dfsp",
            "http://127.0.0.1:1/",
            "http://10.1.2.3",
            "http://[::1]:3000",
            "http://[2001:DB8::1]/transfers",
            "http://1a.example",
            "http://7bank",
            "http://bank7:65535",
        ] {
            assert_eq!(check_address(url), Ok(()), "{url}");
        }
    }

    #[test]
    fn invalid_addresses_are_rejected_with_the_reason() {
        let long_label = format!("http://{}.example", "a".repeat(64));
        let long_host = format!("http://{}a", "a.".repeat(127));
        for (url, error) in [
            ("http://{{fsp}}/transfers", UrlError::Placeholder),
            ("http://{{fsp}}.example/transfers", UrlError::Placeholder),
            ("http://dfsp:{{id}}/transfers", UrlError::Placeholder),
            ("http://dfsp{/transfers", UrlError::Placeholder),
            ("http://me:secret@dfsp/", UrlError::Credentials),
            ("http://dfsp@127.0.0.1/", UrlError::Credentials),
            ("http://dfsp:0/", UrlError::Port),
            ("http://dfsp:00", UrlError::Port),
            ("http://dfsp:0080/", UrlError::Port),
            ("http://dfsp:+80/", UrlError::Port),
            ("http://dfsp:65536/", UrlError::Port),
            ("http://dfsp:/", UrlError::Port),
            ("http://dfsp:80:80/", UrlError::Port),
            ("http://[::1]80/", UrlError::Port),
            ("http://[::1]:0/", UrlError::Port),
            ("http://127.1/", UrlError::Ipv4),
            ("http://2130706433/", UrlError::Ipv4),
            ("http://0x7f000001/", UrlError::Ipv4),
            ("http://0X7F.0.0.1/", UrlError::Ipv4),
            ("http://0x/", UrlError::Ipv4),
            ("http://0177.0.0.1/", UrlError::Ipv4),
            ("http://127.0.0.01/", UrlError::Ipv4),
            ("http://127.0.0.0x1/", UrlError::Ipv4),
            ("http://127.0.0.256/", UrlError::Ipv4),
            ("http://1.2.3.4.5/", UrlError::Ipv4),
            ("http://dfsp.1/", UrlError::Ipv4),
            ("http://127.0.0.1./", UrlError::Host),
            ("http://dfsp.example./", UrlError::Host),
            ("http://dfsp..example/", UrlError::Host),
            ("http://.dfsp/", UrlError::Host),
            ("http://-dfsp/", UrlError::Host),
            ("http://dfsp-/", UrlError::Host),
            ("http://%64fsp/", UrlError::Host),
            ("http://127%2e0.0.1/", UrlError::Host),
            ("http://dfsp\\.evil/", UrlError::Host),
            ("http://dfsp,evil/", UrlError::Host),
            ("http://\u{ff11}27.0.0.1/", UrlError::Host),
            ("http://\u{2460}/", UrlError::Host),
            ("http:///transfers", UrlError::Host),
            ("http://:80/", UrlError::Host),
            (&long_label, UrlError::Host),
            (&long_host, UrlError::Host),
            ("http://[fe80::1%25eth0]/", UrlError::Ipv6),
            ("http://[fe80::1%eth0]/", UrlError::Ipv6),
            ("http://[::ffff:127.0.0.1]/", UrlError::Ipv6),
            ("http://[::ffff:7f00:1]/", UrlError::Ipv6),
            ("http://[0:0:0:0:0:0:0:1]/", UrlError::Ipv6),
            ("http://[::0001]/", UrlError::Ipv6),
            ("http://[127.0.0.1]/", UrlError::Ipv6),
            ("http://[v1.x]/", UrlError::Ipv6),
            ("http://[::1/", UrlError::Ipv6),
        ] {
            assert_eq!(check_address(url), Err(error.clone()), "{url}");
            assert!(error.demand().is_some(), "{error:?}");
        }
    }
}
