//! Keeps a schedule: the thread that calls [`pace`] sleeps until each arrival is due, in two steps, and spins for the
//! last microseconds.
//!
//! It must be a separate thread, because runtimes have a resolution of milliseconds. The kernel may end a sleep late by
//! the thread's timer slack, usually 50 µs, so the slack is set to the minimum. After a long sleep, a thread wakes up
//! late if its core runs another thread. So it wakes a little early, and a second, short sleep takes the rest of the
//! time.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// Time between the end of the long sleep and the due time. The sleep may end late by this much without harm.
const EARLY: Duration = Duration::from_micros(250);
/// Maximum time between the end of the short sleep and the due time ...
const AWAKE_MAX: Duration = Duration::from_micros(20);
/// ... and its part of the time since the previous arrival, so that spinning uses the same part of a core at every
/// rate.
const AWAKE_PART: u32 = 50;
/// The kernel's value for "no slack" is one nanosecond, because 0 selects the default.
const SLACK_NS: NonZeroU64 = NonZeroU64::MIN;

/// The action until an arrival is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacerWait {
    Sleep(Duration),
    /// Check again at once.
    Awake,
    Over,
}

/// The action for the remaining time. The last part of it, at most `awake`, is spent spinning.
fn wait(left: Duration, awake: Duration) -> PacerWait {
    if left.is_zero() {
        PacerWait::Over
    } else if left <= awake {
        PacerWait::Awake
    } else if left <= EARLY + awake {
        PacerWait::Sleep(left - awake)
    } else {
        PacerWait::Sleep(left - EARLY)
    }
}

/// The clock that the schedule needs.
trait Clock {
    fn now(&self) -> Instant;
    /// Sleeps for at least this time.
    fn sleep(&self, time: Duration);
    /// Lets a moment pass without yielding the core.
    fn spin(&self);
}

/// The machine's time, on a thread without timer slack.
struct System;

impl System {
    /// Removes the slack from the timers of this thread. If the kernel rejects this, arrivals are later by the slack.
    fn precise() -> Self {
        if let Err(error) = rustix::thread::set_current_timer_slack(Some(SLACK_NS)) {
            tracing::debug!(%error, "the timers of the schedule's thread keep their slack");
        }
        Self
    }
}

impl Clock for System {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn spin(&self) {
        std::hint::spin_loop();
    }
}

/// Calls `send` with each due time when it is reached, until the next due time is `until` or later. The arrivals count
/// from `from`. Late arrivals are not skipped: all overdue ones are sent at once.
pub(crate) fn pace(
    arrivals: impl Iterator<Item = Duration>,
    from: Instant,
    until: Instant,
    send: impl FnMut(Instant),
) {
    pace_by(&System::precise(), arrivals, from, until, send);
}

fn pace_by(
    clock: &impl Clock,
    arrivals: impl Iterator<Item = Duration>,
    from: Instant,
    until: Instant,
    mut send: impl FnMut(Instant),
) {
    let mut before = Duration::ZERO;
    for due in arrivals {
        let intended = from + due;
        if intended >= until {
            return;
        }
        let awake = AWAKE_MAX.min(due.saturating_sub(before) / AWAKE_PART);
        before = due;
        loop {
            match wait(intended.saturating_duration_since(clock.now()), awake) {
                PacerWait::Sleep(time) => clock.sleep(time),
                PacerWait::Awake => clock.spin(),
                PacerWait::Over => break,
            }
        }
        send(intended);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::drive::schedule::arrivals;
    use crate::plan::load_profile::Load;

    /// Duration of one spin in this test.
    const TURN: Duration = Duration::from_nanos(500);

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    /// The delay of a sleep's end, by its number from 1 and its length.
    type Late = Box<dyn Fn(u64, Duration) -> Duration>;

    /// Time that passes only by waiting.
    struct Fake {
        now: Cell<Instant>,
        late: Late,
        sleeps: Cell<u64>,
        awake: Cell<Duration>,
    }

    impl Fake {
        fn new(late: impl Fn(u64, Duration) -> Duration + 'static) -> Self {
            Self {
                now: Cell::new(Instant::now()),
                late: Box::new(late),
                sleeps: Cell::new(0),
                awake: Cell::new(Duration::ZERO),
            }
        }
    }

    impl Clock for Fake {
        fn now(&self) -> Instant {
            self.now.get()
        }

        fn sleep(&self, time: Duration) {
            self.sleeps.set(self.sleeps.get() + 1);
            let late = (self.late)(self.sleeps.get(), time);
            self.now.set(self.now.get() + time + late);
        }

        fn spin(&self) {
            self.awake.set(self.awake.get() + TURN);
            self.now.set(self.now.get() + TURN);
        }
    }

    /// The due time of each arrival of a second, and its delay.
    fn kept(clock: &Fake, load: &Load) -> Vec<(Duration, Duration)> {
        let from = clock.now();
        let mut sent = Vec::new();
        let arrivals = arrivals(load, 7).into_iter().flatten();
        pace_by(clock, arrivals, from, from + Duration::from_secs(1), |intended| {
            assert!(clock.now() >= intended, "{:?} was sent early", intended - from);
            sent.push((intended - from, clock.now() - intended));
        });
        sent
    }

    fn open(rate_per_s: u32) -> Load {
        Load::Open { rate_per_s, outstanding_max: 1 }
    }

    #[test]
    fn pacer_sleeps_until_shortly_before_the_due_time_and_spins() {
        for (left, awake, expected) in [
            (0, 20, PacerWait::Over),
            (1, 20, PacerWait::Awake),
            (20, 20, PacerWait::Awake),
            (120, 20, PacerWait::Sleep(us(100))),
            (270, 20, PacerWait::Sleep(us(250))),
            (1_000, 20, PacerWait::Sleep(us(750))),
            (12, 2, PacerWait::Sleep(us(10))),
            (1, 0, PacerWait::Sleep(us(1))),
        ] {
            assert_eq!(wait(us(left), us(awake)), expected, "{left} µs left, {awake} awake");
        }
    }

    #[test]
    fn sleep_that_ends_late_within_its_margin_delays_nothing() {
        for late_us in [0, 10, 100, 240] {
            // The long one of two sleeps.
            let late = move |_, time| if time > EARLY { us(late_us) } else { Duration::ZERO };
            let clock = Fake::new(late);
            let sent = kept(&clock, &open(1_000));
            assert_eq!(sent.len(), 1_000);
            for (number, (due, late)) in sent.into_iter().enumerate() {
                assert_eq!(due, us(1_000) * number as u32);
                assert!(late <= TURN, "arrival {number} is {late:?} late where sleeps are {late_us} µs");
            }
        }
    }

    #[test]
    fn spinning_is_bounded_at_every_rate() {
        let fiftieth = Duration::from_secs(1) / AWAKE_PART;
        for rate_per_s in [100, 1_000, 10_000, 200_000] {
            let clock = Fake::new(|_, _| Duration::ZERO);
            let sent = kept(&clock, &open(rate_per_s));
            assert_eq!(sent.len(), rate_per_s as usize);
            let (awake, turns) = (clock.awake.get(), TURN * rate_per_s);
            assert!(awake <= fiftieth.min(AWAKE_MAX * rate_per_s) + turns, "{awake:?} at {rate_per_s}/s");
            assert!(clock.sleeps.get() <= 2 * u64::from(rate_per_s), "two sleeps at most");
        }
    }

    #[test]
    fn overdue_arrivals_are_sent_at_once_without_moving_the_schedule() {
        // The tenth sleep ends 3.5 ms late, as if a host took the core away.
        let clock = Fake::new(|number, _| if number == 10 { us(3_500) } else { Duration::ZERO });
        let sent = kept(&clock, &open(1_000));
        assert_eq!(sent.len(), 1_000);
        assert!(sent.is_sorted_by_key(|(due, _)| *due));
        let late = sent.iter().filter(|(_, late)| *late > TURN).count();
        assert_eq!(late, 4, "the arrivals that were due meanwhile");
        assert!(sent.last().is_some_and(|(_, late)| *late <= TURN));
    }

    #[test]
    fn random_arrivals_are_not_sent_early() {
        let load =
            Load::Arrivals { start_per_s: 5_000, stages: Vec::new(), poisson: true, outstanding_max: 1 };
        let clock = Fake::new(|number, _| us(upesi_sim::mix(number) % 300));
        let sent = kept(&clock, &load);
        let due: Vec<Duration> = sent.iter().map(|(due, _)| *due).collect();
        let second = Duration::from_secs(1);
        let planned: Vec<_> = arrivals(&load, 7).unwrap().take_while(|due| *due < second).collect();
        assert_eq!(due, planned, "every arrival, once, whatever the sleeps");
    }
}
