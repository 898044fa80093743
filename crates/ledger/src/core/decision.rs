//! The decision about a command: events, callbacks and the reply.

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::FspId;

use crate::base::ids::ParticipantId;
use crate::base::refusal::Refusal;
use crate::core::actor::Actor;
use crate::core::callback::{Callback, CallbackContent, ResourceId, Subject};
use crate::core::event::Event;
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::operators::trail::{AuditActor, AuditEntry};

/// The decision about a command. It is reused from command to command, so that deciding allocates little.
#[derive(Debug, Default)]
pub struct Decision {
    /// The actor that caused the command.
    pub actor: Actor,
    /// The state changes.
    pub events: Vec<Event>,
    pub callbacks: Vec<Callback>,
    /// The reply that is sent once the record is durable.
    pub reply: Reply,
}

/// The reply to the sender of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reply {
    /// Accepted. Any further answer is sent by callback.
    #[default]
    Accepted,
    /// The sender is not a participant, so no callback could reach it. The command is rejected immediately, and nothing
    /// was decided.
    UnknownSender(FspId),
    /// The transfer is not in memory. Query the archive and decide again with its answer. Nothing was decided.
    NeedsArchive,
    /// A change of the ledger was made or rejected.
    Admin(Result<AdminOutcome, AdminRefusal>),
    /// An operator's action was made or rejected.
    Audited(Box<AuditedReply>),
}

/// The reply to an operator's action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditedReply {
    Made {
        outcome: AdminOutcome,
        /// The entry that was recorded in the audit trail; `None` if nothing was changed.
        entry: Option<AuditEntry>,
    },
    /// The action was rejected. Nothing was recorded.
    Rejected {
        refusal: AdminRefusal,
        /// The operator, with the name of the action.
        by: AuditActor,
        /// The object that the action would have changed.
        object: Box<str>,
    },
}

impl Reply {
    /// The outcome of an operator's command or action; `None` if this is the reply to another command.
    pub fn into_outcome(self) -> Option<Result<AdminOutcome, AdminRefusal>> {
        match self {
            Self::Admin(outcome) => Some(outcome),
            Self::Audited(acted) => match *acted {
                AuditedReply::Made { outcome, .. } => Some(Ok(outcome)),
                AuditedReply::Rejected { refusal, .. } => Some(Err(refusal)),
            },
            Self::Accepted | Self::UnknownSender(_) | Self::NeedsArchive => None,
        }
    }
}

impl Decision {
    /// Empties the decision for the next command.
    pub fn clear(&mut self) {
        self.events.clear();
        self.callbacks.clear();
        self.reply = Reply::Accepted;
    }

    /// Whether the decision requires no journal record.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.callbacks.is_empty()
    }

    /// Replies to an operator. A rejection discards all changes.
    pub(crate) fn answer(&mut self, reply: Result<AdminOutcome, AdminRefusal>) {
        if reply.is_err() {
            self.clear();
        }
        self.reply = Reply::Admin(reply);
    }

    /// Owes a callback about a transfer.
    pub(crate) fn notify(
        &mut self,
        target: ParticipantId,
        transfer: impl Into<ResourceId>,
        content: CallbackContent,
    ) {
        self.callbacks.push(Callback { target, subject: Subject::transfer(transfer), content });
    }

    pub(crate) fn notify_error(
        &mut self,
        target: ParticipantId,
        transfer: impl Into<ResourceId>,
        refusal: Refusal,
    ) {
        self.notify(target, transfer, CallbackContent::Error(refusal.into()));
    }
}
