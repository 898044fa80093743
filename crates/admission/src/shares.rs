//! How those who ask share a limit.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::{INTERVALS_PER_S, REQUEST, cost_of};

/// Who asks: a number that the caller gives each DFSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceId(pub u32);

impl SourceId {
    /// All those together that the caller does not know, and those for whom there is no room.
    pub const OTHERS: Self = Self(0);
}

/// Turns' worth of its share that a source can save up: more would be a burst, and a burst is a queue.
pub(crate) const SAVED_INTERVALS: u64 = 2;
/// The same where the limit is a rate that was agreed, not one that keeps a queue short: a fifth of a second.
pub(crate) const SAVED_INTERVALS_OF_RATE: u64 = 10;
/// What a source can save up at least, so that one that asks rarely is never refused for the sake of those that flood.
const SAVED_MIN: u64 = 2 * REQUEST;
const ONE: i64 = REQUEST as i64;
/// Below this demand per interval a source that does not ask is forgotten.
const FORGOTTEN_BELOW: u64 = REQUEST / 64;

/// The bounds of shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharesConfig {
    /// What one source may take per interval however little others ask for, in thousandths of a request;
    /// `None` for no bound.
    /// It can save up a second's worth.
    pub quota_per_source: Option<u64>,
    /// Sources remembered at a time; those beyond share one share. At least one.
    pub sources_max: usize,
}

/// Why a request gets no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Its source has used up its share of the common limit.
    Share,
    /// Its source is over the quota of each source.
    Quota,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Source {
    /// What it may take of the common limit now, in thousandths of a request. A request with a large body may be taken
    /// on credit: then it is below zero for a while.
    credit: i64,
    /// What it may take of its own quota now, the same.
    allowance: i64,
    /// What it asks for per interval, smoothed, the same.
    demand: u64,
    /// What it asked for since the last interval, the same.
    asked: u64,
    refused: u64,
}

/// Shares of a limit by the water level: max-min fair by what each asked for lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    config: SharesConfig,
    sources: BTreeMap<SourceId, Source>,
    /// Thousandths of a request per interval, of all together.
    quota: Option<u64>,
    /// What each may take per interval of it; `None` while all together ask for less.
    level: Option<u64>,
    /// Turns' worth that can be saved up.
    saved_intervals: u64,
    /// What all together may take beyond their credit while there is no level.
    pool: u64,
}

impl Shares {
    /// Without a limit.
    pub const fn new(config: SharesConfig) -> Self {
        Self {
            config,
            sources: BTreeMap::new(),
            quota: None,
            level: None,
            saved_intervals: SAVED_INTERVALS,
            pool: 0,
        }
    }

    /// Sources remembered.
    pub fn sources(&self) -> usize {
        self.sources.len()
    }

    /// Those that were refused something since the last interval, with how often.
    pub fn refused(&self) -> impl Iterator<Item = (SourceId, u64)> {
        self.sources.iter().filter(|(_, source)| source.refused > 0).map(|(id, source)| (*id, source.refused))
    }

    /// Whether one more request of a source is taken.
    ///
    /// # Errors
    /// Why not.
    pub fn ask(&mut self, id: SourceId) -> Result<(), Denied> {
        self.ask_for(id, 0)
    }

    /// The same of a request with a body of so many bytes.
    ///
    /// # Errors
    /// Why not.
    pub fn ask_for(&mut self, id: SourceId, body_bytes: u64) -> Result<(), Denied> {
        let cost = signed(cost_of(body_bytes));
        let id = self.known(id);
        let fresh = self.fresh();
        let source = self.sources.entry(id).or_insert(fresh);
        source.asked = source.asked.saturating_add(cost.unsigned_abs());
        let denied = if self.config.quota_per_source.is_some() && source.allowance < ONE {
            Some(Denied::Quota)
        } else if self.quota.is_none() {
            None
        } else if self.level.is_none() && self.pool >= REQUEST {
            self.pool = self.pool.saturating_sub(cost.unsigned_abs());
            None
        } else if source.credit >= ONE {
            source.credit -= cost;
            None
        } else {
            Some(Denied::Share)
        };
        match denied {
            None => source.allowance -= if self.config.quota_per_source.is_some() { cost } else { 0 },
            Some(_) => source.refused += 1,
        }
        denied.map_or(Ok(()), Err)
    }

    /// Notes that a request that was taken turned out to have a body of so many bytes: its source owes for them.
    pub fn charge(&mut self, id: SourceId, body_bytes: u64) {
        let more = cost_of(body_bytes) - REQUEST;
        let id = self.known(id);
        let fresh = self.fresh();
        let source = self.sources.entry(id).or_insert(fresh);
        source.asked = source.asked.saturating_add(more);
        source.credit -= if self.quota.is_some() { signed(more) } else { 0 };
        source.allowance -= if self.config.quota_per_source.is_some() { signed(more) } else { 0 };
    }

    /// The source, or the one that stands for those for whom there is no room.
    fn known(&self, id: SourceId) -> SourceId {
        let is_known = self.sources.contains_key(&id) || self.sources.len() < self.config.sources_max;
        if is_known { id } else { SourceId::OTHERS }
    }

    /// Ends `intervals` intervals; from now on `quota`, in thousandths of a request, is shared in each.
    pub fn end_interval(&mut self, quota: Option<u64>, intervals: u64) {
        self.end_interval_saving(quota, SAVED_INTERVALS, intervals);
    }

    /// The same with so many intervals' worth that can be saved up.
    pub(crate) fn end_interval_saving(&mut self, quota: Option<u64>, saved_intervals: u64, intervals: u64) {
        let intervals = intervals.max(1);
        self.saved_intervals = saved_intervals;
        for source in self.sources.values_mut() {
            let asked = core::mem::take(&mut source.asked) / intervals;
            source.demand = (source.demand * 3).saturating_add(asked) / 4;
            source.refused = 0;
        }
        self.quota = quota;
        self.level = quota.and_then(|quota| self.water_level(quota));
        let grant = self.grant();
        let credit_max = self.credit_max(grant);
        let per_interval = self.config.quota_per_source.unwrap_or(0);
        let saved_max = self.config.quota_per_source.map_or(0, allowance_max);
        for source in self.sources.values_mut() {
            // Where there is no limit, nothing is owed.
            let credit = if self.quota.is_some() { source.credit } else { source.credit.max(0) };
            source.credit = grown(credit, grant, intervals, credit_max);
            source.allowance = grown(source.allowance, per_interval, intervals, saved_max);
        }
        let quota = quota.unwrap_or(0);
        let pool_max = quota.saturating_mul(saved_intervals).max(REQUEST);
        self.pool = self.pool.saturating_add(quota.saturating_mul(intervals)).min(pool_max);
        self.sources.retain(|_, source| {
            source.demand >= FORGOTTEN_BELOW || source.credit < 0 || source.allowance < signed(saved_max)
        });
    }

    /// What each source is credited per interval.
    fn grant(&self) -> u64 {
        let sources = self.sources.len() as u64 + 1;
        self.level.unwrap_or_else(|| self.quota.unwrap_or(0) / sources)
    }

    fn credit_max(&self, grant: u64) -> u64 {
        grant.saturating_mul(self.saved_intervals).max(SAVED_MIN)
    }

    /// A source that was not there before has everything saved up.
    fn fresh(&self) -> Source {
        Source {
            credit: signed(self.credit_max(self.grant())),
            allowance: self.config.quota_per_source.map_or(0, |quota| signed(allowance_max(quota))),
            ..Source::default()
        }
    }

    /// The level up to which everybody's demand is met, so that together they get the quota; `None` where it meets them
    /// all.
    fn water_level(&self, quota: u64) -> Option<u64> {
        let mut demands: Vec<u64> = self.sources.values().map(|source| source.demand).collect();
        demands.sort_unstable();
        let (mut left, mut count) = (quota, demands.len() as u64);
        for demand in demands {
            if demand.saturating_mul(count) > left {
                return Some(left / count);
            }
            left -= demand;
            count -= 1;
        }
        None
    }
}

fn grown(now: i64, per_interval: u64, intervals: u64, max: u64) -> i64 {
    now.saturating_add(signed(per_interval.saturating_mul(intervals))).min(signed(max))
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

fn allowance_max(quota: u64) -> u64 {
    quota.saturating_mul(INTERVALS_PER_S).max(REQUEST)
}
