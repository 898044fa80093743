//! The duplicate check in memory: which messages of which quotes were passed on lately.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use upesi_types::Timestamp;

use crate::identity::QuoteKey;

/// The fingerprint of a message's body.
pub(crate) type Fingerprint = [u8; 16];

/// Which message of a quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The request that begins it.
    Request,
    /// The answer with the terms.
    Response,
}

/// What a message is to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sighting {
    /// The first of its kind, as far as is known.
    New,
    /// The same as before.
    Resend,
    /// Another one than before under the same id.
    Modified,
}

/// Remembers the last quotes, a fixed number of them. Room is taken as quotes come: 64 bytes for each, and 5 to 10 to find
/// it.
#[derive(Debug)]
pub(crate) struct DuplicateTable {
    entries_max: usize,
    /// A ring once it is full: the oldest is at `next`.
    slots: Vec<Slot>,
    next: usize,
    /// Places of the slots, by key.
    by_key: HashTable<u32>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Slot {
    key: QuoteKey,
    request: Option<Fingerprint>,
    response: Option<Fingerprint>,
    /// Until when the answer was wanted; the end of time where nobody said.
    expires_at: Timestamp,
}

impl DuplicateTable {
    /// A table of at most that many quotes, at least one.
    pub(crate) fn new(entries_max: usize) -> Self {
        let entries_max = entries_max.clamp(1, u32::MAX as usize);
        let hasher = RandomState::new();
        Self { entries_max, slots: Vec::new(), next: 0, by_key: HashTable::new(), hasher }
    }

    /// How many quotes are remembered.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Until when the answer to a request was wanted, if the request is remembered and said so.
    pub(crate) fn expires_at(&self, key: QuoteKey) -> Option<Timestamp> {
        let at = self.find(key)?;
        Some(self.slots[at].expires_at).filter(|at| *at != Timestamp::MAX)
    }

    /// Compares a message with what is remembered, and remembers it where it is the first. A request brings along until
    /// when its answer is wanted.
    pub(crate) fn sight(
        &mut self,
        key: QuoteKey,
        stage: Stage,
        fingerprint: Fingerprint,
        expires_at: Option<Timestamp>,
    ) -> Sighting {
        let at = self.find(key).unwrap_or_else(|| self.insert(key));
        let slot = &mut self.slots[at];
        let seen = match stage {
            Stage::Request => &mut slot.request,
            Stage::Response => &mut slot.response,
        };
        match seen {
            Some(seen) if *seen == fingerprint => Sighting::Resend,
            Some(_) => Sighting::Modified,
            None => {
                *seen = Some(fingerprint);
                if stage == Stage::Request {
                    slot.expires_at = expires_at.unwrap_or(Timestamp::MAX);
                }
                Sighting::New
            }
        }
    }

    fn find(&self, key: QuoteKey) -> Option<usize> {
        let hash = self.hasher.hash_one(key);
        self.by_key.find(hash, |at| self.slots[*at as usize].key == key).map(|at| *at as usize)
    }

    /// Makes room where there is none, by forgetting the oldest.
    fn insert(&mut self, key: QuoteKey) -> usize {
        let slot = Slot { key, request: None, response: None, expires_at: Timestamp::MAX };
        let at = self.next;
        self.next = (self.next + 1) % self.entries_max;
        if at == self.slots.len() {
            if at == self.slots.capacity() {
                // Doubled, but never beyond what is needed in the end.
                self.slots.reserve_exact(at.max(64).min(self.entries_max - at));
            }
            self.slots.push(slot);
        } else {
            self.forget(at);
            self.slots[at] = slot;
        }
        let Self { slots, by_key, hasher, .. } = self;
        let hash_of = |at: &u32| hasher.hash_one(slots[*at as usize].key);
        by_key.insert_unique(hasher.hash_one(key), at as u32, hash_of);
        at
    }

    fn forget(&mut self, at: usize) {
        let hash = self.hasher.hash_one(self.slots[at].key);
        if let Ok(entry) = self.by_key.find_entry(hash, |found| *found as usize == at) {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same in the simplest way: a list, oldest first.
    #[derive(Default)]
    struct Model {
        quotes: Vec<(QuoteKey, [Option<Fingerprint>; 2], Option<Timestamp>)>,
    }

    impl Model {
        fn sight(
            &mut self,
            entries_max: usize,
            key: QuoteKey,
            stage: Stage,
            fingerprint: Fingerprint,
            expires_at: Option<Timestamp>,
        ) -> Sighting {
            if !self.quotes.iter().any(|(known, ..)| *known == key) {
                if self.quotes.len() == entries_max {
                    self.quotes.remove(0);
                }
                self.quotes.push((key, [None; 2], None));
            }
            let quote = self.quotes.iter_mut().find(|(known, ..)| *known == key).unwrap();
            match quote.1[stage as usize] {
                Some(seen) if seen == fingerprint => Sighting::Resend,
                Some(_) => Sighting::Modified,
                None => {
                    quote.1[stage as usize] = Some(fingerprint);
                    if stage == Stage::Request {
                        quote.2 = expires_at;
                    }
                    Sighting::New
                }
            }
        }
    }

    fn key(number: u8) -> QuoteKey {
        let mut key = [7; QuoteKey::BYTES];
        key[17] = number;
        QuoteKey::from_bytes(&key).unwrap()
    }

    proptest! {
        #[test]
        fn it_behaves_as_the_model(
            entries_max in 1_usize..9,
            messages in prop::collection::vec((0_u8..12, any::<bool>(), 0_u8..3, prop::option::of(0_i64..9)), 0..300),
        ) {
            let (mut table, mut model) = (DuplicateTable::new(entries_max), Model::default());
            for (number, is_request, content, expires_at) in messages {
                let stage = if is_request { Stage::Request } else { Stage::Response };
                let expires_at = expires_at.map(Timestamp::from_ms);
                let expected = model.sight(entries_max, key(number), stage, [content; 16], expires_at);
                prop_assert_eq!(table.sight(key(number), stage, [content; 16], expires_at), expected);
                prop_assert_eq!(table.len(), model.quotes.len());
                prop_assert!(table.slots.capacity() <= entries_max);
                prop_assert_eq!(table.by_key.len(), table.len());
                for number in 0..12 {
                    let known = model.quotes.iter().find(|(known, ..)| *known == key(number));
                    prop_assert_eq!(table.expires_at(key(number)), known.and_then(|quote| quote.2));
                }
            }
        }
    }

    #[test]
    fn an_entry_has_the_size_that_is_told() {
        assert!(size_of::<Slot>() <= 64, "{}", size_of::<Slot>());
    }
}
