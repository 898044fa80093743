//! Detects stalled clients: the brokers answer, but nothing is read or acknowledged.
//!
//! After the partition's leader has changed twice, librdkafka may contact a broker that is not the leader, without
//! reporting the errors (confluentinc/librdkafka#5593). A leader writes several times a second, so silence is
//! suspicious.

use std::time::{Duration, Instant};

/// Time without an entry, or since an attempt failed, after which the end of the log is checked; also the interval of
/// further checks.
const LOOK_AFTER: Duration = Duration::from_secs(2);
/// Time after which failing attempts are not just an outage that has ended meanwhile.
const FAILS_FOR: Duration = Duration::from_secs(4);

/// The clients to replace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Renewal {
    pub consumer: bool,
    pub producer: bool,
}

/// Times of entries and of failed attempts.
#[derive(Debug)]
pub(crate) struct ReadHealth {
    /// Time of the last entry, or of the start of waiting.
    read_at: Instant,
    /// Time since which attempts have failed; `None` after a success.
    failing_since: Option<Instant>,
    looked_at: Instant,
    /// Whether the previous check found entries that have not arrived since.
    was_behind: bool,
}

impl ReadHealth {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { read_at: now, failing_since: None, looked_at: now, was_behind: false }
    }

    /// Records an entry, or the start of waiting for entries.
    pub(crate) const fn read(&mut self, now: Instant) {
        (self.read_at, self.was_behind) = (now, false);
    }

    pub(crate) const fn acknowledged(&mut self) {
        self.failing_since = None;
    }

    pub(crate) fn failed(&mut self, now: Instant) {
        self.failing_since.get_or_insert(now);
    }

    /// Whether to check the end of the log. `reads`: whether this node reads entries.
    pub(crate) fn is_look_due(&self, reads: bool, now: Instant) -> bool {
        let is_past = |since: Instant| now.saturating_duration_since(since) >= LOOK_AFTER;
        is_past(self.looked_at)
            && ((reads && is_past(self.read_at)) || self.failing_since.is_some_and(is_past))
    }

    /// Evaluates a check: the log ends before `end`; `None` if it could not be reached, which says nothing.
    /// `next_offset`: the entry that this node reads next, if it reads.
    ///
    /// A consumer is stalled if two checks find entries that do not arrive. A producer is stalled if its attempts fail
    /// although the log is reachable.
    pub(crate) fn looked(&mut self, end: Option<u64>, next_offset: Option<u64>, now: Instant) -> Renewal {
        self.looked_at = now;
        let Some(end) = end else {
            self.was_behind = false;
            return Renewal::default();
        };
        let is_quiet = now.saturating_duration_since(self.read_at) >= LOOK_AFTER;
        let is_behind = is_quiet && next_offset.is_some_and(|next| next < end);
        let consumer = is_behind && self.was_behind;
        self.was_behind = is_behind && !consumer;
        let fails = self.failing_since.is_some_and(|since| now.saturating_duration_since(since) >= FAILS_FOR);
        if fails {
            self.failing_since = None;
        }
        Renewal { consumer, producer: fails }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens, at a number of milliseconds.
    enum Step {
        Read,
        Acknowledged,
        Failed,
        /// A look is not due.
        NotDue,
        /// A look is due and finds this end; whether consumer and producer are stalled.
        Look(Option<u64>, bool, bool),
    }
    use Step::{Acknowledged, Failed, Look, NotDue, Read};

    fn walk(name: &str, next_offset: Option<u64>, steps: &[(u64, Step)]) {
        let start = Instant::now();
        let mut watch = ReadHealth::new(start);
        for (ms, step) in steps {
            let now = start + Duration::from_millis(*ms);
            let is_due = watch.is_look_due(next_offset.is_some(), now);
            match step {
                Read => watch.read(now),
                Acknowledged => watch.acknowledged(),
                Failed => watch.failed(now),
                NotDue => assert!(!is_due, "{name}: a look at {ms} ms"),
                Look(end, consumer, producer) => {
                    assert!(is_due, "{name}: no look at {ms} ms");
                    let found = watch.looked(*end, next_offset, now);
                    let expected = Renewal { consumer: *consumer, producer: *producer };
                    assert_eq!(found, expected, "{name}: at {ms} ms");
                }
            }
        }
    }

    #[test]
    fn stalled_clients_are_detected() {
        walk("entries come", Some(5), &[(1_900, Read), (2_100, NotDue), (3_800, Read), (4_000, NotDue)]);
        walk(
            "nothing to read",
            Some(5),
            &[(2_000, Look(Some(5), false, false)), (3_900, NotDue), (4_000, Look(Some(5), false, false))],
        );
        walk(
            "entries do not come",
            Some(5),
            &[
                (2_000, Look(Some(6), false, false)),
                (4_000, Look(Some(6), true, false)),
                // Another consumer gets the same time.
                (6_000, Look(Some(6), false, false)),
                (8_000, Look(Some(6), true, false)),
            ],
        );
        walk(
            "one came in between",
            Some(5),
            &[
                (2_000, Look(Some(6), false, false)),
                (3_000, Read),
                (5_000, Look(Some(7), false, false)),
                (7_000, Look(Some(7), true, false)),
            ],
        );
        walk(
            "brokers are away",
            Some(5),
            &[
                (2_000, Look(Some(6), false, false)),
                (4_000, Look(None, false, false)),
                (6_000, Look(Some(6), false, false)),
                (8_000, Look(Some(6), true, false)),
            ],
        );
        walk(
            "nothing is acknowledged",
            None,
            &[
                (1_000, NotDue),
                (3_000, Failed),
                (4_900, NotDue),
                (5_000, Look(Some(6), false, false)),
                (6_500, Failed),
                (7_000, Look(Some(6), false, true)),
                (9_500, NotDue),
                (10_000, Failed),
                (12_000, Look(Some(6), false, false)),
            ],
        );
        walk("one was acknowledged", None, &[(3_000, Failed), (4_000, Acknowledged), (9_000, NotDue)]);
        walk("no consumer reads", None, &[(9_000, NotDue)]);
        walk(
            "nothing is taken while the brokers are away",
            None,
            &[(3_000, Failed), (9_000, Look(None, false, false))],
        );
    }
}
