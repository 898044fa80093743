//! Limits of a hub: the last object that fits is accepted, the next one is rejected.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId};

use super::{absent_facts, account, amount, id, participant, sound, transfer, xts};
use crate::base::ids::LedgerAccountTypeId;
use crate::core::decision::{Decision, Reply};
use crate::core::event::Event;
use crate::core::limits::Limits;
use crate::core::state::Ledger;
use crate::money::changes::FundsPrepare;
use crate::money::funds::{FundsDirection, FundsState};
use crate::operators::admin_command::AdminCommand;
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::rules::command::Command;
use crate::settlement::changes::NewSettlementModel;
use crate::settlement::model::SettlementModel;

fn decide(ledger: &Ledger, command: Command) -> Decision {
    let mut decision = Decision::default();
    ledger.decide(&command, &absent_facts(Timestamp::from_ms(2_000)), &mut decision);
    decision
}

/// Decides and folds an operator's command.
fn ask(ledger: &mut Ledger, command: AdminCommand) -> Result<AdminOutcome, AdminRefusal> {
    let Decision { events, callbacks, reply, .. } = decide(ledger, Command::Admin(command));
    let seq = ledger.last_seq() + 1;
    ledger.evolve(seq, Timestamp::from_ms(1_000 + seq as i64), events, &callbacks);
    match reply {
        Reply::Admin(outcome) => outcome,
        other => panic!("an operator is answered, not {other:?}"),
    }
}

fn create(name: &str) -> AdminCommand {
    let name = FspId::parse(name).unwrap_or_else(|| unreachable!("a literal name"));
    AdminCommand::CreateParticipant { name, currency: xts(), is_proxy: false }
}

/// A hub that can accept more participants.
fn hub() -> Ledger {
    let mut ledger = sound();
    let kind: Box<str> = "HUB_MULTILATERAL_SETTLEMENT".into();
    let name = ledger.config().hub_name;
    for command in [
        AdminCommand::CreateHubAccount { name, currency: xts(), kind },
        AdminCommand::CreateSettlementModel(NewSettlementModel::deferred_net("DEFERREDNET", None)),
    ] {
        assert_eq!(ask(&mut ledger, command), Ok(AdminOutcome::Done));
    }
    ledger
}

const DONE: Result<AdminOutcome, AdminRefusal> = Ok(AdminOutcome::Done);

#[test]
fn participants_are_at_most_ten_thousand() {
    let mut ledger = hub();
    let model = ledger.participants[2].clone();
    for number in 4..10_000 {
        ledger.participants.push(crate::Participant { id: participant(number), ..model.clone() });
    }
    assert_eq!(ask(&mut ledger, create("last")), DONE);
    assert_eq!(ledger.participants().len(), 10_000);
    assert_eq!(ask(&mut ledger, create("beyond")), Err(AdminRefusal::ParticipantsFull));
    assert_eq!(ledger.next_participant_id(), participant(10_001));
}

#[test]
fn accounts_are_at_most_a_million() {
    let mut ledger = hub();
    let model = ledger.accounts[3].clone();
    ledger.accounts.resize(1_000_000 - 2, model);
    assert_eq!(ask(&mut ledger, create("last")), DONE);
    assert_eq!(ledger.accounts().len(), 1_000_000);
    assert_eq!(ask(&mut ledger, create("beyond")), Err(AdminRefusal::AccountsFull));
    assert_eq!(ledger.participants().len(), 4, "a participant without accounts is none");
}

#[test]
fn settlement_models_are_at_most_a_thousand() {
    let mut ledger = hub();
    let currencies: Vec<Currency> = Currency::all().take(2).collect();
    let filler = SettlementModel { currency: Some(currencies[0]), ..ledger.models[0].clone() };
    ledger.models.resize(999, filler);
    let new = |name: &str, currency| {
        AdminCommand::CreateSettlementModel(NewSettlementModel::deferred_net(name, Some(currency)))
    };
    assert_eq!(ask(&mut ledger, new("LAST", currencies[1])), DONE);
    assert_eq!(ledger.models().last().map(|model| model.id), Some(1_000));
    assert_eq!(ask(&mut ledger, new("BEYOND", xts())), Err(AdminRefusal::ModelsFull));
}

#[test]
fn ledger_account_types_are_at_most_two_hundred() {
    let mut ledger = hub();
    let new = |number: usize| AdminCommand::CreateLedgerAccountType {
        name: format!("TYPE_{number}").into(),
        description: "".into(),
        is_active: true,
        is_settleable: false,
    };
    for number in 7..=200 {
        assert_eq!(ask(&mut ledger, new(number)), DONE);
        assert_eq!(ledger.account_type_name(LedgerAccountTypeId(number as u8)), format!("TYPE_{number}"));
    }
    assert_eq!(ask(&mut ledger, new(201)), Err(AdminRefusal::AccountTypesFull));
}

#[test]
fn withdrawal_above_the_cover_is_recorded_with_its_reason() {
    let mut ledger = sound();
    for (number, units, state, reason) in [
        (30, 461, FundsState::Aborted, "Aborted due to insufficient funds"),
        (31, 1, FundsState::Reserved, "as the bank reported"),
    ] {
        let withdrawal = FundsPrepare {
            direction: FundsDirection::Out,
            id: id(number),
            name: ledger.participants[1].name,
            account: account(3),
            amount: amount(units),
            currency: xts(),
            external_reference: "".into(),
            reason: "as the bank reported".into(),
            extensions: None,
            fingerprint: [number; 16],
        };
        assert_eq!(
            ask(&mut ledger, AdminCommand::PrepareFunds(withdrawal)),
            Ok(AdminOutcome::Funds(id(number), state))
        );
        let kept = ledger.funds(id(number)).map(|funds| (funds.state, &*funds.reason));
        assert_eq!(kept, Some((state, reason)));
    }
}

/// First transfers, then withdrawals, together at most as many as a tick may end.
#[test]
fn expirations_per_tick_are_limited() {
    for (transfers, withdrawals) in [(3, 2), (60, 10), (70, 10), (0, 70)] {
        let mut ledger = sound();
        for number in 0..transfers {
            let id = TransferId::from_random_bytes([100 + number as u8; 16]);
            ledger.transfers.insert(9, crate::Transfer { id, ..transfer(1, 1) });
        }
        let model = ledger.funds.values().find(|funds| funds.state == FundsState::Reserved).cloned();
        let model = model.unwrap_or_else(|| unreachable!("a withdrawal is in flight"));
        for number in 1..withdrawals {
            let id = TransferId::from_random_bytes([20 + number as u8; 16]);
            let another = crate::FundsTransfer { id, ..model.clone() };
            ledger.withdrawals.open(&another);
            ledger.funds.insert(id, another);
        }
        let events = decide(&ledger, Command::Tick).events;
        let expired = events.iter().filter(|event| matches!(event, Event::TransferAborted { .. })).count();
        let given_back = events.iter().filter(|event| matches!(event, Event::FundsEnded { .. })).count();
        // The state itself has one reserved transfer.
        let expected = Limits::SHIPPED.expiries_per_tick.min(transfers + 1);
        assert_eq!(
            (expired, given_back),
            (expected, withdrawals.min(Limits::SHIPPED.expiries_per_tick - expected))
        );
    }
}

#[test]
#[should_panic(expected = "the balance of account 1 exceeds the range of amounts")]
fn posting_out_of_range_panics() {
    let mut ledger = sound();
    let posted = Event::Posted { debit: account(1), credit: account(3), amount: Amount::MAX };
    ledger.evolve(9, Timestamp::from_ms(9), [posted], &[]);
}
