//! Bulk transfers as an observer outside the hub sees them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest, Sha256};
use upesi_types::{Timestamp, TransferId};

use super::{IdBytes, ObservedMessages};
use crate::auditor::Findings;
use crate::auditor::account::currency_number;
use crate::message::{Answer, BulkSpec, PutContent, Spec, UNITS, name};

#[derive(Clone)]
pub(crate) struct SentBulk {
    pub(crate) source: usize,
    pub(crate) spec: Arc<BulkSpec>,
    pub(crate) fingerprint: [u8; 16],
}

impl fmt::Debug for SentBulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of dfsp{}", self.spec, self.source)
    }
}

/// An answer to a bulk transfer, from any sender.
#[derive(Clone, Debug)]
pub(crate) struct SentAnswer {
    pub(crate) bulk: TransferId,
    pub(crate) by: usize,
    /// Whether the payee sent it to the payer or the hub, and its content is valid.
    pub(crate) is_right: bool,
    pub(crate) answer: Answer,
    /// Its `completedTimestamp`, in true time.
    pub(crate) at: Timestamp,
    pub(crate) fingerprint: [u8; 16],
}

impl SentAnswer {
    /// The meaning of the answer for a reserved item, and whether it is right; `None` if the item stays reserved.
    pub(crate) fn says(&self, item: TransferId) -> Option<(PutContent, bool)> {
        let answer = &self.answer;
        if let Some(code) = answer.error {
            return Some((PutContent::Abort(code), code.is_known_to_api()));
        }
        let listed = answer.results.iter().find(|(id, ..)| *id == item);
        let rest =
            (answer.state == "REJECTED").then_some((PutContent::Abort(upesi_types::ErrorCode::PAYEE), true));
        listed.map(|(_, ending, is_right)| (*ending, *is_right)).or(rest)
    }
}

#[derive(Debug, Default)]
pub(super) struct BulksSeen {
    sent: BTreeMap<IdBytes, Vec<Arc<SentBulk>>>,
    answers: BTreeMap<IdBytes, Vec<Arc<SentAnswer>>>,
    /// Requested amounts of items at their payees, in ten-thousandths.
    asked: BTreeMap<IdBytes, i128>,
    /// Whether an item was removed and sent again with another amount, and its payee received both.
    asks_differ: bool,
}

impl BulksSeen {
    pub(super) fn sent(&mut self, bulk: &SentBulk, fingerprint: [u8; 16]) {
        let sent = SentBulk { fingerprint, ..bulk.clone() };
        self.sent.entry(bulk.spec.id.to_bytes()).or_default().push(Arc::new(sent));
    }

    pub(super) fn answered(&mut self, answer: &SentAnswer, fingerprint: [u8; 16]) {
        let sent = SentAnswer { fingerprint, ..answer.clone() };
        self.answers.entry(answer.bulk.to_bytes()).or_default().push(Arc::new(sent));
    }
}

impl ObservedMessages {
    /// The bulk transfer with this body, if any DFSP sent it; the payer's own takes precedence.
    pub(crate) fn bulk(&self, id: TransferId, fingerprint: &[u8; 16]) -> Option<&Arc<SentBulk>> {
        let sent = self.bulks.sent.get(&id.to_bytes())?.iter();
        let sent = sent.filter(|sent| sent.fingerprint == *fingerprint);
        sent.max_by_key(|sent| sent.source == sent.spec.payer)
    }

    /// The answer with this body that a DFSP sent.
    pub(crate) fn bulk_answer(
        &self,
        id: TransferId,
        by: usize,
        fingerprint: &[u8; 16],
    ) -> Option<&Arc<SentAnswer>> {
        let mut sent = self.bulks.answers.get(&id.to_bytes())?.iter();
        sent.find(|sent| sent.by == by && sent.is_right && sent.fingerprint == *fingerprint)
    }

    /// The requested amount of an item at its payee.
    pub(super) fn asked_for(&self, item: TransferId) -> Option<i128> {
        self.bulks.asked.get(&item.to_bytes()).copied()
    }

    /// Whether each item has a single requested amount.
    pub(crate) const fn tells_items_apart(&self) -> bool {
        !self.bulks.asks_differ
    }

    /// Checks a bulk transfer that a payee receives: all items are the payer's, in the payer's order, and unchanged.
    pub(crate) fn forwarded_bulk(&mut self, to: usize, body: &Value, findings: &mut Findings) {
        let id = body["bulkTransferId"].as_str().and_then(TransferId::parse);
        let sent = id.and_then(|id| self.bulks.sent.get(&id.to_bytes())).into_iter().flatten();
        let mut genuine = sent.filter(|sent| sent.source == sent.spec.payer && sent.spec.payee == to);
        if !genuine.any(|sent| is_part_of(body, &sent.spec)) {
            return findings
                .add(format!("dfsp{to} receives bulk transfer {id:?}, but no payer sent that request"));
        }
        for item in body["individualTransfers"].as_array().into_iter().flatten() {
            let id = item["transferId"].as_str().and_then(TransferId::parse);
            let amount = item["transferAmount"]["amount"].as_str().and_then(|text| text.parse::<i128>().ok());
            if let Some((id, amount)) = id.zip(amount) {
                let asked = *self.bulks.asked.entry(id.to_bytes()).or_insert(amount * UNITS);
                self.bulks.asks_differ |= asked != amount * UNITS;
            }
        }
    }
}

/// Whether a message to a payee equals the payer's message without the rejected items.
fn is_part_of(body: &Value, sent: &BulkSpec) -> bool {
    let is_head = body["bulkQuoteId"] == sent.quote.to_string()
        && body["payerFsp"] == name(sent.payer)
        && body["payeeFsp"] == name(sent.payee)
        && body["expiration"] == sent.expires_at.to_string();
    let mut rest = sent.items.iter();
    let items = body["individualTransfers"].as_array();
    is_head
        && items.is_some_and(|items| {
            !items.is_empty() && items.iter().all(|item| rest.any(|sent| is_item(item, sent)))
        })
}

fn is_item(item: &Value, sent: &Spec) -> bool {
    let amount = &item["transferAmount"];
    item["transferId"] == sent.id.to_string()
        && amount["amount"].as_str() == Some(&*sent.amount.to_string())
        && amount["currency"] == sent.currency
        && item["condition"] == URL_SAFE_NO_PAD.encode(Sha256::digest(sent.preimage()))
        && item["ilpPacket"] == "AAAA"
}

/// An amount in the unit of the books: ten-thousandths, and the number of the currency.
pub(crate) fn money_of(item: &Spec) -> (i128, u8) {
    (i128::from(item.amount) * UNITS, currency_number(item.currency))
}
