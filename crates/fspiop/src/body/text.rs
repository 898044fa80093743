//! Scalar rules of the schema: each converts a value of the body, or returns the violated rule.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use upesi_types::{Currency, ErrorCode, FspId, Timestamp, TransferId};

use super::json::{Kind, unescape, unquote};
use super::schema::Value;
use crate::party::PARTY_ID_TYPES;
use crate::{PartyIdType, SyncError};

// The schema's patterns in words. A description has too little space for most patterns, and half a pattern is useless.
pub(crate) const ID_RULE: &str = "a UUID in lower case, or a ULID";
const NAME_RULE: &str = "1 to 32 printable ASCII characters";
const PACKET_RULE: &str = "base64url";
const OCTETS_RULE: &str = "43 characters of base64url, no padding";
const DATE_TIME_RULE: &str = "a time that exists, such as 2031-04-01T10:00:00.000Z";
const CODE_RULE: &str = "four digits, the first not 0";

pub(crate) const NOT_ALLOWED: &str = "must be equal to one of the allowed values";
/// The allowed currencies.
pub(crate) const CURRENCIES: &str = "ISO 4217 codes such as KES";

const PACKET_CHARS_MAX: usize = 32_768;
const OCTETS_CHARS_MAX: usize = 48;
const INTEGER_DIGITS_MAX: usize = 18;
const FRACTION_DIGITS_MAX: usize = 4;

impl<'a> Value<'a, '_> {
    /// The error for a text that does not match its pattern. It states the pattern's rule in words.
    pub(crate) fn pattern(&self, rule: &str) -> SyncError {
        self.refuse(ErrorCode::VALIDATION, format_args!("must match pattern: {rule}"))
    }

    /// The text. Numbers and literals count as the characters with which they are written.
    pub(crate) fn text(&self) -> Result<Cow<'a, str>, SyncError> {
        let json = self.json();
        match self.kind() {
            Kind::Object | Kind::Array => Err(self.refuse(ErrorCode::MALFORMED_SYNTAX, "must be string")),
            Kind::Null => Ok(Cow::Borrowed("")),
            Kind::Text => Ok(Cow::Borrowed(unquote(json))),
            Kind::EscapedText => unescape(json).map(Cow::Owned).map_err(|error| {
                self.refuse(ErrorCode::MALFORMED_SYNTAX, format_args!("is not a valid text: {error}"))
            }),
            Kind::Bare => Ok(Cow::Borrowed(json)),
        }
    }

    /// A text of `min` to `max` characters.
    pub(crate) fn bounded_text(&self, min: usize, max: usize) -> Result<Cow<'a, str>, SyncError> {
        let text = self.text()?;
        // A text has at most as many characters as bytes, so only long texts need counting.
        let too_long = text.len() > max && text.chars().count() > max;
        if too_long {
            return Err(
                self.refuse(ErrorCode::VALIDATION, format_args!("must NOT have more than {max} characters"))
            );
        }
        if text.chars().take(min).count() < min {
            return Err(
                self.refuse(ErrorCode::VALIDATION, format_args!("must NOT have fewer than {min} characters"))
            );
        }
        Ok(text)
    }

    pub(crate) fn transfer_id(&self) -> Result<TransferId, SyncError> {
        TransferId::parse(&self.text()?).ok_or_else(|| self.pattern(ID_RULE))
    }

    pub(crate) fn name(&self) -> Result<FspId, SyncError> {
        FspId::parse(&self.bounded_text(1, 32)?).ok_or_else(|| self.pattern(NAME_RULE))
    }

    pub(crate) fn currency(&self) -> Result<Currency, SyncError> {
        Currency::parse(&self.text()?).ok_or_else(|| self.not_allowed(CURRENCIES))
    }

    /// The error for a text that is not one of the allowed values.
    pub(crate) fn not_allowed(&self, allowed: &str) -> SyncError {
        self.refuse(ErrorCode::VALIDATION, format_args!("{NOT_ALLOWED}: {allowed}"))
    }

    /// A decimal text in the wire form, with up to 18 digits before the point. Only amounts must not be JSON numbers,
    /// because JSON parsers read numbers differently.
    pub(crate) fn amount(&self) -> Result<Cow<'a, str>, SyncError> {
        if !matches!(self.kind(), Kind::Text | Kind::EscapedText) {
            return Err(self.refuse(ErrorCode::MALFORMED_SYNTAX, "must be string"));
        }
        let text = self.text()?;
        match amount_violation(&text) {
            None => Ok(text),
            Some(rule) => Err(self.pattern(rule)),
        }
    }

    pub(crate) fn packet(&self) -> Result<Cow<'a, str>, SyncError> {
        let text = self.bounded_text(1, PACKET_CHARS_MAX)?;
        let unpadded = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(&text);
        if unpadded.is_empty() || !all_base64url(unpadded) {
            return Err(self.pattern(PACKET_RULE));
        }
        Ok(text)
    }

    /// The base64url text of a condition or fulfilment.
    pub(crate) fn octets(&self) -> Result<Cow<'a, str>, SyncError> {
        let text = self.bounded_text(0, OCTETS_CHARS_MAX)?;
        if text.len() != crate::octets::TEXT_BYTES || !all_base64url(&text) {
            return Err(self.pattern(OCTETS_RULE));
        }
        Ok(text)
    }

    pub(crate) fn date_time(&self) -> Result<Timestamp, SyncError> {
        let text = self.text()?;
        // The schema requires years from 1000 on and offsets below 20 hours; parsing an instant does not.
        let in_schema = matches!(
            text.as_bytes(),
            [b'1'..=b'9', .., b'Z'] | [b'1'..=b'9', .., b'0' | b'1', _, b':', _, _]
        );
        let parsed = if in_schema { Timestamp::parse_iso(&text) } else { None };
        parsed.ok_or_else(|| self.pattern(DATE_TIME_RULE))
    }

    pub(crate) fn error_code(&self) -> Result<ErrorCode, SyncError> {
        let text = self.text()?;
        let plain = text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = if plain { text.parse().ok() } else { None };
        number.and_then(ErrorCode::from_number).ok_or_else(|| self.pattern(CODE_RULE))
    }
}

/// Examines every character, even after an invalid one. Without an early exit, the loop processes many characters at a
/// time, and packets are by far the longest texts.
fn all_base64url(text: &str) -> bool {
    let is_base64url = |byte: u8| byte.is_ascii_alphanumeric() | (byte == b'-') | (byte == b'_');
    text.bytes().fold(true, |all, byte| all & is_base64url(byte))
}

/// The violated rule of an amount in the wire form: up to 18 digits, and up to 4 decimal places that do not end with 0.
pub(crate) fn amount_violation(text: &str) -> Option<&'static str> {
    let (integer, fraction) = match text.split_once('.') {
        Some((integer, fraction)) => (integer, Some(fraction)),
        None => (text, None),
    };
    let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if text.starts_with(['-', '+']) {
        Some("an amount has no sign")
    } else if !are_digits(integer) || fraction.is_some_and(|part| !are_digits(part)) {
        Some("a decimal number, such as 12.5")
    } else if integer != "0" && integer.starts_with('0') {
        Some("no leading zeros, such as 12.5")
    } else if integer.len() > INTEGER_DIGITS_MAX {
        Some("up to 18 digits before the point")
    } else if fraction.is_some_and(|part| part.ends_with('0')) {
        Some("no trailing zeros, such as 12.5")
    } else if fraction.is_some_and(|part| part.len() > FRACTION_DIGITS_MAX) {
        Some("up to 4 decimal places")
    } else {
        None
    }
}

/// The values of an enumeration as text, for an error.
pub(crate) fn names<T>(values: &[(&str, T)]) -> String {
    let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

// Scalar rules that only lookup and quoting use.

const PERSON_NAME_RULE: &str = "letters, digits, blanks and . , ' - _";
const DATE_RULE: &str = "a date that exists, such as 1966-06-16";
const DEGREES_RULE: &str = "degrees in range, with up to 6 decimals";
const UNDEFINED_ENUM_RULE: &str = "1 to 32 capital letters and _";
const QUOTING_CODE_RULE: &str = "a code of 10xx, 20xx, 30xx-34xx, 40xx-44xx or 50xx-54xx";

impl<'a> Value<'a, '_> {
    /// A text for which `matches` is true. `rule` describes the condition in words.
    pub(crate) fn matching(
        &self,
        rule: &str,
        matches: impl FnOnce(&str) -> bool,
    ) -> Result<Cow<'a, str>, SyncError> {
        let text = self.text()?;
        if matches(&text) { Ok(text) } else { Err(self.pattern(rule)) }
    }

    /// The value of one of these texts.
    pub(crate) fn one_of<T: Copy>(&self, values: &[(&str, T)]) -> Result<T, SyncError> {
        let text = self.text()?;
        let found = values.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or_else(|| self.not_allowed(&names(values)))
    }

    /// Checks that the value is one of these texts.
    pub(crate) fn any_of(&self, values: &[&str]) -> Result<(), SyncError> {
        if values.contains(&&*self.text()?) { Ok(()) } else { Err(self.not_allowed(&values.join(", "))) }
    }

    /// A type of identifier. Extended types are allowed everywhere in bodies.
    pub(crate) fn party_id_type(&self) -> Result<PartyIdType, SyncError> {
        PartyIdType::parse(&self.text()?).ok_or_else(|| self.not_allowed(PARTY_ID_TYPES))
    }

    /// A name of a person. Beyond ASCII only control characters and white space are rejected, because many scripts use
    /// joining characters that are not letters.
    pub(crate) fn person_name(&self) -> Result<(), SyncError> {
        let text = self.bounded_text(1, 128)?;
        let is_fit = |character: char| match character {
            ' ' | '.' | ',' | '\'' | '-' | '_' => true,
            _ if character.is_ascii() => character.is_ascii_alphanumeric(),
            _ => !character.is_control() && !character.is_whitespace(),
        };
        if text.chars().all(is_fit) && !text.trim().is_empty() {
            return Ok(());
        }
        Err(self.pattern(PERSON_NAME_RULE))
    }

    /// An existing date, from the year 1000 on.
    pub(crate) fn date(&self) -> Result<(), SyncError> {
        self.matching(DATE_RULE, is_date).map(|_| ())
    }

    /// Degrees from `-max` to `max`, with up to six decimals.
    pub(crate) fn degrees(&self, max: u16) -> Result<(), SyncError> {
        self.matching(DEGREES_RULE, |text| is_degrees(text, max)).map(|_| ())
    }

    /// A value of an enumeration that each scheme defines itself.
    pub(crate) fn undefined_enum(&self) -> Result<(), SyncError> {
        let is_name = |text: &str| {
            (1..=32).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
        };
        self.matching(UNDEFINED_ENUM_RULE, is_name).map(|_| ())
    }

    /// An error code of the classes that quoting allows.
    pub(crate) fn quoting_error_code(&self) -> Result<ErrorCode, SyncError> {
        let code = self.error_code()?;
        if matches!(code.number() / 100, 10 | 20 | 30..=34 | 40..=44 | 50..=54) {
            return Ok(code);
        }
        Err(self.pattern(QUOTING_CODE_RULE))
    }
}

pub(crate) fn are_digits(text: &str, min: usize, max: usize) -> bool {
    (min..=max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_date(text: &str) -> bool {
    const MIDNIGHT: &[u8; 14] = b"T00:00:00.000Z";
    let mut instant = [0; 24];
    if text.len() != 10 || !text.starts_with(|first: char| ('1'..='9').contains(&first)) {
        return false;
    }
    instant[..10].copy_from_slice(text.as_bytes());
    instant[10..].copy_from_slice(MIDNIGHT);
    core::str::from_utf8(&instant).ok().and_then(Timestamp::parse_iso).is_some()
}

fn is_degrees(text: &str, max: u16) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (integer, fraction) = match unsigned.split_once('.') {
        Some((integer, fraction)) => (integer, Some(fraction)),
        None => (unsigned, None),
    };
    let is_canonical = are_digits(integer, 1, 3) && (integer == "0" || !integer.starts_with('0'));
    let Some(degrees) = integer.parse::<u16>().ok().filter(|_| is_canonical) else { return false };
    let has_fraction = fraction.is_some_and(|digits| digits.bytes().any(|digit| digit != b'0'));
    fraction.is_none_or(|digits| are_digits(digits, 1, 6))
        && (degrees < max || (degrees == max && !has_fraction))
}
