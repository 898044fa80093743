//! The outbox: every callback that is owed and not yet delivered.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use core::mem;
use core::ops::Bound;

use upesi_types::Timestamp;

use crate::base::ids::{CallbackKey, ParticipantId};
use crate::base::stored::stored_struct;

/// A queue with fewer places than this is not compacted.
const PLACES_COMPACTED_MIN: usize = 64;

/// An undelivered callback. Its content is in the journal, in the record with the key's sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxEntry<'a> {
    /// Present if delivery was given up and an operator must intervene.
    pub parked: Option<&'a Parked>,
}

/// Time and reason of giving up delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    pub at: Timestamp,
    /// Number of delivery attempts.
    pub attempts: u32,
    /// The last error.
    pub reason: Box<str>,
}

stored_struct! {
    Parked { at, attempts, reason }
}

/// Undelivered callbacks, ordered by target, then age.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    queues: BTreeMap<ParticipantId, Queue>,
    len: usize,
    parked_len: usize,
}

/// The callbacks owed to one participant, oldest first. Callbacks are added and removed at the ends, or near them. A
/// callback that is delivered in between leaves an empty place.
#[derive(Clone, Debug, Default)]
struct Queue {
    places: VecDeque<OutboxSlot>,
    /// Number of places whose callback is still owed.
    owed: usize,
    /// Data of the parked callbacks.
    parked: BTreeMap<RecordIndex, Parked>,
}

/// The sequence number of a callback's record, and the index of the callback in it.
type RecordIndex = (u64, u8);

/// Kept small, because an unreachable participant has one for each owed callback.
#[derive(Clone, Copy, Debug)]
struct OutboxSlot {
    seq: u64,
    index: u8,
    is_owed: bool,
}

const _: () = assert!(size_of::<OutboxSlot>() == 16);

impl OutboxSlot {
    const fn age(&self) -> RecordIndex {
        (self.seq, self.index)
    }
}

impl Queue {
    fn find(&self, age: RecordIndex) -> Result<usize, usize> {
        self.places.binary_search_by_key(&age, OutboxSlot::age)
    }

    /// The place of a callback, if it is owed.
    fn owed_at(&self, age: RecordIndex) -> Option<usize> {
        self.find(age).ok().filter(|at| self.places[*at].is_owed)
    }

    fn entry(&self, age: RecordIndex) -> OutboxEntry<'_> {
        OutboxEntry { parked: self.parked.get(&age) }
    }

    /// Inserts a callback in order, nearly always as the last one. Returns false if it was already owed.
    fn insert(&mut self, (seq, index): RecordIndex) -> bool {
        let place = OutboxSlot { seq, index, is_owed: true };
        let was_owed = if self.places.back().is_none_or(|last| last.age() < place.age()) {
            self.places.push_back(place);
            false
        } else {
            match self.find(place.age()) {
                Ok(at) => mem::replace(&mut self.places[at].is_owed, true),
                Err(at) => {
                    self.places.insert(at, place);
                    false
                }
            }
        };
        self.owed += usize::from(!was_owed);
        !was_owed
    }

    /// Removes an owed callback.
    fn remove(&mut self, at: usize) {
        self.places[at].is_owed = false;
        self.owed -= 1;
        while self.places.pop_front_if(|place| !place.is_owed).is_some() {}
        if self.places.len() >= PLACES_COMPACTED_MIN.max(2 * self.owed) {
            self.places.retain(|place| place.is_owed);
        }
    }

    /// Parks an owed callback, or unparks it for redelivery. Returns whether it was parked.
    fn set_parked(&mut self, age: RecordIndex, parked: Option<Parked>) -> bool {
        match parked {
            Some(parked) => self.parked.insert(age, parked).is_some(),
            None => self.parked.remove(&age).is_some(),
        }
    }

    /// The entries that are younger than `after`, oldest first.
    fn entries(&self, after: Option<RecordIndex>) -> impl Iterator<Item = (RecordIndex, OutboxEntry<'_>)> {
        let start = after.map_or(0, |after| self.places.partition_point(|place| place.age() <= after));
        let owed = self.places.range(start..).filter(|place| place.is_owed);
        owed.map(|place| (place.age(), self.entry(place.age())))
    }
}

impl Outbox {
    pub(crate) fn insert(&mut self, key: CallbackKey, parked: Option<Parked>) {
        self.parked_len += usize::from(parked.is_some());
        let queue = self.queues.entry(key.target).or_default();
        self.len += usize::from(queue.insert(key.age()));
        self.parked_len -= usize::from(queue.set_parked(key.age(), parked));
    }

    pub(crate) fn remove(&mut self, key: CallbackKey) {
        let Some(queue) = self.queues.get_mut(&key.target) else { return };
        if let Some(at) = queue.owed_at(key.age()) {
            queue.remove(at);
            self.len -= 1;
            self.parked_len -= usize::from(queue.set_parked(key.age(), None));
        }
    }

    pub(crate) fn set_parked(&mut self, key: CallbackKey, parked: Option<Parked>) {
        let Some(queue) = self.queues.get_mut(&key.target) else { return };
        if queue.owed_at(key.age()).is_some() {
            self.parked_len += usize::from(parked.is_some());
            self.parked_len -= usize::from(queue.set_parked(key.age(), parked));
        }
    }

    /// Number of undelivered callbacks, including parked ones.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether every callback was delivered.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of parked callbacks.
    pub const fn parked_len(&self) -> usize {
        self.parked_len
    }

    /// The entry of an owed callback.
    pub fn get(&self, key: CallbackKey) -> Option<OutboxEntry<'_>> {
        let queue = self.queues.get(&key.target)?;
        queue.owed_at(key.age()).map(|_| queue.entry(key.age()))
    }

    /// All entries, ordered by target, then age.
    pub fn iter(&self) -> impl Iterator<Item = (CallbackKey, OutboxEntry<'_>)> {
        self.iter_after(None)
    }

    /// The entries after a key, ordered by target, then age.
    pub fn iter_after(
        &self,
        after: Option<CallbackKey>,
    ) -> impl Iterator<Item = (CallbackKey, OutboxEntry<'_>)> {
        let start = after.map_or(Bound::Unbounded, |key| Bound::Included(key.target));
        self.queues.range((start, Bound::Unbounded)).flat_map(move |(&target, queue)| {
            let after = after.filter(|key| key.target == target).map(CallbackKey::age);
            queue.entries(after).map(move |((seq, index), entry)| (CallbackKey { target, seq, index }, entry))
        })
    }

    /// The undelivered, unparked callbacks of one target that are younger than `after`, oldest first.
    pub fn pending(
        &self,
        target: ParticipantId,
        after: Option<RecordIndex>,
    ) -> impl Iterator<Item = CallbackKey> {
        let entries = self.queues.get(&target).into_iter().flat_map(move |queue| queue.entries(after));
        let pending = entries.filter(|(_, entry)| entry.parked.is_none());
        pending.map(move |((seq, index), _)| CallbackKey { target, seq, index })
    }

    /// The lowest journal sequence number that an undelivered callback needs.
    pub fn oldest_seq(&self) -> Option<u64> {
        // The first place of a queue always has an owed callback.
        self.queues.values().filter_map(|queue| queue.places.front()).map(|place| place.seq).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::random;
    use alloc::vec::Vec;

    fn key(target: u64, seq: u64, index: u64) -> CallbackKey {
        let target = ParticipantId::new(target as u32 + 1).unwrap_or(ParticipantId::HUB);
        CallbackKey { target, seq, index: index as u8 }
    }

    fn parked(attempts: u64) -> Option<Parked> {
        Some(Parked { at: Timestamp::EPOCH, attempts: attempts as u32, reason: "no route".into() })
    }

    /// Compares all queries with a plain map.
    fn compare(outbox: &Outbox, map: &BTreeMap<CallbackKey, Option<Parked>>, probe: CallbackKey) {
        fn entry(parked: &Option<Parked>) -> OutboxEntry<'_> {
            OutboxEntry { parked: parked.as_ref() }
        }
        assert!(outbox.iter().eq(map.iter().map(|(key, parked)| (*key, entry(parked)))));
        let behind = map.range((Bound::Excluded(probe), Bound::Unbounded));
        assert!(outbox.iter_after(Some(probe)).eq(behind.map(|(key, parked)| (*key, entry(parked)))));
        for after in [None, Some((probe.seq, probe.index))] {
            let is_pending = |(key, parked): &(&CallbackKey, &Option<Parked>)| {
                key.target == probe.target
                    && parked.is_none()
                    && after.is_none_or(|after| (key.seq, key.index) > after)
            };
            assert!(
                outbox.pending(probe.target, after).eq(map.iter().filter(is_pending).map(|(key, _)| *key))
            );
        }
        assert_eq!(outbox.get(probe), map.get(&probe).map(entry));
        assert_eq!((outbox.len(), outbox.is_empty()), (map.len(), map.is_empty()));
        assert_eq!(outbox.parked_len(), map.values().flatten().count());
        assert_eq!(outbox.oldest_seq(), map.keys().map(|key| key.seq).min());
    }

    #[test]
    fn outbox_behaves_like_a_map() {
        for seed in 1..=20_u64 {
            let (state, mut outbox, mut map) = (&mut (seed << 20), Outbox::default(), BTreeMap::new());
            for step in 1..=1_500_u64 {
                let keys: Vec<_> = map.keys().copied().collect();
                let any = keys.get(random(state, keys.len() as u64 + 1) as usize).copied();
                let any = any.unwrap_or(key(random(state, 4), random(state, step), random(state, 2)));
                match random(state, 10) {
                    // Usually in order; out of order and repeated only in a restored snapshot.
                    0..4 => {
                        let new = key(random(state, 3), step, random(state, 2));
                        let new = if random(state, 50) == 0 { any } else { new };
                        outbox.insert(new, None);
                        map.insert(new, None);
                    }
                    4..8 => {
                        outbox.remove(any);
                        map.remove(&any);
                    }
                    8 => {
                        outbox.set_parked(any, parked(step));
                        map.entry(any).and_modify(|entry| *entry = parked(step));
                    }
                    _ => {
                        outbox.set_parked(any, None);
                        map.entry(any).and_modify(|entry| *entry = None);
                    }
                }
                if step % 10 == 0 {
                    compare(&outbox, &map, any);
                }
            }
            let places: usize = outbox.queues.values().map(|queue| queue.places.len()).sum();
            assert!(places <= 2 * outbox.len() + 4 * PLACES_COMPACTED_MIN, "seed {seed}: {places} places");
        }
    }

    /// Empty places use memory, and removing them takes time. They are removed when they are half of all places.
    #[test]
    fn empty_places_are_removed_when_they_are_half() {
        const OWED: u64 = 4 * PLACES_COMPACTED_MIN as u64;
        let mut outbox = Outbox::default();
        for seq in 1..=OWED {
            outbox.insert(key(1, seq, 0), None);
        }
        let places = |outbox: &Outbox| outbox.queues.values().map(|queue| queue.places.len()).sum::<usize>();
        // The oldest one stays, so that no place is removed by itself.
        for seq in 2..=OWED / 2 {
            outbox.remove(key(1, seq, 0));
            assert_eq!(places(&outbox) as u64, OWED, "{seq}");
        }
        outbox.remove(key(1, OWED / 2 + 1, 0));
        assert_eq!((places(&outbox) as u64, outbox.len() as u64), (OWED / 2, OWED / 2));
        for seq in OWED / 2 + 2..=OWED {
            outbox.remove(key(1, seq, 0));
        }
        assert_eq!(outbox.len(), 1);
        assert!(places(&outbox) < PLACES_COMPACTED_MIN, "{}", places(&outbox));
    }
}
