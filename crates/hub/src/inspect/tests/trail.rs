//! The audit trail: a journal whose entries or effects were changed is found out.

use upesi_ledger::command::{Act, Deed, NewOperator};
use upesi_ledger::{AdminCommand, Attribution, AuditEntry, Change, Command, Event, Payload, Role};

use super::audit::audited;
use super::journal::TestJournal;

fn act(deed: Deed) -> Command {
    let by = Attribution {
        operator: "amina".into(),
        known_by: "token 1".into(),
        address: None,
        on_behalf_of: None,
        action: "iam.user".into(),
        reason: None,
    };
    Command::Act(Box::new(Act { by, deed }))
}

fn operator(name: &str, role: Role) -> Command {
    let roles = [role].into_iter().collect();
    let new = NewOperator { name: name.into(), roles, participant: None, is_active: true };
    act(Deed::Change(AdminCommand::SetOperator(new)))
}

/// What is found of a journal with an act and a second one, which is changed before it is written.
fn changed(change: impl FnOnce(&mut Vec<Event>)) -> Vec<String> {
    let mut journal = TestJournal::onboarded();
    journal.command(&operator("first", Role::Viewer), Payload::default());
    let mut second = journal.decide(&operator("second", Role::Viewer));
    change(&mut second.events);
    journal.write(&second, Payload::default());
    audited(&mut journal).findings
}

fn entry(events: &mut [Event]) -> &mut AuditEntry {
    match events.last_mut() {
        Some(Event::OperatorActed(entry)) => entry,
        other => panic!("{other:?} is no entry"),
    }
}

#[test]
fn a_changed_entry_of_the_audit_trail_is_found() {
    assert_eq!(changed(|_| {}), [""; 0]);
    let found = |change: fn(&mut Vec<Event>)| changed(change).join("; ");
    let wrong = "entry 2 of the audit trail does not follow from the entry before it and from the record";
    for change in [
        (|events| entry(events).by.operator = "brian".into()) as fn(&mut Vec<Event>),
        |events| entry(events).by.reason = Some("as asked".into()),
        |events| entry(events).after = "treasury, active".into(),
        |events| entry(events).refused = Some("no".into()),
        // The effect, with the entry as it was.
        |events| match &mut events[0] {
            Event::OperatorSet { roles, .. } => *roles = [Role::Treasury].into_iter().collect(),
            other => panic!("{other:?} is no operator"),
        },
        |events| {
            events.insert(0, events[0].clone());
        },
    ] {
        let found = found(change);
        assert!(found.contains(wrong), "{found}");
    }
    let moved = changed(|events| events.rotate_left(1));
    assert!(moved[0].ends_with("entry 2 of the audit trail is not its last event"), "{moved:?}");
}

#[test]
fn an_entry_that_is_missing_from_the_audit_trail_is_found() {
    let third = {
        let mut journal = TestJournal::onboarded();
        for name in ["first", "second"] {
            journal.command(&operator(name, Role::Viewer), Payload::default());
        }
        journal.decide(&act(Deed::Elsewhere(Change::new("oracle 1", "none", "http://oracle"))))
    };
    let mut journal = TestJournal::onboarded();
    journal.command(&operator("first", Role::Viewer), Payload::default());
    journal.write(&third, Payload::default());
    let findings = audited(&mut journal).findings;
    assert!(
        findings.iter().any(|one| one.contains("entry 3 of the audit trail follows entry 1")),
        "{findings:?}"
    );
}
