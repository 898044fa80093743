//! Whether a new connection is served: within the caps, or in the place of one that may go.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Limits;
use super::open_connections::{OpenConnection, OpenConnections};
use super::supervision::{Candidate, Class, Supervisor};

/// Connections that make room at a time.
const LEAVING_BATCH: usize = 16;
/// Connections that one search finds for those that come later. A search looks at all connections: a crowd that comes
/// again and again must not cause one for each of its newcomers.
const FOUND_MAX: usize = 256;
/// Addresses for which something found is kept.
const FOUND_ADDRESSES_MAX: usize = 16;
/// Connections that have been told to make room and have not ended yet; with more of them nothing is served beyond the
/// cap.
pub(super) const LEAVING_MAX: usize = 32;

/// The connections of a server, as the accept loop sees them.
#[derive(Debug)]
pub(super) struct Room {
    connections_max: usize,
    strangers_per_address_max: usize,
    open: Arc<OpenConnections>,
    /// Handshakes that are not finished.
    handshaking: Arc<OpenConnections>,
    addresses: Arc<Addresses>,
    made_way: AtomicUsize,
    /// Found by the last searches, of an address or of all: strangers that wait. The first in rank is the last. Who
    /// begins to wait later comes after them.
    found: Mutex<HashMap<Option<IpAddr>, Vec<Candidate>>>,
    /// One per worker; with TLS, that of the handshakes is the last.
    supervisors: Vec<Arc<Supervisor>>,
}

impl Room {
    pub(super) fn new(limits: &Limits, supervisors: Vec<Arc<Supervisor>>) -> Self {
        Self {
            connections_max: limits.connections_max,
            strangers_per_address_max: limits.strangers_per_address_max,
            open: Arc::new(OpenConnections::new()),
            handshaking: Arc::new(OpenConnections::new()),
            addresses: Arc::default(),
            made_way: AtomicUsize::new(0),
            found: Mutex::default(),
            supervisors,
        }
    }

    pub(super) fn open(&self) -> &Arc<OpenConnections> {
        &self.open
    }

    pub(super) fn supervisors(&self) -> &[Arc<Supervisor>] {
        &self.supervisors
    }

    /// The supervisor of unfinished handshakes.
    pub(super) fn handshakes(&self) -> &Arc<Supervisor> {
        // There is a worker at least.
        &self.supervisors[self.supervisors.len() - 1]
    }

    /// Counts a handshake, until what it gives is dropped.
    pub(super) fn take_handshake(&self) -> OpenConnection {
        self.handshaking.open()
    }

    /// Whether one more handshake may begin: within the bound, or in the place of those that have waited longest.
    pub(super) fn is_there_for_handshake(&self, handshakes_max: usize) -> bool {
        let handshakes = self.handshakes();
        if self.handshaking.count().saturating_sub(handshakes.leaving()) < handshakes_max {
            return true;
        }
        if handshakes.leaving() >= LEAVING_MAX {
            return false;
        }
        self.let_go(&mut first_of(std::slice::from_ref(handshakes), None), handshakes_max)
    }

    /// Connections that made room since the start.
    pub(super) fn made_way(&self) -> usize {
        self.made_way.load(Ordering::Relaxed)
    }

    /// Counts a connection that came from this address.
    pub(super) fn take(&self, address: IpAddr) -> (OpenConnection, Seat) {
        (self.open.open(), self.addresses.seat(address))
    }

    /// Whether as many are on their way out as may be: those that come wait for them, before they are refused.
    pub(super) fn is_crowded_for(&self, address: IpAddr) -> bool {
        self.leaving() >= LEAVING_MAX
            && (self.staying() >= self.connections_max
                || self.addresses.strangers(address) >= self.strangers_per_address_max)
    }

    /// Whether one more of this address may be served. Lets others go for it, where they may.
    pub(super) fn is_there_for(&self, address: IpAddr) -> bool {
        let of_address = self.strangers_per_address_max;
        if self.addresses.strangers(address) >= of_address && !self.make(of_address, Some(address)) {
            return false;
        }
        self.staying() < self.connections_max || self.make(self.connections_max, None)
    }

    fn leaving(&self) -> usize {
        self.supervisors.iter().map(|supervisor| supervisor.leaving()).sum()
    }

    fn staying(&self) -> usize {
        self.open.count().saturating_sub(self.leaving())
    }

    /// Lets those go that come first in rank: a few of `bound`.
    fn make(&self, bound: usize, of: Option<IpAddr>) -> bool {
        if self.leaving() >= LEAVING_MAX {
            return false;
        }
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.get_mut(&of).is_some_and(|candidates| self.let_go(candidates, bound)) {
            return true;
        }
        let mut candidates = first_of(&self.supervisors, of);
        let went = self.let_go(&mut candidates, bound);
        candidates.retain(|candidate| candidate.rank.0 == Class::Waiting);
        if found.len() >= FOUND_ADDRESSES_MAX {
            found.clear();
        }
        found.insert(of, candidates);
        went
    }

    fn let_go(&self, candidates: &mut Vec<Candidate>, bound: usize) -> bool {
        let count = (bound / 16).clamp(1, LEAVING_BATCH);
        let mut went = 0;
        while went < count
            && let Some(candidate) = candidates.pop()
        {
            went += usize::from(candidate.make_way());
        }
        self.made_way.fetch_add(went, Ordering::Relaxed);
        went > 0
    }
}

/// Who should make room, of an address or of all: the first in rank is the last.
fn first_of(supervisors: &[Arc<Supervisor>], of: Option<IpAddr>) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for supervisor in supervisors {
        supervisor.candidates(of, &mut candidates);
    }
    if candidates.len() > FOUND_MAX {
        candidates.select_nth_unstable_by_key(FOUND_MAX, |candidate| candidate.rank);
        candidates.truncate(FOUND_MAX);
    }
    candidates.sort_unstable_by_key(|candidate| Reverse(candidate.rank));
    candidates
}

// How many connections of strangers each address has: those that carried nothing of a known participant yet.

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
