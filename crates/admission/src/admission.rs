//! Decides which requests a hub accepts: new work is limited before work that finishes something.

use crate::limiter::{Limiter, LimiterConfig, LimiterInterval};
use crate::shares::{
    SAVED_INTERVALS, SAVED_INTERVALS_OF_RATE, ShareRejection, Shares, SharesConfig, SourceId,
};
use crate::{REQUEST, cost_of};

/// If the delay is this many times the target while new work is at its floor, requests that finish something cause it.
const FINISHING_TARGET_FACTOR: u32 = 4;
/// Intervals that new work must have been at its floor before finishing requests are limited: half a second.
const FLOOR_INTERVALS: u32 = 25;

/// The class of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The request begins something: POST, GET, DELETE.
    New,
    /// The request finishes earlier work: PUT.
    Finishing,
}

impl Class {
    /// Both classes, in the order of their discriminants.
    pub const ALL: [Self; 2] = [Self::New, Self::Finishing];
}

/// The reason why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The hub is overloaded, and the sender has used up its share.
    Overload,
    /// The sender exceeds the rate limit of each DFSP.
    Rate,
}

/// The limits of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionConfig {
    /// The standing delay that is maintained, in microseconds; 0 for no limit by delay.
    pub delay_target_us: u32,
    /// Limit of new requests of all sources together per interval, in thousandths; `None` for no limit.
    pub quota: Option<u64>,
    /// Limit of new requests of one source per interval, in thousandths; `None` for no limit.
    pub quota_per_source: Option<u64>,
    /// Maximum number of sources that are remembered.
    pub sources_max: usize,
}

/// Observations since the last interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionInterval {
    /// The shortest wait in microseconds; `None` if there were too few requests.
    pub delay_us: Option<u32>,
    /// Requests accepted without a call of [`Admission::ask`], by [`Class`].
    pub taken: [u64; 2],
    /// Intervals that ended since the last call, at least one.
    pub intervals: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Gate {
    limiter: Limiter,
    shares: Shares,
    /// Accepted since the last interval, in thousandths of a request.
    taken: u64,
    refused: u64,
}

impl Gate {
    const fn new(delay_target_us: u32, shares: SharesConfig) -> Self {
        Self {
            limiter: Limiter::new(LimiterConfig { delay_target_us }),
            shares: Shares::new(shares),
            taken: 0,
            refused: 0,
        }
    }

    fn ask(&mut self, source: SourceId, body_bytes: u64) -> Result<(), ShareRejection> {
        let answer = self.shares.ask_for(source, body_bytes);
        if answer.is_ok() {
            self.taken = self.taken.saturating_add(cost_of(body_bytes));
        } else {
            self.refused += 1;
        }
        answer
    }

    fn end_interval(
        &mut self,
        delay_us: Option<u32>,
        taken_unasked: u64,
        quota: Option<u64>,
        intervals: u64,
    ) {
        let taken = core::mem::take(&mut self.taken) / REQUEST + taken_unasked;
        let refused = core::mem::take(&mut self.refused);
        self.limiter.end_interval(LimiterInterval { delay_us, taken, refused, intervals });
        let limit = match (self.limiter.limit(), quota) {
            (Some(limit), Some(quota)) => Some(limit.min(quota)),
            (limit, quota) => limit.or(quota),
        };
        let is_rate = limit != self.limiter.limit();
        self.shares.end_interval_saving(
            limit,
            if is_rate { SAVED_INTERVALS_OF_RATE } else { SAVED_INTERVALS },
            intervals,
        );
    }
}

/// Decides which requests a hub accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    config: AdmissionConfig,
    new: Gate,
    finishing: Gate,
    /// Number of consecutive intervals that new work has been at its floor.
    floor_intervals: u32,
}

impl Admission {
    /// Creates an admission that accepts everything except requests beyond a quota.
    pub fn new(config: AdmissionConfig) -> Self {
        let AdmissionConfig { quota_per_source, sources_max, .. } = config;
        let shares = SharesConfig { quota_per_source, sources_max };
        let mut new = Gate::new(config.delay_target_us, shares);
        new.shares.end_interval_saving(config.quota, SAVED_INTERVALS_OF_RATE, 1);
        let target = config.delay_target_us.saturating_mul(FINISHING_TARGET_FACTOR);
        let shares = SharesConfig { quota_per_source: None, sources_max };
        Self { config, new, finishing: Gate::new(target, shares), floor_intervals: 0 }
    }

    /// Whether all requests of this class and of ordinary size are accepted until the next interval, so that callers
    /// may skip [`Self::ask`]. Larger requests always need [`Self::ask_for`].
    pub const fn is_open(&self, class: Class) -> bool {
        match class {
            Class::New => {
                self.config.quota.is_none()
                    && self.config.quota_per_source.is_none()
                    && self.new.limiter.limit().is_none()
                    && self.finishing.limiter.limit().is_none()
            }
            Class::Finishing => self.finishing.limiter.limit().is_none(),
        }
    }

    /// The limit of all new work together, in thousandths of a request per interval.
    pub fn limit(&self) -> Option<u64> {
        match (self.new.limiter.limit(), self.config.quota) {
            (Some(limit), Some(quota)) => Some(limit.min(quota)),
            (limit, quota) => limit.or(quota),
        }
    }

    /// Whether even requests that finish something are limited.
    pub const fn limits_finishing(&self) -> bool {
        self.finishing.limiter.limit().is_some()
    }

    /// The sources whose new work was rejected since the last interval, with the number of rejections.
    pub fn refused(&self) -> impl Iterator<Item = (SourceId, u64)> {
        self.new.shares.refused()
    }

    /// Decides whether a request is accepted.
    ///
    /// # Errors
    /// The reason of the rejection.
    pub fn ask(&mut self, class: Class, source: SourceId) -> Result<(), Refusal> {
        self.ask_for(class, source, 0)
    }

    /// Like [`Self::ask`], for a request with a body of `body_bytes`.
    ///
    /// # Errors
    /// The reason of the rejection.
    pub fn ask_for(&mut self, class: Class, source: SourceId, body_bytes: u64) -> Result<(), Refusal> {
        let answer = match class {
            // Work that cannot be finished must not be started.
            Class::New if self.limits_finishing() => {
                self.new.refused += 1;
                return Err(Refusal::Overload);
            }
            Class::New => self.new.ask(source, body_bytes),
            Class::Finishing if self.limits_finishing() => self.finishing.ask(source, body_bytes),
            Class::Finishing => {
                self.finishing.taken = self.finishing.taken.saturating_add(cost_of(body_bytes));
                Ok(())
            }
        };
        answer.map_err(|denied| match denied {
            ShareRejection::Share => Refusal::Overload,
            ShareRejection::Quota => Refusal::Rate,
        })
    }

    /// Charges an accepted request whose body turned out to have `body_bytes`.
    pub fn charge(&mut self, class: Class, source: SourceId, body_bytes: u64) {
        let gate = if class == Class::New { &mut self.new } else { &mut self.finishing };
        gate.shares.charge(source, body_bytes);
        gate.taken = gate.taken.saturating_add(cost_of(body_bytes) - REQUEST);
    }

    /// Ends an interval.
    pub fn end_interval(&mut self, observed: AdmissionInterval) {
        let AdmissionInterval { delay_us, taken, intervals } = observed;
        self.new.end_interval(delay_us, taken[Class::New as usize], self.config.quota, intervals);
        self.floor_intervals =
            if self.new.limiter.is_at_floor() { self.floor_intervals.saturating_add(1) } else { 0 };
        // Until new work is at its floor, the delay is not attributed to finishing requests.
        let may_limit = self.floor_intervals >= FLOOR_INTERVALS || self.limits_finishing();
        let delay_us = delay_us.filter(|_| may_limit);
        self.finishing.end_interval(delay_us, taken[Class::Finishing as usize], None, intervals);
    }
}
