//! The search for transfers in the order of their prepares, newest first.
//!
//! 1. The journal is read backwards, a stretch of records at a time. The record of a prepare contains the transfer.
//! 2. A transfer that may match is looked up in memory and in the archive, because it may have ended since.
//! 3. Transfers that are older than the journal are in the archive. They have no order of time: the youngest division
//!    comes first.
//!
//! A transfer has one prepare, so it is found once, even if it changes during the search.

use std::sync::Arc;
use std::time::Instant;

use upesi_ledger::{Event, Ledger, Transfer, TransferState};
use upesi_tables::archive::DivisionOrder;
use upesi_types::Timestamp;

use super::{Budget, Search, SearchPosition, SearchResult, TIME_MAX};
use crate::error::SubmitError;
use crate::follow::{DecodedRecord, Follow, FollowError};
use crate::handle::{EngineHandle, blocking};

/// Number of records that the first step reads. Each further step reads twice as many, up to the maximum.
const STRETCH_FIRST: u64 = 256;
const STRETCH_MAX: u64 = 4_096;
/// Number of transfers that one step looks up.
const LOOK_UPS: usize = 128;

/// The position of a search from the newest transfer to the oldest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewestPosition {
    /// In the journal, before this record.
    Recorded(u64),
    /// Among the transfers whose prepares are before `begin`, which was the first record of the journal.
    Older { begin: u64, place: SearchPosition },
}

impl NewestPosition {
    /// Before the newest transfer.
    pub const START: Self = Self::Recorded(u64::MAX);
}

/// Reads the prepares of the journal backwards.
struct PrepareReader {
    records: Follow,
    /// The first record of the search.
    first: u64,
    /// The next step reads records before this one.
    before: u64,
    stretch: u64,
    /// Whether the archive may contain older transfers of the requested time.
    has_older: bool,
}

impl PrepareReader {
    fn open(engine: &EngineHandle, search: &Search, before: u64, last: u64) -> Result<Self, FollowError> {
        let oldest = engine.first_since(Timestamp::EPOCH, last)?;
        let first = engine.first_since(search.since, last)?.max(oldest);
        let before = match search.until {
            Some(until) => engine.first_since(until, last)?.min(before),
            None => before,
        };
        let before = before.min(last + 1);
        let has_older = first == oldest && oldest > 1;
        Ok(Self { records: engine.follow(first), first, before, stretch: STRETCH_FIRST, has_older })
    }

    fn is_at_end(&self) -> bool {
        self.before <= self.first
    }

    /// Reads a stretch. Returns the transfers that may match, newest first.
    fn read(&mut self, search: &Search) -> Result<Vec<Transfer>, FollowError> {
        let begin = self.before.saturating_sub(self.stretch).max(self.first);
        let (mut found, mut at) = (Vec::new(), begin);
        while at < self.before {
            match self.records.read(at) {
                Ok(DecodedRecord { record, .. }) => {
                    let prepared = record.events.into_iter().filter_map(|event| match event {
                        Event::TransferPrepared(transfer) => Some(transfer),
                        _ => None,
                    });
                    found.extend(prepared.filter(|transfer| (search.may_be_sought)(transfer)));
                    at += 1;
                }
                // Retention has removed records since the search began.
                Err(FollowError::Gone { oldest, .. }) if oldest > at => {
                    (self.first, self.has_older, at) = (oldest, true, oldest);
                }
                Err(error) => return Err(error),
            }
        }
        found.reverse();
        self.before = begin.max(self.first);
        self.stretch = (self.stretch * 2).min(STRETCH_MAX);
        Ok(found)
    }
}

/// A reader, the budget of its call, and the transfers that it read.
type Stretch = (PrepareReader, Budget, Result<Vec<Transfer>, FollowError>);

fn of_journal(error: &FollowError) -> SubmitError {
    SubmitError::Journal(error.to_string())
}

impl EngineHandle {
    /// Searches transfers from a position on, the newest first, until the limits of the call are reached. Each page of
    /// a search must have the same criteria.
    ///
    /// # Errors
    /// The journal or the archive cannot be read, or the engine does not answer.
    pub async fn find_newest(
        &self,
        search: Search,
        place: NewestPosition,
    ) -> Result<SearchResult<NewestPosition>, SubmitError> {
        let budget = Budget::new(search, Instant::now() + TIME_MAX);
        match place {
            NewestPosition::Older { begin, place } => self.find_older(budget, begin, place).await,
            NewestPosition::Recorded(before) => self.find_recorded(budget, before).await,
        }
    }

    async fn find_recorded(
        &self,
        mut budget: Budget,
        before: u64,
    ) -> Result<SearchResult<NewestPosition>, SubmitError> {
        let last = self.read(Ledger::last_seq).await?;
        let (engine, search) = (self.clone(), budget.search.clone());
        let open = move || PrepareReader::open(&engine, &search, before, last);
        let mut reader = blocking(open).await?.map_err(|error| of_journal(&error))?;
        while !reader.is_at_end() {
            let from = reader.before;
            let (read, after, prepared) = blocking(move || read_stretch(reader, budget)).await?;
            (reader, budget) = (read, after);
            let prepared = prepared.map_err(|error| of_journal(&error))?;
            budget.looked_at += usize::try_from(from - reader.before).unwrap_or(usize::MAX);
            if let Some(next) = self.look_up_all(prepared, &mut budget).await? {
                return Ok(SearchResult { transfers: budget.found, next: Some(next) });
            }
            if budget.is_used_up() {
                break;
            }
        }
        let next = match (reader.is_at_end(), reader.has_older) {
            (false, _) => NewestPosition::Recorded(reader.before),
            (true, false) => return Ok(SearchResult { transfers: budget.found, next: None }),
            (true, true) => {
                NewestPosition::Older { begin: reader.first, place: SearchPosition::Reserved(None) }
            }
        };
        match next {
            NewestPosition::Older { begin, place } if !budget.is_used_up() => {
                self.find_older(budget, begin, place).await
            }
            next => Ok(SearchResult { transfers: budget.found, next: Some(next) }),
        }
    }

    /// Looks up transfers in turn. Returns the position to continue at if the budget does not suffice for all.
    async fn look_up_all(
        &self,
        prepared: Vec<Transfer>,
        budget: &mut Budget,
    ) -> Result<Option<NewestPosition>, SubmitError> {
        let len = prepared.len();
        let mut looked_up = 0;
        let mut prepared = prepared.into_iter();
        while looked_up < len {
            let step: Vec<_> = prepared.by_ref().take(LOOK_UPS).collect();
            for (transfer, seq) in self.present_states(step).await? {
                if let Some(transfer) = transfer.filter(|transfer| (budget.search.is_sought)(transfer)) {
                    budget.found.push(transfer);
                }
                looked_up += 1;
                if budget.found.len() >= budget.search.limit {
                    return Ok(Some(NewestPosition::Recorded(seq)));
                }
                if looked_up.is_multiple_of(LOOK_UPS) && looked_up < len && budget.is_late() {
                    return Ok(Some(NewestPosition::Recorded(seq)));
                }
            }
        }
        Ok(None)
    }

    /// The transfers in their present states, each with the record of its prepare. `None` for a transfer that retention
    /// has removed.
    async fn present_states(
        &self,
        prepared: Vec<Transfer>,
    ) -> Result<Vec<(Option<Transfer>, u64)>, SubmitError> {
        let in_memory = self.read(move |ledger| {
            let present = |transfer: Transfer| match ledger.transfer(transfer.id) {
                Some(present) => (present.clone(), true),
                None => (transfer, false),
            };
            prepared.into_iter().map(present).collect::<Vec<_>>()
        });
        let mut states = Vec::new();
        for (transfer, is_present) in in_memory.await? {
            let seq = transfer.prepare_seq;
            // A rejected prepare is final.
            let is_final = is_present || transfer.state != TransferState::Reserved;
            let state = if is_final { Some(transfer) } else { self.read_archive(transfer.id).await? };
            states.push((state, seq));
        }
        Ok(states)
    }

    /// Searches the transfers whose prepares are before the first record of the journal.
    async fn find_older(
        &self,
        mut budget: Budget,
        begin: u64,
        place: SearchPosition,
    ) -> Result<SearchResult<NewestPosition>, SubmitError> {
        let is_sought = Arc::clone(&budget.search.is_sought);
        budget.search.is_sought =
            Arc::new(move |transfer: &Transfer| transfer.prepare_seq < begin && is_sought(transfer));
        let SearchResult { transfers, next } = self.look(budget, place, DivisionOrder::YoungestFirst).await?;
        let next = next.map(|place| NewestPosition::Older { begin, place });
        Ok(SearchResult { transfers, next })
    }
}

fn read_stretch(mut reader: PrepareReader, budget: Budget) -> Stretch {
    let prepared = reader.read(&budget.search);
    (reader, budget, prepared)
}
