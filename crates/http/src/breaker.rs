//! Circuit breaker for calls to a peer. After several connection-level failures in a row, no requests are sent for some
//! time. Then one request probes whether the peer is available again.

use std::time::Duration;

use tokio::time::Instant;

use crate::jitter::Jitter;

/// State of a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Requests are sent.
    Closed,
    /// No requests are sent: the peer could not be reached several times in a row.
    Open,
    /// One request probes whether the peer is available again.
    Probing,
}

/// A circuit breaker. It contains no lock and no clock; its user provides both.
#[derive(Debug)]
pub struct Breaker {
    failures_max: u32,
    pause_first: Duration,
    pause_max: Duration,
    state: State,
    /// Number of times that it has opened since the start.
    pub opened: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed { failures: u32 },
    Open { until: Instant, probes_failed: u32 },
    Probing { probes_failed: u32 },
}

/// Permission to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerDecision {
    /// All requests may be sent.
    Free,
    /// One request may be sent, after [`Breaker::begin_probe`].
    Probe,
    /// No request may be sent until this time or, if there is none, until the probe has ended.
    Barred(Option<Instant>),
}

impl Breaker {
    /// Opens after `failures_max` failures in a row, first for about `pause_first`. Each failed probe doubles the
    /// pause, up to `pause_max`.
    pub const fn new(failures_max: u32, pause_first: Duration, pause_max: Duration) -> Self {
        Self { failures_max, pause_first, pause_max, state: State::Closed { failures: 0 }, opened: 0 }
    }

    /// Permission to send at this time.
    pub fn passage(&self, now: Instant) -> BreakerDecision {
        match self.state {
            State::Closed { .. } => BreakerDecision::Free,
            State::Open { until, .. } if now >= until => BreakerDecision::Probe,
            State::Open { until, .. } => BreakerDecision::Barred(Some(until)),
            State::Probing { .. } => BreakerDecision::Barred(None),
        }
    }

    /// Records that the request that [`BreakerDecision::Probe`] allows is being sent.
    pub const fn begin_probe(&mut self) {
        if let State::Open { probes_failed, .. } = self.state {
            self.state = State::Probing { probes_failed };
        }
    }

    /// Records an answer of the peer, whatever its status.
    pub const fn answered(&mut self) {
        self.state = State::Closed { failures: 0 };
    }

    /// Records a request without an answer.
    pub fn failed(&mut self, was_probe: bool, now: Instant, jitter: &mut Jitter) {
        let probes_failed = match &mut self.state {
            State::Closed { failures } => {
                *failures += 1;
                if *failures < self.failures_max {
                    return;
                }
                self.opened += 1;
                0
            }
            State::Probing { probes_failed } if was_probe => probes_failed.saturating_add(1),
            // The request was sent before the breaker opened, so its failure is not new information.
            State::Open { .. } | State::Probing { .. } => return,
        };
        let until = now + jitter.pause(self.pause_first, self.pause_max, probes_failed);
        self.state = State::Open { until, probes_failed };
    }

    /// Records that the probe ended without information about the peer, because it could not be sent. Another probe may
    /// follow.
    pub const fn probe_void(&mut self, now: Instant) {
        if let State::Probing { probes_failed } = self.state {
            self.state = State::Open { until: now, probes_failed };
        }
    }

    /// The state, for display.
    pub const fn state(&self) -> BreakerState {
        match self.state {
            State::Closed { .. } => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::Probing { .. } => BreakerState::Probing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_secs(1);
    const MAX: Duration = Duration::from_secs(8);

    fn until(breaker: &Breaker, now: Instant) -> Instant {
        match breaker.passage(now) {
            BreakerDecision::Barred(Some(until)) => until,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn opens_after_failures_in_a_row_only() {
        let (mut breaker, mut jitter, now) = (Breaker::new(3, FIRST, MAX), Jitter::new(1), Instant::now());
        for _ in 0..5 {
            breaker.failed(false, now, &mut jitter);
            breaker.failed(false, now, &mut jitter);
            breaker.answered();
        }
        assert_eq!(breaker.passage(now), BreakerDecision::Free);
        for _ in 0..3 {
            assert_eq!(breaker.passage(now), BreakerDecision::Free);
            breaker.failed(false, now, &mut jitter);
        }
        assert!(until(&breaker, now) > now);
        assert_eq!((breaker.state(), breaker.opened), (BreakerState::Open, 1));
    }

    #[test]
    fn probes_one_at_a_time_with_growing_pauses_and_closes_on_an_answer() {
        let (mut breaker, mut jitter, mut now) =
            (Breaker::new(1, FIRST, MAX), Jitter::new(1), Instant::now());
        breaker.failed(false, now, &mut jitter);
        for pause_s in [1, 2, 4, 8, 8] {
            let opens = until(&breaker, now);
            let pause = opens - now;
            assert!(
                pause >= Duration::from_secs(pause_s) / 2 && pause <= Duration::from_secs(pause_s),
                "{pause:?}"
            );
            now = opens;
            assert_eq!(breaker.passage(now), BreakerDecision::Probe);
            breaker.begin_probe();
            assert_eq!(breaker.passage(now), BreakerDecision::Barred(None));
            // An attempt that began before does not decide about the probe.
            breaker.failed(false, now, &mut jitter);
            assert_eq!(breaker.state(), BreakerState::Probing);
            breaker.failed(true, now, &mut jitter);
        }
        now = until(&breaker, now);
        breaker.begin_probe();
        breaker.probe_void(now);
        assert_eq!(breaker.passage(now), BreakerDecision::Probe);
        breaker.begin_probe();
        breaker.answered();
        assert_eq!(breaker.passage(now), BreakerDecision::Free);
        assert_eq!(breaker.opened, 1);
    }
}
