//! `GET /bulkTransfers/{ID}`: a party queries the state of a bulk transfer.

use alloc::boxed::Box;

use upesi_types::BulkId;

use super::GetBulk;
use crate::base::refusal::Refusal;
use crate::core::callback::CallbackContent;
use crate::core::decision::{Decision, Reply};
use crate::core::facts::{ArchiveLookupNeeded, DecisionInput};
use crate::core::state::Ledger;

impl Ledger {
    /// Owes the state: all items to the payer, only the requested items to the payee.
    pub(super) fn decide_bulk_get(&self, get: &GetBulk, facts: &DecisionInput<'_>, out: &mut Decision) {
        let Some(requester) = self.participant_named(&get.source) else {
            return out.reply = Reply::UnknownSender(get.source);
        };
        let found = match self.find_bulk(get.bulk.id().map(BulkId::new), facts) {
            Err(ArchiveLookupNeeded) => return out.reply = Reply::NeedsArchive,
            Ok(found) => found,
        };
        let refusal = match found {
            _ if !requester.is_active => Refusal::ParticipantInactive { name: requester.name },
            None => Refusal::BulkUnknown,
            Some(bulk) if !bulk.has_party(requester.id) => Refusal::NotParty,
            Some(bulk) => {
                let view = CallbackContent::BulkState(Box::new(bulk.view(requester.id)));
                return out.notify_of_bulk(requester.id, bulk.id.id(), view);
            }
        };
        out.notify_bulk_error(requester.id, get.bulk.clone(), refusal);
    }
}
