//! The bodies of `/bulkQuotes` (FSPIOP API v1.1 §6.9.3, §6.9.4).

use alloc::vec::Vec;

use upesi_types::{Timestamp, TransferId};

use super::error::check_error_information;
use super::extension_list::check_extension_list;
use super::party::{PartyInfo, read_party};
use super::quoting::{
    AmountType, QuotedMoney, check, check_geo_code, check_note, check_transaction_type, read_amount_type,
    read_money, read_optional,
};
use super::schema::{Schema, Value, read_array};
use crate::SyncError;

/// Maximum number of quotes in a bulk quote.
pub const BULK_QUOTES_MAX: usize = 1_000;

/// The body of `POST /bulkQuotes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkQuoteRequest<'a> {
    /// Identifies the bulk quote in all messages about it.
    pub bulk_quote_id: TransferId,
    pub payer: PartyInfo<'a>,
    /// The quotes, 1 to 1 000.
    pub quotes: Vec<IndividualQuote<'a>>,
    /// Time until which the quotes are requested. It may be in the past, because hubs do not enforce it.
    pub expiration: Option<Timestamp>,
}

/// One quote of a bulk quote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndividualQuote<'a> {
    pub quote_id: TransferId,
    /// Identifies the transaction that the quote is for.
    pub transaction_id: TransferId,
    pub payee: PartyInfo<'a>,
    /// Whether the amount is the one to send or to receive.
    pub amount_type: AmountType,
    pub amount: QuotedMoney<'a>,
}

/// The body of `PUT /bulkQuotes/{ID}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkQuoteResponse<'a> {
    /// Time until which the terms are valid. It may be in the past, because hubs do not enforce it.
    pub expiration: Timestamp,
    /// The results, at most 1 000.
    pub results: Vec<IndividualQuoteResult<'a>>,
}

/// The result for one quote of a bulk quote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndividualQuoteResult<'a> {
    pub quote_id: TransferId,
    /// The amount that the payer's DFSP has to transfer; absent if the quote failed.
    pub transfer_amount: Option<QuotedMoney<'a>>,
}

const REQUEST: Schema<6> =
    Schema::closed(3, ["bulkQuoteId", "payer", "individualQuotes", "geoCode", "expiration", "extensionList"]);

/// Reads and checks the body of `POST /bulkQuotes`.
///
/// Errors: 400 with 3100, 3101, 3102 or 3103 for the first violation of the schema.
pub fn parse_bulk_quote_request(body: &[u8]) -> Result<BulkQuoteRequest<'_>, SyncError> {
    let object = REQUEST.read_body(body)?;
    let bulk_quote_id = object.required("bulkQuoteId").transfer_id()?;
    let payer = read_party(object.required("payer"))?;
    let quotes = read_array(object.required("individualQuotes"), 1, BULK_QUOTES_MAX)?;
    let quotes = quotes.iter().map(read_individual_quote).collect::<Result<_, _>>()?;
    check(object.optional("geoCode"), check_geo_code)?;
    let expiration = read_optional(object.optional("expiration"), |value| value.date_time())?;
    check(object.optional("extensionList"), check_extension_list)?;
    Ok(BulkQuoteRequest { bulk_quote_id, payer, quotes, expiration })
}

const INDIVIDUAL_QUOTE: Schema<9> = Schema::open(
    6,
    [
        "quoteId",
        "transactionId",
        "payee",
        "amountType",
        "amount",
        "transactionType",
        "fees",
        "note",
        "extensionList",
    ],
);

fn read_individual_quote<'a>(value: Value<'a, '_>) -> Result<IndividualQuote<'a>, SyncError> {
    let quote = INDIVIDUAL_QUOTE.read(value)?;
    let quote_id = quote.required("quoteId").transfer_id()?;
    let transaction_id = quote.required("transactionId").transfer_id()?;
    let payee = read_party(quote.required("payee"))?;
    let amount_type = read_amount_type(quote.required("amountType"))?;
    let amount = read_money(quote.required("amount"))?;
    check_transaction_type(quote.required("transactionType"))?;
    check(quote.optional("fees"), read_money)?;
    check(quote.optional("note"), check_note)?;
    check(quote.optional("extensionList"), check_extension_list)?;
    Ok(IndividualQuote { quote_id, transaction_id, payee, amount_type, amount })
}

const RESPONSE: Schema<3> = Schema::closed(1, ["expiration", "individualQuoteResults", "extensionList"]);

/// Reads and checks the body of `PUT /bulkQuotes/{ID}`.
///
/// Errors: 400 with 3100, 3101, 3102 or 3103 for the first violation of the schema.
pub fn parse_bulk_quote_response(body: &[u8]) -> Result<BulkQuoteResponse<'_>, SyncError> {
    let object = RESPONSE.read_body(body)?;
    let expiration = object.required("expiration").date_time()?;
    let results = match object.optional("individualQuoteResults") {
        Some(results) => {
            let results = read_array(results, 0, BULK_QUOTES_MAX)?;
            results.iter().map(read_individual_result).collect::<Result<_, _>>()?
        }
        None => Vec::new(),
    };
    check(object.optional("extensionList"), check_extension_list)?;
    Ok(BulkQuoteResponse { expiration, results })
}

const INDIVIDUAL_RESULT: Schema<10> = Schema::open(
    1,
    [
        "quoteId",
        "payee",
        "transferAmount",
        "payeeReceiveAmount",
        "payeeFspFee",
        "payeeFspCommission",
        "ilpPacket",
        "condition",
        "errorInformation",
        "extensionList",
    ],
);

fn read_individual_result<'a>(value: Value<'a, '_>) -> Result<IndividualQuoteResult<'a>, SyncError> {
    let result = INDIVIDUAL_RESULT.read(value)?;
    let quote_id = result.required("quoteId").transfer_id()?;
    check(result.optional("payee"), read_party)?;
    let transfer_amount = read_optional(result.optional("transferAmount"), read_money)?;
    for name in ["payeeReceiveAmount", "payeeFspFee", "payeeFspCommission"] {
        check(result.optional(name), read_money)?;
    }
    check(result.optional("ilpPacket"), |value| value.packet())?;
    check(result.optional("condition"), |value| value.octets())?;
    check(result.optional("errorInformation"), check_error_information)?;
    check(result.optional("extensionList"), check_extension_list)?;
    Ok(IndividualQuoteResult { quote_id, transfer_amount })
}
