//! Whether a lane that nobody looks at goes on by itself: its alarm and the ends of attempts are all that wakes it.

use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::{ITEMS_MAX, config, owed_callback};
use crate::lanes::CourierConfig;
use crate::lanes::backlog::Page;
use crate::lanes::lane::core::Core;
use crate::lanes::lane::entry::{Entry, Outcome};

/// The keeper and the slots of a lane in virtual time. Nobody looks at the lane but when an alarm or an attempt ends.
struct Wakes {
    core: Core,
    now: Instant,
    alarm: Option<Instant>,
    in_hand: Vec<(Instant, Entry)>,
    /// Attempts so far.
    begun: u64,
    parked: usize,
}

impl Wakes {
    /// As the keeper does: slots are woken, but take only after it has set its alarm.
    fn keep(&mut self) {
        let keys = self.core.take_loads(16, self.now);
        let loaded = keys.iter().map(|key| owed_callback((key.seq, key.index), (key.seq, 1))).collect();
        self.core.loaded(&keys, loaded, self.now);
        // This is who would be woken.
        self.core.actions.wake_keeper = false;
        self.core.at(self.now);
        let has_work = self.core.has_work(self.now);
        self.alarm = self.core.next_time(self.now);
        if has_work {
            self.work();
        }
        self.outside();
    }

    /// As the slots do.
    fn work(&mut self) {
        while self.in_hand.len() < config().concurrency_max
            && let Some(entry) = self.core.take(self.now)
        {
            // Attempts last differently long: from 0 to 16 ms.
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

    /// The next thing that happens by itself; false when nothing ever will.
    fn next(&mut self) -> bool {
        let ended = self.in_hand.iter().map(|(at, _)| *at).min();
        let Some(next) = ended.into_iter().chain(self.alarm).min() else { return false };
        self.now = self.now.max(next);
        match self.in_hand.iter().position(|(at, _)| *at <= self.now) {
            Some(index) => {
                let (_, entry) = self.in_hand.swap_remove(index);
                self.core.finish(entry, Outcome::refused("answered 500"), self.now);
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
    fn somebody_always_wakes_for_what_is_to_be_repeated(seed in any::<u64>(), count in 1..=ITEMS_MAX) {
        // New ones are not held back here.
        let config = CourierConfig { retrying_max: ITEMS_MAX, breaker_threshold: 1_000, ..config() };
        let deadline = config.deadline;
        let mut core = Core::new(config, seed);
        let (asked, _) = core.ask().unwrap();
        let start = Instant::now();
        core.page(asked, Page { items: Vec::new(), more_after: None }, start);
        for seq in 1..=count as u64 {
            core.offer(owed_callback((seq, 0), (seq, 1)), start);
        }
        let mut wakes = Wakes { core, now: start, alarm: None, in_hand: Vec::new(), begun: 0, parked: 0 };
        wakes.keep();
        while wakes.parked < count {
            prop_assert!(wakes.next(), "{} callbacks wait for ever", count - wakes.parked);
            // A first attempt may have to wait for a slot, and a last one may begin just before the deadline.
            prop_assert!(wakes.now <= start + deadline + Duration::from_millis(100), "nobody woke in time");
        }
    }
}
