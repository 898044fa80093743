//! A snapshot with inconsistent parts is rejected, because the rules use its numbers as indexes without a check.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use upesi_types::Timestamp;

use super::{account, id, participant, sound, transfer};
use crate::base::ids::{CallbackKey, LedgerAccountTypeId};
use crate::core::config::LedgerConfig;
use crate::core::state::Ledger;
use crate::money::transfer::{Transfer, TransferState};
use crate::scheme::binding::Binding;
use crate::settlement::model::{Delay, Granularity, Interchange, SettlementModel};

/// A number that the valid state does not have: it has three participants and four accounts.
const STRANGER: u32 = 4;
const NO_ACCOUNT: u32 = 5;

/// Writes and reads a state. Returns the reader's error.
fn error_of(ledger: &Ledger) -> Option<&'static str> {
    let mut bytes = Vec::new();
    ledger.encode_snapshot(&mut bytes);
    Ledger::decode_snapshot(&bytes, LedgerConfig::default()).err().map(|error| error.0)
}

fn model(number: u32) -> SettlementModel {
    SettlementModel {
        id: number,
        name: number.to_string().into(),
        is_active: true,
        granularity: Granularity::Net,
        interchange: Interchange::Multilateral,
        delay: Delay::Deferred,
        currency: None,
        require_liquidity_check: true,
        ledger_account_type: LedgerAccountTypeId::POSITION,
        settlement_account_type: LedgerAccountTypeId::SETTLEMENT,
        auto_position_reset: true,
        created_at: Timestamp::EPOCH,
    }
}

fn with_models(numbers: [u32; 2]) -> Ledger {
    let mut ledger = sound();
    ledger.models.extend(numbers.map(model));
    ledger
}

#[test]
fn valid_snapshot_is_read() {
    assert_eq!((error_of(&sound()), error_of(&with_models([1, 2]))), (None, None));
}

#[test]
fn items_are_numbered_without_gaps() {
    let gaps = Some("its items are not numbered without gaps");
    assert_eq!(error_of(&with_models([2, 1])), gaps);
    let cases: [fn(&mut Ledger); 3] = [
        |ledger| ledger.participants.swap(1, 2),
        |ledger| ledger.accounts.swap(1, 2),
        |ledger| ledger.account_types.swap(0, 1),
    ];
    for (at, damage) in cases.into_iter().enumerate() {
        let mut ledger = sound();
        damage(&mut ledger);
        assert_eq!(error_of(&ledger), gaps, "case {at}");
    }
}

/// Adds a transfer that differs from the others in one reference.
fn add(ledger: &mut Ledger, change: fn(&mut Transfer), state: TransferState) {
    let mut added = transfer(4, 1);
    change(&mut added);
    ledger.transfers.insert(9, added);
    if state != TransferState::Reserved {
        ledger.transfers.finish(9, id(4), |transfer| transfer.state = state);
    }
}

#[test]
fn snapshot_with_an_unknown_reference_is_rejected() {
    let nothing = Some("it refers to an object that it does not contain");
    let cases: [fn(&mut Ledger); 5] = [
        |ledger| ledger.accounts[1].participant = participant(STRANGER),
        |ledger| ledger.participants[1].accounts[0].id = account(NO_ACCOUNT),
        |ledger| ledger.funds.values_mut().for_each(|funds| funds.account = account(NO_ACCOUNT)),
        |ledger| ledger.funds.values_mut().for_each(|funds| funds.hub_account = account(NO_ACCOUNT)),
        |ledger| ledger.outbox.insert(CallbackKey { target: participant(STRANGER), seq: 3, index: 0 }, None),
    ];
    for (at, damage) in cases.into_iter().enumerate() {
        let mut ledger = sound();
        damage(&mut ledger);
        assert_eq!(error_of(&ledger), nothing, "case {at}");
    }
    let of_transfers: [fn(&mut Transfer); 4] = [
        |transfer| transfer.payer = Some(participant(STRANGER)),
        |transfer| transfer.payee = Some(participant(STRANGER)),
        |transfer| transfer.payer_account = Some(account(NO_ACCOUNT)),
        |transfer| transfer.payee_account = Some(account(NO_ACCOUNT)),
    ];
    let aborted =
        || sound().transfers.get(id(3)).map_or(TransferState::Reserved, |found| found.state.clone());
    for (at, change) in of_transfers.into_iter().enumerate() {
        for state in [TransferState::Reserved, aborted()] {
            let mut ledger = sound();
            add(&mut ledger, change, state);
            assert_eq!(error_of(&ledger), nothing, "case {at}");
        }
    }
}

#[test]
fn reserved_transfer_without_accounts_is_rejected() {
    let nothing = Some("it refers to an object that it does not contain");
    let cases: [fn(&mut Transfer); 2] =
        [|transfer| transfer.payer_account = None, |transfer| transfer.payee_account = None];
    for (at, change) in cases.into_iter().enumerate() {
        let mut ledger = sound();
        add(&mut ledger, change, TransferState::Reserved);
        assert_eq!(error_of(&ledger), nothing, "case {at}");
    }
}

#[test]
fn bindings_are_sorted_and_unique() {
    let bind = |texts: &[&str]| {
        let mut ledger = sound();
        let bindings = texts.iter().map(|text| Binding::parse(text).expect("a binding"));
        ledger.participants[1].bindings = bindings.collect();
        error_of(&ledger)
    };
    let refused = Some("it has bindings twice or out of order");
    assert_eq!(bind(&["san-uri:a:b", "san-dns:a.example"]), None);
    assert_eq!(bind(&["san-dns:a.example", "san-uri:a:b"]), refused);
    assert_eq!(bind(&["san-uri:a:b", "san-uri:a:b"]), refused);
}

/// The numbers of the sections that older snapshots lack.
const OPTIONAL_SECTIONS: [u8; 2] = [31, 45];

/// Each section has its own version. A snapshot with another version is rejected, and the error names the section.
#[test]
fn section_of_another_version_is_rejected_by_name() {
    let mut bytes = Vec::new();
    sound().encode_snapshot(&mut bytes);
    let read =
        |bytes: &[u8]| Ledger::decode_snapshot(bytes, LedgerConfig::default()).err().map(|error| error.0);
    let (mut at, mut names) = (1, Vec::new());
    while at < bytes.len() {
        let mismatch = format!("is missing or not of version {}; another version wrote it", bytes[at + 1]);
        let is_optional = OPTIONAL_SECTIONS.contains(&bytes[at]);
        for place in [at, at + 1].into_iter().skip(usize::from(is_optional)) {
            let mut changed = bytes.clone();
            changed[place] += 100;
            let why = read(&changed).unwrap_or_default();
            assert!(why.ends_with(&mismatch), "{why}");
            names.extend(why.split('"').nth(1));
        }
        let [a, b, c, d] = [2, 3, 4, 5].map(|offset| bytes[at + offset]);
        at += 6 + u32::from_le_bytes([a, b, c, d]) as usize;
    }
    names.dedup();
    let expected = [
        "progress",
        "account types",
        "settlement models",
        "participants",
        "accounts",
        "funds",
        "reserved transfers",
        "finished transfers",
        "outbox",
        "settlement windows",
        "settlements",
        "fee rules",
        "couriers",
        "conversions",
        "ended links",
        "bulks",
        "proxied participants",
        "signature keys",
        "blocks",
        "creators",
        "audit trail",
        "operators",
        "approvals",
    ];
    assert_eq!(names, expected);
    bytes[0] = 2;
    assert_eq!(read(&bytes), Some("unknown snapshot format; another version wrote it"));
}

/// Versions before this section did not write it.
#[test]
fn snapshot_without_ended_links_is_read() {
    let mut bytes = Vec::new();
    sound().encode_snapshot(&mut bytes);
    let empty_section = [OPTIONAL_SECTIONS[0], 1, 4, 0, 0, 0, 0, 0, 0, 0];
    let at = bytes.windows(empty_section.len()).position(|window| window == empty_section);
    let at = at.expect("an empty section");
    let older = [&bytes[..at], &bytes[at + empty_section.len()..]].concat();
    let read = Ledger::decode_snapshot(&older, LedgerConfig::default()).expect("an older snapshot");
    let mut again = Vec::new();
    read.encode_snapshot(&mut again);
    assert!(again == bytes);
}

/// Before change sets existed, the approvals ended with the proposals.
#[test]
fn approvals_of_a_snapshot_before_change_sets_are_read() {
    let mut bytes = Vec::new();
    sound().encode_snapshot(&mut bytes);
    // The last section, without a change set that is being applied.
    let at = bytes.windows(2).rposition(|head| head == [52, 2]).expect("the approvals");
    let empty_list = [0; 4];
    let content = bytes[at + 6..].strip_suffix(&empty_list).expect("an empty list");
    let length = (content.len() as u32).to_le_bytes();
    let older = [&bytes[..at], &[52, 1], &length, content].concat();
    let read = Ledger::decode_snapshot(&older, LedgerConfig::default()).expect("an older snapshot");
    let mut again = Vec::new();
    read.encode_snapshot(&mut again);
    assert!(again == bytes);
}
