//! Holders of connections and requests: counts by address, certificate and participant.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use upesi_tls::Fingerprint;

use super::Limits;

/// Number of bits of an IPv6 address that one host or household can vary freely.
const IPV6_HOST_BITS: u32 = 64;

/// The part of an address that identifies a client: an IPv4 address, or the network half of an IPv6 address.
pub(super) fn origin_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> IPV6_HOST_BITS << IPV6_HOST_BITS)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// The party whose share of connections and requests a connection uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Holder {
    /// An address, for unidentified connections: they have carried no request of a participant.
    Anonymous(IpAddr),
    /// An address, for connections whose requests name participants without proof, or several of them: a gateway.
    Address(IpAddr),
    /// The key of a certificate that is not bound to a participant, for connections of the same kind.
    Certificate(Fingerprint),
    /// A participant, for its authenticated connections.
    Participant(u32),
}

impl Holder {
    pub(super) const fn is_known(self) -> bool {
        !matches!(self, Self::Anonymous(_))
    }
}

/// Number of connections of one holder, and of their HTTP/2 requests in flight.
#[derive(Debug, Default)]
struct Counts {
    connections: AtomicUsize,
    requests: AtomicUsize,
    requests_max: usize,
}

/// Counts connections by holder. A count changes when a connection begins, ends or becomes known, not at each request.
#[derive(Debug)]
pub(super) struct Holders {
    strangers_max: usize,
    known_max: usize,
    /// Limit of concurrent HTTP/2 requests of one holder, unless its limit of connections is lower.
    requests_max: usize,
    counts: Mutex<HashMap<Holder, Arc<Counts>>>,
    /// Number of addresses with unidentified connections; changed under the lock.
    addresses: AtomicUsize,
}

impl Holders {
    pub(super) fn new(limits: &Limits) -> Self {
        let (strangers_max, known_max) =
            (limits.anonymous_per_address_max, limits.connections_per_participant_max);
        // One holder leaves half of the slots to others, whatever its share is.
        let requests_max = limits.connections_max.div_ceil(2);
        Self {
            strangers_max,
            known_max,
            requests_max,
            counts: Mutex::default(),
            addresses: AtomicUsize::new(0),
        }
    }

    /// Limit of a holder's connections.
    pub(super) const fn share_of(&self, holder: Holder) -> usize {
        if holder.is_known() { self.known_max } else { self.strangers_max }
    }

    /// Whether a holder has reached its limit of connections.
    pub(super) fn is_full(&self, holder: Holder) -> bool {
        self.held(holder) >= self.share_of(holder)
    }

    /// Number of a holder's connections.
    pub(super) fn held(&self, holder: Holder) -> usize {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(&holder).map_or(0, |counts| counts.connections.load(Ordering::Relaxed))
    }

    /// Number of known holders.
    pub(super) fn known(&self) -> usize {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.len() - self.addresses.load(Ordering::Relaxed)
    }

    /// Number of addresses with unidentified connections.
    pub(super) fn addresses(&self) -> usize {
        self.addresses.load(Ordering::Relaxed)
    }

    /// Counts one more connection until the seat is dropped.
    pub(super) fn seat(self: &Arc<Self>, holder: Holder) -> HolderSlot {
        let mut all = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let requests_max = self.share_of(holder).min(self.requests_max);
        let counts = all.entry(holder).or_insert_with(|| {
            self.addresses.fetch_add(usize::from(!holder.is_known()), Ordering::Relaxed);
            Arc::new(Counts { requests_max, ..Counts::default() })
        });
        counts.connections.fetch_add(1, Ordering::Relaxed);
        HolderSlot { counts: Arc::clone(counts), holders: Arc::clone(self), holder }
    }
}

/// A connection that is counted for its holder.
#[derive(Debug)]
pub(super) struct HolderSlot {
    holders: Arc<Holders>,
    holder: Holder,
    counts: Arc<Counts>,
}

impl HolderSlot {
    pub(super) const fn holder(&self) -> Holder {
        self.holder
    }

    pub(super) fn is_of(&self, holder: &Holder) -> bool {
        self.holder == *holder
    }

    /// Number of connections of the same holder.
    pub(super) fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::Relaxed)
    }

    /// Counts an HTTP/2 request of the holder until the result is dropped; `None` if it has reached its limit.
    pub(super) fn request(&self) -> Option<RequestOfHolder> {
        // Counted before the comparison, so that two requests cannot take the last slot.
        let place = RequestOfHolder(Arc::clone(&self.counts));
        let before = self.counts.requests.fetch_add(1, Ordering::AcqRel);
        (before < self.counts.requests_max).then_some(place)
    }
}

impl Drop for HolderSlot {
    fn drop(&mut self) {
        let mut all = self.holders.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if self.counts.connections.fetch_sub(1, Ordering::Relaxed) == 1 {
            all.remove(&self.holder);
            self.holders.addresses.fetch_sub(usize::from(!self.holder.is_known()), Ordering::Relaxed);
        }
    }
}

/// An HTTP/2 request that is counted for its holder.
#[derive(Debug)]
pub(super) struct RequestOfHolder(Arc<Counts>);

impl Drop for RequestOfHolder {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holders() -> Arc<Holders> {
        Arc::new(Holders::new(&Limits {
            anonymous_per_address_max: 2,
            connections_per_participant_max: 3,
            ..Limits::default()
        }))
    }

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
    fn places_are_counted_by_holder_and_returned() {
        let holders = holders();
        let address = "192.0.2.1".parse().unwrap();
        for (holder, share) in [
            (Holder::Anonymous(address), 2),
            (Holder::Address(address), 3),
            (Holder::Certificate(Fingerprint([7; 32])), 3),
            (Holder::Participant(7), 3),
        ] {
            let seats: Vec<_> = (0..share)
                .map(|_| {
                    assert!(!holders.is_full(holder), "{holder:?}");
                    holders.seat(holder)
                })
                .collect();
            assert!(holders.is_full(holder), "{holder:?}");
            assert_eq!((seats[0].connections(), holders.known()), (share, usize::from(share == 3)));
            drop(seats);
            assert!(!holders.is_full(holder) && holders.counts.lock().unwrap().is_empty(), "{holder:?}");
        }
    }

    #[test]
    fn holder_has_at_most_as_many_requests_as_connections() {
        let holders = holders();
        let [one, other] = [(); 2].map(|()| holders.seat(Holder::Participant(7)));
        let mut places = vec![one.request().unwrap(), other.request().unwrap(), one.request().unwrap()];
        assert!(other.request().is_none() && one.request().is_none(), "a refusal counts nothing");
        assert!(holders.seat(Holder::Participant(8)).request().is_some());
        places.pop();
        drop(one);
        assert!(other.request().is_some());
    }
}
