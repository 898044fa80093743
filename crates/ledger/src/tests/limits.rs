//! Limits of a hub: the last object that fits is accepted, the next one is rejected.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId};

use super::{absent_facts, account, amount, id, participant, sound, transfer, xts};
use crate::base::ids::{CallbackKey, LedgerAccountTypeId};
use crate::core::decision::{Decision, Reply};
use crate::core::event::Event;
use crate::core::limits::{LedgerConfig, Limits};
use crate::core::state::Ledger;
use crate::money::changes::FundsPrepare;
use crate::money::funds::{FundsDirection, FundsState};
use crate::money::transfer::{Transfer, TransferState};
use crate::operators::admin_command::AdminCommand;
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::rules::command::Command;
use crate::scheme::binding::Binding;
use crate::settlement::changes::NewSettlementModel;
use crate::settlement::model::{Delay, Granularity, Interchange, SettlementModel};

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

/// A hub to which participants can be added.
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
fn a_withdrawal_beyond_the_cover_is_kept_and_says_why() {
    let mut ledger = sound();
    for (number, units, state, reason) in [
        (30, 461, FundsState::Aborted, "Aborted due to insufficient funds"),
        (31, 1, FundsState::Reserved, "as told by the bank"),
    ] {
        let withdrawal = FundsPrepare {
            direction: FundsDirection::Out,
            id: id(number),
            name: ledger.participants[1].name,
            account: account(3),
            amount: amount(units),
            currency: xts(),
            external_reference: "".into(),
            reason: "as told by the bank".into(),
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
fn a_tick_ends_so_many_and_no_more() {
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
#[should_panic(expected = "account 1 leaves the range of amounts")]
fn a_posting_out_of_range_is_a_fault_of_the_program() {
    let mut ledger = sound();
    let posted = Event::Posted { debit: account(1), credit: account(3), amount: Amount::MAX };
    ledger.evolve(9, Timestamp::from_ms(9), [posted], &[]);
}

// A snapshot with inconsistent parts is rejected, because the rules use its numbers as indexes without a check.

/// A number that the valid state does not have: it has three participants and four accounts.
const STRANGER: u32 = 4;
const NO_ACCOUNT: u32 = 5;

/// Writes and reads a state. Returns the reader's error.
fn said_of(ledger: &Ledger) -> Option<&'static str> {
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
fn a_sound_state_is_read() {
    assert_eq!((said_of(&sound()), said_of(&with_models([1, 2]))), (None, None));
}

#[test]
fn items_are_numbered_without_gaps() {
    let gaps = Some("it numbers its items with gaps");
    assert_eq!(said_of(&with_models([2, 1])), gaps);
    let cases: [fn(&mut Ledger); 3] = [
        |ledger| ledger.participants.swap(1, 2),
        |ledger| ledger.accounts.swap(1, 2),
        |ledger| ledger.account_types.swap(0, 1),
    ];
    for (at, damage) in cases.into_iter().enumerate() {
        let mut ledger = sound();
        damage(&mut ledger);
        assert_eq!(said_of(&ledger), gaps, "case {at}");
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
fn what_is_referred_to_exists() {
    let nothing = Some("it refers to something that it does not contain");
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
        assert_eq!(said_of(&ledger), nothing, "case {at}");
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
            assert_eq!(said_of(&ledger), nothing, "case {at}");
        }
    }
}

#[test]
fn who_reserves_has_both_accounts() {
    let nothing = Some("it refers to something that it does not contain");
    let cases: [fn(&mut Transfer); 2] =
        [|transfer| transfer.payer_account = None, |transfer| transfer.payee_account = None];
    for (at, change) in cases.into_iter().enumerate() {
        let mut ledger = sound();
        add(&mut ledger, change, TransferState::Reserved);
        assert_eq!(said_of(&ledger), nothing, "case {at}");
    }
}

#[test]
fn bindings_are_in_order_and_stand_once() {
    let bind = |texts: &[&str]| {
        let mut ledger = sound();
        let bindings = texts.iter().map(|text| Binding::parse(text).expect("a binding"));
        ledger.participants[1].bindings = bindings.collect();
        said_of(&ledger)
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
fn a_section_of_another_version_is_refused_by_name() {
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
fn a_snapshot_without_ended_links_is_read_as_one_that_has_none() {
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
