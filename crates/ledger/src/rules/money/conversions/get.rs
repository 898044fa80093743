//! `GET /fxTransfers/{ID}`: a party queries the state of an FX transfer.

use upesi_types::ConversionId;

use super::GetConversion;
use crate::base::refusal::Refusal;
use crate::core::callback::{CallbackContent, StateMethod};
use crate::core::decision::{Decision, Reply};
use crate::core::facts::{ArchiveLookupNeeded, Facts};
use crate::core::state::Ledger;
use crate::money::conversion::ConversionState;

impl Ledger {
    /// The parties are the initiator and the FXP, not the parties of the determining transfer.
    pub(super) fn decide_conversion_get(&self, get: &GetConversion, facts: &Facts<'_>, out: &mut Decision) {
        let Some(requester) = self.participant_named(&get.source) else {
            return out.reply = Reply::UnknownSender(get.source);
        };
        let found = match self.find_conversion(get.conversion.id().map(ConversionId::new), facts) {
            Err(ArchiveLookupNeeded) => return out.reply = Reply::NeedsArchive,
            Ok(found) => found,
        };
        let content = match found {
            _ if !requester.is_active => {
                CallbackContent::Error(Refusal::ParticipantInactive { name: requester.name }.into())
            }
            None => CallbackContent::Error(Refusal::ConversionUnknown.into()),
            Some(conversion) if !conversion.has_party(requester.id) => {
                CallbackContent::Error(Refusal::NotParty.into())
            }
            Some(conversion) => match &conversion.state {
                // Another scheme receives the error callback, which it understands as a failure.
                ConversionState::Aborted { cause, .. } if get.is_proxied => {
                    CallbackContent::Error(cause.clone())
                }
                _ => CallbackContent::State(StateMethod::Put, conversion.view()),
            },
        };
        out.tell_of_conversion(requester.id, get.conversion.clone(), content);
    }
}
