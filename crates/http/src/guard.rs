//! Permitted destinations of connections: an address that a DFSP chose must not reach hosts that only the hub can
//! reach.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use tokio::net::TcpStream;

use crate::Target;

/// Addresses that are not assigned on the public internet, or that lead back to this machine (IANA's special-purpose
/// registries).
const REFUSED: [(IpAddr, u8); 21] = [
    v4([0, 0, 0, 0], 8),
    v4([10, 0, 0, 0], 8),
    v4([100, 64, 0, 0], 10),
    v4([127, 0, 0, 0], 8),
    // Link-local addresses: cloud providers serve credentials of the machine at 169.254.169.254.
    v4([169, 254, 0, 0], 16),
    v4([172, 16, 0, 0], 12),
    v4([192, 0, 0, 0], 24),
    v4([192, 0, 2, 0], 24),
    v4([192, 88, 99, 0], 24),
    v4([192, 168, 0, 0], 16),
    v4([198, 18, 0, 0], 15),
    v4([198, 51, 100, 0], 24),
    v4([203, 0, 113, 0], 24),
    v4([224, 0, 0, 0], 3),
    // All but 2000::/3: IANA assigns no other public addresses. An IPv4-mapped address is checked as the IPv4 address.
    v6([0, 0, 0, 0, 0, 0, 0, 0], 3),
    v6([0x4000, 0, 0, 0, 0, 0, 0, 0], 2),
    v6([0x8000, 0, 0, 0, 0, 0, 0, 0], 1),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),
];

/// Permitted ports below 1024 if no ports are configured.
const LOW_PORTS: [u16; 2] = [80, 443];
const FREE_PORTS_FROM: u16 = 1024;

const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> (IpAddr, u8) {
    (IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix)
}

const fn v6(s: [u16; 8], prefix: u8) -> (IpAddr, u8) {
    (IpAddr::V6(Ipv6Addr::new(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7])), prefix)
}

/// A network of addresses with a common prefix, such as `10.20.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// The text is not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a network; write it as 10.20.0.0/16 or 2001:db8::/32, with zeros after the prefix")]
pub struct NotANetwork(String);

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || NotANetwork(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(refused)?;
        let address: IpAddr = address.parse().map_err(|_| refused())?;
        let length: u8 = prefix.parse().map_err(|_| refused())?;
        let network = Self { address, prefix: length };
        let is_sound = length <= bits_of(address).1 && length.to_string() == prefix && network.is_start();
        if is_sound { Ok(network) } else { Err(refused()) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Network {
    /// Whether it contains an address. An IPv4-mapped IPv6 address is treated as the IPv4 address.
    pub fn contains(self, address: IpAddr) -> bool {
        let ((own, width), (other, other_width)) = (bits_of(self.address), bits_of(address.to_canonical()));
        width == other_width && masked(own, width, self.prefix) == masked(other, width, self.prefix)
    }

    /// Whether this is an IPv6 network.
    pub const fn is_ipv6(self) -> bool {
        self.address.is_ipv6()
    }

    /// Length of the common prefix in bits.
    pub const fn prefix(self) -> u8 {
        self.prefix
    }

    fn is_start(self) -> bool {
        let (bits, width) = bits_of(self.address);
        masked(bits, width, self.prefix) == bits
    }
}

/// The bits of an address as the lowest bits of a number, and their count.
const fn bits_of(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (address.to_bits() as u128, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

fn masked(bits: u128, width: u8, prefix: u8) -> u128 {
    let rest = u32::from(width.saturating_sub(prefix));
    bits.checked_shr(rest).and_then(|bits| bits.checked_shl(rest)).unwrap_or(0)
}

/// Reason why a connection is not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuardError {
    /// The address is not public, and no configured network contains it.
    #[error("{0} is neither public nor in outbound.networks")]
    Address(IpAddr),
    /// The port is not permitted.
    #[error("port {0} is not one of outbound.ports")]
    Port(u16),
    /// The address and port of the hub itself.
    #[error("{0} is a port of this hub")]
    Own(SocketAddr),
}

impl From<GuardError> for io::Error {
    fn from(refused: GuardError) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, refused)
    }
}

/// Rules of a guard.
#[derive(Clone, Debug, Default)]
pub struct GuardRules {
    /// Networks that are permitted although they are not public.
    pub networks: Vec<Network>,
    /// Permitted ports; if empty: 80, 443 and all from 1024 on.
    pub ports: Vec<u16>,
}

/// Returns the addresses of a host.
pub type Resolve = fn(&str) -> Vec<IpAddr>;

/// Decides which destinations are permitted. The default permits all. Clones share their state.
///
/// The addresses of a name are checked for each connection. If one is rejected, the name is rejected. The connection is
/// made to an address that was checked.
#[derive(Clone, Default)]
pub struct Guard(Option<Arc<Inner>>);

struct Inner {
    rules: GuardRules,
    own_ports: OnceLock<Vec<u16>>,
    resolve: Option<Resolve>,
}

impl Guard {
    /// Permits only public addresses, and addresses that the rules allow.
    pub fn new(rules: GuardRules) -> Self {
        Self::with(rules, None)
    }

    /// Like [`Self::new`], with a given resolver of names, for tests.
    pub fn with_names(rules: GuardRules, resolve: Resolve) -> Self {
        Self::with(rules, Some(resolve))
    }

    fn with(rules: GuardRules, resolve: Option<Resolve>) -> Self {
        let shared = Inner { rules, own_ports: OnceLock::new(), resolve };
        Self(Some(Arc::new(shared)))
    }

    /// Sets the ports of this process. The guard then rejects connections to these ports on this machine. Call it once.
    pub fn keep_from(&self, ports: Vec<u16>) {
        if let Some(shared) = &self.0 {
            let _ = shared.own_ports.set(ports);
        }
    }

    /// Whether a URL may be registered, as far as its text shows: by its port, and by its host if that is an address.
    ///
    /// # Errors
    /// The reason why it may not.
    pub fn check_target(&self, target: &Target) -> Result<(), GuardError> {
        let Some(shared) = &self.0 else { return Ok(()) };
        shared.check_port(target.origin.port())?;
        match target.origin.host().parse() {
            Ok(address) => shared.check(address),
            Err(_) => Ok(()),
        }
    }

    /// Checks whether a port is permitted.
    pub(crate) fn check_port(&self, port: u16) -> Result<(), GuardError> {
        self.0.as_ref().map_or(Ok(()), |shared| shared.check_port(port))
    }

    /// Checks whether all of these addresses are permitted.
    pub(crate) fn check_addresses(&self, addresses: &[IpAddr]) -> Result<(), GuardError> {
        let Some(shared) = &self.0 else { return Ok(()) };
        addresses.iter().try_for_each(|address| shared.check(*address))
    }

    /// Checks that a connection does not lead to a port of this process.
    pub(crate) fn check_own(&self, stream: &TcpStream) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |shared| shared.check_own(stream))
    }

    /// The given resolver, if the system's is not used.
    pub(crate) fn names(&self) -> Option<Resolve> {
        self.0.as_ref().and_then(|shared| shared.resolve)
    }
}

impl Inner {
    fn check(&self, address: IpAddr) -> Result<(), GuardError> {
        let is_in =
            |(start, prefix): &(IpAddr, u8)| Network { address: *start, prefix: *prefix }.contains(address);
        let is_allowed = self.rules.networks.iter().any(|network| network.contains(address));
        if is_allowed || !REFUSED.iter().any(is_in) { Ok(()) } else { Err(GuardError::Address(address)) }
    }

    fn check_port(&self, port: u16) -> Result<(), GuardError> {
        let is_allowed = match &*self.rules.ports {
            [] => port >= FREE_PORTS_FROM || LOW_PORTS.contains(&port),
            ports => ports.contains(&port),
        };
        if is_allowed { Ok(()) } else { Err(GuardError::Port(port)) }
    }

    /// A connection whose ends have the same address has not left this machine.
    fn check_own(&self, stream: &TcpStream) -> io::Result<()> {
        let (own, peer) = (stream.local_addr()?, stream.peer_addr()?);
        let is_own_port = self.own_ports.get().is_some_and(|ports| ports.contains(&peer.port()));
        if is_own_port && own.ip() == peer.ip() { Err(GuardError::Own(peer).into()) } else { Ok(()) }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&self.0.as_ref().map(|shared| &shared.rules)).finish()
    }
}

impl PartialEq for Guard {
    /// Whether both are the same guard.
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

impl Eq for Guard {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_parsed_as_address_and_prefix_length() {
        let contains = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse().unwrap())
        };
        assert!(contains("10.20.0.0/16", "10.20.255.255") && !contains("10.20.0.0/16", "10.21.0.0"));
        assert!(contains("10.20.0.0/16", "::ffff:10.20.1.1"), "mapped");
        assert!(contains("0.0.0.0/0", "255.255.255.255") && !contains("0.0.0.0/0", "::1"));
        assert!(contains("::/0", "2001:db8::1") && contains("192.0.2.1/32", "192.0.2.1"));
        assert!(
            contains("2001:db8::/33", "2001:db8:7fff::1") && !contains("2001:db8::/33", "2001:db8:8000::")
        );
        for text in ["10.20.0.0/16", "2001:db8:8000::/33", "0.0.0.0/0"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        for text in
            ["10.20.0.0", "10.20.0.1/16", "10.0.0.0/33", "10.0.0.0/08", "10.0.0.0/+8", "/8", "x/8", "::1/64"]
        {
            assert_eq!(text.parse::<Network>(), Err(NotANetwork(text.to_owned())));
        }
    }
}
