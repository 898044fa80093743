//! Operators' actions, each with its entry in the audit trail. Effect and entry are in one record.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::mem;

use upesi_types::Timestamp;

use crate::base::ids::CallbackKey;
use crate::core::decision::{AuditedReply, Decision, Reply};
use crate::core::event::Event;
use crate::core::facts::DecisionInput;
use crate::core::state::Ledger;
use crate::operators::action::{AdminAction, AdminActions};
use crate::operators::admin_command::AdminCommand;
use crate::operators::operator::OperatorRole;
use crate::operators::outcome::AdminOutcome;
use crate::operators::proposal::Proposal;
use crate::operators::proposal_state::ProposalState;
use crate::operators::refusal::AdminRefusal;
use crate::operators::trail::{AuditActor, AuditEntry, clip, clip_before};
use crate::rules::money::expire::Expire;
use crate::rules::operators::approvals::ProposalDecision;
use crate::rules::operators::change::Change;
use crate::rules::operators::change_sets::ApplyNext;
use crate::rules::operators::credential_action::CredentialAction;

/// An operator's action or attempt, with the operator who is responsible.
#[derive(Clone, Debug)]
pub struct AuditedCommand {
    /// The operator, and how the operator was authenticated. The ledger itself names the action of a change.
    pub by: AuditActor,
    pub action: OperatorAction,
    /// The operator's rights to change the ledger.
    pub authority: Authority,
}

/// An operator's rights to change the ledger. They are checked with the state that the change meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority {
    /// The changes that the operator may make or propose.
    pub actions: AdminActions,
    /// Whether no change needs a second person, regardless of the policy.
    pub is_alone: bool,
    /// Whether the operator has the break-glass token. Then the only permitted change of operators is to activate an
    /// administrator again.
    pub is_emergency: bool,
}

impl Authority {
    /// All changes. The policy determines which changes need a second person.
    pub const ALL: Self = Self { actions: AdminActions::ALL, is_alone: false, is_emergency: false };
    /// All changes, without a second person.
    pub const ALONE: Self = Self { is_alone: true, ..Self::ALL };

    /// The name of an action in the audit trail. With the break-glass token, it is in the area `emergency`.
    pub fn name_of(self, action: &str) -> Box<str> {
        if self.is_emergency { format!("emergency.{action}").into() } else { action.into() }
    }
}

/// An operator's action, completed or rejected.
#[derive(Clone, Debug)]
pub enum OperatorAction {
    /// A change of the ledger, or the proposal of a change that needs a second person.
    Change(AdminCommand),
    /// The decision about a proposal.
    Decide(ProposalDecision),
    /// The next change of an approved set. Its entry names the operators who proposed and approved the set.
    ApplyNext(ApplyNext),
    /// A user's own login action.
    Credential(CredentialAction),
    /// The end of a reservation.
    Expire(Expire),
    /// Redelivery of parked callbacks.
    Redeliver(Vec<CallbackKey>),
    /// A change outside the ledger, which is made once the entry is durable.
    External(Change),
    /// A rejected attempt.
    Refused {
        /// The object of the attempted change.
        object: Box<str>,
        /// The reason for the rejection.
        why: Box<str>,
    },
}

impl OperatorAction {
    /// The reason of the action, if the action itself contains one.
    pub fn reason(&self) -> Option<Box<str>> {
        match self {
            Self::Change(command) => command.reason().map(Into::into),
            Self::Expire(expire) => Some(expire.reason.clone()),
            Self::Decide(verdict) => verdict.comment.clone(),
            Self::ApplyNext(_)
            | Self::Credential(_)
            | Self::Redeliver(_)
            | Self::External(_)
            | Self::Refused { .. } => None,
        }
    }
}

impl Ledger {
    /// Decides the action, without its audit entry.
    pub(crate) fn decide_operator_action(
        &self,
        act: &AuditedCommand,
        facts: &DecisionInput<'_>,
        out: &mut Decision,
    ) {
        match &act.action {
            OperatorAction::Change(command) => {
                if let Err(refusal) = self.check_authority(act.authority, command) {
                    out.answer(Err(refusal));
                } else if !act.authority.is_alone && self.needs_second(&act.by.operator, command) {
                    let reply = self.decide_propose(&act.by, command, facts, out);
                    out.answer(reply);
                } else {
                    self.decide_change(command, facts, out);
                }
            }
            OperatorAction::Decide(verdict) => {
                let reply = self.decide_verdict(&act.by, verdict, facts, out);
                out.answer(reply);
            }
            OperatorAction::ApplyNext(next) => {
                let reply = self.decide_apply_next(next, facts, out);
                out.answer(reply);
            }
            OperatorAction::Credential(entrance) => {
                let reply = self.decide_entrance(entrance, facts.now(), out);
                out.answer(reply);
            }
            OperatorAction::Expire(expire) => self.decide_expire(expire, facts, out),
            OperatorAction::Redeliver(keys) => self.decide_redeliver(keys, out),
            OperatorAction::External(_) | OperatorAction::Refused { .. } => {
                out.reply = Reply::Admin(Ok(AdminOutcome::Done));
            }
        }
    }

    /// Whether the operator may make a change, given the current state.
    fn check_authority(&self, authority: Authority, command: &AdminCommand) -> Result<(), AdminRefusal> {
        let action = self.action_of(command);
        if !authority.actions.contains(action) {
            return Err(AdminRefusal::NotPermitted { action });
        }
        let is_permitted = !authority.is_emergency
            || action != AdminAction::IamUser
            || self.activates_administrator(command);
        if is_permitted { Ok(()) } else { Err(AdminRefusal::NotInEmergency) }
    }

    /// Whether a change only activates an administrator again who was deactivated.
    fn activates_administrator(&self, command: &AdminCommand) -> bool {
        let AdminCommand::SetOperator(new) = command else { return false };
        self.operators.named(&new.name).is_some_and(|known| {
            new.is_active
                && !known.is_active
                && new.roles == known.roles
                && known.roles.has(OperatorRole::IamAdmin)
        })
    }

    /// Completes the reply: with the audit entry, which is recorded if the action was made, or with the rejected
    /// action.
    pub(crate) fn record_audited(&self, act: &AuditedCommand, now: Timestamp, out: &mut Decision) {
        out.reply = match mem::take(&mut out.reply) {
            Reply::Admin(Ok(outcome)) => {
                let entry = self.record_entry(act, &outcome, now, out);
                Reply::Audited(Box::new(AuditedReply::Made { outcome, entry }))
            }
            Reply::Admin(Err(refusal)) => {
                let (by, object) = (self.attributed(act), self.object_of(&act.action));
                Reply::Audited(Box::new(AuditedReply::Rejected { refusal, by, object }))
            }
            reply => reply,
        };
    }

    /// The operator, with the name of the action. The action of a change depends on the state before it.
    fn attributed(&self, act: &AuditedCommand) -> AuditActor {
        let mut by = act.by.clone();
        if let OperatorAction::Change(command) = &act.action {
            by.action = act.authority.name_of(self.action_of(command).name());
        }
        by
    }

    /// The object that an action would change.
    fn object_of(&self, action: &OperatorAction) -> Box<str> {
        let object = match action {
            OperatorAction::Change(command) => Change::of(command, self).what,
            OperatorAction::Decide(ProposalDecision { id, .. })
            | OperatorAction::ApplyNext(ApplyNext { id, .. }) => {
                let object = self.approvals.get(*id).map(|proposal| &*proposal.object);
                format!("approval {id}: {}", object.unwrap_or_default())
            }
            OperatorAction::Credential(entrance) => Change::of_entrance(entrance, self).what,
            OperatorAction::Expire(expire) => Change::of_expire(expire).what,
            OperatorAction::Redeliver(keys) => Change::of_redelivery(keys.len()).what,
            OperatorAction::External(change) => change.what.clone(),
            OperatorAction::Refused { object, .. } => return object.clone(),
        };
        object.into()
    }

    /// Records the audit entry of an action that was made, or of an attempt that was rejected before it reached the
    /// ledger. `None` if nothing was changed. A rejection by the ledger's own rules adds no entry here.
    fn record_entry(
        &self,
        act: &AuditedCommand,
        outcome: &AdminOutcome,
        now: Timestamp,
        out: &mut Decision,
    ) -> Option<AuditEntry> {
        let mut by = self.attributed(act);
        let (change, refused) = match &act.action {
            OperatorAction::Change(command) => match outcome {
                // The same change was already proposed, so nothing is recorded.
                AdminOutcome::Proposed(_) if out.events.is_empty() => return None,
                outcome => (Change::of(command, self).made(outcome), None),
            },
            // The set is already being applied.
            OperatorAction::Decide(_) if out.events.is_empty() => return None,
            OperatorAction::Decide(verdict) => {
                let proposal = self.approvals.get(verdict.id)?;
                let (change, refused) = self.judged(proposal, outcome, out, &mut by);
                (Some(change), refused)
            }
            OperatorAction::ApplyNext(next) => {
                let (change, refused) = self.stepped(next.id, outcome, &mut by, out)?;
                (Some(change), refused)
            }
            OperatorAction::Credential(entrance) => (Change::of_entrance(entrance, self).made(outcome), None),
            OperatorAction::Expire(expire) => (Change::of_expire(expire).made(outcome), None),
            OperatorAction::Redeliver(keys) => (Change::of_redelivery(keys.len()).made(outcome), None),
            OperatorAction::External(change) => (Some(change.clone()), None),
            OperatorAction::Refused { object, why } => {
                (Some(Change::new(&**object, "".to_owned(), "".to_owned())), Some(clip(why.clone())))
            }
        };
        let Change { what, from, to } = change?;
        let AuditActor { operator, known_by, address, on_behalf_of, action, reason } = by;
        let by = AuditActor {
            operator: clip(operator),
            known_by: clip(known_by),
            address: address.map(clip),
            on_behalf_of: on_behalf_of.map(clip),
            action: clip(action),
            reason: reason.map(clip),
        };
        let entry = AuditEntry {
            number: self.trail.count + 1,
            at: now,
            by,
            object: clip(what),
            before: clip(from),
            after: clip(to),
            refused,
            chain: [0; 32],
        };
        let entry = entry.linked(&self.trail.head, &out.events);
        out.events.push(Event::OperatorActed(Box::new(entry.clone())));
        Some(entry)
    }

    /// The audit entry of a decision about a proposal. An approval's entry is the entry of the change, made by the
    /// second person on behalf of the maker.
    fn judged(
        &self,
        proposal: &Proposal,
        outcome: &AdminOutcome,
        out: &Decision,
        by: &mut AuditActor,
    ) -> (Change, Option<Box<str>>) {
        let AdminOutcome::ProposalEnded(id, state, made) = outcome else {
            unreachable!("a decision about a proposal ends it")
        };
        if !matches!(state, ProposalState::Executed | ProposalState::Failed) {
            let to = format!("{}: {}", state.as_str(), proposal.object);
            return (Change::new(format!("approval {id}"), "pending", to), None);
        }
        by.on_behalf_of = Some(proposal.maker.clone());
        by.action = proposal.action.name().into();
        by.reason = Some(proposal.reason.clone());
        let Proposal { object, before, after, .. } = proposal;
        let what = clip_before(object, &format!(", by approval {id}"));
        let change = Change::new(what, &**before, &**after);
        let refused = out.events.iter().find_map(|event| match event {
            Event::ProposalEnded { state: ProposalState::Failed, result, .. } => result.clone(),
            _ => None,
        });
        match made.as_ref().and_then(|outcome| change.clone().made(outcome)) {
            Some(made) => (made, None),
            None => (change, refused),
        }
    }
}
