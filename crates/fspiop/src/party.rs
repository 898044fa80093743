//! Checks parties in paths: `{Type}/{ID}[/{SubId}]`.

use alloc::borrow::Cow;
use alloc::format;

use upesi_types::{ErrorCode, TransferId};

use crate::percent::decode_segment;
use crate::rules::{ID_RULE, NOT_ALLOWED};
use crate::{Resource, SyncError};

/// Longest id, sub id or path id, in characters.
pub const PATH_ID_CHARS_MAX: usize = 128;

macro_rules! party_id_types {
    ($($name:ident = $text:literal, $doc:literal;)*) => {
        /// The type of identifier of a party (FSPIOP API v1.1 §7.5.6).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum PartyIdType {
            $(#[doc = $doc] $name,)*
        }

        impl PartyIdType {
            /// Every type, extended types last.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The text in paths and bodies, such as `MSISDN`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Reads the text, including extended types.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$name),)* _ => None }
            }
        }
    };
}

party_id_types! {
    Msisdn = "MSISDN", "A telephone number.";
    Email = "EMAIL", "An e-mail address.";
    PersonalId = "PERSONAL_ID", "A passport, driving licence and the like.";
    Business = "BUSINESS", "A business.";
    Device = "DEVICE", "A device, such as a till of a business.";
    AccountId = "ACCOUNT_ID", "A bank account or FSP account.";
    Iban = "IBAN", "An international bank account number.";
    Alias = "ALIAS", "A name chosen at the FSP.";
    Consent = "CONSENT", "A consent for payments by third parties; an extended type.";
    ThirdPartyLink = "THIRD_PARTY_LINK", "A link of an account to a third party; an extended type.";
}

/// The types that every hub supports, for error messages.
pub(crate) const PARTY_ID_TYPES: &str =
    "MSISDN, EMAIL, PERSONAL_ID, BUSINESS, DEVICE, ACCOUNT_ID, IBAN, ALIAS";

impl PartyIdType {
    /// Whether only hubs with third-party payment initiators support the type.
    pub const fn is_extended(self) -> bool {
        matches!(self, Self::Consent | Self::ThirdPartyLink)
    }
}

impl core::fmt::Display for PartyIdType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The unchecked party of a path: its segments as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartySegments<'a> {
    /// `{Type}`
    pub kind: &'a str,
    /// `{ID}`
    pub id: &'a str,
    /// `{SubId}`
    pub sub_id: Option<&'a str>,
}

/// The party of a path. The segments are percent-encoded, as received. They are used in other URLs in this form, where
/// a decoded slash or line break would change the meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartyPath<'a> {
    pub kind: PartyIdType,
    pub id: &'a str,
    /// Distinguishes parties under one identifier, for example the tills of a business.
    pub sub_id: Option<&'a str>,
}

impl<'a> PartySegments<'a> {
    /// Checks the path's schema. Call this synchronous check after the checks of the headers and the body.
    ///
    /// Errors: 400 with 3100 for
    /// - an unknown type, or an extended type if those are not supported
    /// - an id or sub id that does not have 1 to 128 characters or changes the path of a URL
    /// - an id with white space or braces
    /// - a sub id with control characters; otherwise a sub id may be any text (`PartySubIdOrType` of FSPIOP API v1.1)
    pub fn check(self, extended_types: bool) -> Result<PartyPath<'a>, SyncError> {
        let kind = PartyIdType::parse(self.kind).filter(|kind| extended_types || !kind.is_extended());
        let kind = kind.ok_or_else(|| {
            let detail = format!("/path/Type {NOT_ALLOWED}: {PARTY_ID_TYPES}");
            SyncError::new(ErrorCode::VALIDATION, &detail)
        })?;
        check_id(self.id)?;
        if let Some(sub_id) = self.sub_id {
            // Callbacks about this sub id would be mistaken for error callbacks of the id.
            if check_sub_id(sub_id)? == "error" {
                return Err(refuse("SubId", "must NOT be 'error'"));
            }
        }
        Ok(PartyPath { kind, id: self.id, sub_id: self.sub_id })
    }
}

impl<'a> PartyPath<'a> {
    /// The identifier, decoded as in bodies and directories.
    pub fn id_text(&self) -> Cow<'a, str> {
        decode_segment(self.id).unwrap_or(Cow::Borrowed(self.id))
    }

    /// The sub id, decoded.
    pub fn sub_id_text(&self) -> Option<Cow<'a, str>> {
        self.sub_id.map(|sub_id| decode_segment(sub_id).unwrap_or(Cow::Borrowed(sub_id)))
    }
}

fn refuse(name: &str, violation: &str) -> SyncError {
    SyncError::new(ErrorCode::VALIDATION, &format!("/path/{name} {violation}"))
}

/// Whether an id contains only common characters. Such a text needs no decoding and violates no rule for ids, so no
/// further check is needed.
fn is_simple(text: &str) -> bool {
    let is_simple = |byte: u8| byte.is_ascii_alphanumeric() | matches!(byte, b'-' | b'_' | b'+' | b'@');
    (1..=PATH_ID_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_simple)
}

/// Decodes an id in a path. It must be printable ASCII and decode to 1 to 128 characters. It must not contain a dot
/// segment, for receivers that decode a slash before they split a path.
fn decode_checked<'a>(name: &str, segment: &'a str) -> Result<Cow<'a, str>, SyncError> {
    if !segment.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refuse(name, "must be ASCII, with other characters percent-encoded"));
    }
    let text = decode_segment(segment).ok_or_else(|| refuse(name, "is not percent-encoded UTF-8"))?;
    if text.is_empty() {
        return Err(refuse(name, "must NOT have fewer than 1 characters"));
    }
    if text.chars().nth(PATH_ID_CHARS_MAX).is_some() {
        return Err(refuse(name, &format!("must NOT have more than {PATH_ID_CHARS_MAX} characters")));
    }
    if text.split(['/', '\\']).any(|part| matches!(part, "." | "..")) {
        return Err(refuse(name, "must NOT have dot segments"));
    }
    Ok(text)
}

fn check_id(segment: &str) -> Result<(), SyncError> {
    let has_odd = |text: &str| {
        text.contains(|character: char| is_white_space(character) || matches!(character, '{' | '}'))
    };
    if !is_simple(segment) && has_odd(&decode_checked("ID", segment)?) {
        return Err(refuse("ID", "must match pattern: no blanks and no braces"));
    }
    Ok(())
}

fn check_sub_id(segment: &str) -> Result<Cow<'_, str>, SyncError> {
    if is_simple(segment) {
        return Ok(Cow::Borrowed(segment));
    }
    let text = decode_checked("SubId", segment)?;
    if text.contains(char::is_control) {
        return Err(refuse("SubId", "must NOT have control characters"));
    }
    Ok(text)
}

/// White space as JSON schemas define it.
fn is_white_space(character: char) -> bool {
    character.is_whitespace() || character == '\u{feff}'
}

/// Checks the `{ID}` of a quote, transaction request or authorization, and returns it decoded. Call this
/// synchronous check after the checks of the headers and the body. Ids of all kinds of quotes must match the schema.
/// Other ids are judged by their receiver.
///
/// Errors: 400 with 3100 for an id that does not match the schema, has more than 128 characters or control characters,
/// or is not suitable for a path.
pub fn check_path_id(resource: Resource, segment: &str) -> Result<Cow<'_, str>, SyncError> {
    let text = decode_checked("ID", segment)?;
    if resource.is_quoting() && TransferId::parse(&text).is_none() {
        return Err(refuse("ID", &format!("must match pattern: {ID_RULE}")));
    }
    if text.contains(char::is_control) {
        return Err(refuse("ID", "must be an identifier"));
    }
    Ok(text)
}

const MSISDN_DIGITS_MAX: usize = 30;

/// The second check of a party's path, which hubs make after their 202 response. A rejection is sent as an error
/// callback.
///
/// Errors: as for [`check_party_id`].
pub fn check_party_path(party: &PartyPath<'_>) -> Result<(), SyncError> {
    check_party_id(party.kind, &party.id_text(), party.sub_id_text().as_deref())
}

/// The second check for a party in a body, for example one of a batch.
///
/// Errors: 3101 for
/// - an id or sub id that is empty, has more than 128 characters or control characters
/// - an id with white space or one of `` {}<>`\ ``
/// - a telephone number that is not 1 to 30 digits after an optional plus
/// - a text that does not have the form of an e-mail address or IBAN
pub fn check_party_id(kind: PartyIdType, id: &str, sub_id: Option<&str>) -> Result<(), SyncError> {
    let malformed = |detail: &str| Err(SyncError::new(ErrorCode::MALFORMED_SYNTAX, detail));
    if !is_plain(id) {
        return malformed("invalid party identifier");
    }
    if !sub_id.is_none_or(is_sub_id) {
        return malformed("invalid party sub-identifier");
    }
    let has_shape = match kind {
        PartyIdType::Msisdn => is_msisdn(id),
        PartyIdType::Email => is_email(id),
        PartyIdType::Iban => is_iban(id),
        _ => true,
    };
    if has_shape { Ok(()) } else { malformed(&format!("the party identifier is no {kind}")) }
}

fn is_sub_id(text: &str) -> bool {
    (1..=PATH_ID_CHARS_MAX).contains(&text.chars().count()) && !text.contains(char::is_control)
}

fn is_plain(text: &str) -> bool {
    let is_odd = |character: char| {
        character.is_control() || is_white_space(character) || "{}<>`\\".contains(character)
    };
    is_simple(text)
        || (!text.is_empty() && text.chars().count() <= PATH_ID_CHARS_MAX && !text.contains(is_odd))
}

fn is_msisdn(text: &str) -> bool {
    let digits = text.strip_prefix('+').unwrap_or(text);
    (1..=MSISDN_DIGITS_MAX).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a text is an e-mail address: a local part of at most 64 bytes without quotes, and a domain of two or more
/// labels (RFC 5321 §4.5.3.1, without rare forms).
fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let is_local = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || "!#$%&'*+/=?^_|~-".contains(c))
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_alphanumeric() || c == '-')
    };
    local.len() <= 64
        && local.split('.').all(is_local)
        && domain.contains('.')
        && domain.split('.').all(is_label)
}

/// Whether a text has the form of an IBAN: country, two check digits, and 11 to 30 letters and digits of either case
/// (ISO 13616). Check digits are not verified.
fn is_iban(text: &str) -> bool {
    let bytes = text.as_bytes();
    (15..=34).contains(&bytes.len())
        && bytes[..2].iter().all(u8::is_ascii_alphabetic)
        && bytes[2..4].iter().all(u8::is_ascii_digit)
        && bytes[4..].iter().all(u8::is_ascii_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &str, id: &str, sub_id: Option<&str>) -> Result<(), (u16, alloc::string::String)> {
        let checked = PartySegments { kind, id, sub_id }.check(false);
        checked.map(|_| ()).map_err(|error| {
            assert_eq!(error.status, 400);
            (error.code.number(), error.description)
        })
    }

    #[test]
    fn types_are_those_of_the_api() {
        for &kind in PartyIdType::ALL {
            assert_eq!(PartyIdType::parse(kind.as_str()), Some(kind));
            let segments = PartySegments { kind: kind.as_str(), id: "1", sub_id: None };
            assert!(segments.check(true).is_ok(), "{kind}");
            assert_eq!(segments.check(false).is_ok(), !kind.is_extended(), "{kind}");
        }
        for kind in ["msisdn", "NONE", "", "MSISDN%20", "CONSENT"] {
            let text = "Generic validation error - /path/Type must be equal to one of the allowed values: MSISDN, EMAIL, PERSONAL_ID, BUSINESS, DEVICE…";
            assert_eq!(check(kind, "{", None), Err((3100, text.into())), "{kind}");
        }
    }

    #[test]
    fn ids_in_paths_have_1_to_128_safe_characters() {
        let long = "%C3%A9".repeat(128);
        for id in
            ["26097", "+26097", "%2B26097", "a%40b.cd", "123456%2F78%2F1", "caf%C3%A9", "...", "a..b", &long]
        {
            assert_eq!(check("ALIAS", id, Some(id)), Ok(()), "{id}");
        }
        for (id, violation) in [
            (&*alloc::format!("{long}x"), "must NOT have more than 128 characters"),
            ("a%20b", "must match pattern: no blanks and no braces"),
            ("a%0Ab", "must match pattern: no blanks and no braces"),
            ("a%C2%A0b", "must match pattern: no blanks and no braces"),
            ("a{b", "must match pattern: no blanks and no braces"),
            ("%7D", "must match pattern: no blanks and no braces"),
            ("caf\u{e9}", "must be ASCII, with other characters percent-encoded"),
            ("a b", "must be ASCII, with other characters percent-encoded"),
            ("%", "is not percent-encoded UTF-8"),
            ("%C3", "is not percent-encoded UTF-8"),
            ("%2e%2E", "must NOT have dot segments"),
            ("..%2Fadmin", "must NOT have dot segments"),
            ("a%2F.%2Fb", "must NOT have dot segments"),
            ("a%5C..", "must NOT have dot segments"),
        ] {
            let text = |name| alloc::format!("Generic validation error - /path/{name} {violation}");
            assert_eq!(check("ALIAS", id, Some("%00")), Err((3100, text("ID"))), "{id}");
            if !violation.contains("pattern") {
                assert_eq!(check("ALIAS", "1", Some(id)), Err((3100, text("SubId"))), "{id}");
            }
        }
        for sub_id in ["error", "err%6Fr"] {
            let text = "Generic validation error - /path/SubId must NOT be 'error'";
            assert_eq!(check("ALIAS", "1", Some(sub_id)), Err((3100, text.into())));
        }
    }

    #[test]
    fn a_sub_id_may_be_any_text_of_1_to_128_characters() {
        let long = "%7B".repeat(128);
        for sub_id in [
            "DRIVING%20LICENCE",
            "a%20%7Bb%7D",
            "{till}",
            "%3Ctill%3E",
            "a%5Cb",
            "%60",
            "%C2%A07",
            "%20",
            &long,
        ] {
            assert_eq!(check("BUSINESS", "1", Some(sub_id)), Ok(()), "{sub_id}");
            let path = PartyPath { kind: PartyIdType::Business, id: "1", sub_id: Some(sub_id) };
            assert_eq!(check_party_path(&path), Ok(()), "{sub_id}");
        }
        for (sub_id, violation) in [
            (&*alloc::format!("{long}x"), "must NOT have more than 128 characters"),
            ("a%0Ab", "must NOT have control characters"),
            ("%00", "must NOT have control characters"),
            ("%7F", "must NOT have control characters"),
            ("%2e%2e", "must NOT have dot segments"),
        ] {
            let text = alloc::format!("Generic validation error - /path/SubId {violation}");
            assert_eq!(check("BUSINESS", "1", Some(sub_id)), Err((3100, text)), "{sub_id}");
        }
        for sub_id in ["", "a\tb", &"x".repeat(129)] {
            let error = check_party_id(PartyIdType::Business, "1", Some(sub_id)).unwrap_err();
            assert_eq!(error.description, "Malformed syntax - invalid party sub-identifier", "{sub_id}");
        }
        // The rule of ids is stricter, as in the practice of schemes.
        assert!(check("BUSINESS", "a%20b", None).is_err());
    }

    #[test]
    fn parties_are_compared_by_decoded_ids() {
        let segments = PartySegments { kind: "EMAIL", id: "a%40b.cd", sub_id: Some("shop%2f7") };
        let party = segments.check(false).unwrap();
        assert_eq!((party.kind, party.id, party.sub_id), (PartyIdType::Email, "a%40b.cd", Some("shop%2f7")));
        assert_eq!((&*party.id_text(), party.sub_id_text().as_deref()), ("a@b.cd", Some("shop/7")));
    }

    #[test]
    fn second_check_is_stricter() {
        use PartyIdType::{Alias, Email, Iban, Msisdn};
        let digits = "1".repeat(30);
        for (kind, id, passes) in [
            (Msisdn, "26097", true),
            (Msisdn, "+26097", true),
            (Msisdn, "%2B26097", true),
            (Msisdn, "1", true),
            (Msisdn, &digits, true),
            (Msisdn, &*alloc::format!("{digits}1"), false),
            (Msisdn, "+", false),
            (Msisdn, "++1", false),
            (Msisdn, "26-097", false),
            (Msisdn, "error", false),
            (Email, "a@b.cd", true),
            (Email, "first.last%2Bpay@mail.example.org", true),
            (Email, "a@b", false),
            (Email, "@b.cd", false),
            (Email, "a@", false),
            (Email, "a.b.cd", false),
            (Email, "a..b@c.de", false),
            (Email, "a@-b.cd", false),
            (Email, "a@b..cd", false),
            (Email, "a%2C@b.cd", false),
            (Iban, "GB82WEST12345698765432", true),
            (Iban, "gb82west12345698765432", true),
            (Iban, "NO9386011117947", true),
            (Iban, "GB82", false),
            (Iban, "8282WEST12345698765432", false),
            (Iban, "GBXXWEST12345698765432", false),
            (Iban, "GB82WEST1234569876543-", false),
            (Alias, "any-thing_goes!", true),
            (Alias, "a%3Cb", false),
            (Alias, "a%3Eb", false),
            (Alias, "a%60b", false),
            (Alias, "a%5Cb", false),
            (Alias, "a%00b", false),
            (Alias, "a%7Fb", false),
        ] {
            for sub_id in [None, Some("shop-7")] {
                let result = check_party_path(&PartyPath { kind, id, sub_id });
                assert_eq!(result.is_ok(), passes, "{kind} {id}: {result:?}");
                if let Err(error) = result {
                    assert_eq!(error.code, ErrorCode::MALFORMED_SYNTAX);
                }
            }
        }
        let party = PartyPath { kind: Msisdn, id: "1", sub_id: Some("a%00b") };
        let error = check_party_path(&party).unwrap_err();
        assert_eq!(error.description, "Malformed syntax - invalid party sub-identifier");
    }

    #[test]
    fn ids_of_paths_are_decoded_and_checked() {
        const ID: &str = "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11";
        for (segment, quoting, others) in [
            (ID, Some(ID), Some(ID)),
            ("%36f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11", Some(ID), Some(ID)),
            (
                "01ARZ3NDEKTSV4RRFFQ69G5FAV",
                Some("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
                Some("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
            ),
            ("6F3FF9D4-2F0B-4BB2-9D3A-0F3F1C6A7B11", None, Some("6F3FF9D4-2F0B-4BB2-9D3A-0F3F1C6A7B11")),
            ("any%20text", None, Some("any text")),
            ("a%00b", None, None),
            ("a%0d%0ax-evil:%201", None, None),
            ("%2e%2e", None, None),
            ("%", None, None),
            (&*"x".repeat(129), None, None),
        ] {
            for resource in [Resource::Quotes, Resource::BulkQuotes, Resource::FxQuotes] {
                assert_eq!(check_path_id(resource, segment).ok().as_deref(), quoting, "{segment}");
            }
            for resource in [Resource::TransactionRequests, Resource::Authorizations] {
                assert_eq!(check_path_id(resource, segment).ok().as_deref(), others, "{segment}");
            }
        }
        let error = check_path_id(Resource::Quotes, "x").unwrap_err();
        assert!(error.description.starts_with(
            "Generic validation error - /path/ID must match pattern: a UUID in lower case, or a ULID"
        ));
    }
}
