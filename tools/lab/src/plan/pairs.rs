//! Pairs of payer and payee: a pure function of the seed and the operation's number, so that a run can be repeated.

use std::fmt;
use std::sync::Arc;

use upesi_sim::mix;

/// Weights of a long tail are `LONG_TAIL / rank`.
const LONG_TAIL: u64 = 1_000_000;

/// The choice of payer and payee of an operation. They always differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PairChoice {
    #[default]
    Uniform,
    /// The first DFSP is always the payer, and the second the payee.
    Unidirectional,
    /// The first DFSP pays the second in this share of the operations; the rest are uniform.
    HotPair { per_mille: u16 },
    /// Each DFSP is drawn by its weight, and the payee by its weight among the others. Running sums of the weights.
    Weighted(Arc<[u64]>),
    /// Only these pairs, each drawn by its weight.
    Listed(Arc<[ListedPair]>),
}

/// A payer and its payee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedPair {
    pub payer: usize,
    pub payee: usize,
    /// The sum of the weights of all pairs up to this one.
    pub until: u64,
}

impl PairChoice {
    /// Pairs by these weights, one per DFSP.
    pub fn weighted(weights: impl IntoIterator<Item = u64>) -> Self {
        let mut sum = 0_u64;
        let running = weights.into_iter().map(|weight| {
            sum = sum.saturating_add(weight);
            sum
        });
        Self::Weighted(running.collect())
    }

    /// Pairs of payer and payee (both from 0), each with its weight.
    pub fn listed(pairs: impl IntoIterator<Item = (usize, usize, u64)>) -> Self {
        let mut until = 0_u64;
        let listed = pairs.into_iter().map(|(payer, payee, weight)| {
            until = until.saturating_add(weight);
            ListedPair { payer, payee, until }
        });
        Self::Listed(listed.collect())
    }

    /// A long tail: the second DFSP has half of the operations of the first, the third a third, and so on.
    pub fn long_tail(dfsps: usize) -> Self {
        Self::weighted((1..=dfsps as u64).map(|rank| LONG_TAIL / rank))
    }

    /// Whether these pairs exist among this number of DFSPs.
    pub fn fits(&self, dfsps: usize) -> bool {
        match self {
            Self::Weighted(sums) => {
                let is_positive = |index: usize| sums[index] > index.checked_sub(1).map_or(0, |i| sums[i]);
                sums.len() == dfsps && (0..dfsps).all(is_positive)
            }
            Self::Listed(pairs) => {
                let before = |index: usize| index.checked_sub(1).map_or(0, |before| pairs[before].until);
                let is_right = |(index, pair): (usize, &ListedPair)| {
                    pair.payer != pair.payee
                        && pair.payer.max(pair.payee) < dfsps
                        && pair.until > before(index)
                };
                !pairs.is_empty() && pairs.iter().enumerate().all(is_right)
            }
            Self::HotPair { per_mille } => *per_mille <= 1000,
            Self::Uniform | Self::Unidirectional => true,
        }
    }
}

impl fmt::Display for PairChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Unidirectional => f.write_str("unidirectional"),
            Self::HotPair { per_mille } => write!(f, "hot pair {per_mille} ‰"),
            Self::Weighted(_) => f.write_str("weighted"),
            Self::Listed(pairs) => write!(f, "{} pairs by weight", pairs.len()),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Pairs {
    pub dfsps: usize,
    pub choice: PairChoice,
    pub seed: u64,
}

impl Pairs {
    /// Payer and payee of an operation.
    pub fn of(&self, number: u64) -> (usize, usize) {
        let drawn = mix(mix(self.seed ^ 0x7061_6972) ^ number);
        match &self.choice {
            PairChoice::Unidirectional => (0, 1),
            PairChoice::HotPair { per_mille } if mix(drawn) % 1000 < u64::from(*per_mille) => (0, 1),
            PairChoice::Uniform | PairChoice::HotPair { .. } => self.uniform(drawn),
            PairChoice::Weighted(sums) => by_weight(sums, drawn),
            PairChoice::Listed(pairs) => by_list(pairs, drawn),
        }
    }

    const fn uniform(&self, drawn: u64) -> (usize, usize) {
        let payer = (drawn >> 32) as usize % self.dfsps;
        let step = 1 + (drawn & 0xffff_ffff) as usize % (self.dfsps - 1);
        (payer, (payer + step) % self.dfsps)
    }
}

fn by_list(pairs: &[ListedPair], drawn: u64) -> (usize, usize) {
    let total = pairs.last().map_or(0, |pair| pair.until).max(1);
    let point = mix(drawn) % total;
    let place = pairs.partition_point(|pair| pair.until <= point).min(pairs.len() - 1);
    (pairs[place].payer, pairs[place].payee)
}

fn by_weight(sums: &[u64], drawn: u64) -> (usize, usize) {
    let total = sums.last().copied().unwrap_or(0).max(1);
    let index_of = |point: u64| sums.partition_point(|sum| *sum <= point).min(sums.len() - 1);
    let payer = index_of(mix(drawn) % total);
    // The draw of the payee skips the payer's part of the sums.
    let start = payer.checked_sub(1).map_or(0, |before| sums[before]);
    let width = sums[payer] - start;
    let point = mix(drawn ^ 1) % (total - width).max(1);
    let payee = index_of(if point < start { point } else { point + width });
    if payer == payee { (payer, (payer + 1) % sums.len()) } else { (payer, payee) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 40_000;

    fn counts(choice: PairChoice, dfsps: usize, seed: u64) -> Vec<Vec<u64>> {
        let pairs = Pairs { dfsps, choice, seed };
        let mut counts = vec![vec![0; dfsps]; dfsps];
        for number in 0..DRAWS {
            let (payer, payee) = pairs.of(number);
            assert_ne!(payer, payee, "seed {seed}");
            assert_eq!(pairs.of(number), (payer, payee));
            counts[payer][payee] += 1;
        }
        counts
    }

    #[test]
    fn uniform_pairs_are_even_and_depend_on_the_seed() {
        let counts = counts(PairChoice::Uniform, 8, 42);
        for (payer, row) in counts.iter().enumerate() {
            for (payee, count) in row.iter().enumerate().filter(|(payee, _)| *payee != payer) {
                assert!(count.abs_diff(DRAWS / 56) < DRAWS / 56 / 4, "{payer} → {payee}: {count}, seed 42");
            }
        }
        let first = |seed| {
            let pairs = Pairs { dfsps: 8, choice: PairChoice::Uniform, seed };
            (0..20).map(|number| pairs.of(number)).collect::<Vec<_>>()
        };
        assert_ne!(first(42), first(43));
    }

    #[test]
    fn unidirectional_and_hot_pairs_have_their_shares() {
        assert_eq!(counts(PairChoice::Unidirectional, 3, 1)[0][1], DRAWS);
        let hot = counts(PairChoice::HotPair { per_mille: 900 }, 8, 7)[0][1];
        // 900 in a thousand, and the pair's part of the rest.
        let expected = DRAWS * 9 / 10 + DRAWS / 10 / 56;
        assert!(hot.abs_diff(expected) < DRAWS / 50, "{hot} of {DRAWS}, seed 7");
    }

    #[test]
    fn payers_follow_their_weights() {
        let rows = counts(PairChoice::weighted([70, 10, 10, 10]), 4, 3);
        let paid: Vec<u64> = rows.iter().map(|row| row.iter().sum()).collect();
        for (paid, percent) in paid.iter().zip([70, 10, 10, 10]) {
            assert!(paid.abs_diff(DRAWS * percent / 100) < DRAWS / 50, "{paid} for {percent} %, seed 3");
        }
        // Nearly all payments of the others go to the large DFSP: 70 of the 90 that do not go to the payer itself.
        let to_big = rows[1][0] * 90 / 70;
        assert!(to_big.abs_diff(paid[1]) < paid[1] / 5, "seed 3");
        let tail = counts(PairChoice::long_tail(100), 100, 5);
        let paid: Vec<u64> = tail.iter().map(|row| row.iter().sum()).collect();
        assert!(paid[0] > paid[1] && paid[1] > paid[9] && paid[9] > paid[99], "seed 5");
    }

    #[test]
    fn only_listed_pairs_are_drawn_by_their_weights() {
        let choice = PairChoice::listed([(0, 2, 49), (0, 3, 7), (1, 2, 10)]);
        assert_eq!(choice.to_string(), "3 pairs by weight");
        let rows = counts(choice, 4, 11);
        for (payer, payee, weight) in [(0, 2, 49), (0, 3, 7), (1, 2, 10)] {
            let expected = DRAWS * weight / 66;
            let found = rows[payer][payee];
            assert!(found.abs_diff(expected) < DRAWS / 50, "{found} instead of {expected}, seed 11");
        }
        assert_eq!(rows.iter().flatten().filter(|count| **count > 0).count(), 3);
    }

    #[test]
    fn choice_that_does_not_fit_the_dfsps_is_rejected() {
        assert!(PairChoice::weighted([1, 1]).fits(2));
        assert!(!PairChoice::weighted([1, 1]).fits(3) && !PairChoice::weighted([1, 0]).fits(2));
        for (pairs, dfsps) in [(&[(0, 1, 1)][..], 1), (&[(1, 1, 1)], 2), (&[(0, 1, 0)], 2), (&[], 2)] {
            assert!(!PairChoice::listed(pairs.iter().copied()).fits(dfsps), "{pairs:?}");
        }
        assert!(PairChoice::listed([(0, 1, 1), (1, 0, 5)]).fits(2));
        assert!(!PairChoice::HotPair { per_mille: 1001 }.fits(2) && PairChoice::Uniform.fits(2));
    }
}
