//! Finding transfers in memory and archive, a bounded piece at a time.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use upesi_ledger::codec::Decoder;
use upesi_ledger::{Ledger, Stored as _, Transfer};
use upesi_tables::archive::Archive;
use upesi_types::Timestamp;

use crate::error::SubmitError;
use crate::handle::{EngineHandle, blocking};

/// Transfers that one question to the engine's thread looks at, so that payments do not wait for it.
const PER_QUESTION_MAX: usize = 1_000;
/// How long one call may look.
const TIME_MAX: Duration = Duration::from_millis(250);

/// Which transfers are sought.
#[derive(Clone)]
pub struct Search {
    /// Tells them from the others.
    pub is_sought: Arc<dyn Fn(&Transfer) -> bool + Send + Sync>,
    /// None of them finished before.
    pub since: Timestamp,
    /// Most that one call gives.
    pub limit: usize,
    /// Most that one call looks at.
    pub look_at_max: usize,
}

/// How far a search has come. What moves on while a search goes on is found at least once: from the reserved ones to
/// the finished ones in memory, and on to the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchPlace {
    /// Among the reserved transfers, behind this deadline and slot.
    Reserved(Option<(Timestamp, u32)>),
    /// Among the finished ones in memory, behind the number of this record's.
    Finished(u64, u32),
    /// In the archive.
    Archived(upesi_tables::archive::Place),
}

/// A piece of what is found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The transfers.
    pub transfers: Vec<Transfer>,
    /// Where to go on; absent when the search is over.
    pub next: Option<SearchPlace>,
}

/// What one call may still do.
struct Budget {
    search: Search,
    until: Instant,
    looked_at: usize,
    found: Vec<Transfer>,
}

impl Budget {
    fn is_used_up(&self) -> bool {
        self.found.len() >= self.search.limit
            || self.looked_at >= self.search.look_at_max
            || Instant::now() >= self.until
    }

    fn look_at(&mut self, transfer: &Transfer) {
        self.looked_at += 1;
        if (self.search.is_sought)(transfer) {
            self.found.push(transfer.clone());
        }
    }
}

impl EngineHandle {
    /// Looks for transfers from a place on, until there are enough or it has taken long enough.
    pub async fn find(&self, search: Search, place: SearchPlace) -> Result<Found, SubmitError> {
        let until = Instant::now() + TIME_MAX;
        let mut budget = Budget { search, until, looked_at: 0, found: Vec::new() };
        let mut place = place;
        loop {
            let next = match place {
                SearchPlace::Archived(within) => {
                    let archive = self.archive().ok_or(SubmitError::Stopped)?;
                    let looked = blocking(move || in_archive(&*archive, within, budget));
                    let (after, next) = looked.await?;
                    budget = after;
                    next?.map(SearchPlace::Archived)
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
                next => return Ok(Found { transfers: budget.found, next }),
            }
        }
    }
}

/// One question: some of the transfers in memory.
fn look_in_memory(ledger: &Ledger, place: SearchPlace, mut budget: Budget) -> (Budget, SearchPlace) {
    let room = |budget: &Budget, looked_at| looked_at < PER_QUESTION_MAX && !budget.is_used_up();
    let mut looked_at = 0;
    match place {
        SearchPlace::Reserved(mut last) => {
            for (here, transfer) in ledger.reserved_behind(last) {
                if !room(&budget, looked_at) {
                    return (budget, SearchPlace::Reserved(last));
                }
                budget.look_at(transfer);
                (last, looked_at) = (Some(here), looked_at + 1);
            }
            (budget, SearchPlace::Finished(0, 0))
        }
        SearchPlace::Finished(seq, passed) => {
            let mut last = (seq, passed);
            for (here, transfer) in ledger.finished_behind(last) {
                if !room(&budget, looked_at) {
                    return (budget, SearchPlace::Finished(last.0, last.1));
                }
                budget.look_at(transfer);
                (last, looked_at) = (here, looked_at + 1);
            }
            (budget, SearchPlace::Archived(upesi_tables::archive::Place::default()))
        }
        archived @ SearchPlace::Archived(_) => (budget, archived),
    }
}

type Looked = (Budget, Result<Option<upesi_tables::archive::Place>, SubmitError>);

fn in_archive(archive: &dyn Archive, place: upesi_tables::archive::Place, mut budget: Budget) -> Looked {
    let (mut last, mut damage) = (place, None);
    let since = budget.search.since;
    let mut is_over = true;
    let visited = archive.visit_behind(place, since, &mut |here, bytes| {
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
