//! The hub's time while the clocks of the machine differ.

use std::sync::atomic::AtomicI64;

use super::*;

/// Both clocks in milliseconds, as a test sets them.
#[derive(Default)]
struct Clocks {
    wall: AtomicI64,
    monotonic: AtomicI64,
}

impl Clock for Clocks {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.wall.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.monotonic.load(Ordering::Relaxed).unsigned_abs())
    }
}

const START_MS: i64 = 1_932_811_200_000;
const BOUND: Duration = Duration::from_secs(5);
const DAY_MS: i64 = 86_400_000;

impl Clocks {
    fn pass(&self, ms: i64) {
        self.monotonic.fetch_add(ms, Ordering::Relaxed);
        self.jump(ms);
    }

    fn jump(&self, ms: i64) {
        self.wall.fetch_add(ms, Ordering::Relaxed);
    }
}

fn guarded() -> (Arc<Clocks>, GuardedClock) {
    let clocks = Arc::new(Clocks::default());
    clocks.pass(7_000);
    clocks.jump(START_MS - 7_000);
    let clock = GuardedClock::new(Arc::clone(&clocks) as _, BOUND);
    (clocks, clock)
}

fn since_start(clock: &GuardedClock) -> i64 {
    clock.now().ms_since(Timestamp::from_ms(START_MS))
}

fn state(jump_ms: i64, ahead_ms: i64) -> ClockState {
    ClockState { jump_ms, ahead_ms }
}

#[test]
fn clock_jump_is_followed_only_within_the_limit() {
    for (jump, followed) in [
        (0, true),
        (1, true),
        (-1, true),
        (5_000, true),
        (-5_000, true),
        (5_001, false),
        (-5_001, false),
        (DAY_MS, false),
        (-DAY_MS, false),
    ] {
        let (clocks, clock) = guarded();
        clocks.pass(1_000);
        clocks.jump(jump);
        assert_eq!(since_start(&clock), 1_000, "no jump is followed before the clocks are compared");
        let found = clock.compare(Timestamp::EPOCH);
        assert_eq!(found, state(if followed { 0 } else { jump }, 0), "{jump}");
        clocks.pass(2_000);
        assert_eq!(since_start(&clock), 3_000 + if followed { jump } else { 0 }, "{jump}");
    }
}

#[test]
fn clock_that_jumps_back_is_followed_again() {
    for jump in [DAY_MS, -DAY_MS] {
        let (clocks, clock) = guarded();
        clocks.jump(jump);
        assert_eq!(clock.compare(Timestamp::EPOCH), state(jump, 0));
        clocks.pass(300);
        clocks.jump(20 - jump);
        assert_eq!(clock.compare(Timestamp::EPOCH), ClockState::default());
        assert_eq!(since_start(&clock), 320);
    }
}

#[test]
fn small_steps_add_up_and_a_late_comparison_is_not_a_jump() {
    let (clocks, clock) = guarded();
    for _ in 0..10 {
        clocks.pass(100);
        clocks.jump(4_000);
        assert!(clock.compare(Timestamp::EPOCH).is_good());
    }
    assert_eq!(since_start(&clock), 41_000);
    clocks.pass(DAY_MS);
    assert!(clock.compare(Timestamp::EPOCH).is_good(), "a delayed engine is not a jump");
    assert_eq!(since_start(&clock), 41_000 + DAY_MS);
}

#[test]
fn accepted_jump_changes_the_time() {
    for jump in [DAY_MS, -DAY_MS] {
        let (clocks, clock) = guarded();
        clocks.jump(jump);
        clock.compare(Timestamp::EPOCH);
        clocks.pass(50);
        clock.accept();
        assert_eq!((since_start(&clock), clock.state()), (50 + jump, ClockState::default()));
        clocks.jump(-jump);
        assert_eq!(clock.compare(Timestamp::EPOCH), state(-jump, 0), "back is a jump, too");
    }
}

#[test]
fn present_spans_the_range_between_the_clocks() {
    let (clocks, clock) = guarded();
    let at = |ms| Timestamp::from_ms(START_MS + ms);
    assert_eq!(clock.present(), Present::from(at(0)));
    clocks.jump(DAY_MS);
    clock.compare(Timestamp::EPOCH);
    clocks.pass(10);
    assert_eq!(clock.present(), Present { at: at(10), earliest: at(10), latest: at(10 + DAY_MS) });
    clocks.jump(-2 * DAY_MS);
    clock.compare(Timestamp::EPOCH);
    assert_eq!(clock.present(), Present { at: at(10), earliest: at(10 - DAY_MS), latest: at(10) });
}

#[test]
fn records_ahead_of_the_clock_are_reported_beyond_the_bound() {
    let (clocks, clock) = guarded();
    let last = Timestamp::from_ms(START_MS + DAY_MS);
    assert_eq!(clock.compare(last), state(0, DAY_MS));
    assert_eq!(since_start(&clock), 0);
    clocks.pass(DAY_MS - 5_000);
    assert_eq!(clock.compare(last), ClockState::default());
}

#[test]
fn extreme_years_are_handled() {
    for wall in [i64::MIN / 2_000_000, -1, 0, i64::MAX / 1_000_000, i64::MAX] {
        let clocks = Arc::new(Clocks::default());
        clocks.jump(wall);
        let clock = GuardedClock::new(Arc::clone(&clocks) as _, BOUND);
        clocks.pass(1_000);
        let now = clock.now();
        assert!(now >= Timestamp::EPOCH && now <= LATEST, "{wall}: {now}");
        clock.compare(Timestamp::MAX);
        clock.compare(Timestamp::from_ns(i64::MIN));
        clock.accept();
        let present = clock.present();
        assert!(present.earliest <= present.at && present.at <= present.latest, "{wall}");
    }
    assert_eq!(LATEST.to_string(), "2162-09-01T08:53:20.000Z");
}

#[test]
fn faults_are_described_in_words() {
    assert_eq!(ClockState::default().fault(), None);
    assert!(ClockState::default().is_good());
    for (state, part) in [
        (state(86_400_250, 0), "the wall clock jumped 86400.250 s ahead"),
        (state(-5_001, 0), "the wall clock jumped 5.001 s back"),
        (state(0, 7_000), "the journal's time is 7.000 s ahead of the clock"),
    ] {
        assert!(state.fault().unwrap().starts_with(part), "{:?}", state.fault());
        assert!(!state.is_good(), "{part}");
    }
    assert!(state(1, 1).fault().unwrap().contains("; the journal's time"));
}

#[test]
fn monotonic_time_comes_from_the_source() {
    /// A machine with only one clock, which is never set.
    struct Single;
    impl Clock for Single {
        fn now(&self) -> Timestamp {
            Timestamp::from_ms(START_MS)
        }
    }
    let (clocks, clock) = guarded();
    clocks.pass(20);
    clocks.jump(DAY_MS);
    assert_eq!(clock.monotonic(), Duration::from_millis(7_020));
    assert_eq!(Single.monotonic(), Duration::from_millis(START_MS.unsigned_abs()));
}

#[test]
fn system_monotonic_clock_advances() {
    assert!((0..10_000_000).any(|_| SystemClock.monotonic() > Duration::ZERO));
}

#[test]
fn system_wall_clock_is_the_operating_systems() {
    let wall = || i64::try_from(UNIX_EPOCH.elapsed().unwrap().as_nanos()).unwrap();
    // Unless it is set at exactly that moment.
    let is_between = |_| {
        let (before, now, after) = (wall(), SystemClock.now().as_ns(), wall());
        before <= now && now <= after
    };
    assert!((0..100).any(is_between));
}
