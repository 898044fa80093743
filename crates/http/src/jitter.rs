//! Delays that double, with full jitter: any time between zero and the upper limit, so that requests that failed
//! together are not repeated together.

use std::time::Duration;

/// A small seeded generator (SplitMix64), good enough to spread delays. The same seed returns the same delays.
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Jitter {
    /// Starts from a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A delay between a millisecond and `first` doubled `doublings` times, `max` at most.
    pub fn wait(&mut self, first: Duration, max: Duration, doublings: u32) -> Duration {
        let upper = upper_end(first, max, doublings);
        let upper_us = u64::try_from(upper.as_micros()).unwrap_or(u64::MAX).max(1);
        Duration::from_micros(self.next() % upper_us).max(Duration::from_millis(1))
    }

    /// Like [`Self::wait`], but at least half of the upper limit, so that there always is a pause.
    pub fn pause(&mut self, first: Duration, max: Duration, doublings: u32) -> Duration {
        let half = upper_end(first, max, doublings) / 2;
        half + self.wait(half, half, 0)
    }
}

fn upper_end(first: Duration, max: Duration, doublings: u32) -> Duration {
    1_u32
        .checked_shl(doublings)
        .and_then(|factor| first.checked_mul(factor))
        .map_or(max, |doubled| doubled.min(max))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT_FIRST: Duration = Duration::from_millis(100);

    const WAIT_MAX: Duration = Duration::from_secs(5);

    #[test]
    fn delays_are_spread_within_doubling_limits() {
        let mut jitter = Jitter::new(7);
        for (doublings, upper_ms) in
            [(0, 100), (1, 200), (3, 800), (6, 5000), (31, 5000), (32, 5000), (1000, 5000)]
        {
            let upper = Duration::from_millis(upper_ms);
            let waits: Vec<_> = (0..1000).map(|_| jitter.wait(WAIT_FIRST, WAIT_MAX, doublings)).collect();
            assert!(
                waits.iter().all(|wait| (Duration::from_millis(1)..=upper).contains(wait)),
                "{doublings}"
            );
            assert!(waits.iter().any(|wait| *wait < upper / 4), "{doublings}");
            assert!(waits.iter().any(|wait| *wait > upper / 4 * 3), "{doublings}");
            let pause = jitter.pause(WAIT_FIRST, WAIT_MAX, doublings);
            assert!((upper / 2..=upper).contains(&pause), "{doublings}: {pause:?}");
        }
    }

    #[test]
    fn delays_are_deterministic_for_a_seed() {
        let waits = |seed| {
            let mut jitter = Jitter::new(seed);
            (0..20).map(|doublings| jitter.wait(WAIT_FIRST, WAIT_MAX, doublings)).collect::<Vec<_>>()
        };
        assert_eq!(waits(1), waits(1));
        assert_ne!(waits(1), waits(2));
    }
}
