//! The audit detects damage: a valid state is damaged in one place, and the audit must report it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use upesi_types::Amount;

use super::{amount, id, participant, sound, transfer, xts};
use crate::audit::{check, sums};
use crate::base::ids::CallbackKey;
use crate::core::state::Ledger;
use crate::money::funds::FundsState;
use crate::money::transfer::Transfer;

#[test]
fn valid_state_has_no_findings() {
    let ledger = sound();
    assert_eq!(check(&ledger), Vec::<String>::new());
    assert_eq!(sums(&ledger), BTreeMap::from([(xts(), 0)]));
}

/// Damage to a state, and the findings of the audit.
type Case = (fn(&mut Ledger), &'static [&'static str]);

#[test]
fn every_damage_is_reported() {
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
            &["account 2 carries reservations that match no transfer or FX transfer"],
        ),
        (
            |ledger| ledger.accounts[2].pending_credits = amount(1),
            &["account 3 carries reservations that match no transfer or FX transfer"],
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
                "account 2 carries reservations that match no transfer or FX transfer",
                "account 4 carries reservations that match no transfer or FX transfer",
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
