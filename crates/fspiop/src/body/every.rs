//! Runs all body parsers, for properties that must hold for each of them.

use super::*;
use crate::{Resource, SyncError};

/// A parser's name, and a function that returns its error for a body; `None` if it accepts the body.
type Parser = (&'static str, fn(&[u8]) -> Option<SyncError>);

macro_rules! parsers {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), |body: &[u8]| $name(body).err())),*] };
}

/// All parsers that need only the body.
const PARSERS: &[Parser] = parsers![
    parse_prepare,
    parse_fulfil,
    parse_fx_transfer,
    parse_fx_transfer_fulfil,
    parse_bulk_transfer,
    parse_bulk_fulfil,
    parse_error_body,
    parse_participant_post,
    parse_participant_put,
    parse_participants_batch,
    parse_party,
    parse_quote_request,
    parse_quote_response,
    parse_bulk_quote_request,
    parse_bulk_quote_response,
    parse_fx_quote_request,
    parse_fx_quote_response,
    parse_transaction_request,
    parse_transaction_request_response,
    parse_authorization,
];

/// Runs every parser of this crate on a body. Returns one item for each parser, `None` if it accepts the bytes. Error
/// callbacks are parsed for each of the `resources`.
///
/// For tests and fuzzers. A request is read only by the parser of its resource.
pub fn refusals<'a>(
    body: &'a [u8],
    resources: &'a [Resource],
) -> impl Iterator<Item = Option<SyncError>> + use<'a> {
    let of_errors = resources.iter().map(move |&resource| parse_error_body_of(resource, body).err());
    PARSERS.iter().map(move |(_, parse)| parse(body)).chain(of_errors)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// A new parser is included without an entry in this list.
    #[test]
    fn every_parser_is_covered() {
        let elsewhere = ["parse_error_body_of", "parse_authorization_query"];
        let exported = include_str!("mod.rs")
            .split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'))
            .filter(|word| word.starts_with("parse_") && !elsewhere.contains(word));
        let missing: Vec<_> = exported.filter(|word| !PARSERS.iter().any(|(name, _)| name == word)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
