//! Tests that need internals of the state, and a small state for them.

mod approvals;
mod change_sets;
mod limits;
mod operators;
mod questions;
mod settlement;
mod transfer_table;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

use upesi_types::{Amount, Currency, ErrorCode, FspId, Timestamp, TransferId};

use crate::audit::{check, sums};
use crate::base::ids::{AccountId, CallbackKey, LedgerAccountTypeId, ParticipantId};
use crate::base::refusal::Cause;
use crate::core::callback::{Callback, CallbackContent, Subject};
use crate::core::event::Event;
use crate::core::facts::{Archived, Facts};
use crate::core::limits::LedgerConfig;
use crate::core::state::Ledger;
use crate::money::funds::{FundsDirection, FundsState, FundsTransfer};
use crate::money::transfer::{Settled, Transfer, TransferState};

/// Pseudo-random numbers (xorshift).
pub(crate) fn random(state: &mut u64, below: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state % below
}

pub(crate) fn id(number: u8) -> TransferId {
    TransferId::from_random_bytes([number; 16])
}

pub(crate) fn account(number: u32) -> AccountId {
    AccountId::new(number).unwrap_or_else(|| unreachable!("accounts count from 1"))
}

pub(crate) fn participant(number: u32) -> ParticipantId {
    ParticipantId::new(number).unwrap_or_else(|| unreachable!("participants count from 1"))
}

pub(crate) fn xts() -> Currency {
    Currency::parse("XTS").unwrap_or_else(|| unreachable!("a literal currency"))
}

pub(crate) fn amount(units: i64) -> Amount {
    Amount::from_units(units).unwrap_or_else(|| unreachable!("a literal amount"))
}

/// Facts with an instant and an empty archive.
pub(crate) fn absent_facts(now: Timestamp) -> Facts<'static> {
    static ABSENT: Archived = Archived::Absent;
    Facts::new(now.into(), &ABSENT)
}

/// The cause of a payee that declines.
pub(crate) fn declined() -> Cause {
    Cause::Payee { code: ErrorCode::PAYEE, description: "".into() }
}

/// A reserved transfer of this many ten-thousandths from greenbank to bluewallet.
pub(crate) fn transfer(number: u8, units: i64) -> Transfer {
    Transfer {
        id: id(number),
        payer: Some(participant(2)),
        payee: Some(participant(3)),
        payer_account: Some(account(2)),
        payee_account: Some(account(4)),
        amount: amount(units),
        currency: xts(),
        condition: [0; 32],
        expires_at: Timestamp::from_ms(1_000),
        prepared_at: Timestamp::EPOCH,
        prepare_seq: 1,
        prepare_fingerprint: [number; 16],
        extensions: None,
        state: TransferState::Reserved,
    }
}

pub(crate) fn funds(number: u8, direction: FundsDirection, state: FundsState, units: i64) -> FundsTransfer {
    FundsTransfer {
        id: id(number),
        direction,
        participant: participant(2),
        account: account(3),
        hub_account: account(1),
        amount: amount(units),
        currency: xts(),
        external_reference: "".into(),
        reason: "".into(),
        extensions: None,
        fingerprint: [number; 16],
        state,
        created_at: Timestamp::EPOCH,
        changed_at: Timestamp::EPOCH,
        expires_at: Timestamp::from_ms(1_000),
    }
}

/// A hub with a reserved, a committed and an aborted transfer, and with a pending deposit and withdrawal.
pub(crate) fn sound() -> Ledger {
    let mut ledger = Ledger::new(LedgerConfig::default());
    let dfsp = |number, name| Event::ParticipantCreated {
        id: participant(number),
        name: FspId::parse(name).unwrap_or_else(|| unreachable!("a literal name")),
        is_proxy: false,
    };
    let opened = |number, owner, kind| Event::AccountCreated {
        id: account(number),
        participant: participant(owner),
        currency: xts(),
        kind,
        is_opened: true,
    };
    let abort = Event::TransferAborted {
        id: id(3),
        kind: crate::AbortKind::ByPayee,
        cause: declined(),
        fingerprint: None,
        operator_reason: None,
    };
    let commit = Event::TransferCommitted {
        id: id(2),
        fulfilment: [0; 32],
        fingerprint: [0; 16],
        extensions: None,
        settled: Settled::InWindow,
    };
    let records = [
        vec![
            dfsp(2, "greenbank"),
            dfsp(3, "bluewallet"),
            opened(1, 1, LedgerAccountTypeId::HUB_RECONCILIATION),
            opened(2, 2, LedgerAccountTypeId::POSITION),
            opened(3, 2, LedgerAccountTypeId::SETTLEMENT),
            opened(4, 3, LedgerAccountTypeId::POSITION),
        ],
        vec![Event::FundsPrepared(funds(11, FundsDirection::In, FundsState::Committed, 500))],
        vec![Event::FundsPrepared(funds(12, FundsDirection::Out, FundsState::Reserved, 40))],
        vec![Event::TransferPrepared(transfer(1, 7))],
        vec![Event::TransferPrepared(transfer(2, 20))],
        vec![Event::TransferPrepared(transfer(3, 300))],
        vec![commit],
        vec![abort],
    ];
    let owed = [Callback {
        target: participant(3),
        subject: Subject::transfer(id(1)),
        content: CallbackContent::ForwardPrepare,
    }];
    for (events, seq) in records.into_iter().zip(1..) {
        ledger.evolve(seq, Timestamp::from_ms(seq as i64), events, &owed);
    }
    ledger
}

// The audit detects damage: a valid state is damaged in one place, and the audit must report it.

#[test]
fn a_sound_state_has_no_findings() {
    let ledger = sound();
    assert_eq!(check(&ledger), Vec::<String>::new());
    assert_eq!(sums(&ledger), BTreeMap::from([(xts(), 0)]));
}

/// Damage to a state, and the findings of the audit.
type Case = (fn(&mut Ledger), &'static [&'static str]);

#[test]
fn each_damage_is_found() {
    let cases: [Case; 11] = [
        (
            |ledger| ledger.accounts[0].balance = amount(501),
            &["XTS: accounts and reservations sum to 1 ten-thousandths, not to zero"],
        ),
        (
            |ledger| ledger.accounts[3].balance = amount(-27),
            &["XTS: accounts and reservations sum to -7 ten-thousandths, not to zero"],
        ),
        (
            |ledger| ledger.accounts[1].pending_credits = amount(8),
            &["account 2 carries reservations that no transfer or conversion explains"],
        ),
        (
            |ledger| ledger.accounts[2].pending_credits = amount(1),
            &["account 3 carries reservations that no transfer or conversion explains"],
        ),
        (|ledger| set_state(ledger, 11, FundsState::Aborted), &["deposit 11 is not committed"]),
        (
            |ledger| set_state(ledger, 12, FundsState::Aborted),
            &["XTS: accounts and reservations sum to 40 ten-thousandths, not to zero"],
        ),
        (
            |ledger| ledger.totals.reserved = 4,
            &["4 transfers were reserved, but 2 ended and 1 are in flight"],
        ),
        (|ledger| ledger.totals.aborted = 2, &["3 transfers were reserved, but 3 ended and 1 are in flight"]),
        (
            |ledger| {
                let homeless = Transfer { payer_account: None, amount: Amount::ZERO, ..transfer(4, 1) };
                ledger.totals.reserved += 1;
                ledger.transfers.insert(9, homeless);
            },
            &["transfer 4 is reserved without accounts"],
        ),
        (
            |ledger| ledger.transfers.finish(9, id(1), |_| {}),
            &[
                "XTS: accounts and reservations sum to 7 ten-thousandths, not to zero",
                "account 2 carries reservations that no transfer or conversion explains",
                "account 4 carries reservations that no transfer or conversion explains",
                "3 transfers were reserved, but 2 ended and 0 are in flight",
                "transfer 1 is listed as finished but is reserved",
            ],
        ),
        (
            |ledger| {
                for (target, seq) in [(3, 8), (4, 8), (3, 9)] {
                    ledger.outbox.insert(CallbackKey { target: participant(target), seq, index: 1 }, None);
                }
            },
            &[
                "a callback of record 9 is owed to an unknown participant",
                "a callback of record 8 is owed to an unknown participant",
            ],
        ),
    ];
    for (at, (damage, expected)) in cases.into_iter().enumerate() {
        let mut ledger = sound();
        damage(&mut ledger);
        let found: Vec<_> = check(&ledger).iter().map(|finding| with_numbers(finding)).collect();
        assert_eq!(found, expected, "case {at}");
    }
}

fn set_state(ledger: &mut Ledger, number: u8, state: FundsState) {
    if let Some(funds) = ledger.funds.get_mut(&id(number)) {
        funds.state = state;
    }
}

/// A finding with the tests' numbers in place of ids.
fn with_numbers(finding: &str) -> String {
    let mut text = String::from(finding);
    for number in 1..=12 {
        text = text.replace(&format!("{}", id(number)), &format!("{number}"));
    }
    text
}
