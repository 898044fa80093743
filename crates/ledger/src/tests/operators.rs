//! Operators, their credentials, and the audit trail's entry of every effect.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

use upesi_types::{FspId, Timestamp};

use super::{absent_facts, amount, sound, xts};
use crate::core::config::LedgerConfig;
use crate::core::decision::{AuditedReply, Decision, Reply};
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::operators::action::AdminAction;
use crate::operators::admin_command::AdminCommand;
use crate::operators::changes::{NewCredential, NewOperator};
use crate::operators::operator::{CREDENTIALS_MAX, OPERATORS_MAX, OperatorRole, Secret};
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::operators::trail::{AuditActor, AuditEntry, Trail};
use crate::rules::command::Command;
use crate::rules::operators::audited_command::{AuditedCommand, Authority, OperatorAction};
use crate::rules::operators::change::Change;

pub(super) const NOW_MS: i64 = 2_000_000;
const DAY_MS: i64 = 24 * 3_600_000;

fn by(operator: &str) -> AuditActor {
    AuditActor {
        operator: operator.into(),
        known_by: "token 1".into(),
        address: Some("10.0.0.1".into()),
        on_behalf_of: None,
        action: "iam.user".into(),
        reason: Some("as asked".into()),
    }
}

/// Decides and folds an action of an operator.
fn act(ledger: &mut Ledger, action: OperatorAction) -> (Result<AdminOutcome, AdminRefusal>, Vec<Event>) {
    let mut decision = Decision::default();
    let command =
        Command::Audited(Box::new(AuditedCommand { by: by("amina"), action, authority: Authority::ALONE }));
    let now = Timestamp::from_ms(NOW_MS + ledger.last_seq() as i64);
    ledger.decide(&command, &absent_facts(now), &mut decision);
    let Some(reply) = decision.reply.into_outcome() else { unreachable!("an operator is answered") };
    if !decision.events.is_empty() {
        ledger.evolve(ledger.last_seq() + 1, now, decision.events.clone(), &decision.callbacks);
    }
    (reply, decision.events)
}

fn ask(ledger: &mut Ledger, command: AdminCommand) -> Result<AdminOutcome, AdminRefusal> {
    act(ledger, OperatorAction::Change(command)).0
}

fn operator(name: &str, roles: &[OperatorRole]) -> NewOperator {
    let roles = roles.iter().copied().collect();
    NewOperator { name: name.into(), roles, participant: None, is_active: true }
}

fn service(name: &str, roles: &[OperatorRole]) -> AdminCommand {
    AdminCommand::SetOperator(operator(name, roles))
}

fn token(name: &str, digest: u8, after_ms: i64) -> AdminCommand {
    let (secret, expires_at) = (Secret::Token([digest; 32]), Timestamp::from_ms(NOW_MS + after_ms));
    AdminCommand::AddCredential(NewCredential { name: name.into(), secret, expires_at })
}

fn secrets(ledger: &Ledger, name: &str) -> String {
    let operator = ledger.operators().named(name).unwrap_or_else(|| unreachable!("it was created"));
    let texts = operator.credentials.iter().map(|one| format!("{} {:?}", one.id, one.secret));
    texts.collect::<Vec<_>>().join(", ")
}

pub(super) const DONE: Result<AdminOutcome, AdminRefusal> = Ok(AdminOutcome::Done);

#[test]
fn operator_changes_are_validated() {
    let mut ledger = sound();
    assert_eq!(ask(&mut ledger, service("deploy", &[OperatorRole::Operations])), DONE);
    assert_eq!(
        ask(&mut ledger, service("deploy", &[OperatorRole::Operations])),
        Ok(AdminOutcome::AlreadyDone)
    );
    assert_eq!(ask(&mut ledger, service("deploy", &[OperatorRole::Support, OperatorRole::Viewer])), DONE);
    let found = ledger.operators().named("deploy").map(|one| format!("{}", one.roles));
    assert_eq!(found.as_deref(), Some("viewer, support"));
    for (command, refusal) in [
        (service("Deploy", &[]), AdminRefusal::OperatorName),
        (
            service("deploy", &[OperatorRole::TreasuryApprover, OperatorRole::Treasury]),
            AdminRefusal::RolesExcluded {
                one: OperatorRole::Treasury,
                other: OperatorRole::TreasuryApprover,
            },
        ),
        (service("bank", &[OperatorRole::DfspUser]), AdminRefusal::OperatorScope),
        (token("other", 1, DAY_MS), AdminRefusal::OperatorUnknown { name: "other".into() }),
        (AdminCommand::RemoveCredential { name: "deploy".into(), id: 1 }, AdminRefusal::CredentialUnknown),
    ] {
        assert_eq!(ask(&mut ledger, command), Err(refusal));
    }
}

#[test]
fn dfsp_operators_belong_to_exactly_one_dfsp() {
    let mut ledger = sound();
    let own = FspId::parse(ledger.participants()[1].name.as_str());
    let of = |roles: &[OperatorRole], participant| {
        let new = operator("their-ci", roles);
        AdminCommand::SetOperator(NewOperator { participant, ..new })
    };
    assert_eq!(ask(&mut ledger, of(&[OperatorRole::Viewer], own)), Err(AdminRefusal::OperatorScope));
    assert_eq!(
        ask(&mut ledger, of(&[OperatorRole::DfspUser, OperatorRole::Viewer], own)),
        Err(AdminRefusal::OperatorScope)
    );
    assert_eq!(ask(&mut ledger, of(&[OperatorRole::DfspMachine], own)), DONE);
    assert_eq!(ask(&mut ledger, of(&[], None)), Err(AdminRefusal::OperatorFixed));
    let unknown = FspId::parse("nosuch");
    let refused = ask(&mut ledger, of(&[OperatorRole::DfspMachine], unknown));
    assert!(matches!(refused, Err(AdminRefusal::ParticipantUnknown { .. })), "{refused:?}");
}

#[test]
fn tokens_are_found_by_their_digest_until_they_are_removed() {
    let mut ledger = sound();
    assert_eq!(ask(&mut ledger, service("deploy", &[OperatorRole::Viewer])), DONE);
    assert_eq!(ask(&mut ledger, token("deploy", 7, DAY_MS)), DONE);
    assert_eq!(ask(&mut ledger, token("deploy", 7, DAY_MS)), Err(AdminRefusal::CredentialTaken));
    let found = |ledger: &Ledger| ledger.operators().by_token(&[7; 32]).map(|(_, one)| one.id);
    assert_eq!(found(&ledger), Some(1));
    for after_ms in [-1, 0, 366 * DAY_MS + 10_000] {
        assert_eq!(ask(&mut ledger, token("deploy", 8, after_ms)), Err(AdminRefusal::CredentialLife));
    }
    let mut bytes = Vec::new();
    ledger.encode_snapshot(&mut bytes);
    let mut ledger = Ledger::decode_snapshot(&bytes, LedgerConfig::default())
        .unwrap_or_else(|error| panic!("a snapshot is read as it was written: {error}"));
    assert_eq!(found(&ledger), Some(1));
    assert_eq!(ask(&mut ledger, AdminCommand::RemoveCredential { name: "deploy".into(), id: 1 }), DONE);
    assert_eq!(found(&ledger), None);
    // Its number is not used again.
    assert_eq!(ask(&mut ledger, token("deploy", 7, DAY_MS)), DONE);
    assert_eq!(found(&ledger), Some(2));
}

#[test]
fn credentials_are_limited_and_expired_tokens_are_replaced() {
    let mut ledger = sound();
    assert_eq!(ask(&mut ledger, service("deploy", &[])), DONE);
    assert_eq!(ask(&mut ledger, token("deploy", 0, 20)), DONE);
    for digest in 1..CREDENTIALS_MAX as u8 {
        assert_eq!(ask(&mut ledger, token("deploy", digest, DAY_MS)), DONE);
    }
    assert_eq!(ask(&mut ledger, token("deploy", 100, DAY_MS)), Err(AdminRefusal::CredentialsFull));
    while ledger.last_seq() < 30 {
        let change = Change::new("time", "", "passes");
        assert_eq!(act(&mut ledger, OperatorAction::External(change)).0, DONE);
    }
    assert_eq!(ask(&mut ledger, token("deploy", 100, DAY_MS)), DONE);
    assert!(secrets(&ledger, "deploy").starts_with("2 token 01010101"), "{}", secrets(&ledger, "deploy"));
    let count = ledger.operators().iter().len();
    for number in count..OPERATORS_MAX {
        assert_eq!(ask(&mut ledger, service(&format!("s{number}"), &[])), DONE);
    }
    assert_eq!(ask(&mut ledger, service("one-more", &[])), Err(AdminRefusal::OperatorsFull));
    assert_eq!(ask(&mut ledger, service("deploy", &[OperatorRole::Viewer])), DONE);
}

/// The entries of records. Each is checked with the previous one.
fn chained(records: &[Vec<Event>]) -> Vec<AuditEntry> {
    let mut head = [0; 32];
    let mut entries = Vec::new();
    for events in records {
        let Some(Event::OperatorActed(entry)) = events.last() else { panic!("{events:?} has no entry") };
        assert_eq!(entry.chain, entry.chain_after(&head, events), "entry {}", entry.number);
        head = entry.chain;
        entries.push((**entry).clone());
    }
    entries
}

#[test]
fn every_effect_has_its_entry_in_the_same_record() {
    let mut ledger = sound();
    let name = ledger.participants()[1].name;
    let off = AdminCommand::SetParticipantActivity { name, is_active: false };
    let deeds = [
        OperatorAction::Change(service("deploy", &[OperatorRole::Viewer])),
        OperatorAction::Change(off.clone()),
        OperatorAction::External(Change::new("oracle 1", "none", "http://oracle")),
        OperatorAction::Refused { object: "PUT /participants/x".into(), why: "needs the permission".into() },
    ];
    let records: Vec<_> = deeds.into_iter().map(|action| act(&mut ledger, action).1).collect();
    assert_eq!(records.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1, 1]);
    let entries = chained(&records);
    let told = entries
        .iter()
        .map(|one| (one.number, &*one.object, &*one.before, &*one.after, one.refused.as_deref()));
    let participant = format!("participant {name}");
    let expected = vec![
        (1, "operator deploy", "none", "viewer, active", None),
        (2, &*participant, "active", "inactive", None),
        (3, "oracle 1", "none", "http://oracle", None),
        (4, "PUT /participants/x", "", "", Some("needs the permission")),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    // The ledger names the action of a change; other actions are named by the caller.
    for (entry, action) in entries.iter().zip(["iam.user", "participant.disable", "iam.user", "iam.user"]) {
        assert_eq!(entry.by, AuditActor { action: action.into(), ..by("amina") });
    }
    assert_eq!(ledger.trail(), Trail { count: 4, head: entries[3].chain });
    // Actions without effect, and rejected ones, have no record.
    assert_eq!(
        act(&mut ledger, OperatorAction::Change(service("deploy", &[OperatorRole::Viewer]))).1,
        vec![]
    );
    let unknown = AdminCommand::CreateParticipant { name, currency: xts(), is_proxy: false };
    let (refused, events) = act(&mut ledger, OperatorAction::Change(unknown));
    assert!(refused.is_err() && events.is_empty(), "{refused:?} {events:?}");
    assert_eq!(ledger.trail().count, 4);
}

/// The reply to a change of these rights, without its effect.
fn reply_to(ledger: &Ledger, authority: Authority, command: AdminCommand) -> (AuditedReply, Vec<Event>) {
    let mut decision = Decision::default();
    let command = Command::Audited(Box::new(AuditedCommand {
        by: by("amina"),
        action: OperatorAction::Change(command),
        authority,
    }));
    ledger.decide(&command, &absent_facts(Timestamp::from_ms(NOW_MS)), &mut decision);
    let Reply::Audited(acted) = decision.reply else { panic!("{:?}", decision.reply) };
    (*acted, decision.events)
}

#[test]
fn reply_to_an_action_has_the_recorded_entry() {
    let ledger = sound();
    let name = ledger.participants()[1].name;
    let activity = |is_active| AdminCommand::SetParticipantActivity { name, is_active };
    let (acted, events) = reply_to(&ledger, Authority::ALONE, activity(false));
    let Some(Event::OperatorActed(recorded)) = events.last() else { panic!("{events:?} has no entry") };
    assert_eq!(acted, AuditedReply::Made { outcome: AdminOutcome::Done, entry: Some((**recorded).clone()) });
    let (acted, events) = reply_to(&ledger, Authority::ALONE, activity(true));
    assert_eq!(
        (acted, events),
        (AuditedReply::Made { outcome: AdminOutcome::AlreadyDone, entry: None }, vec![])
    );
}

#[test]
fn change_beyond_the_rights_of_the_operator_is_rejected_with_its_action_and_object() {
    let mut ledger = sound();
    let off = || NewOperator { is_active: false, ..operator("ines", &[OperatorRole::IamAdmin]) };
    assert_eq!(ask(&mut ledger, service("ines", &[OperatorRole::IamAdmin])), DONE);
    assert_eq!(ask(&mut ledger, AdminCommand::SetOperator(off())), DONE);
    let name = ledger.participants()[1].name;
    let cap = |units| AdminCommand::SetLimit {
        name,
        currency: xts(),
        net_debit_cap: amount(units),
        alarm_basis_points: 800,
    };
    let lowers = Authority { actions: [AdminAction::LimitLower].into_iter().collect(), ..Authority::ALONE };
    let emergency = Authority { is_emergency: true, ..Authority::ALONE };
    let not_permitted = Some(AdminRefusal::NotPermitted { action: AdminAction::LimitRaise });
    for (authority, command, refusal, action, object) in [
        // The first cap is a raise, whatever its amount.
        (lowers, cap(0), not_permitted, "limit.raise", format!("net debit cap of {name} in XTS")),
        (
            emergency,
            AdminCommand::SetOperator(NewOperator {
                is_active: true,
                ..operator("ines", &[OperatorRole::Viewer])
            }),
            Some(AdminRefusal::NotInEmergency),
            "emergency.iam.user",
            "operator ines".to_owned(),
        ),
        (
            emergency,
            token("ines", 1, DAY_MS),
            Some(AdminRefusal::NotInEmergency),
            "emergency.iam.user",
            "token of operator ines".to_owned(),
        ),
        (
            emergency,
            service("ines", &[OperatorRole::IamAdmin]),
            None,
            "emergency.iam.user",
            "operator ines".to_owned(),
        ),
    ] {
        let (acted, events) = reply_to(&ledger, authority, command);
        let (found, by, object_found) = match acted {
            AuditedReply::Rejected { refusal, by, object } => (Some(refusal), by, object),
            AuditedReply::Made { entry, .. } => {
                let entry = entry.unwrap_or_else(|| panic!("a change has an entry"));
                (None, entry.by, entry.object)
            }
        };
        assert_eq!((found, &*by.action, &*object_found), (refusal.clone(), action, &*object));
        assert_eq!(events.is_empty(), refusal.is_some(), "{events:?}");
    }
}
