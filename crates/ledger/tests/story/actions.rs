//! Actions of operators under their names, and decisions of a second operator.

use std::collections::{BTreeMap, BTreeSet};

use upesi_admin::ErrorName;
use upesi_admin::rejection::detail;
use upesi_ledger::command::{
    ApplyNext, AuditedCommand, Authority, OperatorAction, ProposalDecision, ProposalDecisionKind,
};
use upesi_ledger::{AdminAction, AdminCommand, AdminRefusal, ApprovalPolicy, AuditActor, Command};

use super::Story;
use super::words::{Parsed, Words};

/// An action of an operator, identified by name only.
pub(super) fn act(operator: &str, action: OperatorAction) -> Command {
    let by = AuditActor {
        operator: operator.into(),
        known_by: "token 1".into(),
        address: None,
        on_behalf_of: None,
        action: "as asked".into(),
        reason: Some("as agreed with the bank".into()),
    };
    Command::Audited(Box::new(AuditedCommand { by, action, authority: Authority::ALL }))
}

fn words_of(refusal: &AdminRefusal) -> String {
    format!("{} {}", ErrorName::of_refusal(refusal).code(), detail(refusal))
}

impl Story {
    /// `by amina STEP`, `approve 1 by brian`, `reject 1 by brian`, `take-back 1 by amina`, `apply 1`.
    pub(super) fn operator_command(&mut self, verb: &str, words: &mut Words) -> Parsed<Option<Command>> {
        let kind = match verb {
            "by" => {
                let (operator, verb) = (words.next("an operator")?, words.next("a step")?);
                let command = self.admin_command(&verb, words)?.ok_or("no step of an operator")?;
                return Ok(Some(act(&operator, OperatorAction::Change(command))));
            }
            "apply" => {
                let id = words.next("an approval")?.parse().map_err(|_| "an approval is a number")?;
                return Ok(Some(act(
                    "the hub",
                    OperatorAction::ApplyNext(ApplyNext { id, words: words_of }),
                )));
            }
            "approve" => ProposalDecisionKind::Approve(words_of),
            "reject" => ProposalDecisionKind::Reject,
            "take-back" => ProposalDecisionKind::Withdraw,
            _ => return Ok(None),
        };
        let by = words.option("by")?.ok_or("by whom?")?;
        let id = words.next("an approval")?.parse().map_err(|_| "an approval is a number")?;
        Ok(Some(act(&by, OperatorAction::Decide(ProposalDecision { id, kind, comment: None }))))
    }

    /// `approval 1 executed`: its state, and its result.
    pub(super) fn approval(&self, words: &mut Words) -> Parsed<(String, String)> {
        let id = words.next("an approval")?.parse().map_err(|_| "an approval is a number")?;
        let approvals = self.twin.live.approvals();
        let found = approvals.get(id).map(|proposal| {
            let result = proposal.end.as_ref().and_then(|end| end.result.as_deref());
            let stopped = approvals.progress(id).and_then(|progress| progress.stopped.as_deref());
            let result = result.or(stopped).map(|result| format!(" {result}")).unwrap_or_default();
            format!("{}{result}", approvals.state_of(proposal).as_str())
        });
        let mut wanted = Vec::new();
        while !words.is_empty() {
            wanted.push(words.next("a word")?);
        }
        Ok((wanted.join(" "), found.unwrap_or("unknown".to_owned())))
    }
}

/// `policy funds.in limit.raise`, with `waive 100 KES`; `policy nothing`.
pub(super) fn policy(words: &mut Words) -> Parsed<AdminCommand> {
    let mut policy = ApprovalPolicy { second: BTreeSet::new(), waived: BTreeMap::new() };
    while !words.is_empty() {
        if words.next_if("waive") {
            let (most, currency) = (words.amount()?, words.currency()?);
            policy.waived.insert(currency, most);
            continue;
        }
        let name = words.next("an action")?;
        if name != "nothing" {
            policy.second.insert(AdminAction::parse(&name).ok_or("no action")?);
        }
    }
    Ok(AdminCommand::SetApprovalPolicy(policy))
}
