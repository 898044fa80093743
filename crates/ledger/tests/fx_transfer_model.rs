//! Random runs of transfers and FX transfers in two currencies, compared after each step with a naive model of the
//! rules. The scheme of `model.rs` has one currency.
//!
//! A failing run is stored in `tests/fx_transfer_model.regressions.txt`, and later runs repeat it first.
//! `PROPTEST_CASES=10000 cargo test -p upesi-ledger --test fx_transfer_model` runs longer.

#[path = "fx_transfer_model/ask.rs"]
mod ask;
#[path = "fx_transfer_model/counts.rs"]
mod counts;
#[path = "fx_transfer_model/scheme.rs"]
mod scheme;
mod support;

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestRunner};
use sha2::{Digest, Sha256};
use upesi_ledger::command::{
    Abort, AbortFxTransfer, AdvanceItem, AskedMoney, Fulfil, FulfilFxTransfer, FulfilState, Fulfilment,
    FundsPrepare, FxTransferCommand, NewFeeRule, NewSettlement, NewSettlementModel, Prepare,
    PrepareFxTransfer, SettlementAdvance,
};
use upesi_ledger::{
    AbortKind, AccountId, AdminCommand, AdminOutcome, Command, Delay, FeePayer, FeeTerms, FundsDirection,
    FxTransferState, FxTransferTotals, Granularity, Interchange, Ledger, LedgerAccountTypeId, LedgerConfig,
    RATE_WHOLE, Reply, SettlementId, SettlementState, TransferState, Window, WindowId,
};
use upesi_types::{Amount, Currency, ErrorCode, FspId, FxTransferId, Timestamp, TransferId};

use self::ask::{Ask, BEHIND, CURRENCIES, LIMIT, Member, Money, NAMES, Setup, setup, step};
use self::counts::Tried;
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

/// The request for an FX transfer.
struct Exchange {
    /// The determining transfer.
    transfer: u8,
    initiator: Member,
    fxp: Member,
    source: Money,
    target: Money,
}

struct Run {
    twin: Twin,
    scheme: Scheme,
    now_ms: i64,
}

impl Run {
    fn new(setup: Setup, hash_seed: u64) -> Self {
        let config = LedgerConfig { hash_seed, ..LedgerConfig::default() };
        let mut run = Self { twin: Twin::new(config), scheme: Scheme::new(setup), now_ms: START_MS };
        for number in 0..CURRENCIES.len() {
            for kind in ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"] {
                let (name, currency) = (FspId::parse("Hub").unwrap(), currency(number));
                run.admin(AdminCommand::CreateHubAccount { name, currency, kind: kind.into() });
            }
            let positions = if setup.is_gross[number] { gross(number) } else { net(number, false) };
            run.admin(AdminCommand::CreateSettlementModel(positions));
            if setup.has_fees[number] {
                run.admin(AdminCommand::CreateSettlementModel(net(number, true)));
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
        let proceeds;
        let ask = match ask {
            Ask::Proceed(course) => {
                proceeds = self.scheme.next(course);
                &proceeds
            }
            ask => ask,
        };
        let command = match ask {
            Ask::Drain => return self.twin.drain(),
            Ask::Restart => return self.twin.restart(),
            Ask::Join(member) => return self.join_later(*member),
            Ask::CloseWindow => return self.close_window(),
            Ask::Settle { currency, is_fee } => return self.settle(*currency, *is_fee),
            Ask::Tick => Command::Tick,
            Ask::Convert { id, transfer, initiator, fxp, source, units, expires_in_ms } => {
                let (transfer, initiator, fxp) = (*transfer, *initiator, *fxp);
                let (source, target) = (*source, (*units, 1 - source.1));
                self.convert(*id, Exchange { transfer, initiator, fxp, source, target }, *expires_in_ms)
            }
            Ask::ConvertReceived { id, transfer, fxp, units, more, expires_in_ms } => {
                let Some(deal) = self.scheme.deals.get(transfer) else { return };
                let (transfer, initiator, fxp) = (*transfer, deal.payee, *fxp);
                let source = (deal.money.0 + more, deal.money.1);
                let target = (*units, 1 - source.1);
                self.convert(*id, Exchange { transfer, initiator, fxp, source, target }, *expires_in_ms)
            }
            Ask::Prepare { id, payer, payee, money, expires_in_ms } => {
                self.prepare(*id, *payer, *payee, *money, *expires_in_ms)
            }
            Ask::PrepareConverted { id, payee, more, expires_in_ms } => {
                let swap = self.scheme.swaps.values().find(|swap| swap.transfer == *id && swap.is_live());
                let Some((payer, money)) = swap.map(|swap| (swap.initiator, swap.target)) else { return };
                self.prepare(*id, payer, *payee, (money.0 + more, money.1), *expires_in_ms)
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

    fn convert(&mut self, id: u8, asked: Exchange, expires_in_ms: i64) -> Command {
        let Exchange { transfer, initiator, fxp, source, target } = asked;
        let expires_ms = self.now_ms + expires_in_ms;
        let swap = Swap {
            transfer,
            is_of_payee: false,
            initiator,
            fxp,
            source,
            target,
            expires_ms,
            was_reserved: false,
            ends_with_transfer: false,
            end: End::Open,
        };
        self.scheme.convert(id, swap, self.now_ms);
        let money = |(units, of): Money| AskedMoney { amount: Ok(amount(units)), currency: currency(of) };
        let id = id_of(b'c', id);
        Command::FxTransfer(FxTransferCommand::Prepare(Box::new(PrepareFxTransfer {
            id: FxTransferId::new(id),
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

    fn prepare(&mut self, id: u8, payer: Member, payee: Member, money: Money, expires_in_ms: i64) -> Command {
        let expires_ms = self.now_ms + expires_in_ms;
        let (is_charged, end) = (None, End::Open);
        let deal = Deal { payer, payee, carrier: payer, money, expires_ms, is_charged, end };
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

    /// A PUT of the correct sender, or of another participant about nothing.
    fn put(&self, ask: &Ask) -> Command {
        let code = ErrorCode::PAYEE_REJECTION;
        let (fx_transfer, transfer) = (|id| id_of(b'c', id), |id| id_of(b't', id));
        let fxp_of = |id: &u8| self.scheme.swaps.get(id).map_or((0, 1), |swap| (swap.fxp, swap.initiator));
        let payee_of = |id: &u8| self.scheme.deals.get(id).map_or((0, 1), |deal| (deal.payee, deal.payer));
        match ask {
            Ask::FulfilFxTransfer { id, is_right } => {
                let (source, destination) = fxp_of(id);
                Command::FxTransfer(FxTransferCommand::Fulfil(FulfilFxTransfer {
                    fx_transfer: fx_transfer(*id).into(),
                    source: fsp(source),
                    destination: Some(fsp(destination)),
                    state: FulfilState::Reserved,
                    fulfilment: preimage(fx_transfer(*id), *is_right),
                    fingerprint: [u8::from(*is_right); 16],
                }))
            }
            Ask::AbortFxTransfer { id } => {
                let (source, destination) = fxp_of(id);
                Command::FxTransfer(FxTransferCommand::Abort(AbortFxTransfer {
                    fx_transfer: fx_transfer(*id).into(),
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

    /// A member that lacks a currency gets accounts in it.
    fn join_later(&mut self, member: Member) {
        let setup = &mut self.scheme.setup;
        if setup.liable(member) == member
            && let Some(number) = setup.lacks[member].take()
        {
            self.join(member, currency(number));
            self.compare(&Ask::Join(member));
        }
    }

    fn close_window(&mut self) {
        let id = WindowId(self.scheme.window);
        if self.scheme.close_window() {
            self.admin(AdminCommand::CloseWindow { id, reason: "end of day".into() });
        }
        self.compare(&Ask::CloseWindow);
    }

    /// Settles everything that is closed, through every state of each account.
    fn settle(&mut self, number: usize, is_fee: bool) {
        let kind = kind_of(is_fee);
        let can_be_settled = |window: &&Window| {
            window.contents.iter().any(|content| {
                (content.currency, content.kind) == (currency(number), kind) && content.state.can_be_settled()
            })
        };
        let windows: Vec<_> =
            self.twin.live.windows().iter().filter(can_be_settled).map(|window| window.id).collect();
        let is_any = self.scheme.settle(number, is_fee);
        assert_eq!(is_any, !windows.is_empty(), "something to settle of {number}, fees: {is_fee}");
        if is_any {
            let (model, reason) = (net(number, is_fee).name, "end of day".into());
            let new = NewSettlement { model, reason, windows };
            let AdminOutcome::SettlementCreated(id) = self.admin(AdminCommand::CreateSettlement(new)) else {
                panic!("no settlement of {number}, fees: {is_fee}")
            };
            self.advance(id);
        }
        self.compare(&Ask::Settle { currency: number, is_fee });
    }

    fn advance(&mut self, id: SettlementId) {
        let mut reached = SettlementState::Pending;
        while let Some(state) = reached.next() {
            let ledger = &self.twin.live;
            let item = |account: AccountId| AdvanceItem {
                participant: ledger.account(account).unwrap().participant.number(),
                account: account.number(),
                state,
                reason: "as the bank reported".into(),
                external_reference: None,
            };
            let accounts = ledger.settlement(id).unwrap().accounts.iter();
            let items = accounts.map(|account| item(account.account)).collect();
            let advanced = self.admin(AdminCommand::AdvanceSettlement(SettlementAdvance { id, items }));
            assert_eq!(advanced, AdminOutcome::SettlementAdvanced { faults: vec![] });
            reached = state;
        }
    }

    /// Compares states, positions, and the content of the windows.
    fn compare(&self, ask: &Ask) {
        self.compare_states(ask);
        self.compare_balances(ask);
        self.compare_windows(ask);
        self.compare_totals(ask);
    }

    fn compare_states(&self, ask: &Ask) {
        let ledger = &self.twin.live;
        for (id, deal) in &self.scheme.deals {
            let id = id_of(b't', *id);
            let transfer = ledger.transfer(id).or_else(|| self.twin.archive.get(&id));
            let end = match &transfer.expect("every prepare is kept").state {
                TransferState::Reserved => End::Open,
                TransferState::Committed(_) => End::Committed(deal.end.window().unwrap_or(0)),
                TransferState::Aborted(end) => End::Aborted(end.kind),
            };
            assert_eq!(end, deal.end, "{id} after {ask:?}: {deal:?}");
        }
        for (id, swap) in &self.scheme.swaps {
            let id = FxTransferId::new(id_of(b'c', *id));
            let fx_transfer = ledger.fx_transfer(id).or_else(|| self.twin.archived_fx_transfers.get(&id));
            let end = match &fx_transfer.expect("every request is kept").state {
                FxTransferState::Reserved => End::Open,
                FxTransferState::Fulfilled => End::Fulfilled,
                FxTransferState::Committed { .. } => End::Committed(swap.end.window().unwrap_or(0)),
                FxTransferState::Aborted { kind, .. } => End::Aborted(*kind),
            };
            assert_eq!(end, swap.end, "conversion {id} after {ask:?}: {swap:?}");
        }
    }

    fn compare_balances(&self, ask: &Ask) {
        let ledger = &self.twin.live;
        let setup = self.scheme.setup;
        let liable = |(member, _): &(Member, &&str)| setup.liable(*member) == *member;
        for (member, name) in NAMES.iter().enumerate().filter(liable) {
            for number in 0..CURRENCIES.len() {
                let has = setup.has(member, number);
                let expected = has.then(|| self.scheme.position(member, number));
                let found = |kind| balance(ledger, member, number, kind);
                let what = format!("{name} {number} after {ask:?}");
                assert_eq!(found(LedgerAccountTypeId::POSITION), expected, "position of {what}");
                let cover = found(LedgerAccountTypeId::SETTLEMENT).map(|units| -units);
                assert_eq!(cover, has.then(|| self.scheme.cover(member, number)), "cover of {what}");
                let has_fees = has && setup.has_fees[number];
                let fees = has_fees.then(|| self.scheme.fees(member, number));
                assert_eq!(found(LedgerAccountTypeId::INTERCHANGE_FEE), fees, "fees of {what}");
                let cap = ledger.participant_named(&fsp(member)).unwrap().limit(currency(number));
                let cap = cap.map(|limit| limit.value.units());
                assert_eq!(cap, has.then(|| self.scheme.cap(member, number)), "cap of {what}");
            }
        }
    }

    /// Each net commit, each leg of an FX transfer and each fee is in the window of its commit, and in no other one.
    fn compare_windows(&self, ask: &Ask) {
        let ledger = &self.twin.live;
        let mut expected = BTreeMap::<_, (i128, u64)>::new();
        for movement in self.scheme.movements().iter().filter(|movement| !self.scheme.is_at_once(movement)) {
            let Some((window, creditor)) = movement.window.zip(movement.creditor) else { continue };
            let [debtor, creditor] = [movement.debtor, creditor].map(|party| {
                let owner = ledger.participant_named(&fsp(self.scheme.setup.liable(party))).unwrap();
                owner.account(currency(movement.money.1), kind_of(movement.is_fee)).unwrap()
            });
            let sum = expected.entry((window, debtor, creditor)).or_default();
            *sum = (sum.0 + i128::from(movement.money.0), sum.1 + 1);
        }
        let mut found = BTreeMap::new();
        for window in ledger.windows() {
            for pair in ledger.window_pairs(window).expect("nothing is dropped so soon").iter() {
                let sum = (pair.sum.units, pair.sum.transfers);
                found.insert((window.id.0, pair.payer, pair.payee), sum);
            }
        }
        assert_eq!(found, expected, "what windows hold after {ask:?}");
        assert_eq!(ledger.windows().len(), self.scheme.window as usize, "windows after {ask:?}");
    }

    fn compare_totals(&self, ask: &Ask) {
        let ledger = &self.twin.live;
        let deals = || self.scheme.deals.values();
        let charged = |is_charged| deals().filter(|deal| deal.is_charged == Some(is_charged)).count() as u64;
        let movements = self.scheme.movements();
        let at_once = movements.iter().filter(|movement| self.scheme.is_at_once(movement)).count() as u64;
        let totals = ledger.totals();
        assert_eq!(
            (totals.fees, totals.fees_not_charged, totals.settled_at_once),
            (charged(true), charged(false), at_once),
            "fees charged, fees not charged and commits settled at once, after {ask:?}"
        );
        let count = |is_it: fn(&&Swap) -> bool| self.scheme.swaps.values().filter(is_it).count() as u64;
        let committed = count(|swap| swap.end.window().is_some());
        let expected = FxTransferTotals {
            reserved: count(|swap| swap.was_reserved),
            refused: count(|swap| !swap.was_reserved),
            committed,
            aborted: count(|swap| swap.was_reserved && matches!(swap.end, End::Aborted(_))),
            expired: count(|swap| swap.end == End::Aborted(AbortKind::Expired)),
            committed_legs: committed + count(|swap| swap.end.window().is_some() && swap.is_of_payee),
        };
        assert_eq!(ledger.fx_transfer_totals(), expected, "conversions after {ask:?}");
    }
}

/// The type of the accounts for transfers or for fees.
fn kind_of(is_fee: bool) -> LedgerAccountTypeId {
    if is_fee { LedgerAccountTypeId::INTERCHANGE_FEE } else { LedgerAccountTypeId::POSITION }
}

/// A model that settles the positions or the fees of a currency with their windows.
fn net(number: usize, is_fee: bool) -> NewSettlementModel {
    if is_fee {
        return NewSettlementModel {
            ledger_account_type: "INTERCHANGE_FEE".into(),
            settlement_account_type: "INTERCHANGE_FEE_SETTLEMENT".into(),
            ..NewSettlementModel::deferred_net(&format!("FEES{number}"), Some(currency(number)))
        };
    }
    NewSettlementModel::deferred_net(&format!("NET{number}"), Some(currency(number)))
}

/// A model that settles transfers of a currency by their commit.
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
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fx_transfer_model.regressions.txt");
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..ProptestConfig::default()
    }
}

#[test]
fn fx_transfers_agree_with_the_model() {
    let mut runner = TestRunner::new(config());
    let tried = RefCell::new(Tried::default());
    let runs = (setup(), proptest::collection::vec(step(), 1..80));
    let outcome = runner.run(&runs, |(setup, steps)| {
        let mut run = Run::new(setup, 1);
        steps.iter().for_each(|(pause_ms, ask)| run.step(*pause_ms, ask));
        // The same steps again end in the same state, independent of the order in hash tables.
        let mut again = Run::new(setup, 2);
        steps.iter().for_each(|(pause_ms, ask)| again.step(*pause_ms, ask));
        prop_assert!(snapshot(&run.twin.live) == snapshot(&again.twin.live));
        tried.borrow_mut().add(&run.scheme);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    tried.into_inner().check(runner.config().cases);
}
