//! `GET /fxTransfers/{ID}`: a party queries the state of an FX transfer.

use upesi_types::FxTransferId;

use super::GetFxTransfer;
use crate::base::refusal::Refusal;
use crate::core::callback::{CallbackContent, StateMethod};
use crate::core::decision::{Decision, Reply};
use crate::core::facts::{ArchiveLookupNeeded, DecisionInput};
use crate::core::state::Ledger;
use crate::money::fx_transfer::FxTransferState;

impl Ledger {
    /// The parties are the initiator and the FXP, not the parties of the determining transfer.
    pub(super) fn decide_fx_transfer_get(
        &self,
        get: &GetFxTransfer,
        facts: &DecisionInput<'_>,
        out: &mut Decision,
    ) {
        let Some(requester) = self.participant_named(&get.source) else {
            return out.reply = Reply::UnknownSender(get.source);
        };
        let found = match self.find_fx_transfer(get.fx_transfer.id().map(FxTransferId::new), facts) {
            Err(ArchiveLookupNeeded) => return out.reply = Reply::NeedsArchive,
            Ok(found) => found,
        };
        let content = match found {
            _ if !requester.is_active => {
                CallbackContent::Error(Refusal::ParticipantInactive { name: requester.name }.into())
            }
            None => CallbackContent::Error(Refusal::FxTransferUnknown.into()),
            Some(fx_transfer) if !fx_transfer.has_party(requester.id) => {
                CallbackContent::Error(Refusal::NotParty.into())
            }
            Some(fx_transfer) => match &fx_transfer.state {
                // Another scheme receives the error callback, which it understands as a failure.
                FxTransferState::Aborted { cause, .. } if get.is_proxied => {
                    CallbackContent::Error(cause.clone())
                }
                _ => CallbackContent::State(StateMethod::Put, fx_transfer.view()),
            },
        };
        out.notify_of_fx_transfer(requester.id, get.fx_transfer.clone(), content);
    }
}
