//! Bodies: parse the bytes of a request to a typed message, or report the first violated rule.
//!
//! The order of violations is fixed. The type of an object comes first. Missing properties follow, in the order of the
//! schema, and then each property in that order, completely before the next. For a text, the length is checked before
//! the pattern. Properties that the schema does not name are tolerated, except in a quote or bulk quote. If a text is
//! expected, a number, `true` or `false` counts as its characters, and `null` as the empty text. The bytes themselves
//! are never changed.

mod bulk_quote;
mod bulk_transfer;
mod completed_timestamp;
mod error;
mod every;
mod extension_list;
mod fx_quote;
mod fx_transfer;
mod json;
mod object;
mod participants;
mod party;
mod payment_request;
mod quote;
mod quoting;
mod schema;
mod signature;
#[cfg(test)]
mod tests;
mod text;
mod transfer;

pub use bulk_quote::{
    BULK_QUOTES_MAX, BulkQuoteRequest, BulkQuoteResponse, IndividualQuote, IndividualQuoteResult,
    parse_bulk_quote_request, parse_bulk_quote_response,
};
pub use bulk_transfer::{
    BULK_ITEMS_MAX, BulkFulfilBody, BulkItem, BulkItemResult, BulkTransferBody, BulkTransferState,
    parse_bulk_fulfil, parse_bulk_transfer,
};
pub use completed_timestamp::{CompletionFault, check_completed_timestamp, completed_timestamp_fault};
pub use error::{ErrorBody, parse_error_body, parse_error_body_of};
pub use every::refusals;
pub use fx_quote::{
    ConversionAmount, ConversionTerms, FxQuoteRequest, FxQuoteResponse, parse_fx_quote_request,
    parse_fx_quote_response,
};
pub use fx_transfer::{
    ConvertedAmount, FxTransferBody, FxTransferFulfilBody, parse_fx_transfer, parse_fx_transfer_fulfil,
};
pub use object::JSON_DEPTH_MAX;
pub use participants::{
    BATCH_PARTIES_MAX, BatchParty, ParticipantPost, ParticipantPut, ParticipantsBatch,
    parse_participant_post, parse_participant_put, parse_participants_batch,
};
pub use party::{PartyIdInfo, PartyInfo, parse_party};
pub use payment_request::{
    AuthenticationType, AuthorizationOutcome, AuthorizationQuery, TransactionRequest,
    TransactionRequestResponse, TransactionRequestState, parse_authorization, parse_authorization_query,
    parse_transaction_request, parse_transaction_request_response,
};
pub use quote::{QuoteRequest, QuoteResponse, parse_quote_request, parse_quote_response};
pub(crate) use quoting::all_money;
pub use quoting::{AmountType, QuotedMoney};
pub(crate) use signature::is_signature_object;
pub use transfer::{FulfilBody, PrepareBody, RefusedAmount, TransferState, parse_fulfil, parse_prepare};
