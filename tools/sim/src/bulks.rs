//! Bulks that the simulators know, by id: whom they are between, and the transfers that they are made of.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use tokio::sync::oneshot;
use upesi_types::TransferId;

use crate::table::Finished;

/// Bulks remembered of each side after they ended; the oldest are forgotten first, and a message about one of those
/// counts as unexpected.
const FINISHED_MAX: usize = 4_096;

/// A bulk for one of its two sides.
pub(crate) struct Bulk {
    /// The payer of one that left, the payee of one that arrived.
    pub dfsp: u32,
    pub items: Box<[TransferId]>,
    /// Of one that left: who waits for its end.
    pub waiter: Option<oneshot::Sender<Finished>>,
}

#[derive(Default)]
struct Side {
    known: HashMap<TransferId, Bulk, foldhash::fast::RandomState>,
    finished: VecDeque<TransferId>,
}

/// All bulks. They are few beside their items, so one lock is enough.
#[derive(Default)]
pub(crate) struct Bulks {
    sides: Mutex<[Side; 2]>,
}

/// Which side of a bulk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BulkSide {
    Outgoing = 0,
    Incoming = 1,
}

impl Bulks {
    fn sides(&self) -> MutexGuard<'_, [Side; 2]> {
        self.sides.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a bulk; false when its id is taken on that side.
    pub fn enter(&self, side: BulkSide, id: TransferId, bulk: Bulk) -> bool {
        self.sides()[side as usize].known.try_insert(id, bulk).is_ok()
    }

    /// The side on which a DFSP has a bulk, and its items.
    pub fn of(&self, dfsp: u32, id: &TransferId) -> Option<(BulkSide, Box<[TransferId]>)> {
        let sides = self.sides();
        [BulkSide::Outgoing, BulkSide::Incoming].into_iter().find_map(|side| {
            let bulk = sides[side as usize].known.get(id).filter(|bulk| bulk.dfsp == dfsp)?;
            Some((side, bulk.items.clone()))
        })
    }

    /// Notes the end of a bulk; gives who waits for it, the first time.
    pub fn finish(&self, side: BulkSide, id: &TransferId) -> Option<oneshot::Sender<Finished>> {
        let mut sides = self.sides();
        let Side { known, finished } = &mut sides[side as usize];
        let waiter = known.get_mut(id).and_then(|bulk| bulk.waiter.take());
        if !finished.contains(id) {
            finished.push_back(*id);
            if finished.len() > FINISHED_MAX
                && let Some(oldest) = finished.pop_front()
            {
                known.remove(&oldest);
            }
        }
        waiter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulks_are_found_by_those_they_are_between_and_forgotten_when_many_ended() {
        let bulks = Bulks::default();
        let id = |number: u16| {
            let mut bytes = [0; 16];
            bytes[..2].copy_from_slice(&number.to_be_bytes());
            TransferId::from_random_bytes(bytes)
        };
        let bulk = |dfsp| Bulk { dfsp, items: Box::new([id(9)]), waiter: None };
        assert!(
            bulks.enter(BulkSide::Outgoing, id(1), bulk(1))
                && bulks.enter(BulkSide::Incoming, id(1), bulk(2))
        );
        assert!(!bulks.enter(BulkSide::Outgoing, id(1), bulk(3)));
        let side = |dfsp| bulks.of(dfsp, &id(1)).map(|(side, _)| side);
        let sides = [side(1), side(2), side(3)];
        assert_eq!(sides, [Some(BulkSide::Outgoing), Some(BulkSide::Incoming), None]);
        for number in 1..=FINISHED_MAX as u16 + 1 {
            bulks.enter(BulkSide::Outgoing, id(number), bulk(1));
            assert!(bulks.finish(BulkSide::Outgoing, &id(number)).is_none());
            assert!(bulks.finish(BulkSide::Outgoing, &id(number)).is_none());
        }
        assert!(
            bulks.of(1, &id(1)).is_none() && bulks.of(1, &id(2)).is_some() && bulks.of(2, &id(1)).is_some()
        );
    }
}
