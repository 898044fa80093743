//! Delays handshakes from addresses whose handshakes fail.
//!
//! A handshake costs the hub a signature before the client has proven anything. After a failure, an address may begin
//! one handshake per [`INTERVAL`], until one succeeds. After a success, it has no delays for [`SUCCESS_LASTS`]: a load
//! balancer may have many clients, and one of them may fail.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Number of addresses remembered for a failure, and as many for a success; the oldest one is dropped for another.
const ADDRESSES_MAX: usize = 1024;
/// Minimum time between two handshakes of an address whose last one failed.
const INTERVAL: Duration = Duration::from_millis(250);
/// Time that a failure is remembered.
const FAILURE_LASTS: Duration = Duration::from_secs(60);
/// Time that a success is remembered.
const SUCCESS_LASTS: Duration = Duration::from_secs(600);

/// Recent outcomes of handshakes by address.
#[derive(Debug, Default)]
pub(super) struct Addresses(Mutex<HandshakeOutcomes>);

#[derive(Debug, Default)]
struct HandshakeOutcomes {
    /// The time when the next handshake may begin.
    failed: HashMap<IpAddr, Instant>,
    succeeded: HashMap<IpAddr, Instant>,
}

/// A handshake that has begun. Dropped without an outcome, it has failed.
#[derive(Debug)]
pub(super) struct BegunHandshake<'a> {
    addresses: &'a Addresses,
    address: IpAddr,
    has_succeeded: bool,
}

impl Addresses {
    /// Waits until a handshake of this address may begin.
    pub(super) async fn begin(&self, address: IpAddr) -> BegunHandshake<'_> {
        while let Some(turn) = self.turn(address, Instant::now()) {
            sleep_until(turn).await;
        }
        BegunHandshake { addresses: self, address, has_succeeded: false }
    }

    /// Takes the turn of an address, or returns the time of the next attempt.
    fn turn(&self, address: IpAddr, now: Instant) -> Option<Instant> {
        let mut known = self.known();
        let next = *known.failed.get(&address)?;
        if next > now {
            return Some(next);
        }
        if next + FAILURE_LASTS < now {
            known.failed.remove(&address);
        } else {
            known.failed.insert(address, now + INTERVAL);
        }
        None
    }

    fn note(&self, address: IpAddr, has_succeeded: bool, now: Instant) {
        let mut known = self.known();
        if has_succeeded {
            known.failed.remove(&address);
            insert(&mut known.succeeded, address, now);
        } else if known.succeeded.get(&address).is_none_or(|success| *success + SUCCESS_LASTS < now) {
            insert(&mut known.failed, address, now + INTERVAL);
        }
    }

    #[cfg(test)]
    pub(super) fn has_failed(&self, address: IpAddr) -> bool {
        self.known().failed.contains_key(&address)
    }

    fn known(&self) -> MutexGuard<'_, HandshakeOutcomes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn insert(addresses: &mut HashMap<IpAddr, Instant>, address: IpAddr, instant: Instant) {
    if addresses.len() >= ADDRESSES_MAX && !addresses.contains_key(&address) {
        let oldest = addresses.iter().min_by_key(|(_, instant)| **instant).map(|(address, _)| *address);
        oldest.and_then(|oldest| addresses.remove(&oldest));
    }
    addresses.insert(address, instant);
}

impl BegunHandshake<'_> {
    pub(super) fn succeed(mut self) {
        self.has_succeeded = true;
    }
}

impl Drop for BegunHandshake<'_> {
    fn drop(&mut self) {
        self.addresses.note(self.address, self.has_succeeded, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(number: usize) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(number).unwrap()))
    }

    /// The delay of one handshake of an address, in milliseconds.
    async fn wait_of(addresses: &Addresses, number: usize, succeeds: bool) -> u128 {
        let start = Instant::now();
        let begun = addresses.begin(address(number)).await;
        if succeeds {
            begun.succeed();
        }
        start.elapsed().as_millis()
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_failure_an_address_begins_one_handshake_per_interval_until_one_succeeds() {
        let addresses = Addresses::default();
        assert_eq!(wait_of(&addresses, 1, false).await, 0);
        assert_eq!(wait_of(&addresses, 1, false).await, 250);
        assert_eq!(wait_of(&addresses, 2, true).await, 0, "another address");
        // Five handshakes are requested at once, and one begins per interval.
        let start = Instant::now();
        let waits = (0..5).map(|_| addresses.begin(address(1)));
        let begun = futures_util::future::join_all(waits).await;
        assert_eq!(start.elapsed().as_millis(), 5 * 250);
        drop(begun);
        assert_eq!(wait_of(&addresses, 1, true).await, 250);
        assert_eq!(wait_of(&addresses, 1, false).await, 0, "it has succeeded");
    }

    #[tokio::test(start_paused = true)]
    async fn successful_address_is_not_delayed_by_other_clients_behind_it() {
        let addresses = Addresses::default();
        assert_eq!(wait_of(&addresses, 1, true).await, 0);
        for _ in 0..1000 {
            assert_eq!(wait_of(&addresses, 1, false).await, 0);
        }
        tokio::time::advance(SUCCESS_LASTS + Duration::from_secs(1)).await;
        assert_eq!(wait_of(&addresses, 1, false).await, 0);
        assert_eq!(wait_of(&addresses, 1, false).await, 250, "the success is long ago");
        // Failures are forgotten earlier.
        tokio::time::advance(INTERVAL + FAILURE_LASTS + Duration::from_secs(1)).await;
        let begun = (addresses.begin(address(1)).await, addresses.begin(address(1)).await);
        assert!(addresses.known().failed.is_empty());
        drop(begun);
    }

    #[tokio::test(start_paused = true)]
    async fn oldest_of_many_addresses_are_dropped() {
        let addresses = Addresses::default();
        for number in 0..ADDRESSES_MAX + 10 {
            wait_of(&addresses, number, false).await;
            wait_of(&addresses, 1_000_000 + number, true).await;
            tokio::time::advance(Duration::from_micros(1)).await;
        }
        let known = addresses.known();
        assert_eq!((known.failed.len(), known.succeeded.len()), (ADDRESSES_MAX, ADDRESSES_MAX));
        for number in 0..ADDRESSES_MAX + 10 {
            let is_kept = number >= 10;
            assert_eq!(known.failed.contains_key(&address(number)), is_kept, "{number}");
            assert_eq!(known.succeeded.contains_key(&address(1_000_000 + number)), is_kept, "{number}");
        }
    }
}
