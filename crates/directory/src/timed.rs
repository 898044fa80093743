//! Entries that are stored for a limited time: found by their key, and removed when they are due.

use hashbrown::HashTable;
use tokio::time::Instant;

/// No slot.
const NONE: u32 = u32::MAX;

/// Entries with a deadline, each with some key; several may have the same one. Every operation takes constant time,
/// however many entries have one key. All entries must have the same lifetime, so that they are due in the
/// order of insertion.
///
/// The keys are not stored separately: callers provide the hash of a key and a function that compares an entry with the
/// key.
#[derive(Debug)]
pub(crate) struct DeadlineTable<T> {
    slots: Vec<Slot<T>>,
    vacant: Vec<u32>,
    /// For each key, the slot of its latest entry.
    heads: HashTable<u32>,
    oldest: u32,
    newest: u32,
}

#[derive(Debug)]
struct Slot<T> {
    kept: Option<TimedEntry<T>>,
    /// Distinguishes the entry from earlier ones in this slot.
    generation: u32,
    older: u32,
    newer: u32,
    /// Neighbours with the same key.
    chain_older: u32,
    chain_newer: u32,
}

#[derive(Debug)]
struct TimedEntry<T> {
    thing: T,
    hash: u64,
    due: Instant,
}

/// Handle of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimedSlot {
    slot: u32,
    generation: u32,
}

impl<T> Default for DeadlineTable<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), vacant: Vec::new(), heads: HashTable::new(), oldest: NONE, newest: NONE }
    }
}

impl<T> DeadlineTable<T> {
    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// Stores an entry until `due`, which must not be before the previous entry's.
    ///
    /// # Panics
    /// With 2^32 - 1 entries or more.
    pub(crate) fn keep(
        &mut self,
        hash: u64,
        due: Instant,
        thing: T,
        same: impl Fn(&T, &T) -> bool,
    ) -> TimedSlot {
        let head = self.head(hash, |other| same(other, &thing));
        let slot = self.vacate();
        let generation = self.slots[slot as usize].generation;
        self.slots[slot as usize] = Slot {
            kept: Some(TimedEntry { thing, hash, due }),
            generation,
            older: self.newest,
            newer: NONE,
            chain_older: head.unwrap_or(NONE),
            chain_newer: NONE,
        };
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.slots[newest as usize].newer = slot,
        }
        self.newest = slot;
        match head {
            Some(head) => {
                self.slots[head as usize].chain_newer = slot;
                self.replace_head(hash, head, slot);
            }
            None => {
                let slots = &self.slots;
                self.heads.insert_unique(hash, slot, |slot| slots[*slot as usize].hash());
            }
        }
        TimedSlot { slot, generation }
    }

    /// Removes an entry, if it is still there.
    pub(crate) fn take(&mut self, place: TimedSlot) -> Option<T> {
        let slot = self.slots.get(place.slot as usize)?;
        if slot.generation != place.generation || slot.kept.is_none() {
            return None;
        }
        self.remove(place.slot)
    }

    /// Removes one of the entries with a key.
    pub(crate) fn take_about(&mut self, hash: u64, is_about: impl Fn(&T) -> bool) -> Option<T> {
        let head = self.head(hash, is_about)?;
        self.remove(head)
    }

    /// The entries with a key, the latest first.
    pub(crate) fn about(
        &self,
        hash: u64,
        is_about: impl Fn(&T) -> bool,
    ) -> impl Iterator<Item = (Instant, &T)> {
        let mut at = self.head(hash, is_about).unwrap_or(NONE);
        std::iter::from_fn(move || {
            let slot = self.slots.get(at as usize)?;
            at = slot.chain_older;
            slot.kept.as_ref().map(|kept| (kept.due, &kept.thing))
        })
    }

    /// The latest entry with a key, for changes that do not affect its key.
    pub(crate) fn newest_about(&mut self, hash: u64, is_about: impl Fn(&T) -> bool) -> Option<&mut T> {
        let head = self.head(hash, is_about)?;
        self.slots[head as usize].kept.as_mut().map(|kept| &mut kept.thing)
    }

    /// When the next entry is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.slots.get(self.oldest as usize)?.kept.as_ref().map(|kept| kept.due)
    }

    /// Removes an entry that is due.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<T> {
        if self.next_due()? > now { None } else { self.take_oldest() }
    }

    /// Removes the oldest entry.
    pub(crate) fn take_oldest(&mut self) -> Option<T> {
        if self.oldest == NONE { None } else { self.remove(self.oldest) }
    }

    fn head(&self, hash: u64, is_about: impl Fn(&T) -> bool) -> Option<u32> {
        let is_head = |slot: &u32| {
            self.slots[*slot as usize]
                .kept
                .as_ref()
                .is_some_and(|kept| kept.hash == hash && is_about(&kept.thing))
        };
        self.heads.find(hash, is_head).copied()
    }

    fn replace_head(&mut self, hash: u64, from: u32, to: u32) {
        if let Ok(mut entry) = self.heads.find_entry(hash, |slot| *slot == from) {
            match to {
                NONE => {
                    entry.remove();
                }
                to => *entry.get_mut() = to,
            }
        }
    }

    /// An empty slot.
    fn vacate(&mut self) -> u32 {
        if let Some(slot) = self.vacant.pop() {
            return slot;
        }
        let slot = self.slots.len() as u32;
        assert!(slot < NONE, "too many things");
        self.slots.push(Slot {
            kept: None,
            generation: 0,
            older: NONE,
            newer: NONE,
            chain_older: NONE,
            chain_newer: NONE,
        });
        slot
    }

    fn remove(&mut self, at: u32) -> Option<T> {
        let slot = &mut self.slots[at as usize];
        let kept = slot.kept.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        let (older, newer) = (slot.older, slot.newer);
        let (chain_older, chain_newer) = (slot.chain_older, slot.chain_newer);
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        if chain_older != NONE {
            self.slots[chain_older as usize].chain_newer = chain_newer;
        }
        match chain_newer {
            NONE => self.replace_head(kept.hash, at, chain_older),
            newer => self.slots[newer as usize].chain_older = chain_older,
        }
        self.vacant.push(at);
        Some(kept.thing)
    }
}

impl<T> Slot<T> {
    fn hash(&self) -> u64 {
        self.kept.as_ref().map_or(0, |kept| kept.hash)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Keep { key: u8 },
        Take { nth: usize },
        TakeAbout { key: u8 },
        Wait { ticks: u64 },
        TakeDue,
        TakeOldest,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..6_u8).prop_map(|key| Step::Keep { key }),
            2 => (0..64_usize).prop_map(|nth| Step::Take { nth }),
            1 => (0..6_u8).prop_map(|key| Step::TakeAbout { key }),
            1 => (0..4_u64).prop_map(|ticks| Step::Wait { ticks }),
            2 => Just(Step::TakeDue),
            1 => Just(Step::TakeOldest),
        ]
    }

    /// Keys 0 to 5 share two hashes, so equal hashes do not mean equal keys.
    const fn hash(key: u8) -> u64 {
        key as u64 % 2
    }

    const LIFE: Duration = Duration::from_secs(3);

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// Compares with a plain list, which does the same slowly.
        #[test]
        fn timed_map_behaves_like_a_list(steps in prop::collection::vec(step(), 1..200)) {
            let start = Instant::now();
            let mut now = start;
            let mut timed = DeadlineTable::default();
            let mut list = Vec::<(u8, u32, Instant)>::new();
            let mut places = Vec::new();
            let mut serial = 0;
            for step in steps {
                match step {
                    Step::Keep { key } => {
                        serial += 1;
                        let place = timed.keep(hash(key), now + LIFE, (key, serial), |a, b| a.0 == b.0);
                        list.push((key, serial, now + LIFE));
                        places.push((serial, place));
                    }
                    Step::Take { nth } if !places.is_empty() => {
                        let (serial, place) = places[nth % places.len()];
                        let found = list.iter().position(|kept| kept.1 == serial).map(|at| list.remove(at));
                        prop_assert_eq!(timed.take(place), found.map(|kept| (kept.0, kept.1)));
                    }
                    Step::Take { .. } => {}
                    Step::TakeAbout { key } => {
                        let at = list.iter().rposition(|kept| kept.0 == key);
                        let found = at.map(|at| list.remove(at));
                        let taken = timed.take_about(hash(key), |thing| thing.0 == key);
                        prop_assert_eq!(taken, found.map(|kept| (kept.0, kept.1)));
                    }
                    Step::Wait { ticks } => now += Duration::from_secs(ticks),
                    Step::TakeDue => {
                        let is_due = list.first().is_some_and(|kept| kept.2 <= now);
                        let found = is_due.then(|| list.remove(0));
                        prop_assert_eq!(timed.take_due(now), found.map(|kept| (kept.0, kept.1)));
                    }
                    Step::TakeOldest => {
                        let found = (!list.is_empty()).then(|| list.remove(0));
                        prop_assert_eq!(timed.take_oldest(), found.map(|kept| (kept.0, kept.1)));
                    }
                }
                prop_assert_eq!(timed.len(), list.len());
                prop_assert_eq!(timed.next_due(), list.first().map(|kept| kept.2));
                for key in 0..6 {
                    let mut kept: Vec<_> = list.iter().filter(|kept| kept.0 == key).map(|kept| kept.1).collect();
                    kept.reverse();
                    let found: Vec<_> =
                        timed.about(hash(key), |thing| thing.0 == key).map(|(_, thing)| thing.1).collect();
                    prop_assert_eq!(found, kept);
                }
            }
        }
    }

    #[test]
    fn reused_slot_is_not_reached_by_an_old_place() {
        let (mut timed, now) = (DeadlineTable::default(), Instant::now());
        let first = timed.keep(1, now, "first", |a, b| a == b);
        assert_eq!(timed.take(first), Some("first"));
        let second = timed.keep(1, now, "second", |a, b| a == b);
        assert_eq!((first.slot, timed.slots.len()), (second.slot, 1));
        assert_eq!(timed.take(first), None);
        assert_eq!(timed.take(second), Some("second"));
    }
}
