//! Operators, who decides about whose proposals, and the audit trail: every entry follows from the one before and from
//! the record that it is in.

use std::collections::BTreeMap;

use upesi_ledger::{Event, Ledger, ProposalState, Record, Trail};

use super::books::Finding;
use super::scheme::SchemeBooks;

/// What the auditor knows of operators.
#[derive(Debug)]
pub(super) struct OperatorBooks {
    trail: Trail,
    /// The number of each operator's next credential.
    operators: BTreeMap<Box<str>, u32>,
    /// Who made the proposals that wait.
    proposals: BTreeMap<u64, Box<str>>,
}

impl OperatorBooks {
    pub(super) fn of(ledger: &Ledger) -> Self {
        let operators = ledger.operators().iter();
        let operators = operators.map(|one| (one.name.clone(), one.next_credential)).collect();
        let proposals = ledger.approvals().pending();
        let proposals = proposals.map(|proposal| (proposal.id, proposal.maker.clone())).collect();
        Self { trail: ledger.trail(), operators, proposals }
    }

    /// Enters a record's entry of the audit trail and its changes of operators.
    pub(super) fn enter(
        &mut self,
        seq: u64,
        record: &Record<'_>,
        scheme: &SchemeBooks,
        findings: &mut Vec<String>,
    ) -> Finding {
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
                            "operator {name} has credential {} where {next} is next",
                            credential.id
                        ));
                    }
                    *next += 1;
                }
                Event::CredentialRemoved { name, .. } => {
                    self.operators.get(name).ok_or_else(|| unknown(name))?;
                }
                Event::ProposalMade(proposal) => {
                    self.proposals.insert(proposal.id, proposal.maker.clone());
                }
                Event::ProposalEnded { id, state, by, .. } => {
                    let maker = self.proposals.remove(id);
                    let maker = maker.ok_or_else(|| format!("approval {id} ends, but did not wait"))?;
                    let is_right = match (state, by) {
                        (ProposalState::Pending, _) => false,
                        (ProposalState::Expired, by) => by.is_none(),
                        (ProposalState::Withdrawn, by) => by.as_ref() == Some(&maker),
                        (_, by) => by.as_ref().is_some_and(|by| *by != maker),
                    };
                    if !is_right {
                        findings.push(format!("record {seq}: approval {id} was decided by the wrong person"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
