//! Scalar rules of the schema: each converts a value of the body, or returns the violated rule.

mod quoting;

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use upesi_types::{Currency, ErrorCode, FspId, Timestamp, TransferId};

pub(crate) use self::quoting::are_digits;
use super::json::{Kind, unescape, unquote};
use super::schema::Value;
use crate::SyncError;
use crate::rules::{ID_RULE, NOT_ALLOWED};

// The schema's patterns in words. A description has too little space for most patterns, and half a pattern is useless.
const NAME_RULE: &str = "1 to 32 printable ASCII characters";
const PACKET_RULE: &str = "base64url";
const OCTETS_RULE: &str = "43 characters of base64url, no padding";
const DATE_TIME_RULE: &str = "a time that exists, such as 2031-04-01T10:00:00.000Z";
const CODE_RULE: &str = "four digits, the first not 0";

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

    /// The text. Numbers and literals count as their characters.
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
