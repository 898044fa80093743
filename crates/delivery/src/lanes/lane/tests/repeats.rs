//! Callbacks that wait for a retry, against a plain list.

use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;
use upesi_ledger::CallbackKey;

use super::{key, owed_callback};
use crate::lanes::lane::entry::{AttemptHistory, Entry};
use crate::lanes::lane::repeats::{Repeats, UnloadedCallback};

const ITEMS_MAX: usize = 3;
const BYTES_MAX: usize = 12;

#[derive(Clone, Debug)]
enum Step {
    /// Times in ms until it is due and until it is parked, size, and number of attempts.
    Insert(u64, u64, usize, u32),
    Excess,
    TakeAway(usize),
    Load(bool),
    TakeDue,
    TakeOldest,
    TakeLate,
    Time(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let insert = (0..20_u64, 0..30_u64, 1..8_usize, 1..4_u32);
    let step = prop_oneof![
        6 => insert.prop_map(|(due, deadline, bytes, attempts)| Step::Insert(due, deadline, bytes, attempts)),
        3 => Just(Step::Excess),
        2 => (0..4_usize).prop_map(Step::TakeAway),
        2 => any::<bool>().prop_map(Step::Load),
        2 => Just(Step::TakeDue),
        1 => Just(Step::TakeOldest),
        1 => Just(Step::TakeLate),
        3 => (0..6_u64).prop_map(Step::Time),
    ];
    prop::collection::vec(step, 0..80)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Here,
    Away,
    /// Removed to be loaded.
    Loading,
    Loaded,
}

#[derive(Clone, Copy, Debug)]
struct Listed {
    seq: u64,
    due: Instant,
    deadline: Instant,
    bytes: usize,
    attempts: u32,
    place: Place,
}

struct World {
    repeats: Repeats,
    now: Instant,
    next_seq: u64,
    /// Loaded callbacks return in the order of their loading.
    list: Vec<Listed>,
    loading: Vec<(CallbackKey, UnloadedCallback)>,
}

impl World {
    fn at(&self, place: Place) -> Vec<Listed> {
        self.list.iter().filter(|one| one.place == place).copied().collect()
    }

    /// The due callbacks of a place, in order.
    fn due(&self, place: Place) -> Vec<Listed> {
        let mut due = self.at(place);
        due.retain(|one| one.due <= self.now);
        due.sort_by_key(|one| (one.due, one.seq));
        due
    }

    /// Removes a callback from the list, if there is one.
    fn gone(&mut self, expected: Option<Listed>, found: Option<&Entry>) {
        assert_eq!(found.map(|entry| entry.callback.key.seq), expected.map(|one| one.seq));
        self.list.retain(|one| expected.is_none_or(|expected| one.seq != expected.seq));
    }

    fn move_to(&mut self, seq: u64, place: Place) {
        let index = self.list.iter().position(|one| one.seq == seq).unwrap();
        let one = self.list.remove(index);
        self.list.push(Listed { place, ..one });
    }

    fn tries(one: &Listed) -> AttemptHistory {
        AttemptHistory {
            attempts: one.attempts,
            deadline: Some(one.deadline),
            ..AttemptHistory::none(one.due)
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Insert(due, deadline, bytes, attempts) => {
                let after = |ms| self.now + Duration::from_millis(ms);
                let (seq, due) = (self.next_seq, after(due).min(after(deadline)));
                let one = Listed { seq, due, deadline: after(deadline), bytes, attempts, place: Place::Here };
                let callback = owed_callback((seq, 0), (seq, bytes));
                self.repeats.insert(due, Entry::new(callback, Self::tries(&one)));
                self.list.push(one);
                self.next_seq += 1;
            }
            Step::Excess => self.excess(),
            Step::TakeAway(items_max) => {
                let mut expected: Vec<_> = self.due(Place::Away).iter().map(|one| one.seq).collect();
                expected.truncate(items_max.saturating_sub(self.at(Place::Loaded).len()));
                let taken = self.repeats.take_away(self.now, items_max);
                assert_eq!(taken.iter().map(|(key, _)| key.seq).collect::<Vec<_>>(), expected);
                expected.into_iter().for_each(|seq| self.move_to(seq, Place::Loading));
                self.loading.extend(taken);
            }
            Step::Load(can_be_read) => {
                for (key, away) in std::mem::take(&mut self.loading) {
                    if can_be_read {
                        let bytes = self.list.iter().find(|one| one.seq == key.seq).unwrap().bytes;
                        let callback = owed_callback((key.seq, 0), (key.seq, bytes));
                        self.repeats.come_back(Entry::new(callback, away.tries));
                    } else {
                        self.repeats.put_away(key, away);
                    }
                    self.move_to(key.seq, if can_be_read { Place::Loaded } else { Place::Away });
                }
            }
            Step::TakeDue => {
                let loaded = self.at(Place::Loaded);
                let expected = loaded.first().or(self.due(Place::Here).first()).copied();
                let found = self.repeats.take_due(self.now);
                self.gone(expected, found.as_ref());
            }
            Step::TakeOldest => {
                let oldest = self.at(Place::Here).into_iter().min_by_key(|one| one.seq);
                let expected = oldest.or(self.at(Place::Loaded).first().copied());
                let found = self.repeats.take_oldest();
                self.gone(expected, found.as_ref());
            }
            Step::TakeLate => self.take_late(),
            Step::Time(ms) => self.now += Duration::from_millis(ms),
        }
        self.look();
    }

    fn excess(&mut self) {
        let here = self.at(Place::Here);
        let bytes: usize = here.iter().map(|one| one.bytes).sum();
        let must = here.len() > ITEMS_MAX || (bytes > BYTES_MAX && here.len() > 1);
        let most = here.into_iter().max_by_key(|one| (one.attempts, std::cmp::Reverse(one.seq)));
        let expected = most.filter(|_| must);
        let found = self.repeats.excess();
        assert_eq!(
            found.as_ref().map(|(due, entry)| (*due, entry.callback.key.seq)),
            expected.map(|one| (one.due, one.seq))
        );
        if let (Some(one), Some((due, entry))) = (expected, found) {
            self.repeats.leave(entry.callback.key, one.seq, entry.tries, due);
            self.move_to(one.seq, Place::Away);
        }
    }

    fn take_late(&mut self) {
        let (here, away) = self.repeats.take_late(self.now);
        let here = here.iter().map(|entry| (entry.callback.key.seq, false));
        let mut found: Vec<_> = here.chain(away.iter().map(|(key, _)| (key.seq, true))).collect();
        let is_late = |one: &&Listed| one.deadline <= self.now && one.place != Place::Loading;
        let late = self.list.iter().filter(is_late);
        let mut expected: Vec<_> = late.map(|one| (one.seq, one.place == Place::Away)).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
        self.list.retain(|one| !expected.iter().any(|(seq, _)| *seq == one.seq));
    }

    fn look(&self) {
        let (here, away) = (self.at(Place::Here), self.at(Place::Away));
        let loaded = self.at(Place::Loaded);
        assert_eq!(self.repeats.here_len(), here.len() + loaded.len());
        assert_eq!(self.repeats.away_len(), away.len());
        let is_due = !loaded.is_empty() || !self.due(Place::Here).is_empty();
        assert_eq!(self.repeats.is_due(self.now), is_due);
        assert_eq!(self.repeats.is_away_due(self.now), !self.due(Place::Away).is_empty());
        let later = |list: &[Listed]| list.iter().map(|one| one.due).filter(|due| *due > self.now).min();
        let next = later(&here).into_iter().chain(later(&away)).min();
        assert_eq!(self.repeats.next(self.now), next);
        let deadline = here.iter().chain(&loaded).map(|one| one.deadline).min();
        let next = deadline.into_iter().chain(later(&away)).min();
        assert_eq!(self.repeats.next_deadline(self.now), next);
        let in_memory = self.repeats.here().map(|entry| entry.callback.key).collect::<Vec<_>>();
        assert!(here.iter().chain(&loaded).all(|one| in_memory.contains(&key((one.seq, 0)))));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn callback_is_repeated_at_its_due_time(steps in steps()) {
        let (repeats, now) = (Repeats::new(ITEMS_MAX, BYTES_MAX), Instant::now());
        let mut world = World { repeats, now, next_seq: 1, list: Vec::new(), loading: Vec::new() };
        for step in steps {
            world.step(step);
        }
    }
}
