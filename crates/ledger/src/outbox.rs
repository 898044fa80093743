//! The outbox: every notice owed and not yet delivered.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::ops::Bound;

use upesi_types::Timestamp;

use crate::notice::NoticeKey;
use crate::participant::ParticipantId;

/// An undelivered notice. Its content is in the journal, at the key's sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxEntry {
    /// Present when delivery was given up and an operator must look.
    pub parked: Option<Box<Parked>>,
}

/// Why and when delivery was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    /// When.
    pub at: Timestamp,
    /// How often it was tried.
    pub attempts: u32,
    /// What went wrong last.
    pub reason: Box<str>,
}

/// Undelivered notices in order of target, then age.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outbox {
    entries: BTreeMap<NoticeKey, OutboxEntry>,
    parked_count: usize,
}

impl Outbox {
    pub(crate) fn insert(&mut self, key: NoticeKey, parked: Option<Parked>) {
        self.parked_count += usize::from(parked.is_some());
        self.entries.insert(key, OutboxEntry { parked: parked.map(Box::new) });
    }

    pub(crate) fn remove(&mut self, key: NoticeKey) {
        if let Some(entry) = self.entries.remove(&key) {
            self.parked_count -= usize::from(entry.parked.is_some());
        }
    }

    pub(crate) fn set_parked(&mut self, key: NoticeKey, parked: Option<Parked>) {
        if let Some(entry) = self.entries.get_mut(&key) {
            self.parked_count -= usize::from(entry.parked.is_some());
            self.parked_count += usize::from(parked.is_some());
            entry.parked = parked.map(Box::new);
        }
    }

    /// How many notices are undelivered, parked ones included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether everything was delivered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many are parked.
    pub const fn parked_len(&self) -> usize {
        self.parked_count
    }

    /// One entry.
    pub fn get(&self, key: NoticeKey) -> Option<&OutboxEntry> {
        self.entries.get(&key)
    }

    /// All entries, by target, then age.
    pub fn iter(&self) -> impl Iterator<Item = (NoticeKey, &OutboxEntry)> {
        self.entries.iter().map(|(key, entry)| (*key, entry))
    }

    /// The entries behind a key, by target, then age.
    pub fn iter_after(&self, after: Option<NoticeKey>) -> impl Iterator<Item = (NoticeKey, &OutboxEntry)> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.entries.range((start, Bound::Unbounded)).map(|(key, entry)| (*key, entry))
    }

    /// The undelivered, unparked notices of one target that are younger than `after`, oldest first.
    pub fn pending(
        &self,
        target: ParticipantId,
        after: Option<(u64, u8)>,
    ) -> impl Iterator<Item = NoticeKey> {
        let start = match after {
            Some((seq, index)) => Bound::Excluded(NoticeKey { target, seq, index }),
            None => Bound::Included(NoticeKey { target, seq: 0, index: 0 }),
        };
        let end = Bound::Included(NoticeKey { target, seq: u64::MAX, index: u8::MAX });
        self.entries.range((start, end)).filter(|(_, entry)| entry.parked.is_none()).map(|(key, _)| *key)
    }

    /// The lowest journal sequence that an undelivered notice still needs.
    pub fn oldest_seq(&self) -> Option<u64> {
        self.entries.keys().map(|key| key.seq).min()
    }
}
