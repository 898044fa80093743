//! An archive in memory, for tests and simulations.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use upesi_types::{Timestamp, TransferId};

use crate::TablesError;
use crate::archive::{Archive, ArchiveEntry, ArchiveStats, Division, check_values};

/// Stores entries in a map. Like a store on disk it distinguishes applied from durable entries. So it detects a caller
/// that forgets [`Archive::sync`]: [`MemoryArchive::crash`] drops all entries that were not synced.
#[derive(Debug, Default)]
pub struct MemoryArchive {
    state: Mutex<State>,
}

/// A division and its transfers.
#[derive(Clone, Debug)]
struct MemoryDivision {
    info: Division,
    entries: BTreeMap<[u8; 17], Vec<u8>>,
}

impl MemoryDivision {
    fn beginning(first_seq: u64) -> Self {
        let info =
            Division { first_seq, watermark: 0, last_time: None, transfers_estimate: 0, is_closed: false };
        Self { info, entries: BTreeMap::new() }
    }
}

#[derive(Clone, Debug)]
struct Contents {
    /// The oldest first, at least one; the last one grows.
    parts: Vec<MemoryDivision>,
    watermark: u64,
}

impl Default for Contents {
    fn default() -> Self {
        Self { parts: vec![MemoryDivision::beginning(1)], watermark: 0 }
    }
}

impl Contents {
    fn get(&self, key: &[u8; 17]) -> Option<&Vec<u8>> {
        self.parts.iter().rev().find_map(|part| part.entries.get(key))
    }

    fn apply(&mut self, entries: &[ArchiveEntry], watermark: u64, time: Timestamp) {
        self.watermark = self.watermark.max(watermark);
        let Some(growing) = self.parts.last_mut() else { return };
        for (id, value) in entries {
            growing.entries.insert(id.to_bytes(), value.clone());
        }
        growing.info.transfers_estimate = growing.entries.len() as u64;
        if self.watermark >= growing.info.first_seq {
            growing.info.watermark = self.watermark;
            growing.info.last_time = growing.info.last_time.max((time != Timestamp::EPOCH).then_some(time));
        }
    }

    fn divide(&mut self) {
        let next = MemoryDivision::beginning(self.watermark + 1);
        if let Some(growing) = self.parts.last_mut().filter(|growing| growing.info.watermark > 0) {
            growing.info.is_closed = true;
            self.parts.push(next);
        }
    }

    fn remove_to(&mut self, seq: u64) -> u64 {
        let before = self.parts.len();
        self.parts.retain(|part| !part.info.is_closed || part.info.watermark > seq);
        let mut left = before - self.parts.len();
        if let [growing] = &mut self.parts[..]
            && self.watermark <= seq
            && growing.info.first_seq <= seq
        {
            *growing = MemoryDivision::beginning(seq + 1);
            self.watermark = seq;
            left += 1;
        }
        left as u64
    }
}

#[derive(Debug, Default)]
struct State {
    applied: Contents,
    durable: Contents,
    /// Its watermark when it was opened.
    opened_at: u64,
}

impl MemoryArchive {
    /// An empty archive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns to the state of the last [`Archive::sync`], the worst case of a crash of the machine.
    pub fn crash(&self) {
        let mut state = self.state();
        state.applied = state.durable.clone();
        state.opened_at = 0;
    }

    /// Reopens the archive after its process was killed: all entries are retained, synced or not.
    pub fn open_again(&self) {
        let mut state = self.state();
        state.opened_at = state.applied.watermark;
    }

    /// Drops everything, as if its directory were lost.
    pub fn lose(&self) {
        *self.state() = State::default();
    }

    /// A copy in the state that [`MemoryArchive::crash`] would leave; this archive remains unchanged.
    pub fn after_crash(&self) -> Self {
        let durable = self.state().durable.clone();
        Self { state: Mutex::new(State { applied: durable.clone(), durable, opened_at: 0 }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic in another test thread leaves the maps consistent: every change is made by one call.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Archive for MemoryArchive {
    fn get(&self, id: &TransferId) -> Result<Option<Vec<u8>>, TablesError> {
        Ok(self.state().applied.get(&id.to_bytes()).cloned())
    }

    fn may_contain(&self, id: &TransferId) -> bool {
        self.state().applied.get(&id.to_bytes()).is_some()
    }

    fn apply(&self, entries: &[ArchiveEntry], watermark: u64) -> Result<(), TablesError> {
        self.apply_at(entries, watermark, Timestamp::EPOCH)
    }

    fn apply_at(&self, entries: &[ArchiveEntry], watermark: u64, time: Timestamp) -> Result<(), TablesError> {
        check_values(entries)?;
        self.state().applied.apply(entries, watermark, time);
        Ok(())
    }

    fn sync(&self) -> Result<u64, TablesError> {
        let mut state = self.state();
        state.durable = state.applied.clone();
        Ok(state.durable.watermark)
    }

    fn watermark(&self) -> u64 {
        let state = self.state();
        state.durable.watermark.max(state.opened_at)
    }

    fn watermark_applied(&self) -> u64 {
        self.state().applied.watermark
    }

    fn stats(&self) -> ArchiveStats {
        let applied = &self.state().applied;
        ArchiveStats {
            transfers_estimate: applied.parts.iter().map(|part| part.entries.len() as u64).sum(),
            filter_ready: true,
            ..ArchiveStats::default()
        }
    }

    fn for_each(
        &self,
        visit: &mut dyn FnMut(TransferId, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TablesError> {
        let parts = self.state().applied.parts.clone();
        visit_all(parts.into_iter().flat_map(|part| part.entries).collect(), visit);
        Ok(())
    }

    fn divisions(&self) -> Vec<Division> {
        self.state().applied.parts.iter().map(|part| part.info).collect()
    }

    fn divide(&self) -> Result<(), TablesError> {
        let mut state = self.state();
        state.applied.divide();
        state.durable = state.applied.clone();
        Ok(())
    }

    fn for_each_in(
        &self,
        first_seq: u64,
        visit: &mut dyn FnMut(TransferId, &[u8]) -> ControlFlow<()>,
    ) -> Result<bool, TablesError> {
        let parts = self.state().applied.parts.clone();
        let Some(part) = parts.into_iter().find(|part| part.info.first_seq == first_seq) else {
            return Ok(false);
        };
        visit_all(part.entries, visit);
        Ok(true)
    }

    fn remove_to(&self, seq: u64) -> Result<u64, TablesError> {
        let mut state = self.state();
        state.durable.remove_to(seq);
        Ok(state.applied.remove_to(seq))
    }
}

fn visit_all(
    entries: BTreeMap<[u8; 17], Vec<u8>>,
    visit: &mut dyn FnMut(TransferId, &[u8]) -> ControlFlow<()>,
) {
    for (key, value) in &entries {
        let Some(id) = TransferId::from_key(key) else { continue };
        if visit(id, value).is_break() {
            break;
        }
    }
}
