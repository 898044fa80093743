//! Stored quotes: durable before they are acknowledged, and retained for a limited time.
//!
//! Table `quotes` has up to four entries per quote: its head (time of its first message, expiration) and its messages.
//! Each message is written once, except the error: the last one is kept. Table `quotes_by_time` finds the
//! oldest quotes. One update changes both, so that they are always consistent.

mod encoding;
mod retention;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use upesi_fspiop::Resource;
use upesi_http::Bytes;
use upesi_tables::TablesError;
use upesi_tables::store::{Store, Table, Transaction};
use upesi_types::{FspId, Timestamp, TransferId};

use self::encoding::{Counts, Head, decode_message, encode_message, fingerprint_of};
use super::quote_key::QuoteKey;
use crate::config::Retention;
use crate::duplicates::{DuplicateStatus, Fingerprint};
use crate::metrics::QuotingMetrics;

/// Interval between searches for old quotes.
pub(crate) const RETENTION_INTERVAL: Duration = Duration::from_secs(10);

/// A message of a quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredMessageKind {
    Request = 1,
    Response = 2,
    Error = 3,
}

/// Names of this crate's tables in a store.
pub const TABLES: [&str; 2] = [QUOTES, BY_TIME];
const QUOTES: &str = "quotes";
const BY_TIME: &str = "quotes_by_time";

/// Number of a quote's head in its keys.
const HEAD: u8 = 0;
const PARTS: [u8; 4] = [
    HEAD,
    StoredMessageKind::Request as u8,
    StoredMessageKind::Response as u8,
    StoredMessageKind::Error as u8,
];

/// A message to store.
#[derive(Debug)]
pub(crate) struct MessageToKeep {
    pub(crate) part: StoredMessageKind,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) at: Timestamp,
    pub(crate) source: FspId,
    pub(crate) destination: Option<FspId>,
    /// For a request: the DFSP that receives it. For an answer or an error: its sender; `None` if the hub itself
    /// records an error, which it always may.
    pub(crate) payee: Option<FspId>,
    /// For a request: the expiration of its answer.
    pub(crate) expires_at: Option<Timestamp>,
    /// For an answer: it is not stored if the expiration is this time or earlier.
    pub(crate) too_late_at: Option<Timestamp>,
    pub(crate) headers: Bytes,
    pub(crate) body: Bytes,
}

/// A stored quote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptQuote {
    /// Kind of the quote.
    pub resource: Resource,
    pub id: TransferId,
    /// Time of its first message.
    pub began_at: Timestamp,
    /// Expiration of the answer, if the request has one.
    pub wanted_until: Option<Timestamp>,
    pub request: Option<KeptMessage>,
    /// The answer with the terms.
    pub response: Option<KeptMessage>,
    /// The last error about it: from a DFSP, or from the hub if a message could not be delivered.
    pub error: Option<KeptMessage>,
}

/// A stored message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptMessage {
    /// When the hub accepted it.
    pub at: Timestamp,
    /// Its sender.
    pub source: FspId,
    /// Its receiver, if it names one.
    pub destination: Option<FspId>,
    /// The message's headers as `name: value` lines, including the signature.
    pub headers: Vec<u8>,
    /// Its body, byte for byte.
    pub body: Vec<u8>,
}

/// The stored quotes.
pub(crate) struct KeptQuotes {
    store: Store,
    tables: Arc<Tables>,
    retention: Retention,
    /// The last key in `quotes_by_time` that was deleted: a search from the start would have to skip the deleted
    /// entries.
    swept: Mutex<Option<Vec<u8>>>,
    metrics: QuotingMetrics,
}

struct Tables {
    quotes: Table,
    by_time: Table,
}

impl KeptQuotes {
    pub(crate) fn open(
        store: Store,
        retention: Retention,
        metrics: QuotingMetrics,
    ) -> Result<Self, TablesError> {
        let tables = Tables { quotes: store.table(QUOTES)?, by_time: store.table(BY_TIME)? };
        let kept = Self { store, tables: Arc::new(tables), retention, swept: Mutex::new(None), metrics };
        kept.metrics.kept.set(kept.tables.counts()?.quotes as i64);
        Ok(kept)
    }

    /// Compares a message with the stored one, and stores it if there is none (an error: in any case). An answer or an
    /// error from a DFSP that was not queried is new each time and is not stored. Resolves when the message is durable.
    /// Also returns the expiration of the quote.
    pub(crate) async fn keep(
        &self,
        quote: QuoteKey,
        message: MessageToKeep,
    ) -> Result<(DuplicateStatus, Option<Timestamp>), TablesError> {
        let tables = Arc::clone(&self.tables);
        let update = self.store.update(move |tx| {
            let seen = tables.keep(tx, quote, &message)?;
            Ok((seen, tables.counts_in(tx)?))
        });
        let (seen, counts) = update.await?;
        self.metrics.kept.set(counts.quotes as i64);
        Ok(seen)
    }

    /// The payer's and the payee's DFSP of a stored request for a quote.
    pub(crate) fn asked(&self, quote: QuoteKey) -> Result<Option<(FspId, FspId)>, TablesError> {
        let value = |part: u8| self.tables.quotes.get(&key(quote, part));
        let head = value(HEAD)?.and_then(|head| Head::decode(&head));
        let request = value(StoredMessageKind::Request as u8)?.and_then(|request| decode_message(&request));
        Ok(request.zip(head.and_then(|head| head.payee)).map(|(request, payee)| (request.source, payee)))
    }

    /// A quote of any kind by its id.
    pub(crate) fn find(&self, id: &str) -> Result<Option<KeptQuote>, TablesError> {
        let Some(id) = TransferId::parse(id) else { return Ok(None) };
        for (resource, quote) in QuoteKey::all_of(id) {
            let Some(head) = self.tables.quotes.get(&key(quote, HEAD))? else { continue };
            let Some(head) = Head::decode(&head) else { continue };
            let message = |part: StoredMessageKind| -> Result<Option<KeptMessage>, TablesError> {
                let value = self.tables.quotes.get(&key(quote, part as u8))?;
                Ok(value.and_then(|value| decode_message(&value)))
            };
            return Ok(Some(KeptQuote {
                resource,
                id,
                began_at: Timestamp::from_ms(head.began_at_ms),
                wanted_until: head.wanted_until(),
                request: message(StoredMessageKind::Request)?,
                response: message(StoredMessageKind::Response)?,
                error: message(StoredMessageKind::Error)?,
            }));
        }
        Ok(None)
    }
}

impl Tables {
    fn keep(
        &self,
        tx: &mut Transaction<'_>,
        quote: QuoteKey,
        message: &MessageToKeep,
    ) -> Result<(DuplicateStatus, Option<Timestamp>), TablesError> {
        let head = tx.get(&self.quotes, &key(quote, HEAD))?.and_then(|value| Head::decode(&value));
        let wanted_until = head.and_then(Head::wanted_until);
        if message.too_late_at.is_some_and(|now| wanted_until.is_some_and(|until| until <= now)) {
            return Ok((DuplicateStatus::New, wanted_until));
        }
        let is_of_another = match (head.and_then(|head| head.payee), message.payee) {
            (Some(known), Some(payee)) => known != payee,
            _ => false,
        };
        if is_of_another && message.part != StoredMessageKind::Request {
            return Ok((DuplicateStatus::New, wanted_until));
        }
        let at = key(quote, message.part as u8);
        let before = if message.part == StoredMessageKind::Error { None } else { tx.get(&self.quotes, &at)? };
        if let Some(before) = before {
            let is_same = fingerprint_of(&before) == Some(message.fingerprint);
            let sighting = if is_same { DuplicateStatus::Resend } else { DuplicateStatus::Modified };
            return Ok((sighting, wanted_until));
        }
        if is_of_another {
            // A message that arrived before the request, from a DFSP that is not its receiver, does not belong to it.
            tx.delete(&self.quotes, &key(quote, StoredMessageKind::Response as u8))?;
            tx.delete(&self.quotes, &key(quote, StoredMessageKind::Error as u8))?;
        }
        let mut head = match head {
            Some(head) => head,
            None => self.begin(tx, quote, message.at)?,
        };
        head.payee = message.payee.or(head.payee);
        if let Some(expires_at) = message.expires_at {
            head.wanted_until_ns = expires_at.as_ns();
        }
        tx.put(&self.quotes, &key(quote, HEAD), &head.encode())?;
        tx.put(&self.quotes, &at, &encode_message(message))?;
        Ok((DuplicateStatus::New, wanted_until))
    }

    /// Assigns a quote its place in the order of time, which never goes back.
    fn begin(&self, tx: &mut Transaction<'_>, quote: QuoteKey, now: Timestamp) -> Result<Head, TablesError> {
        let mut counts = self.counts_in(tx)?;
        counts.quotes += 1;
        counts.last_ms = counts.last_ms.max(now.as_ms());
        tx.put(&self.quotes, COUNTS_KEY, &counts.encode())?;
        tx.put(&self.by_time, &time_key(counts.last_ms, quote), &[])?;
        Ok(Head { began_at_ms: counts.last_ms, wanted_until_ns: i64::MAX, payee: None })
    }

    fn counts(&self) -> Result<Counts, TablesError> {
        let value = self.quotes.get(COUNTS_KEY)?;
        Ok(value.and_then(|value| Counts::decode(&value)).unwrap_or_default())
    }

    fn counts_in(&self, tx: &Transaction<'_>) -> Result<Counts, TablesError> {
        let value = tx.get(&self.quotes, COUNTS_KEY)?;
        Ok(value.and_then(|value| Counts::decode(&value)).unwrap_or_default())
    }
}

/// Sorts before all quotes: kinds begin with 1.
const COUNTS_KEY: &[u8] = b"\0counts";

fn key(quote: QuoteKey, part: u8) -> [u8; QuoteKey::BYTES + 1] {
    let mut key = [part; QuoteKey::BYTES + 1];
    key[..QuoteKey::BYTES].copy_from_slice(quote.as_bytes());
    key
}

fn time_key(ms: i64, quote: QuoteKey) -> [u8; QuoteKey::BYTES + 8] {
    let mut key = [0; QuoteKey::BYTES + 8];
    key[..8].copy_from_slice(&ms.max(0).to_be_bytes());
    key[8..].copy_from_slice(quote.as_bytes());
    key
}

fn split_time_key(key: &[u8]) -> Option<(i64, QuoteKey)> {
    let (ms, quote) = key.split_first_chunk::<8>()?;
    Some((i64::from_be_bytes(*ms), QuoteKey::from_bytes(quote)?))
}
