//! A callback of a lane, and the meaning of a DFSP's answer.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::FixedState;
use upesi_engine::DurableRecord;
use upesi_ledger::CallbackKey;

/// Position of a callback among its target's callbacks: journal sequence, then index in the record.
pub type Position = (u64, u8);

/// A callback that the hub owes, with its durable record.
#[derive(Clone, Debug)]
pub struct OwedCallback {
    /// Identity and target.
    pub key: CallbackKey,
    /// A hash of the callback's subject. Callbacks with the same value are delivered one after the other, in order of
    /// their keys. If two subjects have the same value, they only wait for each other.
    pub order: u64,
    /// Size of the callback in memory: headers and body.
    pub bytes: usize,
    /// Whether it waits until its target has the answer to the request that caused it.
    /// [`Courier::answered`](crate::lanes::Courier::answered) reports that.
    pub awaits_answer: bool,
    /// The record that determines its content.
    pub record: Arc<DurableRecord>,
}

impl OwedCallback {
    /// The callback `key` of a record. The record must contain it.
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

    /// Its position among its target's callbacks.
    pub const fn position(&self) -> Position {
        (self.key.seq, self.key.index)
    }
}

/// The way in which the lane repeats a rejected callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repetition {
    /// The lane repeats the callback with growing delays until its deadline, because the DFSP may accept it later.
    UntilDeadline,
    /// The lane repeats the callback a few times with the longest delays, and then parks it. The answer will not change
    /// unless an operator acts.
    AFewTimes,
}

/// An answer other than 2xx.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Description of the answer.
    pub reason: String,
    /// How the callback is repeated.
    pub repetition: Repetition,
    /// Minimum delay before the repetition, if the DFSP named one.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// Duration of the pause of all callbacks that the DFSP requested. Only a temporary rejection concerns the DFSP;
    /// any other concerns its callback.
    pub(crate) fn pause(&self) -> Option<Duration> {
        self.retry_after.filter(|_| self.repetition == Repetition::UntilDeadline)
    }
}

/// The hop between payer and payee that a callback completes, and its duration, for measuring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopTiming {
    /// The prepare, to the payee: time since its decision.
    Prepare(Duration),
    /// The payee's answer, to the payer.
    Fulfil {
        /// Time since the decision of the answer.
        took: Duration,
        /// Time since the decision of the prepare, if known.
        in_all: Option<Duration>,
    },
}
