//! `GET /transfers/{id}/progress`: the callbacks of a transfer with their deliveries, and the state of its settlement.
//!
//! 1. The records of the prepare and of the end contain the callbacks. Later records report the deliveries.
//! 2. A call reads a limited number of records after each of both. A DFSP that answers gets its callback within
//!    milliseconds.
//! 3. A callback that the outbox no longer contains was delivered, even if its delivery record was not read. Then the
//!    answer has no time of delivery.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use upesi_engine::{EngineHandle, FollowError};
use upesi_ledger::{
    Callback, CallbackKey, Event, Ledger, Record, Subject, Transfer, TransferState, WindowId,
};
use upesi_types::{Timestamp, TransferId};

use super::call::{Segments, transfer_id};
use crate::audit::AuditPort;
use crate::call::Call;
use crate::callbacks::{Key, message_of};
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::json::{Instant, ok};
use crate::parts::Lanes;

/// Maximum number of journal records that one call reads after the prepare, and again after the end.
const RECORDS_READ_MAX: u64 = 20_000;

/// The callbacks of a transfer, and the state of its settlement.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgressView {
    pub transfer_id: String,
    /// Oldest first.
    pub callbacks: Vec<ToldView>,
    /// Whether all records were read that could contain callbacks of the transfer.
    pub is_whole: bool,
    /// Absent before the commit, and if the commit settled the transfer.
    pub settlement: Option<SettlementView>,
}

/// A callback of the transfer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToldView {
    pub key: Key,
    pub participant: String,
    pub message: String,
    pub state: &'static str,
    pub created_date: Instant,
    /// Time of the record of the delivery, shortly after it. Absent if the callback is undelivered, or if its delivery
    /// record was not read.
    pub delivered_date: Option<Instant>,
    /// Failed attempts; absent without any, and after the delivery.
    pub attempts: Option<u32>,
    /// Reason of the last failure.
    pub reason: Option<Box<str>>,
}

/// The settlement window of a transfer, and the settlement that contains it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SettlementView {
    pub window_id: u32,
    pub window_state: &'static str,
    /// The settlement that contains, or last contained, the window's part in the transfer's currency.
    pub settlement_id: Option<u32>,
    pub settlement_state: Option<&'static str>,
}

impl SettlementView {
    fn of(ledger: &Ledger, transfer: &Transfer, id: WindowId) -> Option<Self> {
        let window = ledger.window(id)?;
        let kind =
            transfer.payer_account.and_then(|account| ledger.account(account)).map(|account| account.kind);
        let mut contents = window.contents.iter();
        let content = contents.find(|one| one.currency == transfer.currency && Some(one.kind) == kind);
        let settlement = content.and_then(|content| ledger.settlement(content.settlement?));
        Some(Self {
            window_id: id.0,
            window_state: content.map_or(window.state, |content| content.state).as_str(),
            settlement_id: settlement.map(|settlement| settlement.id.0),
            settlement_state: settlement.map(|settlement| settlement.state.as_str()),
        })
    }
}

/// A callback in the journal.
struct SentCallback {
    message: String,
    created_at: Timestamp,
    delivered_at: Option<Timestamp>,
}

/// The callbacks of a transfer in the journal.
struct CallbackReader {
    /// Subject of the callbacks: the transfer, or the bulk transfer that contains it.
    subject: Subject,
    told: BTreeMap<(u64, u8), (CallbackKey, SentCallback)>,
    is_whole: bool,
}

impl CallbackReader {
    /// Reads from a record on, until all found callbacks are delivered. Returns the record to continue with.
    fn read(&mut self, engine: &EngineHandle, from: u64, last: u64) -> Result<u64, FollowError> {
        let to = last.min(from.saturating_add(RECORDS_READ_MAX - 1));
        let mut records = engine.follow(from);
        let mut next = from;
        while next <= to {
            let followed = match records.next_up_to(to) {
                Ok(Some(followed)) => followed,
                Ok(None) => break,
                Err(FollowError::Gone { .. }) => {
                    self.is_whole = false;
                    return Ok(next);
                }
                Err(error) => return Err(error),
            };
            let (seq, time) = (followed.seq, followed.time);
            let Record { events, callbacks, .. } = followed.record;
            self.note(seq, time, &events, &callbacks);
            records.reuse(events, callbacks);
            next = seq + 1;
            if seq > from && self.is_all_delivered() {
                return Ok(next);
            }
        }
        self.is_whole &= to == last || self.is_all_delivered();
        Ok(next)
    }

    fn note(&mut self, seq: u64, time: Timestamp, events: &[Event], callbacks: &[Callback]) {
        for (index, callback) in callbacks.iter().enumerate() {
            if callback.subject == self.subject {
                let key = CallbackKey::of(callback, seq, index);
                let told =
                    SentCallback { message: message_of(callback), created_at: time, delivered_at: None };
                self.told.insert(key.age(), (key, told));
            }
        }
        for event in events {
            let Event::CallbacksDelivered(keys) = event else { continue };
            for key in keys {
                if let Some((_, told)) = self.told.get_mut(&key.age()).filter(|(told, _)| told == key) {
                    told.delivered_at = Some(time);
                }
            }
        }
    }

    fn is_all_delivered(&self) -> bool {
        self.told.values().all(|(_, told)| told.delivered_at.is_some())
    }
}

pub(crate) async fn get(
    call: Call,
    State(audit): State<AuditPort>,
    State(lanes): State<Arc<dyn Lanes>>,
    Segments(id): Segments<String>,
) -> Result<Response, ApiError> {
    ok(&read(&call, &audit, &lanes, transfer_id(&id)?).await?)
}

/// The callbacks of a transfer, and the state of its settlement.
///
/// # Errors
/// The transfer does not exist, other callers are reading the journal, or the engine does not answer.
pub async fn read(
    call: &Call,
    audit: &AuditPort,
    lanes: &Arc<dyn Lanes>,
    id: TransferId,
) -> Result<ProgressView, ApiError> {
    let unknown = || ApiError::new(ErrorName::TransferNotFound, &format!("Transfer {id} does not exist"));
    let transfer = call.engine.transfer(id).await?.ok_or_else(unknown)?;
    let subject = match call.engine.item_of(transfer.prepare_seq).await? {
        Some((bulk, _)) => Subject::bulk(bulk.id()),
        None => Subject::transfer(id),
    };
    let Some(permit) = audit.reader() else {
        return Err(ApiError::new(ErrorName::Busy, "Other clients are reading the journal: try again"));
    };
    let engine = call.engine.clone();
    let last = call.ask(Ledger::last_seq).await?;
    let (begin, end) = (transfer.prepare_seq, transfer.completed_at());
    let read_both = move || {
        let mut reading = CallbackReader { subject, told: BTreeMap::new(), is_whole: true };
        let next = reading.read(&engine, begin, last)?;
        if let Some(end) = end {
            let ended = engine.first_since(end, last)?;
            reading.read(&engine, ended.max(next), last)?;
        }
        drop(permit);
        Ok::<_, FollowError>(reading)
    };
    let reading = tokio::task::spawn_blocking(read_both).await;
    let reading = reading.map_err(|_| ApiError::internal("The reader of the journal ended early"))?;
    let reading = reading.map_err(|error| ApiError::internal(&error.to_string()))?;
    view(call, &**lanes, transfer, reading).await
}

async fn view(
    call: &Call,
    lanes: &dyn Lanes,
    transfer: Transfer,
    reading: CallbackReader,
) -> Result<ProgressView, ApiError> {
    let keys: Vec<_> = reading.told.values().map(|(key, _)| *key).collect();
    let failures: BTreeMap<_, _> =
        lanes.failures(&keys).into_iter().map(|failure| (failure.key, failure)).collect();
    let view = call.ask(move |ledger| {
        let told = reading.told.into_values().map(|(key, told)| {
            let owed = ledger.outbox().get(key);
            let parked = owed.as_ref().and_then(|entry| entry.parked);
            let failed = failures.get(&key).filter(|_| owed.is_some());
            let state = match (&owed, parked) {
                (None, _) => "delivered",
                (Some(_), None) => "pending",
                (Some(_), Some(_)) => "parked",
            };
            ToldView {
                key: Key(key),
                participant: ledger.participant(key.target).name.to_string(),
                message: told.message,
                state,
                created_date: Instant(told.created_at),
                delivered_date: told.delivered_at.filter(|_| owed.is_none()).map(Instant),
                attempts: parked.map(|parked| parked.attempts).or(failed.map(|failure| failure.attempts)),
                reason: parked
                    .map(|parked| parked.reason.clone())
                    .or(failed.map(|failure| failure.reason.as_str().into())),
            }
        });
        let window = match &transfer.state {
            TransferState::Committed(end) => end.window,
            TransferState::Reserved | TransferState::Aborted(_) => None,
        };
        ProgressView {
            transfer_id: transfer.id.to_string(),
            callbacks: told.collect(),
            is_whole: reading.is_whole,
            settlement: window.and_then(|window| SettlementView::of(ledger, &transfer, window)),
        }
    });
    view.await
}
