//! Bulks as they are seen from outside.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest, Sha256};
use upesi_types::{Timestamp, TransferId};

use super::{IdBytes, Outside, currency_number};
use crate::auditor::Findings;
use crate::message::{Answer, BulkSpec, Ending, Spec, UNITS, name};

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

/// An answer to a bulk that somebody sent.
#[derive(Clone, Debug)]
pub(crate) struct SentAnswer {
    pub(crate) bulk: TransferId,
    pub(crate) by: usize,
    /// From the payee, to the payer or the hub, and one that may be given.
    pub(crate) is_right: bool,
    pub(crate) answer: Answer,
    /// Its `completedTimestamp`, by the true time.
    pub(crate) at: Timestamp,
    pub(crate) fingerprint: [u8; 16],
}

impl SentAnswer {
    /// What it means for an item that is reserved, and whether that is right; nothing if it stays reserved.
    pub(crate) fn says(&self, item: TransferId) -> Option<(Ending, bool)> {
        let answer = &self.answer;
        if let Some(code) = answer.error {
            return Some((Ending::Abort(code), code.is_known_to_api()));
        }
        let listed = answer.results.iter().find(|(id, ..)| *id == item);
        let rest =
            (answer.state == "REJECTED").then_some((Ending::Abort(upesi_types::ErrorCode::PAYEE), true));
        listed.map(|(_, ending, is_right)| (*ending, *is_right)).or(rest)
    }
}

#[derive(Debug, Default)]
pub(super) struct BulksSeen {
    sent: BTreeMap<IdBytes, Vec<Arc<SentBulk>>>,
    answers: BTreeMap<IdBytes, Vec<Arc<SentAnswer>>>,
    /// What payees were asked to receive: ten-thousandths.
    asked: BTreeMap<IdBytes, i128>,
    /// An item has left and come again with another amount, and a payee was asked for both.
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

impl Outside {
    /// The bulk with this body, if anybody sent it; its payer's own rather than a stranger's.
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

    /// What the payee of an item was asked to receive.
    pub(super) fn asked_for(&self, item: TransferId) -> Option<i128> {
        self.bulks.asked.get(&item.to_bytes()).copied()
    }

    /// Whether it is known for each item what its payee was asked to receive.
    pub(crate) const fn tells_items_apart(&self) -> bool {
        !self.bulks.asks_differ
    }

    /// A payee is given a bulk: items that its payer sent, in the payer's order, each as it was sent.
    pub(crate) fn forwarded_bulk(&mut self, to: usize, body: &Value, findings: &mut Findings) {
        let id = body["bulkTransferId"].as_str().and_then(TransferId::parse);
        let sent = id.and_then(|id| self.bulks.sent.get(&id.to_bytes())).into_iter().flatten();
        let mut genuine = sent.filter(|sent| sent.source == sent.spec.payer && sent.spec.payee == to);
        if !genuine.any(|sent| is_part_of(body, &sent.spec)) {
            return findings
                .add(format!("dfsp{to} is asked to receive bulk {id:?}, but no payer sent that request"));
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

/// Whether a message to a payee is what the payer sent, less items that were refused.
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

/// An amount as the books have it: ten-thousandths, and the number of the currency.
pub(crate) fn money_of(item: &Spec) -> (i128, u8) {
    (i128::from(item.amount) * UNITS, currency_number(item.currency))
}
