//! What can be seen from outside the hub: requests that were sent, answers and callbacks that left it.

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
use super::treasurer::Treasurer;
use crate::message::{CURRENCY, Ending, FxSpec, OTHER_CURRENCY, Request, Spec, UNITS, name, number};
use crate::world::Remote;

type IdBytes = [u8; 17];

/// What a request means to those outside.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    /// A prepare; the amount in ten-thousandths, where it is one.
    Prepare {
        id: TransferId,
        source: usize,
        payer: usize,
        payee: usize,
        amount: Option<i128>,
        currency: u8,
    },
    /// A PUT. Good: from the payee, to the payer, with the right fulfilment or a known error code.
    Put {
        id: TransferId,
        by: usize,
        ending: Ending,
        good: bool,
    },
    Convert {
        id: TransferId,
        sent: SentConversion,
    },
    /// A PUT about a conversion. Good: from its FXP, to its initiator, and right.
    PutConversion {
        id: TransferId,
        by: usize,
        ending: Ending,
        good: bool,
    },
    Bulk(Arc<SentBulk>),
    PutBulk(Arc<SentAnswer>),
    /// What no hub may take.
    Invalid,
    Get,
    /// Nothing that could take effect.
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

/// A request for a conversion that somebody sent.
#[derive(Clone, Debug)]
pub(crate) struct SentConversion {
    pub(crate) source: usize,
    pub(crate) transfer: TransferId,
    pub(crate) initiator: usize,
    pub(crate) fxp: usize,
    /// Ten-thousandths, and the number of the currency.
    pub(crate) sold: (i128, u8),
    pub(crate) bought: (i128, u8),
    pub(crate) fingerprint: [u8; 16],
}

/// The number of a currency: 0 for the scheme's.
pub(crate) fn currency_number(currency: &str) -> u8 {
    u8::from(currency != CURRENCY)
}

/// Both currencies, by their numbers.
const CURRENCIES: [&str; 2] = [CURRENCY, OTHER_CURRENCY];

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

/// A fee as operators agreed on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimFee {
    /// Millionths of the amount.
    pub(crate) rate: u32,
    /// Ten-thousandths in addition.
    pub(crate) fixed: i64,
    /// Least amount of a transfer, in whole units.
    pub(crate) least: i64,
    pub(crate) paid_by_payer: bool,
}

impl SimFee {
    /// What the payer DFSP owes the payee DFSP for an amount of whole units, both in ten-thousandths. Amounts are
    /// whole, so that shares of 0.6 % need rounding to hundredths.
    fn owed_by_payer(&self, amount: i128) -> i128 {
        let share = (amount * i128::from(self.rate) + 50_000_000).div_euclid(100_000_000) * 100;
        let fee = if amount < i128::from(self.least) * UNITS { 0 } else { share + i128::from(self.fixed) };
        if self.paid_by_payer { fee } else { -fee }
    }
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    prepares: BTreeMap<IdBytes, Vec<SentPrepare>>,
    endings: BTreeMap<IdBytes, Vec<(usize, Ending, bool)>>,
    conversions: BTreeMap<IdBytes, Vec<SentConversion>>,
    bulks: BulksSeen,
    /// Every body that a DFSP sent, byte for byte.
    bodies: BTreeSet<(usize, Bytes)>,
    /// Transfers whose prepare was answered with success.
    pub(crate) acknowledged: BTreeMap<IdBytes, TransferId>,
    /// Conversions whose request was.
    pub(crate) acknowledged_conversions: BTreeMap<IdBytes, TransferId>,
    /// Bulks whose request was.
    pub(crate) acknowledged_bulks: BTreeMap<IdBytes, TransferId>,
    /// Callbacks that their DFSP answered with success.
    delivered: BTreeSet<CallbackKey>,
    /// What each callback looked like the first time.
    looks: BTreeMap<CallbackKey, Request>,
    /// The prepare that the payee was given.
    forwarded: BTreeMap<IdBytes, [u8; 16]>,
    /// Of conversions, too, what their FXP was asked for by then.
    converted: BTreeMap<IdBytes, SentConversion>,
    /// Conversions whose FXP was given a request.
    forwarded_conversions: BTreeSet<IdBytes>,
    told: BTreeMap<(IdBytes, usize), Told>,
    /// Amounts of transfers when somebody was first told that they are committed: an id that comes again once it was
    /// removed may come with another.
    paid: BTreeMap<IdBytes, i128>,
    /// Transfers that an operator wanted to end.
    pub(crate) ended_by_operator: BTreeSet<IdBytes>,
    /// Cover per DFSP as operators know it, in ten-thousandths.
    pub(crate) cover: BTreeMap<usize, i128>,
    /// Transfers that were removed. What is told of them afterwards is told of another transfer of their id.
    pub(crate) removed: BTreeSet<IdBytes>,
    /// Net debit caps per DFSP as operators set them, or read of settlements that did; absent while one is being
    /// changed.
    pub(crate) caps: BTreeMap<usize, i128>,
    pub(crate) treasurer: Treasurer,
    /// Cover of each DFSP in the other currency, which never changes; 0 where there is no such.
    pub(crate) other_cover: i128,
    /// Who is behind a proxy.
    pub(crate) remote: Option<Remote>,
    /// Fees that every committed transfer owes; none if that cannot be told from outside.
    pub(crate) fees: &'static [SimFee],
}

impl Outside {
    /// A request is sent to the hub. It may never arrive.
    pub(crate) fn sent(&mut self, from: usize, seen: &Seen, request: &Request) {
        self.bodies.insert((from, request.body.clone()));
        match seen {
            Seen::Prepare { id, source, payer, payee, amount, currency } => {
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
            Seen::Convert { id, sent } => {
                let sent = SentConversion { fingerprint: fingerprint(&request.body), ..sent.clone() };
                self.conversions.entry(id.to_bytes()).or_default().push(sent);
            }
            // Ids are random, so that those of transfers and of conversions differ.
            Seen::Put { id, by, ending, good } | Seen::PutConversion { id, by, ending, good } => {
                self.endings.entry(id.to_bytes()).or_default().push((*by, *ending, *good));
            }
            Seen::Bulk(bulk) => self.bulks.sent(bulk, fingerprint(&request.body)),
            Seen::PutBulk(answer) => self.bulks.answered(answer, fingerprint(&request.body)),
            Seen::Invalid | Seen::Get | Seen::Other => {}
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

    /// The request for a conversion with this body, if anybody sent it; its initiator's own rather than a stranger's.
    pub(crate) fn conversion(&self, id: TransferId, fingerprint: &[u8; 16]) -> Option<&SentConversion> {
        let sent =
            self.conversions.get(&id.to_bytes())?.iter().filter(|sent| sent.fingerprint == *fingerprint);
        sent.max_by_key(|sent| sent.source == sent.initiator)
    }

    /// Whether an FXP sent such a PUT for a conversion.
    pub(crate) fn has_put_conversion(
        &self,
        id: TransferId,
        by: usize,
        is_it: impl Fn(Ending, bool) -> bool,
    ) -> bool {
        self.has_put(id, by, is_it)
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

    pub(crate) fn was_sent(&self, key: CallbackKey) -> bool {
        self.looks.contains_key(&key)
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
        // A stranger may have sent a copy before.
        let sent = self.prepares.get(&id.to_bytes()).into_iter().flatten();
        let is_genuine = sent
            .filter(|sent| sent.fingerprint == seen)
            .any(|sent| sent.source == sent.payer && sent.payee == to);
        if !is_genuine || request.method != Method::POST {
            findings.add(format!("dfsp{to} is asked to receive {id}, but no payer sent that request"));
        }
        // What was removed is unknown: where an operator accepted a clock that jumped back, the id may come again.
        if self.asked_for(id).is_some() && !self.removed.contains(&id.to_bytes()) {
            return findings.add(format!("I3: {id} was forwarded in a bulk, and then by itself"));
        }
        let before = self.forwarded.insert(id.to_bytes(), seen);
        if before.is_some_and(|before| before != seen) && !self.removed.contains(&id.to_bytes()) {
            findings.add(format!("I3: two different prepares of {id} were forwarded"));
        }
    }

    /// An FXP is given a request: one that its initiator sent. What it is given may be another than was meant, where
    /// the initiator sent both.
    pub(crate) fn forwarded_conversion(
        &mut self,
        id: TransferId,
        to: usize,
        seen: [u8; 16],
        findings: &mut Findings,
    ) {
        let sent = self.conversion(id, &seen);
        if !sent.is_some_and(|sent| sent.source == sent.initiator && sent.fxp == to) {
            findings
                .add(format!("dfsp{to} is asked for conversion {id}, but no initiator sent that request"));
        }
        self.forwarded_conversions.insert(id.to_bytes());
    }

    pub(crate) fn told(&mut self, id: TransferId, to: usize, change: impl FnOnce(&mut Told)) {
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

    /// The amount that the payee was asked to receive last: by itself, else in a bulk.
    fn asked_of_payee(&self, id: TransferId) -> Option<i128> {
        let (id_bytes, sent) = (id.to_bytes(), self.prepares.get(&id.to_bytes()));
        let by_itself = self.forwarded.get(&id_bytes).zip(sent).and_then(|(body, sent)| {
            sent.iter().find(|sent| sent.fingerprint == *body && sent.source == sent.payer)?.amount
        });
        by_itself.or_else(|| self.asked_for(id))
    }

    /// The request that an FXP was given, and of several the youngest: an older one may arrive after it.
    fn asked_of_fxp(&self, id: TransferId) -> Option<&SentConversion> {
        if !self.forwarded_conversions.contains(&id.to_bytes()) {
            return None;
        }
        let sent = self.conversions.get(&id.to_bytes())?;
        let is_sent = |seen: &[u8; 16]| sent.iter().any(|sent| sent.fingerprint == *seen);
        let asked = self
            .looks
            .iter()
            .filter(|(_, request)| request.method == Method::POST && request.path.ends_with("/fxTransfers"));
        let asked = asked.map(|(key, request)| (key.seq, fingerprint(&request.body)));
        let (_, seen) = asked.filter(|(_, seen)| is_sent(seen)).max()?;
        self.conversion(id, &seen)
    }

    /// What a DFSP was told.
    pub(crate) fn told_of(&self, id: TransferId, to: usize) -> Told {
        self.told.get(&(id.to_bytes(), to)).copied().unwrap_or_default()
    }

    /// Everybody's tellings agree, also about conversions with their transfers.
    pub(crate) fn check_tellings(&self, (specs, conversions): (&[Spec], &[FxSpec]), findings: &mut Findings) {
        for fx in conversions.iter().filter(|fx| !self.removed.contains(&fx.id.to_bytes())) {
            let told = self.told_of(fx.id, fx.fxp);
            let payer = specs.iter().find(|spec| spec.id == fx.transfer).map(|spec| spec.payer);
            let paid = payer.map_or(Told::default(), |payer| self.told_of(fx.transfer, payer));
            if told.committed && (told.aborted || !paid.committed) {
                let (id, transfer) = (fx.id, fx.transfer);
                findings.add(format!("I10: {id} was told to be committed, its transfer {transfer} {paid:?}"));
            }
        }
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
        (specs, conversions): (&[Spec], &[FxSpec]),
        dfsps: usize,
        findings: &mut Findings,
    ) {
        let mut fees = vec![0_i128; dfsps];
        let mut moved = Moved { remote: self.remote, ..Moved::default() };
        for spec in specs.iter().filter(|spec| self.told_of(spec.id, spec.payer).committed) {
            // A payee that converts may fulfil before it has read what it is asked.
            let amount = self.paid.get(&spec.id.to_bytes()).copied();
            let Some(amount) = amount.or_else(|| self.asked_of_payee(spec.id)) else {
                findings.add(format!("{} is committed, but its payee was never asked", spec.id));
                continue;
            };
            let (payer, payee, currency) = (spec.payer, spec.payee, currency_number(spec.currency));
            let of_it = conversions.iter().filter(|fx| fx.transfer == spec.id);
            let committed: Vec<_> = of_it.filter(|fx| self.told_of(fx.id, fx.fxp).committed).collect();
            // An FXP pays what the payer has bought of it.
            let payers =
                committed.iter().find(|fx| fx.initiator == payer && currency_number(fx.target.1) == currency);
            moved.add(currency, payers.map_or(payer, |fx| fx.fxp), payee, amount);
            for fx in &committed {
                let sent = self.converted.get(&fx.id.to_bytes());
                let Some(sent) = sent.or_else(|| self.asked_of_fxp(fx.id)) else {
                    findings.add(format!("{} is committed, but its FXP was never asked", fx.id));
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
                compare_balance(ledger, (dfsp, 0), &[kind], expected, findings);
            }
            for currency in 0..self.currencies() {
                let (position, settlement) = (LedgerAccountTypeId::POSITION, LedgerAccountTypeId::SETTLEMENT);
                let expected =
                    moved.position(currency, dfsp) + self.treasurer.added_to(dfsp, position, currency);
                let of_other = self.other_cover;
                let cover =
                    if currency == 0 { self.cover.get(&dfsp).copied().unwrap_or(0) } else { of_other };
                let account = (dfsp, currency);
                if settles_commits {
                    // Which of its transfers were settled by their commit is not told.
                    compare_balance(ledger, account, &[position, settlement], expected - cover, findings);
                } else {
                    compare_balance(ledger, account, &[position], expected, findings);
                    compare_balance(ledger, account, &[settlement], -cover, findings);
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
        self.treasurer.read(ledger, (&mut self.caps, &mut self.cover), findings);
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

/// What DFSPs were told that they owe each other, and in how many movements: by currency, debtor and creditor. A proxy
/// owes, and is owed, what those behind it send and receive.
#[derive(Debug, Default)]
struct Moved {
    paid: Paid,
    remote: Option<Remote>,
}

type Paid = BTreeMap<(u8, usize, usize), (i128, u64)>;

impl Moved {
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

/// Every transfer whose payer was told that it is committed, and every movement of a conversion, is in exactly one
/// window: together they hold what was paid, or less of it where commits settle.
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
        findings.add(format!("settlement: the windows hold {found:?}, payers were told of {paid:?}"));
    }
}

fn compare_balance(
    ledger: &Ledger,
    (dfsp, currency): (usize, u8),
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
            "I3: dfsp{dfsp}'s {:?} in {code} is {:?} units, from outside it is {}",
            kinds.iter().map(|kind| ledger.account_type_name(*kind)).collect::<Vec<_>>(),
            balance.map(|balance| balance / UNITS),
            expected / UNITS
        ));
    }
}
