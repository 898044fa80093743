#![doc = include_str!("../README.md")]
#![no_std]

extern crate alloc;

mod admission;
mod limiter;
mod rates;
mod shares;

pub use admission::{Admission, AdmissionConfig, Class, Observed, Refusal};
pub use limiter::{Limiter, LimiterConfig, Seen};
pub use rates::{Counted, Rates};
pub use shares::{Denied, Shares, SharesConfig, SourceId};

/// A body up to this many bytes is that of an ordinary request. A larger one counts as one request for each portion of
/// this size that it has begun.
pub const ORDINARY_BODY_BYTES_MAX: u64 = 16 * 1024;

/// What a request with a body of so many bytes costs, in thousandths of an ordinary request.
pub const fn cost_of(body_bytes: u64) -> u64 {
    match body_bytes.div_ceil(ORDINARY_BODY_BYTES_MAX) {
        0 => REQUEST,
        portions => portions.saturating_mul(REQUEST),
    }
}

/// Length of an interval in milliseconds.
pub const INTERVAL_MS: u64 = 20;

/// Turns in a second.
pub const INTERVALS_PER_S: u64 = 1000 / INTERVAL_MS;

/// One request in the units of quotas and credits, thousandths of a request, so that rates below one an interval are
/// exact.
pub const REQUEST: u64 = 1000;

/// A rate per second as a quota per interval, in thousandths of a request.
pub const fn quota_of_rate(requests_per_s: u64) -> u64 {
    requests_per_s.saturating_mul(REQUEST) / INTERVALS_PER_S
}

/// A quota per interval, in thousandths of a request, as a rate per second.
pub const fn rate_of_quota(quota: u64) -> u64 {
    quota.saturating_mul(INTERVALS_PER_S) / REQUEST
}
