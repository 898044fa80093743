//! Commands about FX transfers: `/fxTransfers` (FSPIOP API v2.0).

mod checks;
mod get;
pub(crate) mod link;
mod prepare;
pub(crate) mod put;

use alloc::boxed::Box;

use upesi_types::{Amount, Currency, ErrorCode, FspId, FxTransferId, Timestamp, TransferId, UnfitAmount};

use crate::base::ids::ParticipantId;
use crate::base::refusal::Refusal;
use crate::core::callback::{Callback, CallbackContent, ResourceId, Subject};
use crate::core::decision::Decision;
use crate::core::facts::{ArchiveLookupNeeded, Archived, DecisionInput};
use crate::core::state::Ledger;
use crate::money::fx_transfer::FxTransfer;
use crate::money::transfer::{Fingerprint, Transfer};
use crate::rules::money::fulfil::{FulfilState, Fulfilment};

/// A DFSP's or FXP's request about an FX transfer.
#[derive(Clone, Debug)]
pub enum FxTransferCommand {
    /// `POST /fxTransfers`.
    Prepare(Box<PrepareFxTransfer>),
    /// `PUT /fxTransfers/{ID}`.
    Fulfil(FulfilFxTransfer),
    /// `PUT /fxTransfers/{ID}/error`.
    Abort(AbortFxTransfer),
    /// `GET /fxTransfers/{ID}`.
    Get(GetFxTransfer),
}

/// A request for an FX transfer as parsed by the gateway.
#[derive(Clone, Debug)]
pub struct PrepareFxTransfer {
    /// `commitRequestId`.
    pub id: FxTransferId,
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
pub struct FulfilFxTransfer {
    /// The id in the path.
    pub fx_transfer: ResourceId,
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
pub struct AbortFxTransfer {
    /// The id in the path.
    pub fx_transfer: ResourceId,
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
pub struct GetFxTransfer {
    /// The id in the path.
    pub fx_transfer: ResourceId,
    /// `FSPIOP-Source`.
    pub source: FspId,
    /// Whether an inter-scheme proxy forwarded the query (`FSPIOP-Proxy`).
    pub is_proxied: bool,
}

impl FxTransferCommand {
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
    pub fn fx_transfer(&self) -> Option<FxTransferId> {
        let id = match self {
            Self::Prepare(prepare) => return Some(prepare.id),
            Self::Fulfil(fulfil) => &fulfil.fx_transfer,
            Self::Abort(abort) => &abort.fx_transfer,
            Self::Get(get) => &get.fx_transfer,
        };
        id.id().map(FxTransferId::new)
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
enum DeterminingState<'a> {
    /// The transfer does not exist yet.
    Absent,
    /// The transfer is in memory.
    Known(&'a Transfer),
    /// The transfer is in the archive, so it is final.
    Final,
}

impl Ledger {
    pub(crate) fn decide_fx_transfer(
        &self,
        command: &FxTransferCommand,
        facts: &DecisionInput<'_>,
        out: &mut Decision,
    ) {
        match command {
            FxTransferCommand::Prepare(prepare) => self.decide_fx_transfer_prepare(prepare, facts, out),
            FxTransferCommand::Fulfil(fulfil) => self.decide_fx_transfer_fulfil(fulfil, facts, out),
            FxTransferCommand::Abort(abort) => self.decide_fx_transfer_abort(abort, facts, out),
            FxTransferCommand::Get(get) => self.decide_fx_transfer_get(get, facts, out),
        }
    }

    /// Finds an FX transfer in memory or in the archive's answer. Fails if the archive must be queried first.
    fn find_fx_transfer<'a>(
        &'a self,
        id: Option<FxTransferId>,
        facts: &DecisionInput<'a>,
    ) -> Result<Option<&'a FxTransfer>, ArchiveLookupNeeded> {
        let Some(id) = id else { return Ok(None) };
        match (self.fx_transfer(id), facts.archived) {
            (Some(found), _) => Ok(Some(found)),
            (None, Archived::Unknown) => Err(ArchiveLookupNeeded),
            (None, Archived::FxTransfer { fx_transfer, .. }) => Ok(fx_transfer.as_deref()),
            (None, Archived::Absent | Archived::Found(_) | Archived::Bulk { .. }) => Ok(None),
        }
    }

    /// The transfer that a new FX transfer names. The archive has already been queried.
    fn determining<'a>(&'a self, id: Option<TransferId>, facts: &DecisionInput<'a>) -> DeterminingState<'a> {
        match (id.and_then(|id| self.transfer(id)), facts.archived) {
            (Some(transfer), _) => DeterminingState::Known(transfer),
            (None, Archived::FxTransfer { has_transfer: true, .. }) => DeterminingState::Final,
            (None, _) => DeterminingState::Absent,
        }
    }
}

impl Decision {
    /// Owes a callback about an FX transfer.
    fn notify_of_fx_transfer(
        &mut self,
        target: ParticipantId,
        id: impl Into<ResourceId>,
        content: CallbackContent,
    ) {
        self.callbacks.push(Callback { target, subject: Subject::fx_transfer(id), content });
    }

    fn notify_fx_transfer_error(
        &mut self,
        target: ParticipantId,
        id: impl Into<ResourceId>,
        refusal: Refusal,
    ) {
        self.notify_of_fx_transfer(target, id, CallbackContent::Error(refusal.into()));
    }
}
