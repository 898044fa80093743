//! Users of the hub: enrolments and codes can be used once, and earlier credentials are replaced.

use alloc::boxed::Box;
use alloc::vec::Vec;
use alloc::{format, vec};

use upesi_types::Timestamp;

use super::{absent_facts, sound};
use crate::core::config::LedgerConfig;
use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::operators::admin_command::AdminCommand;
use crate::operators::changes::{NewCredential, NewOperator};
use crate::operators::operator::{ENROLMENT_HOURS_MAX, OperatorRole, Secret};
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::operators::trail::AuditActor;
use crate::operators::user_credential::{SEALED_BYTES, SealedSecret};
use crate::rules::command::Command;
use crate::rules::operators::audited_command::{AuditedCommand, Authority, OperatorAction};
use crate::rules::operators::change::Change;
use crate::rules::operators::credential_action::{CredentialAction, CredentialActionKind};
use crate::tests::operators::{DONE, NOW_MS};

const HOUR_MS: i64 = 3_600_000;
const TOKEN: [u8; 32] = [7; 32];

fn sealed(number: u8) -> SealedSecret {
    SealedSecret { salt: [number; 16], memory_kib: 19_456, passes: 2, secret: [number; SEALED_BYTES] }
}

/// Decides an action after this many milliseconds, and folds it.
fn act_after(
    ledger: &mut Ledger,
    action: OperatorAction,
    after_ms: i64,
) -> (Result<AdminOutcome, AdminRefusal>, Vec<Event>) {
    let by = AuditActor {
        operator: "amina".into(),
        known_by: "enrolment 1".into(),
        address: None,
        on_behalf_of: None,
        action: "session.open".into(),
        reason: None,
    };
    let mut decision = Decision::default();
    let now = Timestamp::from_ms(NOW_MS + after_ms + ledger.last_seq() as i64);
    ledger.decide(
        &Command::Audited(Box::new(AuditedCommand { by, action, authority: Authority::ALONE })),
        &absent_facts(now),
        &mut decision,
    );
    let Some(reply) = decision.reply.into_outcome() else { unreachable!("an operator is answered") };
    if !decision.events.is_empty() {
        ledger.evolve(ledger.last_seq() + 1, now, decision.events.clone(), &decision.callbacks);
    }
    (reply, decision.events)
}

fn change(ledger: &mut Ledger, command: AdminCommand) -> Result<AdminOutcome, AdminRefusal> {
    act_after(ledger, OperatorAction::Change(command), 0).0
}

fn set_operator(is_active: bool) -> AdminCommand {
    let roles = [OperatorRole::Viewer].into_iter().collect();
    AdminCommand::SetOperator(NewOperator { name: "amina".into(), roles, participant: None, is_active })
}

fn enrolment(digest: [u8; 32], after_ms: i64) -> AdminCommand {
    let (secret, expires_at) = (Secret::Enrolment(digest), Timestamp::from_ms(NOW_MS + after_ms));
    AdminCommand::AddCredential(NewCredential { name: "amina".into(), secret, expires_at })
}

fn enter(
    ledger: &mut Ledger,
    code_step: u64,
    kind: CredentialActionKind,
    after_ms: i64,
) -> Result<AdminOutcome, AdminRefusal> {
    let operator = "amina".into();
    act_after(ledger, OperatorAction::Credential(CredentialAction { operator, code_step, kind }), after_ms).0
}

fn enrol(number: u8) -> CredentialActionKind {
    CredentialActionKind::Enrol { token: TOKEN, sealed: sealed(number) }
}

fn session(credential: u32) -> CredentialActionKind {
    let change = Change::new("session 1 of operator amina", "none", "open");
    CredentialActionKind::Session { credential, change, sealed: None }
}

/// Number, salt and last code of the user.
fn person(ledger: &Ledger) -> Option<(u32, u8, u64)> {
    let person = ledger.operators().named("amina")?.person?;
    Some((person.id, person.sealed.salt[0], person.code_step))
}

fn invited() -> Ledger {
    let mut ledger = sound();
    assert_eq!(change(&mut ledger, set_operator(true)), DONE);
    assert_eq!(change(&mut ledger, enrolment(TOKEN, HOUR_MS)), DONE);
    ledger
}

#[test]
fn enrolment_code_is_valid_once_and_not_as_a_token() {
    let mut ledger = invited();
    assert!(
        ledger.operators().by_token(&TOKEN).is_none() && ledger.operators().by_enrolment(&TOKEN).is_some()
    );
    assert_eq!(enter(&mut ledger, 5, enrol(1), HOUR_MS), Err(AdminRefusal::CredentialUnknown));
    assert_eq!(change(&mut ledger, set_operator(false)), DONE);
    assert!(matches!(enter(&mut ledger, 5, enrol(1), 0), Err(AdminRefusal::OperatorUnknown { .. })));
    assert_eq!(change(&mut ledger, set_operator(true)), DONE);
    assert_eq!(enter(&mut ledger, 5, enrol(1), 0), DONE);
    assert_eq!(person(&ledger), Some((2, 1, 5)));
    assert!(ledger.operators().by_enrolment(&TOKEN).is_none());
    assert_eq!(enter(&mut ledger, 6, enrol(2), 0), Err(AdminRefusal::CredentialUnknown));
    // A token of the hub is not an enrolment, and has a longer validity.
    let days = |secret, hours| {
        let expires_at = Timestamp::from_ms(NOW_MS + hours * HOUR_MS + 60_000);
        AdminCommand::AddCredential(NewCredential { name: "amina".into(), secret, expires_at })
    };
    assert_eq!(change(&mut ledger, days(Secret::Token(TOKEN), ENROLMENT_HOURS_MAX)), DONE);
    assert_eq!(enter(&mut ledger, 6, enrol(2), 0), Err(AdminRefusal::CredentialUnknown));
    let long = days(Secret::Enrolment([8; 32]), ENROLMENT_HOURS_MAX);
    assert_eq!(change(&mut ledger, long), Err(AdminRefusal::CredentialLife));
}

#[test]
fn one_time_code_is_valid_once_and_not_after_a_later_one() {
    let mut ledger = invited();
    assert_eq!(enter(&mut ledger, 5, enrol(1), 0), DONE);
    for (step, expected) in [
        (5, Err(AdminRefusal::CodeUsed)),
        (4, Err(AdminRefusal::CodeUsed)),
        (6, DONE),
        (6, Err(AdminRefusal::CodeUsed)),
        (8, DONE),
        (7, Err(AdminRefusal::CodeUsed)),
    ] {
        assert_eq!(enter(&mut ledger, step, session(2), 0), expected, "{step}");
    }
    // Also not after a restart from a snapshot.
    let mut bytes = Vec::new();
    ledger.encode_snapshot(&mut bytes);
    let mut ledger = Ledger::decode_snapshot(&bytes, LedgerConfig::default())
        .unwrap_or_else(|error| panic!("a snapshot is read as it was written: {error}"));
    assert_eq!(enter(&mut ledger, 8, session(2), 0), Err(AdminRefusal::CodeUsed));
    let changed = CredentialActionKind::SetPassword { credential: 2, sealed: sealed(3) };
    assert_eq!(enter(&mut ledger, 8, changed.clone(), 0), Err(AdminRefusal::CodeUsed));
    assert_eq!(enter(&mut ledger, 9, changed, 0), DONE);
    assert_eq!(person(&ledger), Some((3, 3, 9)));
    // A session that was verified with the previous password is rejected.
    assert_eq!(enter(&mut ledger, 10, session(2), 0), Err(AdminRefusal::CredentialUnknown));
    assert_eq!(enter(&mut ledger, 9, session(3), 0), Err(AdminRefusal::CodeUsed));
    // A login may seal the second factor again, which also uses up the code.
    let CredentialActionKind::Session { change: log_in, .. } = session(3) else { unreachable!() };
    let resealed = CredentialActionKind::Session { credential: 3, change: log_in, sealed: Some(sealed(4)) };
    assert_eq!(enter(&mut ledger, 9, resealed.clone(), 0), Err(AdminRefusal::CodeUsed));
    assert_eq!(enter(&mut ledger, 10, resealed, 0), DONE);
    assert_eq!(person(&ledger), Some((4, 4, 10)));
    assert_eq!(enter(&mut ledger, 10, session(4), 0), Err(AdminRefusal::CodeUsed));
    assert_eq!(change(&mut ledger, AdminCommand::RemoveCredential { name: "amina".into(), id: 4 }), DONE);
    assert_eq!(person(&ledger), None);
    assert_eq!(enter(&mut ledger, 11, session(4), 0), Err(AdminRefusal::CredentialUnknown));
}

/// Their printed form reveals no secret.
#[test]
fn events_and_entries_show_no_secret() {
    let mut ledger = invited();
    let entrance = CredentialAction { operator: "amina".into(), code_step: 5, kind: enrol(0xab) };
    let (_, events) = act_after(&mut ledger, OperatorAction::Credential(entrance), 0);
    let names: Vec<_> = events.iter().map(Event::name).collect();
    assert_eq!(names, vec!["CredentialRemoved", "PersonSet", "OperatorActed"]);
    let Some(Event::OperatorActed(entry)) = events.last() else { unreachable!("it is the last") };
    let expected = ("none", "password abababab, by enrolment 07070707");
    assert_eq!((&*entry.before, &*entry.after), expected);
    let shown = format!("{:?} {:?}", events[1].fields(), ledger.operators().named("amina"));
    assert!(!shown.contains("abababababab") && !shown.contains("171, 171"), "{shown}");
}
