//! Limit on large bodies of unauthenticated clients that name no participant.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::senders::ADDRESSES;

/// Number of addresses with a limit of their own. If there are more, some share one.
const STRANGER_ADDRESSES: usize = 256;

/// Counts the large bodies of unauthenticated clients by address, so that a few of them cannot use all capacity.
#[derive(Debug)]
pub(crate) struct AnonymousBodies {
    bodies_max: usize,
    hasher: RandomState,
    counts: Box<[AtomicUsize]>,
}

/// One body that is being read.
#[derive(Debug)]
pub(crate) struct BodyPermit<'a>(&'a AtomicUsize);

impl AnonymousBodies {
    /// Each address may send `bodies_max` bodies at the same time.
    pub(crate) fn new(bodies_max: usize) -> Self {
        let counts = (0..ADDRESSES).map(|_| AtomicUsize::new(0)).collect();
        Self { bodies_max, hasher: RandomState::new(), counts }
    }

    /// Counts one more body until the returned seat is dropped; `None` if the address has reached its limit.
    pub(crate) fn seat(&self, address: Option<IpAddr>) -> Option<BodyPermit<'_>> {
        let bucket = usize::try_from(self.hasher.hash_one(address) % STRANGER_ADDRESSES as u64).unwrap_or(0);
        let seat = BodyPermit(&self.counts[bucket]);
        (seat.0.fetch_add(1, Ordering::Relaxed) < self.bodies_max).then_some(seat)
    }
}

impl Drop for BodyPermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_has_limited_bodies_and_returns_them() {
        let bodies = AnonymousBodies::new(2);
        let address = Some("192.0.2.1".parse().unwrap());
        let held = [bodies.seat(address).unwrap(), bodies.seat(address).unwrap()];
        assert!(
            bodies.seat(address).is_none() && bodies.seat(address).is_none(),
            "a rejected body is not counted"
        );
        let other = (1..=20).filter(|last| bodies.seat(Some(IpAddr::from([198, 51, 100, *last]))).is_some());
        assert!(other.count() >= 18, "few of these share its limit by chance");
        drop(held);
        assert!(bodies.seat(address).is_some());
    }
}
