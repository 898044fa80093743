//! Change sets: sometimes an operator proposes several changes as one set, and a second operator approves it. The hub
//! applies the changes one by one, whatever happens in between.
//!
//! All random numbers of this module come from their own stream.

use upesi_journal::sim_disk::Random;
use upesi_ledger::command::{
    ApplyNext, AuditedCommand, Authority, OperatorAction, ProposalDecision, ProposalDecisionKind,
};
use upesi_ledger::{
    AdminCommand, AdminOutcome, AdminRefusal, AuditActor, ChangeSet, Command, ProposalState, SetChange,
};

use super::World;
use super::treasury::is_settlement;

/// Sets the random stream of change sets apart from a seed's other streams.
const STREAM: u64 = 0x6368_616e_6765_7365;
/// One change in this many that may be part of a set is proposed as one.
const SET_ONE_IN: u64 = 4;
const MAKER: &str = "amina";
const APPROVER: &str = "brian";

/// The current change set of the operators.
#[derive(Debug)]
pub(super) struct ChangeSets {
    random: Random,
    changes: Vec<AdminCommand>,
    approval: u64,
}

impl ChangeSets {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed ^ STREAM), changes: Vec::new(), approval: 0 }
    }
}

fn act(operator: &str, action: OperatorAction) -> Command {
    let by = AuditActor {
        operator: operator.into(),
        known_by: "token 1".into(),
        address: None,
        on_behalf_of: None,
        action: "change.set".into(),
        reason: Some("as the world has it".into()),
    };
    Command::Audited(Box::new(AuditedCommand { by, action, authority: Authority::ALL }))
}

fn words(refusal: &AdminRefusal) -> String {
    format!("{refusal:?}")
}

fn verdict(id: u64, kind: ProposalDecisionKind) -> Command {
    act(APPROVER, OperatorAction::Decide(ProposalDecision { id, kind, comment: None }))
}

fn apply_next(id: u64) -> Command {
    act("hub", OperatorAction::ApplyNext(ApplyNext { id, words }))
}

/// Changes whose outcome is checked by the ledger alone.
const fn may_be_in_set(command: &AdminCommand) -> bool {
    is_settlement(command)
        || matches!(
            command,
            AdminCommand::SetEndpoint { .. }
                | AdminCommand::SetParticipantActivity { .. }
                | AdminCommand::SetAccountActivity { .. }
        )
}

impl World {
    /// Returns the drawn change, or the proposal of a set with it. A set that switches something off also switches it
    /// on again.
    pub(super) fn draw_set(&mut self, command: Command) -> Command {
        let Command::Admin(first) = &command else { return command };
        if !may_be_in_set(first) || !self.change_sets.random.one_in(SET_ONE_IN) {
            return command;
        }
        let mut changes = vec![first.clone()];
        let is_switched_off = matches!(
            first,
            AdminCommand::SetParticipantActivity { is_active: false, .. }
                | AdminCommand::SetAccountActivity { is_active: false, .. }
        );
        if is_switched_off && let Some(Command::Admin(on)) = self.operator.next.back() {
            changes.push(on.clone());
        }
        let parts = changes.iter().cloned().map(SetChange::new).collect();
        let set = AdminCommand::ChangeSet(ChangeSet { name: "world".into(), changes: parts });
        if !self.hub.as_ref().is_some_and(|hub| hub.ledger().needs_second(MAKER, &set)) {
            return command;
        }
        if changes.len() > 1 {
            self.operator.next.pop_back();
        }
        self.change_sets.changes = changes;
        act(MAKER, OperatorAction::Change(set))
    }

    /// Notes the changes of a proposal before it is submitted.
    pub(super) fn note_proposed(&mut self, act: &AuditedCommand) {
        if let OperatorAction::Change(command) = &act.action {
            command.parts().for_each(|part| self.auditor.outside.treasurer.asked.ask(part));
        }
    }

    /// An operator gets an answer about a set, and takes the next step.
    pub(super) fn set_told(&mut self, outcome: Result<AdminOutcome, AdminRefusal>) {
        let settling = self.change_sets.changes.iter().find(|change| is_settlement(change)).cloned();
        let next = match outcome {
            Ok(AdminOutcome::Proposed(id)) => Some(verdict(id, ProposalDecisionKind::Approve(words))),
            Ok(AdminOutcome::ProposalEnded(id, ProposalState::Applying, _)) => {
                self.change_sets.approval = id;
                Some(apply_next(id))
            }
            Ok(AdminOutcome::SetStepped(state, _)) => {
                if let Some(settling) = settling {
                    self.settlement_told(&settling);
                }
                let id = self.change_sets.approval;
                self.counts.change_sets += u64::from(state == ProposalState::Executed);
                self.counts.change_sets_stopped += u64::from(state == ProposalState::Stopped);
                match state {
                    ProposalState::Applying => Some(apply_next(id)),
                    ProposalState::Stopped => Some(verdict(id, ProposalDecisionKind::Reject)),
                    _ => None,
                }
            }
            Ok(_) => None,
            Err(refusal) => {
                self.count_refusal(settling.is_some(), &refusal);
                self.say(format_args!("operator's set is rejected: {refusal:?}"));
                None
            }
        };
        // If the answer to a step was lost, the hub has made the step, and rejects its repetition. Sets may overlap, so
        // the step may belong to an earlier set.
        self.read_settlements();
        if let Some(next) = next {
            self.operator.next.push_front(next);
        }
    }
}
