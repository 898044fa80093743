//! Changes that need a second operator, limits of proposals, and the entries of both operators.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use upesi_types::{FspId, Timestamp};

use super::{absent_facts, account, amount, id, participant, sound, xts};
use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::money::changes::FundsPrepare;
use crate::money::funds::FundsDirection;
use crate::operators::action::AdminAction;
use crate::operators::admin_command::AdminCommand;
use crate::operators::approvals::{PROPOSALS_ENDED_MAX, PROPOSALS_MAX, PROPOSALS_OF_MAKER_MAX};
use crate::operators::changes::{NewCredential, NewOperator};
use crate::operators::operator::{OperatorRole, Secret};
use crate::operators::outcome::AdminOutcome;
use crate::operators::policy::ApprovalPolicy;
use crate::operators::proposal_state::ProposalState;
use crate::operators::refusal::AdminRefusal;
use crate::operators::trail::AuditActor;
use crate::rules::command::Command;
use crate::rules::operators::approvals::{ProposalDecision, ProposalDecisionKind};
use crate::rules::operators::audited_command::{AuditedCommand, Authority, OperatorAction};

const NOW_MS: i64 = 2_000_000;
const DAY_MS: i64 = 24 * 3_600_000;

pub(super) type Outcome = Result<AdminOutcome, AdminRefusal>;

/// A valid ledger with a net debit cap of greenbank.
pub(super) fn capped() -> Ledger {
    let mut ledger = sound();
    let set = Event::LimitSet {
        participant: participant(2),
        currency: xts(),
        value: amount(5),
        alarm_basis_points: 800,
    };
    ledger.evolve(ledger.last_seq() + 1, Timestamp::from_ms(NOW_MS - 1), [set], &[]);
    ledger
}

fn by(operator: &str) -> AuditActor {
    AuditActor {
        operator: operator.into(),
        known_by: "token 1".into(),
        address: None,
        on_behalf_of: None,
        action: "as asked".into(),
        reason: Some("as the board decided".into()),
    }
}

fn act_of(ledger: &mut Ledger, act: AuditedCommand) -> (Outcome, Vec<Event>) {
    let mut decision = Decision::default();
    let now = Timestamp::from_ms(NOW_MS + ledger.last_seq() as i64);
    ledger.decide(&Command::Audited(Box::new(act)), &absent_facts(now), &mut decision);
    let Some(reply) = decision.reply.into_outcome() else { unreachable!("an operator is answered") };
    if !decision.events.is_empty() {
        ledger.evolve(ledger.last_seq() + 1, now, decision.events.clone(), &decision.callbacks);
    }
    (reply, decision.events)
}

pub(super) fn act(ledger: &mut Ledger, operator: &str, action: OperatorAction) -> (Outcome, Vec<Event>) {
    act_of(ledger, AuditedCommand { by: by(operator), action, authority: Authority::ALL })
}

pub(super) fn ask(ledger: &mut Ledger, operator: &str, command: AdminCommand) -> Outcome {
    act(ledger, operator, OperatorAction::Change(command)).0
}

pub(super) fn verdict(id: u64, kind: ProposalDecisionKind) -> OperatorAction {
    OperatorAction::Decide(ProposalDecision { id, kind, comment: Some("looked at".into()) })
}

pub(super) fn approve(ledger: &mut Ledger, operator: &str, id: u64) -> (Outcome, Vec<Event>) {
    act(ledger, operator, verdict(id, ProposalDecisionKind::Approve(|refusal| format!("{refusal:?}"))))
}

pub(super) fn green() -> FspId {
    FspId::parse("greenbank").unwrap_or_else(|| unreachable!("a literal name"))
}

pub(super) fn limit(units: i64) -> AdminCommand {
    AdminCommand::SetLimit {
        name: green(),
        currency: xts(),
        net_debit_cap: amount(units),
        alarm_basis_points: 800,
    }
}

pub(super) fn deposit(number: u8, units: i64) -> AdminCommand {
    AdminCommand::PrepareFunds(FundsPrepare {
        direction: FundsDirection::In,
        id: id(number),
        name: green(),
        account: account(3),
        amount: amount(units),
        currency: xts(),
        external_reference: "".into(),
        reason: "as the bank says".into(),
        extensions: None,
        fingerprint: [number; 16],
    })
}

fn operator(name: &str, roles: &[OperatorRole], is_active: bool) -> AdminCommand {
    let roles = roles.iter().copied().collect();
    AdminCommand::SetOperator(NewOperator { name: name.into(), roles, participant: None, is_active })
}

fn token(name: &str, digest: u8) -> AdminCommand {
    let (secret, expires_at) = (Secret::Token([digest; 32]), Timestamp::from_ms(NOW_MS + DAY_MS));
    AdminCommand::AddCredential(NewCredential { name: name.into(), secret, expires_at })
}

const DONE: Outcome = Ok(AdminOutcome::Done);

pub(super) fn waits(outcome: &Outcome) -> bool {
    matches!(outcome, Ok(AdminOutcome::Proposed(_)))
}

/// A single administrator needs no approval. From the second one on, two administrators grant rights
/// and one revokes them; rights of administrators need two in both cases.
#[test]
fn administrator_change_needs_another_administrator() {
    let mut ledger = capped();
    let first = AuditedCommand {
        by: by("bootstrap"),
        action: OperatorAction::Change(operator("ines", &[OperatorRole::IamAdmin], true)),
        authority: Authority::ALONE,
    };
    assert_eq!(act_of(&mut ledger, first).0, DONE);
    let first = AuditedCommand {
        by: by("bootstrap"),
        action: OperatorAction::Change(token("ines", 1)),
        authority: Authority::ALONE,
    };
    assert_eq!(act_of(&mut ledger, first).0, DONE);
    for command in [
        operator("amina", &[OperatorRole::Treasury], true),
        token("amina", 2),
        operator("ivan", &[OperatorRole::IamAdmin], true),
        token("ivan", 3),
    ] {
        assert_eq!(ask(&mut ledger, "ines", command), DONE);
    }
    for (command, is_alone) in [
        (operator("brian", &[OperatorRole::TreasuryApprover], true), false),
        (token("amina", 4), false),
        (operator("amina", &[OperatorRole::Treasury, OperatorRole::Viewer], true), false),
        (operator("ivan", &[OperatorRole::IamAdmin], false), false),
        (operator("ivan", &[], true), false),
        (operator("ivan", &[OperatorRole::IamAdmin, OperatorRole::Viewer], true), false),
        (operator("amina", &[OperatorRole::Treasury], false), true),
        (operator("amina", &[OperatorRole::Treasury], true), false),
        (operator("amina", &[], false), true),
        (AdminCommand::RemoveCredential { name: "ivan".into(), id: 1 }, true),
        // Ivan no longer has a credential, but still counts as an administrator.
        (operator("ivan", &[OperatorRole::IamAdmin], false), false),
    ] {
        let text = format!("{command:?}");
        let outcome = ask(&mut ledger, "ines", command);
        assert_eq!(waits(&outcome), !is_alone, "{text}: {outcome:?}");
    }
    // An operator that is not an administrator always needs an approval for these changes.
    let mut lonely = capped();
    assert!(waits(&ask(&mut lonely, "somebody", operator("amina", &[OperatorRole::Viewer], true))));
}

#[test]
fn policy_and_waivers_determine_whether_approval_is_needed() {
    let mut ledger = capped();
    assert!(waits(&ask(&mut ledger, "amina", limit(9))));
    let waived = [(xts(), amount(100))].into_iter().collect();
    let policy = ApprovalPolicy { waived, ..ApprovalPolicy::default() };
    assert!(waits(&ask(&mut ledger, "ines", AdminCommand::SetApprovalPolicy(policy.clone()))));
    let (outcome, _) = approve(&mut ledger, "ivan", 2);
    assert!(matches!(outcome, Ok(AdminOutcome::ProposalEnded(2, ProposalState::Executed, _))), "{outcome:?}");
    for (number, units, is_alone) in [(21, 100, true), (22, 101, false)] {
        let outcome = ask(&mut ledger, "amina", deposit(number, units));
        assert_eq!(waits(&outcome), !is_alone, "{units}: {outcome:?}");
    }
    let lower = [(xts(), amount(50))].into_iter().collect();
    let stricter = ApprovalPolicy { waived: lower, ..policy };
    assert_eq!(ask(&mut ledger, "ines", AdminCommand::SetApprovalPolicy(stricter)), DONE);
}

#[test]
fn policy_comparison_checks_every_rule() {
    let usual = ApprovalPolicy::default();
    let with = |change: fn(&mut ApprovalPolicy)| {
        let mut changed = usual.clone();
        change(&mut changed);
        changed
    };
    let less = with(|policy| {
        policy.second.remove(&AdminAction::FundsIn);
    });
    let more = with(|policy| {
        policy.second.insert(AdminAction::WindowClose);
    });
    let waived = with(|policy| {
        policy.waived.insert(xts(), amount(5));
    });
    let waived_more = with(|policy| {
        policy.waived.insert(xts(), amount(6));
    });
    for (one, other, expected) in [
        (&usual, &usual, true),
        (&more, &usual, true),
        (&usual, &more, false),
        (&less, &usual, false),
        (&waived, &usual, false),
        (&usual, &waived, true),
        (&waived_more, &waived, false),
        (&waived, &waived_more, true),
    ] {
        assert_eq!(one.is_as_strict_as(other), expected, "{one} beside {other}");
    }
}

/// Proposal and approval are one record each, with an entry. The entry of the effect names both operators.
#[test]
fn audit_trail_names_proposer_and_approver() {
    let mut ledger = capped();
    let (_, proposed) = act(&mut ledger, "amina", OperatorAction::Change(deposit(21, 7)));
    assert_eq!(proposed.len(), 2, "{proposed:?}");
    let (_, executed) = approve(&mut ledger, "brian", 1);
    let names: Vec<_> = executed.iter().map(Event::name).collect();
    assert_eq!(names, ["FundsPrepared", "ProposalEnded", "OperatorActed"]);
    let mut head = [0; 32];
    let told: Vec<_> = [&proposed, &executed]
        .into_iter()
        .map(|events| {
            let Some(Event::OperatorActed(entry)) = events.last() else { panic!("{events:?} has no entry") };
            assert_eq!(entry.chain, entry.chain_after(&head, events));
            head = entry.chain;
            let who = entry.by.on_behalf_of.as_deref().unwrap_or("itself");
            format!("{} {} for {who}: {} → {}", entry.by.action, entry.by.operator, entry.object, entry.after)
        })
        .collect();
    let what = format!("deposit {} of greenbank, 0.0007 XTS", id(21));
    assert_eq!(
        told,
        [
            format!("funds.in amina for itself: approval 1: {what} → proposed: COMMITTED"),
            format!("funds.in brian for amina: {what}, by approval 1 → COMMITTED"),
        ]
    );
    // If the rules reject the change by then, an entry records this.
    let twice = AdminCommand::SetParticipantActivity { name: green(), is_active: false };
    assert_eq!(ask(&mut ledger, "amina", twice), DONE);
    let enable = AdminCommand::SetParticipantActivity { name: green(), is_active: true };
    assert!(waits(&ask(&mut ledger, "amina", enable.clone())) && waits(&ask(&mut ledger, "dina", enable)));
    assert!(approve(&mut ledger, "brian", 2).0.is_ok());
    let (_, failed) = approve(&mut ledger, "brian", 3);
    let Some(Event::OperatorActed(entry)) = failed.last() else { panic!("{failed:?}") };
    assert_eq!(entry.refused.as_deref(), Some("it was inactive and is active"));
}

#[test]
fn proposals_need_a_reason_and_are_limited() {
    let mut ledger = capped();
    for reason in [None, Some("  short    "), Some("nine char")] {
        let by = AuditActor { reason: reason.map(Into::into), ..by("amina") };
        let action = OperatorAction::Change(limit(9));
        let (outcome, events) = act_of(&mut ledger, AuditedCommand { by, action, authority: Authority::ALL });
        assert_eq!((outcome, events.len()), (Err(AdminRefusal::ProposalReason), 0), "{reason:?}");
    }
    let makers = PROPOSALS_MAX / PROPOSALS_OF_MAKER_MAX;
    for maker in 0..makers {
        let maker = maker.to_string();
        for units in 0..PROPOSALS_OF_MAKER_MAX as i64 {
            let command = limit(10 + units);
            assert!(waits(&ask(&mut ledger, &maker, command)));
        }
        let command = limit(999);
        assert_eq!(ask(&mut ledger, &maker, command), Err(AdminRefusal::ProposalsFull));
    }
    let command = limit(999);
    assert_eq!(ask(&mut ledger, "one more", command), Err(AdminRefusal::ProposalsFull));
    assert_eq!(ledger.approvals().pending().len(), PROPOSALS_MAX);
    // Ended proposals release their places, and the oldest of them are removed in the end.
    for _ in 0..PROPOSALS_ENDED_MAX + 10 {
        let oldest = ledger.approvals().pending().next().map(|one| (one.id, one.maker.clone()));
        let (oldest, maker) = oldest.unwrap_or_else(|| unreachable!("proposals wait"));
        let taken = act(&mut ledger, &maker, verdict(oldest, ProposalDecisionKind::Withdraw)).0;
        assert_eq!(taken, Ok(AdminOutcome::ProposalEnded(oldest, ProposalState::Withdrawn, None)));
        let command = limit(9);
        assert!(waits(&ask(&mut ledger, &maker, command)));
    }
    assert!(ledger.approvals().get(1).is_none() && ledger.approvals().after(0).count() <= 1_256);
}

#[test]
fn invalid_approval_state_is_reported_by_the_audit() {
    let mut ledger = capped();
    assert!(waits(&ask(&mut ledger, "amina", limit(9))));
    let end = Event::ProposalEnded {
        id: 1,
        state: ProposalState::Executed,
        by: Some("amina".into()),
        comment: None,
        result: None,
    };
    ledger.evolve(ledger.last_seq() + 1, Timestamp::from_ms(NOW_MS + DAY_MS), [end], &[]);
    assert_eq!(
        crate::audit::check(&ledger),
        ["approval 1 was decided by an operator who must not decide it"]
    );
}
