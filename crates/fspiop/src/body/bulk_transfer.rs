//! The bodies of `/bulkTransfers` (FSPIOP API v1.1 §6.10.3, §6.10.4).

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use upesi_types::{Amount, Currency, ErrorCode, FspId, Timestamp, TransferId, UnfitAmount};

use super::completed_timestamp::CompletionFault;
use super::error::read_error_information;
use super::extension_list::parse_extension_list;
use super::quoting::{read_money, read_optional};
use super::schema::{Schema, Value, read_array};
use crate::SyncError;
use crate::octets::{decode_octets, decode_octets_leniently};

/// Maximum number of transfers in a bulk transfer.
pub const BULK_ITEMS_MAX: usize = 1_000;

/// The body of `POST /bulkTransfers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkTransferBody {
    /// Identifies the bulk transfer in all messages about it.
    pub bulk_transfer_id: TransferId,
    /// Identifies the bulk quote that it executes.
    pub bulk_quote_id: TransferId,
    pub payer: FspId,
    pub payee: FspId,
    /// The transfers, 1 to [`BULK_ITEMS_MAX`], each once. The schema allows amounts that a ledger cannot represent, and
    /// conditions that no fulfilment can match. Such items are rejected asynchronously.
    pub items: Vec<(TransferId, BulkItem)>,
    /// Time when the items expire unless they are fulfilled.
    pub expiration: Timestamp,
    /// The checked items of the extension list, as a compact JSON array.
    pub extensions: Option<Box<str>>,
}

/// One transfer of a bulk transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkItem {
    /// The amount. If a ledger cannot represent it, the text is retained.
    pub amount: Result<Amount, UnfitAmount>,
    pub currency: Currency,
    /// The ILP packet, base64url, opaque to the hub.
    pub ilp_packet: Box<str>,
    /// SHA-256 of the fulfilment; `None` if the text is not the canonical text of 32 bytes.
    pub condition: Option<[u8; 32]>,
    /// The checked items of the extension list, as a compact JSON array.
    pub extensions: Option<Box<str>>,
}

const BULK: Schema<7> = Schema::open(
    6,
    [
        "bulkTransferId",
        "bulkQuoteId",
        "payerFsp",
        "payeeFsp",
        "individualTransfers",
        "expiration",
        "extensionList",
    ],
);

/// Reads and checks the body of `POST /bulkTransfers`.
///
/// Errors: 400 with 3100, 3101 or 3102 for the first violation of the schema; 3100 for a transfer that occurs twice.
pub fn parse_bulk_transfer(body: &[u8]) -> Result<BulkTransferBody, SyncError> {
    let object = BULK.read_body(body)?;
    let bulk_transfer_id = object.required("bulkTransferId").transfer_id()?;
    let bulk_quote_id = object.required("bulkQuoteId").transfer_id()?;
    let payer = object.required("payerFsp").name()?;
    let payee = object.required("payeeFsp").name()?;
    let list = object.required("individualTransfers");
    let items = read_array(list, 1, BULK_ITEMS_MAX)?.iter().map(read_item).collect::<Result<Vec<_>, _>>()?;
    check_unique(list, &items)?;
    let expiration = object.required("expiration").date_time()?;
    let extensions = read_optional(object.optional("extensionList"), parse_extension_list)?;
    Ok(BulkTransferBody {
        bulk_transfer_id,
        bulk_quote_id,
        payer,
        payee,
        items,
        expiration,
        extensions: extensions.map(Into::into),
    })
}

/// Rejects a list that contains a transfer twice.
fn check_unique<T>(list: Value<'_, '_>, items: &[(TransferId, T)]) -> Result<(), SyncError> {
    let mut seen = BTreeSet::new();
    match items.iter().find(|(id, _)| !seen.insert(*id)) {
        Some((id, _)) => {
            Err(list.refuse(ErrorCode::VALIDATION, format_args!("must NOT have transferId {id} twice")))
        }
        None => Ok(()),
    }
}

const ITEM: Schema<5> =
    Schema::open(4, ["transferId", "transferAmount", "ilpPacket", "condition", "extensionList"]);

fn read_item(value: Value<'_, '_>) -> Result<(TransferId, BulkItem), SyncError> {
    let item = ITEM.read(value)?;
    let id = item.required("transferId").transfer_id()?;
    let money = read_money(item.required("transferAmount"))?;
    let amount: Result<Amount, _> = Amount::parse_wire(&money.amount);
    let ilp_packet = item.required("ilpPacket").packet()?;
    let condition = decode_octets(&item.required("condition").octets()?);
    let extensions = read_optional(item.optional("extensionList"), parse_extension_list)?;
    let item = BulkItem {
        amount: amount.map_err(|error| UnfitAmount { error, text: money.amount.into() }),
        currency: money.currency,
        ilp_packet: ilp_packet.into(),
        condition,
        extensions: extensions.map(Into::into),
    };
    Ok((id, item))
}

/// The state of a bulk transfer (FSPIOP API v1.1 §7.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BulkTransferState {
    /// The bulk transfer was received.
    Received,
    /// The payee is checking the transfers.
    Pending,
    /// The payee will process it.
    Accepted,
    /// The payee is processing it.
    Processing,
    /// The payee has processed it.
    Completed,
    /// The payee has rejected it.
    Rejected,
}

impl BulkTransferState {
    /// The text on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Received => "RECEIVED",
            Self::Pending => "PENDING",
            Self::Accepted => "ACCEPTED",
            Self::Processing => "PROCESSING",
            Self::Completed => "COMPLETED",
            Self::Rejected => "REJECTED",
        }
    }

    /// Reads the text on the wire.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Received, Self::Pending, Self::Accepted, Self::Processing, Self::Completed, Self::Rejected]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}

/// The body of `PUT /bulkTransfers/{ID}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkFulfilBody {
    /// The state of the bulk transfer according to the payee.
    pub state: BulkTransferState,
    /// Time of completion at the payee.
    pub completed_timestamp: Option<Timestamp>,
    /// Why [`Self::completed_timestamp`] is implausible. The parser leaves it empty.
    pub fault: Option<CompletionFault>,
    /// The results of the transfers, each transfer once.
    pub results: Vec<(TransferId, BulkItemResult)>,
    /// The checked items of the extension list, as a compact JSON array.
    pub extensions: Option<Box<str>>,
}

/// The payee's result for one transfer of a bulk transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BulkItemResult {
    /// `fulfilment`
    Fulfil {
        /// The preimage of the condition.
        fulfilment: [u8; 32],
        /// The checked items of the extension list, as a compact JSON array.
        extensions: Option<Box<str>>,
    },
    /// `errorInformation`
    Error { code: ErrorCode, description: Box<str> },
    /// The fulfilment is not 32 bytes.
    FulfilmentInvalid,
    /// The result has both a fulfilment and an error, or neither.
    Ambiguous,
}

const FULFIL: Schema<4> = Schema::open(
    1,
    ["bulkTransferState", "completedTimestamp", "individualTransferResults", "extensionList"],
);

/// Reads and checks the body of `PUT /bulkTransfers/{ID}`.
///
/// Errors: 400 with 3100, 3101 or 3102 for the first violation of the schema; 3100 for a transfer that occurs twice.
pub fn parse_bulk_fulfil(body: &[u8]) -> Result<BulkFulfilBody, SyncError> {
    let object = FULFIL.read_body(body)?;
    let completed_timestamp =
        read_optional(object.optional("completedTimestamp"), |value| value.date_time())?;
    let results = match object.optional("individualTransferResults") {
        Some(list) => read_results(list)?,
        None => Vec::new(),
    };
    let state = object.required("bulkTransferState");
    let state = BulkTransferState::parse(&state.text()?)
        .ok_or_else(|| state.not_allowed("ACCEPTED, COMPLETED, PENDING, PROCESSING, RECEIVED, REJECTED"))?;
    let extensions = read_optional(object.optional("extensionList"), parse_extension_list)?;
    let extensions = extensions.map(Into::into);
    Ok(BulkFulfilBody { state, completed_timestamp, fault: None, results, extensions })
}

fn read_results(list: Value<'_, '_>) -> Result<Vec<(TransferId, BulkItemResult)>, SyncError> {
    let results =
        read_array(list, 1, BULK_ITEMS_MAX)?.iter().map(read_result).collect::<Result<Vec<_>, _>>()?;
    check_unique(list, &results)?;
    Ok(results)
}

const RESULT: Schema<4> = Schema::open(1, ["transferId", "fulfilment", "errorInformation", "extensionList"]);

fn read_result(value: Value<'_, '_>) -> Result<(TransferId, BulkItemResult), SyncError> {
    let result = RESULT.read(value)?;
    let id = result.required("transferId").transfer_id()?;
    let fulfilment = read_optional(result.optional("fulfilment"), |value| value.octets())?;
    let error = read_optional(result.optional("errorInformation"), read_error_information)?;
    let extensions = read_optional(result.optional("extensionList"), parse_extension_list)?;
    let fulfilment = fulfilment.as_deref().map(decode_octets_leniently);
    let result = match (fulfilment, error) {
        (Some(Some(fulfilment)), None) => {
            BulkItemResult::Fulfil { fulfilment, extensions: extensions.map(Into::into) }
        }
        (Some(None), None) => BulkItemResult::FulfilmentInvalid,
        (None, Some((code, description))) => BulkItemResult::Error { code, description },
        _ => BulkItemResult::Ambiguous,
    };
    Ok((id, result))
}
