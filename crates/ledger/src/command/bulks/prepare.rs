//! `POST /bulkTransfers`: take a bulk, or refuse it as a whole.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use upesi_types::{Present, TransferId};

use super::{ArchiveLookupNeeded, PrepareBulk};
use crate::Ledger;
use crate::bulk::{AskedItem, Bulk, BulkItem, BulkState, ItemState};
use crate::callback::CallbackContent;
use crate::command::{Decision, Reply};
use crate::event::Event;
use crate::facts::{Archived, Facts};
use crate::participant::{Participant, ParticipantId};
use crate::refusal::{Cause, Refusal};

impl Ledger {
    pub(super) fn decide_bulk_prepare(&self, prepare: &PrepareBulk, facts: &Facts<'_>, out: &mut Decision) {
        let Some(sender) = self.participant_id(&prepare.source) else {
            return out.reply = Reply::UnknownSender(prepare.source);
        };
        match self.find_bulk(Some(prepare.id), facts) {
            Err(ArchiveLookupNeeded) => out.reply = Reply::NeedsArchive,
            Ok(Some(original)) => answer_duplicate(prepare, sender, original, out),
            // The ids of its items must be looked up even if this bulk was in memory a moment ago.
            Ok(None) => self.take_bulk(prepare, sender, facts, out),
        }
    }

    /// A bulk that is taken reserves nothing yet: its items are decided by its steps. From here on their ids are taken.
    fn take_bulk(&self, prepare: &PrepareBulk, sender: ParticipantId, facts: &Facts<'_>, out: &mut Decision) {
        let now = facts.now();
        let payer = self.participant_named(&prepare.payer);
        let payee = self.participant_named(&prepare.payee);
        let mut bulk = Box::new(Bulk {
            id: prepare.id,
            quote: prepare.quote,
            payer: payer.map(|payer| payer.id),
            payee: payee.map(|payee| payee.id),
            expires_at: prepare.expires_at,
            received_at: now,
            prepare_seq: self.last_seq() + 1,
            prepare_fingerprint: prepare.fingerprint,
            extensions: None,
            items: Vec::new(),
            answer: None,
            results: BTreeMap::new(),
            state: BulkState::Received,
        });
        match self.check_bulk(prepare, (payer, payee), facts.present) {
            Ok(()) => {
                bulk.extensions = prepare.extensions.clone();
                bulk.items = prepare.items.iter().map(|item| self.new_item(item, facts.archived)).collect();
            }
            Err(refusal) => {
                let cause = Cause::Hub(refusal);
                out.tell_of_bulk(sender, prepare.id.id(), CallbackContent::Error(cause.clone()));
                bulk.state = BulkState::Rejected { cause: Some(cause), at: now };
            }
        }
        out.events.push(Event::BulkReceived(bulk));
    }

    /// An item whose id was used before is refused at once: whatever it was used for.
    fn new_item(&self, (id, asked): &(TransferId, AskedItem), archived: &Archived) -> BulkItem {
        let is_archived = matches!(archived, Archived::Bulk { transfers, .. } if transfers.contains(id));
        if is_archived || self.transfer(*id).is_some() || self.is_item_of_bulk(*id) {
            let state = ItemState::Refused(Refusal::BulkItemKnown.into());
            return BulkItem { transfer: *id, asked: None, state };
        }
        BulkItem { transfer: *id, asked: Some(Box::new(asked.clone())), state: ItemState::Waiting }
    }

    /// The rules of a bulk as a whole, in the order in which they are reported.
    fn check_bulk(
        &self,
        prepare: &PrepareBulk,
        (payer, payee): (Option<&Participant>, Option<&Participant>),
        present: Present,
    ) -> Result<(), Refusal> {
        if prepare.source != prepare.payer {
            return Err(Refusal::SourceNotPayer);
        }
        self.check_expiration(prepare.expires_at, present)?;
        if prepare.payer.eq_ignore_case(&prepare.payee) {
            return Err(Refusal::BulkPartiesEqual);
        }
        let is_active = |found: Option<&Participant>| found.is_some_and(|participant| participant.is_active);
        if !is_active(payer) {
            return Err(Refusal::BulkPayerUnknown { name: prepare.payer });
        }
        if !is_active(payee) {
            return Err(Refusal::BulkPayeeUnknown { name: prepare.payee });
        }
        if prepare.destination.is_some_and(|destination| !destination.eq_ignore_case(&prepare.payee)) {
            return Err(Refusal::DestinationNotPayee);
        }
        Ok(())
    }
}

/// A resend is told how the bulk came out, once it has; a modified request is refused; the original is untouched either
/// way.
fn answer_duplicate(prepare: &PrepareBulk, sender: ParticipantId, original: &Bulk, out: &mut Decision) {
    let id = prepare.id.id();
    if original.prepare_fingerprint != prepare.fingerprint {
        return out.tell_bulk_error(sender, id, Refusal::Modified);
    }
    if prepare.source != prepare.payer {
        return out.tell_bulk_error(sender, id, Refusal::SourceNotPayer);
    }
    match &original.state {
        BulkState::Rejected { cause: Some(cause), .. } if original.items.is_empty() => {
            out.tell_of_bulk(sender, id, CallbackContent::Error(cause.clone()));
        }
        // Its end tells.
        _ if original.is_live() => {}
        _ => {
            out.tell_of_bulk(sender, id, CallbackContent::BulkState(Box::new(original.view(sender))));
        }
    }
}
