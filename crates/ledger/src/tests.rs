//! Tests that need internals of the state, and a small state for them.

mod approvals;
mod audit;
mod change_sets;
mod fees;
mod limits;
mod operators;
mod questions;
mod settlement;
mod snapshot;
mod transfer_table;
mod users;

use alloc::vec;

use upesi_types::{Amount, Currency, ErrorCode, FspId, Timestamp, TransferId};

use crate::base::ids::{AccountId, LedgerAccountTypeId, ParticipantId};
use crate::base::refusal::Cause;
use crate::core::callback::{Callback, CallbackContent, Subject};
use crate::core::config::LedgerConfig;
use crate::core::event::Event;
use crate::core::facts::{Archived, DecisionInput};
use crate::core::state::Ledger;
use crate::money::funds::{FundsDirection, FundsState, FundsTransfer};
use crate::money::transfer::{SettlementMode, Transfer, TransferState};

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
pub(crate) fn absent_facts(now: Timestamp) -> DecisionInput<'static> {
    static ABSENT: Archived = Archived::Absent;
    DecisionInput::new(now.into(), &ABSENT)
}

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
        settled: SettlementMode::InWindow,
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
