//! What leaves the engine once it is durable.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use upesi_ledger::{Callback, CallbackKey, Event, ParticipantId, Record, TransferState};
use upesi_types::Timestamp;

use crate::participants::Participants;

/// A request as it was received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// `name: value\r\n` lines, names in lower case, without hop-by-hop headers.
    pub headers: Bytes,
    /// The exact body.
    pub body: Bytes,
}

/// The longest headers, in bytes, that are kept of a request that changes no transfer.
const REFUSED_HEADERS_BYTES_MAX: usize = 8 * 1024;

impl Payload {
    /// That of a record that was read.
    pub(crate) fn of(record: &Record<'_>) -> Self {
        let [headers, body] = [record.payload.headers, record.payload.body].map(Bytes::copy_from_slice);
        Self { headers, body }
    }

    /// What is kept of the request that caused these events: all of what changes a transfer. Of what is refused, and of
    /// questions, the headers, from which the callback is made, unless they are very long; not the body. Of a refused
    /// prepare the event has the fingerprint, by which it is known again. So refusals cannot fill the disk.
    pub(crate) fn kept_for(mut self, events: &[Event]) -> Self {
        let changes_nothing = |event: &Event| match event {
            Event::TransferPrepared(transfer) => transfer.state != TransferState::Reserved,
            Event::ConversionPrepared(conversion) => !conversion.is_live(),
            Event::BulkReceived(bulk) => !bulk.is_live(),
            _ => false,
        };
        if events.iter().all(changes_nothing) {
            self.body = Bytes::new();
            if self.headers.len() > REFUSED_HEADERS_BYTES_MAX {
                self.headers = Bytes::new();
            }
        }
        self
    }
}

/// A journal record that is on disk and owes callbacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableRecord {
    /// Journal sequence.
    pub seq: u64,
    /// When it was decided.
    pub time: Timestamp,
    /// The callbacks owed.
    pub callbacks: Vec<Callback>,
    /// The request that caused them.
    pub payload: Payload,
    /// Where a PUT of the payee's ends a transfer: how long before it that was prepared, for measuring. The journal
    /// does not keep it, so a record that was read back has none.
    pub prepared_before: Option<Duration>,
    /// The DFSP whose request this is, if somebody waits for the answer to it: callbacks to that DFSP wait for
    /// [`Answered::answered`]. A record that was read back has none.
    pub asker: Option<ParticipantId>,
}

impl DurableRecord {
    /// The keys of its callbacks, in order.
    pub fn keys(&self) -> impl Iterator<Item = CallbackKey> {
        let key = |(index, callback)| CallbackKey::of(callback, self.seq, index);
        self.callbacks.iter().enumerate().map(key)
    }
}

/// Takes what the engine lets go, on the thread that made it durable: must be quick and must not block.
pub trait Effects: Send {
    /// A record that owes callbacks has become durable.
    fn publish(&mut self, record: &Arc<DurableRecord>);

    /// Parked callbacks are to be tried again.
    fn redeliver(&mut self, keys: &[CallbackKey]);

    /// Everything of a batch has been published.
    fn flush(&mut self);

    /// Participants, their accounts or endpoints have changed.
    fn participants(&mut self, participants: Arc<Participants>);

    /// Who lets callbacks wait for answers. Without, no record names an asker.
    fn answers(&self) -> Option<Arc<dyn Answered>> {
        None
    }
}

/// Lets callbacks go that wait until their target has the answer to the request that caused them.
pub trait Answered: Send + Sync {
    /// The askers of these records have their answers, or nobody waits for them any more. Each record that has an
    /// asker comes here once, some time after it was published, from whatever thread; must be quick and must not
    /// block.
    fn answered(&self, records: &[Arc<DurableRecord>]);
}

/// Lets callbacks wait in the outbox.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEffects;

impl Effects for NoEffects {
    fn publish(&mut self, _record: &Arc<DurableRecord>) {}

    fn redeliver(&mut self, _keys: &[CallbackKey]) {}

    fn flush(&mut self) {}

    fn participants(&mut self, _participants: Arc<Participants>) {}
}
