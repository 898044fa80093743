//! A lane continues by itself: only its timer and the ends of attempts wake it.

use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::{ITEMS_MAX, config, owed_callback, unreachable};
use crate::lanes::CourierConfig;
use crate::lanes::backlog::Page;
use crate::lanes::lane::core::LaneCore;
use crate::lanes::lane::entry::{Entry, Outcome};

/// The keeper and the slots of a lane in virtual time. They run only when a timer or an attempt ends.
struct Wakes {
    core: LaneCore,
    now: Instant,
    alarm: Option<Instant>,
    in_hand: Vec<(Instant, Entry)>,
    /// Number of attempts so far.
    begun: u64,
    /// Whether an attempt is answered, by its number.
    answers: fn(u64) -> bool,
    parked: usize,
}

impl Wakes {
    /// This many callbacks arrive at a lane that has caught up.
    fn start(config: CourierConfig, seed: u64, count: usize, answers: fn(u64) -> bool) -> Self {
        let (mut core, now) = (LaneCore::new(config, seed), Instant::now());
        let (asked, _) = core.ask().unwrap();
        core.page(asked, Page { items: Vec::new(), more_after: None }, now);
        for seq in 1..=count as u64 {
            core.offer(owed_callback((seq, 0), (seq, 1)), now);
        }
        let mut wakes = Self { core, now, alarm: None, in_hand: Vec::new(), begun: 0, answers, parked: 0 };
        wakes.keep();
        wakes
    }

    fn until_parked(&mut self, count: usize, end: Instant) -> Result<(), TestCaseError> {
        while self.parked < count {
            prop_assert!(self.next(), "{} callbacks wait forever", count - self.parked);
            prop_assert!(self.now <= end, "no task was woken in time");
        }
        Ok(())
    }

    /// Runs the keeper: slots are woken, but take callbacks only after it has set its timer.
    fn keep(&mut self) {
        let keys = self.core.take_loads(16, self.now);
        let loaded = keys.iter().map(|key| owed_callback((key.seq, key.index), (key.seq, 1))).collect();
        self.core.loaded(&keys, loaded, self.now);
        // The keeper itself, which would be woken, is running.
        self.core.actions.wake_keeper = false;
        self.core.at(self.now);
        let has_work = self.core.has_work(self.now);
        self.alarm = self.core.next_time(self.now);
        if has_work {
            self.work();
        }
        self.outside();
    }

    /// Runs the slots.
    fn work(&mut self) {
        while self.in_hand.len() < config().concurrency_max
            && let Some(entry) = self.core.take(self.now)
        {
            // Attempts have different durations, from 0 to 16 ms.
            self.begun += 1;
            let lasts = Duration::from_millis(entry.callback.key.seq * 7 * self.begun % 17);
            self.in_hand.push((self.now + lasts, entry));
        }
    }

    fn outside(&mut self) {
        let actions = self.core.actions();
        self.parked += actions.parked.len();
        if actions.wake_keeper {
            self.keep();
        }
    }

    /// The next event that happens by itself; false if there will be none.
    fn next(&mut self) -> bool {
        let ended = self.in_hand.iter().map(|(at, _)| *at).min();
        let Some(next) = ended.into_iter().chain(self.alarm).min() else { return false };
        self.now = self.now.max(next);
        match self.in_hand.iter().position(|(at, _)| *at <= self.now) {
            Some(index) => {
                let (_, entry) = self.in_hand.swap_remove(index);
                let outcome =
                    if (self.answers)(self.begun) { Outcome::refused("answered 500") } else { unreachable() };
                self.core.finish(entry, outcome, self.now);
                self.work();
                self.outside();
            }
            None => self.keep(),
        }
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lane_always_wakes_for_the_next_repetition(seed in any::<u64>(), count in 1..=ITEMS_MAX) {
        // New callbacks are not held back here.
        let config = CourierConfig { retrying_max: ITEMS_MAX, breaker_threshold: 1_000, ..config() };
        // A first attempt may wait for a slot, and a last one may begin just before the deadline.
        let longest = config.deadline + Duration::from_millis(100);
        let mut wakes = Wakes::start(config, seed, count, |_| true);
        wakes.until_parked(count, wakes.now + longest)?;
    }

    /// New callbacks are then begun one by one, each perhaps only when the previous one is parked.
    #[test]
    fn a_task_is_always_woken_after_a_pause(
        seed in any::<u64>(),
        count in 1..=ITEMS_MAX,
        breaker_threshold in 1..4_u32,
        answers in prop::sample::select(vec![
            (|_| true) as fn(u64) -> bool, |_| false, |begun| begun % 2 == 0, |begun| begun % 5 == 0,
        ]),
    ) {
        let config = CourierConfig { breaker_threshold, ..config() };
        let each = config.deadline + 2 * config.breaker_pause_max;
        let mut wakes = Wakes::start(config, seed, count, answers);
        wakes.until_parked(count, wakes.now + each * count as u32)?;
    }
}
