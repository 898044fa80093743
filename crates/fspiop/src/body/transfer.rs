//! The bodies of `POST /transfers` and `PUT /transfers/{ID}` (FSPIOP API v1.1 §6.7.3, §6.7.4).

use alloc::borrow::Cow;
use alloc::string::String;

use upesi_ledger::Refusal;
use upesi_types::{Amount, AmountError, Currency, FspId, Present, Timestamp, TransferId};

use super::error::parse_extension_list;
use super::quote::{read_money, read_optional};
use super::schema::Schema;
use crate::SyncError;
use crate::octets::{decode_octets, decode_octets_leniently};
use crate::refusal::refusal;

/// The body of `POST /transfers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrepareBody<'a> {
    /// Identifies the transfer in all messages about it.
    pub transfer_id: TransferId,
    /// Who is to be paid.
    pub payee: FspId,
    /// Who pays.
    pub payer: FspId,
    /// Of what.
    pub currency: Currency,
    /// How much. The schema admits more digits than a ledger holds; the refusal of those is an asynchronous one.
    pub amount: Result<Amount, RefusedAmount<'a>>,
    /// The ILP packet, base64url, opaque to the hub.
    pub ilp_packet: Cow<'a, str>,
    /// SHA-256 of the fulfilment; `None` when the text is not the canonical one of 32 bytes, which no fulfilment could
    /// ever match. The refusal is an asynchronous one.
    pub condition: Option<[u8; 32]>,
    /// When the transfer lapses unless it is fulfilled.
    pub expiration: Timestamp,
    /// The checked items of the extension list, as a compact JSON array.
    pub extensions: Option<String>,
}

/// An amount in the wire form that the ledger cannot hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedAmount<'a> {
    /// The cause.
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

/// What a payee says became of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransferState {
    /// Nothing yet. The schema admits it, but it is no answer to a prepare: refuse it with 3100.
    Received,
    /// Delivered if the hub commits; the payee waits to be told (from version 1.1 on).
    Reserved,
    /// Delivered.
    Committed,
    /// Refused, the older way of sending `PUT /transfers/{ID}/error`.
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
    /// What the payee did.
    pub transfer_state: TransferState,
    /// The preimage of the condition. Any 43 base64url characters are taken for 32 bytes, whatever the two spare bits
    /// of the last character are, as other hubs do.
    pub fulfilment: Option<[u8; 32]>,
    /// When the payee did it.
    pub completed_timestamp: Option<Timestamp>,
    /// The checked items of the extension list, as a compact JSON array.
    pub extensions: Option<String>,
}

const FULFIL: Schema<4> =
    Schema::open(1, ["transferState", "fulfilment", "completedTimestamp", "extensionList"]);

/// Reads and checks the body of `PUT /transfers/{ID}`.
///
/// Errors: 400 with 3100, 3101 or 3102 for the first violation of the schema. That a commit has a fulfilment is for
/// the ledger to check, and [`super::check_completed_timestamp`] is a check of its own.
pub fn parse_fulfil(body: &[u8]) -> Result<FulfilBody, SyncError> {
    let object = FULFIL.read_body(body)?;
    // In the order of the API's schema, where the one property that is required comes third.
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

// The sanity check of a fulfil's `completedTimestamp`.

/// Refuses a `completedTimestamp` more than `lag_ms` in the future or more than `age_s_max` seconds in the past;
/// both ends pass, and what is right by any of the hub's clocks. Nothing is checked of a message that an
/// inter-scheme proxy passed on. Schemes use 200 ms and 300 s.
///
/// Errors: 400 with 3100.
pub fn check_completed_timestamp(
    completed: Option<Timestamp>,
    present: Present,
    lag_ms: i64,
    age_s_max: i64,
    proxied: bool,
) -> Result<(), SyncError> {
    match completed_timestamp_fault(completed, present, lag_ms, age_s_max, proxied) {
        None => Ok(()),
        Some(fault) => {
            let (code, detail) = refusal(&fault);
            Err(SyncError::new(code, &detail))
        }
    }
}

/// What [`check_completed_timestamp`] refuses, for an answer that the ledger rejects.
pub fn completed_timestamp_fault(
    completed: Option<Timestamp>,
    present: Present,
    lag_ms: i64,
    age_s_max: i64,
    proxied: bool,
) -> Option<Refusal> {
    let completed = completed.filter(|_| !proxied)?;
    if completed > present.latest.plus_ms(lag_ms) {
        Some(Refusal::CompletedInFuture)
    } else if completed < present.earliest.plus_ms(-age_s_max.saturating_mul(1000)) {
        Some(Refusal::CompletedLongAgo)
    } else {
        None
    }
}
