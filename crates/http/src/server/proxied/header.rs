//! The header of the PROXY protocol, versions 1 and 2: a load balancer states a client's address in it.
//!
//! Rules: `proxy-protocol.txt` of HAProxy, §2. If the text allows alternatives, this parser is strict, since it reads
//! only listed load balancers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Minimum length of every header: `PROXY UNKNOWN` and its line end.
const BYTES_MIN: usize = 15;
/// Longest header of version 1, including its line end (§2.1).
const V1_BYTES_MAX: usize = 107;
/// First bytes of version 2.
const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Fixed part of version 2.
const V2_FIXED_BYTES: usize = 16;
/// Longest header of version 2. Addresses need 216 bytes at most, which leaves space for further fields (TLV).
pub const HEADER_BYTES_MAX: usize = 2_048;

/// Result of parsing the first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// The beginning of a header, which has at least this many bytes more.
    Needs(usize),
    /// Exactly one complete header, with the client's address. `None` if the connection is the load balancer's own, or
    /// of a kind without such an address.
    Whole(Option<IpAddr>),
}

/// The bytes do not begin a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection does not begin with a header of the PROXY protocol: {0}")]
pub struct NotAProxyHeader(&'static str);

impl ProxyHeader {
    /// Parses the first bytes of a connection. A caller that reads only the bytes needed never reads beyond the header.
    pub fn read(bytes: &[u8]) -> Result<Self, NotAProxyHeader> {
        if bytes.len() < BYTES_MIN {
            return Ok(Self::Needs(BYTES_MIN - bytes.len()));
        }
        if bytes.starts_with(V2_SIGNATURE) {
            return version_2(bytes);
        }
        let line = bytes.strip_prefix(b"PROXY ").ok_or(NotAProxyHeader("it begins differently"))?;
        match line.iter().position(|byte| *byte == b'\n') {
            Some(end) if end + 1 < line.len() => Err(NotAProxyHeader("there is more data after it")),
            Some(end) if bytes.len() <= V1_BYTES_MAX => {
                let text =
                    line[..end].strip_suffix(b"\r").ok_or(NotAProxyHeader("its line ends in LF alone"))?;
                version_1(text).map(Self::Whole)
            }
            None if bytes.len() < V1_BYTES_MAX => {
                let ends = usize::from(line.last() != Some(&b'\r'));
                Ok(Self::Needs((1 + ends).min(V1_BYTES_MAX - bytes.len())))
            }
            _ => Err(NotAProxyHeader("its line is too long")),
        }
    }
}

/// `TCP4 SOURCE DESTINATION PORT PORT`, with single blanks; after `UNKNOWN` any text.
fn version_1(line: &[u8]) -> Result<Option<IpAddr>, NotAProxyHeader> {
    if line.strip_prefix(b"UNKNOWN").is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b' ')) {
        return Ok(None);
    }
    let malformed = NotAProxyHeader("its line is malformed");
    let text = str::from_utf8(line).map_err(|_| malformed)?;
    let parts: Vec<_> = text.split(' ').collect();
    let [family, source, destination, ports @ ..] = &*parts else { return Err(malformed) };
    let address = |text: &str| match *family {
        "TCP4" => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        "TCP6" => text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        _ => None,
    };
    let is_sound =
        ports.len() == 2 && ports.iter().all(|port| is_port(port)) && address(destination).is_some();
    match address(source) {
        Some(source) if is_sound => Ok(Some(source)),
        _ => Err(malformed),
    }
}

fn is_port(text: &str) -> bool {
    let is_plain = text == "0" || !text.starts_with(['0', '+']);
    is_plain && text.parse::<u16>().is_ok()
}

fn version_2(bytes: &[u8]) -> Result<ProxyHeader, NotAProxyHeader> {
    let Some((fixed, rest)) = bytes.split_first_chunk::<V2_FIXED_BYTES>() else {
        return Ok(ProxyHeader::Needs(V2_FIXED_BYTES - bytes.len()));
    };
    let [.., version_and_command, family, high, low] = *fixed;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if V2_FIXED_BYTES + length > HEADER_BYTES_MAX {
        return Err(NotAProxyHeader("it is too long"));
    }
    // The last four bits are the command: the load balancer's own connection, or a forwarded one.
    let is_passed_on = match version_and_command {
        0x20 => false,
        0x21 => true,
        _ => return Err(NotAProxyHeader("its version or command is unknown")),
    };
    // Length of both addresses and ports, and of the source within them.
    let (addresses, source) = match family {
        // The family is unspecified, or a local socket, which has no network address.
        0x00 => (0, 0),
        0x31 => (216, 0),
        0x11 => (12, 4),
        0x21 => (36, 16),
        _ => return Err(NotAProxyHeader("its address family is not supported")),
    };
    if is_passed_on && length < addresses {
        return Err(NotAProxyHeader("its addresses are truncated"));
    }
    match rest.len().cmp(&length) {
        std::cmp::Ordering::Less => Ok(ProxyHeader::Needs(length - rest.len())),
        std::cmp::Ordering::Greater => Err(NotAProxyHeader("there is more data after it")),
        std::cmp::Ordering::Equal if !is_passed_on => Ok(ProxyHeader::Whole(None)),
        std::cmp::Ordering::Equal => Ok(ProxyHeader::Whole(address_of(&rest[..source]))),
    }
}

fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    let v6 = || <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from);
    v4().or_else(v6)
}
