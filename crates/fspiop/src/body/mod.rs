//! Bodies: from the bytes of a request to a typed message, or to the first rule that they break.
//!
//! The order of violations is fixed. An object's own type comes first, then its missing properties in the order of the
//! schema, then each property in that order, finished before the next begins; of a text, first its length, then its
//! pattern. Properties that the schema does not name are
//! tolerated, but not beside those of a quote or bulk quote. A number, `true` or `false` where a text is wanted
//! counts as the characters it is written with, `null` as the empty text. The bytes themselves are never changed.

mod bulk_quote;
mod bulk_transfer;
mod completed;
mod conversion;
mod error;
mod every;
mod extensions;
mod fx_quote;
mod json;
mod object;
mod participants;
mod party;
mod payment_request;
mod quote;
mod scalar;
mod schema;
mod terms;
mod text;
mod transfer;

pub use bulk_quote::{
    BULK_QUOTES_MAX, BulkQuoteRequest, BulkQuoteResponse, IndividualQuote, IndividualQuoteResult,
    parse_bulk_quote_request, parse_bulk_quote_response,
};
pub use bulk_transfer::{BulkFulfilBody, BulkTransferBody, parse_bulk_fulfil, parse_bulk_transfer};
pub use completed::check_completed_timestamp;
pub use conversion::{
    ConversionBody, ConversionFulfilBody, ConvertedAmount, parse_conversion, parse_conversion_fulfil,
};
pub use error::{ErrorBody, parse_error_body, parse_error_body_of};
pub use every::refusals;
pub(crate) use extensions::EXTENSION_ITEMS_MAX;
pub use fx_quote::{
    ConversionAmount, ConversionTerms, FxQuoteRequest, FxQuoteResponse, parse_fx_quote_request,
    parse_fx_quote_response,
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
pub use terms::{AmountType, QuotedMoney};
pub(crate) use text::{ID_RULE, NOT_ALLOWED};
pub use transfer::{FulfilBody, PrepareBody, RefusedAmount, TransferState, parse_fulfil, parse_prepare};

#[cfg(test)]
mod tests;
