#![doc = include_str!("../README.md")]
#![no_std]

extern crate alloc;

mod admission;
mod limiter;
mod rates;
mod shares;

pub use admission::{Admission, AdmissionConfig, AdmissionInterval, Class, Refusal};
pub use limiter::{Limiter, LimiterConfig, LimiterInterval};
pub use rates::{RateEvent, Rates};
pub use shares::{ShareRejection, Shares, SharesConfig, SourceId};

/// Maximum body of an ordinary request, in bytes. A larger body counts as one request for each started portion of this
/// size.
pub const ORDINARY_BODY_BYTES_MAX: u64 = 16 * 1024;

/// The cost of a request with a body of `body_bytes`, in thousandths of an ordinary request.
pub const fn cost_of(body_bytes: u64) -> u64 {
    match body_bytes.div_ceil(ORDINARY_BODY_BYTES_MAX) {
        0 => REQUEST,
        portions => portions.saturating_mul(REQUEST),
    }
}

/// Length of an interval in milliseconds.
pub const INTERVAL_MS: u64 = 20;

/// Intervals per second.
pub const INTERVALS_PER_S: u64 = 1000 / INTERVAL_MS;

/// One request in the unit of quotas and credits, which is a thousandth of a request, so that rates below one request
/// per interval are exact.
pub const REQUEST: u64 = 1000;

/// Converts a rate per second to a quota per interval, in thousandths of a request.
pub const fn quota_of_rate(requests_per_s: u64) -> u64 {
    requests_per_s.saturating_mul(REQUEST) / INTERVALS_PER_S
}

/// Converts a quota per interval, in thousandths of a request, to a rate per second.
pub const fn rate_of_quota(quota: u64) -> u64 {
    quota.saturating_mul(INTERVALS_PER_S) / REQUEST
}
