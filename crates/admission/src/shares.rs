//! Shares of a limit among sources.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::{INTERVALS_PER_S, REQUEST, cost_of};

/// Identifies a source of requests: a number that the caller assigns to each DFSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceId(pub u32);

impl SourceId {
    /// All sources that the caller does not know, and all sources beyond the maximum, together.
    pub const OTHERS: Self = Self(0);
}

/// Intervals of its share that a source can accumulate. More would allow a burst, and a burst creates a queue.
pub(crate) const SAVED_INTERVALS: u64 = 2;
/// Intervals that a source can accumulate if the limit is an agreed rate instead of one that keeps a queue short. They
/// are a fifth of a second.
pub(crate) const SAVED_INTERVALS_OF_RATE: u64 = 10;
/// Minimum that a source can accumulate, so that a source with few requests is never rejected because of sources that
/// flood.
const SAVED_MIN: u64 = 2 * REQUEST;
const ONE: i64 = REQUEST as i64;
/// A source without requests is forgotten when its demand per interval is below this.
const FORGOTTEN_BELOW: u64 = REQUEST / 64;

/// The configuration of shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharesConfig {
    /// Maximum for one source per interval, even if other sources request little, in thousandths of a request; `None`
    /// for no limit. A source can accumulate the quota of one second.
    pub quota_per_source: Option<u64>,
    /// Maximum number of sources that are remembered, at least one. Further sources share one share.
    pub sources_max: usize,
}

/// The reason why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareRejection {
    /// The source has used up its share of the common limit.
    Share,
    /// The source exceeds the quota of each source.
    Quota,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Source {
    /// The source's current credit of the common limit, in thousandths of a request. A request with a large body may be
    /// accepted on credit; the value is then negative for a while.
    credit: i64,
    /// The source's current credit of its own quota, in the same unit.
    allowance: i64,
    /// The source's demand per interval, smoothed, in the same unit.
    demand: u64,
    /// The source's demand since the last interval, in the same unit.
    asked: u64,
    refused: u64,
}

/// Max-min fair shares of a limit, based on the recent demand of each source (water level).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    config: SharesConfig,
    sources: BTreeMap<SourceId, Source>,
    /// The limit of all sources together, in thousandths of a request per interval.
    quota: Option<u64>,
    /// The maximum share of each source per interval; `None` while the total demand is below the limit.
    level: Option<u64>,
    /// Number of intervals whose share can be accumulated.
    saved_intervals: u64,
    /// Credit that all sources share beyond their own credit, while no level is set.
    pool: u64,
}

impl Shares {
    /// Creates shares without a limit.
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

    /// Number of sources that are remembered.
    pub fn sources(&self) -> usize {
        self.sources.len()
    }

    /// The sources with rejections since the last interval, with the number of rejections.
    pub fn refused(&self) -> impl Iterator<Item = (SourceId, u64)> {
        self.sources.iter().filter(|(_, source)| source.refused > 0).map(|(id, source)| (*id, source.refused))
    }

    /// Decides whether one more request of a source is accepted.
    ///
    /// # Errors
    /// The reason of the rejection.
    pub fn ask(&mut self, id: SourceId) -> Result<(), ShareRejection> {
        self.ask_for(id, 0)
    }

    /// Like [`Self::ask`], for a request with a body of `body_bytes`.
    ///
    /// # Errors
    /// The reason of the rejection.
    pub fn ask_for(&mut self, id: SourceId, body_bytes: u64) -> Result<(), ShareRejection> {
        let cost = signed(cost_of(body_bytes));
        let id = self.known(id);
        let fresh = self.fresh();
        let source = self.sources.entry(id).or_insert(fresh);
        source.asked = source.asked.saturating_add(cost.unsigned_abs());
        let denied = if self.config.quota_per_source.is_some() && source.allowance < ONE {
            Some(ShareRejection::Quota)
        } else if self.quota.is_none() {
            None
        } else if self.level.is_none() && self.pool >= REQUEST {
            self.pool = self.pool.saturating_sub(cost.unsigned_abs());
            None
        } else if source.credit >= ONE {
            source.credit -= cost;
            None
        } else {
            Some(ShareRejection::Share)
        };
        match denied {
            None => source.allowance -= if self.config.quota_per_source.is_some() { cost } else { 0 },
            Some(_) => source.refused += 1,
        }
        denied.map_or(Ok(()), Err)
    }

    /// Charges an accepted request whose body turned out to have `body_bytes` to its source.
    pub fn charge(&mut self, id: SourceId, body_bytes: u64) {
        let more = cost_of(body_bytes) - REQUEST;
        let id = self.known(id);
        let fresh = self.fresh();
        let source = self.sources.entry(id).or_insert(fresh);
        source.asked = source.asked.saturating_add(more);
        source.credit -= if self.quota.is_some() { signed(more) } else { 0 };
        source.allowance -= if self.config.quota_per_source.is_some() { signed(more) } else { 0 };
    }

    /// The source itself, or [`SourceId::OTHERS`] if the table is full.
    fn known(&self, id: SourceId) -> SourceId {
        let is_known = self.sources.contains_key(&id) || self.sources.len() < self.config.sources_max;
        if is_known { id } else { SourceId::OTHERS }
    }

    /// Ends `intervals` intervals. From now on, `quota` is shared in each interval, in thousandths of a request.
    pub fn end_interval(&mut self, quota: Option<u64>, intervals: u64) {
        self.end_interval_saving(quota, SAVED_INTERVALS, intervals);
    }

    /// Like [`Self::end_interval`]. Sources can accumulate their shares of `saved_intervals` intervals.
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
            // Without a limit, debts are cancelled.
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

    /// The credit that each source receives per interval.
    fn grant(&self) -> u64 {
        let sources = self.sources.len() as u64 + 1;
        self.level.unwrap_or_else(|| self.quota.unwrap_or(0) / sources)
    }

    fn credit_max(&self, grant: u64) -> u64 {
        grant.saturating_mul(self.saved_intervals).max(SAVED_MIN)
    }

    /// A new source starts with full credit.
    fn fresh(&self) -> Source {
        Source {
            credit: signed(self.credit_max(self.grant())),
            allowance: self.config.quota_per_source.map_or(0, |quota| signed(allowance_max(quota))),
            ..Source::default()
        }
    }

    /// The largest share per source such that all shares fit into the quota. Demands below it are met completely.
    /// `None` if all demands can be met.
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
