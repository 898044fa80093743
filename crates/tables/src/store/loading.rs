//! Loads tables into memory, a portion at a time, between the updates.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::store::Inner;
use crate::store::Table;

/// Maximum number of entries that are loaded between two updates: about a millisecond's work.
const PORTION: usize = 2048;

/// The tables that are still being loaded, in the order of the calls.
pub(crate) struct Loading {
    inner: Arc<Inner>,
    /// The last loaded key of the first of them.
    after: Option<Vec<u8>>,
}

impl Loading {
    pub(crate) const fn new(inner: Arc<Inner>) -> Self {
        Self { inner, after: None }
    }

    /// Loads the next portion, if there is one. Returns a pause for other work, as long as the loading took.
    pub(crate) fn step(&mut self) -> Option<Duration> {
        let state = Arc::clone(self.inner.to_load().front()?);
        let started = Instant::now();
        let table = Table { state: Arc::clone(&state), tables: Arc::clone(&self.inner.tables) };
        let resident = state.resident().filter(|resident| resident.is_loading());
        let found = resident.map(|_| table.scan(b"", self.after.as_deref(), PORTION));
        let is_done = match (resident, found) {
            (Some(resident), Some(Ok(entries))) => {
                entries.iter().for_each(|(key, value)| resident.set(key, Some(&value.0)));
                let is_last = entries.len() < PORTION;
                self.after = entries.into_iter().next_back().map(|(key, _)| key).or(self.after.take());
                if is_last {
                    resident.completed();
                    tracing::info!(
                        table = table.name(),
                        bytes = resident.bytes(),
                        "loaded a complete table into memory"
                    );
                }
                is_last
            }
            (Some(resident), Some(Err(error))) => {
                tracing::warn!(%error, table = table.name(), "cannot load a table into memory; it is read from disk");
                resident.give_up();
                true
            }
            _ => {
                tracing::warn!(
                    table = table.name(),
                    "a table exceeds its memory limit; it is read from disk"
                );
                true
            }
        };
        if is_done {
            self.after = None;
            self.inner.to_load().pop_front();
        }
        Some(started.elapsed())
    }
}
