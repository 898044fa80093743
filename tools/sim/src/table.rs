//! The data of the simulators by id: transfers, bulk transfers and their items, and the last answers to quotes. The
//! data are divided into shards without a common lock.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use hashbrown::HashMap;
use tokio::sync::oneshot;
use upesi_types::{ErrorCode, Money, TransferId};

use crate::books::{IncomingState, OutgoingState};
use crate::condition::Text;

const SHARDS: usize = 64;
/// Number of finished transfers that each shard keeps for each side, to recognise repeated and contradicting messages.
/// The oldest are removed first. A message about a removed one counts as unexpected.
const FINISHED_PER_SHARD_MAX: usize = 32_768;

/// The outcome of a transfer for its payer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferOutcome {
    Committed,
    /// The callback reported ABORTED or an error.
    Aborted,
}

/// The end of a transfer, as its waiter receives it.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    pub outcome: TransferOutcome,
    pub at: Instant,
    /// The code of the error that ended it, if there was one.
    pub error_code: Option<ErrorCode>,
}

/// A transfer for its payer, or an FX transfer for its initiator.
pub(crate) struct Outgoing {
    pub payer: u32,
    pub moved: Money,
    pub state: OutgoingState,
    /// The condition that the fulfilment must answer, if the payee chose it; absent if it follows from the id.
    pub condition: Option<Box<Text>>,
    pub waiter: Option<oneshot::Sender<Finished>>,
    /// The FX transfer that pays for it. Both have the same outcome.
    pub fx_transfer: Option<TransferId>,
    /// For an FX transfer: the waiter for the FXP's fulfilment.
    pub fulfilled: Option<oneshot::Sender<Instant>>,
    pub is_fx_transfer: bool,
    /// For a payee's FX transfer: the amount that the payee gets.
    pub bought: Option<Money>,
}

impl Outgoing {
    /// An outgoing transfer that is sent now.
    pub const fn new(payer: u32, moved: Money) -> Self {
        Self {
            payer,
            moved,
            state: OutgoingState::Sent,
            condition: None,
            waiter: None,
            fx_transfer: None,
            fulfilled: None,
            is_fx_transfer: false,
            bought: None,
        }
    }
}

/// A transfer for its payee, or an FX transfer for its FXP.
pub(crate) struct Incoming {
    pub payee: u32,
    pub received: Money,
    pub state: IncomingState,
    /// For an FX transfer: the amount that the FXP sells.
    pub sold: Option<Money>,
    /// The FX transfer in which the payee sells the transfer's amount. Both have the same outcome.
    pub fx_transfer: Option<TransferId>,
}

type ById<T> = HashMap<TransferId, T, foldhash::fast::RandomState>;

/// Items that have an end, on one side. A limited number of ended items is kept, and the oldest are removed first.
struct Side<T, const FINISHED_MAX: usize> {
    /// Items without an end. They are few, and fit into the processor's caches.
    live: ById<T>,
    finished: ById<T>,
    /// Ended items, oldest first.
    order: VecDeque<TransferId>,
}

impl<T, const FINISHED_MAX: usize> Default for Side<T, FINISHED_MAX> {
    fn default() -> Self {
        Self { live: HashMap::default(), finished: HashMap::default(), order: VecDeque::new() }
    }
}

impl<T, const FINISHED_MAX: usize> Side<T, FINISHED_MAX> {
    fn enter(&mut self, id: TransferId, value: T) -> bool {
        !self.finished.contains_key(&id) && self.live.try_insert(id, value).is_ok()
    }

    fn get(&self, id: &TransferId) -> Option<&T> {
        self.live.get(id).or_else(|| self.finished.get(id))
    }

    fn change<R>(
        &mut self,
        id: &TransferId,
        has_ended: impl FnOnce(&T) -> bool,
        change: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let Some(value) = self.live.get_mut(id) else { return self.finished.get_mut(id).map(change) };
        let result = change(value);
        if has_ended(value)
            && let Some(value) = self.live.remove(id)
        {
            self.finish(*id, value);
        }
        Some(result)
    }

    fn finish(&mut self, id: TransferId, value: T) {
        if self.finished.insert(id, value).is_some() {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > FINISHED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.finished.remove(&oldest);
        }
    }
}

struct Shards<T>(Box<[Mutex<T>]>);

impl<T: Default> Shards<T> {
    fn new(count: usize) -> Self {
        Self((0..count).map(|_| Mutex::default()).collect())
    }

    fn of(&self, id: &TransferId) -> MutexGuard<'_, T> {
        // The last byte of both forms of an id is random.
        let index = usize::from(id.to_bytes()[16]) % self.0.len();
        self.0[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Shard {
    outgoing: Side<Outgoing, FINISHED_PER_SHARD_MAX>,
    incoming: Side<Incoming, FINISHED_PER_SHARD_MAX>,
}

pub(crate) struct Table(Shards<Shard>);

impl Table {
    pub fn new() -> Self {
        Self(Shards::new(SHARDS))
    }

    /// Enters a transfer that is sent now. Returns false if the id is already in use.
    pub fn enter_outgoing(&self, id: TransferId, transfer: Outgoing) -> bool {
        self.0.of(&id).outgoing.enter(id, transfer)
    }

    /// Enters a transfer that arrived. Returns false if it was known.
    pub fn enter_incoming(&self, id: TransferId, transfer: Incoming) -> bool {
        self.0.of(&id).incoming.enter(id, transfer)
    }

    /// Changes an outgoing transfer under its shard's lock; `None` if it is unknown.
    pub fn with_outgoing<R>(&self, id: &TransferId, change: impl FnOnce(&mut Outgoing) -> R) -> Option<R> {
        self.0.of(id).outgoing.change(id, |transfer| transfer.state.is_final(), change)
    }

    /// Changes an incoming transfer under its shard's lock; `None` if it is unknown.
    pub fn with_incoming<R>(&self, id: &TransferId, change: impl FnOnce(&mut Incoming) -> R) -> Option<R> {
        self.0.of(id).incoming.change(id, |transfer| transfer.state.is_final(), change)
    }

    /// The ids of outgoing transfers that were accepted and have no outcome, at most `count_max`.
    pub fn accepted_without_outcome(&self, count_max: usize) -> Vec<TransferId> {
        let mut found = Vec::new();
        for shard in &self.0.0 {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let open = shard.outgoing.live.iter().filter(|(_, one)| one.state == OutgoingState::Accepted);
            found.extend(open.map(|(id, _)| *id).take(count_max - found.len()));
        }
        found
    }
}

/// Number of ended bulk transfers that are kept for each side. The oldest are removed first. A message about a removed
/// one counts as unexpected.
const FINISHED_MAX: usize = 4_096;

/// A bulk transfer for one of its two sides.
pub(crate) struct Bulk {
    /// The payer of an outgoing one, the payee of an incoming one.
    pub dfsp: u32,
    pub items: Box<[TransferId]>,
    /// For an outgoing one: the waiter for its end.
    pub waiter: Option<oneshot::Sender<Finished>>,
}

type Sides = [Side<Bulk, FINISHED_MAX>; 2];

/// All bulk transfers. They are few compared with their items, so one lock is enough.
#[derive(Default)]
pub(crate) struct Bulks(Mutex<Sides>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BulkSide {
    Outgoing = 0,
    Incoming = 1,
}

impl Bulks {
    fn sides(&self) -> MutexGuard<'_, Sides> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a bulk transfer. Returns false if its id is in use on that side.
    pub fn enter(&self, side: BulkSide, id: TransferId, bulk: Bulk) -> bool {
        self.sides()[side as usize].enter(id, bulk)
    }

    /// The DFSP's side of a bulk transfer, and the items.
    pub fn of(&self, dfsp: u32, id: &TransferId) -> Option<(BulkSide, Box<[TransferId]>)> {
        let sides = self.sides();
        [BulkSide::Outgoing, BulkSide::Incoming].into_iter().find_map(|side| {
            let bulk = sides[side as usize].get(id).filter(|bulk| bulk.dfsp == dfsp)?;
            Some((side, bulk.items.clone()))
        })
    }

    /// Records the end of a bulk transfer. Returns its waiter the first time.
    pub fn finish(&self, side: BulkSide, id: &TransferId) -> Option<oneshot::Sender<Finished>> {
        self.sides()[side as usize].change(id, |_| true, |bulk| bulk.waiter.take()).flatten()
    }
}

const ANSWER_SHARDS: usize = 16;
/// Number of answers per shard; the oldest are removed first. Together they take about ten megabytes.
const ANSWERS_PER_SHARD_MAX: usize = 512;

/// Bodies by the id of the quote, bulk quote or FX quote.
pub(crate) struct AnswerMemory(Shards<Side<Bytes, ANSWERS_PER_SHARD_MAX>>);

impl AnswerMemory {
    pub fn new() -> Self {
        Self(Shards::new(ANSWER_SHARDS))
    }

    pub fn keep(&self, id: TransferId, body: Bytes) {
        self.0.of(&id).finish(id, body);
    }

    pub fn find(&self, id: &TransferId) -> Option<Bytes> {
        self.0.of(id).get(id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use upesi_types::{Amount, Currency};

    use super::*;

    fn outgoing() -> Outgoing {
        Outgoing::new(0, Money { amount: Amount::ZERO, currency: Currency::parse("KES").unwrap() })
    }

    #[test]
    fn finished_transfers_are_kept_up_to_the_limit() {
        let table = Table::new();
        let id = |number: u32| {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&number.to_be_bytes());
            TransferId::from_random_bytes(bytes)
        };
        let count = FINISHED_PER_SHARD_MAX as u32 + 10;
        for number in 0..count {
            assert!(table.enter_outgoing(id(number), outgoing()));
            assert!(!table.enter_outgoing(id(number), outgoing()));
            table.with_outgoing(&id(number), |transfer| transfer.state = OutgoingState::Committed);
        }
        // All ids share one shard, since their last bytes are equal.
        assert_eq!(table.0.of(&id(0)).outgoing.finished.len(), FINISHED_PER_SHARD_MAX);
        assert!(table.with_outgoing(&id(9), |_| ()).is_none());
        assert!(table.with_outgoing(&id(10), |_| ()).is_some());
    }

    #[test]
    fn open_transfers_are_listed_up_to_the_limit() {
        let table = Table::new();
        for number in 0..200_u8 {
            let id = TransferId::from_random_bytes([number; 16]);
            table.enter_outgoing(id, outgoing());
            table.with_outgoing(&id, |transfer| transfer.state = OutgoingState::Accepted);
        }
        assert_eq!(table.accepted_without_outcome(20).len(), 20);
        assert_eq!(table.accepted_without_outcome(1000).len(), 200);
    }

    #[test]
    fn bulk_transfer_is_found_by_its_parties_until_many_ended() {
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

    #[test]
    fn only_the_last_answers_are_kept() {
        let remembered = AnswerMemory::new();
        let id = |number: u16| {
            let mut bytes = [0; 16];
            bytes[..2].copy_from_slice(&number.to_be_bytes());
            TransferId::from_random_bytes(bytes)
        };
        let count = ANSWERS_PER_SHARD_MAX as u16;
        for number in 0..count + 2 {
            for _ in 0..2 {
                remembered.keep(id(number), Bytes::from(number.to_string()));
            }
        }
        let found = [0, 1, 2, count + 1].map(|number| remembered.find(&id(number)));
        assert_eq!(found, [None, None, Some("2".into()), Some((count + 1).to_string().into())]);
    }
}
