//! Commands about change sets, which are proposed together, approved once, and applied change by change.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use upesi_types::TransferId;

use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::facts::DecisionInput;
use crate::core::state::Ledger;
use crate::operators::action::AdminAction;
use crate::operators::admin_command::{AdminCommand, ChangeSet, SetChange, counted};
use crate::operators::change_set::{CHANGE_SET_BYTES_MAX, CHANGE_SET_CHANGES_MAX, ChangeSetProgress};
use crate::operators::outcome::AdminOutcome;
use crate::operators::proposal::Proposal;
use crate::operators::proposal_state::ProposalState;
use crate::operators::refusal::AdminRefusal;
use crate::operators::trail::{AuditActor, clip, clip_before, clip_with_digest};
use crate::rules::operators::approvals::{SetApproval, Words};
use crate::rules::operators::change::Change;
use crate::rules::operators::change_sets::draft::Preview;

pub(crate) mod draft;

type Outcome = Result<AdminOutcome, AdminRefusal>;

/// Command to make the next change of an approved set.
#[derive(Clone, Copy, Debug)]
pub struct ApplyNext {
    /// The number of the approval.
    pub id: u64,
    /// Converts the reason of a rejection to text.
    pub words: Words,
}

impl AdminCommand {
    /// The movements of funds that the command names.
    pub(crate) fn named_funds(&self) -> Vec<TransferId> {
        match self {
            Self::PrepareFunds(funds) => [funds.id].into(),
            Self::Deposit(deposit) => [deposit.id].into(),
            Self::EndFunds(end) => [end.id].into(),
            Self::MoveCover(cover) => cover.items.iter().map(|item| item.funds).collect(),
            _ => Vec::new(),
        }
    }
}

/// A text about accounts that were skipped; `None` if there are none.
fn passed_over(outcome: &AdminOutcome) -> Option<String> {
    let AdminOutcome::SettlementAdvanced { faults } = outcome else { return None };
    let (_, first) = faults.first()?;
    Some(format!("{} accounts are passed over, the first: {}", faults.len(), first.as_str()))
}

impl Ledger {
    /// Whether the decision about a change depends on windows and settlements. A position can only be corrected while
    /// no window or settlement contains it.
    pub(crate) fn is_decided_by_windows(&self, command: &AdminCommand) -> bool {
        match command {
            AdminCommand::CloseWindow { .. }
            | AdminCommand::CreateSettlement(_)
            | AdminCommand::AdvanceSettlement(_)
            | AdminCommand::AbortSettlement(_)
            | AdminCommand::MoveCover(_) => true,
            AdminCommand::OpenAccounts { name, currency, .. } => {
                self.participant_named(name).is_some_and(|found| found.limit(*currency).is_some())
            }
            _ => false,
        }
    }

    /// Returns the set as it will be proposed: with the state before each change, and without changes that
    /// have no effect. Returns `None` if no change is left.
    pub(crate) fn checked_set(
        &self,
        set: &ChangeSet,
        facts: &DecisionInput<'_>,
    ) -> Result<Option<ChangeSet>, AdminRefusal> {
        let count = set.changes.len();
        if count == 0 || count > CHANGE_SET_CHANGES_MAX {
            return Err(AdminRefusal::ChangeSetSize);
        }
        if let Some(at) = set.changes.iter().position(|change| !change.command.may_be_in_set()) {
            return Err(at_change(at, AdminRefusal::ChangeSetKind));
        }
        let mut changes = Vec::new();
        for (at, preview) in self.preview(set, 0, facts).into_iter().enumerate() {
            let outcome = preview.outcome.map_err(|refusal| at_change(at, refusal))?;
            if let AdminOutcome::SettlementAdvanced { faults } = &outcome
                && let Some((_, fault)) = faults.first()
            {
                return Err(at_change(at, AdminRefusal::ChangeSetPassesOver { fault: *fault }));
            }
            if preview.has_effect {
                let command = set.changes[at].command.clone();
                changes.push(SetChange { command, before: clip_with_digest(&preview.change.from) });
            }
        }
        if changes.is_empty() {
            return Ok(None);
        }
        let checked = ChangeSet { name: set.name.clone(), changes };
        let bytes = Proposal::bytes_of(&AdminCommand::ChangeSet(checked.clone()));
        if bytes > CHANGE_SET_BYTES_MAX {
            return Err(AdminRefusal::ChangeSetSize);
        }
        Ok(Some(checked))
    }

    /// Approves a set: all its changes are decided again, and if the rules allow them, the hub starts to apply the set.
    /// A stopped set continues.
    pub(crate) fn approve_set(
        &self,
        approval: SetApproval<'_>,
        facts: &DecisionInput<'_>,
        words: Words,
        out: &mut Decision,
    ) -> Outcome {
        let SetApproval { id, set, by, comment } = approval;
        let applying = Ok(AdminOutcome::ProposalEnded(id, ProposalState::Applying, None));
        let hindrance = match self.approvals.progress(id) {
            Some(ChangeSetProgress { stopped: None, .. }) => return applying,
            progress => self.hindrance_of(set, progress, facts, words),
        };
        if let Some(why) = hindrance {
            let so_far = self.approvals.progress(id).map(|progress| made_of(progress, set) + ", and then ");
            let why = so_far.unwrap_or_default() + &why;
            out.events.push(Event::ProposalEnded {
                id,
                state: ProposalState::Failed,
                by: Some(by.operator.clone()),
                comment: comment.map(clip),
                result: Some(clip(why)),
            });
            return Ok(AdminOutcome::ProposalEnded(id, ProposalState::Failed, None));
        }
        out.events.push(Event::ChangeSetApproved {
            id,
            operator: by.operator.clone(),
            known_by: by.known_by.clone(),
            address: by.address.clone(),
            comment: comment.map(clip),
        });
        applying
    }

    /// The reason why a set would not be applied as its maker saw it. For a stopped set, only the remaining changes are
    /// decided again. The object of the change that stopped it may have a different state by now.
    fn hindrance_of(
        &self,
        set: &ChangeSet,
        progress: Option<&ChangeSetProgress>,
        facts: &DecisionInput<'_>,
        words: Words,
    ) -> Option<String> {
        let first = progress.map_or(0, |progress| progress.made as usize);
        let previews = self.preview(set, first, facts).into_iter().zip(&set.changes[first..]);
        for (at, (Preview { change: Change { what, from, .. }, outcome, .. }, kept)) in previews.enumerate() {
            let from = clip_with_digest(&from);
            let refused = match &outcome {
                Err(refusal) => Some(words(refusal)),
                Ok(outcome) => passed_over(outcome),
            };
            let is_first_left = progress.is_some() && at == 0;
            let why = match refused {
                // The change stops the set again.
                Some(_) if is_first_left => return None,
                _ if !is_first_left && from != kept.before => {
                    Some(format!("it was {} and is {from}", kept.before))
                }
                refused => refused,
            };
            if let Some(why) = why {
                return Some(format!("change {}, {what}: {why}", first + at + 1));
            }
        }
        None
    }

    /// Makes the next change of a set, or stops the set if the rules reject the change.
    pub(crate) fn decide_apply_next(
        &self,
        next: &ApplyNext,
        facts: &DecisionInput<'_>,
        out: &mut Decision,
    ) -> Outcome {
        let id = next.id;
        let proposal = self.approvals.get(id).ok_or(AdminRefusal::ProposalUnknown)?;
        let state = self.approvals.state_of(proposal);
        let (Some(set), Some(progress)) = (proposal.set(), self.approvals.progress(id)) else {
            return Err(AdminRefusal::ProposalEnded { state });
        };
        if state != ProposalState::Applying {
            return Err(AdminRefusal::ProposalEnded { state });
        }
        let number = progress.made + 1;
        let change = &set.changes[progress.made as usize];
        let (why, made) = match self.decide_admin(&change.command, facts, out) {
            Ok(outcome) => (passed_over(&outcome), Some(Box::new(outcome))),
            Err(refusal) => {
                out.clear();
                (Some((next.words)(&refusal)), None)
            }
        };
        if let Some(why) = why {
            out.events.push(Event::ChangeSetStopped { id, number, why: clip(why) });
            return Ok(AdminOutcome::SetStepped(ProposalState::Stopped, made));
        }
        out.events.push(Event::ChangeSetStepped { id, number });
        if (number as usize) < set.changes.len() {
            return Ok(AdminOutcome::SetStepped(ProposalState::Applying, made));
        }
        out.events.push(Event::ProposalEnded {
            id,
            state: ProposalState::Executed,
            by: Some(progress.operator.clone()),
            comment: progress.comment.clone(),
            result: Some(format!("{} made", counted(set.changes.len(), "change was", "changes were")).into()),
        });
        Ok(AdminOutcome::SetStepped(ProposalState::Executed, made))
    }

    /// The audit entry of a step: by the approver, on behalf of the maker, with the name of the set.
    pub(crate) fn stepped(
        &self,
        id: u64,
        outcome: &AdminOutcome,
        by: &mut AuditActor,
        out: &Decision,
    ) -> Option<(Change, Option<Box<str>>)> {
        let proposal = self.approvals.get(id)?;
        let (set, progress) = (proposal.set()?, self.approvals.progress(id)?);
        let command = &set.changes[progress.made as usize].command;
        *by = AuditActor {
            operator: progress.operator.clone(),
            known_by: progress.known_by.clone(),
            address: progress.address.clone(),
            on_behalf_of: Some(proposal.maker.clone()),
            action: self.action_of(command).name().into(),
            reason: Some(command.reason().map_or_else(|| proposal.reason.clone(), Into::into)),
        };
        let mut change = Change::of(command, self);
        let (number, all) = (progress.made + 1, set.changes.len());
        change.what = clip_before(&change.what, &format!(", by change set {id}, {number} of {all}"));
        let AdminOutcome::SetStepped(_, made) = outcome else { return None };
        let Some(made) = made else {
            let why = out.events.iter().find_map(|event| match event {
                Event::ChangeSetStopped { why, .. } => Some(why.clone()),
                _ => None,
            });
            return Some((change, why));
        };
        // A change that is already in effect also has its entry, because the set counts it as made.
        Some((change.clone().made(made).unwrap_or(change), None))
    }

    /// The result of a set that ends early.
    pub(crate) fn result_of_stopped(&self, proposal: &Proposal) -> Option<Box<str>> {
        Some(made_of(self.approvals.progress(proposal.id)?, proposal.set()?).into())
    }

    /// The next change of a set that is being applied.
    pub fn next_of_set(&self, id: u64) -> Option<&AdminCommand> {
        let progress = self.approvals.progress(id)?;
        Some(&self.approvals.get(id)?.set()?.changes.get(progress.made as usize)?.command)
    }

    /// The action of a change, or of each change of a set.
    pub fn actions_of(&self, command: &AdminCommand) -> Vec<AdminAction> {
        let mut actions: Vec<_> = command.parts().map(|part| self.action_of(part)).collect();
        actions.sort_unstable();
        actions.dedup();
        actions
    }
}

/// The progress of a set as text.
fn made_of(progress: &ChangeSetProgress, set: &ChangeSet) -> String {
    format!("{} of {} changes were made", progress.made, set.changes.len())
}

fn at_change(at: usize, refusal: AdminRefusal) -> AdminRefusal {
    AdminRefusal::ChangeSetChange { number: at as u32 + 1, refusal: Box::new(refusal) }
}
