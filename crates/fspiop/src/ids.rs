//! Checks the identifiers in the path of a request.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt::{self, Write};

use upesi_types::{Currency, ErrorCode, TransferId};

use crate::party::{PATH_ID_CHARS_MAX, check_path_id};
use crate::percent::decode_segment;
use crate::uri::{write_party_path, write_path};
use crate::{PartyIdType, PartyPath, Resource, Segments, SyncError};

/// The checked content of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Only the family.
    Family,
    /// One object.
    Id(PathId),
    Party(PathParty),
    /// Providers of foreign exchange, for one pair of currencies or for any.
    Providers(Option<CurrencyPair>),
}

/// A pair of currencies to convert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrencyPair {
    /// The currency that is sold.
    pub source: Currency,
    /// The currency that is bought.
    pub target: Currency,
}

/// An id in a path. It prints as it was received.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathId {
    /// A well-formed id in its plain form.
    Plain(TransferId),
    /// Any other text.
    Text {
        /// The text as received, percent-encoded. A decoded line break or slash would change the meaning of the URLs
        /// and headers of callbacks.
        text: Box<str>,
        /// The well-formed id that it encodes, if any.
        id: Option<TransferId>,
    },
}

/// A party in a path, as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathParty {
    pub kind: PartyIdType,
    /// The identifier, percent-encoded.
    pub id: Box<str>,
    /// Distinguishes parties under one identifier, percent-encoded.
    pub sub_id: Option<Box<str>>,
}

/// The identifiers of a path, which can write the path again as it was received.
pub trait PathNames {
    /// Appends the path in a family with these identifiers, and `/error` if it is the path of an error callback.
    fn write_path(&self, resource: Resource, is_error: bool, out: &mut String);

    /// Length of the identifiers in a path, in bytes.
    fn bytes(&self) -> usize;
}

/// The path of the family itself.
impl PathNames for () {
    fn write_path(&self, resource: Resource, is_error: bool, out: &mut String) {
        write_path(resource, None, is_error, out);
    }

    fn bytes(&self) -> usize {
        0
    }
}

impl PathNames for PathId {
    fn write_path(&self, resource: Resource, is_error: bool, out: &mut String) {
        write_path(resource, Some(""), false, out);
        // Writing to a `String` cannot fail.
        let _ = write!(out, "{self}");
        out.push_str(if is_error { "/error" } else { "" });
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Plain(_) => TransferId::TEXT_BYTES_MAX,
            Self::Text { text, .. } => text.len(),
        }
    }
}

impl PathNames for PathParty {
    fn write_path(&self, resource: Resource, is_error: bool, out: &mut String) {
        write_party_path(resource, &self.as_path(), is_error, out);
    }

    fn bytes(&self) -> usize {
        self.kind.as_str().len() + self.id.len() + self.sub_id.as_ref().map_or(0, |sub_id| sub_id.len() + 1)
    }
}

impl PathNames for Ids {
    fn write_path(&self, resource: Resource, is_error: bool, out: &mut String) {
        match self {
            Self::Family => ().write_path(resource, is_error, out),
            Self::Id(id) => id.write_path(resource, is_error, out),
            Self::Party(party) => party.write_path(resource, is_error, out),
            Self::Providers(pair) => {
                write_path(resource, Some("FXP"), false, out);
                for currency in pair.iter().flat_map(|pair| [pair.source, pair.target]) {
                    out.push('/');
                    out.push_str(currency.as_str());
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Family => 0,
            Self::Id(id) => id.bytes(),
            Self::Party(party) => party.bytes(),
            Self::Providers(_) => "FXP/KES/TZS".len(),
        }
    }
}

impl Segments<'_> {
    /// Checks the schema of a path. Call it after the checks of the headers and the body.
    ///
    /// Errors: 400 with 3100.
    pub fn check(self, resource: Resource, extended_party_id_types: bool) -> Result<Ids, SyncError> {
        match self {
            Self::Family => Ok(Ids::Family),
            Self::Id(segment) => PathId::read(resource, segment).map(Ids::Id),
            Self::Party(party) => party.check(extended_party_id_types).map(|party| Ids::Party(party.into())),
            Self::Providers(None) => Ok(Ids::Providers(None)),
            Self::Providers(Some([source, target])) => {
                let source = currency_of("SourceCurrency", source)?;
                let target = currency_of("TargetCurrency", target)?;
                Ok(Ids::Providers(Some(CurrencyPair { source, target })))
            }
        }
    }
}

fn currency_of(name: &str, segment: &str) -> Result<Currency, SyncError> {
    Currency::parse(segment).ok_or_else(|| {
        let detail =
            format!("/path/{name} must be equal to one of the allowed values: ISO 4217 codes such as KES");
        SyncError::new(ErrorCode::VALIDATION, &detail)
    })
}

impl From<PartyPath<'_>> for PathParty {
    fn from(party: PartyPath<'_>) -> Self {
        Self { kind: party.kind, id: party.id.into(), sub_id: party.sub_id.map(Into::into) }
    }
}

impl PathParty {
    /// Borrows the party's path.
    pub fn as_path(&self) -> PartyPath<'_> {
        PartyPath { kind: self.kind, id: &self.id, sub_id: self.sub_id.as_deref() }
    }
}

impl PathId {
    /// Reads the `{ID}` of a path. Ids of quotes must match the schema. For transfers and FX transfers FSPIOP has no
    /// pattern, so any other text is answered by an error callback with that same path. For other resources the
    /// receiver decides.
    ///
    /// Errors: 400 with 3100 for an id that does not match the schema, is too long, or is not suitable for a path.
    pub fn read(resource: Resource, segment: &str) -> Result<Self, SyncError> {
        if let Some(id) = TransferId::parse(segment) {
            return Ok(Self::Plain(id));
        }
        let text = || segment.into();
        if resource.moves_money() {
            return check_transfer_id(segment).map(|id| Self::Text { text: text(), id });
        }
        let id = TransferId::parse(&check_path_id(resource, segment)?);
        Ok(Self::Text { text: text(), id })
    }

    /// The well-formed id, whatever its encoding is.
    pub const fn id(&self) -> Option<TransferId> {
        match self {
            Self::Plain(id) => Some(*id),
            Self::Text { id, .. } => *id,
        }
    }
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(id) => id.fmt(f),
            Self::Text { text, .. } => f.write_str(text),
        }
    }
}

fn check_transfer_id(segment: &str) -> Result<Option<TransferId>, SyncError> {
    let refuse = |violation: &str| SyncError::new(ErrorCode::VALIDATION, &format!("/path/ID {violation}"));
    if segment.chars().nth(PATH_ID_CHARS_MAX).is_some() {
        return Err(refuse(&format!("must NOT have more than {PATH_ID_CHARS_MAX} characters")));
    }
    if !segment.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refuse("must be ASCII, with other characters percent-encoded"));
    }
    let decoded = decode_segment(segment).ok_or_else(|| refuse("is not percent-encoded UTF-8"))?;
    if decoded.chars().any(char::is_control) || matches!(&*decoded, "." | "..") {
        return Err(refuse("must be an identifier"));
    }
    Ok(TransferId::parse(&decoded))
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::{Action, Method, Route};

    const ID: &str = "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d";

    fn read(segment: &str) -> Result<PathId, SyncError> {
        PathId::read(Resource::Transfers, segment)
    }

    #[test]
    fn ids_are_decoded_before_parsing() {
        let id = TransferId::parse(ID);
        assert_eq!(read(ID), Ok(PathId::Plain(id.unwrap())));
        let whole: String = ID.bytes().map(|byte| format!("%{byte:02X}")).collect();
        for text in [ID.replacen('5', "%35", 1), ID.replace('d', "%64"), whole] {
            let read_as = read(&text).unwrap();
            assert_eq!((read_as.id(), read_as.to_string()), (id, text.clone()));
        }
        let quote = PathId::read(Resource::Quotes, &ID.replacen('5', "%35", 1)).unwrap();
        assert_eq!((quote.id(), quote.to_string()), (id, ID.replacen('5', "%35", 1)));
    }

    #[test]
    fn other_texts_remain_as_written() {
        for text in ["x", "any%20text", "a%2Fb", "caf%C3%A9", "...", "5B1C7D0E", &"x".repeat(128)] {
            assert_eq!(read(text), Ok(PathId::Text { text: text.into(), id: None }), "{text}");
        }
    }

    #[test]
    fn texts_that_are_unsafe_in_paths_are_rejected() {
        for (text, detail) in [
            (&*"x".repeat(129), "/path/ID must NOT have more than 128 characters"),
            ("café", "/path/ID must be ASCII"),
            ("a b", "/path/ID must be ASCII"),
            ("%", "/path/ID is not percent-encoded UTF-8"),
            ("%4", "/path/ID is not percent-encoded UTF-8"),
            ("%+4", "/path/ID is not percent-encoded UTF-8"),
            ("%zz", "/path/ID is not percent-encoded UTF-8"),
            ("%ff", "/path/ID is not percent-encoded UTF-8"),
            ("a%00b", "/path/ID must be an identifier"),
            ("a%0d%0ax-evil:%201", "/path/ID must be an identifier"),
            (".", "/path/ID must be an identifier"),
            ("..", "/path/ID must be an identifier"),
            ("%2e%2E", "/path/ID must be an identifier"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!((error.status, error.code), (400, ErrorCode::VALIDATION), "{text}");
            assert!(error.description.contains(detail), "{text}: {}", error.description);
        }
    }

    #[test]
    fn paths_are_written_as_they_were_received() {
        let encoded = ID.replacen('5', "%35", 1);
        for path in [
            "/participants",
            "/transfers/any%20text",
            "/authorizations/x/error",
            &format!("/quotes/{ID}"),
            &format!("/quotes/{encoded}/error"),
            "/transactionRequests/01BX5ZZKBKACTAV9WEVGEMMVRZ",
            "/parties/MSISDN/%2B26097",
            "/parties/ALIAS/error",
            "/participants/ALIAS/error/error",
            "/participants/BUSINESS/acme/shop%207",
            "/parties/BUSINESS/acme/7/error",
            "/services/FXP",
            "/services/FXP/KES/UGX",
        ] {
            let method = match path {
                "/participants" => Method::Post,
                _ if path.starts_with("/services") => Method::Get,
                _ => Method::Put,
            };
            let route = Route::resolve(Some(method), path).unwrap();
            let ids = route.segments.check(route.resource(), true).unwrap();
            let mut written = String::new();
            ids.write_path(route.resource(), route.operation.action() == Action::PutError, &mut written);
            assert_eq!(written, path);
            assert!(path.contains("/error") || ids.bytes() < path.len(), "{path}");
        }
    }

    #[test]
    fn currencies_in_paths_are_codes() {
        for (path, name) in [
            ("/services/FXP/kes/UGX", "SourceCurrency"),
            ("/services/FXP/KES/UG", "TargetCurrency"),
            ("/services/FXP/KES/%55GX", "TargetCurrency"),
            ("/services/FXP/XXY/UGX", "SourceCurrency"),
        ] {
            let route = Route::resolve(Some(Method::Get), path).unwrap();
            let error = route.segments.check(route.resource(), true).unwrap_err();
            assert_eq!((error.status, error.code), (400, ErrorCode::VALIDATION), "{path}");
            assert!(error.description.contains(&format!("/path/{name} must be equal")), "{error}");
        }
        for path in
            ["/services", "/services/LOAN", "/services/FXP/KES", "/services/FXP/KES/UGX/TZS", "/services/fxp"]
        {
            assert!(Route::resolve(Some(Method::Get), path).is_err(), "{path}");
        }
    }

    #[test]
    fn ids_of_other_families_have_their_own_rules() {
        for (resource, segment, detail) in [
            (Resource::Quotes, "x", Some("/path/ID must match pattern")),
            (Resource::Authorizations, "x", None),
            (Resource::Authorizations, "a%2Fb", None),
            (Resource::TransactionRequests, "a%2F..", Some("/path/ID must NOT have dot segments")),
        ] {
            match (PathId::read(resource, segment), detail) {
                (Ok(id), None) => assert_eq!(id.to_string(), segment),
                (Err(error), Some(detail)) => assert!(error.description.contains(detail), "{error}"),
                (other, _) => panic!("{segment}: {other:?}"),
            }
        }
    }
}
