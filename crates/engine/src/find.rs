//! Searches transfers in memory and archive, with a limit for each call.

mod newest;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use upesi_ledger::codec::Decoder;
use upesi_ledger::{Ledger, Stored as _, Transfer};
use upesi_tables::archive::{Archive, DivisionOrder};
use upesi_types::Timestamp;

pub use self::newest::NewestPosition;
use crate::error::SubmitError;
use crate::handle::{EngineHandle, blocking};

/// Number of transfers that one query on the engine's thread examines, so that payments do not wait for it.
const PER_QUESTION_MAX: usize = 1_000;
/// Maximum duration of one call.
const TIME_MAX: Duration = Duration::from_millis(250);

/// Selects transfers.
pub type TransferFilter = Arc<dyn Fn(&Transfer) -> bool + Send + Sync>;

/// The criteria of a search.
#[derive(Clone)]
pub struct Search {
    /// Selects the transfers to return.
    pub is_sought: TransferFilter,
    /// Selects at least the same transfers, without regard to their states. A search from the newest on looks up only
    /// these.
    pub may_be_sought: TransferFilter,
    /// Transfers that finished before this time are excluded.
    pub since: Timestamp,
    /// A search from the newest on begins before the records of this time.
    pub until: Option<Timestamp>,
    /// Maximum number of transfers that one call returns.
    pub limit: usize,
    /// Maximum number of transfers that one call examines.
    pub look_at_max: usize,
}

/// The position of a search. A transfer that changes during the search is found at least once: it moves from the
/// reserved to the finished ones in memory, and then to the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchPosition {
    /// Among the reserved transfers, after this deadline and slot.
    Reserved(Option<(Timestamp, u32)>),
    /// Among the finished ones in memory, after this record and number within the record.
    Finished(u64, u32),
    /// In the archive.
    Archived(upesi_tables::archive::ArchivePosition),
}

/// A part of a search's result.
#[derive(Clone, Debug)]
pub struct SearchResult<P = SearchPosition> {
    pub transfers: Vec<Transfer>,
    /// The position where the search continues; `None` when it is complete.
    pub next: Option<P>,
}

/// The remaining budget of one call.
struct Budget {
    search: Search,
    until: Instant,
    looked_at: usize,
    found: Vec<Transfer>,
}

impl Budget {
    fn new(search: Search, until: Instant) -> Self {
        Self { search, until, looked_at: 0, found: Vec::new() }
    }

    fn is_used_up(&self) -> bool {
        self.found.len() >= self.search.limit || self.looked_at >= self.search.look_at_max || self.is_late()
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.until
    }

    fn look_at(&mut self, transfer: &Transfer) {
        self.looked_at += 1;
        if (self.search.is_sought)(transfer) {
            self.found.push(transfer.clone());
        }
    }
}

impl EngineHandle {
    /// Searches transfers from a position on, until the limits of the call are reached.
    pub async fn find(&self, search: Search, place: SearchPosition) -> Result<SearchResult, SubmitError> {
        let budget = Budget::new(search, Instant::now() + TIME_MAX);
        self.look(budget, place, DivisionOrder::OldestFirst).await
    }

    /// Continues a search with the rest of its budget.
    async fn look(
        &self,
        mut budget: Budget,
        mut place: SearchPosition,
        order: DivisionOrder,
    ) -> Result<SearchResult, SubmitError> {
        loop {
            let next = match place {
                SearchPosition::Archived(within) => {
                    let archive = self.archive().ok_or(SubmitError::Stopped)?;
                    let looked = blocking(move || in_archive(&*archive, within, order, budget));
                    let (after, next) = looked.await?;
                    budget = after;
                    next?.map(SearchPosition::Archived)
                }
                in_memory => {
                    let looked = self.read(move |ledger| look_in_memory(ledger, in_memory, budget));
                    let (after, next) = looked.await?;
                    budget = after;
                    Some(next)
                }
            };
            match next {
                Some(next) if !budget.is_used_up() => place = next,
                next => return Ok(SearchResult { transfers: budget.found, next }),
            }
        }
    }
}

/// One query: examines some of the transfers in memory.
fn look_in_memory(ledger: &Ledger, place: SearchPosition, mut budget: Budget) -> (Budget, SearchPosition) {
    let room = |budget: &Budget, looked_at| looked_at < PER_QUESTION_MAX && !budget.is_used_up();
    let mut looked_at = 0;
    match place {
        SearchPosition::Reserved(mut last) => {
            for (here, transfer) in ledger.reserved_behind(last) {
                if !room(&budget, looked_at) {
                    return (budget, SearchPosition::Reserved(last));
                }
                budget.look_at(transfer);
                (last, looked_at) = (Some(here), looked_at + 1);
            }
            (budget, SearchPosition::Finished(0, 0))
        }
        SearchPosition::Finished(seq, passed) => {
            let mut last = (seq, passed);
            for (here, transfer) in ledger.finished_behind(last) {
                if !room(&budget, looked_at) {
                    return (budget, SearchPosition::Finished(last.0, last.1));
                }
                budget.look_at(transfer);
                (last, looked_at) = (here, looked_at + 1);
            }
            (budget, SearchPosition::Archived(upesi_tables::archive::ArchivePosition::default()))
        }
        archived @ SearchPosition::Archived(_) => (budget, archived),
    }
}

type ArchiveSearch = (Budget, Result<Option<upesi_tables::archive::ArchivePosition>, SubmitError>);

fn in_archive(
    archive: &dyn Archive,
    place: upesi_tables::archive::ArchivePosition,
    order: DivisionOrder,
    mut budget: Budget,
) -> ArchiveSearch {
    let (mut last, mut damage) = (place, None);
    let since = budget.search.since;
    let mut is_over = true;
    let visited = archive.visit_behind(place, since, order, &mut |here, bytes| {
        if budget.is_used_up() {
            is_over = false;
            return ControlFlow::Break(());
        }
        if here.after.is_some_and(|key| !key.is_transfer()) {
            last = here;
            return ControlFlow::Continue(());
        }
        match Transfer::decode(&mut Decoder(bytes)) {
            Ok(transfer) => budget.look_at(&transfer),
            Err(error) => {
                damage = Some(SubmitError::Archive(error.to_string()));
                return ControlFlow::Break(());
            }
        }
        last = here;
        ControlFlow::Continue(())
    });
    let failed = visited.err().map(|error| SubmitError::Archive(error.to_string())).or(damage);
    let next = match failed {
        Some(error) => Err(error),
        None => Ok((!is_over).then_some(last)),
    };
    (budget, next)
}
