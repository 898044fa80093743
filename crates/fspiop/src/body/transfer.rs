//! The bodies of `POST /transfers` and `PUT /transfers/{ID}` (FSPIOP API v1.1 §6.7.3, §6.7.4).

use alloc::borrow::Cow;
use alloc::string::String;

use upesi_types::{Amount, AmountError, Currency, FspId, Timestamp, TransferId};

use super::extension_list::parse_extension_list;
use super::quoting::{read_money, read_optional};
use super::schema::Schema;
use crate::SyncError;
use crate::octets::{decode_octets, decode_octets_leniently};

/// The body of `POST /transfers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrepareBody<'a> {
    /// Identifies the transfer in all messages about it.
    pub transfer_id: TransferId,
    pub payee: FspId,
    pub payer: FspId,
    pub currency: Currency,
    /// The amount. The schema allows more digits than a ledger can represent. Such an amount is rejected
    /// asynchronously.
    pub amount: Result<Amount, RefusedAmount<'a>>,
    /// The ILP packet, base64url, opaque to the hub.
    pub ilp_packet: Cow<'a, str>,
    /// SHA-256 of the fulfilment; `None` if the text is not the canonical text of 32 bytes, so that no fulfilment could
    /// match. The hub then rejects the transfer asynchronously.
    pub condition: Option<[u8; 32]>,
    /// Time when the transfer expires unless it is fulfilled.
    pub expiration: Timestamp,
    /// The checked items of the extension list, as a compact JSON array.
    pub extensions: Option<String>,
}

/// An amount in the wire form that the ledger cannot represent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedAmount<'a> {
    /// The reason.
    pub error: AmountError,
    /// The amount as it was written.
    pub text: Cow<'a, str>,
}

const PREPARE: Schema<8> = Schema::open(
    7,
    ["transferId", "payeeFsp", "payerFsp", "amount", "ilpPacket", "condition", "expiration", "extensionList"],
);

/// Reads and checks the body of `POST /transfers`.
///
/// Errors: 400 with 3100, 3101 or 3102 for the first violation of the schema.
pub fn parse_prepare(body: &[u8]) -> Result<PrepareBody<'_>, SyncError> {
    let object = PREPARE.read_body(body)?;
    let transfer_id = object.required("transferId").transfer_id()?;
    let payee = object.required("payeeFsp").name()?;
    let payer = object.required("payerFsp").name()?;
    let money = read_money(object.required("amount"))?;
    let amount = Amount::parse_wire(&money.amount);
    let amount = amount.map_err(|error| RefusedAmount { error, text: money.amount });
    let ilp_packet = object.required("ilpPacket").packet()?;
    let condition = decode_octets(&object.required("condition").octets()?);
    let expiration = object.required("expiration").date_time()?;
    let extensions = read_optional(object.optional("extensionList"), parse_extension_list)?;
    let currency = money.currency;
    Ok(PrepareBody {
        transfer_id,
        payee,
        payer,
        currency,
        amount,
        ilp_packet,
        condition,
        expiration,
        extensions,
    })
}

/// The state of a transfer according to the payee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransferState {
    /// The payee has not decided yet. The schema allows this state, but it is not an answer to a prepare: reject it
    /// with 3100.
    Received,
    /// The payee delivers if the hub commits, and waits for the outcome (from version 1.1 on).
    Reserved,
    /// The payee has delivered.
    Committed,
    /// The payee declined; an older form of `PUT /transfers/{ID}/error`.
    Aborted,
}

impl TransferState {
    /// The text on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Received => "RECEIVED",
            Self::Reserved => "RESERVED",
            Self::Committed => "COMMITTED",
            Self::Aborted => "ABORTED",
        }
    }

    /// Reads the text on the wire.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Received, Self::Reserved, Self::Committed, Self::Aborted]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}

/// The body of `PUT /transfers/{ID}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FulfilBody {
    /// The state according to the payee.
    pub transfer_state: TransferState,
    /// The preimage of the condition. As in other hubs, any 43 base64url characters are accepted as 32 bytes, whatever
    /// the two unused bits of the last character are.
    pub fulfilment: Option<[u8; 32]>,
    /// Time of completion at the payee.
    pub completed_timestamp: Option<Timestamp>,
    /// The checked items of the extension list, as a compact JSON array.
    pub extensions: Option<String>,
}

const FULFIL: Schema<4> =
    Schema::open(1, ["transferState", "fulfilment", "completedTimestamp", "extensionList"]);

/// Reads and checks the body of `PUT /transfers/{ID}`.
///
/// Errors: 400 with 3100, 3101 or 3102 for the first violation of the schema. The ledger checks that a commit has a
/// fulfilment, and [`super::check_completed_timestamp`] checks the timestamp.
pub fn parse_fulfil(body: &[u8]) -> Result<FulfilBody, SyncError> {
    let object = FULFIL.read_body(body)?;
    // In the order of the API's schema, whose only required property is third.
    let fulfilment = read_optional(object.optional("fulfilment"), |value| value.octets())?;
    let completed_timestamp =
        read_optional(object.optional("completedTimestamp"), |value| value.date_time())?;
    let state = object.required("transferState");
    let transfer_state = TransferState::parse(&state.text()?)
        .ok_or_else(|| state.not_allowed("COMMITTED, RESERVED, ABORTED, RECEIVED"))?;
    Ok(FulfilBody {
        transfer_state,
        fulfilment: fulfilment.as_deref().and_then(decode_octets_leniently),
        completed_timestamp,
        extensions: read_optional(object.optional("extensionList"), parse_extension_list)?,
    })
}
