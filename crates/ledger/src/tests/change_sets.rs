//! Change sets: entries of their steps, limits, and digest. The stories contain the rules.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use upesi_types::FspId;

use super::approvals::{Outcome, act, approve, ask, capped, deposit, limit, waits};
use super::id;
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::operators::admin_command::{AdminCommand, ChangeSet, SetChange};
use crate::operators::approvals::PROPOSAL_BYTES_MAX;
use crate::operators::change_set::{CHANGE_SET_CHANGES_MAX, CHANGE_SETS_OF_MAKER_MAX};
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::rules::operators::audited_command::OperatorAction;
use crate::rules::operators::change::Change;
use crate::rules::operators::change_sets::ApplyNext;
use crate::scheme::changes::EndpointValue;
use crate::scheme::endpoint::EndpointType;

fn set(name: &str, commands: impl IntoIterator<Item = AdminCommand>) -> AdminCommand {
    let changes = commands.into_iter().map(SetChange::new).collect();
    AdminCommand::ChangeSet(ChangeSet { name: name.into(), changes })
}

fn step(ledger: &mut Ledger) -> (Outcome, Vec<Event>) {
    let words = |refusal: &AdminRefusal| format!("{refusal:?}");
    act(ledger, "the hub", OperatorAction::ApplyNext(ApplyNext { id: 1, words }))
}

fn told(events: &[Event]) -> String {
    let Some(Event::OperatorActed(entry)) = events.last() else { panic!("{events:?} has no entry") };
    let who = entry.by.on_behalf_of.as_deref().unwrap_or("itself");
    let what = format!("{}: {} → {}", entry.object, entry.before, entry.after);
    let refused = entry.refused.as_ref().map_or(String::new(), |why| format!(" refused {why}"));
    format!("{} {} for {who}: {what}{refused}", entry.by.action, entry.by.operator)
}

/// Each record has an entry with the set, the number of the change, and both operators.
#[test]
fn every_record_of_a_set_names_it() {
    let mut ledger = capped();
    let disable =
        || AdminCommand::SetParticipantActivity { name: super::approvals::green(), is_active: false };
    let changes = [limit(9), deposit(21, 7), disable()];
    let mut records = Vec::new();
    records.push(act(&mut ledger, "amina", OperatorAction::Change(set("ticket 7", changes))).1);
    records.push(approve(&mut ledger, "brian", 1).1);
    // Another operator makes the last change before its turn.
    records.push(act(&mut ledger, "chris", OperatorAction::Change(disable())).1);
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
            "change.set amina for itself: approval 1: change set \"ticket 7\", 3 changes: none → proposed: 1 \
             participant.disable, 1 limit.raise, 1 funds.in"
                .into(),
            "as asked brian for itself: approval 1: pending → applying: change set \"ticket 7\", 3 changes".into(),
            "participant.disable chris for itself: participant greenbank: active → inactive".into(),
            format!("limit.raise brian for amina: {cap}, by change set 1, 1 of 3: 0.0005, alarm at 8 % → 0.0009, alarm at 8 %"),
            format!(
                "funds.in brian for amina: deposit {} of greenbank, 0.0007 XTS, by change set 1, 2 of 3: none → COMMITTED",
                id(21)
            ),
            // A change without a further effect also has an entry.
            "participant.disable brian for amina: participant greenbank, by change set 1, 3 of 3: inactive → inactive"
                .into(),
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
            "ParticipantActivitySet",
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
fn rejected_step_has_an_audit_entry() {
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
fn change_sets_are_limited_and_not_empty() {
    let mut ledger = capped();
    let many = |count: usize| (0..count as i64).map(|at| limit(6 + at)).collect::<Vec<_>>();
    for (changes, expected) in [
        // No change in it needs a second operator.
        (many(0), Err(AdminRefusal::ChangeSetKind)),
        (many(CHANGE_SET_CHANGES_MAX + 1), Err(AdminRefusal::ChangeSetSize)),
        (many(CHANGE_SET_CHANGES_MAX), Ok(AdminOutcome::Proposed(1))),
    ] {
        let count = changes.len();
        assert_eq!(ask(&mut ledger, "amina", set("caps", changes)), expected, "{count} changes");
    }
    assert_eq!(ask(&mut ledger, "amina", long_set("long", 1_000)), Err(AdminRefusal::ChangeSetSize));
}

/// A set of many bytes: each endpoint is stored with its previous value.
fn long_set(name: &str, changes: usize) -> AdminCommand {
    let endpoint = |at: usize| {
        let value = format!("http://{at}.{}", "x".repeat(490)).into();
        AdminCommand::SetEndpoint {
            name: super::approvals::green(),
            kind: EndpointType::TRANSFER_POST,
            value,
        }
    };
    set(name, (0..changes).map(endpoint))
}

/// The sets of all operators together have up to 8 MiB, and ended sets release their space.
#[test]
fn change_sets_of_all_operators_share_a_limit() {
    let mut ledger = capped();
    let sets = |maker: usize| (0..CHANGE_SETS_OF_MAKER_MAX).map(move |number| (maker, number));
    let mut accepted = 0;
    let (maker, refused) = loop {
        let (maker, number) = (0..).flat_map(sets).nth(accepted).unwrap_or_default();
        let (maker, name) = (format!("maker-{maker}"), format!("set {number}"));
        match ask(&mut ledger, &maker, long_set(&name, 480)) {
            Ok(AdminOutcome::Proposed(_)) => accepted += 1,
            other => break (maker, other),
        }
    };
    assert_eq!(refused, Err(AdminRefusal::ProposalLarge));
    let bytes = ledger.approvals().pending_bytes();
    assert!(accepted == 17 && bytes <= PROPOSAL_BYTES_MAX, "{accepted} sets, {bytes} bytes");
    let withdraw = super::approvals::verdict(1, crate::rules::command::ProposalDecisionKind::Withdraw);
    assert!(act(&mut ledger, "maker-0", withdraw).0.is_ok());
    assert!(waits(&ask(&mut ledger, &maker, long_set("another", 480))));
}

/// The digest covers the changes and their order, but not the states before them.
#[test]
fn change_set_digest_depends_on_the_order_of_changes() {
    let mut ledger = capped();
    let digest_of = |ledger: &Ledger, id| ledger.approvals().get(id).map(|one| one.digest);
    assert!(waits(&ask(&mut ledger, "amina", set("caps", [limit(9), deposit(21, 7)]))));
    let withdraw = |id| super::approvals::verdict(id, crate::rules::command::ProposalDecisionKind::Withdraw);
    assert!(act(&mut ledger, "amina", withdraw(1)).0.is_ok());
    assert_eq!(ask(&mut ledger, "amina", limit(4)), Ok(AdminOutcome::Done));
    for (command, is_same) in [
        (set("caps", [limit(9), deposit(21, 7)]), true),
        (set("caps", [deposit(21, 7), limit(9)]), false),
        (set("other", [limit(9), deposit(21, 7)]), false),
        (set("caps", [limit(9), deposit(21, 7), limit(8)]), false),
        // A change without effect is not part of the set.
        (set("caps", [limit(4), limit(9), deposit(21, 7), limit(9)]), true),
    ] {
        let text = format!("{command:?}");
        // No other set is pending, so each can be proposed.
        let Ok(AdminOutcome::Proposed(id)) = ask(&mut ledger, "amina", command) else { panic!("{text}") };
        assert_eq!(digest_of(&ledger, id) == digest_of(&ledger, 1), is_same, "{text}");
        assert!(act(&mut ledger, "amina", withdraw(id)).0.is_ok());
    }
}

/// A text about endpoints has the base URL of most of them, a limited number of other endpoints, and depends on every
/// value.
#[test]
fn endpoint_change_text_has_the_base_url_and_exceptions() {
    let of = |base: &str, changed: &[(EndpointType, &str)]| -> String {
        let usual = EndpointType::usual_paths().map(|(kind, path)| (kind, format!("{base}{path}")));
        let value = |(kind, value): (EndpointType, String)| {
            let other = changed.iter().find(|(of, _)| *of == kind).map(|(_, value)| (*value).into());
            EndpointValue { kind, value: other.unwrap_or_else(|| value.into()) }
        };
        let endpoints = usual.map(value).collect();
        let command = AdminCommand::SetEndpoints { name: super::approvals::green(), endpoints };
        Change::of(&command, &capped()).to
    };
    let post = EndpointType::TRANSFER_POST;
    let name = post.name();
    assert_eq!(of("http://a:1/green", &[]), "29 at http://a:1/green");
    for (value, expected) in [
        ("http://a:1/transfers", "29 at http://a:1".to_owned()),
        ("http://a:1/x/transfers", format!("28 at http://a:1, {name} http://a:1/x/transfers")),
        ("http://a:1/transfer", format!("28 at http://a:1, {name} http://a:1/transfer")),
        ("http://b:1/transfers", format!("28 at http://a:1, {name} http://b:1/transfers")),
        ("/transfers", format!("28 at http://a:1, {name} /transfers")),
        ("a, OTHER b", format!("28 at http://a:1, {name} \"a, OTHER b\"")),
    ] {
        assert_eq!(of("http://a:1", &[(post, value)]), expected);
    }
    let hosts: Vec<_> = (0..29).map(|at| format!("http://h{at}/x")).collect();
    let mut scattered: Vec<_> =
        EndpointType::usual_paths().zip(&hosts).map(|((kind, _), value)| (kind, value.as_str())).collect();
    let told = of("http://a:1", &scattered);
    assert!(told.contains(" http://h16/x, 12 more, sha256:") && !told.contains("h17"), "{told}");
    scattered[28].1 = "http://h28/y";
    assert_ne!(of("http://a:1", &scattered), told);
}
