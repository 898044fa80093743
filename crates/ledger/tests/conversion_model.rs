//! Random runs of transfers and conversions in two currencies, compared after each step with a naive model of the
//! rules, beside `model.rs`, whose scheme has one currency.
//!
//! A failing run is kept in `tests/conversion_model.regressions.txt`, which later runs repeat first.
//! `PROPTEST_CASES=10000 cargo test -p upesi-ledger --test conversion_model` looks longer.

#[path = "conversion_model/ask.rs"]
mod ask;
#[path = "conversion_model/scheme.rs"]
mod scheme;
mod support;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use sha2::{Digest, Sha256};
use upesi_ledger::command::{
    Abort, AbortConversion, AskedMoney, ConversionCommand, Fulfil, FulfilConversion, FulfilState, Fulfilment,
    FundsPrepare, NewFeeRule, NewSettlementModel, Prepare, PrepareConversion,
};
use upesi_ledger::{
    AdminCommand, AdminOutcome, Command, ConversionState, Delay, FeePayer, FeeTerms, FundsDirection,
    Granularity, Interchange, Ledger, LedgerAccountTypeId, LedgerConfig, RATE_WHOLE, Reply, TransferState,
    WindowId,
};
use upesi_types::{Amount, ConversionId, Currency, ErrorCode, FspId, Timestamp, TransferId};

use self::ask::{Ask, BEHIND, CURRENCIES, LIMIT, Member, Money, NAMES, Setup, setup, step};
use self::scheme::{Deal, End, Scheme, Swap};
use self::support::{Twin, snapshot};

const START_MS: i64 = 1_932_811_200_000;

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
    fn new(setup: Setup, hash_seed: u64) -> Self {
        let config = LedgerConfig { hash_seed, ..LedgerConfig::default() };
        let scheme = Scheme { setup, ..Scheme::default() };
        let mut run = Self { twin: Twin::new(config), scheme, now_ms: START_MS, window: 1 };
        run.admin(AdminCommand::CreateSettlementModel(NewSettlementModel::deferred_net("NET", None)));
        for number in 0..CURRENCIES.len() {
            for kind in ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"] {
                let (name, currency) = (FspId::parse("Hub").unwrap(), currency(number));
                run.admin(AdminCommand::CreateHubAccount { name, currency, kind: kind.into() });
            }
            if setup.is_gross[number] {
                run.admin(AdminCommand::CreateSettlementModel(gross(number)));
            }
            if setup.has_fees[number] {
                run.admin(AdminCommand::CreateFeeRule(rule(number)));
            }
            let joins = |member: &Member| setup.liable(*member) == *member && setup.has(*member, number);
            for member in (0..NAMES.len()).filter(joins) {
                run.join(member, currency(number));
            }
        }
        for (member, proxy) in BEHIND.into_iter().filter(|_| setup.has_proxies) {
            run.admin(AdminCommand::AddProxied { proxy: fsp(proxy), name: fsp(member) });
        }
        run
    }

    fn join(&mut self, member: Member, currency: Currency) {
        let (name, net_debit_cap) = (fsp(member), amount(LIMIT));
        let is_proxy = self.scheme.setup.has_proxies && BEHIND.iter().any(|(_, proxy)| *proxy == member);
        self.admin(AdminCommand::CreateParticipant { name, currency, is_proxy });
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
        let liable = |(member, _): &(Member, &&str)| self.scheme.setup.liable(*member) == *member;
        for (member, name) in NAMES.iter().enumerate().filter(liable) {
            for number in 0..CURRENCIES.len() {
                let has = self.scheme.setup.has(member, number);
                let expected = has.then(|| self.scheme.position(member, number));
                let found = |kind| balance(ledger, member, number, kind);
                let what = format!("{name} {number} after {ask:?}");
                assert_eq!(found(LedgerAccountTypeId::POSITION), expected, "position of {what}");
                let cover = found(LedgerAccountTypeId::SETTLEMENT).map(|units| -units);
                assert_eq!(cover, has.then(|| self.scheme.cover(member, number)), "cover of {what}");
                let has_fees = has && self.scheme.setup.has_fees[number];
                let fees = has_fees.then(|| self.scheme.fees(member, number));
                assert_eq!(found(LedgerAccountTypeId::INTERCHANGE_FEE), fees, "fees of {what}");
            }
        }
        let in_window = |(_, currency): Money| usize::from(!self.scheme.setup.is_gross[currency]);
        let is_committed = |swap: &&Swap| swap.end == End::Committed;
        let swaps = self.scheme.swaps.values().filter(is_committed);
        let legs: usize = swaps
            .map(|swap| in_window(swap.source) + usize::from(swap.is_of_payee) * in_window(swap.target))
            .sum();
        let deals = self.scheme.deals.values().filter(|deal| deal.end == End::Committed);
        let commits: usize = deals.clone().map(|deal| in_window(deal.money)).sum();
        let applies = |deal: &&Deal| deal.payer != deal.payee && self.scheme.setup.has_fees[deal.money.1];
        let (charged, not_charged): (Vec<_>, Vec<_>) =
            deals.filter(applies).partition(|deal| self.scheme.charges(deal));
        let totals = ledger.totals();
        let fees = charged.len();
        assert_eq!(
            (totals.fees, totals.fees_not_charged),
            (fees as u64, not_charged.len() as u64),
            "fees charged and not charged, after {ask:?}"
        );
        let pairs = ledger.windows().iter().filter_map(|window| ledger.window_pairs(window));
        let in_windows: u64 =
            pairs.map(|pairs| pairs.iter().map(|pair| pair.sum.transfers).sum::<u64>()).sum();
        let expected = (commits + legs + fees) as u64;
        assert_eq!(in_windows, expected, "each net commit and each fee is in one window, after {ask:?}");
    }
}

/// Settles what is committed in a currency by the commit.
fn gross(number: usize) -> NewSettlementModel {
    NewSettlementModel {
        granularity: Granularity::Gross,
        interchange: Interchange::Bilateral,
        delay: Delay::Immediate,
        ..NewSettlementModel::deferred_net(&format!("GROSS{number}"), Some(currency(number)))
    }
}

/// The fee of [`scheme::fee`].
fn rule(number: usize) -> NewFeeRule {
    let terms = FeeTerms {
        name: format!("FEE{number}").into(),
        currency: currency(number),
        payers: vec![],
        payees: vec![],
        amount_min: Amount::ZERO,
        amount_max: None,
        rate: RATE_WHOLE / 10,
        decimals: 4,
        fixed: amount(1),
        paid_by: if number == 0 { FeePayer::Payer } else { FeePayer::Payee },
    };
    NewFeeRule { terms, from: None, until: None }
}

fn balance(ledger: &Ledger, member: Member, number: usize, kind: LedgerAccountTypeId) -> Option<i64> {
    let participant = ledger.participant_named(&fsp(member)).unwrap();
    let account = participant.account(currency(number), kind)?;
    Some(ledger.account(account).unwrap().balance.units())
}

fn config() -> ProptestConfig {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conversion_model.regressions.txt");
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_ledger_converts_as_the_model_does(
        setup in setup(),
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        let mut run = Run::new(setup, 1);
        steps.iter().for_each(|(pause_ms, ask)| run.step(*pause_ms, ask));
        // The same steps again end in the same state, whatever the hash tables look like.
        let mut again = Run::new(setup, 2);
        steps.iter().for_each(|(pause_ms, ask)| again.step(*pause_ms, ask));
        prop_assert!(snapshot(&run.twin.live) == snapshot(&again.twin.live));
    }
}
