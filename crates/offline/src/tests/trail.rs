//! The audit trail: `upesi audit` and `upesi trail` detect changed entries and effects.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use upesi_admin::{AttemptOutcome, AuditKey, EntryFilter};
use upesi_ledger::command::{
    ApplyNext, AuditedCommand, Authority, CredentialAction, CredentialActionKind, NewCredential, NewOperator,
    OperatorAction, ProposalDecision, ProposalDecisionKind,
};
use upesi_ledger::{
    AdminCommand, AdminRefusal, AuditActor, AuditEntry, Change, ChangeSet, Command, Event, OperatorRole,
    Payload, ProposalState, SEALED_BYTES, SealedSecret, Secret, SetChange,
};
use upesi_process::exit::Exit;
use upesi_process::times::Zone;
use upesi_types::Currency;

use super::audit::audited;
use super::journal::{TestJournal, fsp};
use crate::trail::{TrailOptions, line, trail};

fn act(action: OperatorAction) -> Command {
    let by = AuditActor {
        operator: "amina".into(),
        known_by: "token 1".into(),
        address: None,
        on_behalf_of: None,
        action: "iam.user".into(),
        reason: None,
    };
    Command::Audited(Box::new(AuditedCommand { by, action, authority: Authority::ALONE }))
}

/// An action of an operator who is not the only one.
fn act_of(operator: &str, action: OperatorAction) -> Command {
    let Command::Audited(mut act) = act(action) else { unreachable!("it is an act") };
    act.by.operator = operator.into();
    act.by.reason = Some("as the board decided".into());
    act.authority = Authority::ALL;
    Command::Audited(act)
}

/// The auditor knows the used codes.
#[test]
fn reused_code_is_found() {
    let audited_with = |code_step: u64| {
        let mut journal = TestJournal::onboarded();
        journal.command(&operator("nia", OperatorRole::Viewer), Payload::default());
        let expires_at = journal.now().plus_ms(3_600_000);
        let secret = Secret::Enrolment([7; 32]);
        let new = NewCredential { name: "nia".into(), secret, expires_at };
        journal.command(&act(OperatorAction::Change(AdminCommand::AddCredential(new))), Payload::default());
        let sealed = SealedSecret { salt: [1; 16], memory_kib: 8, passes: 1, secret: [2; SEALED_BYTES] };
        let enter = |code_step, kind| {
            let operator = "nia".into();
            act(OperatorAction::Credential(CredentialAction { operator, code_step, kind }))
        };
        let enrol = CredentialActionKind::Enrol { token: [7; 32], sealed };
        journal.command(&enter(10, enrol), Payload::default());
        let change = Change::new("session 1", "none", "open");
        let session = CredentialActionKind::Session { credential: 2, change, sealed: None };
        let mut opened = journal.decide(&enter(11, session));
        let Some(Event::CodeUsed { code_step: used, .. }) = opened.events.first_mut() else { panic!() };
        *used = code_step;
        journal.write(&opened, Payload::default());
        audited(&mut journal).findings.join("; ")
    };
    assert_eq!(audited_with(11), "");
    let found = audited_with(10);
    assert!(found.contains("used the code of interval 10 after the code of interval 10"), "{found}");
}

/// The auditor has its own books of proposals and their operators.
#[test]
fn approval_by_the_wrong_operator_is_found() {
    let audited_with = |change: fn(&mut Vec<Event>)| {
        let mut journal = TestJournal::onboarded();
        let new = NewOperator {
            name: "first".into(),
            roles: [OperatorRole::Treasury].into_iter().collect(),
            participant: None,
            is_active: true,
        };
        let propose = act_of("amina", OperatorAction::Change(AdminCommand::SetOperator(new)));
        journal.command(&propose, Payload::default());
        let kind = ProposalDecisionKind::Approve(|refusal| format!("{refusal:?}"));
        let verdict = ProposalDecision { id: 1, kind, comment: None };
        let mut approved = journal.decide(&act_of("brian", OperatorAction::Decide(verdict)));
        change(&mut approved.events);
        journal.write(&approved, Payload::default());
        audited(&mut journal).findings.join("; ")
    };
    assert_eq!(audited_with(|_| {}), "");
    let wrong = "approval 1 was decided by an operator who must not decide it";
    for change in [
        (|events| ended(events, |by, _| *by = Some("amina".into()))) as fn(&mut Vec<Event>),
        |events| ended(events, |by, _| *by = None),
        |events| ended(events, |_, state| *state = ProposalState::Withdrawn),
    ] {
        assert!(audited_with(change).contains(wrong), "{}", audited_with(change));
    }
}

/// Each step of a change set is made in its turn, and its entry names the set and both operators.
#[test]
fn wrong_step_of_a_change_set_is_found() {
    let audited_with = |change: fn(&mut Vec<Event>)| {
        let mut journal = TestJournal::onboarded();
        let account = |kind: &str| {
            let (name, currency) = (fsp("Hub"), Currency::parse("TZS").unwrap());
            SetChange::new(AdminCommand::CreateHubAccount { name, currency, kind: kind.into() })
        };
        let name = fsp("greenbank");
        let off = AdminCommand::SetParticipantActivity { name, is_active: false };
        let on = AdminCommand::SetParticipantActivity { name, is_active: true };
        let changes = vec![
            account("HUB_RECONCILIATION"),
            SetChange::new(off),
            SetChange::new(on),
            account("HUB_MULTILATERAL_SETTLEMENT"),
        ];
        let set = AdminCommand::ChangeSet(ChangeSet { name: "TZS".into(), changes });
        journal.command(&act_of("amina", OperatorAction::Change(set)), Payload::default());
        let words = |refusal: &AdminRefusal| format!("{refusal:?}");
        let verdict = ProposalDecision { id: 1, kind: ProposalDecisionKind::Approve(words), comment: None };
        journal.command(&act_of("brian", OperatorAction::Decide(verdict)), Payload::default());
        let step = act_of("hub", OperatorAction::ApplyNext(ApplyNext { id: 1, words }));
        journal.command(&step, Payload::default());
        let mut second = journal.decide(&step);
        change(&mut second.events);
        journal.write(&second, Payload::default());
        audited(&mut journal).findings.join("; ")
    };
    assert_eq!(audited_with(|_| {}), "");
    let wrong = "change 2 of approval 1 has no audit entry with the set, its proposer and its approver";
    for (change, expected) in [
        ((|events| entry(events).object = "participant greenbank".into()) as fn(&mut Vec<Event>), wrong),
        (|events| entry(events).by.operator = "chris".into(), wrong),
        (|events| entry(events).by.on_behalf_of = None, wrong),
        (|events| drop(events.pop()), wrong),
        (|events| stepped(events, 1, 3), "change 3 of approval 1 follows change 1"),
        (|events| stepped(events, 7, 2), "approval 7 is applied, but was not approved"),
    ] {
        let found = audited_with(change);
        assert!(found.contains(expected), "{expected}: {found}");
    }
}

/// Changes the step, or the set, that was made.
fn stepped(events: &mut [Event], of: u64, at: u32) {
    for event in events {
        if let Event::ChangeSetStepped { id, number } = event {
            (*id, *number) = (of, at);
        }
    }
}

fn ended(events: &mut [Event], change: impl Fn(&mut Option<Box<str>>, &mut ProposalState)) {
    for event in events {
        if let Event::ProposalEnded { by, state, .. } = event {
            change(by, state);
        }
    }
}

fn operator(name: &str, role: OperatorRole) -> Command {
    let roles = [role].into_iter().collect();
    let new = NewOperator { name: name.into(), roles, participant: None, is_active: true };
    act(OperatorAction::Change(AdminCommand::SetOperator(new)))
}

/// The findings in a journal with two actions. The second one is changed before it is written.
fn changed(change: impl FnOnce(&mut Vec<Event>)) -> Vec<String> {
    let mut journal = TestJournal::onboarded();
    journal.command(&operator("first", OperatorRole::Viewer), Payload::default());
    let mut second = journal.decide(&operator("second", OperatorRole::Viewer));
    change(&mut second.events);
    journal.write(&second, Payload::default());
    audited(&mut journal).findings
}

fn entry(events: &mut [Event]) -> &mut AuditEntry {
    match events.last_mut() {
        Some(Event::OperatorActed(entry)) => entry,
        other => panic!("{other:?} is not an entry"),
    }
}

#[test]
fn changed_entry_of_the_audit_trail_is_found() {
    assert_eq!(changed(|_| {}), [""; 0]);
    let found = |change: fn(&mut Vec<Event>)| changed(change).join("; ");
    let wrong = "entry 2 of the audit trail does not follow from the entry before it and from the record";
    for change in [
        (|events| entry(events).by.operator = "brian".into()) as fn(&mut Vec<Event>),
        |events| entry(events).by.reason = Some("as asked".into()),
        |events| entry(events).after = "treasury, active".into(),
        |events| entry(events).refused = Some("no".into()),
        // The effect, with the unchanged entry.
        |events| match &mut events[0] {
            Event::OperatorSet { roles, .. } => *roles = [OperatorRole::Treasury].into_iter().collect(),
            other => panic!("{other:?} is not an operator"),
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
fn missing_entry_of_the_audit_trail_is_found() {
    let third = {
        let mut journal = TestJournal::onboarded();
        for name in ["first", "second"] {
            journal.command(&operator(name, OperatorRole::Viewer), Payload::default());
        }
        journal.decide(&act(OperatorAction::External(Change::new("oracle 1", "none", "http://oracle"))))
    };
    let mut journal = TestJournal::onboarded();
    journal.command(&operator("first", OperatorRole::Viewer), Payload::default());
    journal.write(&third, Payload::default());
    let findings = audited(&mut journal).findings;
    assert!(
        findings.iter().any(|one| one.contains("entry 3 of the audit trail follows entry 1")),
        "{findings:?}"
    );
}

/// Keys that RFC 8410 prints.
const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";

pub(super) fn options(journal: &TestJournal) -> TrailOptions {
    TrailOptions {
        directory: journal.path.clone(),
        filter: EntryFilter::default(),
        limit: None,
        verify_only: false,
        json: false,
        zone: Zone::parse("EAT-3").unwrap(),
        checkpoints: None,
    }
}

/// stdout, stderr, and the error with its exit code.
pub(super) fn printed(options: &TrailOptions) -> (String, String, Option<(Exit, String)>) {
    let (mut output, mut told) = (Vec::new(), Vec::new());
    let outcome = trail(options, &mut output, &mut told);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output), text(told), outcome.err().map(|failure| (failure.exit, failure.message)))
}

/// Three operators, and a rejected attempt.
pub(super) fn with_entries() -> TestJournal {
    let mut journal = TestJournal::onboarded();
    for name in ["first", "second", "third"] {
        journal.command(&operator(name, OperatorRole::Viewer), Payload::default());
    }
    let (object, why) = ("GET /x\u{1b}[2J".into(), "needs more".into());
    journal.command(&act(OperatorAction::Refused { object, why }), Payload::default());
    journal.close();
    journal
}

#[test]
fn trail_is_printed_filtered_and_verified() {
    let journal = with_entries();
    let all = options(&journal);
    let (text, told, failure) = printed(&all);
    assert_eq!(failure, None);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].contains("1  2031-04-01 15:00:"), "{text}");
    assert!(lines[0].ends_with("amina (token 1)  iam.user  operator first: none → viewer, active"), "{text}");
    assert!(lines[3].ends_with("iam.user  REFUSED GET /x\\u001b[2J: needs more"), "{text}");
    assert!(told.contains("entries 1 to 4 of the audit trail: the chain is intact; 4 printed"), "{told}");

    let refused = EntryFilter { outcome: Some(AttemptOutcome::Refused), ..EntryFilter::default() };
    let (text, told, failure) = printed(&TrailOptions { filter: refused, json: true, ..all.clone() });
    assert_eq!(failure, None);
    let entry: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(entry["number"], 4);
    assert_eq!(entry["refused"], "needs more");
    assert_eq!(entry["outcome"], "refused");
    assert_eq!(entry["chain"].as_str().unwrap().len(), 64);
    assert!(told.contains("entries 1 to 4") && told.contains("1 printed"), "{told}");
    assert_eq!(printed(&TrailOptions { limit: Some(2), ..all.clone() }).0.lines().count(), 2);
    assert_eq!(printed(&TrailOptions { verify_only: true, ..all }).0, "");
}

#[test]
fn break_of_the_chain_is_reported_with_exit_code_65() {
    for (change, expected) in [
        (
            (|events| entry(events).by.operator = "brian".into()) as fn(&mut Vec<Event>),
            "entry 2 does not follow from the entry before it and from its own record",
        ),
        (
            |events| match &mut events[0] {
                Event::OperatorSet { roles, .. } => *roles = [OperatorRole::Treasury].into_iter().collect(),
                other => panic!("{other:?} is not an operator"),
            },
            "entry 2 does not follow from the entry before it and from its own record",
        ),
        (|events| entry(events).number = 3, "found entry 3 instead of entry 2"),
    ] {
        let mut journal = TestJournal::onboarded();
        journal.command(&operator("first", OperatorRole::Viewer), Payload::default());
        let mut second = journal.decide(&operator("second", OperatorRole::Viewer));
        change(&mut second.events);
        journal.write(&second, Payload::default());
        let (text, told, failure) = printed(&TrailOptions { verify_only: true, ..options(&journal) });
        assert_eq!(text, "");
        assert!(told.contains("the chain is BROKEN"), "{told}");
        let (exit, message) = failure.unwrap();
        assert_eq!(exit, Exit::Data);
        assert!(message.contains("the audit trail is broken") && message.contains(expected), "{message}");
    }
}

/// The checksums of the journal detect changes of the file.
#[test]
fn flipped_byte_of_an_entry_ends_with_65() {
    let journal = with_entries();
    let file = journal.segments().pop().unwrap();
    let mut bytes = fs::read(&file).unwrap();
    // In the last frame, whose record is the rejected attempt with its entry.
    let at = bytes.iter().rposition(|byte| *byte != 0).unwrap() - 40;
    bytes[at] ^= 1;
    fs::write(&file, bytes).unwrap();
    let (exit, message) = printed(&options(&journal)).2.unwrap();
    assert_eq!(exit, Exit::Data, "{message}");
    assert!(message.contains("journal/"), "{message}");
}

#[test]
fn truncated_trail_is_found_by_a_snapshot() {
    let mut ahead = with_entries();
    let mut journal = TestJournal::onboarded();
    journal.command(&operator("first", OperatorRole::Viewer), Payload::default());
    journal.write_snapshot(&journal.ledger);
    let (_, told, failure) = printed(&options(&journal));
    assert_eq!(failure, None);
    assert!(told.contains("1 snapshots and checkpoints compared"), "{told}");
    journal.write_snapshot(&ahead.ledger);
    ahead.close();
    let (_, message) = printed(&options(&journal)).2.unwrap();
    let expected = "the trail ends with entry 1, but the snapshot of record";
    assert!(message.contains(expected) && message.contains("the end of the trail was cut off"), "{message}");
}

pub(super) struct Keys {
    _directory: tempfile::TempDir,
    pub(super) key: AuditKey,
    pub(super) public: PathBuf,
    pub(super) checkpoints: PathBuf,
}

impl Keys {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = |name| directory.path().join(name);
        let (private, public, checkpoints) = (file("private.pem"), file("public.pem"), file("checkpoints"));
        fs::write(&private, PRIVATE).unwrap();
        fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&public, PUBLIC).unwrap();
        let key = AuditKey::load(&private).unwrap();
        Self { _directory: directory, key, public, checkpoints }
    }

    fn check(&self, journal: &TestJournal, lines: &str) -> (String, Option<String>) {
        fs::write(&self.checkpoints, lines).unwrap();
        let checkpoints = Some((self.checkpoints.clone(), self.public.clone()));
        let (_, told, failure) = printed(&TrailOptions { checkpoints, ..options(journal) });
        (
            told,
            failure.map(|(exit, message)| {
                assert_eq!(exit, Exit::Data);
                message
            }),
        )
    }
}

/// A journal that was rewritten from its beginning has a valid chain, but not the signed one.
#[test]
fn checkpoints_find_a_rewritten_or_truncated_trail() {
    let keys = Keys::new();
    let journal = with_entries();
    let trail = journal.ledger.trail();
    let made = keys.key.sign(trail.count, journal.now(), trail.head).to_string();
    let (told, failure) = keys.check(&journal, &format!("started\nINFO checkpoint={made} x=1\n"));
    assert_eq!(failure, None);
    assert!(told.contains("1 checkpoints have a valid signature"), "{told}");

    let mut anew = TestJournal::onboarded();
    for name in ["first", "other", "third", "fourth"] {
        anew.command(&operator(name, OperatorRole::Viewer), Payload::default());
    }
    assert_eq!(printed(&options(&anew)).2, None);
    let message = keys.check(&anew, &made).1.unwrap();
    assert!(message.contains("entry 4 differs from the entry of the checkpoint of 2031-04-01"), "{message}");

    let mut short = TestJournal::onboarded();
    short.command(&operator("first", OperatorRole::Viewer), Payload::default());
    let message = keys.check(&short, &made).1.unwrap();
    assert!(message.contains("but the checkpoint of 2031-04-01") && message.contains("cut off"), "{message}");

    let changed = made.replace(" 1 4 ", " 1 3 ");
    let message = keys.check(&journal, &format!("{made}\n{changed}")).1.unwrap();
    assert!(message.contains("the checkpoint in line 2 of"), "{message}");
    assert!(message.contains("is not signed by this key, or was changed"), "{message}");
    let message = keys.check(&journal, "nothing of the kind\n").1.unwrap();
    assert!(message.contains("contains no checkpoint"), "{message}");
}

#[test]
fn printed_line_shows_reason_and_origin() {
    let mut one = match with_entries().decide(&operator("last", OperatorRole::Viewer)).events.pop() {
        Some(Event::OperatorActed(entry)) => *entry,
        other => panic!("{other:?}"),
    };
    one.by.address = Some("192.0.2.7".into());
    one.by.on_behalf_of = Some("brian".into());
    one.by.reason = Some("ticket 7".into());
    let text = line(&one, &Zone::utc());
    assert!(text.contains("amina (token 1, 192.0.2.7) for brian  iam.user"), "{text}");
    assert!(text.ends_with("; reason: ticket 7"), "{text}");
}
