//! The bodies of `/quotes` (FSPIOP API v1.1 §6.5.3, §6.5.4; properties for currency conversion from version 2.0).

use alloc::borrow::Cow;
use alloc::vec::Vec;

use upesi_types::{Currency, Timestamp, TransferId};

use super::error::check_extension_list;
use super::json::Document;
use super::object::find_properties;
use super::participants::{PartyInfo, read_party};
use super::schema::{Schema, Value};
use super::text::are_digits;
use crate::SyncError;

/// The body of `POST /quotes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuoteRequest<'a> {
    /// Identifies the quote in all messages about it.
    pub quote_id: TransferId,
    /// Identifies the transaction that the quote is for.
    pub transaction_id: TransferId,
    /// The transaction request that the payment fulfils.
    pub transaction_request_id: Option<TransferId>,
    /// The payee.
    pub payee: PartyInfo<'a>,
    /// The payer.
    pub payer: PartyInfo<'a>,
    /// Whether the amount is the one to send or to receive.
    pub amount_type: AmountType,
    /// The amount.
    pub amount: QuotedMoney<'a>,
    /// Time until which the quote is requested. It may be in the past, because hubs do not enforce it.
    pub expiration: Option<Timestamp>,
}

/// The body of `PUT /quotes/{ID}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuoteResponse<'a> {
    /// The amount that the payer's DFSP has to transfer.
    pub transfer_amount: QuotedMoney<'a>,
    /// The amount that the payee receives.
    pub payee_receive_amount: Option<QuotedMoney<'a>>,
    /// Time until which the terms are valid. It may be in the past, because hubs do not enforce it.
    pub expiration: Timestamp,
    /// The ILP packet, base64url, opaque to the hub.
    pub ilp_packet: Cow<'a, str>,
    /// The condition, 43 base64url characters.
    pub condition: Cow<'a, str>,
}

const REQUEST: Schema<15> = Schema::closed(
    7,
    [
        "quoteId",
        "transactionId",
        "payee",
        "payer",
        "amountType",
        "amount",
        "transactionType",
        "transactionRequestId",
        "fees",
        "geoCode",
        "note",
        "expiration",
        "extensionList",
        "converter",
        "currencyConversion",
    ],
);

/// Reads and checks the body of `POST /quotes`.
///
/// Errors: 400 with 3100, 3101, 3102 or 3103 for the first violation of the schema.
pub fn parse_quote_request(body: &[u8]) -> Result<QuoteRequest<'_>, SyncError> {
    let object = REQUEST.read_body(body)?;
    let quote_id = object.required("quoteId").transfer_id()?;
    let transaction_id = object.required("transactionId").transfer_id()?;
    let payee = read_party(object.required("payee"))?;
    let payer = read_party(object.required("payer"))?;
    let amount_type = read_amount_type(object.required("amountType"))?;
    let amount = read_money(object.required("amount"))?;
    check_transaction_type(object.required("transactionType"))?;
    let transaction_request_id =
        read_optional(object.optional("transactionRequestId"), |value| value.transfer_id())?;
    check(object.optional("fees"), read_money)?;
    check(object.optional("geoCode"), check_geo_code)?;
    check(object.optional("note"), check_note)?;
    let expiration = read_optional(object.optional("expiration"), |value| value.date_time())?;
    check(object.optional("extensionList"), check_extension_list)?;
    check(object.optional("converter"), |value| value.any_of(&["PAYER", "PAYEE"]))?;
    check(object.optional("currencyConversion"), check_rate)?;
    Ok(QuoteRequest {
        quote_id,
        transaction_id,
        transaction_request_id,
        payee,
        payer,
        amount_type,
        amount,
        expiration,
    })
}

const RATE: Schema<2> = Schema::open(2, ["sourceAmount", "targetAmount"]);

fn check_rate(value: Value<'_, '_>) -> Result<(), SyncError> {
    let rate = RATE.read(value)?;
    read_money(rate.required("sourceAmount"))?;
    read_money(rate.required("targetAmount")).map(|_| ())
}

const RESPONSE: Schema<9> = Schema::closed(
    4,
    [
        "transferAmount",
        "expiration",
        "ilpPacket",
        "condition",
        "payeeReceiveAmount",
        "payeeFspFee",
        "payeeFspCommission",
        "geoCode",
        "extensionList",
    ],
);

/// Reads and checks the body of `PUT /quotes/{ID}`.
///
/// Errors: 400 with 3100, 3101, 3102 or 3103 for the first violation of the schema.
pub fn parse_quote_response(body: &[u8]) -> Result<QuoteResponse<'_>, SyncError> {
    let object = RESPONSE.read_body(body)?;
    let transfer_amount = read_money(object.required("transferAmount"))?;
    let expiration = object.required("expiration").date_time()?;
    let ilp_packet = object.required("ilpPacket").packet()?;
    let condition = object.required("condition").octets()?;
    let payee_receive_amount = read_optional(object.optional("payeeReceiveAmount"), read_money)?;
    check(object.optional("payeeFspFee"), read_money)?;
    check(object.optional("payeeFspCommission"), read_money)?;
    check(object.optional("geoCode"), check_geo_code)?;
    check(object.optional("extensionList"), check_extension_list)?;
    Ok(QuoteResponse { transfer_amount, payee_receive_amount, expiration, ilp_packet, condition })
}

// Common parts of the messages of quoting.

/// An amount as it is written. A quoted amount is not posted: the schema allows more digits than a ledger can
/// represent, and hubs do not calculate with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotedMoney<'a> {
    /// The currency.
    pub currency: Currency,
    /// The amount, in the canonical form of FSPIOP API v1.1 §7.1.5.
    pub amount: Cow<'a, str>,
}

/// Which amount of a payment is stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AmountType {
    /// The amount that the payer pays, including fees.
    Send,
    /// The amount that the payee receives.
    Receive,
}

const MONEY: Schema<2> = Schema::open(2, ["currency", "amount"]);

pub(crate) fn read_money<'a>(value: Value<'a, '_>) -> Result<QuotedMoney<'a>, SyncError> {
    let money = MONEY.read(value)?;
    let currency = money.required("currency").currency()?;
    Ok(QuotedMoney { currency, amount: money.required("amount").amount()? })
}

/// All objects of a body that have a currency and an amount, whatever they mean.
pub(crate) fn all_money(body: &[u8]) -> Vec<QuotedMoney<'_>> {
    let document = core::str::from_utf8(body).ok().and_then(Document::parse).unwrap_or_else(Document::empty);
    let money = |object| {
        let [currency, amount] = find_properties(&document, object, &["currency", "amount"])?.positions;
        let currency = Currency::parse(&document.text(currency? as usize)?)?;
        Some(QuotedMoney { currency, amount: document.text(amount? as usize)? })
    };
    document.objects().filter_map(money).collect()
}

pub(crate) fn read_amount_type(value: Value<'_, '_>) -> Result<AmountType, SyncError> {
    value.one_of(&[("SEND", AmountType::Send), ("RECEIVE", AmountType::Receive)])
}

/// Reads an optional property.
pub(crate) fn read_optional<'a, 'p, T>(
    value: Option<Value<'a, 'p>>,
    read: impl FnOnce(Value<'a, 'p>) -> Result<T, SyncError>,
) -> Result<Option<T>, SyncError> {
    value.map(read).transpose()
}

/// Checks an optional property that the hub itself does not need.
pub(crate) fn check<'a, 'p, T>(
    value: Option<Value<'a, 'p>>,
    read: impl FnOnce(Value<'a, 'p>) -> Result<T, SyncError>,
) -> Result<(), SyncError> {
    read_optional(value, read).map(|_| ())
}

const GEO_CODE: Schema<2> = Schema::open(2, ["latitude", "longitude"]);

pub(crate) fn check_geo_code(value: Value<'_, '_>) -> Result<(), SyncError> {
    let code = GEO_CODE.read(value)?;
    code.required("latitude").degrees(90)?;
    code.required("longitude").degrees(180)
}

pub(crate) fn check_note(value: Value<'_, '_>) -> Result<(), SyncError> {
    value.bounded_text(1, 128).map(|_| ())
}

const TRANSACTION_TYPE: Schema<6> = Schema::open(
    3,
    ["scenario", "initiator", "initiatorType", "subScenario", "refundInfo", "balanceOfPayments"],
);
const REFUND: Schema<2> = Schema::open(1, ["originalTransactionId", "refundReason"]);

pub(crate) fn check_transaction_type(value: Value<'_, '_>) -> Result<(), SyncError> {
    let kind = TRANSACTION_TYPE.read(value)?;
    kind.required("scenario").any_of(&["DEPOSIT", "WITHDRAWAL", "TRANSFER", "PAYMENT", "REFUND"])?;
    kind.required("initiator").any_of(&["PAYER", "PAYEE"])?;
    kind.required("initiatorType").any_of(&["CONSUMER", "AGENT", "BUSINESS", "DEVICE"])?;
    check(kind.optional("subScenario"), |value| value.undefined_enum())?;
    if let Some(refund) = kind.optional("refundInfo") {
        let refund = REFUND.read(refund)?;
        refund.required("originalTransactionId").transfer_id()?;
        check(refund.optional("refundReason"), check_note)?;
    }
    let is_code = |text: &str| are_digits(text, 3, 3) && !text.starts_with('0');
    check(kind.optional("balanceOfPayments"), |value| {
        value.matching("three digits, the first not 0", is_code)
    })
}
