//! Bulk transfers of a world: of one item to a thousand, in one currency or two. Some contain an id that was used
//! before, and some must be rejected by every hub. Payees answer in part, late, twice, wrongly or never.
//!
//! All random numbers of this module come from their own stream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use upesi_journal::sim_disk::{DiskFault, Random};
use upesi_ledger::{AdminCommand, BULK_ITEMS_MAX, Command, EndpointType};
use upesi_types::{ErrorCode, TransferId};

use super::dfsp::ATTEMPTS_MAX;
use super::event::Event;
use super::values::fsp;
use super::{World, random_id};
use crate::auditor::{ObservedRequest, SentAnswer, SentBulk};
use crate::clock::true_time;
use crate::message::{self, Answer, BulkSpec, CURRENCY, OTHER_CURRENCY, PutContent, Request, Spec};
use crate::plan::Plan;

/// Separates the random stream of bulk transfers from a seed's other streams.
const STREAM: u64 = 0x6275_6c6b_7061_7973;
const TRANSFERS_PER_BULK: u32 = 8;
/// Maximum number of items of an ordinary bulk transfer.
const ITEMS_FEW: u64 = 7;
/// Minimum and maximum number of items of a bulk transfer that takes more than one slice of steps.
const ITEMS_MANY: (u64, u64) = (65, 130);
const MANY_ONE_IN: u64 = 8;
/// One large bulk transfer in this many is soon followed by a crash, and so is one answer to such a bulk transfer.
const CRASH_ONE_IN: u64 = 2;
/// Maximum number of disk operations until that crash.
const CRASH_OPERATIONS_AHEAD: u64 = 24;
/// One bulk transfer in this many has the maximum number of items.
const LARGEST_ONE_IN: u64 = 150;
/// Maximum amount of an item of a small bulk transfer, in whole units: some bulk transfers reach cap and cover.
const AMOUNT_MAX: u64 = 150;
/// One item in this many has an id that was used before.
const KNOWN_ONE_IN: u64 = 24;
const LATE_LEAST_US: u64 = 500_000;
const LATE_MOST_US: u64 = 6_000_000;
/// Time between the answer of a payee that is nearly late and the deadline.
const NEARLY_LATE_US: u64 = 120_000;
/// Error code for a bulk transfer if all of its items are rejected before they reach the payee.
const ITEM_KNOWN_CODE: &str = "3106";
const BULK_UNKNOWN_CODE: &str = "3210";

#[derive(Debug)]
pub(super) struct BulkTraffic {
    is_on: bool,
    random: Random,
    specs: Vec<Arc<BulkSpec>>,
    /// Expiry of each bulk transfer, in the world's time.
    expires_us: Vec<u64>,
    bulks: BTreeMap<usize, usize>,
    decided: BTreeSet<usize>,
}

impl BulkTraffic {
    pub(super) fn new(seed: u64, plan: &Plan) -> Self {
        Self {
            is_on: plan.faults.bulks,
            random: Random::new(seed ^ STREAM),
            specs: Vec::new(),
            expires_us: Vec::new(),
            bulks: BTreeMap::new(),
            decided: BTreeSet::new(),
        }
    }

    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.random.below(most - least + 1)
    }

    fn id(&mut self) -> TransferId {
        random_id(&mut self.random)
    }

    /// Draws the number of items of the next bulk transfer.
    fn size(&mut self) -> u64 {
        if self.random.one_in(LARGEST_ONE_IN) {
            return BULK_ITEMS_MAX as u64;
        }
        if self.random.one_in(MANY_ONE_IN) {
            return self.between(ITEMS_MANY.0, ITEMS_MANY.1);
        }
        self.between(1, ITEMS_FEW)
    }

    /// A payee's results: each item is fulfilled, declined, left out, or fulfilled wrongly.
    fn results(
        &mut self,
        spec: &BulkSpec,
        is_mixed: bool,
        lies: bool,
    ) -> Vec<(TransferId, PutContent, bool)> {
        let fulfil = PutContent::Fulfil { reserves: false };
        let mut results = Vec::new();
        for item in &spec.items {
            let said = match self.random.below(8) {
                0 if lies => Some((fulfil, false)),
                1 if lies => Some((PutContent::Abort(undefined()), false)),
                2 if is_mixed => Some((PutContent::Abort(ErrorCode::PAYEE_REJECTION), true)),
                3 if is_mixed => None,
                _ => Some((fulfil, true)),
            };
            results.extend(said.map(|(ending, is_right)| (item.id, ending, is_right)));
        }
        results
    }
}

/// An error code that the API does not define.
fn undefined() -> ErrorCode {
    ErrorCode::from_number(9_999).unwrap_or(ErrorCode::PAYEE_REJECTION)
}

fn meaning(spec: &Arc<BulkSpec>, source: usize) -> ObservedRequest {
    ObservedRequest::Bulk(Arc::new(SentBulk { source, spec: Arc::clone(spec), fingerprint: [0; 16] }))
}

impl World {
    pub(super) fn onboard_bulks(&mut self) {
        if !self.payroll.is_on {
            return;
        }
        for dfsp in 0..self.locals() {
            for (kind, path) in [
                (EndpointType::BULK_TRANSFER_POST, ""),
                (EndpointType::BULK_TRANSFER_PUT, "/{{bulkTransferId}}"),
                (EndpointType::BULK_TRANSFER_ERROR, "/{{bulkTransferId}}/error"),
            ] {
                let value = format!("http://{}.example/bulkTransfers{path}", message::name(dfsp)).into();
                let name = fsp(dfsp);
                self.do_now(Command::Admin(AdminCommand::SetEndpoint { name, kind, value }));
            }
        }
    }

    pub(super) fn plan_bulks(&mut self) {
        if !self.payroll.is_on {
            return;
        }
        for _ in 0..self.plan.transfers / TRANSFERS_PER_BULK {
            let at_us = self.payroll.random.below(self.plan.trouble_ms * 1_000);
            self.schedule.add(at_us, Event::PayInBulk);
        }
    }

    pub(super) fn begin_bulk(&mut self) {
        let dfsps = self.dfsps.len() as u64;
        let payer = self.payroll.random.below(dfsps) as usize;
        if self.dfsps[payer].condition(self.now_us).is_dead {
            return;
        }
        let payee = (payer + 1 + self.payroll.random.below(dfsps - 1) as usize) % self.dfsps.len();
        let size = self.payroll.size();
        let bulk = self.draw_bulk(payer, payee, size);
        let spec = Arc::clone(&self.payroll.specs[bulk]);
        let request = message::pay_in_bulk(&spec, payer, true_time(self.now_us));
        self.send(payer, request, meaning(&spec, payer), ATTEMPTS_MAX);
        self.crash_in(bulk);
    }

    /// Sometimes schedules a crash between two items of a large bulk transfer.
    fn crash_in(&mut self, bulk: usize) {
        let is_large = self.payroll.specs[bulk].items.len() as u64 > ITEMS_FEW;
        let is_on = self.plan.faults.crashes && self.is_troubled() && self.hub.is_some();
        if is_large && is_on && self.payroll.random.one_in(CRASH_ONE_IN) {
            let ahead = self.payroll.random.below(CRASH_OPERATIONS_AHEAD);
            self.disk.inject(self.disk.operations().len() as u64 + ahead, DiskFault::Crash);
        }
    }

    fn draw_bulk(&mut self, payer: usize, payee: usize, size: u64) -> usize {
        let lasting = self.lasting_ms();
        let lasting_us = lasting[self.payroll.random.below(lasting.len() as u64) as usize] * 1_000;
        // Times on the wire have milliseconds.
        let expires_us = (self.now_us + lasting_us) / 1_000 * 1_000;
        let expires_at = true_time(expires_us);
        let amount_max = (AMOUNT_MAX / size).max(2);
        let bulk = self.payroll.specs.len();
        let mut items: Vec<Spec> = Vec::new();
        for _ in 0..size {
            if let Some(known) = self.draw_known(payer).filter(|known| !has(&items, known.id)) {
                items.push(Spec { payer, payee, ..known });
                continue;
            }
            let id = self.payroll.id();
            let amount = 1 + self.payroll.random.below(amount_max) as i64;
            let is_other = self.exchange.is_on && self.payroll.random.one_in(3);
            let currency = if is_other { OTHER_CURRENCY } else { CURRENCY };
            let item = Spec { id, payer, payee, amount, currency, expires_at };
            self.payroll.bulks.insert(self.specs.len(), bulk);
            self.specs.push(item);
            items.push(item);
        }
        let (id, quote) = (self.payroll.id(), self.payroll.id());
        self.payroll.specs.push(Arc::new(BulkSpec { id, quote, payer, payee, items, expires_at }));
        self.payroll.expires_us.push(expires_us);
        bulk
    }

    /// Sometimes draws a transfer that the hub knows, for an item that must be rejected. Worlds with retention have no
    /// such items, because a removed transfer would be unknown again.
    fn draw_known(&mut self, payer: usize) -> Option<Spec> {
        if self.specs.is_empty() || !self.payroll.random.one_in(KNOWN_ONE_IN) {
            return None;
        }
        let spec = self.specs[self.payroll.random.below(self.specs.len() as u64) as usize];
        let is_known = !self.retention.is_on() && self.auditor.knows(spec.id);
        (is_known && spec.payer == payer).then_some(spec)
    }

    /// Handles a callback about a bulk transfer at a DFSP.
    pub(super) fn take_bulk(
        &mut self,
        to: usize,
        id: Option<TransferId>,
        is_error: bool,
        request: &Request,
        body: &Value,
    ) {
        let id = id.or_else(|| body["bulkTransferId"].as_str().and_then(TransferId::parse));
        let bulk = self.payroll.specs.iter().position(|spec| Some(spec.id) == id);
        if request.method == http::Method::POST {
            self.auditor.outside.forwarded_bulk(to, body, &mut self.auditor.findings);
            return bulk.into_iter().for_each(|bulk| self.answer_bulk(bulk, to));
        }
        let Some(spec) = bulk.map(|bulk| Arc::clone(&self.payroll.specs[bulk])) else { return };
        if is_error {
            let code = &body["errorInformation"]["errorCode"];
            if code == BULK_UNKNOWN_CODE && to == spec.payer {
                self.note_unknown(&spec, &BTreeSet::new());
            }
            return;
        }
        self.take_outcomes(to, &spec, body);
    }

    /// A party reads the outcomes of items.
    fn take_outcomes(&mut self, to: usize, spec: &BulkSpec, body: &Value) {
        let is_final = body["bulkTransferState"] == "COMPLETED" || body["bulkTransferState"] == "REJECTED";
        let mut named = BTreeSet::new();
        for result in body["individualTransferResults"].as_array().into_iter().flatten() {
            let Some(item) = result["transferId"].as_str().and_then(TransferId::parse) else { continue };
            named.insert(item.to_bytes());
            let is_committed = result["fulfilment"].is_string();
            let code = result["errorInformation"]["errorCode"].as_str();
            // For an id that was used before, the result does not describe the earlier transfer.
            if !is_committed && code.is_none_or(|code| code == ITEM_KNOWN_CODE) {
                continue;
            }
            if !has(&spec.items, item) {
                let id = spec.id;
                self.auditor
                    .findings
                    .add(format!("dfsp{to} receives {item}, which is not an item of bulk transfer {id}"));
            }
            self.auditor.outside.told(item, to, |told| {
                told.committed |= is_committed;
                told.aborted |= !is_committed;
                told.is_final = true;
            });
        }
        if is_final && to == spec.payer {
            self.note_unknown(spec, &named);
        }
    }

    /// Notes that the hub does not know the items that it does not name in this bulk transfer.
    fn note_unknown(&mut self, spec: &BulkSpec, named: &BTreeSet<[u8; 17]>) {
        for item in spec.items.iter().filter(|item| !named.contains(&item.id.to_bytes())) {
            self.auditor.outside.told(item.id, spec.payer, |told| told.unknown |= !told.is_final);
        }
    }

    /// Usually, a payer queries the bulk transfer instead of its item. Returns whether it does.
    pub(super) fn ask_for_bulk(&mut self, spec: usize) -> bool {
        let Some(bulk) = self.payroll.bulks.get(&spec).copied() else { return false };
        if self.payroll.random.one_in(3) {
            return false;
        }
        let (id, payer) = (self.payroll.specs[bulk].id, self.payroll.specs[bulk].payer);
        self.send(payer, message::get_bulk(id, payer, true_time(self.now_us)), ObservedRequest::Get, 1);
        true
    }

    /// A payee decides on its answer, once per bulk transfer.
    fn answer_bulk(&mut self, bulk: usize, payee: usize) {
        if !self.payroll.decided.insert(bulk) || self.payroll.specs[bulk].payee != payee {
            return;
        }
        let spec = Arc::clone(&self.payroll.specs[bulk]);
        let mut delay = match self.payroll.random.below(8) {
            0 => self.payroll.between(LATE_LEAST_US, LATE_MOST_US),
            _ => self.payroll.between(500, 40_000),
        };
        if self.payroll.random.one_in(6) {
            let early = self.payroll.random.below(NEARLY_LATE_US);
            delay = self.payroll.expires_us[bulk].saturating_sub(self.now_us + early);
            self.counts.bulk_answers_late += 1;
        }
        let completed = |results| Answer { state: "COMPLETED", results, ..Answer::default() };
        let payroll = &mut self.payroll;
        let kinds = if self.plan.faults.lies { 16 } else { 11 };
        let kind = payroll.random.below(kinds);
        let answer = match kind {
            0..=4 => completed(payroll.results(&spec, false, false)),
            5 => completed(payroll.results(&spec, true, false)),
            6 => Answer {
                state: "PROCESSING",
                results: payroll.results(&spec, true, false),
                ..Answer::default()
            },
            7 => Answer {
                state: "REJECTED",
                results: payroll.results(&spec, true, false),
                ..Answer::default()
            },
            8 => Answer { state: "REJECTED", ..Answer::default() },
            9 => Answer { error: Some(ErrorCode::PAYEE_REJECTION), ..Answer::default() },
            // The payee never answers.
            10 => return,
            11 | 12 => completed(payroll.results(&spec, true, true)),
            13 => Answer { destination: Some(payee), ..completed(payroll.results(&spec, false, false)) },
            14 => Answer { error: Some(undefined()), ..Answer::default() },
            _ => Answer {
                state: "ACCEPTED",
                results: payroll.results(&spec, false, false),
                ..Answer::default()
            },
        };
        self.counts.bulk_lies += u64::from(kind > 10);
        if self.plan.faults.lies && self.payroll.random.one_in(6) {
            // The payee also sends another answer, before or after this one.
            self.counts.bulk_lies += 1;
            let (other, again) =
                (self.payroll.results(&spec, true, false), self.payroll.between(500, 40_000));
            self.after(again, Event::PutBulk { bulk, answer: Box::new(completed(other)) });
        }
        self.after(delay, Event::PutBulk { bulk, answer: Box::new(answer) });
    }

    /// A payee sends an answer to a bulk transfer, right or wrong.
    pub(super) fn send_bulk_put(&mut self, bulk: usize, answer: Box<Answer>) {
        let payee = self.payroll.specs[bulk].payee;
        if self.dfsps[payee].condition(self.now_us).is_dead {
            let until_us = self.dfsps[payee].dead_until_us;
            return self.schedule.add(until_us + 1_000, Event::PutBulk { bulk, answer });
        }
        self.put_bulk(bulk, payee, &answer, ATTEMPTS_MAX);
        self.crash_in(bulk);
    }

    fn put_bulk(&mut self, bulk: usize, by: usize, answer: &Answer, attempts_max: u32) {
        let spec = &self.payroll.specs[bulk];
        let at = true_time(self.now_us);
        let request = message::answer_bulk(spec.id, by, answer, at);
        let is_addressed = answer.destination.is_none_or(|to| to == spec.payer);
        let is_answer = answer.error.is_some() || answer.state != "ACCEPTED";
        let sent = SentAnswer {
            bulk: spec.id,
            by,
            is_right: by == spec.payee && is_addressed && is_answer,
            answer: answer.clone(),
            at,
            fingerprint: [0; 16],
        };
        self.send(by, request, ObservedRequest::PutBulk(Arc::new(sent)), attempts_max);
    }

    /// A DFSP breaks the rules of bulk transfers.
    pub(super) fn bulk_mischief(&mut self) {
        let is_on = self.payroll.is_on && self.is_troubled() && self.plan.faults.lies;
        if !is_on || self.payroll.specs.is_empty() {
            return;
        }
        let liar = self.payroll.random.below(self.dfsps.len() as u64) as usize;
        let bulk = self.payroll.random.below(self.payroll.specs.len() as u64) as usize;
        let spec = Arc::clone(&self.payroll.specs[bulk]);
        let now = true_time(self.now_us);
        self.counts.bulk_lies += 1;
        self.note_fault();
        match self.payroll.random.below(8) {
            0 | 1 if liar != spec.payee => {
                let results = self.payroll.results(&spec, false, false);
                let answer = Answer { state: "COMPLETED", results, ..Answer::default() };
                self.put_bulk(bulk, liar, &answer, 2);
            }
            2 => {
                let answer = Answer { error: Some(ErrorCode::PAYEE_REJECTION), ..Answer::default() };
                self.put_bulk(bulk, liar, &answer, 1);
            }
            3 => {
                // The payer's own bulk transfer with another amount.
                let mut altered = (*spec).clone();
                altered.items[0].amount += 1;
                let altered = Arc::new(altered);
                let request = message::pay_in_bulk(&altered, spec.payer, now);
                self.send(spec.payer, request, meaning(&altered, spec.payer), 1);
            }
            4 => {
                // A bulk transfer in another DFSP's name, or a copy under the DFSP's own name.
                let forged = Arc::new(BulkSpec { id: self.payroll.id(), ..(*spec).clone() });
                let request = message::pay_in_bulk(&forged, liar, now);
                self.send(liar, request, meaning(&forged, liar), 1);
            }
            5 => {
                // The payee ends an item as if it were a separate transfer. It is one if such a prepare came first.
                let item = spec.items[self.payroll.random.below(spec.items.len() as u64) as usize];
                let ending = PutContent::Fulfil { reserves: false };
                let put = message::put(item.id, spec.payee, spec.payer, ending, &item.preimage(), now);
                self.send(
                    spec.payee,
                    put,
                    ObservedRequest::Put { id: item.id, by: spec.payee, ending, good: true },
                    1,
                );
            }
            6 => self.send_invalid_bulk(&spec),
            _ => self.send(liar, message::get_bulk(spec.id, liar, now), ObservedRequest::Get, 1),
        }
    }

    /// Sends a bulk transfer without items, with too many, or with one twice.
    fn send_invalid_bulk(&mut self, spec: &BulkSpec) {
        self.counts.bulks_invalid += 1;
        let mut invalid = BulkSpec { id: self.payroll.id(), ..spec.clone() };
        let first = invalid.items[0];
        match self.payroll.random.below(3) {
            0 => invalid.items.clear(),
            1 => invalid.items.push(first),
            _ => {
                let others = || Spec { id: self.payroll.id(), ..first };
                invalid.items = std::iter::repeat_with(others).take(BULK_ITEMS_MAX + 1).collect();
            }
        }
        let request = message::pay_in_bulk(&invalid, spec.payer, true_time(self.now_us));
        self.send(spec.payer, request, ObservedRequest::Invalid, 1);
    }
}

fn has(items: &[Spec], id: TransferId) -> bool {
    items.iter().any(|item| item.id == id)
}
