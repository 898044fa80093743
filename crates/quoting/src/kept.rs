//! Stored quotes: durable before they are acknowledged, and retained for a limited time.
//!
//! Table `quotes` has up to four entries per quote: its head (time of its first message, expiration) and its messages.
//! Each message is written once, except the error: the last one is kept. Table `quotes_by_time` finds the
//! oldest quotes. One update changes both, so that they are always consistent.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use upesi_fspiop::Resource;
use upesi_http::Bytes;
use upesi_tables::TablesError;
use upesi_tables::store::{Store, Table, Transaction};
use upesi_types::{FspId, Timestamp, TransferId};

use super::reading::QuoteKey;
use crate::config::Retention;
use crate::duplicates::{Fingerprint, Sighting};
use crate::metrics::QuotingMetrics;

/// Interval between searches for old quotes.
pub(crate) const RETENTION_INTERVAL: Duration = Duration::from_secs(10);

/// A message of a quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
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
const PARTS: [u8; 4] = [HEAD, Part::Request as u8, Part::Response as u8, Part::Error as u8];

/// A message to store.
#[derive(Debug)]
pub(crate) struct MessageToKeep {
    pub(crate) part: Part,
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
    /// Its id.
    pub id: TransferId,
    /// Time of its first message.
    pub began_at: Timestamp,
    /// Expiration of the answer, if the request has one.
    pub wanted_until: Option<Timestamp>,
    /// The request.
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
    /// Its headers as `name: value` lines, including the signature.
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
    ) -> Result<(Sighting, Option<Timestamp>), TablesError> {
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
        let request = value(Part::Request as u8)?.and_then(|request| decode_message(&request));
        Ok(request.zip(head.and_then(|head| head.payee)).map(|(request, payee)| (request.source, payee)))
    }

    /// A quote of any kind by its id.
    pub(crate) fn find(&self, id: &str) -> Result<Option<KeptQuote>, TablesError> {
        let Some(id) = TransferId::parse(id) else { return Ok(None) };
        for (resource, quote) in QuoteKey::all_of(id) {
            let Some(head) = self.tables.quotes.get(&key(quote, HEAD))? else { continue };
            let Some(head) = Head::decode(&head) else { continue };
            let message = |part: Part| -> Result<Option<KeptMessage>, TablesError> {
                let value = self.tables.quotes.get(&key(quote, part as u8))?;
                Ok(value.and_then(|value| decode_message(&value)))
            };
            return Ok(Some(KeptQuote {
                resource,
                id,
                began_at: Timestamp::from_ms(head.began_at_ms),
                wanted_until: head.wanted_until(),
                request: message(Part::Request)?,
                response: message(Part::Response)?,
                error: message(Part::Error)?,
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
    ) -> Result<(Sighting, Option<Timestamp>), TablesError> {
        let head = tx.get(&self.quotes, &key(quote, HEAD))?.and_then(|value| Head::decode(&value));
        let wanted_until = head.and_then(Head::wanted_until);
        if message.too_late_at.is_some_and(|now| wanted_until.is_some_and(|until| until <= now)) {
            return Ok((Sighting::New, wanted_until));
        }
        let is_of_another = match (head.and_then(|head| head.payee), message.payee) {
            (Some(known), Some(payee)) => known != payee,
            _ => false,
        };
        if is_of_another && message.part != Part::Request {
            return Ok((Sighting::New, wanted_until));
        }
        let at = key(quote, message.part as u8);
        let before = if message.part == Part::Error { None } else { tx.get(&self.quotes, &at)? };
        if let Some(before) = before {
            let is_same = fingerprint_of(&before) == Some(message.fingerprint);
            let sighting = if is_same { Sighting::Resend } else { Sighting::Modified };
            return Ok((sighting, wanted_until));
        }
        if is_of_another {
            // A message that arrived before the request, from a DFSP that is not its receiver, does not belong to it.
            tx.delete(&self.quotes, &key(quote, Part::Response as u8))?;
            tx.delete(&self.quotes, &key(quote, Part::Error as u8))?;
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
        Ok((Sighting::New, wanted_until))
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

/// The time and the quote of a key of `quotes_by_time`.
fn split_time_key(key: &[u8]) -> Option<(i64, QuoteKey)> {
    let (ms, quote) = key.split_first_chunk::<8>()?;
    Some((i64::from_be_bytes(*ms), QuoteKey::from_bytes(quote)?))
}

// Encoding of entries. Integers are big-endian.

/// First byte of every message, for later versions.
const FORMAT: u8 = 1;

/// The head of a quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    began_at_ms: i64,
    /// The end of time if there is no expiration.
    wanted_until_ns: i64,
    /// The DFSP whose answers and errors are valid: the receiver of the request or, if no request is stored, the first
    /// one to send one.
    payee: Option<FspId>,
}

impl Head {
    fn wanted_until(self) -> Option<Timestamp> {
        (self.wanted_until_ns != i64::MAX).then(|| Timestamp::from_ns(self.wanted_until_ns))
    }

    /// Two integers, followed by the name.
    fn encode(self) -> Vec<u8> {
        let mut value = pair(self.began_at_ms, self.wanted_until_ns).to_vec();
        value.extend_from_slice(self.payee.as_ref().map_or("", FspId::as_str).as_bytes());
        value
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let (began_at_ms, wanted_until_ns) = split_pair(value)?;
        let payee = str::from_utf8(value.get(16..)?).ok().and_then(FspId::parse);
        Some(Self { began_at_ms, wanted_until_ns, payee })
    }
}

/// Number of quotes, and the time of the latest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    quotes: u64,
    last_ms: i64,
}

impl Counts {
    fn encode(self) -> [u8; 16] {
        pair(self.quotes as i64, self.last_ms)
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let (quotes, last_ms) = split_pair(value)?;
        Some(Self { quotes: quotes as u64, last_ms })
    }
}

fn pair(first: i64, second: i64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_be_bytes());
    bytes[8..].copy_from_slice(&second.to_be_bytes());
    bytes
}

fn split_pair(value: &[u8]) -> Option<(i64, i64)> {
    let (first, rest) = value.split_first_chunk::<8>()?;
    let (second, _) = rest.split_first_chunk::<8>()?;
    Some((i64::from_be_bytes(*first), i64::from_be_bytes(*second)))
}

/// Format, fingerprint, time in ns, source, destination, headers, body; names and headers are preceded by their
/// lengths.
fn encode_message(message: &MessageToKeep) -> Vec<u8> {
    let mut value = Vec::with_capacity(100 + message.headers.len() + message.body.len());
    value.push(FORMAT);
    value.extend_from_slice(&message.fingerprint);
    value.extend_from_slice(&message.at.as_ns().to_be_bytes());
    let destination = message.destination.as_ref().map_or("", FspId::as_str);
    for name in [message.source.as_str(), destination] {
        value.push(name.len() as u8);
        value.extend_from_slice(name.as_bytes());
    }
    value.extend_from_slice(&(message.headers.len() as u32).to_be_bytes());
    value.extend_from_slice(&message.headers);
    value.extend_from_slice(&message.body);
    value
}

/// The fingerprint of a stored message.
fn fingerprint_of(value: &[u8]) -> Option<Fingerprint> {
    let (format, rest) = value.split_first()?;
    rest.first_chunk().copied().filter(|_| *format == FORMAT)
}

fn decode_message(value: &[u8]) -> Option<KeptMessage> {
    fingerprint_of(value)?;
    let (at, rest) = value.get(17..)?.split_first_chunk::<8>()?;
    let (source, rest) = split_name(rest)?;
    let (destination, rest) = split_name(rest)?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (headers, body) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    Some(KeptMessage {
        at: Timestamp::from_ns(i64::from_be_bytes(*at)),
        source: FspId::parse(source)?,
        destination: FspId::parse(destination),
        headers: headers.to_vec(),
        body: body.to_vec(),
    })
}

fn split_name(value: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = value.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
    Some((str::from_utf8(name).ok()?, rest))
}

// Deletion of quotes that are too old or too many.

/// Number of quotes that one update deletes, so that concurrent writers wait only for microseconds.
const STEP_QUOTES: usize = 64;
const MS_PER_DAY: i64 = 86_400_000;

impl KeptQuotes {
    /// Deletes quotes until the limits are met; returns their number.
    pub(crate) async fn drop_old(&self, now: Timestamp) -> Result<u64, TablesError> {
        let oldest_ms = now.as_ms().saturating_sub(i64::from(self.retention.keep_days) * MS_PER_DAY);
        let mut swept = self.swept.lock().await;
        let mut dropped = 0;
        loop {
            let victims = self.victims(swept.as_deref(), oldest_ms)?;
            let Some((last, _)) = victims.last() else { return Ok(dropped) };
            let last = last.clone();
            let step = self.drop_quotes(victims).await?;
            self.metrics.dropped.inc_by(step);
            dropped += step;
            *swept = Some(last);
        }
    }

    /// The oldest quotes to delete, at most one step.
    fn victims(&self, after: Option<&[u8]>, oldest_ms: i64) -> Result<Vec<(Vec<u8>, QuoteKey)>, TablesError> {
        let surplus = self.tables.counts()?.quotes.saturating_sub(self.retention.keep_max);
        let entries = self.tables.by_time.scan(&[], after, STEP_QUOTES)?;
        let numbered = entries.into_iter().enumerate().map_while(|(index, (time_key, _))| {
            let (began_at_ms, quote) = split_time_key(&time_key)?;
            (began_at_ms < oldest_ms || (index as u64) < surplus).then_some((time_key, quote))
        });
        Ok(numbered.collect())
    }

    async fn drop_quotes(&self, victims: Vec<(Vec<u8>, QuoteKey)>) -> Result<u64, TablesError> {
        let tables = Arc::clone(&self.tables);
        let update = self.store.update(move |tx| {
            let mut dropped = 0;
            for (time_key, quote) in &victims {
                tx.delete(&tables.by_time, time_key)?;
                for part in PARTS {
                    tx.delete(&tables.quotes, &key(*quote, part))?;
                }
                dropped += 1;
            }
            let counts = tables.counts_in(tx)?;
            let counts = Counts { quotes: counts.quotes.saturating_sub(dropped), ..counts };
            tx.put(&tables.quotes, COUNTS_KEY, &counts.encode())?;
            Ok((dropped, counts))
        });
        let (dropped, counts) = update.await?;
        self.metrics.kept.set(counts.quotes as i64);
        Ok(dropped)
    }
}
