//! Interchange fees: limits of rules, fees that a balance cannot hold, inconsistent snapshots.

use alloc::format;
use alloc::vec::Vec;

use upesi_types::{Amount, FspId, Timestamp};

use super::{absent_facts, account, amount, participant, sound, transfer, xts};
use crate::base::ids::LedgerAccountTypeId;
use crate::core::config::LedgerConfig;
use crate::core::decision::{Decision, Reply};
use crate::core::event::Event;
use crate::core::limits::Limits;
use crate::core::state::Ledger;
use crate::money::account::Account;
use crate::money::changes::NewFeeRule;
use crate::money::fee::{FeePayer, FeeTerms, NoFee};
use crate::operators::admin_command::AdminCommand;
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::rules::command::Command;
use crate::rules::money::fees::FEE_RULE_PARTIES_MAX;

fn rule(name: &str, fixed: i64, paid_by: FeePayer) -> NewFeeRule {
    NewFeeRule {
        terms: FeeTerms {
            name: name.into(),
            currency: xts(),
            payers: Vec::new(),
            payees: Vec::new(),
            amount_min: Amount::ZERO,
            amount_max: None,
            rate: 0,
            decimals: 2,
            fixed: amount(fixed),
            paid_by,
        },
        from: None,
        until: None,
    }
}

fn at(ledger: &Ledger) -> Timestamp {
    Timestamp::from_ms(1_000 + ledger.last_seq() as i64)
}

fn submit_next(ledger: &mut Ledger, command: AdminCommand) -> Result<AdminOutcome, AdminRefusal> {
    let mut decision = Decision::default();
    ledger.decide(&Command::Admin(command), &absent_facts(at(ledger)), &mut decision);
    let Decision { events, reply: Reply::Admin(outcome), .. } = decision else {
        panic!("an operator's reply")
    };
    let (seq, now) = (ledger.last_seq() + 1, at(ledger).plus_ms(1));
    ledger.evolve(seq, now, events, &[]);
    outcome
}

fn create(ledger: &mut Ledger, rule: NewFeeRule) -> Result<AdminOutcome, AdminRefusal> {
    submit_next(ledger, AdminCommand::CreateFeeRule(rule))
}

#[test]
fn fee_rules_are_limited_in_total_and_while_active() {
    let mut ledger = sound();
    for number in 0..Limits::SHIPPED.fee_rules_live {
        assert_eq!(
            create(&mut ledger, rule(&format!("RULE{number}"), 1, FeePayer::Payer)),
            Ok(AdminOutcome::Done)
        );
    }
    let full = Err(AdminRefusal::FeeRulesFull);
    assert_eq!(create(&mut ledger, rule("BEYOND", 1, FeePayer::Payer)), full);
    let end = AdminCommand::EndFeeRule { name: "RULE0".into(), until: None };
    assert_eq!(submit_next(&mut ledger, end), Ok(AdminOutcome::Done));
    assert_eq!(create(&mut ledger, rule("INSTEAD", 1, FeePayer::Payer)), Ok(AdminOutcome::Done));
    let end = AdminCommand::EndFeeRule { name: "RULE1".into(), until: None };
    assert_eq!(submit_next(&mut ledger, end), Ok(AdminOutcome::Done));
    let filler = ledger.fee_rules[0].clone();
    ledger.fee_rules.resize(Limits::SHIPPED.fee_rules - 1, filler);
    assert_eq!(create(&mut ledger, rule("LAST", 1, FeePayer::Payer)), Ok(AdminOutcome::Done));
    let end = AdminCommand::EndFeeRule { name: "RULE2".into(), until: None };
    assert_eq!(submit_next(&mut ledger, end), Ok(AdminOutcome::Done));
    assert_eq!(create(&mut ledger, rule("BEYOND", 1, FeePayer::Payer)), full);
}

#[test]
fn fee_rule_with_too_many_dfsps_is_rejected() {
    let greenbank = FspId::parse("greenbank").unwrap_or_else(|| unreachable!("a literal name"));
    for (count, is_taken) in [(FEE_RULE_PARTIES_MAX, true), (FEE_RULE_PARTIES_MAX + 1, false)] {
        for is_payer in [true, false] {
            let mut ledger = sound();
            let mut new = rule("FLAT", 1, FeePayer::Payer);
            *(if is_payer { &mut new.terms.payers } else { &mut new.terms.payees }) =
                alloc::vec![greenbank; count];
            assert_eq!(create(&mut ledger, new).is_ok(), is_taken, "{count}");
        }
    }
}

/// The fees of two rules must fit together. A fee that does not is recorded as not charged, and the commit stays.
#[test]
fn fee_that_would_overflow_a_balance_is_not_charged() {
    let max = Amount::MAX.units();
    for (payer, payee, charged) in [
        (max - 12, 12 - max, &[5, 7][..]),
        (max - 11, 0, &[5]),
        (0, 11 - max, &[5]),
        (max - 4, 0, &[]),
        (0, 4 - max, &[]),
    ] {
        let mut ledger = sound();
        for (name, fixed) in [("FIVE", 5), ("SEVEN", 7)] {
            assert_eq!(create(&mut ledger, rule(name, fixed, FeePayer::Payer)), Ok(AdminOutcome::Done));
        }
        let accounts: Vec<_> =
            ledger.accounts[4..].iter().map(|one: &Account| (one.participant, one.kind)).collect();
        let kind = LedgerAccountTypeId::INTERCHANGE_FEE;
        assert_eq!(accounts, [(participant(2), kind), (participant(3), kind)]);
        (ledger.accounts[4].balance, ledger.accounts[5].balance) = (amount(payer), amount(payee));
        let mut out = Decision::default();
        ledger.charge_fees(&transfer(1, 7), at(&ledger), &mut out);
        let expected = [(1, 5), (2, 7)].map(|(rule, units)| {
            let (transfer, amount) = (super::id(1), amount(units));
            if charged.contains(&units) {
                Event::FeeCharged { transfer, rule, payer: account(5), payee: account(6), amount }
            } else {
                Event::FeeNotCharged { transfer, rule, amount, reason: NoFee::Room }
            }
        });
        assert_eq!(out.events, expected, "{payer}, {payee}");
    }
}

#[test]
fn snapshot_with_inconsistent_fee_rules_is_rejected() {
    type Damage = fn(&mut Ledger);
    let cases: [(Damage, Option<&str>); 4] = [
        (|_| {}, None),
        (|ledger| ledger.fee_rules[0].id = 2, Some("its items are not numbered without gaps")),
        (
            |ledger| ledger.fee_rules[0].terms.payers.push(participant(9)),
            Some("it refers to an object that it does not contain"),
        ),
        (
            |ledger| ledger.fee_rules[0].terms.payees.push(participant(9)),
            Some("it refers to an object that it does not contain"),
        ),
    ];
    for (index, (damage, expected)) in cases.into_iter().enumerate() {
        let mut ledger = sound();
        assert_eq!(create(&mut ledger, rule("FLAT", 1, FeePayer::Payee)), Ok(AdminOutcome::Done));
        damage(&mut ledger);
        let mut bytes = Vec::new();
        ledger.encode_snapshot(&mut bytes);
        let read = Ledger::decode_snapshot(&bytes, LedgerConfig::default());
        assert_eq!(read.as_ref().err().map(|error| error.0), expected, "case {index}");
        if let Ok(read) = read {
            assert_eq!(read.fee_rules(), ledger.fee_rules());
        }
    }
}
