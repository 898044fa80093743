//! Operators, decisions about their proposals, and the audit trail: every entry follows from the previous one and from
//! its record.

use std::collections::BTreeMap;

use upesi_ledger::{Event, Ledger, ProposalState, Record, Trail};

use super::entry::CheckResult;
use super::scheme::SchemeBooks;

/// The auditor's data about operators.
#[derive(Debug)]
pub(super) struct OperatorBooks {
    trail: Trail,
    /// The number of each operator's next credential.
    operators: BTreeMap<Box<str>, u32>,
    /// The last interval whose code each user has used.
    codes: BTreeMap<Box<str>, u64>,
    /// Proposers of pending proposals.
    proposals: BTreeMap<u64, Box<str>>,
    /// The change sets that were approved and have not ended.
    sets: BTreeMap<u64, AppliedSet>,
}

/// A change set that is being applied, or has stopped.
#[derive(Debug, Default)]
struct AppliedSet {
    /// Its last approver.
    approver: Box<str>,
    made: u32,
}

impl OperatorBooks {
    pub(super) fn of(ledger: &Ledger) -> Self {
        let operators = ledger.operators().iter();
        let operators = operators.map(|one| (one.name.clone(), one.next_credential)).collect();
        let people =
            ledger.operators().iter().filter_map(|one| Some((one.name.clone(), one.person?.code_step)));
        let codes = people.collect();
        let approvals = ledger.approvals();
        let of_set = |id| {
            let progress = approvals.progress(id)?;
            Some((id, AppliedSet { approver: progress.operator.clone(), made: progress.made }))
        };
        let sets = approvals.pending().filter_map(|proposal| of_set(proposal.id)).collect();
        let proposals = approvals.pending().map(|proposal| (proposal.id, proposal.maker.clone())).collect();
        Self { trail: ledger.trail(), operators, codes, proposals, sets }
    }

    /// Enters a record's entry of the audit trail and its changes of operators.
    pub(super) fn enter(
        &mut self,
        seq: u64,
        record: &Record<'_>,
        scheme: &SchemeBooks,
        findings: &mut Vec<String>,
    ) -> CheckResult {
        let unknown = |name: &str| format!("operator {name} does not exist");
        for (index, event) in record.events.iter().enumerate() {
            match event {
                Event::OperatorActed(entry) => {
                    let (number, count) = (entry.number, self.trail.count);
                    if number != count + 1 {
                        return Err(format!("entry {number} of the audit trail follows entry {count}"));
                    }
                    if index + 1 != record.events.len() {
                        findings.push(format!(
                            "record {seq}: entry {number} of the audit trail is not its last event"
                        ));
                    }
                    if entry.chain != entry.chain_after(&self.trail.head, &record.events) {
                        findings.push(format!(
                            "record {seq}: entry {number} of the audit trail does not follow from the entry before it \
                             and from the record"
                        ));
                    }
                    self.trail = Trail { count: number, head: entry.chain };
                }
                Event::OperatorSet { name, participant, .. } => {
                    participant.map(|id| scheme.check_participant(id)).transpose()?;
                    self.operators.entry(name.clone()).or_insert(1);
                }
                Event::CredentialAdded { name, credential } => {
                    let next = self.operators.get_mut(name).ok_or_else(|| unknown(name))?;
                    if credential.id != *next {
                        return Err(format!(
                            "operator {name} has credential number {} instead of {next}",
                            credential.id
                        ));
                    }
                    *next += 1;
                }
                Event::PersonSet { .. } | Event::CodeUsed { .. } => self.enter_code(event)?,
                Event::CredentialRemoved { name, .. } => {
                    self.operators.get(name).ok_or_else(|| unknown(name))?;
                }
                Event::ProposalMade(proposal) => {
                    self.proposals.insert(proposal.id, proposal.maker.clone());
                }
                Event::ChangeSetApproved { .. }
                | Event::ChangeSetStepped { .. }
                | Event::ChangeSetStopped { .. } => {
                    findings.extend(self.enter_set(seq, event, record.events.last())?);
                }
                Event::ProposalEnded { id, state, by, .. } => {
                    self.sets.remove(id);
                    let maker = self.proposals.remove(id);
                    let maker = maker.ok_or_else(|| format!("approval {id} ends, but was not pending"))?;
                    let is_right = match (state, by) {
                        (ProposalState::Pending | ProposalState::Applying | ProposalState::Stopped, _) => {
                            false
                        }
                        (ProposalState::Expired, by) => by.is_none(),
                        (ProposalState::Withdrawn, by) => by.as_ref() == Some(&maker),
                        (_, by) => by.as_ref().is_some_and(|by| *by != maker),
                    };
                    if !is_right {
                        findings.push(format!(
                            "record {seq}: approval {id} was decided by an operator who must not decide it"
                        ));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Enters the approval of a change set, or the outcome of one of its changes. Each must come in its turn, with an
    /// entry that names the set and both operators. Returns the fault.
    fn enter_set(
        &mut self,
        seq: u64,
        event: &Event,
        entry: Option<&Event>,
    ) -> Result<Option<String>, String> {
        let (id, number) = match event {
            Event::ChangeSetApproved { id, operator, .. } => {
                let maker = self.proposals.get(id);
                let maker = maker.ok_or_else(|| format!("approval {id} is applied, but was not pending"))?;
                self.sets.entry(*id).or_default().approver = operator.clone();
                let is_own = maker == operator;
                return Ok(is_own.then(|| format!("record {seq}: approval {id} was approved by its maker")));
            }
            Event::ChangeSetStepped { id, number } | Event::ChangeSetStopped { id, number, .. } => {
                (id, number)
            }
            _ => return Ok(None),
        };
        let set = self.sets.get_mut(id);
        let set = set.ok_or_else(|| format!("approval {id} is applied, but was not approved"))?;
        if *number != set.made + 1 {
            return Err(format!("change {number} of approval {id} follows change {}", set.made));
        }
        if matches!(event, Event::ChangeSetStepped { .. }) {
            set.made = *number;
        }
        let is_named = matches!(entry, Some(Event::OperatorActed(entry))
            if entry.object.contains(&format!(", by change set {id}, {number} of "))
                && entry.by.operator == set.approver
                && entry.by.on_behalf_of.as_ref() == self.proposals.get(id));
        let text = || {
            format!(
                "record {seq}: change {number} of approval {id} has no audit entry with the set, its proposer and its approver"
            )
        };
        Ok((!is_named).then(text))
    }

    /// Enters a user's password, or the use of a code. Each must have a later number than the previous one.
    fn enter_code(&mut self, event: &Event) -> CheckResult {
        match event {
            Event::PersonSet { name, person } => {
                let next = self.operators.get_mut(name);
                let next = next.ok_or_else(|| format!("operator {name} does not exist"))?;
                if person.id != *next {
                    return Err(format!(
                        "operator {name} has password number {} instead of {next}",
                        person.id
                    ));
                }
                *next += 1;
                self.codes.insert(name.clone(), person.code_step);
            }
            Event::CodeUsed { name, code_step } => {
                let last = self.codes.get_mut(name);
                let last = last.ok_or_else(|| format!("operator {name} has no second factor"))?;
                if *code_step <= *last {
                    return Err(format!(
                        "operator {name} used the code of interval {code_step} after the code of interval {last}"
                    ));
                }
                *last = *code_step;
            }
            _ => {}
        }
        Ok(())
    }
}
