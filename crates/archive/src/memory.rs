//! An archive in memory, for tests and simulations.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use upesi_types::TransferId;

use crate::{Archive, ArchiveEntry, ArchiveError, ArchiveStats, check_values};

/// Keeps entries in a map. Like a store on disk it tells applied from durable, so that a caller that forgets
/// [`Archive::sync`] is found out: [`MemoryArchive::crash`] forgets all that was not synced.
#[derive(Debug, Default)]
pub struct MemoryArchive {
    state: Mutex<State>,
}

#[derive(Clone, Debug, Default)]
struct Contents {
    entries: BTreeMap<[u8; 17], Vec<u8>>,
    watermark: u64,
}

#[derive(Debug, Default)]
struct State {
    applied: Contents,
    durable: Contents,
}

impl MemoryArchive {
    /// An empty archive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Goes back to what the last [`Archive::sync`] made durable, as a crash of the machine would at worst.
    pub fn crash(&self) {
        let mut state = self.state();
        state.applied = state.durable.clone();
    }

    /// A copy as [`MemoryArchive::crash`] would leave this one, which stays as it is.
    pub fn after_crash(&self) -> Self {
        let durable = self.state().durable.clone();
        Self { state: Mutex::new(State { applied: durable.clone(), durable }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic in another test thread leaves the maps whole: every change is made by one call.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Archive for MemoryArchive {
    fn get(&self, id: &TransferId) -> Result<Option<Vec<u8>>, ArchiveError> {
        Ok(self.state().applied.entries.get(&id.to_bytes()).cloned())
    }

    fn may_contain(&self, id: &TransferId) -> bool {
        self.state().applied.entries.contains_key(&id.to_bytes())
    }

    fn apply(&self, entries: &[ArchiveEntry], watermark: u64) -> Result<(), ArchiveError> {
        check_values(entries)?;
        let applied = &mut self.state().applied;
        for (id, value) in entries {
            applied.entries.insert(id.to_bytes(), value.clone());
        }
        applied.watermark = applied.watermark.max(watermark);
        Ok(())
    }

    fn sync(&self) -> Result<u64, ArchiveError> {
        let mut state = self.state();
        state.durable = state.applied.clone();
        Ok(state.durable.watermark)
    }

    fn watermark(&self) -> u64 {
        self.state().durable.watermark
    }

    fn watermark_applied(&self) -> u64 {
        self.state().applied.watermark
    }

    fn stats(&self) -> ArchiveStats {
        let applied = &self.state().applied;
        ArchiveStats {
            transfers_estimate: applied.entries.len() as u64,
            filter_ready: true,
            ..ArchiveStats::default()
        }
    }

    fn for_each(
        &self,
        visit: &mut dyn FnMut(TransferId, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), ArchiveError> {
        let entries = self.state().applied.entries.clone();
        for (key, value) in &entries {
            let Some(id) = TransferId::from_bytes(key) else { continue };
            if visit(id, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}
