//! Random runs of transfers and conversions in two currencies, compared after each step with a naive model of the
//! rules, beside `model.rs`, whose scheme has one currency.
//!
//! `PROPTEST_CASES=10000 cargo test -p upesi-ledger --test conversion_model` looks longer.

mod support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use sha2::{Digest, Sha256};
use upesi_ledger::command::{
    Abort, AbortConversion, AskedMoney, ConversionCommand, Fulfil, FulfilConversion, FulfilState, Fulfilment,
    FundsPrepare, NewSettlementModel, Prepare, PrepareConversion,
};
use upesi_ledger::{
    AdminCommand, AdminOutcome, Command, ConversionState, FundsDirection, Ledger, LedgerAccountTypeId,
    LedgerConfig, Reply, TransferState, WindowId,
};
use upesi_types::{Amount, ConversionId, Currency, ErrorCode, FspId, Timestamp, TransferId};

use self::support::{Twin, snapshot};

const START_MS: i64 = 1_932_811_200_000;
const NAMES: [&str; 4] = ["alpha", "beta", "gamma", "delta"];
const CURRENCIES: [&str; 2] = ["KES", "TZS"];
/// Cap and cover of each member in each currency.
const LIMIT: i64 = 40;
const TRANSFERS: u8 = 4;
const CONVERSIONS: u8 = 6;

/// A member, a currency, by their numbers.
type Member = usize;
type Money = (i64, usize);

#[derive(Clone, Debug)]
enum Ask {
    Convert {
        id: u8,
        transfer: u8,
        initiator: Member,
        fxp: Member,
        source: Money,
        units: i64,
        expires_in_ms: i64,
    },
    FulfilConversion {
        id: u8,
        is_right: bool,
    },
    AbortConversion {
        id: u8,
    },
    Prepare {
        id: u8,
        payer: Member,
        payee: Member,
        money: Money,
        expires_in_ms: i64,
    },
    /// What the first conversion for a transfer buys, to whom it likes, of the initiator.
    PrepareConverted {
        id: u8,
        payee: Member,
        expires_in_ms: i64,
    },
    /// The conversion that the payee of a transfer may ask for.
    ConvertReceived {
        id: u8,
        transfer: u8,
        fxp: Member,
        units: i64,
        expires_in_ms: i64,
    },
    Fulfil {
        id: u8,
        is_right: bool,
    },
    Abort {
        id: u8,
    },
    Tick,
    CloseWindow,
    Drain,
    Restart,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Open,
    /// Of a conversion.
    Fulfilled,
    Committed,
    Aborted,
}

#[derive(Clone, Debug)]
struct Deal {
    payer: Member,
    payee: Member,
    /// Who carries it.
    carrier: Member,
    money: Money,
    expires_ms: i64,
    end: End,
}

#[derive(Clone, Debug)]
struct Swap {
    transfer: u8,
    is_of_payee: bool,
    initiator: Member,
    fxp: Member,
    source: Money,
    target: Money,
    expires_ms: i64,
    end: End,
}

impl Swap {
    fn is_live(&self) -> bool {
        matches!(self.end, End::Open | End::Fulfilled)
    }

    fn is_ready(&self, now_ms: i64) -> bool {
        self.end == End::Fulfilled && self.expires_ms > now_ms
    }
}

/// The rules once more.
#[derive(Default)]
struct Scheme {
    deals: BTreeMap<u8, Deal>,
    swaps: BTreeMap<u8, Swap>,
}

impl Scheme {
    /// Everything that a position went through, from the lists.
    fn position(&self, member: Member, currency: usize) -> i64 {
        let mut sum = 0;
        let mut add = |who: Member, (units, of): Money, sign: i64| {
            sum += if (who, of) == (member, currency) { sign * units } else { 0 };
        };
        for deal in self.deals.values().filter(|deal| deal.end != End::Aborted) {
            add(deal.carrier, deal.money, 1);
            if deal.end == End::Committed {
                add(deal.payee, deal.money, -1);
            }
        }
        for swap in self.swaps.values().filter(|swap| swap.end != End::Aborted) {
            let is_committed = swap.end == End::Committed;
            if swap.is_of_payee {
                add(swap.fxp, swap.target, 1);
            }
            if is_committed && swap.is_of_payee {
                add(swap.initiator, swap.target, -1);
            }
            if is_committed || !swap.is_of_payee {
                add(swap.initiator, swap.source, 1);
            }
            if is_committed {
                add(swap.fxp, swap.source, -1);
            }
        }
        sum
    }

    fn affords(&self, member: Member, (units, currency): Money) -> bool {
        units > 0 && self.position(member, currency) + units <= LIMIT
    }

    fn linked(&self, transfer: u8, is_of_payee: bool, initiator: Member) -> Option<u8> {
        let is_it = |swap: &Swap| {
            swap.is_live()
                && (swap.transfer, swap.is_of_payee, swap.initiator) == (transfer, is_of_payee, initiator)
        };
        self.swaps.iter().find(|(_, swap)| is_it(swap)).map(|(id, _)| *id)
    }

    /// A transfer ends, and the conversions that it determines end alike.
    fn end(&mut self, id: u8, end: End) {
        let Deal { payer, payee, .. } = self.deals[&id];
        let linked = [self.linked(id, false, payer), self.linked(id, true, payee)];
        for swap in linked.into_iter().flatten() {
            self.swaps.get_mut(&swap).unwrap().end = end;
        }
        self.deals.get_mut(&id).unwrap().end = end;
    }

    fn deadline(&self, id: u8) -> i64 {
        let deal = &self.deals[&id];
        let payers = self.linked(id, false, deal.payer).map(|swap| self.swaps[&swap].expires_ms);
        payers.map_or(deal.expires_ms, |expires_ms| expires_ms.min(deal.expires_ms))
    }

    fn convert(&mut self, id: u8, mut swap: Swap, now_ms: i64) {
        if self.swaps.contains_key(&id) {
            return;
        }
        let deal = self.deals.get(&swap.transfer);
        swap.is_of_payee = deal.is_some();
        let is_valid = swap.initiator != swap.fxp && swap.expires_ms >= now_ms;
        let is_second = self.linked(swap.transfer, swap.is_of_payee, swap.initiator).is_some();
        let is_right = match deal {
            None => self.affords(swap.initiator, swap.source) && swap.target.0 > 0,
            Some(deal) => {
                (deal.end, deal.payee, deal.money) == (End::Open, swap.initiator, swap.source)
                    && self.affords(swap.fxp, swap.target)
            }
        };
        swap.end = if is_valid && !is_second && is_right { End::Open } else { End::Aborted };
        self.swaps.insert(id, swap);
    }

    fn prepare(&mut self, id: u8, mut deal: Deal, now_ms: i64) {
        if self.deals.contains_key(&id) {
            return;
        }
        let swap = self.linked(id, false, deal.payer).map(|swap| self.swaps[&swap].clone());
        deal.carrier = swap.as_ref().map_or(deal.payer, |swap| swap.fxp);
        let is_right = deal.payer != deal.payee
            && deal.expires_ms >= now_ms
            && swap.is_none_or(|swap| swap.is_ready(now_ms) && swap.target == deal.money)
            && self.affords(deal.carrier, deal.money);
        self.deals.insert(id, deal);
        if !is_right {
            let payer = self.deals[&id].payer;
            // Its payer's conversion ends with it; there is none of a payee yet.
            if let Some(swap) = self.linked(id, false, payer) {
                self.swaps.get_mut(&swap).unwrap().end = End::Aborted;
            }
            self.deals.get_mut(&id).unwrap().end = End::Aborted;
        }
    }

    fn fulfil(&mut self, id: u8, is_right: bool, now_ms: i64) {
        let Some(deal) = self.deals.get(&id).filter(|deal| deal.end == End::Open) else { return };
        let payees = self.linked(id, true, deal.payee).map(|swap| &self.swaps[&swap]);
        if !is_right || self.deadline(id) <= now_ms {
            self.end(id, End::Aborted);
        } else if payees.is_none_or(|swap| swap.is_ready(now_ms)) {
            self.end(id, End::Committed);
        }
    }

    fn tick(&mut self, now_ms: i64) {
        let ids: Vec<u8> = self.deals.keys().copied().collect();
        for id in ids {
            let deal = &self.deals[&id];
            if deal.end == End::Open && self.deadline(id) < now_ms {
                self.end(id, End::Aborted);
            }
        }
        for swap in self.swaps.values_mut().filter(|swap| swap.is_live() && swap.expires_ms < now_ms) {
            swap.end = End::Aborted;
        }
    }

    fn hear(&mut self, ask: &Ask, now_ms: i64) {
        match *ask {
            Ask::FulfilConversion { id, is_right } => {
                if let Some(swap) = self.swaps.get_mut(&id).filter(|swap| swap.end == End::Open) {
                    let is_late = swap.expires_ms <= now_ms;
                    swap.end = if is_right && !is_late { End::Fulfilled } else { End::Aborted };
                }
            }
            Ask::AbortConversion { id } => {
                if let Some(swap) = self.swaps.get_mut(&id).filter(|swap| swap.end == End::Open) {
                    swap.end = End::Aborted;
                }
            }
            Ask::Fulfil { id, is_right } => self.fulfil(id, is_right, now_ms),
            Ask::Abort { id } if self.deals.get(&id).is_some_and(|deal| deal.end == End::Open) => {
                self.end(id, End::Aborted);
            }
            Ask::Tick => self.tick(now_ms),
            _ => {}
        }
    }
}

fn fsp(member: Member) -> FspId {
    FspId::parse(NAMES[member]).unwrap()
}

fn currency(number: usize) -> Currency {
    Currency::parse(CURRENCIES[number]).unwrap()
}

fn amount(units: i64) -> Amount {
    Amount::from_units(units).unwrap()
}

fn id_of(kind: u8, id: u8) -> TransferId {
    let mut bytes = [kind; 16];
    bytes[15] = id;
    TransferId::from_random_bytes(bytes)
}

fn preimage(id: TransferId, is_right: bool) -> Fulfilment {
    Fulfilment::Preimage(if is_right { Sha256::digest(id.to_bytes()).into() } else { [0xee; 32] })
}

fn condition(id: TransferId) -> [u8; 32] {
    let preimage: [u8; 32] = Sha256::digest(id.to_bytes()).into();
    Sha256::digest(preimage).into()
}

struct Run {
    twin: Twin,
    scheme: Scheme,
    now_ms: i64,
    window: u32,
}

impl Run {
    fn new(hash_seed: u64) -> Self {
        let config = LedgerConfig { hash_seed, ..LedgerConfig::default() };
        let mut run =
            Self { twin: Twin::new(config), scheme: Scheme::default(), now_ms: START_MS, window: 1 };
        run.admin(AdminCommand::CreateSettlementModel(NewSettlementModel::deferred_net("NET", None)));
        for number in 0..CURRENCIES.len() {
            for kind in ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"] {
                let (name, currency) = (FspId::parse("Hub").unwrap(), currency(number));
                run.admin(AdminCommand::CreateHubAccount { name, currency, kind: kind.into() });
            }
            for member in 0..NAMES.len() {
                run.join(member, currency(number));
            }
        }
        run
    }

    fn join(&mut self, member: Member, currency: Currency) {
        let (name, net_debit_cap) = (fsp(member), amount(LIMIT));
        self.admin(AdminCommand::CreateParticipant { name, currency, is_proxy: false });
        let initial_position = Amount::ZERO;
        self.admin(AdminCommand::OpenAccounts { name, currency, net_debit_cap, initial_position });
        let participant = self.twin.live.participant_named(&name).unwrap();
        let account = participant.account(currency, LedgerAccountTypeId::SETTLEMENT).unwrap();
        self.admin(AdminCommand::PrepareFunds(FundsPrepare {
            direction: FundsDirection::In,
            id: id_of(b'f', account.number() as u8),
            name,
            account,
            amount: amount(LIMIT),
            currency,
            external_reference: "bank".into(),
            reason: "prefund".into(),
            extensions: None,
            fingerprint: [1; 16],
        }));
    }

    fn admin(&mut self, command: AdminCommand) -> AdminOutcome {
        self.now_ms += 1;
        let decision = self.twin.submit(Command::Admin(command), Timestamp::from_ms(self.now_ms));
        let Reply::Admin(Ok(outcome)) = decision.reply else { panic!("{:?}", decision.reply) };
        outcome
    }

    fn step(&mut self, pause_ms: i64, ask: &Ask) {
        self.now_ms += pause_ms;
        let command = match ask {
            Ask::Drain => return self.twin.drain(),
            Ask::Restart => return self.twin.restart(),
            Ask::CloseWindow => return self.close_window(),
            Ask::Tick => Command::Tick,
            Ask::Convert { id, transfer, initiator, fxp, source, units, expires_in_ms } => {
                let target = (*units, 1 - source.1);
                self.convert(*id, (*transfer, *initiator, *fxp), (*source, target), *expires_in_ms)
            }
            Ask::ConvertReceived { id, transfer, fxp, units, expires_in_ms } => {
                let Some(deal) = self.scheme.deals.get(transfer) else { return };
                let (payee, source) = (deal.payee, deal.money);
                self.convert(*id, (*transfer, payee, *fxp), (source, (*units, 1 - source.1)), *expires_in_ms)
            }
            Ask::Prepare { id, payer, payee, money, expires_in_ms } => {
                self.prepare(*id, (*payer, *payee), *money, *expires_in_ms)
            }
            Ask::PrepareConverted { id, payee, expires_in_ms } => {
                let swap = self.scheme.swaps.values().find(|swap| swap.transfer == *id && swap.is_live());
                let Some((payer, money)) = swap.map(|swap| (swap.initiator, swap.target)) else { return };
                self.prepare(*id, (payer, *payee), money, *expires_in_ms)
            }
            other => {
                self.scheme.hear(other, self.now_ms);
                self.put(other)
            }
        };
        if matches!(ask, Ask::Tick) {
            self.scheme.tick(self.now_ms);
        }
        self.twin.submit(command, Timestamp::from_ms(self.now_ms));
        self.compare(ask);
    }

    fn convert(
        &mut self,
        id: u8,
        (transfer, initiator, fxp): (u8, Member, Member),
        (source, target): (Money, Money),
        expires_in_ms: i64,
    ) -> Command {
        let expires_ms = self.now_ms + expires_in_ms;
        let end = End::Open;
        let swap = Swap { transfer, is_of_payee: false, initiator, fxp, source, target, expires_ms, end };
        self.scheme.convert(id, swap, self.now_ms);
        let money = |(units, of): Money| AskedMoney { amount: Ok(amount(units)), currency: currency(of) };
        let id = id_of(b'c', id);
        Command::Conversion(ConversionCommand::Prepare(Box::new(PrepareConversion {
            id: ConversionId::new(id),
            determining_transfer: Some(id_of(b't', transfer)),
            source: fsp(initiator),
            destination: Some(fsp(fxp)),
            initiator: fsp(initiator),
            counter_party: fsp(fxp),
            source_amount: money(source),
            target_amount: money(target),
            condition: Some(condition(id)),
            expires_at: Some(Timestamp::from_ms(expires_ms)),
            fingerprint: [transfer; 16],
        })))
    }

    fn prepare(
        &mut self,
        id: u8,
        (payer, payee): (Member, Member),
        money: Money,
        expires_in_ms: i64,
    ) -> Command {
        let expires_ms = self.now_ms + expires_in_ms;
        let deal = Deal { payer, payee, carrier: payer, money, expires_ms, end: End::Open };
        self.scheme.prepare(id, deal, self.now_ms);
        let id = id_of(b't', id);
        Command::Prepare(Prepare {
            id,
            source: fsp(payer),
            destination: Some(fsp(payee)),
            payer: fsp(payer),
            payee: fsp(payee),
            amount: Ok(amount(money.0)),
            currency: currency(money.1),
            condition: Some(condition(id)),
            expires_at: Timestamp::from_ms(expires_ms),
            fingerprint: [2; 16],
            extensions: None,
        })
    }

    /// A PUT of the one who may send it, or of a stranger about nothing.
    fn put(&self, ask: &Ask) -> Command {
        let code = ErrorCode::PAYEE_REJECTION;
        let (conversion, transfer) = (|id| id_of(b'c', id), |id| id_of(b't', id));
        let fxp_of = |id: &u8| self.scheme.swaps.get(id).map_or((0, 1), |swap| (swap.fxp, swap.initiator));
        let payee_of = |id: &u8| self.scheme.deals.get(id).map_or((0, 1), |deal| (deal.payee, deal.payer));
        match ask {
            Ask::FulfilConversion { id, is_right } => {
                let (source, destination) = fxp_of(id);
                Command::Conversion(ConversionCommand::Fulfil(FulfilConversion {
                    conversion: conversion(*id).into(),
                    source: fsp(source),
                    destination: Some(fsp(destination)),
                    state: FulfilState::Reserved,
                    fulfilment: preimage(conversion(*id), *is_right),
                    fingerprint: [u8::from(*is_right); 16],
                }))
            }
            Ask::AbortConversion { id } => {
                let (source, destination) = fxp_of(id);
                Command::Conversion(ConversionCommand::Abort(AbortConversion {
                    conversion: conversion(*id).into(),
                    source: fsp(source),
                    destination: Some(fsp(destination)),
                    code,
                    description: "declined".into(),
                    fingerprint: [3; 16],
                }))
            }
            Ask::Fulfil { id, is_right } => {
                let (source, destination) = payee_of(id);
                Command::Fulfil(Fulfil {
                    transfer: transfer(*id).into(),
                    source: fsp(source),
                    destination: Some(fsp(destination)),
                    state: FulfilState::Committed,
                    may_reserve: true,
                    fulfilment: preimage(transfer(*id), *is_right),
                    fingerprint: [u8::from(*is_right); 16],
                    extensions: None,
                })
            }
            Ask::Abort { id } => {
                let (source, destination) = payee_of(id);
                Command::Abort(Abort {
                    transfer: transfer(*id).into(),
                    source: fsp(source),
                    destination: Some(fsp(destination)),
                    code,
                    description: "declined".into(),
                    fingerprint: [4; 16],
                })
            }
            other => panic!("{other:?} is no PUT"),
        }
    }

    fn close_window(&mut self) {
        let open = self.twin.live.windows().last().unwrap();
        if self.twin.live.window_pairs(open).is_some_and(|pairs| !pairs.is_empty()) {
            let id = WindowId(self.window);
            self.admin(AdminCommand::CloseWindow { id, reason: "end of day".into() });
            self.window += 1;
        }
    }

    /// States, positions, and what the windows hold.
    fn compare(&self, ask: &Ask) {
        let ledger = &self.twin.live;
        for (id, deal) in &self.scheme.deals {
            let id = id_of(b't', *id);
            let transfer = ledger.transfer(id).or_else(|| self.twin.archive.get(&id));
            let end = match &transfer.expect("every prepare is kept").state {
                TransferState::Reserved => End::Open,
                TransferState::Committed { .. } => End::Committed,
                TransferState::Aborted { .. } => End::Aborted,
            };
            assert_eq!(end, deal.end, "{id} after {ask:?}: {deal:?}");
        }
        for (id, swap) in &self.scheme.swaps {
            let id = ConversionId::new(id_of(b'c', *id));
            let conversion = ledger.conversion(id).or_else(|| self.twin.archived_conversions.get(&id));
            let end = match &conversion.expect("every request is kept").state {
                ConversionState::Reserved => End::Open,
                ConversionState::Fulfilled => End::Fulfilled,
                ConversionState::Committed { .. } => End::Committed,
                ConversionState::Aborted { .. } => End::Aborted,
            };
            assert_eq!(end, swap.end, "conversion {id} after {ask:?}: {swap:?}");
        }
        for (member, name) in NAMES.iter().enumerate() {
            for number in 0..CURRENCIES.len() {
                let expected = self.scheme.position(member, number);
                assert_eq!(position(ledger, member, number), expected, "{} {number} after {ask:?}", name);
            }
        }
        let is_committed = |swap: &&Swap| swap.end == End::Committed;
        let swaps = self.scheme.swaps.values().filter(is_committed);
        let legs: usize = swaps.map(|swap| 1 + usize::from(swap.is_of_payee)).sum();
        let deals = self.scheme.deals.values().filter(|deal| deal.end == End::Committed).count();
        let pairs = ledger.windows().iter().filter_map(|window| ledger.window_pairs(window));
        let in_windows: u64 =
            pairs.map(|pairs| pairs.iter().map(|pair| pair.sum.transfers).sum::<u64>()).sum();
        assert_eq!(in_windows, (deals + legs) as u64, "each commit is in one window, after {ask:?}");
    }
}

fn position(ledger: &Ledger, member: Member, number: usize) -> i64 {
    let participant = ledger.participant_named(&fsp(member)).unwrap();
    let account = participant.account(currency(number), LedgerAccountTypeId::POSITION).unwrap();
    ledger.account(account).unwrap().balance.units()
}

fn step() -> impl Strategy<Value = (i64, Ask)> {
    let (transfer, conversion) = (|| 0..TRANSFERS, || 0..CONVERSIONS);
    let member = || 0..NAMES.len();
    let units = || prop_oneof![6 => 1..15_i64, 1 => 15..50_i64];
    let money = || (units(), 0..CURRENCIES.len());
    // Deadlines and pauses come from few values, so that requests often meet a deadline to the millisecond.
    let expiry = || proptest::sample::select(vec![-1_i64, 0, 1, 2, 40, 5_000, 5_000, 5_000]);
    let right = || proptest::bool::weighted(0.9);
    let ask = prop_oneof![
        6 => (conversion(), transfer(), member(), member(), money(), units(), expiry()).prop_map(
            |(id, transfer, initiator, fxp, source, units, expires_in_ms)| Ask::Convert {
                id, transfer, initiator, fxp, source, units, expires_in_ms
            }
        ),
        8 => (conversion(), right()).prop_map(|(id, is_right)| Ask::FulfilConversion { id, is_right }),
        1 => conversion().prop_map(|id| Ask::AbortConversion { id }),
        2 => (transfer(), member(), member(), money(), expiry()).prop_map(
            |(id, payer, payee, money, expires_in_ms)| Ask::Prepare { id, payer, payee, money, expires_in_ms }
        ),
        5 => (transfer(), member(), expiry())
            .prop_map(|(id, payee, expires_in_ms)| Ask::PrepareConverted { id, payee, expires_in_ms }),
        4 => (conversion(), transfer(), member(), units(), expiry()).prop_map(
            |(id, transfer, fxp, units, expires_in_ms)| Ask::ConvertReceived {
                id, transfer, fxp, units, expires_in_ms
            }
        ),
        6 => (transfer(), right()).prop_map(|(id, is_right)| Ask::Fulfil { id, is_right }),
        1 => transfer().prop_map(|id| Ask::Abort { id }),
        2 => Just(Ask::Tick),
        1 => Just(Ask::CloseWindow),
        1 => Just(Ask::Drain),
        1 => Just(Ask::Restart),
    ];
    (proptest::sample::select(vec![1_i64, 1, 1, 1, 2, 3, 40, 5_000]), ask)
}

fn config() -> ProptestConfig {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/model.regressions.txt");
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_ledger_converts_as_the_model_does(steps in proptest::collection::vec(step(), 1..80)) {
        let mut run = Run::new(1);
        steps.iter().for_each(|(pause_ms, ask)| run.step(*pause_ms, ask));
        // The same steps again end in the same state, whatever the hash tables look like.
        let mut again = Run::new(2);
        steps.iter().for_each(|(pause_ms, ask)| again.step(*pause_ms, ask));
        prop_assert!(snapshot(&run.twin.live) == snapshot(&again.twin.live));
    }
}
