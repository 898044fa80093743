//! How those who ask share a limit.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::{REQUEST, TURNS_PER_S};

/// Who asks: a number that the caller gives each DFSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceId(pub u32);

impl SourceId {
    /// All those together that the caller does not know, and those for whom there is no room.
    pub const OTHERS: Self = Self(0);
}

/// Turns' worth of its share that a source can save up: more would be a burst, and a burst is a queue.
pub(crate) const SAVED_TURNS: u64 = 2;
/// The same where the limit is a rate that was agreed, not one that keeps a queue short: a fifth of a second.
pub(crate) const SAVED_TURNS_OF_RATE: u64 = 10;
/// What a source can save up at least, so that one that asks rarely is never refused for the sake of those that flood.
const SAVED_MIN: u64 = 2 * REQUEST;
/// Below this demand per turn a source that does not ask is forgotten.
const FORGOTTEN_BELOW: u64 = REQUEST / 64;

/// The bounds of shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharesConfig {
    /// What one source may take per turn however little others ask for, in thousandths of a request; `None` for no bound.
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
    /// What it may take of the common limit now, in thousandths of a request.
    credit: u64,
    /// What it may take of its own quota now, the same.
    allowance: u64,
    /// What it asks for per turn, smoothed, the same.
    demand: u64,
    /// Requests since the last turn.
    asked: u64,
    refused: u64,
}

/// Shares of a limit by the water level: max-min fair by what each asked for lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    config: SharesConfig,
    sources: BTreeMap<SourceId, Source>,
    /// Thousandths of a request per turn, of all together.
    quota: Option<u64>,
    /// What each may take per turn of it; `None` while all together ask for less.
    level: Option<u64>,
    /// Turns' worth that can be saved up.
    saved_turns: u64,
    /// What all together may take beyond their credit while there is no level.
    pool: u64,
}

impl Shares {
    /// Without a limit.
    pub const fn new(config: SharesConfig) -> Self {
        Self { config, sources: BTreeMap::new(), quota: None, level: None, saved_turns: SAVED_TURNS, pool: 0 }
    }

    /// Sources remembered.
    pub fn sources(&self) -> usize {
        self.sources.len()
    }

    /// Those that were refused something since the last turn, with how often.
    pub fn refused(&self) -> impl Iterator<Item = (SourceId, u64)> {
        self.sources.iter().filter(|(_, source)| source.refused > 0).map(|(id, source)| (*id, source.refused))
    }

    /// Whether one more request of a source is taken.
    ///
    /// # Errors
    /// Why not.
    pub fn ask(&mut self, id: SourceId) -> Result<(), Denied> {
        let is_known = self.sources.contains_key(&id) || self.sources.len() < self.config.sources_max;
        let id = if is_known { id } else { SourceId::OTHERS };
        let fresh = self.fresh();
        let source = self.sources.entry(id).or_insert(fresh);
        source.asked += 1;
        let denied = if self.config.quota_per_source.is_some() && source.allowance < REQUEST {
            Some(Denied::Quota)
        } else if self.quota.is_none() {
            None
        } else if self.level.is_none() && self.pool >= REQUEST {
            self.pool -= REQUEST;
            None
        } else if source.credit >= REQUEST {
            source.credit -= REQUEST;
            None
        } else {
            Some(Denied::Share)
        };
        match denied {
            None => source.allowance = source.allowance.saturating_sub(REQUEST),
            Some(_) => source.refused += 1,
        }
        denied.map_or(Ok(()), Err)
    }

    /// Ends `turns` turns; from now on `quota`, in thousandths of a request, is shared in each.
    pub fn turn(&mut self, quota: Option<u64>, turns: u64) {
        self.turn_saving(quota, SAVED_TURNS, turns);
    }

    /// The same with so many turns' worth that can be saved up.
    pub(crate) fn turn_saving(&mut self, quota: Option<u64>, saved_turns: u64, turns: u64) {
        let turns = turns.max(1);
        self.saved_turns = saved_turns;
        for source in self.sources.values_mut() {
            let asked = core::mem::take(&mut source.asked).saturating_mul(REQUEST) / turns;
            source.demand = (source.demand * 3).saturating_add(asked) / 4;
            source.refused = 0;
        }
        self.quota = quota;
        self.level = quota.and_then(|quota| self.water_level(quota));
        let grant = self.grant();
        let credit_max = self.credit_max(grant);
        let allowance_max = self.config.quota_per_source.map(allowance_max);
        let allowance = self.config.quota_per_source.unwrap_or(0).saturating_mul(turns);
        for source in self.sources.values_mut() {
            source.credit = source.credit.saturating_add(grant.saturating_mul(turns)).min(credit_max);
            source.allowance = source.allowance.saturating_add(allowance).min(allowance_max.unwrap_or(0));
        }
        let quota = quota.unwrap_or(0);
        let pool_max = quota.saturating_mul(saved_turns).max(REQUEST);
        self.pool = self.pool.saturating_add(quota.saturating_mul(turns)).min(pool_max);
        self.sources.retain(|_, source| {
            source.demand >= FORGOTTEN_BELOW || source.allowance < allowance_max.unwrap_or(0)
        });
    }

    /// What each source is credited per turn.
    fn grant(&self) -> u64 {
        let sources = self.sources.len() as u64 + 1;
        self.level.unwrap_or_else(|| self.quota.unwrap_or(0) / sources)
    }

    fn credit_max(&self, grant: u64) -> u64 {
        grant.saturating_mul(self.saved_turns).max(SAVED_MIN)
    }

    /// A source that was not there before has everything saved up.
    fn fresh(&self) -> Source {
        Source {
            credit: self.credit_max(self.grant()),
            allowance: self.config.quota_per_source.map_or(0, allowance_max),
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

fn allowance_max(quota: u64) -> u64 {
    quota.saturating_mul(TURNS_PER_S).max(REQUEST)
}
