//! Settlement in `upesi audit` and `upesi journal`.

use upesi_ledger::command::{AdvanceItem, NewSettlement, SettlementAbort, SettlementAdvance};
use upesi_ledger::{Actor, AdminCommand, Decision, Event, Payload, SettlementId, SettlementState, WindowId};

use super::audit::audited;
use super::journal::{TestJournal, amount};
use crate::inspect::filter::Filter;
use crate::inspect::print::{PrintOptions, print};

/// greenbank owes bluebank 12.5 of window 1; window 2 is open, with 7 more.
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

/// Aborted once, settled the second time.
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
fn a_day_with_settlements_is_sound() {
    let mut journal = settled();
    let state = journal.ledger.clone();
    assert_eq!(state.settlement(SettlementId(2)).unwrap().state, SettlementState::Committed);
    journal.write_snapshot(&state);
    let report = audited(&mut journal);
    assert_eq!(report.findings, Vec::<String>::new());
}

#[test]
fn the_journal_tells_settlements_in_words() {
    let journal = settled();
    let options = PrintOptions {
        directory: journal.path.clone(),
        from_seq: Some(13),
        filter: Filter::default(),
        limit: Some(6),
        json: false,
        payload: false,
    };
    let (mut output, mut warnings) = (Vec::new(), Vec::new());
    print(&options, &mut output, &mut warnings).unwrap();
    let text = String::from_utf8(output).unwrap();
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

/// What a command decides, changed.
fn decided(journal: &TestJournal, command: AdminCommand, change: impl FnOnce(&mut Vec<Event>)) -> Decision {
    let mut decision = journal.decide(&upesi_ledger::Command::Admin(command));
    assert!(!decision.events.is_empty(), "{:?}", decision.reply);
    change(&mut decision.events);
    decision
}

fn close_second() -> AdminCommand {
    AdminCommand::CloseWindow { id: WindowId(2), reason: "end of day".into() }
}

/// How far the journal is, a last record that should not be there, and what is found of it.
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

const CASES: &[Case] = &[
    (
        closed,
        |journal| {
            decided(journal, close_second(), |events| {
                let Event::WindowClosed { contents, .. } = &mut events[0] else { unreachable!() };
                contents.clear();
            })
        },
        "window 2 is closed with other contents than its transfers have; what follows was not replayed",
    ),
    (
        closed,
        |journal| {
            decided(journal, close_second(), |events| {
                let Event::WindowClosed { id, .. } = &mut events[0] else { unreachable!() };
                *id = WindowId(1);
            })
        },
        "window 1 is closed and 3 opened, while 2 is open; what follows was not replayed",
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
        "settlement 2 settles content 1 of window 1, which cannot be settled; what follows was not replayed",
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
        "settlement 1 has other nets than its windows; what follows was not replayed",
    ),
    (
        recorded,
        |journal| {
            reserve(journal, |events| {
                events.pop();
            })
        },
        "its settlement moves 0 amounts that are not the 1 of its nets",
    ),
    (
        recorded,
        |journal| {
            reserve(journal, |events| {
                let Some(Event::Posted { amount: moved, .. }) = events.last_mut() else { unreachable!() };
                *moved = amount("12.4999");
            })
        },
        "its settlement moves 1 amounts that are not the 1 of its nets",
    ),
    (
        recorded,
        |journal| {
            reserve(journal, |events| {
                let Event::SettlementAdvanced { accounts, .. } = &mut events[0] else { unreachable!() };
                accounts[0].state = SettlementState::Committed;
            })
        },
        "settlement 1: account 3 goes from PS_TRANSFERS_RECORDED to PS_TRANSFERS_COMMITTED; what follows was not replayed",
    ),
    (
        recorded,
        |journal| {
            reserve(journal, |events| {
                let Event::SettlementAdvanced { accounts, .. } = &mut events[0] else { unreachable!() };
                accounts[1].account = accounts[0].account;
            })
        },
        "settlement 1 has no account 3, or moves it twice; what follows was not replayed",
    ),
    (
        reserved,
        |journal| {
            decided(journal, abort(), |events| {
                events.pop();
            })
        },
        "its settlement moves 0 amounts that are not the 1 of its nets",
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
        "settlement 1 is aborted with accounts PS_TRANSFERS_COMMITTED; what follows was not replayed",
    ),
    (
        reserved,
        |_| {
            let (id, reason) = (SettlementId(9), "no".into());
            let event = Event::SettlementAborted { id, reason, external_reference: None };
            Decision { actor: Actor::Operator, events: vec![event], ..Decision::default() }
        },
        "settlement 9 does not exist; what follows was not replayed",
    ),
];

#[test]
fn every_kind_of_contradiction_is_found() {
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
