//! The bodies of `/fxQuotes` (FSPIOP API v2.0, currency conversion).

use alloc::borrow::Cow;

use upesi_types::{Currency, FspId, Timestamp, TransferId};

use super::extension_list::check_extension_list;
use super::quoting::{AmountType, check, read_amount_type, read_money, read_optional};
use super::schema::{Schema, Value, read_array};
use crate::SyncError;

/// Maximum number of charges of one conversion.
const CHARGES_MAX: usize = 16;

/// The body of `POST /fxQuotes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FxQuoteRequest<'a> {
    /// Identifies the quote in all messages about it.
    pub conversion_request_id: TransferId,
    pub terms: ConversionTerms<'a>,
}

/// The body of `PUT /fxQuotes/{ID}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FxQuoteResponse<'a> {
    /// The condition of the conversion, 43 base64url characters.
    pub condition: Option<Cow<'a, str>>,
    pub terms: ConversionTerms<'a>,
}

/// The terms of a currency conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversionTerms<'a> {
    /// Identifies the conversion.
    pub conversion_id: TransferId,
    /// The transfer that needs the conversion.
    pub determining_transfer_id: Option<TransferId>,
    /// The DFSP that requests the conversion.
    pub initiating_fsp: FspId,
    /// The FXP that converts.
    pub counter_party_fsp: FspId,
    /// Whether the amount is the one to send or to receive.
    pub amount_type: AmountType,
    /// The money that is sold.
    pub source: ConversionAmount<'a>,
    /// The money that is bought.
    pub target: ConversionAmount<'a>,
    /// Time until which the terms are valid. It may be in the past, because hubs do not enforce it.
    pub expiration: Timestamp,
}

/// One side of a conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversionAmount<'a> {
    pub currency: Currency,
    /// The amount in canonical form; absent if the other party is to provide it.
    pub amount: Option<Cow<'a, str>>,
}

const REQUEST: Schema<2> = Schema::open(2, ["conversionRequestId", "conversionTerms"]);

/// Reads and checks the body of `POST /fxQuotes`.
///
/// Errors: 400 with 3100, 3101 or 3102 for the first violation of the schema.
pub fn parse_fx_quote_request(body: &[u8]) -> Result<FxQuoteRequest<'_>, SyncError> {
    let object = REQUEST.read_body(body)?;
    let conversion_request_id = object.required("conversionRequestId").transfer_id()?;
    Ok(FxQuoteRequest { conversion_request_id, terms: read_terms(object.required("conversionTerms"))? })
}

const RESPONSE: Schema<2> = Schema::open(1, ["conversionTerms", "condition"]);

/// Reads and checks the body of `PUT /fxQuotes/{ID}`.
///
/// Errors: 400 with 3100, 3101 or 3102 for the first violation of the schema.
pub fn parse_fx_quote_response(body: &[u8]) -> Result<FxQuoteResponse<'_>, SyncError> {
    let object = RESPONSE.read_body(body)?;
    let terms = read_terms(object.required("conversionTerms"))?;
    let condition = read_optional(object.optional("condition"), |value| value.octets())?;
    Ok(FxQuoteResponse { condition, terms })
}

const TERMS: Schema<10> = Schema::open(
    7,
    [
        "conversionId",
        "initiatingFsp",
        "counterPartyFsp",
        "amountType",
        "sourceAmount",
        "targetAmount",
        "expiration",
        "determiningTransferId",
        "charges",
        "extensionList",
    ],
);

fn read_terms<'a>(value: Value<'a, '_>) -> Result<ConversionTerms<'a>, SyncError> {
    let terms = TERMS.read(value)?;
    let conversion_id = terms.required("conversionId").transfer_id()?;
    let initiating_fsp = terms.required("initiatingFsp").name()?;
    let counter_party_fsp = terms.required("counterPartyFsp").name()?;
    let amount_type = read_amount_type(terms.required("amountType"))?;
    let source = read_quoted_amount(terms.required("sourceAmount"))?;
    let target = read_quoted_amount(terms.required("targetAmount"))?;
    let expiration = terms.required("expiration").date_time()?;
    let determining_transfer_id =
        read_optional(terms.optional("determiningTransferId"), |value| value.transfer_id())?;
    if let Some(charges) = terms.optional("charges") {
        for charge in read_array(charges, 0, CHARGES_MAX)?.iter() {
            check_charge(charge)?;
        }
    }
    check(terms.optional("extensionList"), check_extension_list)?;
    Ok(ConversionTerms {
        conversion_id,
        determining_transfer_id,
        initiating_fsp,
        counter_party_fsp,
        amount_type,
        source,
        target,
        expiration,
    })
}

const AMOUNT: Schema<2> = Schema::open(1, ["currency", "amount"]);

fn read_quoted_amount<'a>(value: Value<'a, '_>) -> Result<ConversionAmount<'a>, SyncError> {
    let money = AMOUNT.read(value)?;
    let currency = money.required("currency").currency()?;
    let amount = read_optional(money.optional("amount"), |value| value.amount())?;
    Ok(ConversionAmount { currency, amount })
}

const CHARGE: Schema<3> = Schema::open(1, ["chargeType", "sourceAmount", "targetAmount"]);

fn check_charge(value: Value<'_, '_>) -> Result<(), SyncError> {
    let charge = CHARGE.read(value)?;
    charge.required("chargeType").bounded_text(1, 32)?;
    check(charge.optional("sourceAmount"), read_money)?;
    check(charge.optional("targetAmount"), read_money)
}
