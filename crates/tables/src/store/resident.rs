//! A whole table in memory, in eleven bytes per entry. It is for tables of many small keys and few different values,
//! such as a directory of parties. For these, even one block read costs more than the rest of a lookup.
//!
//! An entry is a fingerprint of the key and the number of its value. The fingerprint has 80 bits under a random key of
//! this process, so a client cannot choose keys that collide. Among ten million keys two collide with a probability of
//! 4 in 10^11. The entry's position is part of its fingerprint, as in a quotient filter: 8 bits choose the shard, the
//! first 32 of the other 72 the slot.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::lsm::UserValue;

use super::sync::{AtomicU8, AtomicU64, RandomState, RwLock, RwLockReadGuard, RwLockWriteGuard, SHARDS};

const TAG_BYTES: usize = 9;
/// A tag and the number of a value.
const SLOT_BYTES: usize = TAG_BYTES + 2;
/// Longer values stay on disk.
pub(crate) const VALUE_BYTES_MAX: usize = 256;
/// Maximum number of different values; entries with further ones stay on disk.
pub(crate) const VALUES_MAX: usize = 50_000;
/// Value number of a free slot.
pub(crate) const FREE: u16 = 0;
/// Value number of an entry whose value is on disk.
const ON_DISK: u16 = u16::MAX;

const LOADING: u8 = 0;
const COMPLETE: u8 = 1;
const OFF: u8 = 2;

/// Knowledge about a key.
pub(crate) enum Residence {
    /// The key has this value, or none.
    Known(Option<UserValue>),
    /// The table on disk must be read.
    Unknown,
}

/// The entries of one table. Only the store's writer writes; all threads read.
pub(crate) struct Resident {
    hashers: [RandomState; 2],
    shards: Box<[RwLock<Shard>]>,
    values: RwLock<Values>,
    state: AtomicU8,
    bytes: AtomicU64,
    bytes_max: u64,
}

impl Resident {
    /// Empty, and not used until [`Resident::completed`]. `entries` is the expected number.
    pub(crate) fn new(entries: u64, bytes_max: u64) -> Self {
        let entries = entries.min(bytes_max / SLOT_BYTES as u64) as usize;
        let shard = || RwLock::new(Shard::with_room_for(entries / SHARDS));
        let resident = Self {
            hashers: std::array::from_fn(|_| RandomState::new()),
            shards: (0..SHARDS).map(|_| shard()).collect(),
            values: RwLock::default(),
            state: AtomicU8::new(LOADING),
            bytes: AtomicU64::new(0),
            bytes_max,
        };
        resident.bytes.store(
            resident.shards.iter().map(|shard| read(shard).slots.capacity() as u64).sum::<u64>()
                * SLOT_BYTES as u64,
            Ordering::Relaxed,
        );
        resident
    }

    /// The value of `key`.
    pub(crate) fn get(&self, key: &[u8]) -> Residence {
        if self.state.load(Ordering::Acquire) != COMPLETE {
            return Residence::Unknown;
        }
        let (shard, tag) = self.fingerprint(key);
        let shard = read(&self.shards[shard]);
        // Checked again under the lock: a dropped table is emptied shard by shard.
        if self.state.load(Ordering::Acquire) != COMPLETE {
            return Residence::Unknown;
        }
        match shard.get(&tag) {
            FREE => Residence::Known(None),
            ON_DISK => Residence::Unknown,
            number => Residence::Known(read(&self.values).get(number)),
        }
    }

    /// Stores a durable change.
    pub(crate) fn set(&self, key: &[u8], change: Option<&UserValue>) {
        if self.state.load(Ordering::Acquire) == OFF {
            return;
        }
        let number = change.map(|value| write(&self.values).number(value));
        let (shard, tag) = self.fingerprint(key);
        let mut shard = write(&self.shards[shard]);
        let before = shard.slots.capacity();
        match number {
            Some(number) => shard.insert(tag, number),
            None => shard.remove(&tag),
        }
        let grown = (shard.slots.capacity() - before) * SLOT_BYTES;
        drop(shard);
        if grown > 0 && self.bytes.fetch_add(grown as u64, Ordering::Relaxed) + grown as u64 > self.bytes_max
        {
            self.give_up();
        }
    }

    /// Marks the table as complete: readers no longer need the disk.
    pub(crate) fn completed(&self) {
        let _ = self.state.compare_exchange(LOADING, COMPLETE, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Frees the memory; from now on the table is read from disk.
    pub(crate) fn give_up(&self) {
        self.state.store(OFF, Ordering::Release);
        for shard in &self.shards {
            *write(shard) = Shard::with_room_for(0);
        }
        self.bytes.store(0, Ordering::Relaxed);
    }

    pub(crate) fn is_loading(&self) -> bool {
        self.state.load(Ordering::Acquire) == LOADING
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.state.load(Ordering::Acquire) == COMPLETE
    }

    /// Memory of the entries, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn fingerprint(&self, key: &[u8]) -> (usize, [u8; TAG_BYTES]) {
        let [first, second] = self.hashers.each_ref().map(|hasher| hasher.hash_one(key).to_le_bytes());
        let mut tag = [0; TAG_BYTES];
        tag[..8].copy_from_slice(&first);
        tag[8..].copy_from_slice(&second[..TAG_BYTES - 8]);
        (usize::from(second[7]) % SHARDS, tag)
    }
}

/// The different values, by number. They are never removed, but their size is limited.
#[derive(Default)]
struct Values {
    by_number: Vec<UserValue>,
    numbers: HashMap<UserValue, u16>,
}

impl Values {
    fn get(&self, number: u16) -> Option<UserValue> {
        self.by_number.get(usize::from(number) - 1).cloned()
    }

    fn number(&mut self, value: &UserValue) -> u16 {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        if value.len() > VALUE_BYTES_MAX || self.by_number.len() == VALUES_MAX {
            return ON_DISK;
        }
        // Copied, because the original may be part of a block.
        let value = UserValue::from(&**value);
        self.by_number.push(value.clone());
        let number = self.by_number.len() as u16;
        self.numbers.insert(value, number);
        number
    }
}

/// Open addressing with linear probing. A removal moves later entries back, so there are no tombstones.
pub(crate) struct Shard {
    slots: Vec<[u8; SLOT_BYTES]>,
    pub(crate) used: usize,
}

impl Shard {
    pub(crate) fn with_room_for(entries: usize) -> Self {
        // At most seven eighths full.
        let slots = entries + entries / 7 + 8;
        let mut shard = Self { slots: Vec::new(), used: 0 };
        shard.slots.reserve_exact(slots);
        shard.slots.resize(slots, [0; SLOT_BYTES]);
        shard
    }

    pub(crate) fn get(&self, tag: &[u8; TAG_BYTES]) -> u16 {
        number_of(&self.slots[self.slot(tag)])
    }

    pub(crate) fn insert(&mut self, tag: [u8; TAG_BYTES], number: u16) {
        let slot = self.slot(&tag);
        if number_of(&self.slots[slot]) != FREE {
            self.slots[slot] = slot_of(&tag, number);
            return;
        }
        if (self.used + 1) * 8 > self.slots.len() * 7 {
            self.grow();
            return self.insert(tag, number);
        }
        self.slots[slot] = slot_of(&tag, number);
        self.used += 1;
    }

    pub(crate) fn remove(&mut self, tag: &[u8; TAG_BYTES]) {
        let mut free = self.slot(tag);
        if number_of(&self.slots[free]) == FREE {
            return;
        }
        self.used -= 1;
        let mut next = free;
        loop {
            self.slots[free] = [0; SLOT_BYTES];
            // The next entry that may move into the gap: one whose home is not after it.
            loop {
                next = self.behind(next);
                if number_of(&self.slots[next]) == FREE {
                    return;
                }
                let home = self.home(&tag_of(&self.slots[next]));
                if self.distance(home, next) >= self.distance(free, next) {
                    break;
                }
            }
            self.slots[free] = self.slots[next];
            free = next;
        }
    }

    /// The position of the tag, or the free slot for it.
    fn slot(&self, tag: &[u8; TAG_BYTES]) -> usize {
        let mut slot = self.home(tag);
        while number_of(&self.slots[slot]) != FREE && tag_of(&self.slots[slot]) != *tag {
            slot = self.behind(slot);
        }
        slot
    }

    fn home(&self, tag: &[u8; TAG_BYTES]) -> usize {
        let part = u32::from_le_bytes([tag[0], tag[1], tag[2], tag[3]]);
        ((u64::from(part) * self.slots.len() as u64) >> 32) as usize
    }

    fn behind(&self, slot: usize) -> usize {
        if slot + 1 == self.slots.len() { 0 } else { slot + 1 }
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.slots.len() - from }
    }

    fn grow(&mut self) {
        let mut larger = Self::with_room_for(self.used + self.used / 8 + 16);
        for slot in &self.slots {
            if number_of(slot) != FREE {
                larger.insert(tag_of(slot), number_of(slot));
            }
        }
        *self = larger;
    }
}

fn number_of(slot: &[u8; SLOT_BYTES]) -> u16 {
    u16::from_le_bytes([slot[TAG_BYTES], slot[TAG_BYTES + 1]])
}

fn tag_of(slot: &[u8; SLOT_BYTES]) -> [u8; TAG_BYTES] {
    std::array::from_fn(|at| slot[at])
}

fn slot_of(tag: &[u8; TAG_BYTES], number: u16) -> [u8; SLOT_BYTES] {
    let [low, high] = number.to_le_bytes();
    std::array::from_fn(|at| match at {
        TAG_BYTES => low,
        at if at < TAG_BYTES => tag[at],
        _ => high,
    })
}

// The guarded data is consistent after every call.
fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
