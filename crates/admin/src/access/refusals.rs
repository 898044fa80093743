//! Attempts that were refused: counted, and a bounded number of them kept in the audit trail.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// Refusals of a burst that are kept.
const BURST: u32 = 30;
/// How long it takes until a further one is kept.
const INTERVAL: Duration = Duration::from_secs(2);

/// Decides which refusals are kept, so that whoever is refused cannot fill the disk.
#[derive(Debug)]
pub(super) struct Refusals(Mutex<State>);

#[derive(Debug)]
struct State {
    left: u32,
    since: Instant,
    passed_over: u64,
}

impl Refusals {
    pub(super) fn new(now: Instant) -> Self {
        Self(Mutex::new(State { left: BURST, since: now, passed_over: 0 }))
    }

    /// Whether this one is kept: with the number of those before it that were not.
    pub(super) fn keep(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while state.left < BURST && now.saturating_duration_since(state.since) >= INTERVAL {
            state.left += 1;
            state.since += INTERVAL;
        }
        if state.left == BURST {
            state.since = now;
        }
        if state.left == 0 {
            state.passed_over += 1;
            return None;
        }
        state.left -= 1;
        Some(std::mem::take(&mut state.passed_over))
    }

    /// So many that were to be kept could not be: the next one that is tells of them.
    pub(super) fn lose(&self, count: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).passed_over += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_kept_then_one_per_interval() {
        let start = Instant::now();
        let refusals = Refusals::new(start);
        let kept = (0..100).filter(|_| refusals.keep(start).is_some()).count();
        assert_eq!(kept, BURST as usize);
        assert_eq!(refusals.keep(start + INTERVAL / 2), None);
        // 70 of the burst, and the one after it.
        assert_eq!(refusals.keep(start + INTERVAL), Some(71));
        assert_eq!(refusals.keep(start + INTERVAL), None);
        assert_eq!(refusals.keep(start + 1_000 * INTERVAL), Some(1));
        refusals.lose(3);
        assert_eq!(refusals.keep(start + 1_001 * INTERVAL), Some(3));
        assert_eq!(refusals.keep(start + 1_002 * INTERVAL), Some(0));
    }
}
