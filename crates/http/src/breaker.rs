//! The circuit breaker of whoever calls a peer: after several connection-level failures in a row nothing is sent for a
//! while, then one request probes whether the peer is back.

use std::time::Duration;

use tokio::time::Instant;

/// Whether requests go to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// They do.
    Closed,
    /// They do not: the peer could not be reached several times in a row.
    Open,
    /// One request tries whether the peer is back.
    Probing,
}

/// A circuit breaker. It holds no lock and no clock: its user does.
#[derive(Debug)]
pub struct Breaker {
    failures_max: u32,
    pause_first: Duration,
    pause_max: Duration,
    state: State,
    /// Times it has opened since the start.
    pub opened: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed { failures: u32 },
    Open { until: Instant, probes_failed: u32 },
    Probing { probes_failed: u32 },
}

/// What may be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// Anything.
    Free,
    /// One request, to be begun with [`Breaker::begin_probe`].
    Probe,
    /// Nothing until then, or until the probe has ended where there is no time.
    Barred(Option<Instant>),
}

impl Breaker {
    /// Opens after `failures_max` failures in a row, first for about `pause_first`; each probe that fails doubles the
    /// pause up to `pause_max`.
    pub const fn new(failures_max: u32, pause_first: Duration, pause_max: Duration) -> Self {
        Self { failures_max, pause_first, pause_max, state: State::Closed { failures: 0 }, opened: 0 }
    }

    /// What may be sent now.
    pub fn passage(&self, now: Instant) -> Passage {
        match self.state {
            State::Closed { .. } => Passage::Free,
            State::Open { until, .. } if now >= until => Passage::Probe,
            State::Open { until, .. } => Passage::Barred(Some(until)),
            State::Probing { .. } => Passage::Barred(None),
        }
    }

    /// The one request that [`Passage::Probe`] allows is being sent.
    pub const fn begin_probe(&mut self) {
        if let State::Open { probes_failed, .. } = self.state {
            self.state = State::Probing { probes_failed };
        }
    }

    /// The peer answered, whatever it said: it is there.
    pub const fn answered(&mut self) {
        self.state = State::Closed { failures: 0 };
    }

    /// A request got no answer.
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
            // Sent before it opened: says nothing new.
            State::Open { .. } | State::Probing { .. } => return,
        };
        let until = now + jitter.pause(self.pause_first, self.pause_max, probes_failed);
        self.state = State::Open { until, probes_failed };
    }

    /// The probe ended without saying anything about the peer (it could not be sent at all): another may follow.
    pub const fn probe_void(&mut self, now: Instant) {
        if let State::Probing { probes_failed } = self.state {
            self.state = State::Open { until: now, probes_failed };
        }
    }

    /// Its state, for display.
    pub const fn state(&self) -> BreakerState {
        match self.state {
            State::Closed { .. } => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::Probing { .. } => BreakerState::Probing,
        }
    }
}

// Waits that double, with full jitter: anything between nothing and the upper end, so that requests that failed
// together are not repeated together.

/// A small seeded generator (SplitMix64): good enough to spread waits, and the same seed gives the same waits.
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Jitter {
    /// From a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A wait between a millisecond and `first` doubled `doublings` times, `max` at most.
    pub fn wait(&mut self, first: Duration, max: Duration, doublings: u32) -> Duration {
        let upper = upper_end(first, max, doublings);
        let upper_us = u64::try_from(upper.as_micros()).unwrap_or(u64::MAX).max(1);
        Duration::from_micros(self.next() % upper_us).max(Duration::from_millis(1))
    }

    /// Like [`Self::wait`] but at least half of the upper end: a pause that must be one.
    pub fn pause(&mut self, first: Duration, max: Duration, doublings: u32) -> Duration {
        let half = upper_end(first, max, doublings) / 2;
        half + self.wait(half, half, 0)
    }
}

fn upper_end(first: Duration, max: Duration, doublings: u32) -> Duration {
    1_u32
        .checked_shl(doublings)
        .and_then(|factor| first.checked_mul(factor))
        .map_or(max, |doubled| doubled.min(max))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_secs(1);
    const MAX: Duration = Duration::from_secs(8);

    fn until(breaker: &Breaker, now: Instant) -> Instant {
        match breaker.passage(now) {
            Passage::Barred(Some(until)) => until,
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
        assert_eq!(breaker.passage(now), Passage::Free);
        for _ in 0..3 {
            assert_eq!(breaker.passage(now), Passage::Free);
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
            assert_eq!(breaker.passage(now), Passage::Probe);
            breaker.begin_probe();
            assert_eq!(breaker.passage(now), Passage::Barred(None));
            // One that was sent before is no verdict on the probe.
            breaker.failed(false, now, &mut jitter);
            assert_eq!(breaker.state(), BreakerState::Probing);
            breaker.failed(true, now, &mut jitter);
        }
        now = until(&breaker, now);
        breaker.begin_probe();
        breaker.probe_void(now);
        assert_eq!(breaker.passage(now), Passage::Probe);
        breaker.begin_probe();
        breaker.answered();
        assert_eq!(breaker.passage(now), Passage::Free);
        assert_eq!(breaker.opened, 1);
    }

    const WAIT_FIRST: Duration = Duration::from_millis(100);
    const WAIT_MAX: Duration = Duration::from_secs(5);

    #[test]
    fn waits_stay_within_their_doubling_bounds_and_spread() {
        let mut jitter = Jitter::new(7);
        for (doublings, upper_ms) in
            [(0, 100), (1, 200), (3, 800), (6, 5000), (31, 5000), (32, 5000), (1000, 5000)]
        {
            let upper = Duration::from_millis(upper_ms);
            let waits: Vec<_> = (0..1000).map(|_| jitter.wait(WAIT_FIRST, WAIT_MAX, doublings)).collect();
            assert!(
                waits.iter().all(|wait| (Duration::from_millis(1)..=upper).contains(wait)),
                "{doublings}"
            );
            assert!(waits.iter().any(|wait| *wait < upper / 4), "{doublings}");
            assert!(waits.iter().any(|wait| *wait > upper / 4 * 3), "{doublings}");
            let pause = jitter.pause(WAIT_FIRST, WAIT_MAX, doublings);
            assert!((upper / 2..=upper).contains(&pause), "{doublings}: {pause:?}");
        }
    }

    #[test]
    fn a_seed_repeats_its_waits() {
        let waits = |seed| {
            let mut jitter = Jitter::new(seed);
            (0..20).map(|doublings| jitter.wait(WAIT_FIRST, WAIT_MAX, doublings)).collect::<Vec<_>>()
        };
        assert_eq!(waits(1), waits(1));
        assert_ne!(waits(1), waits(2));
    }
}
