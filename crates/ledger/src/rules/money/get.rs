//! Decides `GET /transfers/{ID}`: a party queries a transfer, or a participant queries its deposit or withdrawal.

use upesi_types::FspId;

use crate::base::refusal::Refusal;
use crate::core::callback::{CallbackContent, ResourceId, StateMethod};
use crate::core::decision::{Decision, Reply};
use crate::core::facts::{ArchiveLookupNeeded, DecisionInput};
use crate::core::state::Ledger;
use crate::money::transfer::TransferState;

/// A query as parsed by the gateway.
#[derive(Clone, Debug)]
pub struct Get {
    /// The id in the path.
    pub transfer: ResourceId,
    /// `FSPIOP-Source`.
    pub source: FspId,
    /// Whether an inter-scheme proxy forwarded the query (`FSPIOP-Proxy`).
    pub is_proxied: bool,
}

impl Ledger {
    pub(crate) fn decide_get(&self, get: &Get, facts: &DecisionInput<'_>, out: &mut Decision) {
        let Some(requester) = self.participant_named(&get.source) else {
            return out.reply = Reply::UnknownSender(get.source);
        };
        let found = match self.find(&get.transfer, facts) {
            Err(ArchiveLookupNeeded) => return out.reply = Reply::NeedsArchive,
            Ok(found) => found,
        };
        let refuse =
            |out: &mut Decision, refusal| out.notify_error(requester.id, get.transfer.clone(), refusal);
        if !requester.is_active {
            return refuse(out, Refusal::ParticipantInactive { name: requester.name });
        }
        match found {
            None => match get.transfer.id().and_then(|id| self.funds(id)) {
                None => refuse(out, Refusal::TransferUnknown),
                Some(funds) if funds.participant != requester.id => refuse(out, Refusal::NotParty),
                Some(funds) => {
                    out.notify(
                        requester.id,
                        funds.id,
                        CallbackContent::State(StateMethod::Put, funds.view()),
                    );
                }
            },
            Some(transfer) if !transfer.has_party(requester.id) => refuse(out, Refusal::NotParty),
            Some(transfer) => {
                let content = match &transfer.state {
                    // Another scheme receives the error callback, which it understands as a failure.
                    TransferState::Aborted(end) if get.is_proxied => {
                        CallbackContent::Error(end.cause.clone())
                    }
                    _ => CallbackContent::State(StateMethod::Put, transfer.view()),
                };
                out.notify(requester.id, transfer.id, content);
            }
        }
    }
}
