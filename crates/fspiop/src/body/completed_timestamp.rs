//! Plausibility check of a fulfil's `completedTimestamp`.

use upesi_types::{ErrorCode, Present, Timestamp};

use crate::SyncError;

/// Why a `completedTimestamp` is implausible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompletionFault {
    /// The time is too far in the future.
    InFuture,
    /// The time is too far in the past.
    LongAgo,
}

impl CompletionFault {
    /// The detail of the error, which has the code 3100.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InFuture => "completedTimestamp fails because future timestamp was provided",
            Self::LongAgo => {
                "completedTimestamp fails because provided timestamp exceeded the maximum timeout duration"
            }
        }
    }
}

/// Rejects a `completedTimestamp` more than `lag_ms` in the future or more than `age_s_max` seconds in the past. Both
/// limits themselves are allowed, and it is sufficient if the time is valid by one of the hub's clocks. Messages that
/// an inter-scheme proxy forwarded are not checked. Schemes use 200 ms and 300 s.
///
/// Errors: 400 with 3100.
pub fn check_completed_timestamp(
    completed: Option<Timestamp>,
    present: Present,
    lag_ms: i64,
    age_s_max: i64,
    proxied: bool,
) -> Result<(), SyncError> {
    match completed_timestamp_fault(completed, present, lag_ms, age_s_max, proxied) {
        None => Ok(()),
        Some(fault) => Err(SyncError::new(ErrorCode::VALIDATION, fault.as_str())),
    }
}

/// The fault that [`check_completed_timestamp`] reports, for an answer that the ledger rejects.
pub fn completed_timestamp_fault(
    completed: Option<Timestamp>,
    present: Present,
    lag_ms: i64,
    age_s_max: i64,
    proxied: bool,
) -> Option<CompletionFault> {
    let completed = completed.filter(|_| !proxied)?;
    if completed > present.latest.plus_ms(lag_ms) {
        Some(CompletionFault::InFuture)
    } else if completed < present.earliest.plus_ms(-age_s_max.saturating_mul(1000)) {
        Some(CompletionFault::LongAgo)
    } else {
        None
    }
}
