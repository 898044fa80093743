//! The behaviour of DFSPs: they pay, answer, and lie.

use std::collections::BTreeSet;
use std::sync::Arc;

use upesi_ledger::AdminCommand;
use upesi_types::{ErrorCode, TransferId};

use super::World;
use super::event::Event;
use super::values::fsp;
use crate::auditor::{ObservedRequest, currency_number};
use crate::clock::true_time;
use crate::message::{self, PutContent, Request, Spec, UNITS, number};

/// Maximum number of attempts for a request.
pub(super) const ATTEMPTS_MAX: u32 = 5;
/// Maximum amount of a payment, in whole units: a few payments reach cap and cover.
const AMOUNT_MAX: u64 = 500;
pub(super) const LASTING_MS: [u64; 4] = [400, 2_000, 8_000, 20_000];
/// Duration of long transfers, which an operator must end unless a party does.
const LASTING_LONG_MS: u64 = 12 * 3_600_000;
/// One transfer in this many is a long one.
const LONG_ONE_IN: u64 = 12;

#[derive(Debug, Default)]
pub(super) struct Dfsp {
    pub(super) dead_until_us: u64,
    pub(super) slow_until_us: u64,
    pub(super) failing_until_us: u64,
    decided: BTreeSet<[u8; 17]>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Condition {
    pub(super) is_dead: bool,
    pub(super) is_slow: bool,
    pub(super) is_failing: bool,
}

impl Dfsp {
    pub(super) const fn condition(&self, now_us: u64) -> Condition {
        Condition {
            is_dead: now_us < self.dead_until_us,
            is_slow: now_us < self.slow_until_us,
            is_failing: now_us < self.failing_until_us,
        }
    }
}

pub(super) fn meaning(spec: &Spec, source: usize, amount: Option<i128>) -> ObservedRequest {
    let Spec { id, payer, payee, currency, .. } = *spec;
    ObservedRequest::Prepare { id, source, payer, payee, amount, currency: currency_number(currency) }
}

impl World {
    pub(super) fn begin_transfer(&mut self) {
        let payer = self.random.below(self.dfsps.len() as u64) as usize;
        if self.dfsps[payer].condition(self.now_us).is_dead {
            return;
        }
        let spec = self.draw_spec(payer);
        self.specs.push(spec);
        let request = message::prepare(&spec, payer, &spec.amount.to_string(), true_time(self.now_us));
        self.send(payer, request, meaning(&spec, payer, Some(i128::from(spec.amount) * UNITS)), ATTEMPTS_MAX);
    }

    fn draw_spec(&mut self, payer: usize) -> Spec {
        let others = self.dfsps.len() as u64 - 1;
        let payee = (payer + 1 + self.random.below(others) as usize) % self.dfsps.len();
        let drawn = self.lasting_ms()[self.random.below(LASTING_MS.len() as u64) as usize];
        // This draw uses the second random stream.
        let lasting = if self.plan.faults.ambushes && self.mischance.one_in(LONG_ONE_IN) {
            LASTING_LONG_MS
        } else {
            drawn
        };
        Spec {
            id: self.new_id(),
            payer,
            payee,
            amount: 1 + self.random.below(AMOUNT_MAX) as i64,
            currency: message::CURRENCY,
            expires_at: true_time(self.now_us + lasting * 1_000),
        }
    }

    /// A payee decides on its answer, once per transfer.
    pub(super) fn answer_prepare(&mut self, payee: usize, id: TransferId) {
        if !self.dfsps[payee].decided.insert(id.to_bytes()) {
            return;
        }
        let Some(spec) = self.specs.iter().position(|spec| spec.id == id) else { return };
        if self.convert_received(spec) {
            return;
        }
        let delay =
            if self.random.one_in(8) { self.between(500_000, 4_000_000) } else { self.between(500, 40_000) };
        let put = |ending, is_right| Event::Put { spec, by: payee, ending, is_right };
        let commit = PutContent::Fulfil { reserves: false };
        let reserve = PutContent::Fulfil { reserves: true };
        let abort = PutContent::Abort(ErrorCode::PAYEE_REJECTION);
        let lies = if self.plan.faults.lies { 20 } else { 16 };
        match self.random.below(lies) {
            0..=9 => self.after(delay, put(commit, true)),
            10..=12 => self.after(delay, put(reserve, true)),
            13 | 14 => self.after(delay, put(abort, true)),
            // The payee never answers.
            15 => {}
            16 => self.after(delay, put(commit, false)),
            17 => self.after(delay, put(reserve, false)),
            18 => {
                // The payee sends an abort and a fulfil, in either order.
                self.counts.contradictions += 1;
                let other = self.between(500, 40_000);
                self.after(delay, put(abort, true));
                self.after(other, put(commit, true));
            }
            _ => {
                let unknown = ErrorCode::from_number(9_999).unwrap_or(ErrorCode::PAYEE_REJECTION);
                self.after(delay, put(PutContent::Abort(unknown), false));
            }
        }
    }

    /// A payee ends a transfer, correctly or with a fault.
    pub(super) fn send_put(&mut self, spec: usize, by: usize, ending: PutContent, is_right: bool) {
        if self.dfsps[by].condition(self.now_us).is_dead {
            let until_us = self.dfsps[by].dead_until_us;
            return self.schedule.add(until_us + 1_000, Event::Put { spec, by, ending, is_right });
        }
        let spec = self.specs[spec];
        let mut preimage = spec.preimage();
        let mut destination = spec.payer;
        if !is_right && matches!(ending, PutContent::Fulfil { .. }) {
            if self.random.one_in(2) {
                preimage[0] ^= 1;
            } else {
                destination = by;
            }
        }
        let now = true_time(self.now_us);
        let request = message::put(spec.id, by, destination, ending, &preimage, now);
        self.counts.lies += u64::from(!is_right);
        self.counts.false_endings += u64::from(!is_right);
        let seen = ObservedRequest::Put { id: spec.id, by, ending, good: is_right };
        self.send(by, request, seen, ATTEMPTS_MAX);
    }

    /// A DFSP breaks the rules.
    pub(super) fn mischief(&mut self) {
        if !(self.is_troubled() && self.plan.faults.lies) {
            return;
        }
        let liar = self.random.below(self.dfsps.len() as u64) as usize;
        let now = true_time(self.now_us);
        let spec = match self.specs.len() {
            0 => return,
            count => self.specs[self.random.below(count as u64) as usize],
        };
        self.note_fault();
        self.counts.lies += 1;
        match self.random.below(9) {
            0 | 1 => self.end_as_stranger(liar, &spec),
            2 | 3 => {
                // The DFSP's own prepare with another amount.
                self.counts.altered_prepares += 1;
                let amount = spec.amount + 1;
                let request = message::prepare(&spec, spec.payer, &amount.to_string(), now);
                let seen = meaning(&spec, spec.payer, Some(i128::from(amount) * UNITS));
                self.send(spec.payer, request, seen, 1);
            }
            4 => {
                // Another DFSP's prepare under the DFSP's own name.
                self.counts.copied_prepares += u64::from(liar != spec.payer);
                let request = message::prepare(&spec, liar, &spec.amount.to_string(), now);
                self.send(liar, request, meaning(&spec, liar, Some(i128::from(spec.amount) * UNITS)), 1);
            }
            5 => {
                self.counts.forged_prepares += u64::from(liar != spec.payer);
                let forged = Spec { id: self.new_id(), ..spec };
                let request = message::prepare(&forged, liar, "7", now);
                self.send(liar, request, meaning(&forged, liar, Some(7 * UNITS)), 1);
            }
            6 => self.send_oddity(liar, &spec),
            7 => {
                self.counts.strangers_questions += u64::from(liar != spec.payer && liar != spec.payee);
                self.send(liar, message::get(spec.id, liar, now), ObservedRequest::Get, 1);
            }
            _ => {
                self.counts.endings_of_nothing += 1;
                let unknown = self.new_id();
                let put = message::put(
                    unknown,
                    liar,
                    spec.payer,
                    PutContent::Fulfil { reserves: true },
                    &spec.preimage(),
                    now,
                );
                self.send(liar, put, ObservedRequest::Other, 1);
            }
        }
    }

    fn end_as_stranger(&mut self, liar: usize, spec: &Spec) {
        if liar == spec.payee {
            return;
        }
        self.counts.strangers_endings += 1;
        let ending = if self.random.one_in(3) {
            PutContent::Abort(ErrorCode::PAYEE_REJECTION)
        } else {
            PutContent::Fulfil { reserves: self.random.one_in(3) }
        };
        let now = true_time(self.now_us);
        let request = message::put(spec.id, liar, spec.payer, ending, &spec.preimage(), now);
        self.send(liar, request, ObservedRequest::Put { id: spec.id, by: liar, ending, good: false }, 2);
    }

    /// Sends amounts and bodies that no ledger accepts.
    fn send_oddity(&mut self, liar: usize, spec: &Spec) {
        self.counts.oddities += 1;
        let odd = Spec { id: self.new_id(), payer: liar, payee: (liar + 1) % self.dfsps.len(), ..*spec };
        let amounts = ["0", "0.00001", "99999999999999.9999", "-1", "1e5", "12345678901234567890", " 1", ""];
        let amount = amounts[self.random.below(amounts.len() as u64) as usize];
        let mut request = message::prepare(&odd, liar, amount, true_time(self.now_us));
        if self.random.one_in(3) {
            let cut = self.random.below(request.body.len() as u64) as usize;
            request = Arc::new(Request { body: request.body.slice(..cut), ..(*request).clone() });
        }
        // The schema admits an amount of zero (FSPIOP API v1.1 §7.1.5).
        let units = (amount == "0").then_some(0);
        self.send(liar, request, meaning(&odd, liar, units), 1);
    }
}

impl World {
    /// Number of DFSPs of this scheme.
    pub(super) fn locals(&self) -> usize {
        self.remote.map_or(self.dfsps.len(), |remote| remote.first)
    }

    pub(super) fn liable(&self, dfsp: usize) -> usize {
        self.remote.map_or(dfsp, |remote| remote.liable(dfsp))
    }

    pub(super) fn is_proxy(&self, dfsp: usize) -> bool {
        self.remote.is_some_and(|remote| remote.proxy == dfsp)
    }

    /// Puts the DFSPs of another scheme behind their proxy once it is complete.
    pub(super) fn onboard_remote(&mut self) {
        let Some(remote) = self.remote else { return };
        for dfsp in remote.first..remote.first + remote.count {
            self.must(AdminCommand::AddProxied { proxy: fsp(remote.proxy), name: fsp(dfsp) });
        }
        self.auditor.outside.remote = Some(remote);
    }

    /// The DFSP that receives a callback: the owner of the addressed host, or the addressed DFSP behind it.
    pub(super) fn recipient(&self, request: &Request) -> Option<usize> {
        let host = number(request.path.split(['.', '/']).next()?)?;
        let meant = request.headers.get("fspiop-destination").and_then(|name| number(name.to_str().ok()?));
        let is_behind = |dfsp: &usize| *dfsp >= self.locals() && self.liable(*dfsp) == host;
        Some(meant.filter(is_behind).unwrap_or(host))
    }
}
