//! Payments in two currencies, with FX transfers on the payer's side, on the payee's side and on both. Transfers come
//! before their FX transfer, in time, with another amount, or never. FXPs answer late, twice, wrongly or never.
//!
//! All random numbers of this module come from their own stream.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use upesi_journal::sim_disk::Random;
use upesi_ledger::{AdminCommand, Command, EndpointType, FundsDirection, LedgerAccountTypeId};
use upesi_types::{Amount, Currency, ErrorCode, TransferId};

use super::dfsp::{ATTEMPTS_MAX, meaning};
use super::event::Event;
use super::values::{fsp, money};
use super::{World, random_id};
use crate::auditor::{ObservedRequest, SentFxTransfer, currency_number};
use crate::clock::true_time;
use crate::message::{self, CURRENCY, FxSpec, OTHER_CURRENCY, PutContent, Spec, UNITS};
use crate::plan::Plan;

/// Separates the random stream of FX transfers from a seed's other streams.
const STREAM: u64 = 0x6378_6368_616e_6765;
/// There is one payment in two currencies for this many transfers.
const TRANSFERS_PER_PAYMENT: u32 = 3;
/// Maximum amount that is sold, in whole units.
const SOLD_MAX: u64 = 200;
/// Units of the other currency for one unit of the scheme's.
const RATE: i64 = 8;
/// Cap and cover of each DFSP in the other currency, in whole units.
const OTHER_FUNDS: i64 = 1_000_000;
/// Range of the delay of a late FXP or payer.
const LATE_LEAST_US: u64 = 500_000;
const LATE_MOST_US: u64 = 6_000_000;

/// The initiator's action after the FXP has fulfilled.
#[derive(Clone, Copy, Debug)]
enum FollowUp {
    Nothing,
    /// The payer sends its transfer, with this amount.
    Pay {
        spec: usize,
        amount: i64,
    },
    /// The payee fulfils its transfer.
    Fulfil {
        spec: usize,
    },
}

#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) is_on: bool,
    random: Random,
    specs: Vec<FxSpec>,
    then: Vec<FollowUp>,
    /// FX transfers that payees request when they receive a transfer.
    received: BTreeMap<usize, usize>,
    decided: BTreeSet<usize>,
}

fn other() -> Currency {
    Currency::parse(OTHER_CURRENCY).unwrap_or_else(|| unreachable!("a known currency"))
}

fn meaning_of(spec: &FxSpec, source: usize) -> ObservedRequest {
    let money = |(amount, currency): (i64, &str)| (i128::from(amount) * UNITS, currency_number(currency));
    ObservedRequest::Convert {
        id: spec.id,
        sent: SentFxTransfer {
            source,
            transfer: spec.transfer,
            initiator: spec.initiator,
            fxp: spec.fxp,
            sold: money(spec.source),
            bought: money(spec.target),
            fingerprint: [0; 16],
        },
    }
}

impl Exchange {
    pub(super) fn new(seed: u64, plan: &Plan) -> Self {
        Self {
            // A payer, an FXP and a payee.
            is_on: plan.faults.conversions && plan.dfsps > 2,
            random: Random::new(seed ^ STREAM),
            specs: Vec::new(),
            then: Vec::new(),
            received: BTreeMap::new(),
            decided: BTreeSet::new(),
        }
    }

    pub(super) fn specs(&self) -> &[FxSpec] {
        &self.specs
    }

    fn add(&mut self, spec: FxSpec, then: FollowUp) -> usize {
        self.specs.push(spec);
        self.then.push(then);
        self.specs.len() - 1
    }

    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.random.below(most - least + 1)
    }

    /// A delay; mostly a short one.
    fn delay(&mut self) -> u64 {
        if self.random.one_in(8) {
            self.between(LATE_LEAST_US, LATE_MOST_US)
        } else {
            self.between(500, 40_000)
        }
    }

    /// Draws a DFSP other than this one.
    fn another(&mut self, than: usize, dfsps: usize) -> usize {
        (than + 1 + self.random.below(dfsps as u64 - 1) as usize) % dfsps
    }

    fn id(&mut self) -> TransferId {
        random_id(&mut self.random)
    }
}

impl World {
    /// Creates the objects that a scheme with FX transfers needs in addition to its own currency.
    pub(super) fn onboard_other_currency(&mut self) {
        if !self.exchange.is_on {
            return;
        }
        self.create_hub_accounts(other());
        self.auditor.outside.other_cover = i128::from(OTHER_FUNDS) * UNITS;
        for dfsp in 0..self.locals() {
            let (name, currency) = (fsp(dfsp), other());
            let is_proxy = self.is_proxy(dfsp);
            self.must(AdminCommand::CreateParticipant { name, currency, is_proxy });
            let (net_debit_cap, initial_position) = (money(OTHER_FUNDS), Amount::ZERO);
            self.must(AdminCommand::OpenAccounts { name, currency, net_debit_cap, initial_position });
            let participant = self.hub.as_ref().and_then(|hub| hub.ledger().participant_named(&name));
            let account = participant.and_then(|one| one.account(currency, LedgerAccountTypeId::SETTLEMENT));
            let mut funds = self.funds(dfsp, FundsDirection::In, OTHER_FUNDS);
            (funds.currency, funds.account) = (currency, account.unwrap_or(funds.account));
            self.must(AdminCommand::PrepareFunds(funds));
            for (kind, path) in [
                (EndpointType::FX_TRANSFER_POST, ""),
                (EndpointType::FX_TRANSFER_PUT, "/{{commitRequestId}}"),
                (EndpointType::FX_TRANSFER_ERROR, "/{{commitRequestId}}/error"),
            ] {
                let value = format!("http://{}.example/fxTransfers{path}", message::name(dfsp)).into();
                self.do_now(Command::Admin(AdminCommand::SetEndpoint { name, kind, value }));
            }
        }
    }

    pub(super) fn plan_fx_transfers(&mut self) {
        if !self.exchange.is_on {
            return;
        }
        for _ in 0..self.plan.transfers / TRANSFERS_PER_PAYMENT {
            let at_us = self.exchange.random.below(self.plan.trouble_ms * 1_000);
            self.schedule.add(at_us, Event::Convert);
        }
    }

    /// Expiry of an FX transfer or transfer that starts now.
    fn lapse(&mut self) -> upesi_types::Timestamp {
        let lasting = self.lasting_ms();
        let lasting = lasting[self.exchange.random.below(lasting.len() as u64) as usize];
        true_time(self.now_us + lasting * 1_000)
    }

    fn converted_spec(&mut self, payer: usize, payee: usize, amount: i64, currency: &'static str) -> usize {
        let (id, expires_at) = (self.exchange.id(), self.lapse());
        self.specs.push(Spec { id, payer, payee, amount, currency, expires_at });
        self.specs.len() - 1
    }

    fn fx_transfer(
        &mut self,
        spec: usize,
        initiator: usize,
        fxp: usize,
        source: (i64, &'static str),
        target: (i64, &'static str),
        then: FollowUp,
    ) -> usize {
        let (id, transfer, expires_at) = (self.exchange.id(), self.specs[spec].id, self.lapse());
        self.exchange.add(FxSpec { id, transfer, initiator, fxp, source, target, expires_at }, then)
    }

    pub(super) fn begin_fx_transfer(&mut self) {
        let dfsps = self.dfsps.len();
        let payer = self.exchange.random.below(dfsps as u64) as usize;
        if self.dfsps[payer].condition(self.now_us).is_dead {
            return;
        }
        let payee = self.exchange.another(payer, dfsps);
        let sold = 1 + self.exchange.random.below(SOLD_MAX) as i64;
        let (own, foreign) = ((sold, CURRENCY), (sold * RATE, OTHER_CURRENCY));
        if self.exchange.random.one_in(3) {
            // An FX transfer on the payee's side only.
            let spec = self.converted_spec(payer, payee, own.0, own.1);
            let fxp = self.exchange.another(payee, dfsps);
            let fx_transfer = self.fx_transfer(spec, payee, fxp, own, foreign, FollowUp::Fulfil { spec });
            self.exchange.received.insert(spec, fx_transfer);
            return self.send_determining(spec, sold);
        }
        let spec = self.converted_spec(payer, payee, foreign.0, foreign.1);
        if self.exchange.random.one_in(3) {
            let fxp = self.exchange.another(payee, dfsps);
            let back = self.fx_transfer(spec, payee, fxp, foreign, own, FollowUp::Fulfil { spec });
            self.exchange.received.insert(spec, back);
        }
        let (fxp, amount) = (self.exchange.another(payer, dfsps), foreign.0);
        let then = match self.exchange.random.below(10) {
            0..=5 => FollowUp::Pay { spec, amount },
            // The transfer overtakes the fulfilment, or the FX transfer itself.
            6 | 7 => {
                self.counts.determining_early += 1;
                let soon = self.exchange.between(0, 3_000);
                self.after(soon, Event::SendDetermining { spec, amount });
                FollowUp::Nothing
            }
            8 => {
                self.counts.determining_never += 1;
                FollowUp::Nothing
            }
            _ => {
                self.counts.fx_transfer_lies += 1;
                FollowUp::Pay { spec, amount: amount + 1 }
            }
        };
        let fx_transfer = self.fx_transfer(spec, payer, fxp, own, foreign, then);
        self.send_fx_transfer(fx_transfer);
    }

    fn send_fx_transfer(&mut self, fx_transfer: usize) {
        let spec = self.exchange.specs[fx_transfer];
        let request = message::convert(&spec, spec.initiator, true_time(self.now_us));
        self.send(spec.initiator, request, meaning_of(&spec, spec.initiator), ATTEMPTS_MAX);
    }

    /// A payer sends a transfer that has an FX transfer on one side or on both.
    pub(super) fn send_determining(&mut self, spec: usize, amount: i64) {
        let sent = self.specs[spec];
        let dead_until_us = self.dfsps[sent.payer].dead_until_us;
        if self.dfsps[sent.payer].condition(self.now_us).is_dead {
            return self.schedule.add(dead_until_us + 1_000, Event::SendDetermining { spec, amount });
        }
        let request = message::prepare(&sent, sent.payer, &amount.to_string(), true_time(self.now_us));
        let seen = meaning(&sent, sent.payer, Some(i128::from(amount) * UNITS));
        self.send(sent.payer, request, seen, ATTEMPTS_MAX);
    }

    /// A payee that needs another currency requests it before it answers a prepare. Returns whether this payee does.
    pub(super) fn convert_received(&mut self, spec: usize) -> bool {
        let Some(fx_transfer) = self.exchange.received.get(&spec).copied() else { return false };
        let payee = self.specs[spec].payee;
        self.send_fx_transfer(fx_transfer);
        let delay = self.exchange.delay();
        let put = |ending| Event::Put { spec, by: payee, ending, is_right: true };
        match self.exchange.random.below(10) {
            0..=6 => {}
            // The payee does not wait for the FXP.
            7 => self.after(delay, put(PutContent::Fulfil { reserves: false })),
            8 => self.after(delay, put(PutContent::Abort(ErrorCode::PAYEE_REJECTION))),
            _ => self.exchange.then[fx_transfer] = FollowUp::Nothing,
        }
        true
    }

    /// An FXP receives a request for an FX transfer, and decides once.
    pub(super) fn take_fx_transfer(&mut self, fxp: usize, body: &Value, seen: [u8; 16]) {
        let id = body["commitRequestId"].as_str().and_then(TransferId::parse);
        if let Some(id) = id {
            self.auditor.outside.forwarded_fx_transfer(id, fxp, seen, &mut self.auditor.findings);
        }
        let fx_transfer = self.exchange.specs.iter().position(|spec| Some(spec.id) == id && spec.fxp == fxp);
        let Some(fx_transfer) = fx_transfer.filter(|fx_transfer| self.exchange.decided.insert(*fx_transfer))
        else {
            return;
        };
        let delay = self.exchange.delay();
        let put = |ending, is_right| Event::PutFxTransfer { fx_transfer, ending, is_right };
        let (reserve, commit) =
            (PutContent::Fulfil { reserves: true }, PutContent::Fulfil { reserves: false });
        let decline = PutContent::Abort(ErrorCode::PAYEE_REJECTION);
        let lies = if self.plan.faults.lies { 16 } else { 12 };
        match self.exchange.random.below(lies) {
            0..=7 => self.after(delay, put(reserve, true)),
            8 => self.after(delay, put(commit, true)),
            9 | 10 => self.after(delay, put(decline, true)),
            // The FXP never answers.
            11 => {}
            12 | 13 => self.after(delay, put(reserve, false)),
            _ => {
                // The FXP sends both answers, in either order.
                self.counts.fx_transfer_lies += 1;
                let other = self.exchange.delay();
                self.after(delay, put(reserve, true));
                self.after(other, put(decline, true));
            }
        }
    }

    /// An FXP ends an FX transfer, correctly or with a fault.
    pub(super) fn send_fx_transfer_put(&mut self, fx_transfer: usize, ending: PutContent, is_right: bool) {
        let spec = self.exchange.specs[fx_transfer];
        let dead_until_us = self.dfsps[spec.fxp].dead_until_us;
        if self.dfsps[spec.fxp].condition(self.now_us).is_dead {
            let event = Event::PutFxTransfer { fx_transfer, ending, is_right };
            return self.schedule.add(dead_until_us + 1_000, event);
        }
        let (mut preimage, mut destination) = (message::preimage(spec.id), spec.initiator);
        if !is_right {
            self.counts.fx_transfer_lies += 1;
            if self.exchange.random.one_in(2) {
                preimage[0] ^= 1;
            } else {
                destination = spec.fxp;
            }
        }
        let now = true_time(self.now_us);
        let request = message::put_fx_transfer(spec.id, spec.fxp, destination, ending, &preimage, now);
        let seen = ObservedRequest::PutFxTransfer { id: spec.id, by: spec.fxp, ending, good: is_right };
        self.send(spec.fxp, request, seen, ATTEMPTS_MAX);
    }

    /// An initiator has received the fulfilment, and takes the next step of its payment.
    pub(super) fn take_fulfilment(&mut self, initiator: usize, id: TransferId) {
        let found = self.exchange.specs.iter().position(|spec| spec.id == id && spec.initiator == initiator);
        let Some(fx_transfer) = found else { return };
        let then = std::mem::replace(&mut self.exchange.then[fx_transfer], FollowUp::Nothing);
        let delay = self.exchange.delay();
        match then {
            FollowUp::Nothing => {}
            FollowUp::Pay { spec, amount } => self.after(delay, Event::SendDetermining { spec, amount }),
            FollowUp::Fulfil { spec } => {
                let ending = PutContent::Fulfil { reserves: self.exchange.random.one_in(3) };
                self.after(delay, Event::Put { spec, by: initiator, ending, is_right: true });
            }
        }
    }

    /// A DFSP breaks the rules of FX transfers.
    pub(super) fn fx_transfer_mischief(&mut self) {
        let is_on = self.exchange.is_on && self.is_troubled() && self.plan.faults.lies;
        if !is_on || self.exchange.specs.is_empty() {
            return;
        }
        let liar = self.exchange.random.below(self.dfsps.len() as u64) as usize;
        let count = self.exchange.specs.len() as u64;
        let spec = self.exchange.specs[self.exchange.random.below(count) as usize];
        let now = true_time(self.now_us);
        self.counts.fx_transfer_lies += 1;
        self.note_fault();
        match self.exchange.random.below(6) {
            0 | 1 if liar != spec.fxp => {
                let ending = PutContent::Fulfil { reserves: true };
                let preimage = message::preimage(spec.id);
                let put = message::put_fx_transfer(spec.id, liar, spec.initiator, ending, &preimage, now);
                self.send(
                    liar,
                    put,
                    ObservedRequest::PutFxTransfer { id: spec.id, by: liar, ending, good: false },
                    2,
                );
            }
            2 => {
                // The initiator's own request with another amount.
                let altered = FxSpec { target: (spec.target.0 + 1, spec.target.1), ..spec };
                let request = message::convert(&altered, spec.initiator, now);
                self.send(spec.initiator, request, meaning_of(&altered, spec.initiator), 1);
            }
            3 => {
                // An FX transfer for another DFSP's transfer.
                let fxp = self.exchange.another(liar, self.dfsps.len());
                let foreign = FxSpec { id: self.exchange.id(), initiator: liar, fxp, ..spec };
                let index = self.exchange.add(foreign, FollowUp::Nothing);
                self.send_fx_transfer(index);
            }
            4 => {
                let forged = FxSpec { id: self.exchange.id(), ..spec };
                let request = message::convert(&forged, liar, now);
                self.send(liar, request, meaning_of(&forged, liar), 1);
            }
            _ => self.send(liar, message::get_fx_transfer(spec.id, liar, now), ObservedRequest::Get, 1),
        }
    }
}
