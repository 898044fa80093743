//! Bodies: parse the bytes of a request to a typed message, or report the first violated rule.
//!
//! The order of violations is fixed. The type of an object comes first. Missing properties follow, in the order of the
//! schema, and then each property in that order, completely before the next. For a text, the length is checked before
//! the pattern. Properties that the schema does not name are tolerated, except in a quote or bulk quote. If a text is
//! expected, a number, `true` or `false` counts as its characters, and `null` as the empty text. The bytes themselves
//! are never changed.

mod bulk_transfer;
mod conversion;
mod error;
mod every;
mod json;
mod object;
mod participants;
mod payment_request;
mod quote;
mod schema;
mod signature;
#[cfg(test)]
mod tests;
mod text;
mod transfer;

pub use bulk_transfer::{
    BULK_ITEMS_MAX, BULK_QUOTES_MAX, BulkFulfilBody, BulkItem, BulkItemResult, BulkQuoteRequest,
    BulkQuoteResponse, BulkTransferBody, BulkTransferState, IndividualQuote, IndividualQuoteResult,
    parse_bulk_fulfil, parse_bulk_quote_request, parse_bulk_quote_response, parse_bulk_transfer,
};
pub use conversion::{
    ConversionAmount, ConversionBody, ConversionFulfilBody, ConversionTerms, ConvertedAmount, FxQuoteRequest,
    FxQuoteResponse, parse_conversion, parse_conversion_fulfil, parse_fx_quote_request,
    parse_fx_quote_response,
};
pub(crate) use error::EXTENSION_ITEMS_MAX;
pub use error::{ErrorBody, parse_error_body, parse_error_body_of};
pub use every::refusals;
pub use object::JSON_DEPTH_MAX;
pub use participants::{
    BATCH_PARTIES_MAX, BatchParty, ParticipantPost, ParticipantPut, ParticipantsBatch, PartyIdInfo,
    PartyInfo, parse_participant_post, parse_participant_put, parse_participants_batch, parse_party,
};
pub use payment_request::{
    AuthenticationType, AuthorizationOutcome, AuthorizationQuery, TransactionRequest,
    TransactionRequestResponse, TransactionRequestState, parse_authorization, parse_authorization_query,
    parse_transaction_request, parse_transaction_request_response,
};
pub(crate) use quote::all_money;
pub use quote::{
    AmountType, QuoteRequest, QuoteResponse, QuotedMoney, parse_quote_request, parse_quote_response,
};
pub(crate) use signature::is_signature_object;
pub(crate) use text::{ID_RULE, NOT_ALLOWED};
pub use transfer::{
    CompletionFault, FulfilBody, PrepareBody, RefusedAmount, TransferState, check_completed_timestamp,
    completed_timestamp_fault, parse_fulfil, parse_prepare,
};
