//! Commands about bulks: `/bulkTransfers` (FSPIOP API v1.1 §6.10).
//!
//! A bulk is decided in steps: a record per item, so that the requests of other DFSPs pass between them, and so that no
//! record is longer than one message about a bulk.

mod get;
mod prepare;
mod put;
mod step;

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::{BulkId, ErrorCode, FspId, Timestamp, TransferId};

use super::{ArchiveLookupNeeded, Decision};
use crate::Ledger;
use crate::bulk::{Bulk, ItemResult, NewItems, PublicBulkState};
use crate::callback::{Callback, CallbackContent, ResourceId, Subject};
use crate::facts::{Archived, Facts};
use crate::participant::ParticipantId;
use crate::refusal::Refusal;
use crate::transfer::Fingerprint;

/// What DFSPs ask about a bulk.
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

/// A bulk as the gateway read it.
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

/// A payee's answer as the gateway read it.
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
    /// `individualTransferResults`, each transfer once.
    pub results: Vec<(TransferId, ItemResult)>,
    /// Fingerprint of the body.
    pub fingerprint: Fingerprint,
    /// JSON text of the extension array.
    pub extensions: Option<Box<str>>,
}

/// A payee's error as the gateway read it.
#[derive(Clone, Debug)]
pub struct AbortBulk {
    /// The id in the path.
    pub bulk: ResourceId,
    /// `FSPIOP-Source`.
    pub source: FspId,
    /// `FSPIOP-Destination`.
    pub destination: Option<FspId>,
    /// `errorInformation.errorCode`, listed or not.
    pub code: ErrorCode,
    /// `errorInformation.errorDescription`.
    pub description: Box<str>,
    /// Fingerprint of the body.
    pub fingerprint: Fingerprint,
}

/// A question about a bulk as the gateway read it.
#[derive(Clone, Debug)]
pub struct GetBulk {
    /// The id in the path.
    pub bulk: ResourceId,
    /// `FSPIOP-Source`.
    pub source: FspId,
}

impl BulkCommand {
    /// The DFSP that causes it.
    pub const fn source(&self) -> FspId {
        match self {
            Self::Prepare(prepare) => prepare.source,
            Self::Fulfil(fulfil) => fulfil.source,
            Self::Abort(abort) => abort.source,
            Self::Get(get) => get.source,
        }
    }

    /// The bulk whose state decides it.
    pub fn bulk(&self) -> Option<BulkId> {
        let id = match self {
            Self::Prepare(prepare) => return Some(prepare.id),
            Self::Fulfil(fulfil) => &fulfil.bulk,
            Self::Abort(abort) => &abort.bulk,
            Self::Get(get) => &get.bulk,
        };
        id.id().map(BulkId::new)
    }

    /// The transfers whose ids must not have been used before.
    pub fn transfers(&self) -> impl Iterator<Item = TransferId> {
        let items = match self {
            Self::Prepare(prepare) => Some(prepare.items.transfers()),
            _ => None,
        };
        items.into_iter().flatten()
    }
}

impl Ledger {
    pub(super) fn decide_bulk(&self, command: &BulkCommand, facts: &Facts<'_>, out: &mut Decision) {
        match command {
            BulkCommand::Prepare(prepare) => self.decide_bulk_prepare(prepare, facts, out),
            BulkCommand::Fulfil(fulfil) => self.decide_bulk_fulfil(fulfil, facts, out),
            BulkCommand::Abort(abort) => self.decide_bulk_abort(abort, facts, out),
            BulkCommand::Get(get) => self.decide_bulk_get(get, facts, out),
        }
    }

    /// Finds a bulk in memory or in the archive's answer; an error if the archive must be asked first.
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

    /// Whether a transfer is an item of a live bulk that is not final, be it decided or not.
    pub(super) fn is_item_of_bulk(&self, transfer: TransferId) -> bool {
        self.bulks.holding(transfer).is_some()
    }

    /// Whether the payee's result for such an item is taken and about to take effect.
    pub(super) fn is_answered_item(&self, transfer: TransferId) -> bool {
        self.bulks.holding(transfer).is_some_and(|(bulk, place)| bulk.results.contains_key(&place))
    }
}

impl Decision {
    /// Owes a callback about a bulk.
    fn tell_of_bulk(&mut self, target: ParticipantId, id: impl Into<ResourceId>, content: CallbackContent) {
        self.callbacks.push(Callback { target, subject: Subject::bulk(id), content });
    }

    fn tell_bulk_error(&mut self, target: ParticipantId, id: impl Into<ResourceId>, refusal: Refusal) {
        self.tell_of_bulk(target, id, CallbackContent::Error(refusal.into()));
    }
}
