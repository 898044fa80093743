//! A callback as a lane takes it, and the meaning of a DFSP's answer.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::FixedState;
use upesi_engine::DurableRecord;
use upesi_ledger::CallbackKey;

/// Place of a callback among those of its target: journal sequence, then index in the record.
pub type Position = (u64, u8);

/// A callback that the hub owes, with the durable record that owes it.
#[derive(Clone, Debug)]
pub struct OwedCallback {
    /// Identity and target.
    pub key: CallbackKey,
    /// Callbacks of equal value are delivered one after the other, in order of their keys: a hash of what they are
    /// about. Two subjects with the same value only wait for each other.
    pub order: u64,
    /// Memory that the callback holds: headers and body.
    pub bytes: usize,
    /// Whether it waits until its target has the answer to the request that caused it, which
    /// [`Courier::answered`](crate::lanes::Courier::answered) reports.
    pub awaits_answer: bool,
    /// The record it is rendered from.
    pub record: Arc<DurableRecord>,
}

impl OwedCallback {
    /// The callback `key` of a record, which must be one of the record's own.
    pub fn new(key: CallbackKey, record: &Arc<DurableRecord>) -> Self {
        let callback = &record.callbacks[usize::from(key.index)];
        Self {
            key,
            order: FixedState::default().hash_one(&callback.subject),
            bytes: record.payload.headers.len() + record.payload.body.len() + callback.content.own_bytes(),
            awaits_answer: record.asker == Some(key.target),
            record: Arc::clone(record),
        }
    }

    /// Its place among those of its target.
    pub const fn position(&self) -> Position {
        (self.key.seq, self.key.index)
    }
}

/// How a callback that was refused is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repetition {
    /// With growing waits until its deadline: the DFSP may take it later.
    UntilDeadline,
    /// A few times, with the longest waits, then it is parked: the answer will not change unless an operator acts.
    AFewTimes,
}

/// An answer other than 2xx.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The answer, for people.
    pub reason: String,
    /// How the callback is repeated.
    pub repetition: Repetition,
    /// The least time after which it is repeated, if the DFSP named one.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// For how long the DFSP asked for no callback at all. Only an answer that may pass tells of the DFSP; another one
    /// tells of its callback.
    pub(crate) fn pause(&self) -> Option<Duration> {
        self.retry_after.filter(|_| self.repetition == Repetition::UntilDeadline)
    }
}

/// The hop between payer and payee that a callback ends, and how long the two have waited, for measuring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopTiming {
    /// The payer's prepare, to the payee: the time since it was decided.
    Prepare(Duration),
    /// The payee's answer to it, to the payer.
    Fulfil {
        /// The time since it was decided.
        took: Duration,
        /// The time since the prepare was decided, if known.
        in_all: Option<Duration>,
    },
}
