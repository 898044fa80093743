//! Data that leaves the engine once it is durable.

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

/// Longest headers, in bytes, that are stored for a request that changes no transfer.
const REFUSED_HEADERS_BYTES_MAX: usize = 8 * 1024;

impl Payload {
    /// The payload of a record that was read.
    pub(crate) fn of(record: &Record<'_>) -> Self {
        let [headers, body] = [record.payload.headers, record.payload.body].map(Bytes::copy_from_slice);
        Self { headers, body }
    }

    /// Returns the part of a request that is stored with these events. A request that changes a transfer is stored
    /// completely. For rejections and queries, the body is not stored, and the headers, which the callback needs, are
    /// stored unless they are very long. The event of a rejected prepare contains the fingerprint that identifies a
    /// resend. Rejected requests can therefore not fill the disk.
    pub(crate) fn kept_for(mut self, events: &[Event]) -> Self {
        let changes_nothing = |event: &Event| match event {
            Event::TransferPrepared(transfer) => transfer.state != TransferState::Reserved,
            Event::FxTransferPrepared(fx_transfer) => !fx_transfer.is_live(),
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

/// A journal record that is durable and owes callbacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableRecord {
    /// Journal sequence number.
    pub seq: u64,
    /// Time of the decision.
    pub time: Timestamp,
    pub callbacks: Vec<Callback>,
    /// The request that caused them.
    pub payload: Payload,
    /// If a payee's PUT ended a transfer: the time since the transfer was prepared, for measuring. The journal does not
    /// store it, so it is `None` for a record that was read back.
    pub prepared_before: Option<Duration>,
    /// The DFSP that sent the request, if it waits for the response. Callbacks to that DFSP wait for
    /// [`AnswerListener::answered`]. `None` for a record that was read back.
    pub asker: Option<ParticipantId>,
}

impl DurableRecord {
    /// The keys of the callbacks, in order.
    pub fn keys(&self) -> impl Iterator<Item = CallbackKey> {
        let key = |(index, callback)| CallbackKey::of(callback, self.seq, index);
        self.callbacks.iter().enumerate().map(key)
    }
}

/// Receives the effects of durable records, on the thread that made them durable. Implementations must be quick and
/// must not block.
pub trait Effects: Send {
    /// A record that owes callbacks has become durable.
    fn publish(&mut self, record: &Arc<DurableRecord>);

    /// Parked callbacks are to be redelivered.
    fn redeliver(&mut self, keys: &[CallbackKey]);

    /// All records of a batch have been published.
    fn flush(&mut self);

    /// Participants, their accounts or endpoints have changed.
    fn participants(&mut self, participants: Arc<Participants>);

    /// Releases callbacks that wait for responses. With `None`, no record names an asker.
    fn answers(&self) -> Option<Arc<dyn AnswerListener>> {
        None
    }
}

/// Releases callbacks that wait until their target has the response to the request that caused them.
pub trait AnswerListener: Send + Sync {
    /// The senders of these records have their responses, or no longer wait for them. Called once for each record that
    /// has an asker, some time after the record was published, on any thread. Implementations must be quick and must
    /// not block.
    fn answered(&self, records: &[Arc<DurableRecord>]);
}

/// Leaves all callbacks in the outbox.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEffects;

impl Effects for NoEffects {
    fn publish(&mut self, _record: &Arc<DurableRecord>) {}

    fn redeliver(&mut self, _keys: &[CallbackKey]) {}

    fn flush(&mut self) {}

    fn participants(&mut self, _participants: Arc<Participants>) {}
}
