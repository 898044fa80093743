//! `GET /fxTransfers/{ID}`: a party asks where a conversion stands.

use upesi_types::ConversionId;

use super::{ArchiveLookupNeeded, GetConversion};
use crate::Ledger;
use crate::callback::{CallbackContent, StateMethod};
use crate::command::{Decision, Reply};
use crate::conversion::ConversionState;
use crate::facts::Facts;
use crate::refusal::Refusal;

impl Ledger {
    /// Parties are the initiator and the FXP; those of the determining transfer are not.
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
                // Another scheme is told by the callback that it knows for failures.
                ConversionState::Aborted { cause, .. } if get.is_proxied => {
                    CallbackContent::Error(cause.clone())
                }
                _ => CallbackContent::State(StateMethod::Put, conversion.view()),
            },
        };
        out.tell_of_conversion(requester.id, get.conversion.clone(), content);
    }
}
