//! Counts of messages that are being sent or repeated, by the round of their start.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the messages in progress of the current round, and of the previous one.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    present: AtomicU64,
    under_way: [AtomicU64; 2],
}

/// A message in progress, until it is accepted or no longer repeated.
pub(crate) struct UnderWay<'a>(&'a AtomicU64);

impl Rounds {
    pub(crate) fn begin(&self) -> UnderWay<'_> {
        let count = self.of(self.present.load(Ordering::SeqCst));
        count.fetch_add(1, Ordering::SeqCst);
        UnderWay(count)
    }

    /// Starts another round, if no message of the previous round is in progress. Returns whether it did.
    pub(crate) fn next(&self) -> bool {
        let next = self.present.load(Ordering::SeqCst) + 1;
        let is_over = self.of(next).load(Ordering::SeqCst) == 0;
        if is_over {
            self.present.store(next, Ordering::SeqCst);
        }
        is_over
    }

    /// The counter of a round. All even rounds share one counter, and all odd rounds share the other.
    const fn of(&self, round: u64) -> &AtomicU64 {
        &self.under_way[(round % 2) as usize]
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_in_progress_began_in_the_last_two_rounds() {
        let rounds = Rounds::default();
        let first = rounds.begin();
        assert!(rounds.next());
        let second = rounds.begin();
        assert!(!rounds.next(), "the first began two rounds ago");
        drop(first);
        assert!(rounds.next());
        assert!(!rounds.next(), "the second began two rounds ago");
        drop(second);
        assert!(rounds.next() && rounds.next());
    }
}
