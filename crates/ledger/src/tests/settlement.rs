//! Settlement: damage that the audit detects, rejected snapshots, and limits.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use upesi_types::{Amount, Timestamp};

use super::{absent_facts, account, amount, id, sound, transfer, xts};
use crate::audit::check;
use crate::base::codec::Encoder;
use crate::base::ids::{ContentId, LedgerAccountTypeId, SettlementId, WindowId};
use crate::base::stored::Stored as _;
use crate::core::config::LedgerConfig;
use crate::core::decision::{Decision, Reply};
use crate::core::event::Event;
use crate::core::limits::Limits;
use crate::core::state::Ledger;
use crate::money::account::Account;
use crate::money::transfer::{SettlementMode, TransferState};
use crate::operators::admin_command::AdminCommand;
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::rules::command::Command;
use crate::scheme::participant::AccountRef;
use crate::settlement::changes::{AdvanceItem, NewSettlement, NewSettlementModel, SettlementAdvance};
use crate::settlement::model::Granularity;
use crate::settlement::settlements::{Settlement, SettlementState};
use crate::settlement::window::{ContentRef, Net, PairSum, Sum, Window, WindowState};

type Outcome = Result<AdminOutcome, AdminRefusal>;

fn evolve(ledger: &mut Ledger, events: Vec<Event>) {
    let seq = ledger.last_seq() + 1;
    ledger.evolve(seq, Timestamp::from_ms(1_000 + seq as i64), events, &[]);
}

fn submit(ledger: &mut Ledger, command: AdminCommand) -> Outcome {
    let mut decision = Decision::default();
    ledger.decide(&Command::Admin(command), &absent_facts(Timestamp::from_ms(2_000)), &mut decision);
    let Decision { events, reply: Reply::Admin(outcome), .. } = decision else {
        panic!("an operator's reply")
    };
    evolve(ledger, events);
    outcome
}

fn close(ledger: &mut Ledger, window: u32) -> Outcome {
    submit(ledger, AdminCommand::CloseWindow { id: WindowId(window), reason: "end of day".into() })
}

fn settle(ledger: &mut Ledger, windows: &[u32]) -> Outcome {
    let windows = windows.iter().copied().map(WindowId).collect();
    let new = NewSettlement { model: "NET".into(), reason: "end of day".into(), windows };
    submit(ledger, AdminCommand::CreateSettlement(new))
}

fn advance(ledger: &mut Ledger, settlement: u32, state: SettlementState) -> Outcome {
    let id = SettlementId(settlement);
    let accounts = ledger.settlement(id).into_iter().flat_map(|settlement| &settlement.accounts);
    let item = |id: crate::AccountId| AdvanceItem {
        participant: ledger.account_ref(id).participant.number(),
        account: id.number(),
        state,
        reason: "sent".into(),
        external_reference: None,
    };
    let items = accounts.map(|account| item(account.account)).collect();
    submit(ledger, AdminCommand::AdvanceSettlement(SettlementAdvance { id, items }))
}

/// A hub that can settle. In the open window account 2 owes account 4 20 ten-thousandths.
fn hub() -> Ledger {
    let mut ledger = sound();
    let name = ledger.config().hub_name;
    let kind: Box<str> = "HUB_MULTILATERAL_SETTLEMENT".into();
    for command in [
        AdminCommand::CreateHubAccount { name, currency: xts(), kind },
        AdminCommand::CreateSettlementModel(NewSettlementModel::deferred_net("NET", Some(xts()))),
    ] {
        assert_eq!(submit(&mut ledger, command), Ok(AdminOutcome::Done));
    }
    ledger
}

/// Window 1 in settlement 1, and window 2 open with 7 more.
fn settling() -> Ledger {
    let mut ledger = hub();
    assert_eq!(close(&mut ledger, 1), Ok(AdminOutcome::WindowOpened(WindowId(2))));
    assert_eq!(settle(&mut ledger, &[1]), Ok(AdminOutcome::SettlementCreated(SettlementId(1))));
    let commit = Event::TransferCommitted {
        id: super::id(1),
        fulfilment: [0; 32],
        fingerprint: [0; 16],
        extensions: None,
        settled: SettlementMode::InWindow,
    };
    evolve(&mut ledger, vec![commit]);
    ledger
}

/// A change that no event makes.
pub(super) type Damage = fn(&mut Ledger);

#[test]
fn every_damage_is_reported() {
    let content = "content 1 of window 1 does not match the sums between its accounts";
    let nets = "the nets of settlement 1 differ from the nets of its windows";
    let cases: [(Damage, &[&str]); 6] = [
        (|_| {}, &[]),
        (
            |ledger| ledger.windows.add(account(2), account(4), amount(1)),
            &[
                "2 transfers and 0 legs of FX transfers were committed with 0 fees, and 0 of them settled immediately, but \
                 3 are in settlement windows",
            ],
        ),
        (|ledger| ledger.windows.all[0].contents[0].nets[1].units = -19, &[content, nets]),
        (|ledger| ledger.windows.all[0].contents[0].sum.units = 19, &[content]),
        (|ledger| ledger.windows.all[0].pairs = Some(Vec::new()), &[content]),
        (
            |ledger| ledger.settlements[0].accounts[1].net = amount(-19),
            &["the nets of settlement 1 sum to 1 ten-thousandths of XTS, not to zero", nets],
        ),
    ];
    for (at, (damage, expected)) in cases.into_iter().enumerate() {
        let mut ledger = settling();
        damage(&mut ledger);
        assert_eq!(check(&ledger), expected, "case {at}");
    }
}

#[test]
fn inconsistent_snapshot_is_rejected() {
    let said_of = |ledger: &Ledger| {
        let mut bytes = Vec::new();
        ledger.encode_snapshot(&mut bytes);
        Ledger::decode_snapshot(&bytes, LedgerConfig::default()).err().map(|error| error.0)
    };
    assert_eq!(said_of(&settling()), None);
    let unsound = "its settlement windows contradict each other";
    let stranger = "it refers to an object that it does not contain";
    let cases: [(Damage, &str); 17] = [
        (|ledger| ledger.windows.all.clear(), unsound),
        (|ledger| ledger.windows.all.truncate(1), unsound),
        (|ledger| ledger.windows.all[0].id = WindowId(2), unsound),
        (|ledger| ledger.windows.all[1].state = WindowState::Closed, unsound),
        (|ledger| ledger.windows.all[0].state = WindowState::Closed, unsound),
        (|ledger| ledger.windows.all[0].contents.clear(), unsound),
        (|ledger| ledger.windows.all[0].contents[0].id = ContentId(2), unsound),
        (|ledger| ledger.windows.all[0].contents[0].state = WindowState::Open, unsound),
        (|ledger| ledger.windows.all[0].contents[0].sum.units = i128::MAX, unsound),
        (|ledger| ledger.windows.all[0].contents[0].nets[0].units = 21, unsound),
        (
            |ledger| {
                let sum = Sum { units: -1, transfers: 1 };
                let pair = PairSum { payer: account(2), payee: account(4), sum };
                ledger.windows.all[0].pairs = Some(vec![pair]);
            },
            unsound,
        ),
        (|ledger| ledger.settlements[0].id = SettlementId(2), unsound),
        (|ledger| ledger.windows.add(account(2), account(99), amount(1)), stranger),
        (
            |ledger| {
                let net = Net { account: account(99), units: 0 };
                ledger.windows.all[0].contents[0].nets.push(net);
            },
            stranger,
        ),
        (|ledger| ledger.settlements[0].model = 2, stranger),
        (|ledger| ledger.settlements[0].contents[0].content = ContentId(2), stranger),
        (|ledger| ledger.settlements[0].accounts[1].account = account(99), stranger),
    ];
    for (at, (damage, expected)) in cases.into_iter().enumerate() {
        let mut ledger = settling();
        damage(&mut ledger);
        assert_eq!(said_of(&ledger), Some(expected), "case {at}");
    }
    let mut ledger = settling();
    ledger.settlements[0].accounts.swap(0, 1);
    assert_eq!(said_of(&ledger), Some(stranger));
}

#[test]
fn windows_are_at_most_a_hundred_thousand() {
    let mut ledger = hub();
    let model = ledger.windows.all[0].clone();
    let window = |number| Window { id: WindowId(number as u32), ..model.clone() };
    ledger.windows.all = (1..Limits::SHIPPED.windows).map(window).collect();
    let last = Limits::SHIPPED.windows as u32 - 1;
    assert_eq!(close(&mut ledger, last), Ok(AdminOutcome::WindowOpened(WindowId(last + 1))));
    ledger.windows.add(account(2), account(4), amount(1));
    assert_eq!(close(&mut ledger, last + 1), Err(AdminRefusal::WindowsFull));
}

/// A window with the maximum number of pairs: it can be closed, and its pairs are removed when it is settled.
#[test]
fn old_settled_windows_lose_their_pairs() {
    let mut ledger = hub();
    ledger.windows.pairs_kept_max = 3;
    for (payer, payee) in [(2, 2), (4, 2), (4, 4)] {
        ledger.windows.add(account(payer), account(payee), amount(1));
    }
    let pairs = |ledger: &Ledger, window: usize| ledger.windows()[window].pairs.as_ref().map(Vec::len);
    let all = 4;
    assert_eq!(close(&mut ledger, 1), Ok(AdminOutcome::WindowOpened(WindowId(2))));
    assert_eq!(pairs(&ledger, 0), Some(all));
    ledger.windows.add(account(4), account(2), amount(1));
    assert_eq!(close(&mut ledger, 2), Err(AdminRefusal::WindowsUnsettled));
    assert!(settle(&mut ledger, &[1]).is_ok());
    for state in [SettlementState::Recorded, SettlementState::Reserved, SettlementState::Committed] {
        assert!(advance(&mut ledger, 1, state).is_ok());
        assert_eq!(pairs(&ledger, 0), Some(all), "{state:?}");
    }
    assert_eq!(close(&mut ledger, 2), Err(AdminRefusal::WindowsUnsettled));
    assert!(advance(&mut ledger, 1, SettlementState::Settled).is_ok());
    let window = &ledger.windows()[0];
    assert_eq!((window.state, window.pairs.as_ref()), (WindowState::Settled, None));
    assert_eq!((window.contents[0].nets.len(), window.contents[0].sum.transfers), (0, 4));
    assert_eq!(ledger.window_pairs(window), None);
    assert_eq!(close(&mut ledger, 2), Ok(AdminOutcome::WindowOpened(WindowId(3))));
    assert_eq!(pairs(&ledger, 1), Some(1));
}

#[test]
fn settlements_and_their_accounts_are_bounded() {
    let mut ledger = hub();
    assert!(close(&mut ledger, 1).is_ok());
    let many: Vec<u32> = (1..=Limits::SHIPPED.windows_per_settlement as u32 + 1).collect();
    assert_eq!(settle(&mut ledger, &many), Err(AdminRefusal::SettlementWindowsMany));
    let inapplicable = (2..=Limits::SHIPPED.windows_per_settlement as u32).map(WindowId).collect();
    let refused = settle(&mut ledger, &many[..Limits::SHIPPED.windows_per_settlement]);
    assert_eq!(refused, Err(AdminRefusal::WindowsInapplicable { windows: inapplicable }));
    assert_eq!(settle(&mut ledger, &[]), Err(AdminRefusal::WindowsInapplicable { windows: Vec::new() }));
    let created = {
        let mut other = ledger.clone();
        assert!(settle(&mut other, &[1]).is_ok());
        other.settlements[0].clone()
    };
    let empty = crate::Settlement { accounts: Vec::new(), ..created.clone() };
    for (accounts, settlements, is_room) in [
        (0, Limits::SHIPPED.settlements - 1, true),
        (0, Limits::SHIPPED.settlements, false),
        (Limits::SHIPPED.settlement_accounts - 2, 1, true),
        (Limits::SHIPPED.settlement_accounts - 1, 1, false),
    ] {
        let mut ledger = ledger.clone();
        ledger.settlements = vec![empty.clone(); settlements];
        ledger.settlements[0].accounts = vec![created.accounts[0].clone(); accounts];
        let expected = if is_room {
            Ok(AdminOutcome::SettlementCreated(SettlementId(settlements as u32 + 1)))
        } else {
            Err(AdminRefusal::SettlementsFull)
        };
        assert_eq!(settle(&mut ledger, &[1]), expected, "{accounts} accounts of {settlements} settlements");
    }
}

/// An amount that a balance cannot hold is rejected before any money moves.
#[test]
fn nets_and_movements_stay_in_range() {
    let mut ledger = hub();
    ledger.windows.add(account(2), account(4), Amount::MAX);
    assert!(close(&mut ledger, 1).is_ok());
    assert_eq!(settle(&mut ledger, &[1]), Err(AdminRefusal::BalanceFull));

    let settle_with = |balances: [i64; 3], pending: i64, stages: &[SettlementState]| {
        let mut ledger = hub();
        assert!(close(&mut ledger, 1).is_ok() && settle(&mut ledger, &[1]).is_ok());
        for (number, balance) in [2, 4, 5].into_iter().zip(balances) {
            ledger.accounts[number - 1].balance = amount(balance);
        }
        ledger.accounts[1].pending_credits = amount(pending);
        stages.iter().map(|state| advance(&mut ledger, 1, *state).is_ok()).collect::<Vec<_>>()
    };
    use SettlementState::{Committed, Recorded, Reserved};
    let (stages, max) = ([Recorded, Reserved, Committed], Amount::MAX.units());
    assert_eq!(settle_with([0, max - 20, 0], 0, &stages), [true, true, true]);
    assert_eq!(settle_with([0, max - 19, 0], 0, &stages)[..2], [true, false]);
    assert_eq!(settle_with([0, 0, 20 - max], 0, &stages), [true, true, true]);
    assert_eq!(settle_with([0, 0, 19 - max], 0, &stages)[..2], [true, false]);
    assert_eq!(settle_with([20 - max, 0, 0], 0, &stages), [true, true, true]);
    assert_eq!(settle_with([19 - max, 0, 0], 0, &stages), [true, true, false]);
    // Reserved amounts may still return to the sender's position.
    assert_eq!(settle_with([27 - max, 0, 0], 7, &stages), [true, true, true]);
    assert_eq!(settle_with([26 - max, 0, 0], 7, &stages), [true, true, false]);
}

/// The hub's account could pay each of the two recipients, but not both.
#[test]
fn the_movements_of_one_call_add_up_on_the_hubs_account() {
    let max = Amount::MAX.units();
    let ledger_with = |balance: i64| {
        let mut ledger = hub();
        ledger.accounts.push(Account { id: account(6), ..ledger.accounts[3].clone() });
        ledger.windows.add(account(2), account(6), amount(30));
        assert!(close(&mut ledger, 1).is_ok() && settle(&mut ledger, &[1]).is_ok());
        assert!(advance(&mut ledger, 1, SettlementState::Recorded).is_ok());
        ledger.accounts[4].balance = amount(balance);
        ledger
    };
    let states = |ledger: &Ledger| {
        let accounts = ledger.settlements()[0].accounts.iter();
        accounts.map(|one| (one.account.number(), one.state)).collect::<Vec<_>>()
    };
    use SettlementState::{Committed, Recorded, Reserved};
    let mut ledger = ledger_with(50 - max);
    assert!(advance(&mut ledger, 1, Reserved).is_ok());
    assert_eq!(ledger.accounts[4].balance, amount(-max));
    assert!(advance(&mut ledger, 1, Committed).is_ok());
    assert_eq!(ledger.accounts[4].balance, amount(50 - max));

    let mut ledger = ledger_with(49 - max);
    assert_eq!(advance(&mut ledger, 1, Reserved), Err(AdminRefusal::BalanceFull));
    assert_eq!(states(&ledger), [(2, Recorded), (4, Recorded), (6, Recorded)]);
    assert_eq!(ledger.accounts[4].balance, amount(49 - max));
    for number in [4, 6] {
        let mut ledger = ledger.clone();
        let item = AdvanceItem {
            participant: 3,
            account: number,
            state: Reserved,
            reason: "sent".into(),
            external_reference: None,
        };
        let alone = SettlementAdvance { id: SettlementId(1), items: vec![item] };
        assert!(submit(&mut ledger, AdminCommand::AdvanceSettlement(alone)).is_ok(), "{number}");
    }
}

/// A commit whose amount the parties' cover cannot hold is left to the open window.
#[test]
fn commit_that_would_overflow_the_cover_is_not_settled_at_once() {
    let max = Amount::MAX.units();
    for (payer, payee, is_at_once) in [(max - 7, 7 - max, true), (max - 6, 0, false), (0, 6 - max, false)] {
        let mut ledger = hub();
        let owner = ledger.accounts[3].participant;
        ledger.accounts.push(Account { id: account(6), ..ledger.accounts[2].clone() });
        ledger.accounts[5].participant = owner;
        let (currency, kind) = (xts(), LedgerAccountTypeId::SETTLEMENT);
        ledger.participants[2].accounts.push(AccountRef { currency, kind, id: account(6) });
        ledger.models[0].granularity = Granularity::Gross;
        (ledger.accounts[2].balance, ledger.accounts[5].balance) = (amount(payer), amount(payee));
        let settled = ledger.settled_by_commit(account(2), account(4), amount(7), &[]);
        let at_once = SettlementMode::AtOnce { payer: account(3), payee: account(6) };
        assert_eq!(settled, if is_at_once { at_once } else { SettlementMode::InWindow }, "{payer}, {payee}");
    }
}

/// A transfer records the window of its commit, or none if its commit settles it.
#[test]
fn commit_records_its_window() {
    let mut ledger = hub();
    assert!(close(&mut ledger, 1).is_ok());
    let at_once = SettlementMode::AtOnce { payer: account(3), payee: account(3) };
    for (number, settled, expected) in
        [(21, SettlementMode::InWindow, Some(WindowId(2))), (22, at_once, None)]
    {
        evolve(&mut ledger, vec![Event::TransferPrepared(transfer(number, 5))]);
        let (id, fulfilment, fingerprint) = (id(number), [0; 32], [0; 16]);
        evolve(
            &mut ledger,
            vec![Event::TransferCommitted { id, fulfilment, fingerprint, extensions: None, settled }],
        );
        let Some(TransferState::Committed(end)) = ledger.transfer(id).map(|found| &found.state) else {
            panic!("{number} is not committed")
        };
        assert_eq!(end.window, expected);
    }
}

/// The present reason changes. The reasons of the close and of the creation stay, also in snapshots.
#[test]
fn reasons_of_close_and_creation_are_retained() {
    use SettlementState as S;
    let mut ledger = hub();
    assert!(close(&mut ledger, 1).is_ok() && settle(&mut ledger, &[1]).is_ok());
    assert!(
        [S::Recorded, S::Reserved, S::Committed, S::Settled].iter().all(|state| advance(
            &mut ledger,
            1,
            *state
        )
        .is_ok())
    );
    let mut bytes = Vec::new();
    ledger.encode_snapshot(&mut bytes);
    let restored = Ledger::decode_snapshot(&bytes, LedgerConfig::default()).expect("its own snapshot");
    for ledger in [ledger, restored] {
        let [first, open] = ledger.windows() else { panic!("two windows") };
        assert_eq!(
            (&*first.reason, first.close_reason.as_deref()),
            ("All settlement accounts are SETTLED", Some("end of day"))
        );
        assert_eq!(open.close_reason, None);
        let [settlement] = ledger.settlements() else { panic!("one settlement") };
        assert_eq!(
            (&*settlement.reason, &*settlement.creation_reason),
            ("All settlement accounts are SETTLED", "end of day")
        );
    }
}

#[test]
fn a_hub_without_its_settlement_account_moves_nothing() {
    let mut ledger = hub();
    assert!(close(&mut ledger, 1).is_ok() && settle(&mut ledger, &[1]).is_ok());
    assert!(advance(&mut ledger, 1, SettlementState::Recorded).is_ok());
    let hub = &mut ledger.participants[0].accounts;
    hub.retain(|account| account.kind != LedgerAccountTypeId::HUB_MULTILATERAL_SETTLEMENT);
    let missing = AdminRefusal::HubSettlementAccountMissing { currency: xts() };
    assert_eq!(advance(&mut ledger, 1, SettlementState::Reserved), Err(missing));
    let settlement = ledger.settlement(SettlementId(1)).map(|settlement| settlement.state);
    assert_eq!(settlement, Some(SettlementState::Recorded));
}

#[test]
#[should_panic(expected = "a settlement window is closed without its XTS")]
fn a_window_closes_with_all_its_contents() {
    let closed =
        Event::WindowClosed { id: WindowId(1), next: WindowId(2), reason: "".into(), contents: Vec::new() };
    evolve(&mut hub(), vec![closed]);
}

#[test]
fn settlement_content_is_found_by_window_and_content_id() {
    let ledger = settling();
    let place = |window, content| ContentRef { window: WindowId(window), content: ContentId(content) };
    let is_there = |place| ledger.windows.content(place).is_some();
    assert!(is_there(place(1, 1)));
    assert!(![place(0, 1), place(2, 1), place(1, 2), place(1, 0)].into_iter().any(is_there));
}

/// Earlier versions allowed a model that covers positions with accounts without deposits.
#[test]
fn corrected_model_creates_the_missing_cover_accounts() {
    let mut ledger = hub();
    let mut wrong = ledger.models()[0].clone();
    wrong.settlement_account_type = LedgerAccountTypeId::INTERCHANGE_FEE_SETTLEMENT;
    ledger.models = vec![wrong];
    // The two DFSPs with positions lose their accounts for cover.
    for participant in &mut ledger.participants {
        participant.accounts.retain(|account| account.kind != LedgerAccountTypeId::SETTLEMENT);
    }
    let before = ledger.accounts().len();
    let off = AdminCommand::SetSettlementModelActivity { name: "NET".into(), is_active: false };
    assert_eq!(submit(&mut ledger, off), Ok(AdminOutcome::Done));
    let right = NewSettlementModel::deferred_net("RIGHT", Some(xts()));
    assert_eq!(submit(&mut ledger, AdminCommand::CreateSettlementModel(right)), Ok(AdminOutcome::Done));
    let created: Vec<_> = ledger.accounts()[before..].iter().map(|one| (one.kind, one.is_opened)).collect();
    assert_eq!(created, [(LedgerAccountTypeId::SETTLEMENT, true); 2]);
}

/// The number of the section of settlements.
const SETTLEMENTS_SECTION: u8 = 11;

/// The range of a section in a snapshot, with its head of six bytes.
fn section(bytes: &[u8], number: u8) -> core::ops::Range<usize> {
    let mut at = 1;
    loop {
        let [a, b, c, d] = [2, 3, 4, 5].map(|offset| bytes[at + offset]);
        let end = at + 6 + u32::from_le_bytes([a, b, c, d]) as usize;
        if bytes[at] == number {
            return at..end;
        }
        at = end;
    }
}

/// The fields of a settlement in version 2, in order.
fn write_version_2(settlement: &Settlement, encoder: &mut Encoder<'_>) {
    let Settlement { id, model, state, reason, external_reference, created_at, changed_at, .. } = settlement;
    id.encode(encoder);
    model.encode(encoder);
    state.encode(encoder);
    reason.encode(encoder);
    external_reference.encode(encoder);
    created_at.encode(encoder);
    changed_at.encode(encoder);
    settlement.creation_reason.encode(encoder);
    settlement.contents.encode(encoder);
    encoder.list(settlement.accounts.iter(), |encoder, item| {
        item.account.encode(encoder);
        item.net.encode(encoder);
        item.state.encode(encoder);
        item.reason.encode(encoder);
        item.external_reference.encode(encoder);
        item.created_at.encode(encoder);
        item.changed_at.encode(encoder);
        item.cap_raised_to.encode(encoder);
    });
}

/// Version 2 had no differences for raised caps, no movements of cover and no remainders.
#[test]
fn settlements_of_a_snapshot_of_version_2_are_read() {
    let mut ledger = hub();
    assert!(close(&mut ledger, 1).is_ok());
    assert!(settle(&mut ledger, &[1]).is_ok());
    assert!(advance(&mut ledger, 1, SettlementState::Recorded).is_ok());
    ledger.settlements[0].accounts[1].cap_raised_to = Some(amount(700));
    let mut bytes = Vec::new();
    ledger.encode_snapshot(&mut bytes);
    let place = section(&bytes, SETTLEMENTS_SECTION);
    let mut older = bytes[..place.start].to_vec();
    let encoder = &mut Encoder(&mut older);
    encoder.u8(SETTLEMENTS_SECTION);
    encoder.u8(2);
    encoder.sized(|encoder| {
        encoder.list(ledger.settlements.iter(), |encoder, settlement| {
            encoder.sized(|encoder| write_version_2(settlement, encoder));
        });
    });
    older.extend_from_slice(&bytes[place.end..]);
    let read = Ledger::decode_snapshot(&older, LedgerConfig::default()).expect("an older snapshot");
    let settlement = read.settlement(SettlementId(1)).expect("the settlement");
    let item = &settlement.accounts[1];
    assert_eq!((settlement.accounts.len(), item.state), (2, SettlementState::Recorded));
    assert_eq!((item.net, item.cap_raised_to, item.cap_raised_by), (amount(-20), Some(amount(700)), None));
    assert_eq!((item.funds, item.carried_in, item.carried_over), (None, Amount::ZERO, Amount::ZERO));
    let mut again = Vec::new();
    read.encode_snapshot(&mut again);
    assert!(again == bytes, "the rest is unchanged");
    // A settlement of version 3 cannot be read as one of version 2.
    let mut mixed = bytes.clone();
    mixed[place.start + 1] = 2;
    assert!(Ledger::decode_snapshot(&mixed, LedgerConfig::default()).is_err());
}
