//! Rate limits of single sources for look-ups, registrations and faults.

use alloc::collections::BTreeMap;

use crate::{REQUEST, SourceId};

/// The events that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateEvent {
    /// Look-ups of parties.
    Lookup,
    /// Look-ups of parties that no DFSP serves.
    Miss,
    /// Changes of the directory.
    Registration,
    /// Messages with an invalid signature.
    SignatureFault,
}

impl RateEvent {
    /// All counted events, in the order of their discriminants.
    pub const ALL: [Self; 4] = [Self::Lookup, Self::Miss, Self::Registration, Self::SignatureFault];
}

/// The remaining credit of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Credit {
    /// The credit in thousandths; negative if more was charged than was available.
    left: i64,
    /// Time of that credit, in milliseconds.
    at_ms: u64,
    is_known: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Source {
    credits: [Credit; RateEvent::ALL.len()],
    blocked_until_ms: u64,
}

/// Credits by source. Each source can accumulate the credit of one second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rates {
    sources: BTreeMap<SourceId, Source>,
    sources_max: usize,
}

impl Credit {
    fn fill(&mut self, per_s: u64, now_ms: u64) {
        let full = full(per_s);
        if !self.is_known {
            *self = Self { left: full, at_ms: now_ms, is_known: true };
        }
        let elapsed_ms = now_ms.saturating_sub(self.at_ms);
        let earned = i64::try_from(elapsed_ms.saturating_mul(per_s)).unwrap_or(i64::MAX);
        self.left = self.left.saturating_add(earned).min(full);
        self.at_ms = self.at_ms.max(now_ms);
    }

    /// Milliseconds until one event is allowed; `None` if it is allowed now.
    fn wait_ms(&self, per_s: u64) -> Option<u64> {
        let missing = u64::try_from(ONE - self.left).unwrap_or(0);
        (missing > 0).then(|| missing.div_ceil(per_s.max(1)))
    }
}

const ONE: i64 = REQUEST as i64;

/// The credit of one second, at least one event.
fn full(per_s: u64) -> i64 {
    i64::try_from(per_s.max(1).saturating_mul(REQUEST)).unwrap_or(i64::MAX)
}

impl Rates {
    /// Creates a table of at most `sources_max` sources. Further sources share one entry.
    pub const fn new(sources_max: usize) -> Self {
        Self { sources: BTreeMap::new(), sources_max }
    }

    /// Uses one event of a source's credit at this rate.
    ///
    /// # Errors
    /// Milliseconds until one event is allowed.
    pub fn take(&mut self, counted: RateEvent, source: SourceId, per_s: u64, now_ms: u64) -> Result<(), u64> {
        self.check(counted, source, per_s, now_ms)?;
        self.credit(counted, source).left -= ONE;
        Ok(())
    }

    /// Whether [`Self::take`] would succeed.
    ///
    /// # Errors
    /// Milliseconds until one event is allowed.
    pub fn check(
        &mut self,
        counted: RateEvent,
        source: SourceId,
        per_s: u64,
        now_ms: u64,
    ) -> Result<(), u64> {
        let credit = self.credit(counted, source);
        credit.fill(per_s, now_ms);
        credit.wait_ms(per_s).map_or(Ok(()), Err)
    }

    /// Charges a source for an event that has already happened. Events in flight may exceed the rate by at most one
    /// second's credit.
    pub fn charge(&mut self, counted: RateEvent, source: SourceId, per_s: u64, now_ms: u64) {
        let credit = self.credit(counted, source);
        credit.fill(per_s, now_ms);
        credit.left = (credit.left - ONE).max(-full(per_s));
    }

    /// Charges a source for a fault. If it exceeds its rate, it is blocked for a while. Returns whether the block
    /// begins now.
    pub fn fault(&mut self, source: SourceId, per_s: u64, block_ms: u64, now_ms: u64) -> bool {
        if self.take(RateEvent::SignatureFault, source, per_s, now_ms).is_ok() {
            return false;
        }
        let known = self.source(source);
        let is_new = known.blocked_until_ms <= now_ms;
        known.blocked_until_ms = now_ms.saturating_add(block_ms);
        // After the block the source starts with full credit.
        known.credits[RateEvent::SignatureFault as usize].is_known = false;
        is_new
    }

    /// Remaining milliseconds of a source's block.
    pub fn blocked_ms(&self, source: SourceId, now_ms: u64) -> Option<u64> {
        let until = self.sources.get(&self.key(source))?.blocked_until_ms;
        until.checked_sub(now_ms).filter(|left| *left > 0)
    }

    /// Number of blocked sources.
    pub fn blocked(&self, now_ms: u64) -> usize {
        self.sources.values().filter(|source| source.blocked_until_ms > now_ms).count()
    }

    fn credit(&mut self, counted: RateEvent, source: SourceId) -> &mut Credit {
        &mut self.source(source).credits[counted as usize]
    }

    fn source(&mut self, source: SourceId) -> &mut Source {
        self.sources.entry(self.key(source)).or_default()
    }

    fn key(&self, source: SourceId) -> SourceId {
        let has_room = self.sources.len() < self.sources_max || self.sources.contains_key(&source);
        if has_room { source } else { SourceId::OTHERS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREEN: SourceId = SourceId(7);
    const BLUE: SourceId = SourceId(8);

    #[test]
    fn source_may_use_one_second_of_its_rate_at_once() {
        let mut rates = Rates::new(10);
        let mut take = |source, per_s, now_ms| rates.take(RateEvent::Lookup, source, per_s, now_ms);
        assert!((0..5).all(|_| take(GREEN, 5, 1_000).is_ok()));
        assert_eq!(take(GREEN, 5, 1_000), Err(200));
        assert_eq!(take(BLUE, 5, 1_000), Ok(()), "others have their own");
        assert_eq!(take(GREEN, 5, 1_199), Err(1));
        assert_eq!((take(GREEN, 5, 1_200), take(GREEN, 5, 1_200)), (Ok(()), Err(200)));
        // After a minute, exactly one second of the rate is available.
        assert!((0..5).all(|_| take(GREEN, 5, 61_200).is_ok()));
        assert_eq!(take(GREEN, 5, 61_200), Err(200));
        // A clock step back adds no credit.
        assert_eq!(take(GREEN, 5, 1_000), Err(200));
    }

    #[test]
    fn each_kind_has_its_own_rate() {
        let mut rates = Rates::new(10);
        assert_eq!(rates.take(RateEvent::Lookup, GREEN, 1, 0), Ok(()));
        assert_eq!(rates.take(RateEvent::Registration, GREEN, 1, 0), Ok(()));
        assert_eq!(rates.take(RateEvent::Lookup, GREEN, 1, 0), Err(1_000));
    }

    #[test]
    fn charges_above_the_rate_are_owed_up_to_one_second() {
        let mut rates = Rates::new(10);
        for _ in 0..100 {
            rates.charge(RateEvent::Miss, GREEN, 2, 0);
        }
        // Two are owed, and one more must be available.
        assert_eq!(rates.check(RateEvent::Miss, GREEN, 2, 0), Err(1_500));
        assert_eq!(rates.check(RateEvent::Miss, GREEN, 2, 1_500), Ok(()));
        assert_eq!(rates.check(RateEvent::Miss, GREEN, 2, 1_500), Ok(()), "a check uses no credit");
    }

    #[test]
    fn faults_above_the_rate_block_the_source_temporarily() {
        let mut rates = Rates::new(10);
        let mut fault = |now_ms| rates.fault(GREEN, 3, 10_000, now_ms);
        assert_eq!([fault(0), fault(0), fault(0), fault(0)], [false, false, false, true]);
        assert_eq!((rates.blocked_ms(GREEN, 0), rates.blocked_ms(BLUE, 0)), (Some(10_000), None));
        assert_eq!((rates.blocked_ms(GREEN, 9_999), rates.blocked(9_999)), (Some(1), 1));
        assert_eq!((rates.blocked_ms(GREEN, 10_000), rates.blocked(10_000)), (None, 0));
        // After the block, one second of the rate is available again.
        let mut fault = |now_ms| rates.fault(GREEN, 3, 10_000, now_ms);
        let times = [10_000; 4].map(&mut fault);
        assert_eq!(times, [false, false, false, true]);
    }

    #[test]
    fn sources_without_an_entry_share_one() {
        let mut rates = Rates::new(2);
        for source in [GREEN, BLUE] {
            assert_eq!(rates.take(RateEvent::Lookup, source, 1, 0), Ok(()));
        }
        assert_eq!(rates.take(RateEvent::Lookup, SourceId(9), 1, 0), Ok(()));
        assert_eq!(rates.take(RateEvent::Lookup, SourceId(10), 1, 0), Err(1_000));
        assert_eq!(rates.take(RateEvent::Lookup, GREEN, 1, 1_000), Ok(()));
    }
}
