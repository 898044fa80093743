//! The bodies of `/quotes` (FSPIOP API v1.1 §6.5.3, §6.5.4; properties for currency conversion from version 2.0).

use alloc::borrow::Cow;

use upesi_types::{Timestamp, TransferId};

use super::extension_list::check_extension_list;
use super::party::{PartyInfo, read_party};
use super::quoting::{
    AmountType, QuotedMoney, check, check_geo_code, check_note, check_transaction_type, read_amount_type,
    read_money, read_optional,
};
use super::schema::{Schema, Value};
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
    pub payee: PartyInfo<'a>,
    pub payer: PartyInfo<'a>,
    /// Whether the amount is the one to send or to receive.
    pub amount_type: AmountType,
    pub amount: QuotedMoney<'a>,
    /// Time until which the quote is requested. It may be in the past, because hubs do not enforce it.
    pub expiration: Option<Timestamp>,
}

/// The body of `PUT /quotes/{ID}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuoteResponse<'a> {
    /// The amount that the payer's DFSP has to transfer.
    pub transfer_amount: QuotedMoney<'a>,
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
