//! The deadlines of the reserved transfers.

use alloc::collections::BTreeSet;
use core::ops::{Bound, RangeBounds as _};

use upesi_types::Timestamp;

/// A reserved transfer: its deadline and its slot.
pub(super) type DeadlineKey = (Timestamp, u32);

/// The reserved transfers by deadline, then slot.
#[derive(Clone, Debug)]
pub(super) enum Deadlines {
    /// The deadlines in order, for a ledger that decides.
    Kept(BTreeSet<DeadlineKey>),
    /// Only the number of deadlines, for a ledger that only applies records. Queries that need the order sort the
    /// deadlines.
    Counted(usize),
}

impl Deadlines {
    pub(super) fn insert(&mut self, place: DeadlineKey) {
        match self {
            Self::Kept(places) => {
                places.insert(place);
            }
            Self::Counted(count) => *count += 1,
        }
    }

    /// Removes the deadline of a reserved transfer. Returns false if there is none.
    pub(super) fn remove(&mut self, place: &DeadlineKey) -> bool {
        match self {
            Self::Kept(places) => places.remove(place),
            Self::Counted(count) => match count.checked_sub(1) {
                Some(fewer) => {
                    *count = fewer;
                    true
                }
                None => false,
            },
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Kept(places) => places.len(),
            Self::Counted(count) => *count,
        }
    }

    /// The deadlines from a bound on, in order. If the order is not kept, `reserved` returns them in any order.
    pub(super) fn from<I: Iterator<Item = DeadlineKey>>(
        &self,
        lower: Bound<DeadlineKey>,
        reserved: impl FnOnce() -> I,
    ) -> impl Iterator<Item = DeadlineKey> {
        let range = (lower, Bound::Unbounded);
        let (kept, sorted) = match self {
            Self::Kept(places) => (Some(places.range(range).copied()), BTreeSet::new()),
            Self::Counted(_) => {
                let is_behind = |place: &DeadlineKey| range.contains(place);
                (None, reserved().filter(is_behind).collect())
            }
        };
        kept.into_iter().flatten().chain(sorted)
    }
}
