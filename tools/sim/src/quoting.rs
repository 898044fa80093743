//! The payee's side of quotes: terms, and the packet from which the transfer will be answered.

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use upesi_fspiop::ilp;
use upesi_http::{HeaderMap, StatusCode};
use upesi_types::{Amount, Currency, ErrorCode, Timestamp, TransferId};

use crate::condition::{Secret, encode};
use crate::dfsp::count;
use crate::message::{self, Family};
use crate::money;
use crate::payee::fault_key;
use crate::reply::{Reply, Saying};
use crate::scan;
use crate::settings::DfspSettings;
use crate::simulator::Shared;

/// How long the terms of a quote hold.
const QUOTE_LIFE_MS: i64 = 60_000;
/// Most quotes in a bulk quote (FSPIOP API v1.1 §6.9.3.1).
const BULK_QUOTES_MAX: usize = 1000;

/// What the terms depend on: the members of a `POST /quotes`, as they stand there. Absent ones are empty.
#[derive(Clone, Copy, Debug, Default)]
struct Question<'body> {
    quote_id: &'body [u8],
    transaction_id: &'body [u8],
    payer: &'body [u8],
    payee: &'body [u8],
    amount_type: &'body [u8],
    amount: &'body [u8],
    transaction_type: &'body [u8],
    note: &'body [u8],
}

impl<'body> Question<'body> {
    fn read(body: &'body [u8]) -> Self {
        let mut this = Self::default();
        for (name, value) in scan::members(body) {
            let place = match name {
                b"quoteId" => &mut this.quote_id,
                b"transactionId" => &mut this.transaction_id,
                b"payer" => &mut this.payer,
                b"payee" => &mut this.payee,
                b"amountType" => &mut this.amount_type,
                b"amount" => &mut this.amount,
                b"transactionType" => &mut this.transaction_type,
                b"note" => &mut this.note,
                _ => continue,
            };
            *place = value;
        }
        this
    }

    /// The terms; `None` when a member that they need is absent or unusable.
    fn terms(&self, settings: &DfspSettings) -> Option<TermsOffered> {
        let (currency, asked) = (currency_of(self.amount)?, amount_of(self.amount)?);
        let is_object = |value: &[u8]| value.first() == Some(&b'{');
        if !is_object(self.payer) || !is_object(self.payee) || !is_object(self.transaction_type) {
            return None;
        }
        scan::text(self.transaction_id)?;
        let fee = money::fee(asked, settings.fee_per_mille, currency);
        let (transfer, receive) = match scan::text(self.amount_type)? {
            b"SEND" => (asked, asked.checked_sub(fee)?),
            b"RECEIVE" => (asked.checked_add(fee)?, asked),
            _ => return None,
        };
        Some(TermsOffered { currency, transfer, receive, fee })
    }

    /// The transaction object (FSPIOP API v1.1 §7.4.17), members in alphabetical order.
    fn transaction(&self, terms: &TermsOffered, expiration: Timestamp) -> String {
        let mut json = Vec::with_capacity(self.payer.len() + self.payee.len() + 384);
        push_amount(&mut json, "{\"amount\":", terms.transfer, terms.currency);
        // Writing into a Vec cannot fail, here and below.
        let _ = write!(json, ",\"expiration\":\"{expiration}\"");
        for (name, value) in [
            ("note", self.note),
            ("payee", self.payee),
            ("payer", self.payer),
            ("quoteId", self.quote_id),
            ("transactionId", self.transaction_id),
            ("transactionType", self.transaction_type),
        ] {
            if !value.is_empty() {
                let _ = write!(json, ",\"{name}\":");
                json.extend_from_slice(value);
            }
        }
        json.push(b'}');
        // The body was JSON and so UTF-8; what is not makes a packet that nobody can use.
        String::from_utf8(json).unwrap_or_default()
    }
}

/// The currency of a money object.
pub(crate) fn currency_of(money: &[u8]) -> Option<Currency> {
    Currency::parse(std::str::from_utf8(scan::text(scan::member(money, b"currency")?)?).ok()?)
}

/// The amount of a money object.
pub(crate) fn amount_of(money: &[u8]) -> Option<Amount> {
    Amount::parse_wire(std::str::from_utf8(scan::text(scan::member(money, b"amount")?)?).ok()?).ok()
}

#[derive(Clone, Copy, Debug)]
struct TermsOffered {
    currency: Currency,
    transfer: Amount,
    receive: Amount,
    fee: Amount,
}

/// Writes a money object after `before`.
pub(crate) fn push_amount(out: &mut Vec<u8>, before: &str, amount: Amount, currency: Currency) {
    let _ = write!(out, "{before}{{\"amount\":\"{amount}\",\"currency\":\"{currency}\"}}");
}

/// Writes the members that tell terms, up to and including the condition.
fn push_terms(
    out: &mut Vec<u8>,
    secret: &Secret,
    question: &Question<'_>,
    terms: &TermsOffered,
    expiration: Timestamp,
) {
    push_amount(out, "\"transferAmount\":", terms.transfer, terms.currency);
    push_amount(out, ",\"payeeReceiveAmount\":", terms.receive, terms.currency);
    if terms.fee != Amount::ZERO {
        push_amount(out, ",\"payeeFspFee\":", terms.fee, terms.currency);
    }
    let transaction = question.transaction(terms, expiration);
    let minor = money::minor_units(terms.transfer, terms.currency);
    let (packet, condition) = seal(secret, &transaction, minor, expiration);
    out.extend_from_slice(b",\"ilpPacket\":\"");
    out.extend_from_slice(packet.as_bytes());
    out.extend_from_slice(b"\",\"condition\":\"");
    out.extend_from_slice(&condition);
    out.push(b'"');
}

/// The packet of a transaction and the condition that only the owner of the secret can answer.
fn seal(
    secret: &Secret,
    transaction: &str,
    minor_units: u64,
    expiration: Timestamp,
) -> (String, crate::condition::Text) {
    let condition = ilp::condition_of(&secret.fulfilment_of_transaction(transaction));
    (ilp::encode_packet_v4(minor_units, expiration, &condition, transaction), encode(&condition))
}

/// The id that a raw value is.
pub(crate) fn id(value: &[u8]) -> Option<TransferId> {
    TransferId::parse(std::str::from_utf8(scan::text(value)?).ok()?)
}

/// Takes a `POST /quotes` in and starts to answer it.
pub(crate) fn take_quote(shared: &Arc<Shared>, payee: u32, headers: &HeaderMap, body: &[u8]) -> StatusCode {
    let dfsp = shared.dfsp(payee);
    let question = Question::read(body);
    let settings = dfsp.settings();
    let (Some(id), Some(terms)) = (id(question.quote_id), question.terms(&settings)) else {
        count(&dfsp.counters.unreadable);
        return StatusCode::BAD_REQUEST;
    };
    count(&dfsp.counters.quotes_received);
    let expiration = message::now().plus_ms(QUOTE_LIFE_MS);
    let mut answer = Vec::with_capacity(2 * body.len() + 640);
    answer.push(b'{');
    push_terms(&mut answer, &shared.secret, &question, &terms, expiration);
    let _ = write!(answer, ",\"expiration\":\"{expiration}\"}}");
    let answer = Bytes::from(answer);
    offer(shared, payee, Family::Quotes, headers, id, answer)
}

/// Keeps terms for those who ask again, and starts to tell them.
pub(crate) fn offer(
    shared: &Arc<Shared>,
    payee: u32,
    family: Family,
    headers: &HeaderMap,
    id: TransferId,
    terms: Bytes,
) -> StatusCode {
    shared.remembered.keep(id, terms.clone());
    let reply = Reply::new(shared, payee, family, headers, format!("{}/{id}", family.name()));
    reply.start(fault_key(&id), Saying::Answer(terms))
}

/// Takes a `POST /bulkQuotes` in and starts to answer it: every quote of it with terms of its own.
pub(crate) fn take_bulk(shared: &Arc<Shared>, payee: u32, headers: &HeaderMap, body: &[u8]) -> StatusCode {
    let dfsp = shared.dfsp(payee);
    let bulk_id = scan::member(body, b"bulkQuoteId").and_then(id);
    let expiration = message::now().plus_ms(QUOTE_LIFE_MS);
    let answer = bulk_answer(&shared.secret, &dfsp.settings(), body, expiration);
    let (Some(id), Some(answer)) = (bulk_id, answer) else {
        count(&dfsp.counters.unreadable);
        return StatusCode::BAD_REQUEST;
    };
    count(&dfsp.counters.bulk_quotes_received);
    offer(shared, payee, Family::BulkQuotes, headers, id, answer)
}

fn bulk_answer(
    secret: &Secret,
    settings: &DfspSettings,
    body: &[u8],
    expiration: Timestamp,
) -> Option<Bytes> {
    let payer = scan::member(body, b"payer")?;
    let quotes = scan::member(body, b"individualQuotes")?;
    let mut answer = b"{\"individualQuoteResults\":[".to_vec();
    for (index, quote) in scan::elements(quotes).enumerate() {
        if index >= BULK_QUOTES_MAX {
            return None;
        }
        let question = Question { payer, ..Question::read(quote) };
        scan::text(question.quote_id)?;
        let terms = question.terms(settings)?;
        answer.extend_from_slice(if index == 0 { b"{\"quoteId\":" } else { b",{\"quoteId\":" });
        answer.extend_from_slice(question.quote_id);
        answer.push(b',');
        push_terms(&mut answer, secret, &question, &terms, expiration);
        answer.push(b'}');
    }
    let _ = write!(answer, "],\"expiration\":\"{expiration}\"}}");
    Some(answer.into())
}

/// Takes a GET of a quote, bulk quote or FX quote in, and answers with what was answered before.
pub(crate) fn take_again(
    shared: &Arc<Shared>,
    payee: u32,
    headers: &HeaderMap,
    family: Family,
    id: &str,
) -> StatusCode {
    count(&shared.dfsp(payee).counters.requests_received);
    let unknown = match family {
        Family::BulkQuotes => ErrorCode::BULK_QUOTE_NOT_FOUND,
        _ => ErrorCode::QUOTE_NOT_FOUND,
    };
    let found = TransferId::parse(id).and_then(|id| shared.remembered.find(&id));
    let reply = Reply::new(shared, payee, family, headers, format!("{}/{id}", family.name()));
    reply.start_unnumbered(found.map_or(Saying::Error(unknown), Saying::Answer))
}

#[cfg(test)]
#[path = "quoting_tests.rs"]
mod tests;
