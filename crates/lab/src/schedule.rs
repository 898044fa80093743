//! Who pays whom, and when: pure functions of the seed and the transfer's number, so that a run can be repeated.

use std::time::Duration;

use upesi_sim::mix;

/// Chooses the parties of transfers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pairs {
    pub dfsps: usize,
    pub unidirectional: bool,
    pub seed: u64,
}

impl Pairs {
    /// Payer and payee of a transfer: two different random DFSPs, or always the first and the second.
    pub fn of(&self, number: u64) -> (usize, usize) {
        if self.unidirectional {
            return (0, 1);
        }
        let drawn = mix(mix(self.seed ^ 0x7061_6972) ^ number);
        let payer = (drawn >> 32) as usize % self.dfsps;
        let step = 1 + (drawn & 0xffff_ffff) as usize % (self.dfsps - 1);
        (payer, (payer + step) % self.dfsps)
    }
}

/// When arrival `number` of an open loop is due, counted from its start.
pub(crate) fn due(number: u64, rate_per_s: u32) -> Duration {
    let ns = u128::from(number) * 1_000_000_000 / u128::from(rate_per_s);
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parties_differ_repeat_with_the_seed_and_take_turns() {
        let pairs = Pairs { dfsps: 8, unidirectional: false, seed: 42 };
        let mut paid = [0; 8];
        for number in 0..8_000 {
            let (payer, payee) = pairs.of(number);
            assert_ne!(payer, payee);
            assert_eq!(pairs.of(number), (payer, payee));
            paid[payer] += 1;
        }
        assert!(paid.iter().all(|count| (800..1200).contains(count)), "{paid:?}, seed 42");
        assert_ne!((0..20).map(|n| pairs.of(n)).collect::<Vec<_>>(), {
            let other = Pairs { seed: 43, ..pairs };
            (0..20).map(|n| other.of(n)).collect::<Vec<_>>()
        });
        assert_eq!(Pairs { unidirectional: true, ..pairs }.of(7), (0, 1));
        assert_eq!(Pairs { dfsps: 2, ..pairs }.of(1).0 + Pairs { dfsps: 2, ..pairs }.of(1).1, 1);
    }

    #[test]
    fn arrivals_do_not_drift() {
        assert_eq!(due(0, 3), Duration::ZERO);
        assert_eq!(due(3, 3), Duration::from_secs(1));
        assert_eq!(due(3_000_000, 3), Duration::from_secs(1_000_000));
        assert_eq!(due(1, 1_000_000), Duration::from_micros(1));
    }
}
