//! The bodies of `/fxTransfers` (FSPIOP API v2.0, currency conversion).

use alloc::borrow::Cow;

use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId};

use super::extension_list::parse_extension_list;
use super::quoting::{check, read_money, read_optional};
use super::schema::{Schema, Value};
use super::transfer::{RefusedAmount, TransferState};
use crate::SyncError;
use crate::octets::{decode_octets, decode_octets_leniently};

/// The body of `POST /fxTransfers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FxTransferBody<'a> {
    /// Identifies the FX transfer in all messages about it.
    pub commit_request_id: TransferId,
    /// The transfer whose outcome determines the outcome of the FX transfer.
    pub determining_transfer_id: Option<TransferId>,
    /// The DFSP that converts.
    pub initiating_fsp: FspId,
    /// The FXP.
    pub counter_party_fsp: FspId,
    /// The money that is sold.
    pub source: ConvertedAmount<'a>,
    /// The money that is bought.
    pub target: ConvertedAmount<'a>,
    /// SHA-256 of the fulfilment; `None` if the text is not the canonical text of 32 bytes. It is then rejected
    /// asynchronously.
    pub condition: Option<[u8; 32]>,
    /// Time when the FX transfer expires. The schema allows its absence, which is rejected asynchronously.
    pub expiration: Option<Timestamp>,
}

/// One side of an FX transfer. The schema allows more digits than a ledger can represent. Such an amount is rejected
/// asynchronously.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvertedAmount<'a> {
    pub amount: Result<Amount, RefusedAmount<'a>>,
    pub currency: Currency,
}

const FX_TRANSFER: Schema<8> = Schema::open(
    6,
    [
        "commitRequestId",
        "initiatingFsp",
        "counterPartyFsp",
        "sourceAmount",
        "targetAmount",
        "condition",
        "determiningTransferId",
        "expiration",
    ],
);

/// Reads and checks the body of `POST /fxTransfers`.
///
/// Errors: 400 with 3100, 3101 or 3102 for the first violation of the schema.
pub fn parse_fx_transfer(body: &[u8]) -> Result<FxTransferBody<'_>, SyncError> {
    let object = FX_TRANSFER.read_body(body)?;
    let commit_request_id = object.required("commitRequestId").transfer_id()?;
    let initiating_fsp = object.required("initiatingFsp").name()?;
    let counter_party_fsp = object.required("counterPartyFsp").name()?;
    let source = read_amount(object.required("sourceAmount"))?;
    let target = read_amount(object.required("targetAmount"))?;
    let condition = decode_octets(&object.required("condition").octets()?);
    let determining_transfer_id =
        read_optional(object.optional("determiningTransferId"), |value| value.transfer_id())?;
    let expiration = read_optional(object.optional("expiration"), |value| value.date_time())?;
    Ok(FxTransferBody {
        commit_request_id,
        determining_transfer_id,
        initiating_fsp,
        counter_party_fsp,
        source,
        target,
        condition,
        expiration,
    })
}

fn read_amount<'a>(value: Value<'a, '_>) -> Result<ConvertedAmount<'a>, SyncError> {
    let money = read_money(value)?;
    let amount: Result<Amount, _> = Amount::parse_wire(&money.amount);
    let text: Cow<'a, str> = money.amount;
    Ok(ConvertedAmount {
        amount: amount.map_err(|error| RefusedAmount { error, text }),
        currency: money.currency,
    })
}

/// The body of `PUT /fxTransfers/{ID}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FxTransferFulfilBody {
    /// The state according to the FXP.
    pub conversion_state: TransferState,
    /// The preimage of the condition, decoded as leniently as a transfer's.
    pub fulfilment: Option<[u8; 32]>,
    /// Time of completion at the FXP.
    pub completed_timestamp: Option<Timestamp>,
}

const FULFIL: Schema<4> =
    Schema::open(1, ["conversionState", "fulfilment", "completedTimestamp", "extensionList"]);

/// Reads and checks the body of `PUT /fxTransfers/{ID}`.
///
/// Errors: 400 with 3100, 3101 or 3102 for the first violation of the schema. The ledger checks that a fulfil has a
/// fulfilment, and [`super::check_completed_timestamp`] checks the timestamp.
pub fn parse_fx_transfer_fulfil(body: &[u8]) -> Result<FxTransferFulfilBody, SyncError> {
    let object = FULFIL.read_body(body)?;
    let fulfilment = read_optional(object.optional("fulfilment"), |value| value.octets())?;
    let completed_timestamp =
        read_optional(object.optional("completedTimestamp"), |value| value.date_time())?;
    let state = object.required("conversionState");
    let conversion_state = TransferState::parse(&state.text()?)
        .ok_or_else(|| state.not_allowed("COMMITTED, RESERVED, ABORTED, RECEIVED"))?;
    check(object.optional("extensionList"), parse_extension_list)?;
    Ok(FxTransferFulfilBody {
        conversion_state,
        fulfilment: fulfilment.as_deref().and_then(decode_octets_leniently),
        completed_timestamp,
    })
}
