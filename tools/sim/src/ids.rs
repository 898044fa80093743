//! Ids of transfers and traces, and the numbers of orders.

use std::sync::atomic::AtomicU64;

use upesi_types::TransferId;

use crate::settings::mix;
use crate::{message, scan};

/// The id of transfer `number` of a run. Its lower half depends on seed and number only, so that faults affect the same
/// numbers in every run with the same seed. The upper half keeps runs apart.
pub fn transfer_id(seed: u64, nonce: u64, number: u64) -> TransferId {
    id_of(mix(mix(nonce).wrapping_add(number)), mix(mix(seed) ^ number))
}

/// The id made of these two random halves.
pub fn id_of(high: u64, low: u64) -> TransferId {
    TransferId::from_random_bytes((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
}

pub(crate) fn trace_id(nonce: u64, number: u64) -> u128 {
    u128::from(mix(nonce)) << 64 | u128::from(mix(nonce ^ number))
}

pub(crate) fn id(value: &[u8]) -> Option<TransferId> {
    TransferId::parse(std::str::from_utf8(scan::text(value)?).ok()?)
}

/// The half of an id that does not depend on the run.
pub(crate) fn fault_key(id: &TransferId) -> u64 {
    id.to_bytes().last_chunk().map_or(0, |low| u64::from_be_bytes(*low))
}

/// Numbers the orders of a simulator.
#[derive(Debug)]
pub(crate) struct Orders {
    /// Separates the ids of this simulator from the ids of others.
    pub nonce: u64,
    pub next: AtomicU64,
}

impl Orders {
    pub fn new() -> Self {
        Self { nonce: message::now().as_ns().unsigned_abs(), next: AtomicU64::new(0) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_of_other_runs_share_only_the_fault_key() {
        let ids: BTreeSet<_> = (0..10_000).map(|number| transfer_id(1, 2, number)).collect();
        assert_eq!(ids.len(), 10_000);
        let (one, other) = (transfer_id(1, 2, 3), transfer_id(1, 99, 3));
        assert_ne!(one, other);
        assert_eq!(one.to_bytes()[9..], other.to_bytes()[9..]);
        assert_ne!(one.to_bytes()[9..], transfer_id(7, 2, 3).to_bytes()[9..]);
    }
}
