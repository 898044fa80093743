//! `GET /audit`: the entries of the audit trail by operator, action, time and outcome. `GET /audit/checkpoint`: its
//! end, signed.

mod checkpoint;
mod entry;

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use upesi_engine::{Clock as _, DecodedRecord, EngineHandle, FollowError};
use upesi_ledger::{Event, Record};
use upesi_types::{Timestamp, hex};

use super::call::Parameters;
use crate::call::Call;
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::json::{Instant, ok};

pub use checkpoint::{AuditKey, AuditKeyError, AuditPublicKey, Checkpoint, CheckpointError, log_checkpoints};
pub use entry::{AttemptOutcome, AuditEntryView, EntryFilter, ExportedEntry};

/// Default number of entries per page.
const PAGE_DEFAULT: usize = 100;
/// Maximum number of entries per page.
const PAGE_MAX: usize = 1_000;
/// Maximum number of journal records that one call reads.
const RECORDS_READ_MAX: u64 = 100_000;
/// Number of records that a backward search reads at a time.
const STRETCH_RECORDS: u64 = 2_000;
/// Maximum number of concurrent calls that read the journal; further ones are answered 503.
const READERS_MAX: usize = 2;
/// The parameters.
const NAMES: [&str; 8] = ["operator", "action", "object", "outcome", "from", "to", "limit", "cursor"];

/// State of the calls about the audit trail. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AuditPort {
    /// Signs checkpoints, if there is a key.
    pub key: Option<Arc<AuditKey>>,
    readers: Arc<Semaphore>,
}

impl AuditPort {
    /// `key` signs checkpoints, if there is one.
    pub fn new(key: Option<Arc<AuditKey>>) -> Self {
        Self { key, readers: Arc::new(Semaphore::new(READERS_MAX)) }
    }

    /// A slot for a call that reads the journal; `None` if all are in use.
    pub(crate) fn reader(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.readers).try_acquire_owned().ok()
    }
}

/// A page of the audit trail.
#[derive(Serialize)]
pub struct Page {
    pub entries: Vec<AuditEntryView>,
    /// The `cursor` of the next page; absent at the end.
    pub next: Option<String>,
}

/// The entries of some records, and the record to continue with.
struct EntryPage {
    entries: Vec<AuditEntryView>,
    next: Option<u64>,
}

fn filter(parameters: &Parameters) -> Result<EntryFilter, ApiError> {
    let text = |name| parameters.get(name).map(Box::from);
    let outcome = parameters.get("outcome").map(|text| {
        AttemptOutcome::parse(text)
            .ok_or_else(|| ApiError::malformed("\"outcome\" must be one of [done, refused]"))
    });
    Ok(EntryFilter {
        operator: text("operator"),
        action: text("action"),
        object: text("object"),
        outcome: outcome.transpose()?,
        since: parameters.instant("from")?,
        until: parameters.instant("to")?,
    })
}

pub(crate) async fn list(
    call: Call,
    State(audit): State<AuditPort>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    parameters.only(&NAMES)?;
    let limit = parameters.count("limit", PAGE_DEFAULT, PAGE_MAX)?;
    let filter = filter(&parameters)?;
    let cursor = match parameters.get("cursor").map(str::parse::<u64>) {
        None => None,
        Some(Ok(seq)) if seq > 0 => Some(seq),
        Some(_) => return Err(ApiError::malformed("\"cursor\" must be the \"next\" of a page")),
    };
    let Some(permit) = audit.reader() else {
        return Err(ApiError::new(ErrorName::Busy, "Other clients are reading the audit trail: try again"));
    };
    let engine = call.engine.clone();
    let last = call.ask(upesi_ledger::Ledger::last_seq).await?;
    let read = move || {
        let found = read(&engine, cursor, last, &filter, limit);
        drop(permit);
        found
    };
    let found = tokio::task::spawn_blocking(read).await;
    let found = found.map_err(|_| ApiError::internal("The reader of the journal ended early"))?;
    let EntryPage { entries, next } = found.map_err(|error| ApiError::internal(&error.to_string()))?;
    ok(&Page { entries, next: next.map(|seq| seq.to_string()) })
}

/// The entries from a record on; without one, from the first record of the requested time.
fn read(
    engine: &EngineHandle,
    cursor: Option<u64>,
    last: u64,
    filter: &EntryFilter,
    limit: usize,
) -> Result<EntryPage, FollowError> {
    let from = match cursor {
        Some(seq) => seq,
        None => engine.first_since(filter.since.unwrap_or(Timestamp::EPOCH), last)?,
    };
    let mut records = engine.follow(from);
    let mut entries = Vec::new();
    let mut seq = from;
    while seq <= last {
        if entries.len() == limit || seq - from == RECORDS_READ_MAX {
            return Ok(EntryPage { entries, next: Some(seq) });
        }
        let followed = match records.next_up_to(last) {
            Ok(Some(followed)) => followed,
            Ok(None) => break,
            // Retention has removed records since the previous page.
            Err(FollowError::Gone { oldest, .. }) if oldest > seq => {
                return Ok(EntryPage { entries, next: Some(oldest) });
            }
            Err(error) => return Err(error),
        };
        if filter.until.is_some_and(|until| followed.time >= until) {
            break;
        }
        let DecodedRecord { seq: at, record, .. } = followed;
        for event in &record.events {
            if let Event::OperatorActed(entry) = event
                && filter.is_met_by(entry)
            {
                entries.push(AuditEntryView::of(at, entry, &record.events));
            }
        }
        seq = at + 1;
        let Record { events, callbacks, .. } = record;
        records.reuse(events, callbacks);
    }
    Ok(EntryPage { entries, next: None })
}

/// The newest entries before a record, or of the whole trail, newest first. `next` is the record to continue before.
///
/// # Errors
/// Too many callers are reading the journal, or it cannot be read.
pub async fn newest(
    call: &Call,
    audit: &AuditPort,
    parameters: &Parameters,
    before: Option<u64>,
    max: usize,
) -> Result<Page, ApiError> {
    let filter = filter(parameters)?;
    let Some(permit) = audit.reader() else {
        return Err(ApiError::new(ErrorName::Busy, "Other clients are reading the audit trail: try again"));
    };
    let engine = call.engine.clone();
    let last = call.ask(upesi_ledger::Ledger::last_seq).await?;
    let read = move || {
        let found = read_back(&engine, before.unwrap_or(last + 1).min(last + 1), &filter, max);
        drop(permit);
        found
    };
    let found = tokio::task::spawn_blocking(read).await;
    let found = found.map_err(|_| ApiError::internal("The reader of the journal ended early"))?;
    let EntryPage { entries, next } = found.map_err(|error| ApiError::internal(&error.to_string()))?;
    Ok(Page { entries, next: next.map(|seq| seq.to_string()) })
}

/// Reads the requested time backwards, a stretch of records at a time.
fn read_back(
    engine: &EngineHandle,
    before: u64,
    filter: &EntryFilter,
    max: usize,
) -> Result<EntryPage, FollowError> {
    let first = |since| engine.first_since(since, before.saturating_sub(1));
    let oldest = first(filter.since.unwrap_or(Timestamp::EPOCH))?;
    let before = filter.until.map_or(Ok(before), first)?.min(before);
    let (mut found, mut end) = (Vec::new(), before);
    while end > oldest && found.len() < max && before - end < RECORDS_READ_MAX {
        let begin = end.saturating_sub(STRETCH_RECORDS).max(oldest);
        let EntryPage { mut entries, .. } = read(engine, Some(begin), end - 1, filter, usize::MAX)?;
        entries.reverse();
        found.append(&mut entries);
        end = begin;
    }
    // A cut page continues before its last entry.
    if let Some(last) = found.get(max).map(|_| found[max - 1].record) {
        let cut = found.iter().position(|entry| entry.record < last).unwrap_or(found.len());
        found.truncate(cut);
        end = last;
    }
    Ok(EntryPage { entries: found, next: (end > oldest).then_some(end) })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckpointView {
    /// Number of entries in the trail.
    number: u64,
    /// The `chain` of the last entry.
    chain: String,
    signed_date: Instant,
    /// The line that `upesi trail --checkpoints` reads.
    checkpoint: String,
}

/// Signs the current end of the trail.
pub(crate) async fn checkpoint(call: Call, State(audit): State<AuditPort>) -> Result<Response, ApiError> {
    let Some(key) = audit.key.clone() else {
        let detail = "This hub does not sign checkpoints: admin.audit_key_file is not set";
        return Err(ApiError::new(ErrorName::CheckpointsOff, detail));
    };
    let made = sign_end(&call.engine, &key).await?;
    ok(&CheckpointView {
        number: made.number,
        chain: hex(&made.chain),
        signed_date: Instant(made.at),
        checkpoint: made.to_string(),
    })
}

/// A checkpoint of the current end of the trail.
pub(crate) async fn sign_end(engine: &EngineHandle, key: &AuditKey) -> Result<Checkpoint, ApiError> {
    let trail = engine.read(upesi_ledger::Ledger::trail).await?;
    Ok(key.sign(trail.count, engine.clock().now(), trail.head))
}
