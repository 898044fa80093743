//! Callbacks that wait until their own target has the answer to the request that caused them.
//!
//! For a DFSP, the callback ends an exchange, so the answer must arrive before it. Therefore, the callback that a
//! request owes to its own sender waits until the answer was written, or until the sender no longer waits for it.

use hashbrown::{HashMap, HashSet};
use upesi_ledger::CallbackKey;

use super::entry::Entry;

#[derive(Debug)]
pub(super) struct HeldCallbacks {
    /// Contains the entry once nothing else holds it back.
    held: HashMap<CallbackKey, Option<Entry>, foldhash::fast::RandomState>,
    /// Answered before their callbacks reached the lane.
    answered: HashSet<CallbackKey, foldhash::fast::RandomState>,
}

impl HeldCallbacks {
    pub(super) fn new() -> Self {
        Self { held: HashMap::default(), answered: HashSet::default() }
    }

    /// Records a callback that waits for an answer.
    pub(super) fn hold(&mut self, key: CallbackKey) {
        if !self.answered.remove(&key) {
            self.held.insert(key, None);
        }
    }

    /// Records that the answer was written; returns the callback if it waited for nothing else.
    pub(super) fn answered(&mut self, key: CallbackKey) -> Option<Entry> {
        match self.held.remove(&key) {
            Some(entry) => entry,
            None => {
                self.answered.insert(key);
                None
            }
        }
    }

    /// Keeps a callback that waits; returns one that does not.
    pub(super) fn keep(&mut self, entry: Entry) -> Option<Entry> {
        if self.held.is_empty() {
            return Some(entry);
        }
        match self.held.get_mut(&entry.callback.key) {
            None => Some(entry),
            Some(held) => {
                *held = Some(entry);
                None
            }
        }
    }

    /// Callbacks that wait for nothing else.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.held.values().flatten()
    }
}
