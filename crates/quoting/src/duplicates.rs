//! The duplicate check in memory: remembers recently forwarded messages of quotes.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use upesi_ledger::ParticipantId;
use upesi_types::Timestamp;

use super::quote_key::QuoteKey;

/// The fingerprint of a message's body.
pub(crate) type Fingerprint = [u8; 16];

/// Kind of a quote's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuoteMessageKind {
    /// The request that begins the quote.
    Request,
    /// The answer with the terms.
    Response,
}

/// Relation of a message to earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DuplicateStatus {
    /// The first of its kind, as far as is known.
    New,
    /// Identical to the earlier one.
    Resend,
    /// Different from the earlier one under the same id.
    Modified,
}

/// Remembers a fixed number of the latest quotes. Memory grows with the quotes: 64 bytes for each, and 5 to 10 for the
/// index.
#[derive(Debug)]
pub(crate) struct DuplicateTable {
    entries_max: usize,
    /// A ring once it is full; the oldest entry is at `next`.
    slots: Vec<Slot>,
    next: usize,
    /// Indices of the slots, by key.
    by_key: HashTable<u32>,
    hasher: RandomState,
}

/// A message to be compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComparedMessage {
    pub(crate) stage: QuoteMessageKind,
    pub(crate) fingerprint: Fingerprint,
    /// For a request: the DFSP that receives it, if there is one. For an answer: its sender.
    pub(crate) payee: Option<ParticipantId>,
    /// For a request: the expiration of its answer.
    pub(crate) expires_at: Option<Timestamp>,
}

#[derive(Debug)]
struct Slot {
    key: QuoteKey,
    request: Option<Fingerprint>,
    response: Option<Fingerprint>,
    /// The DFSP whose answers are valid: the receiver of the request or, if no request is known, the first one that
    /// answered.
    payee: Option<ParticipantId>,
    /// Expiration of the answer; the end of time without one.
    expires_at: Timestamp,
}

impl DuplicateTable {
    /// A table for at most `entries_max` quotes, at least one.
    pub(crate) fn new(entries_max: usize) -> Self {
        let entries_max = entries_max.clamp(1, u32::MAX as usize);
        let hasher = RandomState::new();
        Self { entries_max, slots: Vec::new(), next: 0, by_key: HashTable::new(), hasher }
    }

    /// Number of remembered quotes.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Expiration of the answer to a request, if the request is remembered and has one.
    pub(crate) fn expires_at(&self, key: QuoteKey) -> Option<Timestamp> {
        let at = self.find(key)?;
        Some(self.slots[at].expires_at).filter(|at| *at != Timestamp::MAX)
    }

    /// Compares a message with the remembered one, and remembers it if it is the first. An answer of a DFSP whose
    /// answers are not valid is new each time, and is not remembered.
    pub(crate) fn sight(&mut self, key: QuoteKey, message: ComparedMessage) -> DuplicateStatus {
        let at = self.find(key).unwrap_or_else(|| self.insert(key));
        let slot = &mut self.slots[at];
        let seen = match message.stage {
            QuoteMessageKind::Request => slot.request,
            QuoteMessageKind::Response if slot.request.is_none() && slot.response.is_none() => None,
            QuoteMessageKind::Response if slot.payee != message.payee => return DuplicateStatus::New,
            QuoteMessageKind::Response => slot.response,
        };
        match seen {
            Some(seen) if seen == message.fingerprint => DuplicateStatus::Resend,
            Some(_) => DuplicateStatus::Modified,
            None => {
                slot.take_in(message);
                DuplicateStatus::New
            }
        }
    }

    fn find(&self, key: QuoteKey) -> Option<usize> {
        let hash = self.hasher.hash_one(key);
        self.by_key.find(hash, |at| self.slots[*at as usize].key == key).map(|at| *at as usize)
    }

    /// Inserts a quote; if the table is full, it replaces the oldest.
    fn insert(&mut self, key: QuoteKey) -> usize {
        let slot = Slot { key, request: None, response: None, payee: None, expires_at: Timestamp::MAX };
        let at = self.next;
        self.next = (self.next + 1) % self.entries_max;
        if at == self.slots.len() {
            if at == self.slots.capacity() {
                // Doubles the capacity, but never above the maximum.
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

impl Slot {
    fn take_in(&mut self, message: ComparedMessage) {
        let is_of_another = self.payee != message.payee;
        self.payee = message.payee;
        match message.stage {
            QuoteMessageKind::Response => self.response = Some(message.fingerprint),
            QuoteMessageKind::Request => {
                self.request = Some(message.fingerprint);
                self.expires_at = message.expires_at.unwrap_or(Timestamp::MAX);
                // An answer that arrived before the request is invalid if another DFSP than the receiver sent it.
                if is_of_another {
                    self.response = None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A simple model: the forwarded quotes, oldest first, which are all searched for each message.
    #[derive(Default)]
    struct Model {
        quotes: Vec<(QuoteKey, Vec<ComparedMessage>)>,
    }

    impl Model {
        fn sight(&mut self, entries_max: usize, key: QuoteKey, message: ComparedMessage) -> DuplicateStatus {
            if !self.quotes.iter().any(|(known, _)| *known == key) {
                if self.quotes.len() == entries_max {
                    self.quotes.remove(0);
                }
                self.quotes.push((key, Vec::new()));
            }
            let (_, seen) = self.quotes.iter_mut().find(|(known, _)| *known == key).unwrap();
            let request = seen.iter().find(|earlier| earlier.stage == QuoteMessageKind::Request).copied();
            let first_answer =
                seen.iter().find(|earlier| earlier.stage == QuoteMessageKind::Response).copied();
            let asked = request.or(first_answer).map(|earlier| earlier.payee);
            if message.stage == QuoteMessageKind::Response
                && asked.is_some_and(|asked| asked != message.payee)
            {
                return DuplicateStatus::New;
            }
            let mut alike = seen.iter().filter(|earlier| {
                earlier.stage == message.stage
                    && (message.stage == QuoteMessageKind::Request || earlier.payee == message.payee)
            });
            match alike.next() {
                Some(first) if first.fingerprint == message.fingerprint => DuplicateStatus::Resend,
                Some(_) => DuplicateStatus::Modified,
                None => {
                    seen.push(message);
                    DuplicateStatus::New
                }
            }
        }

        fn expires_at(&self, key: QuoteKey) -> Option<Timestamp> {
            let (_, seen) = self.quotes.iter().find(|(known, _)| *known == key)?;
            seen.iter().find(|earlier| earlier.stage == QuoteMessageKind::Request)?.expires_at
        }
    }

    fn key(number: u8) -> QuoteKey {
        let mut key = [7; QuoteKey::BYTES];
        key[17] = number;
        QuoteKey::from_bytes(&key).unwrap()
    }

    proptest! {
        #[test]
        fn duplicate_table_behaves_like_the_model(
            entries_max in 1_usize..9,
            messages in prop::collection::vec(
                (0_u8..12, any::<bool>(), 0_u8..3, 0_u32..4, prop::option::of(0_i64..9)),
                0..300,
            ),
        ) {
            let (mut table, mut model) = (DuplicateTable::new(entries_max), Model::default());
            for (number, is_request, content, dfsp, expires_at) in messages {
                let message = ComparedMessage {
                    stage: if is_request { QuoteMessageKind::Request } else { QuoteMessageKind::Response },
                    fingerprint: [content; 16],
                    // The sender of an answer is always known.
                    payee: ParticipantId::new(if is_request { dfsp } else { dfsp.max(1) }),
                    expires_at: expires_at.filter(|_| is_request).map(Timestamp::from_ms),
                };
                let expected = model.sight(entries_max, key(number), message);
                prop_assert_eq!(table.sight(key(number), message), expected);
                prop_assert_eq!(table.len(), model.quotes.len());
                prop_assert!(table.slots.capacity() <= entries_max);
                prop_assert_eq!(table.by_key.len(), table.len());
                for number in 0..12 {
                    prop_assert_eq!(table.expires_at(key(number)), model.expires_at(key(number)));
                }
            }
        }
    }

    #[test]
    fn entry_has_its_documented_size() {
        assert!(size_of::<Slot>() <= 64, "{}", size_of::<Slot>());
    }
}
