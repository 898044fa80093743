//! The sanity check of a fulfil's `completedTimestamp`.

use upesi_types::{ErrorCode, Present, Timestamp};

use crate::SyncError;

/// Refuses a `completedTimestamp` more than `lag_ms` in the future or more than `age_s_max` seconds in the past;
/// both ends pass, and what is right by any of the hub's clocks. Nothing is checked of a message that an
/// inter-scheme proxy passed on. Schemes use 200 ms and 300 s.
///
/// Errors: 400 with 3100.
pub fn check_completed_timestamp(
    completed: Option<Timestamp>,
    present: Present,
    lag_ms: i64,
    age_s_max: i64,
    proxied: bool,
) -> Result<(), SyncError> {
    let Some(completed) = completed.filter(|_| !proxied) else { return Ok(()) };
    let refuse = |detail| Err(SyncError::new(ErrorCode::VALIDATION, detail));
    if completed > present.latest.plus_ms(lag_ms) {
        return refuse("completedTimestamp fails because future timestamp was provided");
    }
    if completed < present.earliest.plus_ms(-age_s_max.saturating_mul(1000)) {
        return refuse(
            "completedTimestamp fails because provided timestamp exceeded the maximum timeout duration",
        );
    }
    Ok(())
}
