//! Operators' actions, each with its entry in the audit trail. Effect and entry are in one record.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use upesi_types::Timestamp;

use crate::base::ids::CallbackKey;
use crate::core::decision::{Decision, Reply};
use crate::core::event::Event;
use crate::core::facts::Facts;
use crate::core::state::Ledger;
use crate::operators::admin_command::AdminCommand;
use crate::operators::outcome::AdminOutcome;
use crate::operators::proposal::Proposal;
use crate::operators::proposal_state::ProposalState;
use crate::operators::trail::{Attribution, AuditEntry, clip, clip_before};
use crate::rules::money::expire::Expire;
use crate::rules::operators::approvals::Verdict;
use crate::rules::operators::change::Change;
use crate::rules::operators::change_sets::ApplyNext;
use crate::rules::operators::entrance::Entrance;

/// An operator's action or attempt, with the operator who is responsible.
#[derive(Clone, Debug)]
pub struct Act {
    /// The operator, and how the operator was authenticated.
    pub by: Attribution,
    /// The action.
    pub deed: Deed,
    /// Whether no change needs a second person, regardless of the policy.
    pub is_alone: bool,
}

/// An operator's action, completed or rejected.
#[derive(Clone, Debug)]
pub enum Deed {
    /// A change of the ledger, or the proposal of a change that needs a second person.
    Change(AdminCommand),
    /// The decision about a proposal.
    Verdict(Verdict),
    /// The next change of an approved set. Its entry names the operators who proposed and approved the set.
    ApplyNext(ApplyNext),
    /// A user's own login action.
    Enter(Entrance),
    /// The end of a reservation.
    Expire(Expire),
    /// Redelivery of parked callbacks.
    Redeliver(Vec<CallbackKey>),
    /// A change outside the ledger, which is made once the entry is durable.
    Elsewhere(Change),
    /// A rejected attempt.
    Refused {
        /// The object of the attempted change.
        object: Box<str>,
        /// The reason for the rejection.
        why: Box<str>,
    },
}

impl Deed {
    /// The reason of the action, if the action itself contains one.
    pub fn reason(&self) -> Option<Box<str>> {
        match self {
            Self::Change(command) => command.reason().map(Into::into),
            Self::Expire(expire) => Some(expire.reason.clone()),
            Self::Verdict(verdict) => verdict.comment.clone(),
            Self::ApplyNext(_)
            | Self::Enter(_)
            | Self::Redeliver(_)
            | Self::Elsewhere(_)
            | Self::Refused { .. } => None,
        }
    }
}

impl Ledger {
    /// Decides the action, without its audit entry.
    pub(crate) fn decide_deed(&self, act: &Act, facts: &Facts<'_>, out: &mut Decision) {
        match &act.deed {
            Deed::Change(command) if !act.is_alone && self.needs_second(&act.by.operator, command) => {
                let reply = self.decide_propose(&act.by, command, facts, out);
                out.answer(reply);
            }
            Deed::Change(command) => self.decide_change(command, facts, out),
            Deed::Verdict(verdict) => {
                let reply = self.decide_verdict(&act.by, verdict, facts, out);
                out.answer(reply);
            }
            Deed::ApplyNext(next) => {
                let reply = self.decide_apply_next(next, facts, out);
                out.answer(reply);
            }
            Deed::Enter(entrance) => {
                let reply = self.decide_entrance(entrance, facts.now(), out);
                out.answer(reply);
            }
            Deed::Expire(expire) => self.decide_expire(expire, facts, out),
            Deed::Redeliver(keys) => self.decide_redeliver(keys, out),
            Deed::Elsewhere(_) | Deed::Refused { .. } => {
                out.reply = Reply::Admin(Ok(AdminOutcome::Done));
            }
        }
    }

    /// Appends the audit entry if an action was made, or an attempt was rejected before it reached the ledger. A
    /// rejection by the ledger's own rules adds no entry here.
    pub(crate) fn record_act(&self, act: &Act, now: Timestamp, out: &mut Decision) {
        let Reply::Admin(Ok(outcome)) = &out.reply else { return };
        let mut by = act.by.clone();
        let (change, refused) = match &act.deed {
            Deed::Change(command) => match outcome {
                // The same change was already proposed.
                AdminOutcome::Proposed(_) if out.events.is_empty() => return,
                outcome => (Change::of(command, self).made(outcome), None),
            },
            // The set is already being applied.
            Deed::Verdict(_) if out.events.is_empty() => return,
            Deed::Verdict(verdict) => {
                let Some(proposal) = self.approvals.get(verdict.id) else { return };
                let (change, refused) = self.judged(proposal, outcome, out, &mut by);
                (Some(change), refused)
            }
            Deed::ApplyNext(next) => {
                let Some((change, refused)) = self.stepped(next.id, outcome, &mut by, out) else { return };
                (Some(change), refused)
            }
            Deed::Enter(entrance) => (Change::of_entrance(entrance, self).made(outcome), None),
            Deed::Expire(expire) => (Change::of_expire(expire).made(outcome), None),
            Deed::Redeliver(keys) => (Change::of_redelivery(keys.len()).made(outcome), None),
            Deed::Elsewhere(change) => (Some(change.clone()), None),
            Deed::Refused { object, why } => {
                (Some(Change::new(&**object, "".to_owned(), "".to_owned())), Some(clip(why.clone())))
            }
        };
        let Some(Change { what, from, to }) = change else { return };
        let Attribution { operator, known_by, address, on_behalf_of, action, reason } = by;
        let by = Attribution {
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
        out.events.push(Event::OperatorActed(Box::new(entry)));
    }

    /// The audit entry of a decision about a proposal. An approval's entry is the entry of the change, made by the
    /// second person on behalf of the maker.
    fn judged(
        &self,
        proposal: &Proposal,
        outcome: &AdminOutcome,
        out: &Decision,
        by: &mut Attribution,
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
