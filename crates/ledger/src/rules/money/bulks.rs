//! Commands about bulk transfers: `/bulkTransfers` (FSPIOP API v1.1 §6.10).
//!
//! A bulk transfer is decided in steps, with one record per item. Requests of other DFSPs are processed between the
//! steps, and no record is longer than one message about a bulk transfer.

mod get;
mod prepare;
pub(crate) mod put;
pub(crate) mod steps;

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::{BulkId, ErrorCode, FspId, Timestamp, TransferId};

use crate::base::ids::ParticipantId;
use crate::base::refusal::Refusal;
use crate::core::callback::{Callback, CallbackContent, ResourceId, Subject};
use crate::core::decision::Decision;
use crate::core::facts::{ArchiveLookupNeeded, Archived, DecisionInput};
use crate::core::state::Ledger;
use crate::money::bulk::{Bulk, ItemResult, NewItems, PublicBulkState};
use crate::money::transfer::Fingerprint;

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
    pub(crate) fn decide_bulk(&self, command: &BulkCommand, facts: &DecisionInput<'_>, out: &mut Decision) {
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
        facts: &DecisionInput<'a>,
    ) -> Result<Option<&'a Bulk>, ArchiveLookupNeeded> {
        let Some(id) = id else { return Ok(None) };
        match (self.bulk(id), facts.archived) {
            (Some(found), _) => Ok(Some(found)),
            (None, Archived::Unknown) => Err(ArchiveLookupNeeded),
            (None, Archived::Bulk { bulk, .. }) => Ok(bulk.as_deref()),
            (None, Archived::Absent | Archived::Found(_) | Archived::FxTransfer { .. }) => Ok(None),
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
    fn notify_of_bulk(&mut self, target: ParticipantId, id: impl Into<ResourceId>, content: CallbackContent) {
        self.callbacks.push(Callback { target, subject: Subject::bulk(id), content });
    }

    fn notify_bulk_error(&mut self, target: ParticipantId, id: impl Into<ResourceId>, refusal: Refusal) {
        self.notify_of_bulk(target, id, CallbackContent::Error(refusal.into()));
    }
}
