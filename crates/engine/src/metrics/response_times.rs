//! Response times and failures of DFSPs for the hub's requests in the last minutes.
//!
//! 1. A request that the hub sends to a DFSP ends once: by the DFSP's callback or error callback, at its deadline, or
//!    because it did not reach the DFSP ([`ResponseOutcome`]). The handler that detects the end reports it
//!    ([`ResponseTimes::observe`]).
//! 2. The end is counted in the entry of the receiving DFSP, in the current minute of the hub's time. Each entry has
//!    its own lock, which is held only while a few counters are changed.
//! 3. There are counters for [`ResponseTimes::MINUTES`] minutes. The newest minute replaces the oldest.
//!
//! Memory: 1.7 KiB for each DFSP and kind of request, so 5 MiB for 1,000 DFSPs. Pairs of DFSPs are counted while they
//! have requests in these minutes, at most [`ResponseTimes::PAIRS_MAX`] of them, about 100 bytes each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use upesi_ledger::ParticipantId;
use upesi_types::Timestamp;

/// A kind of request to a DFSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// `GET /parties`.
    Lookup,
    /// `/quotes`, `/bulkQuotes`, `/fxQuotes`.
    Quote,
    /// `/transfers`, `/fxTransfers`. Items of bulk transfers are not counted.
    Transfer,
}

impl RequestKind {
    pub const ALL: [Self; 3] = [Self::Lookup, Self::Quote, Self::Transfer];

    /// The kind's name in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Quote => "quote",
            Self::Transfer => "transfer",
        }
    }
}

/// The outcome of a request to a DFSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseOutcome {
    /// The DFSP sent its callback after this time. "Party not found" also counts as an answer.
    Answered(Duration),
    /// The DFSP sent an error callback, or a callback that the hub rejected, after this time.
    Failed(Duration),
    /// The deadline passed.
    Unanswered,
    /// The request did not reach the DFSP.
    Undelivered,
}

impl ResponseOutcome {
    /// The names of the outcomes in metrics, in the order of [`Counts`].
    pub const NAMES: [&'static str; 4] = ["answered", "failed", "unanswered", "undelivered"];

    const fn index(self) -> usize {
        match self {
            Self::Answered(_) => 0,
            Self::Failed(_) => 1,
            Self::Unanswered => 2,
            Self::Undelivered => 3,
        }
    }

    const fn took(self) -> Option<Duration> {
        match self {
            Self::Answered(took) | Self::Failed(took) => Some(took),
            Self::Unanswered | Self::Undelivered => None,
        }
    }
}

/// The end of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// The DFSP whose request the hub forwarded, if known.
    pub asker: Option<ParticipantId>,
    /// The receiver of the request. For a DFSP behind a proxy, the proxy.
    pub asked: ParticipantId,
    pub kind: RequestKind,
    pub outcome: ResponseOutcome,
}

/// Requests by their outcome, in the order of [`ResponseOutcome::NAMES`].
pub type Counts = [u64; ResponseOutcome::NAMES.len()];

/// The responses of one DFSP to requests of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindSummary {
    pub kind: RequestKind,
    pub since_start: Counts,
    /// Counts of the last minutes.
    pub recent: Counts,
    /// Median time from request to callback in the last minutes.
    pub p50: Option<Duration>,
    /// The 99th percentile of the time from request to callback in the last minutes.
    pub p99: Option<Duration>,
}

/// The requests of one DFSP to another in the last minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairSummary {
    /// The sender of the requests.
    pub asker: ParticipantId,
    /// The receiver.
    pub asked: ParticipantId,
    /// Number of requests that ended.
    pub requests: u64,
    /// Number of failed, unanswered and undelivered requests among them.
    pub failed: u64,
}

/// The responses of one DFSP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DfspSummary {
    pub asked: ParticipantId,
    /// The kinds of requests that it received since the start.
    pub kinds: Vec<KindSummary>,
    /// Pairs by sender, the pair with the most failures first.
    pub pairs: Vec<PairSummary>,
}

/// Response times of all DFSPs. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ResponseTimes {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Indexed by the number of the receiving participant.
    entries: RwLock<Vec<Option<Box<Mutex<Entry>>>>>,
    /// Number of pairs in all entries.
    pairs: AtomicUsize,
}

#[derive(Debug, Default)]
struct Entry {
    kinds: [Option<Box<Recent>>; RequestKind::ALL.len()],
    pairs: BTreeMap<ParticipantId, Pair>,
}

impl ResponseTimes {
    /// Number of minutes that are summed, including the current one.
    pub const MINUTES: usize = 5;
    /// Maximum number of pairs of DFSPs that are counted at a time.
    pub const PAIRS_MAX: usize = 10_000;

    /// Counts the end of a request, by the hub's time.
    pub fn observe(&self, response: &Response, now: Timestamp) {
        let index = response.asked.number() as usize;
        let minute = minute_of(now);
        {
            let entries = self.inner.entries.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(Some(entry)) = entries.get(index) {
                return self.count(&mut lock(entry), response, minute);
            }
        }
        let mut entries = self.inner.entries.write().unwrap_or_else(PoisonError::into_inner);
        if entries.len() <= index {
            entries.resize_with(index + 1, || None);
        }
        let entry = entries[index].get_or_insert_default();
        self.count(&mut lock(entry), response, minute);
    }

    fn count(&self, entry: &mut Entry, response: &Response, minute: i64) {
        entry.kinds[response.kind as usize].get_or_insert_default().count(response.outcome, minute);
        let Some(asker) = response.asker else { return };
        if let Some(pair) = entry.pairs.get_mut(&asker) {
            return pair.count(response.outcome, minute);
        }
        // Incremented before the comparison, so that two threads cannot both take the last place.
        if self.inner.pairs.fetch_add(1, Ordering::Relaxed) >= Self::PAIRS_MAX {
            self.inner.pairs.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        entry.pairs.entry(asker).or_default().count(response.outcome, minute);
    }

    /// The responses of each DFSP that received requests, ordered by participant. Pairs without a request in the last
    /// minutes are dropped.
    pub fn summaries(&self, now: Timestamp) -> Vec<DfspSummary> {
        let minute = minute_of(now);
        let entries = self.inner.entries.read().unwrap_or_else(PoisonError::into_inner);
        let summary = |(index, entry): (usize, &Option<Box<Mutex<Entry>>>)| {
            let asked = ParticipantId::new(u32::try_from(index).ok()?)?;
            Some(self.summary(asked, &mut lock(entry.as_ref()?), minute))
        };
        entries.iter().enumerate().filter_map(summary).collect()
    }

    fn summary(&self, asked: ParticipantId, entry: &mut Entry, minute: i64) -> DfspSummary {
        let known = entry.pairs.len();
        entry.pairs.retain(|_, pair| pair.sum(minute).0 > 0);
        self.inner.pairs.fetch_sub(known - entry.pairs.len(), Ordering::Relaxed);
        let mut pairs: Vec<_> = entry
            .pairs
            .iter()
            .map(|(asker, pair)| {
                let (requests, failed) = pair.sum(minute);
                PairSummary { asker: *asker, asked, requests, failed }
            })
            .collect();
        pairs.sort_by_key(|pair| std::cmp::Reverse((pair.failed, pair.requests)));
        let kinds = RequestKind::ALL.iter().zip(&entry.kinds);
        let kinds = kinds.filter_map(|(kind, recent)| Some(recent.as_ref()?.summary(*kind, minute)));
        DfspSummary { asked, kinds: kinds.collect(), pairs }
    }
}

fn minute_of(now: Timestamp) -> i64 {
    now.as_ms().div_euclid(60_000)
}

fn lock(entry: &Mutex<Entry>) -> MutexGuard<'_, Entry> {
    entry.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counters by minute, for the last [`ResponseTimes::MINUTES`] minutes.
#[derive(Debug)]
struct Minutes<T>([(i64, T); ResponseTimes::MINUTES]);

impl<T: Default> Minutes<T> {
    /// The counters of a minute. They replace the counters of an earlier minute.
    fn of(&mut self, minute: i64) -> &mut T {
        let place = minute.rem_euclid(ResponseTimes::MINUTES as i64);
        let (number, counters) = &mut self.0[usize::try_from(place).unwrap_or_default()];
        if *number != minute {
            *number = minute;
            *counters = T::default();
        }
        counters
    }

    /// The counters of this minute and the previous minutes.
    fn until(&self, minute: i64) -> impl Iterator<Item = &T> {
        let oldest = minute - (ResponseTimes::MINUTES as i64 - 1);
        self.0
            .iter()
            .filter(move |(number, _)| (oldest..=minute).contains(number))
            .map(|(_, counters)| counters)
    }
}

impl<T: Default> Default for Minutes<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| (i64::MIN, T::default())))
    }
}

/// The counters of a pair of DFSPs.
#[derive(Debug, Default)]
struct Pair(Minutes<PairCounts>);

#[derive(Debug, Default)]
struct PairCounts {
    requests: u32,
    failed: u32,
}

impl Pair {
    fn count(&mut self, outcome: ResponseOutcome, minute: i64) {
        let counts = self.0.of(minute);
        counts.requests = counts.requests.saturating_add(1);
        let is_failure = !matches!(outcome, ResponseOutcome::Answered(_));
        counts.failed = counts.failed.saturating_add(u32::from(is_failure));
    }

    /// Number of requests, and of failed requests among them.
    fn sum(&self, minute: i64) -> (u64, u64) {
        self.0.until(minute).fold((0, 0), |(requests, failed), counts| {
            (requests + u64::from(counts.requests), failed + u64::from(counts.failed))
        })
    }
}

/// The counters of one DFSP and kind of request.
#[derive(Debug, Default)]
struct Recent {
    minutes: Minutes<Minute>,
    since_start: Counts,
}

#[derive(Debug)]
struct Minute {
    counts: [u32; ResponseOutcome::NAMES.len()],
    /// Callbacks by response time.
    times: [u32; BUCKETS],
}

impl Default for Minute {
    fn default() -> Self {
        Self { counts: Default::default(), times: [0; BUCKETS] }
    }
}

impl Recent {
    fn count(&mut self, outcome: ResponseOutcome, minute: i64) {
        self.since_start[outcome.index()] += 1;
        let minute = self.minutes.of(minute);
        let count = &mut minute.counts[outcome.index()];
        *count = count.saturating_add(1);
        if let Some(took) = outcome.took() {
            let count = &mut minute.times[bucket_of(took)];
            *count = count.saturating_add(1);
        }
    }

    fn summary(&self, kind: RequestKind, minute: i64) -> KindSummary {
        let (mut recent, mut times) = (Counts::default(), [0; BUCKETS]);
        for minute in self.minutes.until(minute) {
            recent.iter_mut().zip(minute.counts).for_each(|(sum, count)| *sum += u64::from(count));
            times.iter_mut().zip(minute.times).for_each(|(sum, count)| *sum += u64::from(count));
        }
        let (p50, p99) = (quantile(&times, 50), quantile(&times, 99));
        KindSummary { kind, since_start: self.since_start, recent, p50, p99 }
    }
}

/// Upper bound of the first bucket in microseconds, as a power of two: 256 µs.
const SHORTEST_LOG2: u32 = 8;
/// Number of powers of two after it, up to 67 seconds.
const OCTAVES: usize = 18;
/// Each power of two is divided into 4 buckets of equal width, so the error of a quantile is at most a quarter.
const STEPS_LOG2: u32 = 2;
/// Includes a first bucket for shorter times and a last bucket for longer times.
const BUCKETS: usize = OCTAVES * (1 << STEPS_LOG2) + 2;

fn bucket_of(took: Duration) -> usize {
    let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    let Some(octave) = us.checked_ilog2().and_then(|log2| log2.checked_sub(SHORTEST_LOG2)) else { return 0 };
    let step = (us >> (octave + SHORTEST_LOG2 - STEPS_LOG2)) & ((1 << STEPS_LOG2) - 1);
    let bucket = ((octave as usize) << STEPS_LOG2) + step as usize + 1;
    bucket.min(BUCKETS - 1)
}

/// The bounds of a bucket, in microseconds. For the last bucket, its lower bound twice.
fn bounds(bucket: usize) -> (u64, u64) {
    let lower = |bucket: usize| {
        let (octave, step) = ((bucket - 1) >> STEPS_LOG2, (bucket - 1) & ((1 << STEPS_LOG2) - 1));
        ((1 << STEPS_LOG2) + step as u64) << (octave as u32 + SHORTEST_LOG2 - STEPS_LOG2)
    };
    match bucket {
        0 => (0, lower(1)),
        bucket if bucket == BUCKETS - 1 => (lower(bucket), lower(bucket)),
        bucket => (lower(bucket), lower(bucket + 1)),
    }
}

/// The time that this percentage of callbacks took at most, assuming that times in a bucket are evenly spread.
fn quantile(times: &[u64; BUCKETS], percent: u64) -> Option<Duration> {
    let count: u64 = times.iter().sum();
    let rank = (count * percent).div_ceil(100);
    let mut before = 0;
    for (bucket, in_bucket) in times.iter().enumerate().filter(|(_, in_bucket)| **in_bucket > 0) {
        if before + in_bucket >= rank {
            let (lower, upper) = bounds(bucket);
            return Some(Duration::from_micros(lower + (upper - lower) * (rank - before) / in_bucket));
        }
        before += in_bucket;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> ParticipantId {
        ParticipantId::new(number).unwrap()
    }

    fn at_minute(minute: i64) -> Timestamp {
        Timestamp::from_ms(minute * 60_000 + 59_999)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn answered(took: u64) -> ResponseOutcome {
        ResponseOutcome::Answered(ms(took))
    }

    /// The outcome of a quote that participant 2 requested from participant 3.
    fn quote(outcome: ResponseOutcome) -> Response {
        Response { asker: Some(id(2)), asked: id(3), kind: RequestKind::Quote, outcome }
    }

    #[test]
    fn buckets_are_contiguous_and_contain_the_values_between_their_bounds() {
        for bucket in 0..BUCKETS - 1 {
            let (lower, upper) = bounds(bucket);
            assert_eq!(bounds(bucket + 1).0, upper, "{bucket}");
            assert_eq!(bucket_of(Duration::from_micros(lower)), bucket);
            assert_eq!(bucket_of(Duration::from_micros(upper - 1)), bucket);
            assert!(bucket == 0 || upper - lower <= lower / 4, "{bucket}");
        }
        assert_eq!((bounds(0).1, bounds(BUCKETS - 1).0), (256, 67_108_864));
        assert_eq!(bucket_of(Duration::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_off_by_a_quarter_at_most_and_never_too_short_for_one_alone() {
        for took in [1, 3, 17, 250, 999, 5_000, 31_000] {
            let responses = ResponseTimes::default();
            responses.observe(&quote(answered(took)), at_minute(7));
            let kind = responses.summaries(at_minute(7))[0].kinds[0];
            assert_eq!(kind.p50, kind.p99);
            let found = kind.p50.unwrap();
            assert!(found >= ms(took) && found <= ms(took) * 5 / 4, "{took} ms became {found:?}");
        }
        let responses = ResponseTimes::default();
        (1..=1_000).for_each(|took| responses.observe(&quote(answered(took)), at_minute(7)));
        let kind = responses.summaries(at_minute(7))[0].kinds[0];
        let (p50, p99) = (kind.p50.unwrap(), kind.p99.unwrap());
        assert!(p50 >= ms(495) && p50 <= ms(505), "{p50:?}");
        assert!(p99 >= ms(980) && p99 <= ms(1_049), "{p99:?}");
    }

    #[test]
    fn ends_are_counted_by_outcome_kind_and_pair() {
        let responses = ResponseTimes::default();
        for outcome in [
            answered(10),
            ResponseOutcome::Failed(ms(20)),
            ResponseOutcome::Unanswered,
            ResponseOutcome::Undelivered,
        ] {
            responses.observe(&quote(outcome), at_minute(7));
        }
        let of_transfer = Response { kind: RequestKind::Transfer, asker: None, ..quote(answered(1)) };
        responses.observe(&of_transfer, at_minute(7));
        responses.observe(&Response { asker: Some(id(4)), ..quote(answered(1)) }, at_minute(7));
        responses.observe(&Response { asked: id(2), asker: Some(id(3)), ..quote(answered(1)) }, at_minute(7));
        let found = responses.summaries(at_minute(7));
        assert_eq!(found.iter().map(|one| one.asked).collect::<Vec<_>>(), [id(2), id(3)]);
        let [quotes, transfers] = found[1].kinds[..] else { panic!("requests of two kinds: {found:?}") };
        assert_eq!((quotes.kind, quotes.recent), (RequestKind::Quote, [2, 1, 1, 1]));
        assert_eq!((transfers.kind, transfers.recent), (RequestKind::Transfer, [1, 0, 0, 0]));
        let pair = |asker, requests, failed| PairSummary { asker: id(asker), asked: id(3), requests, failed };
        assert_eq!(found[1].pairs, [pair(2, 4, 3), pair(4, 1, 0)], "the most failures first");
    }

    #[test]
    fn minutes_rotate_and_totals_stay() {
        let responses = ResponseTimes::default();
        responses.observe(&quote(answered(4_000)), at_minute(10));
        responses.observe(&quote(ResponseOutcome::Unanswered), at_minute(12));
        let seen = |minute| {
            let found = responses.summaries(at_minute(minute)).remove(0);
            let kind = found.kinds[0];
            assert_eq!(kind.since_start, [1, 0, 1, 0], "at minute {minute}");
            (kind.recent, kind.p99.is_some(), found.pairs.first().map(|pair| (pair.requests, pair.failed)))
        };
        assert_eq!(seen(14), ([1, 0, 1, 0], true, Some((2, 1))), "the fifth minute");
        assert_eq!(seen(15), ([0, 0, 1, 0], false, Some((1, 1))), "the sixth");
        assert_eq!(seen(17), ([0; 4], false, None));
        // Minute 17 uses the slot of minute 12 and replaces it.
        responses.observe(&quote(answered(1)), at_minute(17));
        let found = responses.summaries(at_minute(17)).remove(0);
        assert_eq!(found.kinds[0].recent, [1, 0, 0, 0]);
        // If the clock was set back, future minutes are not counted.
        assert_eq!(responses.summaries(at_minute(3))[0].kinds[0].recent, [0; 4]);
    }

    #[test]
    fn pairs_are_limited_and_idle_ones_are_replaced() {
        let responses = ResponseTimes::default();
        let max = u32::try_from(ResponseTimes::PAIRS_MAX).unwrap();
        let of_asker = |asker| Response { asker: Some(id(asker)), ..quote(ResponseOutcome::Unanswered) };
        (1..=max + 5).for_each(|asker| responses.observe(&of_asker(asker), at_minute(1)));
        let found = responses.summaries(at_minute(1)).remove(0);
        assert_eq!(found.pairs.len(), ResponseTimes::PAIRS_MAX);
        let all = u64::from(max) + 5;
        assert_eq!(found.kinds[0].recent, [0, 0, all, 0], "the DFSP itself has all of them");
        assert_eq!(responses.summaries(at_minute(9))[0].pairs, []);
        responses.observe(&of_asker(max + 5), at_minute(9));
        assert_eq!(responses.summaries(at_minute(9))[0].pairs[0].asker, id(max + 5));
    }
}
