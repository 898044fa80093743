//! Shares of a limited number of slots, so that no DFSP takes them all.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The slots and bytes that each DFSP holds, up to its share of both.
#[derive(Debug)]
pub struct Shares<K> {
    places_max: usize,
    bytes_max: usize,
    held: Mutex<HashMap<K, SenderUsage>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SenderUsage {
    places: usize,
    bytes: usize,
}

/// The share of one DFSP in a capacity, in percent of it: at least one slot.
pub const fn share_of(room: usize, percent: usize) -> usize {
    // This order of operations cannot overflow.
    let share = (room / 100) * percent + (room % 100) * percent / 100;
    if share == 0 { 1 } else { share }
}

impl<K: Eq + Hash> Shares<K> {
    /// Each DFSP may hold `places_max` slots and `bytes_max` bytes. If it holds nothing else, a single slot may exceed
    /// the bytes.
    pub fn new(places_max: usize, bytes_max: usize) -> Self {
        Self { places_max, bytes_max, held: Mutex::default() }
    }

    /// Takes a slot and bytes of a DFSP's share; `false` if the share is used up.
    #[must_use]
    pub fn take(&self, dfsp: K, bytes: usize) -> bool {
        let mut held = self.held();
        let of_dfsp = held.entry(dfsp).or_default();
        let fits = of_dfsp.places == 0
            || (of_dfsp.places < self.places_max && of_dfsp.bytes.saturating_add(bytes) <= self.bytes_max);
        if fits {
            of_dfsp.places += 1;
            of_dfsp.bytes += bytes;
        }
        fits
    }

    /// Returns some bytes of a slot that stays taken.
    pub fn shrink(&self, dfsp: K, bytes: usize) {
        if let Some(of_dfsp) = self.held().get_mut(&dfsp) {
            of_dfsp.bytes = of_dfsp.bytes.saturating_sub(bytes);
        }
    }

    /// Returns a slot and its bytes.
    pub fn give_back(&self, dfsp: K, bytes: usize) {
        let mut held = self.held();
        let Some(of_dfsp) = held.get_mut(&dfsp) else { return };
        of_dfsp.places -= 1;
        of_dfsp.bytes = of_dfsp.bytes.saturating_sub(bytes);
        if of_dfsp.places == 0 {
            held.remove(&dfsp);
        }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<K, SenderUsage>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_share_of_places_and_bytes() {
        let shares = Shares::new(2, 10);
        assert!(shares.take(1, 4) && shares.take(1, 6));
        assert!(!shares.take(1, 0), "no third place");
        assert!(shares.take(2, 10), "another has its own");
        shares.give_back(1, 4);
        assert!(!shares.take(1, 5), "too many bytes");
        shares.shrink(1, 5);
        assert!(shares.take(1, 5));
        shares.give_back(1, 1);
        shares.give_back(1, 5);
        shares.give_back(2, 10);
        assert!(shares.held().is_empty());
        assert!(shares.take(1, 11), "alone, one may be larger than the share");
        assert!(!shares.take(1, 0));
    }

    #[test]
    fn share_is_at_least_one_place() {
        for (room, percent, share) in
            [(16_384, 25, 4_096), (3, 25, 1), (1, 1, 1), (1, 100, 1), (250, 50, 125)]
        {
            assert_eq!(share_of(room, percent), share);
        }
        assert_eq!(share_of(usize::MAX, 100), usize::MAX);
    }
}
