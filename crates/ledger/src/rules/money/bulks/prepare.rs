//! `POST /bulkTransfers`: accepts a bulk transfer or rejects it as a whole.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use upesi_types::{Present, TransferId};

use super::PrepareBulk;
use crate::base::ids::ParticipantId;
use crate::base::refusal::{Cause, Refusal};
use crate::core::callback::CallbackContent;
use crate::core::decision::{Decision, Reply};
use crate::core::event::Event;
use crate::core::facts::{ArchiveLookupNeeded, Archived, DecisionInput};
use crate::core::state::Ledger;
use crate::money::bulk::{AskedItem, Bulk, BulkItem, BulkState, ItemState};
use crate::scheme::participant::Participant;

impl Ledger {
    pub(super) fn decide_bulk_prepare(
        &self,
        prepare: &PrepareBulk,
        facts: &DecisionInput<'_>,
        out: &mut Decision,
    ) {
        let Some(sender) = self.participant_id(&prepare.source) else {
            return out.reply = Reply::UnknownSender(prepare.source);
        };
        match self.find_bulk(Some(prepare.id), facts) {
            Err(ArchiveLookupNeeded) => out.reply = Reply::NeedsArchive,
            Ok(Some(original)) => answer_duplicate(prepare, sender, original, out),
            // The item ids must be looked up even if this bulk transfer was in memory a moment ago.
            Ok(None) => self.take_bulk(prepare, sender, facts, out),
        }
    }

    /// Accepts a bulk transfer. This reserves the item ids but no money: its steps decide the items.
    fn take_bulk(
        &self,
        prepare: &PrepareBulk,
        sender: ParticipantId,
        facts: &DecisionInput<'_>,
        out: &mut Decision,
    ) {
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
        match self.check_bulk(prepare, payer, payee, facts.present) {
            Ok(()) => {
                bulk.extensions = prepare.extensions.clone();
                bulk.items = prepare
                    .items
                    .iter()
                    .map(|(id, asked)| self.new_item(*id, asked, facts.archived))
                    .collect();
            }
            Err(refusal) => {
                let cause = Cause::Hub(refusal);
                out.notify_of_bulk(sender, prepare.id.id(), CallbackContent::Error(cause.clone()));
                bulk.state = BulkState::Rejected { cause: Some(cause), at: now };
            }
        }
        out.events.push(Event::BulkReceived(bulk));
    }

    /// Creates an item. An item whose id was already used for anything is rejected immediately.
    fn new_item(&self, id: TransferId, asked: &AskedItem, archived: &Archived) -> BulkItem {
        let is_archived = matches!(archived, Archived::Bulk { transfers, .. } if transfers.contains(&id));
        let is_known = self.transfer(id).is_some() || self.is_item_of_bulk(id) || self.funds(id).is_some();
        if is_archived || is_known {
            let state = ItemState::Refused(Refusal::BulkItemKnown.into());
            return BulkItem { transfer: id, asked: None, state };
        }
        BulkItem { transfer: id, asked: Some(Box::new(asked.clone())), state: ItemState::Waiting }
    }

    /// Checks the rules for a bulk transfer as a whole. The first violation is reported.
    fn check_bulk(
        &self,
        prepare: &PrepareBulk,
        payer: Option<&Participant>,
        payee: Option<&Participant>,
        present: Present,
    ) -> Result<(), Refusal> {
        if prepare.source != prepare.payer {
            return Err(Refusal::BulkSourceNotPayer);
        }
        self.check_expiration(prepare.expires_at, present)?;
        if prepare.payer.eq_ignore_case(&prepare.payee) {
            return Err(Refusal::BulkPartiesEqual);
        }
        let is_active = |found: Option<&Participant>| found.map(|participant| participant.is_active);
        match is_active(payer) {
            Some(true) => {}
            Some(false) => return Err(Refusal::BulkPayerInactive { name: prepare.payer }),
            None => return Err(Refusal::BulkPayerUnknown { name: prepare.payer }),
        }
        match is_active(payee) {
            Some(true) => {}
            Some(false) => return Err(Refusal::BulkPayeeInactive { name: prepare.payee }),
            None => return Err(Refusal::BulkPayeeUnknown { name: prepare.payee }),
        }
        if prepare.destination.is_some_and(|destination| !destination.eq_ignore_case(&prepare.payee)) {
            return Err(Refusal::DestinationNotPayee);
        }
        Ok(())
    }
}

/// Answers a repeated id. A resend receives the outcome if the bulk transfer is final, and a modified request is
/// rejected. The original is unchanged in both cases.
fn answer_duplicate(prepare: &PrepareBulk, sender: ParticipantId, original: &Bulk, out: &mut Decision) {
    let id = prepare.id.id();
    if original.prepare_fingerprint != prepare.fingerprint {
        return out.notify_bulk_error(sender, id, Refusal::Modified);
    }
    if prepare.source != prepare.payer {
        return out.notify_bulk_error(sender, id, Refusal::BulkSourceNotPayer);
    }
    match &original.state {
        BulkState::Rejected { cause: Some(cause), .. } if original.items.is_empty() => {
            out.notify_of_bulk(sender, id, CallbackContent::Error(cause.clone()));
        }
        // Its end will send the outcome.
        _ if original.is_live() => {}
        _ => {
            out.notify_of_bulk(sender, id, CallbackContent::BulkState(Box::new(original.view(sender))));
        }
    }
}
