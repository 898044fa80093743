//! Callbacks that wait until their own target has the answer to the request that caused them.
//!
//! A DFSP takes the callback for the end of an exchange, and must find the answer before it. So what a request owes to
//! the DFSP that sent it waits until its answer was written, or until that DFSP no longer waits for it.

use hashbrown::{HashMap, HashSet};
use upesi_ledger::CallbackKey;

use super::entry::Entry;

#[derive(Debug)]
pub(super) struct Holds {
    /// With the entry once nothing else holds it back.
    held: HashMap<CallbackKey, Option<Entry>, foldhash::fast::RandomState>,
    /// Answered before the lane had heard of them.
    answered: HashSet<CallbackKey, foldhash::fast::RandomState>,
}

impl Holds {
    pub(super) fn new() -> Self {
        Self { held: HashMap::default(), answered: HashSet::default() }
    }

    /// A callback that waits for an answer has come.
    pub(super) fn hold(&mut self, key: CallbackKey) {
        if !self.answered.remove(&key) {
            self.held.insert(key, None);
        }
    }

    /// The answer was written; returns the callback if it waited for nothing else.
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

    /// Those that wait for nothing else.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.held.values().flatten()
    }
}
