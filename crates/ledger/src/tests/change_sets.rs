//! Change sets: the entries of their steps, their bounds and their digest. The stories have the rules.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use upesi_types::FspId;

use super::approvals::{Outcome, act, approve, ask, capped, deposit, limit, waits};
use super::id;
use crate::change_set::{CHANGE_SET_CHANGES_MAX, ChangeSet, SetChange};
use crate::command::{AdminCommand, AdminOutcome, AdminRefusal, ApplyNext, Deed};
use crate::event::Event;
use crate::state::Ledger;

fn set(name: &str, commands: impl IntoIterator<Item = AdminCommand>) -> AdminCommand {
    let changes = commands.into_iter().map(SetChange::new).collect();
    AdminCommand::ChangeSet(ChangeSet { name: name.into(), changes })
}

fn step(ledger: &mut Ledger) -> (Outcome, Vec<Event>) {
    let words = |refusal: &AdminRefusal| format!("{refusal:?}");
    act(ledger, "the hub", Deed::ApplyNext(ApplyNext { id: 1, words }))
}

fn told(events: &[Event]) -> String {
    let Some(Event::OperatorActed(entry)) = events.last() else { panic!("{events:?} has no entry") };
    let who = entry.by.on_behalf_of.as_deref().unwrap_or("nobody");
    let what = format!("{}: {} → {}", entry.object, entry.before, entry.after);
    let refused = entry.refused.as_ref().map_or(String::new(), |why| format!(" refused {why}"));
    format!("{} {} for {who}: {what}{refused}", entry.by.action, entry.by.operator)
}

/// Each record has an entry that names the set, the place in it and both people.
#[test]
fn every_record_of_a_set_names_it() {
    let mut ledger = capped();
    let changes = [limit(9), deposit(21, 7), limit(9)];
    let mut records = Vec::new();
    records.push(act(&mut ledger, "amina", Deed::Change(set("ticket 7", changes))).1);
    records.push(approve(&mut ledger, "brian", 1).1);
    for _ in 0..3 {
        records.push(step(&mut ledger).1);
    }
    let mut head = [0; 32];
    let told: Vec<_> = records
        .iter()
        .map(|events| {
            let Some(Event::OperatorActed(entry)) = events.last() else { panic!("{events:?} has no entry") };
            assert_eq!(entry.chain, entry.chain_after(&head, events));
            head = entry.chain;
            told(events)
        })
        .collect();
    let cap = "net debit cap of greenbank in XTS";
    assert_eq!(
        told,
        [
            "as asked amina for nobody: approval 1: change set ticket 7, 3 changes: none → proposed: 2 limit.raise, 1 \
             funds.in"
                .into(),
            "as asked brian for nobody: approval 1: pending → applying: change set ticket 7, 3 changes".into(),
            format!("limit.raise brian for amina: {cap}, by change set 1, 1 of 3: 0.0005, alarm at 8 % → 0.0009, alarm at 8 %"),
            format!(
                "funds.in brian for amina: deposit {} of greenbank, 0.0007 XTS, by change set 1, 2 of 3: none → COMMITTED",
                id(21)
            ),
            // A change that is already in force has an entry, too.
            format!("limit.lower brian for amina: {cap}, by change set 1, 3 of 3: 0.0009, alarm at 8 % → 0.0009, alarm at 8 %"),
        ]
    );
    let names: Vec<_> = records.iter().flatten().map(Event::name).collect();
    assert_eq!(
        names,
        [
            "ProposalMade",
            "OperatorActed",
            "ChangeSetApproved",
            "OperatorActed",
            "LimitSet",
            "ChangeSetStepped",
            "OperatorActed",
            "FundsPrepared",
            "ChangeSetStepped",
            "OperatorActed",
            "ChangeSetStepped",
            "ProposalEnded",
            "OperatorActed",
        ]
    );
    assert_eq!(crate::audit::check(&ledger), Vec::<String>::new());
}

#[test]
fn a_refused_step_is_an_entry() {
    let mut ledger = capped();
    let bind =
        |name| AdminCommand::AddBinding { name, kind: crate::BindingKind::SanDns, value: "a.example".into() };
    let (green, blue) = (super::approvals::green(), FspId::parse("bluewallet"));
    let blue = blue.unwrap_or_else(|| unreachable!("a literal name"));
    assert!(waits(&ask(&mut ledger, "amina", set("move", [bind(green)]))));
    assert!(approve(&mut ledger, "brian", 1).0.is_ok());
    assert!(waits(&ask(&mut ledger, "chris", bind(blue))));
    assert!(approve(&mut ledger, "brian", 2).0.is_ok());
    let (_, events) = step(&mut ledger);
    let what = "binding san-dns:a.example of greenbank, by change set 1, 1 of 1: none → bound";
    let refused = format!("{:?}", AdminRefusal::BindingTaken { owner: blue });
    assert_eq!(told(&events), format!("binding.add brian for amina: {what} refused {refused}"));
}

#[test]
fn sets_are_bounded_and_not_empty() {
    let mut ledger = capped();
    let many = |count: usize| (0..count as i64).map(|at| limit(6 + at)).collect::<Vec<_>>();
    for (changes, expected) in [
        // Nothing in it needs a second person.
        (many(0), Err(AdminRefusal::ChangeSetKind)),
        (many(CHANGE_SET_CHANGES_MAX + 1), Err(AdminRefusal::ChangeSetSize)),
        (many(CHANGE_SET_CHANGES_MAX), Ok(AdminOutcome::Proposed(1))),
    ] {
        let count = changes.len();
        assert_eq!(ask(&mut ledger, "amina", set("caps", changes)), expected, "{count} changes");
    }
    // By bytes: each endpoint is stored with the value before.
    let name = super::approvals::green();
    let endpoint = |at: usize| {
        let value = format!("http://{at}.{}", "x".repeat(490)).into();
        AdminCommand::SetEndpoint { name, kind: crate::EndpointType::TRANSFER_POST, value }
    };
    let long = (0..1_000).map(endpoint).collect::<Vec<_>>();
    assert_eq!(ask(&mut ledger, "amina", set("long", long)), Err(AdminRefusal::ChangeSetSize));
}

/// The digest covers the changes and their order, and not the states before them.
#[test]
fn the_digest_is_over_the_changes_in_order() {
    let mut ledger = capped();
    let digest_of = |ledger: &Ledger, id| ledger.approvals().get(id).map(|one| one.digest);
    let caps = || set("caps", [limit(9), deposit(21, 7)]);
    assert!(waits(&ask(&mut ledger, "amina", caps())));
    assert!(approve(&mut ledger, "brian", 1).0.is_ok());
    assert!(step(&mut ledger).0.is_ok() && step(&mut ledger).0.is_ok());
    assert_eq!(ask(&mut ledger, "amina", limit(5)), Ok(AdminOutcome::Done));
    for (command, is_same) in [
        (set("caps", [limit(9), deposit(21, 7)]), true),
        (set("caps", [deposit(21, 7), limit(9)]), false),
        (set("other", [limit(9), deposit(21, 7)]), false),
        (set("caps", [limit(9), deposit(21, 7), limit(9)]), false),
    ] {
        let text = format!("{command:?}");
        // No other set waits, so that each is proposed.
        let Ok(AdminOutcome::Proposed(id)) = ask(&mut ledger, "amina", command) else { panic!("{text}") };
        assert_eq!(digest_of(&ledger, id) == digest_of(&ledger, 1), is_same, "{text}");
        let withdraw = super::approvals::verdict(id, crate::command::VerdictKind::Withdraw);
        assert!(act(&mut ledger, "amina", withdraw).0.is_ok());
    }
}
