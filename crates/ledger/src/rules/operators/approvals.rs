//! Commands of two-person approval: propose a change, then approve, reject or withdraw it.
//!
//! A proposal contains the change itself. Approval decides the change again, given the current state. Decision, effect
//! and audit entry are one record, so nothing happens between approval and effect.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};

use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::facts::DecisionInput;
use crate::core::state::Ledger;
use crate::money::funds::FundsDirection;
use crate::operators::action::AdminAction;
use crate::operators::admin_command::{AdminCommand, ChangeSet};
use crate::operators::approvals::{PROPOSAL_BYTES_MAX, PROPOSALS_MAX, PROPOSALS_OF_MAKER_MAX};
use crate::operators::change_set::CHANGE_SETS_OF_MAKER_MAX;
use crate::operators::operator::{Operator, OperatorRole};
use crate::operators::outcome::AdminOutcome;
use crate::operators::policy::{ApprovalPolicy, WAIVERS_MAX};
use crate::operators::proposal::{PROPOSAL_REASON_CHARS_MIN, Proposal};
use crate::operators::proposal_state::ProposalState;
use crate::operators::refusal::AdminRefusal;
use crate::operators::trail::{AuditActor, clip, clip_with_digest};
use crate::rules::operators::change::Change;

type Outcome = Result<AdminOutcome, AdminRefusal>;

/// A decision about a proposal, by a second person or its maker.
#[derive(Clone, Debug)]
pub struct ProposalDecision {
    /// The number of the proposal.
    pub id: u64,
    /// The decision.
    pub kind: ProposalDecisionKind,
    pub comment: Option<Box<str>>,
}

/// Converts a rejection to text.
pub type Words = fn(&AdminRefusal) -> String;

/// The approval of a proposed change set.
pub(crate) struct SetApproval<'a> {
    /// The number of the proposal.
    pub(crate) id: u64,
    pub(crate) set: &'a ChangeSet,
    pub(crate) by: &'a AuditActor,
    pub(crate) comment: Option<&'a str>,
}

/// The kind of decision about a proposal.
#[derive(Clone, Copy, Debug)]
pub enum ProposalDecisionKind {
    /// The change is made. If the rules reject it, the proposal fails, with the reason converted by this function.
    Approve(Words),
    /// The change is not made.
    Reject,
    /// The maker withdraws the proposal.
    Withdraw,
}

impl Ledger {
    /// Whether an operator's change needs a second person.
    pub fn needs_second(&self, operator: &str, command: &AdminCommand) -> bool {
        let policy = self.approvals.policy();
        let action = self.action_of(command);
        match command {
            AdminCommand::ChangeSet(_) => command.parts().any(|part| self.needs_second(operator, part)),
            AdminCommand::SetApprovalPolicy(new) => !new.is_as_strict_as(policy),
            _ if !policy.needs_second(action) => false,
            AdminCommand::PrepareFunds(funds) if funds.direction == FundsDirection::In => {
                !policy.waives(funds.amount, funds.currency)
            }
            AdminCommand::Deposit(deposit) => !policy.waives(deposit.amount, deposit.currency),
            _ if action == AdminAction::IamUser => {
                !self.takes_rights_away(command) && !self.is_only_administrator(operator)
            }
            _ => true,
        }
    }

    /// Whether a change of operators only revokes rights. Revoking an administrator's role does not count, because
    /// administrators approve changes.
    fn takes_rights_away(&self, command: &AdminCommand) -> bool {
        match command {
            AdminCommand::RemoveCredential { .. } => true,
            AdminCommand::SetOperator(new) => self.operators.named(&new.name).is_some_and(|before| {
                let loses_administrator =
                    is_administrator(before) && !(new.is_active && new.roles.has(OperatorRole::IamAdmin));
                let gains = new.roles.iter().any(|role| !before.roles.has(role))
                    || new.is_active && !before.is_active;
                !gains && !loses_administrator
            }),
            _ => false,
        }
    }

    /// Whether no other operator could approve: this is the only administrator that has ever had a credential.
    fn is_only_administrator(&self, name: &str) -> bool {
        let mut administrators =
            self.operators.iter().filter(|one| is_administrator(one) && one.next_credential > 1);
        administrators.next().is_some_and(|one| &*one.name == name) && administrators.next().is_none()
    }

    /// Proposes a change that the rules would allow now. If the same maker already proposed the same change, nothing is
    /// added.
    pub(crate) fn decide_propose(
        &self,
        by: &AuditActor,
        command: &AdminCommand,
        facts: &DecisionInput<'_>,
        out: &mut Decision,
    ) -> Outcome {
        let command = match command {
            AdminCommand::ChangeSet(set) => match self.checked_set(set, facts)? {
                Some(set) => AdminCommand::ChangeSet(set),
                None => return Ok(AdminOutcome::AlreadyDone),
            },
            command => {
                let outcome = self.decide_admin(command, facts, out)?;
                if out.is_empty() {
                    return Ok(outcome);
                }
                out.clear();
                command.clone()
            }
        };
        let (digest, bytes) = (Proposal::digest_of(&command), Proposal::bytes_of(&command));
        let approvals = &self.approvals;
        let own = || approvals.pending().filter(|proposal| proposal.maker == by.operator);
        if let Some(same) = own().find(|proposal| proposal.digest == digest) {
            return Ok(AdminOutcome::Proposed(same.id));
        }
        if let Some(other) = self.pending_with_id_of(&command) {
            return Err(AdminRefusal::ProposalPending { id: other });
        }
        let reason = by.reason.as_deref().map(str::trim).unwrap_or_default();
        if reason.chars().count() < PROPOSAL_REASON_CHARS_MIN {
            return Err(AdminRefusal::ProposalReason);
        }
        if approvals.pending().len() >= PROPOSALS_MAX || own().count() >= PROPOSALS_OF_MAKER_MAX {
            return Err(AdminRefusal::ProposalsFull);
        }
        let is_set = |proposal: &&Proposal| proposal.set().is_some();
        if matches!(command, AdminCommand::ChangeSet(_))
            && own().filter(is_set).count() >= CHANGE_SETS_OF_MAKER_MAX
        {
            return Err(AdminRefusal::ChangeSetsFull);
        }
        if approvals.pending_bytes() + bytes > PROPOSAL_BYTES_MAX {
            return Err(AdminRefusal::ProposalLarge);
        }
        let Change { what, from, to } = Change::of(&command, self);
        let proposal = Proposal {
            id: approvals.next_id(),
            digest,
            action: self.action_of(&command),
            command: Some(command),
            object: clip(what),
            before: clip_with_digest(&from),
            after: clip(to),
            reason: clip(reason),
            maker: by.operator.clone(),
            created_at: facts.now(),
            expires_at: facts.now().plus_ms(self.config.proposal_lifetime_ms),
            end: None,
        };
        let id = proposal.id;
        out.events.push(Event::ProposalMade(Box::new(proposal)));
        Ok(AdminOutcome::Proposed(id))
    }

    /// A pending proposal for the same movement of funds, by any maker.
    fn pending_with_id_of(&self, command: &AdminCommand) -> Option<u64> {
        let ids: BTreeSet<_> = command.parts().filter_map(AdminCommand::new_funds).collect();
        let is_same = |other: &AdminCommand| other.new_funds().is_some_and(|id| ids.contains(&id));
        let has_id = |other: &AdminCommand| !ids.is_empty() && other.parts().any(is_same);
        let mut pending = self.approvals.pending();
        Some(pending.find(|proposal| proposal.command.as_ref().is_some_and(has_id))?.id)
    }

    pub(crate) fn decide_verdict(
        &self,
        by: &AuditActor,
        verdict: &ProposalDecision,
        facts: &DecisionInput<'_>,
        out: &mut Decision,
    ) -> Outcome {
        let ProposalDecision { id, kind, comment } = verdict;
        let proposal = self.approvals.get(*id).ok_or(AdminRefusal::ProposalUnknown)?;
        let Some(command) = &proposal.command else {
            return Err(AdminRefusal::ProposalEnded { state: proposal.state() });
        };
        let state = self.approvals.state_of(proposal);
        // A set that was approved in time is applied to its end.
        if proposal.expires_at <= facts.now() && state != ProposalState::Applying {
            return Err(AdminRefusal::ProposalEnded { state: ProposalState::Expired });
        }
        let is_maker = proposal.maker == by.operator;
        match (kind, command, state) {
            (ProposalDecisionKind::Approve(words), AdminCommand::ChangeSet(set), _) if !is_maker => {
                let approval = SetApproval { id: *id, set, by, comment: comment.as_deref() };
                return self.approve_set(approval, facts, *words, out);
            }
            // A set that is being applied cannot be withdrawn.
            (_, _, state @ ProposalState::Applying) => return Err(AdminRefusal::ProposalEnded { state }),
            _ => {}
        }
        let so_far = self.result_of_stopped(proposal);
        let (state, result, made) = match kind {
            ProposalDecisionKind::Withdraw if !is_maker => return Err(AdminRefusal::ProposalOfAnother),
            ProposalDecisionKind::Withdraw => (ProposalState::Withdrawn, so_far, None),
            _ if is_maker => return Err(AdminRefusal::ProposalOwn),
            ProposalDecisionKind::Reject => (ProposalState::Rejected, so_far, None),
            ProposalDecisionKind::Approve(words) => match self.execute(proposal, command, facts, out) {
                Ok(outcome) => (ProposalState::Executed, result_of(&outcome), Some(Box::new(outcome))),
                Err(refused) => {
                    out.clear();
                    let why = match refused {
                        NotExecuted::Changed(now) => format!("it was {} and is {now}", proposal.before),
                        NotExecuted::Refused(refusal) => words(&refusal),
                    };
                    (ProposalState::Failed, Some(clip(why)), None)
                }
            },
        };
        out.events.push(Event::ProposalEnded {
            id: *id,
            state,
            by: Some(by.operator.clone()),
            comment: comment.clone().map(clip),
            result,
        });
        Ok(AdminOutcome::ProposalEnded(*id, state, made))
    }

    /// Makes the change if its object still has the state that the maker saw.
    fn execute(
        &self,
        proposal: &Proposal,
        command: &AdminCommand,
        facts: &DecisionInput<'_>,
        out: &mut Decision,
    ) -> Result<AdminOutcome, NotExecuted> {
        let before = clip_with_digest(&Change::of(command, self).from);
        if before != proposal.before {
            return Err(NotExecuted::Changed(before));
        }
        self.decide_admin(command, facts, out).map_err(NotExecuted::Refused)
    }

    pub(crate) fn decide_set_policy(&self, policy: &ApprovalPolicy, out: &mut Decision) -> Outcome {
        if policy.second.iter().any(|action| !action.is_of_policy()) || policy.waived.len() > WAIVERS_MAX {
            return Err(AdminRefusal::PolicyInvalid);
        }
        if policy == self.approvals.policy() {
            return Ok(AdminOutcome::AlreadyDone);
        }
        out.events.push(Event::ApprovalPolicySet(policy.clone()));
        Ok(AdminOutcome::Done)
    }
}

enum NotExecuted {
    /// The object has changed since the proposal.
    Changed(Box<str>),
    Refused(AdminRefusal),
}

fn is_administrator(operator: &Operator) -> bool {
    operator.is_active && operator.roles.has(OperatorRole::IamAdmin)
}

/// The text of an outcome that the proposal's change does not already contain.
fn result_of(outcome: &AdminOutcome) -> Option<Box<str>> {
    let text = match outcome {
        AdminOutcome::Funds(_, state) => state.as_str().to_string(),
        AdminOutcome::WindowOpened(id) => format!("settlement window {id} is open"),
        AdminOutcome::SettlementCreated(id) => format!("settlement {id}"),
        AdminOutcome::SettlementAdvanced { faults } if !faults.is_empty() => {
            format!("{} accounts were passed over", faults.len())
        }
        _ => return None,
    };
    Some(text.into())
}
