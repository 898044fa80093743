//! Settlement in `upesi audit` and `upesi journal`.

use upesi_ledger::command::{
    AdvanceItem, CoverItem, NewFeeRule, NewSettlement, NewSettlementModel, SettlementAbort,
    SettlementAdvance, SettlementCover,
};
use upesi_ledger::{
    AccountId, Actor, AdminCommand, Decision, Delay, Event, FeePayer, FeeTerms, Granularity, Interchange,
    Payload, SettlementId, SettlementMode, SettlementState, WindowId,
};
use upesi_process::times::Zone;
use upesi_types::Amount;

use super::audit::audited;
use super::journal::{TestJournal, amount, fsp, id, kes};
use crate::journal::filter::Filter;
use crate::journal::print::{PrintOptions, print};

/// In window 1, greenbank owes bluebank 12.5. Window 2 is open, with 7 more.
fn closed() -> TestJournal {
    let mut journal = TestJournal::onboarded();
    journal.prepare(1, "12.5");
    journal.prepare(2, "7");
    journal.fulfil(1);
    journal.admin(AdminCommand::CloseWindow { id: WindowId(1), reason: "end of day".into() });
    journal.fulfil(2);
    journal
}

fn create(journal: &mut TestJournal) {
    let (model, reason, windows) = ("DEFERREDNET".into(), "EOD".into(), vec![WindowId(1)]);
    journal.admin(AdminCommand::CreateSettlement(NewSettlement { model, reason, windows }));
}

fn advance(state: SettlementState, reference: &str) -> AdminCommand {
    let item = |(participant, account)| AdvanceItem {
        participant,
        account,
        state,
        reason: "sent to bank".into(),
        external_reference: Some(reference.into()),
    };
    let items = [(2, 3), (3, 5)].map(item).to_vec();
    AdminCommand::AdvanceSettlement(SettlementAdvance { id: SettlementId(1), items })
}

fn abort() -> AdminCommand {
    let (id, reason) = (SettlementId(1), "bank unavailable".into());
    AdminCommand::AbortSettlement(SettlementAbort { id, reason, external_reference: None })
}

/// First aborted, then settled.
fn settled() -> TestJournal {
    let mut journal = closed();
    create(&mut journal);
    journal.admin(advance(SettlementState::Recorded, "ref-1"));
    journal.admin(advance(SettlementState::Reserved, "ref-1"));
    journal.admin(abort());
    create(&mut journal);
    for state in [SettlementState::Recorded, SettlementState::Reserved, SettlementState::Committed] {
        let AdminCommand::AdvanceSettlement(mut command) = advance(state, "ref-2") else { unreachable!() };
        command.id = SettlementId(2);
        journal.admin(AdminCommand::AdvanceSettlement(command));
    }
    journal
}

#[test]
fn journal_with_settlements_is_sound() {
    let mut journal = settled();
    let state = journal.ledger.clone();
    assert_eq!(state.settlement(SettlementId(2)).unwrap().state, SettlementState::Committed);
    journal.write_snapshot(&state);
    let report = audited(&mut journal);
    assert_eq!(report.findings, Vec::<String>::new());
}

fn printed(journal: &TestJournal, from_seq: u64, limit: u64, json: bool) -> String {
    let options = PrintOptions {
        directory: journal.path.clone(),
        from_seq: Some(from_seq),
        filter: Filter::default(),
        limit: Some(limit),
        json,
        payload: false,
        zone: Zone::utc(),
    };
    let (mut output, mut warnings) = (Vec::new(), Vec::new());
    print(&options, &mut output, &mut warnings).unwrap();
    String::from_utf8(output).unwrap()
}

#[test]
fn journal_prints_settlements_in_words() {
    let journal = settled();
    let text = printed(&journal, 13, 6, false);
    let lines: Vec<_> = text.lines().filter_map(|line| line.split_once("an operator: ")).collect();
    let told: Vec<_> = lines.into_iter().map(|(_, told)| told).collect();
    assert_eq!(
        told,
        [
            "window 1 closed: \"end of day\", contents id 1, currency KES, ledgerAccountType POSITION; \
             window 2 opened",
            "settlement 1 created by model 1: \"EOD\", contents settlementWindowId 1, id 1, nets \
             account greenbank KES POSITION, netSettlementAmount 12.5, \
             account bluebank KES POSITION, netSettlementAmount -12.5",
            "settlement 1: account greenbank KES POSITION, state PS_TRANSFERS_RECORDED, reason sent to bank, \
             externalReference ref-1, netDebitCapRaisedTo none, account bluebank KES POSITION, state \
             PS_TRANSFERS_RECORDED, reason sent to bank, externalReference ref-1, netDebitCapRaisedTo none",
            "settlement 1: account greenbank KES POSITION, state PS_TRANSFERS_RESERVED, reason sent to bank, \
             externalReference ref-1, netDebitCapRaisedTo none, account bluebank KES POSITION, state \
             PS_TRANSFERS_RESERVED, reason sent to bank, externalReference ref-1, netDebitCapRaisedTo none; \
             posted 12.5 from Hub KES HUB_MULTILATERAL_SETTLEMENT to bluebank KES POSITION",
            "settlement 1 ABORTED: \"bank unavailable\"; \
             posted 12.5 from bluebank KES POSITION to Hub KES HUB_MULTILATERAL_SETTLEMENT",
        ]
    );
}

fn decided(journal: &TestJournal, command: AdminCommand, change: impl FnOnce(&mut Vec<Event>)) -> Decision {
    let mut decision = journal.decide(&upesi_ledger::Command::Admin(command));
    assert!(!decision.events.is_empty(), "{:?}", decision.reply);
    change(&mut decision.events);
    decision
}

fn close_second() -> AdminCommand {
    AdminCommand::CloseWindow { id: WindowId(2), reason: "end of day".into() }
}

/// The state of the journal, a last record that should not exist, and its findings.
type Case = (fn() -> TestJournal, fn(&TestJournal) -> Decision, &'static str);

fn recorded() -> TestJournal {
    let mut journal = closed();
    create(&mut journal);
    journal.admin(advance(SettlementState::Recorded, "ref-1"));
    journal
}

fn reserved() -> TestJournal {
    let mut journal = recorded();
    journal.admin(advance(SettlementState::Reserved, "ref-1"));
    journal
}

fn reserve(journal: &TestJournal, change: fn(&mut Vec<Event>)) -> Decision {
    decided(journal, advance(SettlementState::Reserved, "ref-1"), change)
}

/// The settlement owes bluebank 12.5. bluebank has 20 reserved, and a cap of 1, which RESERVED raises.
fn capped() -> TestJournal {
    let mut journal = recorded();
    journal.admin(AdminCommand::SetLimit {
        name: fsp("bluebank"),
        currency: kes(),
        net_debit_cap: amount("1"),
        alarm_basis_points: 8_000,
    });
    journal.prepare_back(3, "20");
    journal
}

fn cap(journal: &TestJournal) -> Amount {
    journal.ledger.participant_named(&fsp("bluebank")).unwrap().limit(kes()).unwrap().value
}

fn raised() -> TestJournal {
    let mut journal = capped();
    journal.admin(advance(SettlementState::Reserved, "ref-1"));
    assert_eq!(cap(&journal), amount("13.5"));
    journal
}

#[test]
fn caps_that_settlements_raise_and_lower_are_sound() {
    let mut journal = raised();
    journal.admin(abort());
    assert_eq!(cap(&journal), amount("1"));
    assert_eq!(audited(&mut journal).findings, Vec::<String>::new());
    // The replay starts with a snapshot between the two records, which contains the raised cap.
    let mut journal = raised();
    let state = journal.ledger.clone();
    journal.admin(abort());
    journal.write_snapshot(&state);
    assert_eq!(audited(&mut journal).findings, Vec::<String>::new());
}

/// Records of earlier versions have the cap after a settlement, and set it as an operator does.
#[test]
fn caps_that_earlier_versions_raised_are_sound_and_lowered() {
    for is_from_snapshot in [false, true] {
        let mut journal = capped();
        let decision = reserve(&journal, |events| {
            let raised = events.iter().position(|event| matches!(event, Event::CapRaised { .. })).unwrap();
            let (value, alarm_basis_points) = (amount("13.5"), 8_000);
            let participant = upesi_ledger::ParticipantId::new(3).unwrap();
            events[raised] = Event::LimitSet { participant, currency: kes(), value, alarm_basis_points };
            let Event::SettlementAdvanced { accounts, .. } = &mut events[0] else { unreachable!() };
            accounts[1].cap_raised_to = Some(value);
        });
        journal.write(&decision, Payload::default());
        let (seq, now) = (journal.ledger.last_seq() + 1, journal.now());
        journal.ledger.evolve(seq, now, decision.events, &decision.callbacks);
        assert_eq!(cap(&journal), amount("13.5"));
        let between = journal.ledger.clone();
        journal.admin(abort());
        assert_eq!(cap(&journal), amount("1"));
        if is_from_snapshot {
            journal.write_snapshot(&between);
        }
        assert_eq!(audited(&mut journal).findings, Vec::<String>::new());
    }
}

fn move_cover(accounts: &[(u32, u32, u8)]) -> AdminCommand {
    let item = |&(participant, account, funds)| CoverItem {
        participant,
        account,
        funds: id(funds),
        reason: "bank file 1".into(),
        external_reference: Some("ref-1".into()),
    };
    let items = accounts.iter().map(item).collect();
    AdminCommand::MoveCover(SettlementCover { id: SettlementId(1), items })
}

const BOTH: [(u32, u32, u8); 2] = [(2, 3, 91), (3, 5, 92)];

/// Windows 1 and 2 have amounts with more decimals than the currency. Window 1 is settled.
fn finer() -> TestJournal {
    let mut journal = TestJournal::onboarded();
    journal.prepare(1, "12.5049");
    journal.prepare(2, "7.0049");
    journal.fulfil(1);
    journal.admin(AdminCommand::CloseWindow { id: WindowId(1), reason: "end of day".into() });
    journal.fulfil(2);
    create(&mut journal);
    for state in [SettlementState::Recorded, SettlementState::Reserved] {
        journal.admin(advance(state, "ref-1"));
    }
    journal
}

#[test]
fn cover_and_remainders_of_settlements_are_sound() {
    for is_from_snapshot in [false, true] {
        let mut journal = finer();
        let between = journal.ledger.clone();
        journal.admin(move_cover(&BOTH[..1]));
        journal.admin(move_cover(&BOTH[1..]));
        journal.admin(advance(SettlementState::Settled, "ref-1"));
        journal.admin(close_second());
        let (model, reason, windows) = ("DEFERREDNET".into(), "EOD".into(), vec![WindowId(2)]);
        journal.admin(AdminCommand::CreateSettlement(NewSettlement { model, reason, windows }));
        let account = &journal.ledger.settlements()[1].accounts[0];
        let amounts = [account.net, account.carried_in, account.carried_over];
        assert_eq!(amounts, [amount("7.01"), amount("0.0049"), amount("0.0002").negated()]);
        if is_from_snapshot {
            journal.write_snapshot(&between);
        }
        assert_eq!(audited(&mut journal).findings, Vec::<String>::new());
    }
}

fn create_gross(journal: &mut TestJournal) {
    journal.admin(AdminCommand::CreateSettlementModel(NewSettlementModel {
        granularity: Granularity::Gross,
        interchange: Interchange::Bilateral,
        delay: Delay::Immediate,
        ..NewSettlementModel::deferred_net("DIRECTKES", Some(kes()))
    }));
}

/// greenbank has paid bluebank 12.5 with a commit that settled, and another 7 are reserved.
fn gross() -> TestJournal {
    let mut journal = TestJournal::onboarded();
    create_gross(&mut journal);
    journal.prepare(1, "12.5");
    journal.prepare(2, "7");
    journal.fulfil(1);
    journal
}

#[test]
fn gross_settlement_is_sound_and_printed_in_words() {
    let mut journal = gross();
    let state = journal.ledger.clone();
    assert_eq!(state.totals().settled_at_once, 1);
    journal.write_snapshot(&state);
    journal.fulfil(2);
    let report = audited(&mut journal);
    assert_eq!(report.findings, Vec::<String>::new());
    assert_eq!(report.totals.settled_at_once, 2);
    let last = journal.ledger.last_seq();
    let text = printed(&journal, last, 1, false);
    let told = "COMMITTED, settled from greenbank KES SETTLEMENT to bluebank KES SETTLEMENT; notify";
    assert!(text.contains(told), "{text}");
    let json = printed(&journal, last, 1, true);
    let record: serde_json::Value = serde_json::from_str(json.trim()).unwrap();
    let accounts = &record["events"][0]["settledAtOnce"];
    assert_eq!((&accounts["payerAccount"], &accounts["payeeAccount"]), (&4.into(), &6.into()), "{record}");
}

/// bluebank owes greenbank a fee of 1.5 % plus 0.25 for each transfer. It has paid one, and another 7 are reserved.
fn with_fees() -> TestJournal {
    let mut journal = TestJournal::onboarded();
    journal.admin(AdminCommand::CreateFeeRule(NewFeeRule {
        terms: FeeTerms {
            name: "WALLET".into(),
            currency: kes(),
            payers: vec![fsp("greenbank")],
            payees: Vec::new(),
            amount_min: amount("1"),
            amount_max: Some(amount("50")),
            rate: 15_000,
            decimals: 2,
            fixed: amount("0.25"),
            paid_by: FeePayer::Payee,
        },
        from: None,
        until: None,
    }));
    journal.prepare(1, "12.5");
    journal.prepare(2, "7");
    journal.prepare(3, "50.0001");
    journal.fulfil(1);
    journal
}

#[test]
fn fees_are_sound_and_printed_in_words() {
    let mut journal = with_fees();
    let state = journal.ledger.clone();
    journal.write_snapshot(&state);
    journal.fulfil(3);
    journal.admin(AdminCommand::CloseWindow { id: WindowId(1), reason: "end of day".into() });
    journal.admin(AdminCommand::EndFeeRule { name: "WALLET".into(), until: None });
    journal.fulfil(2);
    assert_eq!(journal.ledger.totals().fees, 1);
    assert_eq!(audited(&mut journal).findings, Vec::<String>::new());
    let text = printed(&journal, state.last_seq(), 1, false);
    let told = "fee of transfer 00000000-0000-4000-8000-000000000001 by rule 1: 0.44 from bluebank KES \
                INTERCHANGE_FEE to greenbank KES INTERCHANGE_FEE; notify";
    assert!(text.contains(told), "{text}");
}

fn fulfil_with_fee(journal: &TestJournal, change: fn(&mut Vec<Event>)) -> Decision {
    let mut decision = journal.decide(&journal.fulfil_command(2));
    assert!(matches!(decision.events[..], [_, Event::FeeCharged { .. }]), "{:?}", decision.events);
    change(&mut decision.events);
    decision
}

/// The fee of the second transfer in findings: 1.5 % of 7, rounded half up, plus 0.25.
const FEE_DUE: &str = "[FeeDue { transfer: 00000000-0000-4000-8000-000000000002, rule: 1, units: \
                       3600, owed: Ok((AccountId(8), AccountId(7))) }]";

#[test]
fn wrong_fee_is_found() {
    let changes: [fn(&mut Vec<Event>); 4] = [
        |events| {
            events.pop();
        },
        |events| events.push(events[1].clone()),
        |events| {
            let Event::FeeCharged { amount: charged, .. } = &mut events[1] else { unreachable!() };
            *charged = amount("0.35");
        },
        |events| {
            let Event::FeeCharged { payer, payee, .. } = &mut events[1] else { unreachable!() };
            std::mem::swap(payer, payee);
        },
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut journal = with_fees();
        let decision = fulfil_with_fee(&journal, change);
        journal.write(&decision, Payload::default());
        let findings = audited(&mut journal).findings;
        let found = findings.iter().any(|finding| {
            finding.contains("it records the fees")
                && finding.ends_with(&format!("but the rules require {FEE_DUE}"))
        });
        assert!(found, "case {at}: {findings:?}");
    }
}

fn fulfil_second(journal: &TestJournal, change: fn(&mut Event)) -> Decision {
    let mut decision = journal.decide(&journal.fulfil_command(2));
    change(&mut decision.events[0]);
    decision
}

const CASES: &[Case] = &[
    (
        gross,
        |journal| {
            fulfil_second(journal, |event| {
                let Event::TransferCommitted { settled, .. } = event else { unreachable!() };
                *settled = SettlementMode::InWindow;
            })
        },
        "transfer 00000000-0000-4000-8000-000000000002 is settled InWindow, but its model requires AtOnce { payer: \
         AccountId(4), payee: AccountId(6) }",
    ),
    (
        gross,
        |journal| {
            fulfil_second(journal, |event| {
                let Event::TransferCommitted { settled, .. } = event else { unreachable!() };
                let SettlementMode::AtOnce { payer, payee } = settled else { unreachable!() };
                std::mem::swap(payer, payee);
            })
        },
        "transfer 00000000-0000-4000-8000-000000000002 is settled AtOnce { payer: AccountId(6), payee: AccountId(4) \
         }, but its model requires AtOnce { payer: AccountId(4), payee: AccountId(6) }",
    ),
    (
        || {
            let mut journal = TestJournal::onboarded();
            journal.prepare(2, "7");
            journal
        },
        |journal| {
            fulfil_second(journal, |event| {
                let Event::TransferCommitted { settled, .. } = event else { unreachable!() };
                let [payer, payee] = [4, 6].map(|number| AccountId::new(number).unwrap());
                *settled = SettlementMode::AtOnce { payer, payee };
            })
        },
        "transfer 00000000-0000-4000-8000-000000000002 is settled AtOnce { payer: AccountId(4), payee: AccountId(6) \
         }, but its model requires InWindow",
    ),
    (
        capped,
        |journal| reserve(journal, |events| events.retain(|event| !matches!(event, Event::CapRaised { .. }))),
        "its settlement caps 0 amounts, which differ from the 1 amounts of its liquidity check",
    ),
    (
        capped,
        |journal| {
            reserve(journal, |events| {
                let raise = events.iter_mut().find(|event| matches!(event, Event::CapRaised { .. }));
                let Some(Event::CapRaised { amount: by, .. }) = raise else { unreachable!() };
                *by = amount("13.4999");
            })
        },
        "its settlement caps 1 amounts, which differ from the 1 amounts of its liquidity check",
    ),
    (
        capped,
        |journal| {
            reserve(journal, |events| {
                let Event::SettlementAdvanced { accounts, .. } = &mut events[0] else { unreachable!() };
                accounts[1].cap_raised_to = Some(amount("1"));
            })
        },
        "settlement 1: the cap of account 5 is raised to a different amount than its position requires; the records after it were not replayed",
    ),
    (
        recorded,
        |journal| {
            reserve(journal, |events| {
                let Event::SettlementAdvanced { accounts, .. } = &mut events[0] else { unreachable!() };
                accounts[1].cap_raised_to = Some(amount("112.5"));
            })
        },
        "settlement 1: the cap of account 5 is raised to a different amount than its position requires; the records after it were not replayed",
    ),
    (
        raised,
        |journal| {
            decided(journal, abort(), |events| {
                events.retain(|event| !matches!(event, Event::CapReturned { .. }));
            })
        },
        "its settlement caps 0 amounts, which differ from the 1 amounts of its liquidity check",
    ),
    (
        closed,
        |journal| {
            decided(journal, close_second(), |events| {
                let Event::WindowClosed { contents, .. } = &mut events[0] else { unreachable!() };
                contents.clear();
            })
        },
        "window 2 is closed with contents that differ from its transfers; the records after it were not replayed",
    ),
    (
        closed,
        |journal| {
            decided(journal, close_second(), |events| {
                let Event::WindowClosed { id, .. } = &mut events[0] else { unreachable!() };
                *id = WindowId(1);
            })
        },
        "window 1 is closed and 3 opened, while 2 is open; the records after it were not replayed",
    ),
    (
        recorded,
        |_| {
            let mut other = closed();
            let (model, reason, windows) = ("DEFERREDNET".into(), "EOD".into(), vec![WindowId(1)]);
            let new = NewSettlement { model, reason, windows };
            let decision = decided(&other, AdminCommand::CreateSettlement(new), |events| {
                let Event::SettlementCreated { id, .. } = &mut events[0] else { unreachable!() };
                *id = SettlementId(2);
            });
            other.close();
            decision
        },
        "settlement 2 settles content 1 of window 1, which cannot be settled; the records after it were not replayed",
    ),
    (
        closed,
        |journal| {
            let (model, reason, windows) = ("DEFERREDNET".into(), "EOD".into(), vec![WindowId(1)]);
            let new = NewSettlement { model, reason, windows };
            decided(journal, AdminCommand::CreateSettlement(new), |events| {
                let Event::SettlementCreated { accounts, .. } = &mut events[0] else { unreachable!() };
                accounts[0].net = amount("12.4999");
            })
        },
        "the nets of settlement 1 differ from its windows; the records after it were not replayed",
    ),
    (
        finer,
        |journal| {
            decided(journal, move_cover(&BOTH), |events| {
                let withdrawal = events.iter_mut().find(|event| matches!(event, Event::FundsPrepared(_)));
                let Some(Event::FundsPrepared(funds)) = withdrawal else { unreachable!() };
                funds.amount = amount("12.49");
            })
        },
        "settlement 1: funds 00000000-0000-4000-8000-00000000005b are not the movement of account 3; the records after it were not replayed",
    ),
    (
        finer,
        |journal| {
            decided(journal, move_cover(&BOTH), |events| {
                events.retain(
                    |event| !matches!(event, Event::CoverMoved { account, .. } if account.number() == 3),
                );
            })
        },
        "settlement 1: account 5 is credited before all debtors have paid; the records after it were not replayed",
    ),
    (
        || {
            let mut journal = finer();
            journal.admin(abort());
            journal
        },
        |journal| {
            let (model, reason, windows) = ("DEFERREDNET".into(), "EOD".into(), vec![WindowId(1)]);
            let new = NewSettlement { model, reason, windows };
            decided(journal, AdminCommand::CreateSettlement(new), |events| {
                let Event::RemaindersCarried { accounts, .. } = &mut events[1] else { unreachable!() };
                accounts[0].carried_over = amount("0.0048");
            })
        },
        "the nets of settlement 2 differ from its windows; the records after it were not replayed",
    ),
    (
        recorded,
        |journal| {
            reserve(journal, |events| {
                events.pop();
            })
        },
        "its settlement moves 0 amounts, which differ from the 1 amounts of its nets",
    ),
    (
        recorded,
        |journal| {
            reserve(journal, |events| {
                let Some(Event::Posted { amount: moved, .. }) = events.last_mut() else { unreachable!() };
                *moved = amount("12.4999");
            })
        },
        "its settlement moves 1 amounts, which differ from the 1 amounts of its nets",
    ),
    (
        recorded,
        |journal| {
            reserve(journal, |events| {
                let Event::SettlementAdvanced { accounts, .. } = &mut events[0] else { unreachable!() };
                accounts[0].state = SettlementState::Committed;
            })
        },
        "settlement 1: account 3 goes from PS_TRANSFERS_RECORDED to PS_TRANSFERS_COMMITTED; the records after it were not replayed",
    ),
    (
        recorded,
        |journal| {
            reserve(journal, |events| {
                let Event::SettlementAdvanced { accounts, .. } = &mut events[0] else { unreachable!() };
                accounts[1].account = accounts[0].account;
            })
        },
        "settlement 1 has no account 3, or moves it twice; the records after it were not replayed",
    ),
    (
        reserved,
        |journal| {
            decided(journal, abort(), |events| {
                events.pop();
            })
        },
        "its settlement moves 0 amounts, which differ from the 1 amounts of its nets",
    ),
    (
        || {
            let mut journal = reserved();
            journal.admin(advance(SettlementState::Committed, "ref-1"));
            journal
        },
        |_| {
            let (id, reason) = (SettlementId(1), "no".into());
            let event = Event::SettlementAborted { id, reason, external_reference: None };
            Decision { actor: Actor::Operator, events: vec![event], ..Decision::default() }
        },
        "settlement 1 is aborted with accounts PS_TRANSFERS_COMMITTED; the records after it were not replayed",
    ),
    (
        reserved,
        |_| {
            let (id, reason) = (SettlementId(9), "no".into());
            let event = Event::SettlementAborted { id, reason, external_reference: None };
            Decision { actor: Actor::Operator, events: vec![event], ..Decision::default() }
        },
        "settlement 9 does not exist; the records after it were not replayed",
    ),
];

#[test]
fn contradictions_of_settlements_are_found() {
    for (at, (prepare, make, expected)) in CASES.iter().enumerate() {
        let mut journal = prepare();
        let decision = make(&journal);
        journal.write(&decision, Payload::default());
        let seq = journal.ledger.last_seq() + 1;
        let report = audited(&mut journal);
        let found: Vec<_> = report
            .findings
            .iter()
            .filter_map(|finding| finding.split_once(": "))
            .map(|found| found.1)
            .collect();
        assert!(found.contains(expected), "case {at}, record {seq}: {:?}", report.findings);
    }
}
