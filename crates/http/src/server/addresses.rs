//! How many connections of strangers each address has: those that carried nothing of a known participant yet.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, PoisonError};

use crate::sync::Mutex;

/// Bits of an IPv6 address that one host or household can vary as it likes.
const IPV6_HOST_BITS: u32 = 64;

/// What counts as one address: an IPv4 address, or the network half of an IPv6 address.
pub(super) fn origin_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> IPV6_HOST_BITS << IPV6_HOST_BITS)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Counts strangers by address. It is asked when a connection comes, goes, or becomes known; never at a request.
#[derive(Debug, Default)]
pub(super) struct Addresses(Mutex<HashMap<IpAddr, usize>>);

impl Addresses {
    /// Strangers of an address now.
    pub(super) fn strangers(&self, address: IpAddr) -> usize {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(&address).copied().unwrap_or(0)
    }

    /// Counts one more, as long as what it gives lives.
    pub(super) fn seat(self: &Arc<Self>, address: IpAddr) -> Seat {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(address).or_default() += 1;
        Seat { addresses: Arc::clone(self), address }
    }
}

/// One stranger.
#[derive(Debug)]
pub(super) struct Seat {
    addresses: Arc<Addresses>,
    address: IpAddr,
}

impl Seat {
    pub(super) const fn address(&self) -> IpAddr {
        self.address
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut counts = self.addresses.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_or_the_network_half_of_an_ipv6_address() {
        for (address, expected) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("::1", "::"),
        ] {
            assert_eq!(origin_of(address.parse().unwrap()).to_string(), expected, "{address}");
        }
    }

    #[test]
    fn seats_are_counted_by_address_and_given_back() {
        let addresses = Arc::new(Addresses::default());
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse::<IpAddr>().unwrap());
        let seats = [addresses.seat(one), addresses.seat(one), addresses.seat(other)];
        assert_eq!((addresses.strangers(one), addresses.strangers(other)), (2, 1));
        drop(seats);
        assert_eq!((addresses.strangers(one), addresses.strangers(other)), (0, 0));
        assert!(addresses.0.lock().unwrap().is_empty(), "nothing is kept of who has left");
    }
}
