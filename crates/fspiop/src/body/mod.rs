//! Bodies: from the bytes of a request to a typed message, or to the first rule that they break.
//!
//! The order of violations is fixed. An object's own type comes first, then its missing properties in the order of the
//! schema, then each property in that order, finished before the next begins; of a text, first its length, then its
//! pattern. Properties that the schema does not name are tolerated. A number, `true` or `false` where a text is wanted
//! counts as the characters it is written with, `null` as the empty text. The bytes themselves are never changed.

mod completed;
mod error;
mod extensions;
mod object;
mod text;
mod transfer;

pub use completed::check_completed_timestamp;
pub use error::{ErrorBody, parse_error_body};
pub(crate) use extensions::EXTENSION_ITEMS_MAX;
pub use object::JSON_DEPTH_MAX;
pub use transfer::{FulfilBody, PrepareBody, RefusedAmount, TransferState, parse_fulfil, parse_prepare};

#[cfg(test)]
mod tests;
