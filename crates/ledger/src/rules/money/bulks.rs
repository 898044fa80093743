//! Commands about bulk transfers: `/bulkTransfers` (FSPIOP API v1.1 §6.10).
//!
//! A bulk transfer is decided in steps, with one record per item. Requests of other DFSPs are processed between the
//! steps, and no record is longer than one message about a bulk transfer.

pub(crate) mod put;
pub(crate) mod steps;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use upesi_types::{BulkId, ErrorCode, FspId, Present, Timestamp, TransferId};

use crate::base::ids::ParticipantId;
use crate::base::refusal::{Cause, Refusal};
use crate::core::callback::{Callback, CallbackContent, ResourceId, Subject};
use crate::core::decision::{Decision, Reply};
use crate::core::event::Event;
use crate::core::facts::{ArchiveLookupNeeded, Archived, Facts};
use crate::core::state::Ledger;
use crate::money::bulk::{
    AskedItem, Bulk, BulkItem, BulkState, ItemResult, ItemState, NewItems, PublicBulkState,
};
use crate::money::transfer::Fingerprint;
use crate::scheme::participant::Participant;

/// A DFSP's request about a bulk transfer.
#[derive(Clone, Debug)]
pub enum BulkCommand {
    /// `POST /bulkTransfers`.
    Prepare(Box<PrepareBulk>),
    /// `PUT /bulkTransfers/{ID}`.
    Fulfil(Box<FulfilBulk>),
    /// `PUT /bulkTransfers/{ID}/error`.
    Abort(AbortBulk),
    /// `GET /bulkTransfers/{ID}`.
    Get(GetBulk),
}

/// A request for a bulk transfer as parsed by the gateway.
#[derive(Clone, Debug)]
pub struct PrepareBulk {
    /// `bulkTransferId`.
    pub id: BulkId,
    /// `bulkQuoteId`.
    pub quote: TransferId,
    /// `FSPIOP-Source`.
    pub source: FspId,
    /// `FSPIOP-Destination`, if there is one.
    pub destination: Option<FspId>,
    /// `payerFsp`.
    pub payer: FspId,
    /// `payeeFsp`.
    pub payee: FspId,
    /// `individualTransfers`.
    pub items: NewItems,
    /// `expiration`.
    pub expires_at: Timestamp,
    /// Fingerprint of the body.
    pub fingerprint: Fingerprint,
    /// JSON text of the extension array.
    pub extensions: Option<Box<str>>,
}

/// A payee's answer as parsed by the gateway.
#[derive(Clone, Debug)]
pub struct FulfilBulk {
    /// The id in the path.
    pub bulk: ResourceId,
    /// `FSPIOP-Source`.
    pub source: FspId,
    /// `FSPIOP-Destination`.
    pub destination: Option<FspId>,
    /// `bulkTransferState`.
    pub state: PublicBulkState,
    /// The reason why the bulk transfer is rejected, regardless of the results.
    pub fault: Option<Refusal>,
    /// `individualTransferResults`, each transfer once.
    pub results: Vec<(TransferId, ItemResult)>,
    /// Fingerprint of the body.
    pub fingerprint: Fingerprint,
    /// JSON text of the extension array.
    pub extensions: Option<Box<str>>,
}

/// A payee's error as parsed by the gateway.
#[derive(Clone, Debug)]
pub struct AbortBulk {
    /// The id in the path.
    pub bulk: ResourceId,
    /// `FSPIOP-Source`.
    pub source: FspId,
    /// `FSPIOP-Destination`.
    pub destination: Option<FspId>,
    /// `errorInformation.errorCode`; it need not be in the catalogue.
    pub code: ErrorCode,
    /// `errorInformation.errorDescription`.
    pub description: Box<str>,
    /// Fingerprint of the body.
    pub fingerprint: Fingerprint,
}

/// A query about a bulk transfer as parsed by the gateway.
#[derive(Clone, Debug)]
pub struct GetBulk {
    /// The id in the path.
    pub bulk: ResourceId,
    /// `FSPIOP-Source`.
    pub source: FspId,
}

impl BulkCommand {
    /// The DFSP that sent the request.
    pub const fn source(&self) -> FspId {
        match self {
            Self::Prepare(prepare) => prepare.source,
            Self::Fulfil(fulfil) => fulfil.source,
            Self::Abort(abort) => abort.source,
            Self::Get(get) => get.source,
        }
    }

    /// The bulk transfer whose state the decision depends on.
    pub fn bulk(&self) -> Option<BulkId> {
        let id = match self {
            Self::Prepare(prepare) => return Some(prepare.id),
            Self::Fulfil(fulfil) => &fulfil.bulk,
            Self::Abort(abort) => &abort.bulk,
            Self::Get(get) => &get.bulk,
        };
        id.id().map(BulkId::new)
    }

    /// The transfers whose ids must be new.
    pub fn transfers(&self) -> impl Iterator<Item = TransferId> {
        let items = match self {
            Self::Prepare(prepare) => Some(prepare.items.transfers()),
            _ => None,
        };
        items.into_iter().flatten()
    }
}

impl Ledger {
    pub(crate) fn decide_bulk(&self, command: &BulkCommand, facts: &Facts<'_>, out: &mut Decision) {
        match command {
            BulkCommand::Prepare(prepare) => self.decide_bulk_prepare(prepare, facts, out),
            BulkCommand::Fulfil(fulfil) => self.decide_bulk_fulfil(fulfil, facts, out),
            BulkCommand::Abort(abort) => self.decide_bulk_abort(abort, facts, out),
            BulkCommand::Get(get) => self.decide_bulk_get(get, facts, out),
        }
    }

    /// Finds a bulk transfer in memory or in the archive's answer. Fails if the archive must be queried first.
    fn find_bulk<'a>(
        &'a self,
        id: Option<BulkId>,
        facts: &Facts<'a>,
    ) -> Result<Option<&'a Bulk>, ArchiveLookupNeeded> {
        let Some(id) = id else { return Ok(None) };
        match (self.bulk(id), facts.archived) {
            (Some(found), _) => Ok(Some(found)),
            (None, Archived::Unknown) => Err(ArchiveLookupNeeded),
            (None, Archived::Bulk { bulk, .. }) => Ok(bulk.as_deref()),
            (None, Archived::Absent | Archived::Found(_) | Archived::Conversion { .. }) => Ok(None),
        }
    }

    /// Whether a transfer is an item of a live bulk transfer and is not final, decided or not.
    pub(crate) fn is_item_of_bulk(&self, transfer: TransferId) -> bool {
        self.bulks.holding(transfer).is_some()
    }

    /// Whether the payee's result for such an item was accepted and is about to take effect.
    pub(crate) fn is_answered_item(&self, transfer: TransferId) -> bool {
        self.bulks.holding(transfer).is_some_and(|(bulk, place)| bulk.results.contains_key(&place))
    }
}

impl Decision {
    /// Owes a callback about a bulk transfer.
    fn tell_of_bulk(&mut self, target: ParticipantId, id: impl Into<ResourceId>, content: CallbackContent) {
        self.callbacks.push(Callback { target, subject: Subject::bulk(id), content });
    }

    fn tell_bulk_error(&mut self, target: ParticipantId, id: impl Into<ResourceId>, refusal: Refusal) {
        self.tell_of_bulk(target, id, CallbackContent::Error(refusal.into()));
    }
}

// `GET /bulkTransfers/{ID}`: a party queries the state of a bulk transfer.

impl Ledger {
    /// Owes the state: all items to the payer, only the requested items to the payee.
    fn decide_bulk_get(&self, get: &GetBulk, facts: &Facts<'_>, out: &mut Decision) {
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
                return out.tell_of_bulk(requester.id, bulk.id.id(), view);
            }
        };
        out.tell_bulk_error(requester.id, get.bulk.clone(), refusal);
    }
}

// `POST /bulkTransfers`: accepts a bulk transfer or rejects it as a whole.

impl Ledger {
    fn decide_bulk_prepare(&self, prepare: &PrepareBulk, facts: &Facts<'_>, out: &mut Decision) {
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

    /// Creates an item. An item whose id was already used for anything is rejected immediately.
    fn new_item(&self, (id, asked): &(TransferId, AskedItem), archived: &Archived) -> BulkItem {
        let is_archived = matches!(archived, Archived::Bulk { transfers, .. } if transfers.contains(id));
        let is_known = self.transfer(*id).is_some() || self.is_item_of_bulk(*id) || self.funds(*id).is_some();
        if is_archived || is_known {
            let state = ItemState::Refused(Refusal::BulkItemKnown.into());
            return BulkItem { transfer: *id, asked: None, state };
        }
        BulkItem { transfer: *id, asked: Some(Box::new(asked.clone())), state: ItemState::Waiting }
    }

    /// Checks the rules for a bulk transfer as a whole, in the order in which violations are reported.
    fn check_bulk(
        &self,
        prepare: &PrepareBulk,
        (payer, payee): (Option<&Participant>, Option<&Participant>),
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
        return out.tell_bulk_error(sender, id, Refusal::Modified);
    }
    if prepare.source != prepare.payer {
        return out.tell_bulk_error(sender, id, Refusal::BulkSourceNotPayer);
    }
    match &original.state {
        BulkState::Rejected { cause: Some(cause), .. } if original.items.is_empty() => {
            out.tell_of_bulk(sender, id, CallbackContent::Error(cause.clone()));
        }
        // Its end will send the outcome.
        _ if original.is_live() => {}
        _ => {
            out.tell_of_bulk(sender, id, CallbackContent::BulkState(Box::new(original.view(sender))));
        }
    }
}
