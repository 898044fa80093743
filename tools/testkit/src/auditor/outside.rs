//! An observer outside the hub: it sees the requests that were sent, and the answers and callbacks that left the hub.

mod bulks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use upesi_fspiop::fingerprint;
use upesi_ledger::{CallbackKey, Granularity, Ledger, LedgerAccountTypeId};
use upesi_types::{Currency, FspId, TransferId};

use self::bulks::BulksSeen;
pub(crate) use self::bulks::{SentAnswer, SentBulk, money_of};
use super::Findings;
use super::account::currency_number;
use super::treasurer::{ObservedLimits, Treasurer};
use crate::message::{CURRENCY, FxSpec, OTHER_CURRENCY, PutContent, Request, Spec, UNITS, name, number};
use crate::remote::Remote;

type IdBytes = [u8; 17];

/// The meaning of a request for an observer.
#[derive(Clone, Debug)]
pub(crate) enum ObservedRequest {
    /// A prepare; the amount in ten-thousandths, if it is a valid one.
    Prepare {
        id: TransferId,
        source: usize,
        payer: usize,
        payee: usize,
        amount: Option<i128>,
        currency: u8,
    },
    /// A PUT. It is valid if the payee sent it to the payer, with the right fulfilment or a known error code.
    Put {
        id: TransferId,
        by: usize,
        ending: PutContent,
        good: bool,
    },
    Convert {
        id: TransferId,
        sent: SentFxTransfer,
    },
    /// A PUT about an FX transfer. It is valid if the FXP sent it to the initiator, with the right content.
    PutFxTransfer {
        id: TransferId,
        by: usize,
        ending: PutContent,
        good: bool,
    },
    Bulk(Arc<SentBulk>),
    PutBulk(Arc<SentAnswer>),
    /// A request that no hub may accept.
    Invalid,
    Get,
    /// A request that can have no effect.
    Other,
}

#[derive(Clone, Debug)]
pub(crate) struct SentPrepare {
    pub(crate) fingerprint: [u8; 16],
    pub(crate) source: usize,
    pub(crate) payer: usize,
    pub(crate) payee: usize,
    pub(crate) amount: Option<i128>,
    pub(crate) currency: u8,
}

/// A request for an FX transfer, from any sender.
#[derive(Clone, Debug)]
pub(crate) struct SentFxTransfer {
    pub(crate) source: usize,
    pub(crate) transfer: TransferId,
    pub(crate) initiator: usize,
    pub(crate) fxp: usize,
    /// The amount in ten-thousandths, and the number of the currency.
    pub(crate) sold: (i128, u8),
    pub(crate) bought: (i128, u8),
    pub(crate) fingerprint: [u8; 16],
}

/// The two currencies, indexed by number.
const CURRENCIES: [&str; 2] = [CURRENCY, OTHER_CURRENCY];

/// A party's knowledge about a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PartyKnowledge {
    pub(crate) committed: bool,
    pub(crate) aborted: bool,
    /// The hub answered that it does not know the transfer.
    pub(crate) unknown: bool,
    /// Whether the last answer to a query was a final state.
    pub(crate) is_final: bool,
}

/// A fee as operators agreed on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimFee {
    /// Share of the amount, in millionths.
    pub(crate) rate: u32,
    /// Fixed part, in ten-thousandths.
    pub(crate) fixed: i64,
    /// Least amount of a transfer that owes the fee, in whole units.
    pub(crate) least: i64,
    pub(crate) paid_by_payer: bool,
}

impl SimFee {
    /// The fee that the payer DFSP owes the payee DFSP for an amount of whole units, both in ten-thousandths. Amounts
    /// are whole, so that shares of 0.6 % need rounding to hundredths.
    fn owed_by_payer(&self, amount: i128) -> i128 {
        let share = (amount * i128::from(self.rate) + 50_000_000).div_euclid(100_000_000) * 100;
        let fee = if amount < i128::from(self.least) * UNITS { 0 } else { share + i128::from(self.fixed) };
        if self.paid_by_payer { fee } else { -fee }
    }
}

/// All messages that were seen.
#[derive(Debug, Default)]
pub(crate) struct ObservedMessages {
    prepares: BTreeMap<IdBytes, Vec<SentPrepare>>,
    endings: BTreeMap<IdBytes, Vec<(usize, PutContent, bool)>>,
    fx_transfers: BTreeMap<IdBytes, Vec<SentFxTransfer>>,
    bulks: BulksSeen,
    /// Every body that a DFSP sent, byte for byte.
    bodies: BTreeSet<(usize, Bytes)>,
    /// Transfers whose prepare was answered with success.
    pub(crate) acknowledged: BTreeMap<IdBytes, TransferId>,
    /// FX transfers whose request was answered with success.
    pub(crate) acknowledged_fx_transfers: BTreeMap<IdBytes, TransferId>,
    /// Bulk transfers whose request was answered with success.
    pub(crate) acknowledged_bulks: BTreeMap<IdBytes, TransferId>,
    /// Callbacks that their DFSP answered with success.
    delivered: BTreeSet<CallbackKey>,
    /// Each callback as it was sent first.
    looks: BTreeMap<CallbackKey, Request>,
    /// Fingerprint of the prepare that the payee received.
    forwarded: BTreeMap<IdBytes, [u8; 16]>,
    /// For FX transfers: the request that the FXP received.
    converted: BTreeMap<IdBytes, SentFxTransfer>,
    /// FX transfers whose FXP received a request.
    forwarded_fx_transfers: BTreeSet<IdBytes>,
    told: BTreeMap<(IdBytes, usize), PartyKnowledge>,
    /// Amounts of transfers at the first message that they are committed. An id that was removed may be used again with
    /// another amount.
    paid: BTreeMap<IdBytes, i128>,
    /// Transfers that an operator tried to end.
    pub(crate) ended_by_operator: BTreeSet<IdBytes>,
    /// Liquidity cover of each DFSP as operators know it, in ten-thousandths.
    pub(crate) cover: BTreeMap<usize, i128>,
    /// Transfers that were removed. Later messages with such an id are about another transfer.
    pub(crate) removed: BTreeSet<IdBytes>,
    /// Net debit cap of each DFSP as operators set it, or as they read it from settlements that changed it. Absent
    /// while a change is pending.
    pub(crate) caps: BTreeMap<usize, i128>,
    pub(crate) treasurer: Treasurer,
    /// Liquidity cover of each DFSP in the other currency, which never changes; 0 in a world with one currency.
    pub(crate) other_cover: i128,
    /// The DFSPs behind a proxy.
    pub(crate) remote: Option<Remote>,
    /// Fees that every committed transfer owes; empty if an observer cannot determine them.
    pub(crate) fees: &'static [SimFee],
}

impl ObservedMessages {
    /// Notes a request that is sent to the hub. It may never arrive.
    pub(crate) fn sent(&mut self, from: usize, seen: &ObservedRequest, request: &Request) {
        self.bodies.insert((from, request.body.clone()));
        match seen {
            ObservedRequest::Prepare { id, source, payer, payee, amount, currency } => {
                let sent = SentPrepare {
                    fingerprint: fingerprint(&request.body),
                    source: *source,
                    payer: *payer,
                    payee: *payee,
                    amount: *amount,
                    currency: *currency,
                };
                self.prepares.entry(id.to_bytes()).or_default().push(sent);
            }
            ObservedRequest::Convert { id, sent } => {
                let sent = SentFxTransfer { fingerprint: fingerprint(&request.body), ..sent.clone() };
                self.fx_transfers.entry(id.to_bytes()).or_default().push(sent);
            }
            // Ids are random, so transfers and FX transfers never share one.
            ObservedRequest::Put { id, by, ending, good }
            | ObservedRequest::PutFxTransfer { id, by, ending, good } => {
                self.endings.entry(id.to_bytes()).or_default().push((*by, *ending, *good));
            }
            ObservedRequest::Bulk(bulk) => self.bulks.sent(bulk, fingerprint(&request.body)),
            ObservedRequest::PutBulk(answer) => self.bulks.answered(answer, fingerprint(&request.body)),
            ObservedRequest::Invalid | ObservedRequest::Get | ObservedRequest::Other => {}
        }
    }

    /// The prepare with this body, if any DFSP sent it.
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

    /// The FX request with this body, if any DFSP sent it; the initiator's own request takes precedence.
    pub(crate) fn fx_transfer(&self, id: TransferId, fingerprint: &[u8; 16]) -> Option<&SentFxTransfer> {
        let sent =
            self.fx_transfers.get(&id.to_bytes())?.iter().filter(|sent| sent.fingerprint == *fingerprint);
        sent.max_by_key(|sent| sent.source == sent.initiator)
    }

    /// Whether an FXP sent a matching PUT for an FX transfer.
    pub(crate) fn has_put_fx_transfer(
        &self,
        id: TransferId,
        by: usize,
        is_it: impl Fn(PutContent, bool) -> bool,
    ) -> bool {
        self.has_put(id, by, is_it)
    }

    /// Whether a DFSP sent a matching PUT for a transfer.
    pub(crate) fn has_put(
        &self,
        id: TransferId,
        by: usize,
        is_it: impl Fn(PutContent, bool) -> bool,
    ) -> bool {
        let puts = self.endings.get(&id.to_bytes());
        puts.is_some_and(|puts| puts.iter().any(|(from, ending, good)| *from == by && is_it(*ending, *good)))
    }

    /// Checks a callback that leaves the hub. If it names a DFSP as sender, it must have bytes that this DFSP sent, and
    /// the same bytes each time.
    pub(crate) fn callback_left(&mut self, key: CallbackKey, request: &Request, findings: &mut Findings) {
        let source = request.headers.get("fspiop-source").and_then(|name| name.to_str().ok());
        if let Some(dfsp) = source.and_then(number)
            && !self.bodies.contains(&(dfsp, request.body.clone()))
        {
            findings.add(format!(
                "callback {key:?} names dfsp{dfsp} as its sender, with bytes that this DFSP never sent"
            ));
        }
        match self.looks.get(&key) {
            None => {
                self.looks.insert(key, request.clone());
            }
            // The endpoint may have changed in the meantime.
            Some(first)
                if first.method == request.method
                    && first.headers == request.headers
                    && first.body == request.body => {}
            Some(_) => findings.add(format!("callback {key:?} is not repeated with identical bytes")),
        }
    }

    pub(crate) fn was_sent(&self, key: CallbackKey) -> bool {
        self.looks.contains_key(&key)
    }

    /// Notes that a DFSP has answered a callback with success.
    pub(crate) fn callback_taken(&mut self, key: CallbackKey) {
        self.delivered.insert(key);
    }

    pub(crate) fn is_delivered(&self, key: CallbackKey) -> bool {
        self.delivered.contains(&key)
    }

    /// Checks a prepare that a payee receives: its payer sent it, and it is always the same one.
    pub(crate) fn forwarded(
        &mut self,
        id: TransferId,
        to: usize,
        request: &Request,
        findings: &mut Findings,
    ) {
        let seen = fingerprint(&request.body);
        // Another DFSP may have sent a copy before.
        let sent = self.prepares.get(&id.to_bytes()).into_iter().flatten();
        let is_genuine = sent
            .filter(|sent| sent.fingerprint == seen)
            .any(|sent| sent.source == sent.payer && sent.payee == to);
        if !is_genuine || request.method != Method::POST {
            findings.add(format!("dfsp{to} receives {id}, but no payer sent that request"));
        }
        // A removed transfer is unknown to the hub. If an operator accepted a clock that was set back, its id may be
        // used again.
        if self.asked_for(id).is_some() && !self.removed.contains(&id.to_bytes()) {
            return findings.add(format!("I3: {id} was forwarded in a bulk transfer, and then separately"));
        }
        let before = self.forwarded.insert(id.to_bytes(), seen);
        if before.is_some_and(|before| before != seen) && !self.removed.contains(&id.to_bytes()) {
            findings.add(format!("I3: two different prepares of {id} were forwarded"));
        }
    }

    /// Checks a request that an FXP receives: its initiator sent it. If the initiator sent two requests, the FXP may
    /// receive either.
    pub(crate) fn forwarded_fx_transfer(
        &mut self,
        id: TransferId,
        to: usize,
        seen: [u8; 16],
        findings: &mut Findings,
    ) {
        let sent = self.fx_transfer(id, &seen);
        if !sent.is_some_and(|sent| sent.source == sent.initiator && sent.fxp == to) {
            findings.add(format!("dfsp{to} receives FX transfer {id}, but no initiator sent that request"));
        }
        self.forwarded_fx_transfers.insert(id.to_bytes());
    }

    pub(crate) fn told(&mut self, id: TransferId, to: usize, change: impl FnOnce(&mut PartyKnowledge)) {
        let told = self.told.entry((id.to_bytes(), to)).or_default();
        change(told);
        if !told.committed {
            return;
        }
        if let Some(amount) = self.asked_of_payee(id) {
            self.paid.entry(id.to_bytes()).or_insert(amount);
        }
        if let Some(sent) = self.asked_of_fxp(id).cloned() {
            self.converted.entry(id.to_bytes()).or_insert(sent);
        }
    }

    /// The amount of the last request to the payee: of the transfer itself, else of the bulk transfer.
    fn asked_of_payee(&self, id: TransferId) -> Option<i128> {
        let (id_bytes, sent) = (id.to_bytes(), self.prepares.get(&id.to_bytes()));
        let by_itself = self.forwarded.get(&id_bytes).zip(sent).and_then(|(body, sent)| {
            sent.iter().find(|sent| sent.fingerprint == *body && sent.source == sent.payer)?.amount
        });
        by_itself.or_else(|| self.asked_for(id))
    }

    /// The request that an FXP received. If there are several, this is the youngest, because an older one may arrive
    /// after it.
    fn asked_of_fxp(&self, id: TransferId) -> Option<&SentFxTransfer> {
        if !self.forwarded_fx_transfers.contains(&id.to_bytes()) {
            return None;
        }
        let sent = self.fx_transfers.get(&id.to_bytes())?;
        let is_sent = |seen: &[u8; 16]| sent.iter().any(|sent| sent.fingerprint == *seen);
        let asked = self
            .looks
            .iter()
            .filter(|(_, request)| request.method == Method::POST && request.path.ends_with("/fxTransfers"));
        let asked = asked.map(|(key, request)| (key.seq, fingerprint(&request.body)));
        let (_, seen) = asked.filter(|(_, seen)| is_sent(seen)).max()?;
        self.fx_transfer(id, &seen)
    }

    /// A DFSP's knowledge about a transfer.
    pub(crate) fn told_of(&self, id: TransferId, to: usize) -> PartyKnowledge {
        self.told.get(&(id.to_bytes(), to)).copied().unwrap_or_default()
    }

    /// Checks that the messages to all parties agree, also the messages about FX transfers and their transfers.
    pub(crate) fn check_tellings(&self, specs: &[Spec], fx_transfers: &[FxSpec], findings: &mut Findings) {
        for fx in fx_transfers.iter().filter(|fx| !self.removed.contains(&fx.id.to_bytes())) {
            let told = self.told_of(fx.id, fx.fxp);
            let payer = specs.iter().find(|spec| spec.id == fx.transfer).map(|spec| spec.payer);
            let paid = payer.map_or(PartyKnowledge::default(), |payer| self.told_of(fx.transfer, payer));
            if told.committed && (told.aborted || !paid.committed) {
                let (id, transfer) = (fx.id, fx.transfer);
                findings
                    .add(format!("I10: {id} was reported as committed, its transfer {transfer} {paid:?}"));
            }
        }
        for spec in specs.iter().filter(|spec| !self.removed.contains(&spec.id.to_bytes())) {
            let parties = [spec.payer, spec.payee].map(|party| self.told_of(spec.id, party));
            let committed = parties.iter().any(|told| told.committed);
            let aborted = parties.iter().any(|told| told.aborted);
            if committed && aborted {
                findings.add(format!("I5: {} was reported as committed and as aborted", spec.id));
            }
        }
    }

    /// Recomputes positions from the messages to payers. Compares them, and the cover, with the values that an operator
    /// reads.
    pub(crate) fn compare_outcome(
        &self,
        ledger: &Ledger,
        specs: &[Spec],
        fx_transfers: &[FxSpec],
        dfsps: usize,
        findings: &mut Findings,
    ) {
        let mut fees = vec![0_i128; dfsps];
        let mut moved = OwedAmounts { remote: self.remote, ..OwedAmounts::default() };
        for spec in specs.iter().filter(|spec| self.told_of(spec.id, spec.payer).committed) {
            // A payee with an FX transfer may fulfil before it has read the request.
            let amount = self.paid.get(&spec.id.to_bytes()).copied();
            let Some(amount) = amount.or_else(|| self.asked_of_payee(spec.id)) else {
                findings.add(format!("{} is committed, but its payee never received it", spec.id));
                continue;
            };
            let (payer, payee, currency) = (spec.payer, spec.payee, currency_number(spec.currency));
            let of_it = fx_transfers.iter().filter(|fx| fx.transfer == spec.id);
            let committed: Vec<_> = of_it.filter(|fx| self.told_of(fx.id, fx.fxp).committed).collect();
            // An FXP pays the amount that the payer has bought from it.
            let payers =
                committed.iter().find(|fx| fx.initiator == payer && currency_number(fx.target.1) == currency);
            moved.add(currency, payers.map_or(payer, |fx| fx.fxp), payee, amount);
            for fx in &committed {
                let sent = self.converted.get(&fx.id.to_bytes());
                let Some(sent) = sent.or_else(|| self.asked_of_fxp(fx.id)) else {
                    findings.add(format!("{} is committed, but its FXP never received it", fx.id));
                    continue;
                };
                moved.add(sent.sold.1, fx.initiator, fx.fxp, sent.sold.0);
                if fx.initiator != payer {
                    moved.add(sent.bought.1, fx.fxp, fx.initiator, sent.bought.0);
                }
            }
            if currency != 0 {
                continue;
            }
            let fee: i128 = self.fees.iter().map(|fee| fee.owed_by_payer(amount)).sum();
            fees[moved.liable(payer)] += fee;
            fees[moved.liable(payee)] -= fee;
        }
        let settles_commits = ledger.models().iter().any(|model| model.granularity == Granularity::Gross);
        for (dfsp, fees) in fees.into_iter().enumerate() {
            if !self.fees.is_empty() {
                let kind = LedgerAccountTypeId::INTERCHANGE_FEE;
                let expected = fees + self.treasurer.added_to(dfsp, kind, 0);
                compare_balance(ledger, dfsp, 0, &[kind], expected, findings);
            }
            for currency in 0..self.currencies() {
                let (position, settlement) = (LedgerAccountTypeId::POSITION, LedgerAccountTypeId::SETTLEMENT);
                let expected =
                    moved.position(currency, dfsp) + self.treasurer.added_to(dfsp, position, currency);
                let of_other = self.other_cover;
                let cover =
                    if currency == 0 { self.cover.get(&dfsp).copied().unwrap_or(0) } else { of_other };
                if settles_commits {
                    // Messages do not show which transfers were settled by their commit.
                    compare_balance(
                        ledger,
                        dfsp,
                        currency,
                        &[position, settlement],
                        expected - cover,
                        findings,
                    );
                } else {
                    compare_balance(ledger, dfsp, currency, &[position], expected, findings);
                    compare_balance(ledger, dfsp, currency, &[settlement], -cover, findings);
                }
            }
        }
        compare_windows(ledger, &moved.paid, settles_commits, findings);
    }

    fn currencies(&self) -> u8 {
        1 + u8::from(self.other_cover != 0)
    }

    /// An operator reads the settlements after an answer.
    pub(crate) fn read_settlements(&mut self, ledger: &Ledger, findings: &mut Findings) {
        let observed = ObservedLimits { caps: &mut self.caps, cover: &mut self.cover };
        self.treasurer.read(ledger, observed, findings);
    }

    /// Checks that the caps equal the values that operators set and the hub confirmed.
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

/// The amounts that DFSPs owe each other according to the messages to them, and the number of movements: by currency,
/// debtor and creditor. A proxy owes, and is owed, the amounts of the DFSPs behind it.
#[derive(Debug, Default)]
struct OwedAmounts {
    paid: Paid,
    remote: Option<Remote>,
}

type Paid = BTreeMap<(u8, usize, usize), (i128, u64)>;

impl OwedAmounts {
    fn add(&mut self, currency: u8, debtor: usize, creditor: usize, amount: i128) {
        let parties = (currency, self.liable(debtor), self.liable(creditor));
        let sum = self.paid.entry(parties).or_default();
        *sum = (sum.0 + amount, sum.1 + 1);
    }

    fn liable(&self, dfsp: usize) -> usize {
        self.remote.map_or(dfsp, |remote| remote.liable(dfsp))
    }

    fn position(&self, currency: u8, dfsp: usize) -> i128 {
        let of_currency = self.paid.iter().filter(|((of, ..), _)| *of == currency);
        let sum = |((_, debtor, creditor), (amount, _)): (&(u8, usize, usize), &(i128, u64))| {
            i128::from(*debtor == dfsp) * amount - i128::from(*creditor == dfsp) * amount
        };
        of_currency.map(sum).sum()
    }
}

/// Checks that every transfer that was reported to its payer as committed, and every movement of an FX transfer, is in
/// exactly one window. Together the windows contain the paid amount, or less if transfers are settled by their commits.
fn compare_windows(ledger: &Ledger, paid: &Paid, settles_commits: bool, findings: &mut Findings) {
    let owner = |id| {
        let account = ledger.account(id).filter(|account| account.kind == LedgerAccountTypeId::POSITION)?;
        let dfsp = number(ledger.participant(account.participant).name.as_str())?;
        Some((currency_number(account.currency.as_str()), dfsp))
    };
    let mut found = Paid::new();
    for window in ledger.windows() {
        for pair in ledger.window_pairs(window).unwrap_or_default().iter() {
            let Some(((currency, payer), (_, payee))) = owner(pair.payer).zip(owner(pair.payee)) else {
                continue;
            };
            let sum = found.entry((currency, payer, payee)).or_default();
            *sum = (sum.0 + pair.sum.units, sum.1 + pair.sum.transfers);
        }
    }
    let is_part = |(parties, sum): (&(u8, usize, usize), &(i128, u64))| {
        paid.get(parties).is_some_and(|paid| sum.0 <= paid.0 && sum.1 <= paid.1)
    };
    if !(found == *paid || settles_commits && found.iter().all(is_part)) {
        findings.add(format!("settlement: the windows contain {found:?}, the messages to payers {paid:?}"));
    }
}

fn compare_balance(
    ledger: &Ledger,
    dfsp: usize,
    currency: u8,
    kinds: &[LedgerAccountTypeId],
    expected: i128,
    findings: &mut Findings,
) {
    let code = CURRENCIES[usize::from(currency)];
    let currency = Currency::parse(code);
    let participant = FspId::parse(&name(dfsp)).and_then(|name| ledger.participant_named(&name));
    let account =
        |kind| participant.zip(currency).and_then(|(owner, currency)| owner.account(currency, kind));
    let balance = |kind| Some(i128::from(ledger.account(account(kind)?)?.balance.units()));
    let balance = kinds.iter().map(|kind| balance(*kind)).sum::<Option<i128>>();
    if balance != Some(expected) {
        findings.add(format!(
            "I3: dfsp{dfsp}'s {:?} in {code} is {:?} units, by the messages it is {}",
            kinds.iter().map(|kind| ledger.account_type_name(*kind)).collect::<Vec<_>>(),
            balance.map(|balance| balance / UNITS),
            expected / UNITS
        ));
    }
}
