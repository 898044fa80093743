//! Commands about FX transfers: `/fxTransfers` (FSPIOP API v2.0).

mod checks;
mod get;
pub(crate) mod link;
mod prepare;
pub(crate) mod put;

use alloc::boxed::Box;

use upesi_types::{Amount, ConversionId, Currency, ErrorCode, FspId, Timestamp, TransferId, UnfitAmount};

use crate::base::ids::ParticipantId;
use crate::base::refusal::Refusal;
use crate::core::callback::{Callback, CallbackContent, ResourceId, Subject};
use crate::core::decision::Decision;
use crate::core::facts::{ArchiveLookupNeeded, Archived, Facts};
use crate::core::state::Ledger;
use crate::money::conversion::Conversion;
use crate::money::transfer::{Fingerprint, Transfer};
use crate::rules::money::fulfil::{FulfilState, Fulfilment};

/// A DFSP's or FXP's request about an FX transfer.
#[derive(Clone, Debug)]
pub enum ConversionCommand {
    /// `POST /fxTransfers`.
    Prepare(Box<PrepareConversion>),
    /// `PUT /fxTransfers/{ID}`.
    Fulfil(FulfilConversion),
    /// `PUT /fxTransfers/{ID}/error`.
    Abort(AbortConversion),
    /// `GET /fxTransfers/{ID}`.
    Get(GetConversion),
}

/// A request for an FX transfer as parsed by the gateway.
#[derive(Clone, Debug)]
pub struct PrepareConversion {
    /// `commitRequestId`.
    pub id: ConversionId,
    /// `determiningTransferId`.
    pub determining_transfer: Option<TransferId>,
    /// `FSPIOP-Source`.
    pub source: FspId,
    /// `FSPIOP-Destination`, if there is one.
    pub destination: Option<FspId>,
    /// `initiatingFsp`.
    pub initiator: FspId,
    /// `counterPartyFsp`: the FXP.
    pub counter_party: FspId,
    /// `sourceAmount`.
    pub source_amount: AskedMoney,
    /// `targetAmount`.
    pub target_amount: AskedMoney,
    /// `condition`; absent when it is not 32 bytes.
    pub condition: Option<[u8; 32]>,
    /// `expiration`.
    pub expires_at: Option<Timestamp>,
    /// Fingerprint of the body.
    pub fingerprint: Fingerprint,
}

/// An amount as the request states it.
#[derive(Clone, Debug)]
pub struct AskedMoney {
    /// The amount. If it does not fit the ledger, the text is retained.
    pub amount: Result<Amount, UnfitAmount>,
    pub currency: Currency,
}

/// A fulfil of an FX transfer as parsed by the gateway.
#[derive(Clone, Debug)]
pub struct FulfilConversion {
    /// The id in the path.
    pub conversion: ResourceId,
    /// `FSPIOP-Source`.
    pub source: FspId,
    /// `FSPIOP-Destination`.
    pub destination: Option<FspId>,
    /// `conversionState`.
    pub state: FulfilState,
    /// `fulfilment`.
    pub fulfilment: Fulfilment,
    /// Fingerprint of the body.
    pub fingerprint: Fingerprint,
}

/// An FXP's error as parsed by the gateway.
#[derive(Clone, Debug)]
pub struct AbortConversion {
    /// The id in the path.
    pub conversion: ResourceId,
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

/// A query about an FX transfer as parsed by the gateway.
#[derive(Clone, Debug)]
pub struct GetConversion {
    /// The id in the path.
    pub conversion: ResourceId,
    /// `FSPIOP-Source`.
    pub source: FspId,
    /// Whether an inter-scheme proxy forwarded the query (`FSPIOP-Proxy`).
    pub is_proxied: bool,
}

impl ConversionCommand {
    /// The DFSP or FXP that sent the request.
    pub const fn source(&self) -> FspId {
        match self {
            Self::Prepare(prepare) => prepare.source,
            Self::Fulfil(fulfil) => fulfil.source,
            Self::Abort(abort) => abort.source,
            Self::Get(get) => get.source,
        }
    }

    /// The FX transfer whose state the decision depends on.
    pub fn conversion(&self) -> Option<ConversionId> {
        let id = match self {
            Self::Prepare(prepare) => return Some(prepare.id),
            Self::Fulfil(fulfil) => &fulfil.conversion,
            Self::Abort(abort) => &abort.conversion,
            Self::Get(get) => &get.conversion,
        };
        id.id().map(ConversionId::new)
    }

    /// The transfer whose state the decision also depends on.
    pub fn determining_transfer(&self) -> Option<TransferId> {
        match self {
            Self::Prepare(prepare) => prepare.determining_transfer,
            _ => None,
        }
    }
}

/// The state of the transfer that a new FX transfer belongs to.
#[derive(Clone, Copy)]
enum Determining<'a> {
    /// The transfer does not exist yet.
    Absent,
    /// The transfer is in memory.
    Known(&'a Transfer),
    /// The transfer is in the archive, so it is final.
    Final,
}

impl Ledger {
    pub(crate) fn decide_conversion(
        &self,
        command: &ConversionCommand,
        facts: &Facts<'_>,
        out: &mut Decision,
    ) {
        match command {
            ConversionCommand::Prepare(prepare) => self.decide_conversion_prepare(prepare, facts, out),
            ConversionCommand::Fulfil(fulfil) => self.decide_conversion_fulfil(fulfil, facts, out),
            ConversionCommand::Abort(abort) => self.decide_conversion_abort(abort, facts, out),
            ConversionCommand::Get(get) => self.decide_conversion_get(get, facts, out),
        }
    }

    /// Finds an FX transfer in memory or in the archive's answer. Fails if the archive must be queried first.
    fn find_conversion<'a>(
        &'a self,
        id: Option<ConversionId>,
        facts: &Facts<'a>,
    ) -> Result<Option<&'a Conversion>, ArchiveLookupNeeded> {
        let Some(id) = id else { return Ok(None) };
        match (self.conversion(id), facts.archived) {
            (Some(found), _) => Ok(Some(found)),
            (None, Archived::Unknown) => Err(ArchiveLookupNeeded),
            (None, Archived::Conversion { conversion, .. }) => Ok(conversion.as_deref()),
            (None, Archived::Absent | Archived::Found(_) | Archived::Bulk { .. }) => Ok(None),
        }
    }

    /// The transfer that a new FX transfer names. The archive has already been queried.
    fn determining<'a>(&'a self, id: Option<TransferId>, facts: &Facts<'a>) -> Determining<'a> {
        match (id.and_then(|id| self.transfer(id)), facts.archived) {
            (Some(transfer), _) => Determining::Known(transfer),
            (None, Archived::Conversion { has_transfer: true, .. }) => Determining::Final,
            (None, _) => Determining::Absent,
        }
    }
}

impl Decision {
    /// Owes a callback about an FX transfer.
    fn tell_of_conversion(
        &mut self,
        target: ParticipantId,
        id: impl Into<ResourceId>,
        content: CallbackContent,
    ) {
        self.callbacks.push(Callback { target, subject: Subject::conversion(id), content });
    }

    fn tell_conversion_error(&mut self, target: ParticipantId, id: impl Into<ResourceId>, refusal: Refusal) {
        self.tell_of_conversion(target, id, CallbackContent::Error(refusal.into()));
    }
}
