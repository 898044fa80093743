//! Failures that may occur many times a second, and are logged rarely.

use std::time::Duration;

use tokio::time::Instant;

/// Minimum interval between log lines about one kind of failure.
const FAILURES_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Limits the logging of failures that may occur many times a second.
#[derive(Debug, Default)]
pub struct Failures {
    since_log: u64,
    logged_at: Option<Instant>,
}

impl Failures {
    /// Counts a failure. If a log line is due, returns the number of failures since the last one.
    pub fn note(&mut self, now: Instant) -> Option<u64> {
        self.since_log += 1;
        if self.logged_at.is_some_and(|logged_at| now < logged_at + FAILURES_LOG_INTERVAL) {
            return None;
        }
        self.logged_at = Some(now);
        Some(std::mem::take(&mut self.since_log))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_logged_once_in_ten_seconds_with_their_count() {
        let (mut failures, start) = (Failures::default(), Instant::now());
        let noted: Vec<_> =
            (0..500).filter_map(|index| failures.note(start + index * Duration::from_millis(50))).collect();
        assert_eq!(noted, [1, 200, 200]);
    }
}
