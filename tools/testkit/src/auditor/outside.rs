//! What can be seen from outside the hub: requests that were sent, answers and callbacks that left it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use http::Method;
use upesi_fspiop::fingerprint;
use upesi_ledger::{CallbackKey, Ledger, LedgerAccountTypeId};
use upesi_types::{Currency, FspId, TransferId};

use super::Findings;
use crate::message::{CURRENCY, Ending, Request, Spec, UNITS, name, number};

type IdBytes = [u8; 17];

/// What a request means to those outside.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    /// A prepare; the amount in ten-thousandths, where it is one.
    Prepare { id: TransferId, source: usize, payer: usize, payee: usize, amount: Option<i128> },
    /// A PUT. Good: from the payee, to the payer, with the right fulfilment or a known error code.
    Put { id: TransferId, by: usize, ending: Ending, good: bool },
    /// A question.
    Get,
    /// Nothing that could take effect.
    Other,
}

/// A prepare that somebody sent.
#[derive(Clone, Debug)]
pub(crate) struct SentPrepare {
    pub(crate) fingerprint: [u8; 16],
    pub(crate) source: usize,
    pub(crate) payer: usize,
    pub(crate) payee: usize,
    pub(crate) amount: Option<i128>,
}

/// What a party was told of a transfer, ever.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    pub(crate) committed: bool,
    pub(crate) aborted: bool,
    /// That the hub does not know it.
    pub(crate) unknown: bool,
    /// The last answer to a question, if it was a final state: whether committed.
    pub(crate) is_final: bool,
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    prepares: BTreeMap<IdBytes, Vec<SentPrepare>>,
    endings: BTreeMap<IdBytes, Vec<(usize, Ending, bool)>>,
    /// Every body that a DFSP sent, byte for byte.
    bodies: BTreeSet<(usize, Bytes)>,
    /// Transfers whose prepare was answered with success.
    pub(crate) acknowledged: BTreeMap<IdBytes, TransferId>,
    /// Callbacks that their DFSP answered with success.
    delivered: BTreeSet<CallbackKey>,
    /// What each callback looked like the first time.
    looks: BTreeMap<CallbackKey, Request>,
    /// The prepare that the payee was given.
    forwarded: BTreeMap<IdBytes, [u8; 16]>,
    told: BTreeMap<(IdBytes, usize), Told>,
    /// Transfers that an operator wanted to end.
    pub(crate) ended_by_operator: BTreeSet<IdBytes>,
    /// Cover per DFSP as operators know it, in ten-thousandths.
    pub(crate) cover: BTreeMap<usize, i128>,
    /// Transfers that were removed. What is told of them afterwards is told of another transfer of their id.
    pub(crate) removed: BTreeSet<IdBytes>,
    /// Net debit caps per DFSP as operators set them; absent while one is being changed.
    pub(crate) caps: BTreeMap<usize, i128>,
}

impl Outside {
    /// A request is sent to the hub. It may never arrive.
    pub(crate) fn sent(&mut self, from: usize, seen: &Seen, request: &Request) {
        self.bodies.insert((from, request.body.clone()));
        match seen {
            Seen::Prepare { id, source, payer, payee, amount } => {
                let sent = SentPrepare {
                    fingerprint: fingerprint(&request.body),
                    source: *source,
                    payer: *payer,
                    payee: *payee,
                    amount: *amount,
                };
                self.prepares.entry(id.to_bytes()).or_default().push(sent);
            }
            Seen::Put { id, by, ending, good } => {
                self.endings.entry(id.to_bytes()).or_default().push((*by, *ending, *good));
            }
            Seen::Get | Seen::Other => {}
        }
    }

    /// The prepare with this body, if anybody sent it.
    pub(crate) fn prepare(
        &self,
        id: TransferId,
        fingerprint: &[u8; 16],
        source: Option<usize>,
    ) -> Option<&SentPrepare> {
        let sent = self.prepares.get(&id.to_bytes())?;
        sent.iter().find(|sent| {
            sent.fingerprint == *fingerprint && source.is_none_or(|source| source == sent.source)
        })
    }

    /// Whether a DFSP sent such a PUT for a transfer.
    pub(crate) fn has_put(&self, id: TransferId, by: usize, is_it: impl Fn(Ending, bool) -> bool) -> bool {
        let puts = self.endings.get(&id.to_bytes());
        puts.is_some_and(|puts| puts.iter().any(|(from, ending, good)| *from == by && is_it(*ending, *good)))
    }

    /// A callback leaves the hub: in a DFSP's name only with that DFSP's own bytes, and the same each time.
    pub(crate) fn callback_left(&mut self, key: CallbackKey, request: &Request, findings: &mut Findings) {
        let source = request.headers.get("fspiop-source").and_then(|name| name.to_str().ok());
        if let Some(dfsp) = source.and_then(number)
            && !self.bodies.contains(&(dfsp, request.body.clone()))
        {
            findings.add(format!("callback {key:?} is in dfsp{dfsp}'s name, with bytes that it never sent"));
        }
        match self.looks.get(&key) {
            None => {
                self.looks.insert(key, request.clone());
            }
            // The endpoint may have changed meanwhile.
            Some(first)
                if first.method == request.method
                    && first.headers == request.headers
                    && first.body == request.body => {}
            Some(_) => findings.add(format!("callback {key:?} is not repeated with identical bytes")),
        }
    }

    /// A DFSP has answered a callback with success.
    pub(crate) fn callback_taken(&mut self, key: CallbackKey) {
        self.delivered.insert(key);
    }

    pub(crate) fn is_delivered(&self, key: CallbackKey) -> bool {
        self.delivered.contains(&key)
    }

    /// A payee is given a prepare: one that its payer sent, and always the same one.
    pub(crate) fn forwarded(
        &mut self,
        id: TransferId,
        to: usize,
        request: &Request,
        findings: &mut Findings,
    ) {
        let seen = fingerprint(&request.body);
        let is_genuine =
            self.prepare(id, &seen, None).is_some_and(|sent| sent.source == sent.payer && sent.payee == to);
        if !is_genuine || request.method != Method::POST {
            findings.add(format!("dfsp{to} is asked to receive {id}, but no payer sent that request"));
        }
        if *self.forwarded.entry(id.to_bytes()).or_insert(seen) != seen {
            findings.add(format!("I3: two different prepares of {id} were forwarded"));
        }
    }

    /// A party is told of a transfer.
    pub(crate) fn told(&mut self, id: TransferId, to: usize, change: impl FnOnce(&mut Told)) {
        change(self.told.entry((id.to_bytes(), to)).or_default());
    }

    /// What a DFSP was told.
    pub(crate) fn told_of(&self, id: TransferId, to: usize) -> Told {
        self.told.get(&(id.to_bytes(), to)).copied().unwrap_or_default()
    }

    /// Everybody's tellings agree.
    pub(crate) fn check_tellings(&self, specs: &[Spec], findings: &mut Findings) {
        for spec in specs.iter().filter(|spec| !self.removed.contains(&spec.id.to_bytes())) {
            let parties = [spec.payer, spec.payee].map(|party| self.told_of(spec.id, party));
            let committed = parties.iter().any(|told| told.committed);
            let aborted = parties.iter().any(|told| told.aborted);
            if committed && aborted {
                findings.add(format!("I5: {} was told to be committed and to be aborted", spec.id));
            }
        }
    }

    /// Recomputes positions from what payers were told, and compares them and the cover with what an operator reads.
    pub(crate) fn compare_outcome(
        &self,
        ledger: &Ledger,
        specs: &[Spec],
        dfsps: usize,
        findings: &mut Findings,
    ) {
        self.check_tellings(specs, findings);
        let mut positions = vec![0_i128; dfsps];
        for spec in specs.iter().filter(|spec| self.told_of(spec.id, spec.payer).committed) {
            let body = self.forwarded.get(&spec.id.to_bytes());
            let sent = body.and_then(|body| self.prepare(spec.id, body, Some(spec.payer)));
            let Some(amount) = sent.and_then(|sent| sent.amount) else {
                findings.add(format!("{} is committed, but its payee was never asked", spec.id));
                continue;
            };
            positions[spec.payer] += amount;
            positions[spec.payee] -= amount;
        }
        for (dfsp, expected) in positions.into_iter().enumerate() {
            compare_balance(ledger, dfsp, LedgerAccountTypeId::POSITION, expected, findings);
            let cover = self.cover.get(&dfsp).copied().unwrap_or(0);
            compare_balance(ledger, dfsp, LedgerAccountTypeId::SETTLEMENT, -cover, findings);
        }
        self.compare_caps(ledger, findings);
    }

    /// Caps are those that operators were told are set.
    pub(crate) fn compare_caps(&self, ledger: &Ledger, findings: &mut Findings) {
        let Some(currency) = Currency::parse(CURRENCY) else { return };
        for (dfsp, cap) in &self.caps {
            let participant = FspId::parse(&name(*dfsp)).and_then(|name| ledger.participant_named(&name));
            let found = participant.and_then(|participant| participant.limit(currency));
            let found = found.map(|limit| i128::from(limit.value.units()));
            if found != Some(*cap) {
                findings.add(format!("I2: the cap of dfsp{dfsp} was set to {cap} and is {found:?}"));
            }
        }
    }
}

fn compare_balance(
    ledger: &Ledger,
    dfsp: usize,
    kind: LedgerAccountTypeId,
    expected: i128,
    findings: &mut Findings,
) {
    let currency = Currency::parse(CURRENCY);
    let participant = FspId::parse(&name(dfsp)).and_then(|name| ledger.participant_named(&name));
    let account = participant.zip(currency).and_then(|(owner, currency)| owner.account(currency, kind));
    let balance =
        account.and_then(|id| ledger.account(id)).map(|account| i128::from(account.balance.units()));
    if balance != Some(expected) {
        findings.add(format!(
            "I3: dfsp{dfsp}'s {} is {:?} units, from outside it is {}",
            ledger.account_type_name(kind),
            balance.map(|balance| balance / UNITS),
            expected / UNITS
        ));
    }
}
